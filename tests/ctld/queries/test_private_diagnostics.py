"""PrivateData: who else asks the controller, and how much, is nobody's business."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyslurm_ng.ctld.queries.diagnostics import show_diagnostics
from pyslurm_ng.ctld.soft import CallCount
from pyslurm_ng.wire.query_messages import ShowDiagnostics
from tests.cli.reference_cluster import UIDS, caller, queue


@pytest.mark.parametrize(
    ("words", "user", "seen"),
    [
        ((), "alice", {"alice", "bob"}),
        (("jobs",), "alice", {"alice", "bob"}),
        (("users",), "alice", {"alice"}),
        (("Usage",), "alice", {"alice"}),
        (("users",), "root", {"alice", "bob"}),
    ],
)
def test_users_are_hidden(words: tuple[str, ...], user: str, seen: set[str]) -> None:
    reference = queue()
    soft = reference.soft
    for name in ("alice", "bob"):
        soft.callers[UIDS[name]] = CallCount()
        soft.limited[UIDS[name]] = 3
    conf = replace(reference.conf, private_data=words)
    answer = show_diagnostics(reference.cluster, soft, conf, ShowDiagnostics(), caller(user), 0)
    uids = {UIDS[name] for name in seen}
    assert {uid for uid, *_ in answer.users} == {uid for uid, *_ in answer.limited} == uids
