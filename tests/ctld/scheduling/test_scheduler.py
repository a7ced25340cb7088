"""When passes run, and when their starts take effect."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.preparation import NONE
from pyslurm_ng.ctld.scheduling import scheduler
from pyslurm_ng.ctld.scheduling.scheduler import Outcome, Scheduler
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sim.controller import StrictFaults
from tests.model.clusters import START_US, conf_of, submit, submit_het
from tests.world.writer_room import WriterRoom


class Room(WriterRoom):
    """A scheduler whose thread works at once and answers when the test says so."""

    def __init__(self, *, is_early: bool = True, faults: Faults | None = None) -> None:
        super().__init__()
        self.answers: list[Callable[[], None]] = []
        self.passes = 0
        self.soft = Soft(started_us=START_US)
        self.scheduler = Scheduler(
            self.writer,
            self.soft,
            self,
            plan=Planner(),
            policy=policy(conf_of()),
            prepare=NONE,
            faults=faults or StrictFaults(),
            from_thread=self.soon.append if is_early else None,
        )
        self.writer.observe(self.scheduler.applied)
        self.writer.observe(self.soft.applied)
        self.record = self.writer.record
        self.observe = self.writer.observe

    def call_later(self, delay_s: float, function: Callable[[], None], /) -> None:
        raise AssertionError("nothing in these tests waits")

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None], /) -> None:
        self.passes += 1
        outcome = work()
        self.answers.append(lambda: done(outcome))

    def end_pass(self) -> None:
        """Let the pass under way end."""
        self.answers.pop(0)()
        self.settle()

    def job(self, **request: object) -> Job:
        """A job that waits."""
        job = self.cluster.jobs[submit(self.cluster, JobRequest(**request))]
        self.scheduler.due()
        return job


def test_a_start_takes_effect_while_its_pass_goes_on() -> None:
    room = Room()
    first = room.job(nodes_min=3, flags=REQ_EXCLUSIVE)
    room.job(nodes_min=3, flags=REQ_EXCLUSIVE)
    room.settle()
    assert first.state == JobState.RUNNING
    assert first.start_priority > 0
    assert not room.soft.reason
    room.end_pass()
    assert (room.soft.jobs.started, room.soft.passes.last_started) == (1, 1)
    assert len(room.soft.reason) == 1


@pytest.mark.parametrize("is_early", [True, False])
def test_every_job_starts_once(is_early: bool) -> None:
    """Those that follow the first within the same moment wait for the end of the pass."""
    room = Room(is_early=is_early)
    jobs = [room.job() for _ in range(3)]
    room.settle()
    assert sum(job.state == JobState.RUNNING for job in jobs) == (1 if is_early else 0)
    room.end_pass()
    assert [job.state for job in jobs] == [JobState.RUNNING] * 3
    assert room.soft.jobs.started == 3


def test_components_of_a_heterogeneous_job_are_handed_over_together() -> None:
    room = Room()
    job_ids = submit_het(room.cluster, JobRequest(), JobRequest())
    room.scheduler.due()
    room.settle()
    states = [room.cluster.jobs[job_id].state for job_id in job_ids]
    assert states == [JobState.RUNNING] * 2


def test_a_launch_that_is_done_makes_no_pass_due() -> None:
    room = Room()
    job = room.job()
    room.job(nodes_min=100)
    room.settle()
    room.end_pass()
    duties = room.cluster.duties[job.batch_node_id].values()
    launched = tuple((duty.node_id, duty.duty_id) for duty in duties)
    assert [duty.kind for duty in duties] == [DutyKind.LAUNCH]
    room.record([ev.DutiesDone(room.at_us, launched)])
    room.settle()
    assert room.passes == 1


def test_a_node_that_is_clean_makes_a_pass_due() -> None:
    room = Room()
    job = room.job()
    room.job(nodes_min=100)
    room.settle()
    room.end_pass()
    room.record(job_end.complete(room.cluster, job, job_end.End(JobState.CANCELLED), room.at_us))
    room.settle()
    before = room.passes
    duties = room.cluster.duties[job.batch_node_id].values()
    done = tuple((duty.node_id, duty.duty_id) for duty in duties)
    assert [duty.kind for duty in duties] == [DutyKind.TERMINATE]
    room.record([ev.DutiesDone(room.at_us, done)])
    room.settle()
    assert room.passes == before + 1


def test_a_start_tells_what_the_job_waited_for() -> None:
    """The pass before had it; accounting keeps it."""
    room = Room()
    told: list[int] = []
    room.observe(
        lambda events: told.extend(
            event.waited_for for event in events if isinstance(event, ev.JobAllocated)
        )
    )
    main = room.cluster.partitions["main"]
    room.record([ev.PartitionUpdated(START_US, replace(main, state="DOWN"))])
    job = room.job()
    room.settle()
    room.end_pass()
    assert (job.state, told) == (JobState.PENDING, [])
    room.record([ev.PartitionUpdated(START_US, main)])
    room.scheduler.due()
    room.settle()
    room.end_pass()
    assert (job.state, told) == (JobState.RUNNING, [Reason.PartitionDown])


def wants(room: Room, job: Job, **fields: object) -> None:
    """Change what a waiting job asks for, as `scontrol update` does."""
    request = changed_request(job.request, **fields)
    room.record([ev.JobUpdated(START_US, job.job_id, {}, request)])


def test_a_job_that_was_changed_meanwhile_starts_as_it_is_now() -> None:
    """The pass planned its former request. The next pass starts it."""
    room = Room(is_early=False)
    job, other = room.job(), room.job()
    room.settle()
    wants(room, job, nodes_min=2, nodes_max=2)
    room.end_pass()
    assert (job.state, other.state) == (JobState.PENDING, JobState.RUNNING)
    room.end_pass()
    assert (job.state, len(job.nodes)) == (JobState.RUNNING, 2)


def test_a_change_that_needs_no_room_does_not_delay_a_start() -> None:
    room = Room(is_early=False)
    job = room.job()
    room.settle()
    room.record([ev.JobUpdated(START_US, job.job_id, {"nice": 5})])
    room.end_pass()
    assert job.state == JobState.RUNNING


def test_no_component_starts_beside_one_that_was_changed_meanwhile() -> None:
    room = Room(is_early=False)
    jobs = [
        room.cluster.jobs[job_id] for job_id in submit_het(room.cluster, JobRequest(), JobRequest())
    ]
    room.scheduler.due()
    room.settle()
    wants(room, jobs[1], nodes_min=2, nodes_max=2)
    room.end_pass()
    assert [job.state for job in jobs] == [JobState.PENDING] * 2
    room.end_pass()
    assert [len(job.nodes) for job in jobs] == [1, 2]


def test_a_former_plan_goes_table_by_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """To forget a long queue's takes milliseconds: messages may go between its tables."""
    monkeypatch.setattr(scheduler, "_LONG_QUEUE", 0)
    room = Room(is_early=False)
    room.job(ntasks=1, time_limit_min=1, flags=REQ_EXCLUSIVE, nodes_min=4)
    room.job(ntasks=1, time_limit_min=1, flags=REQ_EXCLUSIVE, nodes_min=4)
    room.settle()
    room.end_pass()
    former = weakref.ref(room.soft.sched_nodes)
    assert len(room.soft.reason) == 1
    room.scheduler.due()
    room.settle()
    room.answers.pop(0)()
    assert former() is not None
    turns = len(room.soon)
    room.settle()
    assert turns
    assert former() is None
