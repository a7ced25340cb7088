"""Health and metrics of slurmd and slurmdbd by HTTP."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.daemon_pages import NO_METRICS, DaemonPages, server_lines
from pyslurm_ng.wire.http import HttpAnswer, HttpRequest


def asked(path: str, uid: int = -1, **words: Any) -> HttpAnswer:
    """Return the answer to a request by TCP, or of a uid on the Unix socket."""
    settings = {"why": "", "is_on": True, "is_private": False, **words}
    pages = DaemonPages(
        lambda: ["x 1"],
        why_not_ready=lambda: settings["why"],
        is_on=lambda: settings["is_on"],
        is_private=lambda: settings["is_private"],
        privileged=(0, 64030),
    )
    answers: list[HttpAnswer] = []
    peer = Peer(uid, uid, 1, "user", "h", "h", "unix") if uid >= 0 else None
    pages.respond(HttpRequest("GET", path, {}, peer), answers.append)
    (answer,) = answers
    return answer


@pytest.mark.parametrize(
    ("path", "words", "status", "body"),
    [
        ("/livez", {"is_private": True}, 204, b""),
        ("/healthz", {}, 204, b""),
        ("/readyz", {}, 204, b""),
        ("/readyz", {"why": "no controller"}, 503, b"no controller\n"),
        ("/metrics", {}, 200, b"x 1\n"),
        ("/metrics/", {}, 200, b"x 1\n"),
        ("/metrics", {"is_on": False}, 404, NO_METRICS.body),
        ("/", {"is_on": False}, 404, b"there is no such page\n"),
        ("/metrics", {"is_private": True}, 403, b"Access/permission denied\n"),
        ("/metrics", {"is_private": True, "uid": 1000}, 403, b"Access/permission denied\n"),
        ("/metrics", {"is_private": True, "uid": 64030}, 200, b"x 1\n"),
        ("/", {}, 404, b"there is no such page\n"),
    ],
)
def test_who_is_answered_what(path: str, words: dict[str, Any], status: int, body: bytes) -> None:
    """Health is for everybody; private numbers are for root and SlurmUser."""
    assert asked(path, **words) == HttpAnswer(status, body)


def test_families_have_their_kind_and_escaped_labels() -> None:
    """Names of faults are ours, but nothing in a label may end it."""
    lines = server_lines("p", {"open_calls": 3}, Counter({'a"b': 2}), {"Ping": 5}, {})
    assert "p_open_calls 3" in lines and 'p_requests_total{request="Ping"} 5' in lines
    assert 'p_requests_refused_total{cause="a\\"b"} 2' in lines
    assert "# TYPE p_faults_total counter" in lines
