"""DebugFlags: each flag logs lines of its own, and nothing without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyslurm_ng.conf.effects.words import SLURM_WORDS
from pyslurm_ng.conf.tables.keys import PARAMETERS
from pyslurm_ng.ctld.followers.debug_log import DebugLog
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer
from pyslurm_ng.model.job import Dependency, NodeAlloc, Step
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState
from pyslurm_ng.model.trigger import Trigger
from pyslurm_ng.sched.frame.plan import NumbersByJob, Plan
from tests.model.clusters import START_US
from tests.world.logs import LineLog
from tests.world.site import Site


class Logged(Site):
    """A site whose controller has some DebugFlags, with a job that runs."""

    def __init__(self, *flags: str) -> None:
        super().__init__("Licenses=matlab:4\n")
        self.log = LineLog()
        self.debug = DebugLog(self.cluster, self.log, self.soft, flags)
        self.follow(self.debug.applied)
        self.first = self.running(licenses="matlab:2")


def step(room: Logged) -> None:
    alloc = NodeAlloc(room.first.nodes[0].node_id, 1, b"\1", 0, tasks=1)
    first = Step(0, "work", 1001, 1, 1, (alloc,), START_US)
    room.apply([ev.StepCreated(START_US, 1, first)])
    room.apply([ev.StepEnded(START_US, 1, 0, JobState.COMPLETED, 0)])


def suspend(room: Logged) -> None:
    room.apply([ev.JobSuspended(START_US, 1, 90)])


def wait(room: Logged) -> None:
    second = room.job()
    terms = (Dependency(kind="afterok", job_id=1),)
    room.apply([ev.DependencyChanged(START_US, second.job_id, terms)])


def reserve(room: Logged) -> None:
    made = Reservation("maint", START_US, START_US + 60_000_000, (0, 1))
    room.apply([ev.ReservationCreated(START_US, made), ev.ReservationDeleted(START_US, "maint")])


def trigger(room: Logged) -> None:
    down_trigger = Trigger(1, 7, 7, "ann", "/tell", ("down",))
    room.apply(
        [ev.TriggerSet(START_US, down_trigger), ev.TriggerPulled(START_US, 1, START_US, "n1")]
    )
    room.apply([ev.TriggerFired(START_US, 1)])


def buffer(room: Logged) -> None:
    room.apply([ev.BufferChanged(START_US, 1, Buffer(1)), ev.BufferChanged(START_US, 1, None)])


def one_pass(room: Logged) -> None:
    plan = Plan(priorities=NumbersByJob({1: 5, 2: 9}), tested=3)
    room.soft.planned(plan, {}, queue_length=2, took_us=70, now_us=START_US)


def ask(room: Logged) -> None:
    room.soft.count_call("ShowJobs", 1001, 60)


def nothing(room: Logged) -> None:
    """The start of the first job is enough."""


@pytest.mark.parametrize(
    ("flag", "act", "lines"),
    [
        (
            "Steps",
            step,
            [
                "STEPS: StepId=1.0 created on n3, 1 task, 1 CPU",
                "STEPS: StepId=1.0 ended: COMPLETED, status 0",
            ],
        ),
        ("Gang", suspend, ["GANG: JobId=1 suspended"]),
        ("SelectType", nothing, ["SELECT_TYPE: JobId=1 gets 1 CPU (cores 0x01), 1000 MiB on n3"]),
        ("License", nothing, ["LICENSE: JobId=1 takes matlab:2"]),
        ("Dependency", wait, ["DEPENDENCY: JobId=2 waits for 1 more term"]),
        (
            "Reservation",
            reserve,
            [
                f"RESERVATION: maint inactive from {START_US // 10**6} to "
                f"{START_US // 10**6 + 60} on n[1-2]",
                "RESERVATION: maint deleted",
            ],
        ),
        (
            "Triggers",
            trigger,
            [
                "TRIGGERS: 1 set by uid 7: down runs /tell",
                "TRIGGERS: 1 pulled by n1",
                "TRIGGERS: 1 fired",
            ],
        ),
        (
            "TraceJobs",
            suspend,
            [
                "TRACE_JOBS: JobSubmitted JobId=1 state=PENDING",
                "TRACE_JOBS: JobAllocated JobId=1 state=RUNNING",
                "TRACE_JOBS: StepCreated JobId=1 state=RUNNING",
                "TRACE_JOBS: JobSuspended JobId=1 state=SUSPENDED",
            ],
        ),
        (
            "Backfill",
            one_pass,
            [
                "BACKFILL: pass of 70 usec: 2 jobs in the queue, 0 start, 0 have an expected "
                "start, 0 preempt, 3 tests of nodes"
            ],
        ),
        (
            "BurstBuffer",
            buffer,
            [
                "BURST_BUF: burst buffer of JobId=1: pending",
                "BURST_BUF: burst buffer of JobId=1: gone",
            ],
        ),
        ("Priority", one_pass, ["PRIO: 2 jobs, highest first: JobId=2:9 JobId=1:5"]),
        ("Protocol", ask, ["PROTOCOL: ShowJobs from UID=1001 took 60 usec"]),
        ("AuditRPCs", ask, ["AUDIT_RPCS: ShowJobs from UID=1001 took 60 usec"]),
    ],
)
def test_a_flag_logs(flag: str, act: Callable[[Logged], None], lines: list[str]) -> None:
    """A flag logs its lines until it is taken back, and nothing is logged without it."""
    silent = Logged()
    act(silent)
    assert silent.log.lines == []
    room = Logged(flag)
    if act in (step, one_pass):
        room.log.lines.clear()
    act(room)
    assert room.log.lines == lines
    room.log.lines.clear()
    room.debug.adopt(())
    ask(room)
    one_pass(room)
    room.apply([ev.JobEligible(START_US, room.job().job_id)])
    assert room.log.lines == []


def test_what_backfill_starts_is_named() -> None:
    """Other starts are not."""
    room = Logged("Backfill")
    second = room.job()
    alloc = NodeAlloc(1, 1, b"\1", 0, tasks=1)
    start = ev.JobAllocated(START_US, second.job_id, "main", (alloc,), 1, 1, 40)
    room.log.lines.clear()
    lines = room.debug
    lines.applied([start])
    assert room.log.lines == []
    lines.applied([ev.JobAllocated(START_US, 2, "main", (alloc,), 1, 1, 40, "Backfill")])
    assert room.log.lines == ["BACKFILL: Started JobId=2 in main on n2"]


def test_the_flags_that_work_are_those_of_the_table() -> None:
    """Each of them has a case above."""
    cases = next(mark for mark in test_a_flag_logs.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    tested = {case[0].lower() for case in cases.args[1]}
    known = next(key.choices for key in PARAMETERS if key.name == "DebugFlags")
    assert SLURM_WORDS["DebugFlags"].same == tested <= {name.lower() for name in known}


def test_soft_state_has_no_listener_without_flags() -> None:
    """A pass and a request cost nothing more."""
    soft = Soft(started_us=0)
    DebugLog(Site().cluster, LineLog(), soft, ("Steps",))
    assert soft.on_pass is None and soft.on_call is None
