"""RELIABILITY 46: no user fills the state disk with changes; others and ends need not wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pyslurm_ng.base.numbers import REQ_STEPMGR
from pyslurm_ng.ctld.journal_shares import AT_ONCE_BYTES, BYTES_PER_S, JournalShares
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import about_bytes, encode_batch
from pyslurm_ng.model.job import JobRequest, Step
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.wire import node_messages as nm
from tests.ctld.nodes.sender_room import SenderRoom
from tests.model.clusters import START_US

ALICE = Caller(uid=1001, gid=1001, user_name="alice")
BOB = Caller(uid=1002, gid=1002, user_name="bob")
OPERATOR = Caller(uid=1003, gid=1003, user_name="op", is_operator=True)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_user_that_writes_much_waits_and_others_do_not() -> None:
    clock = Clock()
    shares = JournalShares(clock)
    for _ in range(AT_ONCE_BYTES // 1_000_000):
        assert not shares.refusal("UpdateJob", ALICE)
        shares.wrote(ALICE, 1_000_000)
    shares.wrote(ALICE, 2_000_000)
    assert "uid 1001 has more than 2 MiB of changes a second" in shares.refusal("SubmitJob", ALICE)
    assert not shares.refusal("SubmitJob", BOB)
    for kind in ("CancelJobs", "CompleteJob", "CompleteStep", "ShowJobs", "ExplainJob"):
        assert not shares.refusal(kind, ALICE)
    clock.now_s += 2
    assert not shares.refusal("SubmitJob", ALICE)


def test_in_the_long_run_a_user_writes_no_more_than_the_rate() -> None:
    """However large single requests are."""
    clock = Clock()
    shares = JournalShares(clock)
    written = 0
    for _ in range(36_000):
        clock.now_s += 0.1
        if not shares.refusal("UpdateJob", ALICE):
            shares.wrote(ALICE, 4 << 20)
            written += 4 << 20
    assert written <= AT_ONCE_BYTES + 3600 * BYTES_PER_S + (4 << 20)
    assert written >= 3600 * BYTES_PER_S


def test_operators_do_not_wait() -> None:
    shares = JournalShares(Clock())
    shares.wrote(OPERATOR, 10 * AT_ONCE_BYTES)
    assert not shares.refusal("UpdateJob", OPERATOR)


@pytest.mark.parametrize(
    "event",
    [
        ev.JobUpdated(5, 1, {"comment": "x" * 60_000}, JobRequest(comment="x" * 60_000)),
        ev.StepCreated(5, 1, Step(0, "n" * 1000, 1001, 1, 1, (), 5, submit_line="s" * 50_000)),
    ],
)
def test_long_texts_are_counted(event: ev.AnyEvent) -> None:
    """What is counted must not be much less than what is written."""
    assert about_bytes(event) >= 0.9 * len(encode_batch([event]))


def test_steps_of_a_step_manager_count_for_the_users_share(tmp_path: Path) -> None:
    """Eight jobs on one node added 5 MB a second by steps with long texts, past every share."""
    room = SenderRoom(tmp_path)
    room.register("n1")
    room.sync()
    job = room.cluster.jobs[room.start_job()]
    job.request = replace(whole_request(job.request), flags=REQ_STEPMGR)
    counted: list[tuple[int, int]] = []
    room.writer.wrote = lambda caller, size: counted.append((caller.uid, size))
    step = Step(0, "long", job.uid, 1, 1, job.nodes, START_US, submit_line="x" * 60_000)
    name = room.cluster.node(job.batch_node_id).spec.name
    room.register(name)
    news = nm.encode_news([nm.StepNews(0, step)])
    reports = nm.NodeReports([nm.ManagedSteps(job.job_id, job.attempt, news)])
    room.say(name, reports)
    assert 0 in job.steps
    room.say(name, reports)  # the same once more
    ((uid, size),) = counted
    assert uid == job.uid and size > 60_000
