"""scontrol watch and squeue --follow: what is asked for, what is printed, and lost connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.cli.control import watch as watch_module
from pyslurm_ng.cli.control.session import Session
from pyslurm_ng.cli.control.watch import watch
from pyslurm_ng.cli.listing import event_stream, squeue_follow
from pyslurm_ng.wire.client import SlurmError

JOB = {
    "sequence": 8, "time_us": 1_700_000_000_000_000, "what": "ended", "job_id": 7, "id": "6_1",
    "uid": 5, "user": "alice", "account": "a", "partition": "main", "name": "x\x1b[2J", "state": 3,
    "nodes": "n1", "exit_code": 256,
}  # fmt: skip
NODE = {"sequence": 7, "time_us": 1_700_000_000_000_000, "what": "down", "nodes": "n[1-2]",
        "state": 1, "reason": "gone"}  # fmt: skip
BEGUN = {"sequence": 5, "is_whole": True, "audience": "all", "cluster_name": "c"}


class Controller:
    """What answers FollowEvents: each connection tells its messages, and ends."""

    def __init__(self, *connections: list[Any]) -> None:
        self.connections = list(connections)
        self.asked: list[dict[str, Any]] = []

    def stream(self, kind: str, fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.asked.append(fields)
        if not self.connections:
            raise KeyboardInterrupt
        for told in self.connections.pop(0):
            if isinstance(told, Exception):
                raise told
            yield told

    def close(self) -> None:
        """End the connection."""


def test_a_lost_connection_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when slurmctld asks to be asked again; a gap is told."""
    lost = SlurmError(Errno.SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR, "gone")
    gap = {**BEGUN, "sequence": 40, "is_whole": False}
    controller = Controller(
        [BEGUN, {"sequence": 8, "jobs": [JOB], "nodes": []}, lost],
        [{**BEGUN, "sequence": 8}, {"why": "old", "sequence": 9}],
        [gap],
    )
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(event_stream, "connect", lambda conf: controller)
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def listen() -> None:
        for told in event_stream.follow({}, {}, "x"):
            seen.append(told)

    with pytest.raises(KeyboardInterrupt):
        listen()
    assert [asked["after"] for asked in controller.asked] == [-1, 8, 9, 40]
    assert seen == [BEGUN, {"sequence": 8, "jobs": [JOB], "nodes": []}, gap]


@pytest.mark.parametrize(
    ("words", "request_fields"),
    [
        ([], {"with_jobs": True, "with_nodes": True}),
        (["jobs"], {"with_jobs": True, "filter": {"jobs": []}}),
        (["job", "1,2_[1-3]", "4"], {"with_jobs": True, "filter": {"jobs": ["1", "2_[1-3]", "4"]}}),
        (["node", "n[1-2]"], {"with_jobs": False, "with_nodes": True, "nodes": "n[1-2]"}),
    ],
)
def test_words(words: list[str], request_fields: dict[str, Any]) -> None:
    """What each word asks for."""
    assert watch_module._request(words) == request_fields


def test_unknown_words_are_refused() -> None:
    """With what is allowed."""
    with pytest.raises(SystemExit):
        watch_module._request(["everything"])


@pytest.mark.parametrize("as_json", [False, True])
def test_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """In the order of what happened; a job's name commands no terminal."""
    told = [BEGUN, {"sequence": 8, "jobs": [JOB], "nodes": [NODE]}, {**BEGUN, "is_whole": False}]
    monkeypatch.setattr(event_stream, "follow", lambda conf, request, command: iter(told))
    session = Session({"json": ""} if as_json else {}, [])
    session._conf = {}
    assert watch(session, []) == 0
    lines = capsys.readouterr().out.splitlines()
    if as_json:
        records = [json.loads(line) for line in lines]
        assert [record["kind"] for record in records] == ["begun", "node", "job", "begun"]
        assert records[2]["exit_code"] == {"return_code": 1, "signal": 0}
        return
    assert lines[0].endswith(" NodeName=n[1-2] down State=DOWN Reason=gone")
    assert "JobId=6_1 ended JobState=COMPLETED UserId=alice(5)" in lines[1]
    assert "JobName=x?[2J NodeList=n1 ExitCode=1:0" in lines[1]
    assert lines[2] == "(some events were missed)"


def test_changed_jobs_are_listed_without_a_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ids of the events; an array's limit is no part of them."""
    events = [{**JOB, "id": text} for text in ("6_[2-9%2]", "7", "7", "8_1")]
    told = [BEGUN, {"sequence": 9, "jobs": events, "nodes": []}]
    monkeypatch.setattr(squeue_follow, "follow", lambda conf, request, command: iter(told))
    shown: list[tuple[dict[str, Any], bool]] = []
    asked = {"uids": [5], "states": [0, 1], "state_flags": 4}
    code = squeue_follow.follow_jobs(
        {},
        asked,
        lambda chosen, is_first: shown.append((chosen, is_first)) or 0,  # type: ignore[func-returns-value]
        has_states=False,
        show_flags=0,
    )
    changed = {"uids": [5], "all_states": True, "jobs": ["6_[2-9]", "7", "8_1"]}
    assert code == 0 and shown == [(asked, True), (changed, False)]
