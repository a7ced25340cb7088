"""Heterogeneous jobs: one submission, and how their components end."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.base.numbers import REQ_HOLD
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.ends import het, job_end
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, requeue_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, JobRequest, is_completing
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.wire.query_messages import CancelJobs, Cancelled, HoldJobs, JobFilter, RequeueJobs
from tests.model.clusters import START_US
from tests.world.callers import ROOT
from tests.world.site import Site

MINUTE_US = 60_000_000


class Room(Site):
    """A site with one heterogeneous job of alice: two nodes of one task each, and a GPU."""

    def __init__(self, *requests: JobRequest, more: str = "") -> None:
        super().__init__(more)
        parts = requests or (JobRequest(), JobRequest(nodes_min=2), JobRequest(partition="gpu"))
        outcome = self.submit_parts(*parts)
        assert isinstance(outcome, Decision), outcome
        self.leader: int = outcome.reply.job_id  # type: ignore[union-attr]

    def start(self) -> None:
        """Plan and start the job."""
        self.run_pass()

    def follow(self, *, whole: bool = False) -> list[ev.AnyEvent]:
        """Let the ends of components do their work; nothing is left to do after that."""
        events = het.follow(self.cluster, self.leader, self.now_us, whole=whole)
        if events:
            self.apply(events)
        assert not het.follow(self.cluster, self.leader, self.now_us, whole=whole)
        return events

    @property
    def parts(self) -> list[Job]:
        """The components."""
        return [self.cluster.jobs[self.leader + offset] for offset in range(3)]

    def cancel(self, name: str) -> Cancelled:
        """Run scancel as root."""
        request = CancelJobs(request_id=bytes(16), filter=JobFilter(jobs=[name]))
        outcome = cancel_jobs(self.cluster, request, self.context(ROOT))
        assert isinstance(outcome, Decision) and isinstance(outcome.reply, Cancelled)
        self.apply(list(outcome.events))
        return outcome.reply

    def clean(self) -> None:
        """Let the nodes do what they owe for components that complete; the last one ends them."""
        for job in self.parts:
            if not is_completing(job):
                continue
            node_ids = job.nodes_pending
            done = tuple(
                (node_id, duty.duty_id)
                for node_id in node_ids
                for duty in self.cluster.duties.get(node_id, {}).values()
                if duty.job_id == job.job_id
            )
            if done:
                self.apply([ev.DutiesDone(self.now_us, done)])
            if is_completing(job):
                state = JobState(job.state)
                self.apply(
                    job_end.finish(self.cluster, job, state, job.exit_code, job.flags, self.now_us)
                )


def test_ids_follow_one_another_and_the_answer_names_the_leader() -> None:
    room = Room()
    assert [(job.het_job_id, job.het_offset) for job in room.parts] == [(1, 0), (1, 1), (1, 2)]
    assert [job.job_id for job in room.parts] == [1, 2, 3]
    assert len({job.script_hash for job in room.parts}) == 1


def test_one_component_refused_refuses_all() -> None:
    room = Room()
    before = len(room.cluster.jobs)
    outcome = room.submit_parts(JobRequest(), JobRequest(partition="nowhere"))
    assert isinstance(outcome, Reject)
    assert outcome.code == Errno.ESLURM_INVALID_PARTITION_NAME
    assert len(room.cluster.jobs) == before


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (JobRequest(array="1-3"), Errno.ESLURM_INVALID_ARRAY),
        (JobRequest(reservation="weekend"), Errno.ESLURM_RESERVATION_INVALID),
    ],
)
def test_arrays_and_absent_reservations_are_refused(other: JobRequest, code: int) -> None:
    outcome = Room().submit_parts(JobRequest(), other)
    assert isinstance(outcome, Reject) and outcome.code == code


def test_submission_counts_all_components_against_limits() -> None:
    """MaxJobCount leaves room for two: a job of three waits outside."""
    room = Room(more="MaxJobCount=5")
    refused = room.submit_parts(JobRequest(), JobRequest(), JobRequest())
    assert isinstance(refused, Reject) and refused.code == 11
    assert isinstance(room.submit_parts(JobRequest(), JobRequest()), Decision)


def test_hold_and_begin_of_one_component_are_the_jobs() -> None:
    room = Room(JobRequest(), JobRequest(flags=REQ_HOLD), JobRequest(begin_us=START_US + MINUTE_US))
    assert {job.priority for job in room.parts} == {0}
    assert {job.begin_us for job in room.parts} == {START_US + MINUTE_US}
    request = HoldJobs(request_id=bytes(16), jobs=["1+1"], release=True)
    outcome = hold_jobs(room.cluster, request, Context(room.conf, room.now_us, ROOT))
    assert isinstance(outcome, Decision)
    room.apply(list(outcome.events))
    assert all(job.priority for job in room.parts)


def test_waiting_components_are_cancelled_with_their_leader() -> None:
    """One of them alone cannot go, as in Slurm: the job would never be whole again."""
    room = Room()
    refused = room.cancel("1+1")
    assert refused.errors == [
        ("1+1", Errno.ESLURM_NOT_WHOLE_HET_JOB, error_text(Errno.ESLURM_NOT_WHOLE_HET_JOB))
    ]
    assert {job.state for job in room.parts} == {JobState.PENDING}
    room.cancel("1+0")
    assert {job.state for job in room.parts} == {JobState.CANCELLED}
    assert not room.follow()


def test_one_component_means_all_with_whole_hetjob() -> None:
    """A word of SchedulerParameters; waiting or running, as in Slurm 22.05."""
    room = Room(more="SchedulerParameters=whole_hetjob")
    assert not room.cancel("1+1").errors
    assert {job.state for job in room.parts} == {JobState.CANCELLED}
    assert het.is_whole(room.conf) and not het.is_whole(Room().conf)


def test_running_component_cancelled_alone_leaves_the_others() -> None:
    """With whole_hetjob it does not."""
    room = Room()
    room.start()
    room.cancel("1+2")
    room.follow()
    assert [is_completing(job) for job in room.parts] == [False, False, True]
    room.follow(whole=True)
    assert all(is_completing(job) for job in room.parts)


def test_the_leaders_end_is_the_end_of_all() -> None:
    room = Room()
    room.start()
    leader = room.parts[0]
    room.apply(
        job_end.complete(
            room.cluster, leader, job_end.End(JobState.FAILED, exit_code=3 << 8), room.now_us
        )
    )
    room.follow()
    assert {(job.state, job.exit_code) for job in room.parts} == {(JobState.FAILED, 3 << 8)}
    assert all(is_completing(job) for job in room.parts)
    room.clean()
    assert all(job.job_id in room.cluster.job_index.ended for job in room.parts)


def test_time_limit_of_one_component_ends_all() -> None:
    room = Room(JobRequest(), JobRequest(time_limit_min=5), JobRequest())
    room.start()
    room.now_us += 6 * MINUTE_US
    room.apply(timers.time_limits(room.cluster, room.conf, room.now_us))
    room.follow()
    assert {job.state for job in room.parts} == {JobState.TIMEOUT}
    assert {job.reason for job in room.parts} == {Reason.TimeLimit}


def test_lost_node_requeues_all_components() -> None:
    """They wait again together, and start again together."""
    room = Room()
    room.start()
    node_id = room.parts[2].nodes[0].node_id
    room.apply(nodes_down(room.cluster, (node_id,), "gone", room.now_us))
    room.follow()
    assert all(job.flags & JobFlag.REQUEUED or not job.nodes for job in room.parts)
    room.clean()
    assert {job.state for job in room.parts} == {JobState.PENDING}
    assert {job.attempt for job in room.parts} == {1}


def test_requeue_of_one_component_requeues_all() -> None:
    room = Room()
    room.start()
    request = RequeueJobs(request_id=bytes(16), jobs=["1+1"], hold=True)
    outcome = requeue_jobs(room.cluster, request, Context(room.conf, room.now_us, ROOT))
    assert isinstance(outcome, Decision)
    room.apply(list(outcome.events))
    room.follow()
    room.clean()
    assert {(job.state, job.priority) for job in room.parts} == {(JobState.PENDING, 0)}


def test_controller_that_stopped_between_two_ends_goes_on_where_it_was() -> None:
    """Requeued by its own nodes while the rest still runs: the rest follows after a restart."""
    room = Room()
    room.start()
    leader = room.parts[0]
    room.apply(
        job_end.complete(
            room.cluster,
            leader,
            job_end.End(JobState.CANCELLED, flags=JobFlag.REQUEUED),
            room.now_us,
        )
    )
    room.clean()
    assert leader.state == JobState.PENDING
    assert room.follow()
    room.clean()
    assert {job.state for job in room.parts} == {JobState.PENDING}
