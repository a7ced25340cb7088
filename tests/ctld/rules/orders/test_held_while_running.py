"""hold and release of jobs that run: they go on, and are held when they are requeued."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.nodes import reports
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, requeue_jobs, suspend_jobs
from pyslurm_ng.ctld.rules.orders.top import top_jobs
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import HoldJobs, RequeueJobs, SuspendJobs, TopJobs, UpdateJob
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site


def errors(scene: Site, decision: object) -> list[int]:
    """Apply what was decided; return the numbers of what is refused."""
    assert not isinstance(decision, Reject)
    scene.apply(decision.events)  # type: ignore[attr-defined]
    return [code for _, code, _ in decision.reply.errors]  # type: ignore[attr-defined]


def hold(scene: Site, job: Job, who: Caller = ROOT, **more: bool) -> list[int]:
    """Hold or release a job."""
    request = HoldJobs(bytes(16), [str(job.job_id)], **more)  # type: ignore[arg-type]
    return errors(scene, hold_jobs(scene.cluster, request, scene.context(who)))


def update(scene: Site, job: Job, who: Caller = ROOT, **settings: str) -> list[int]:
    """Change a job."""
    request = UpdateJob(bytes(16), settings, [str(job.job_id)])
    return errors(scene, update_job(scene.cluster, request, scene.context(who)))


def requeue(scene: Site, job: Job, who: Caller = ROOT) -> None:
    """Requeue a running job, whose nodes then report that they are clean."""
    request = RequeueJobs(bytes(16), [str(job.job_id)])
    assert errors(scene, requeue_jobs(scene.cluster, request, scene.context(who))) == []
    for node_id in list(job.nodes_pending):
        (duty,) = (
            duty.duty_id
            for duty in scene.cluster.duties[node_id].values()
            if duty.kind == DutyKind.TERMINATE
        )
        report = nm.JobTerminated(job.job_id, job.attempt, duty)
        scene.apply(reports.judge(scene.cluster, node_id, report, scene.conf, scene.now_us))


@pytest.mark.parametrize(
    ("who", "as_user", "reason"),
    [
        (ROOT, False, Reason.JobHeldAdmin),
        (ROOT, True, Reason.JobHeldUser),
        (ALICE, False, Reason.JobHeldUser),
    ],
)
def test_a_running_job_that_is_held_waits_after_its_requeue(
    who: Caller, as_user: bool, reason: Reason
) -> None:
    """It runs on, shown with priority 0 and the reason. After the requeue it does not start."""
    scene = Site()
    job = scene.running()
    assert hold(scene, job, who, as_user=as_user) == []
    assert (job.state, job.priority, job.reason) == (JobState.RUNNING, 0, reason)
    requeue(scene, job)
    assert (job.state, job.priority, job.reason) == (JobState.PENDING, 0, reason)


@pytest.mark.parametrize(
    ("who", "as_user", "expected"),
    [
        (ROOT, True, Reason.JobHeldUser),
        (ROOT, False, Reason.JobHeldAdmin),
        (ALICE, False, Reason.JobHeldAdmin),
    ],
)
def test_an_administrator_turns_a_hold_into_the_users(
    who: Caller, as_user: bool, expected: Reason
) -> None:
    """`scontrol uhold` after `hold`: from then on its user may release it, as in Slurm."""
    scene = Site()
    job = scene.running()
    assert hold(scene, job) == []
    assert hold(scene, job, who, as_user=as_user) == []
    assert job.reason == expected


def test_a_release_while_it_runs_ends_the_hold() -> None:
    """The job has its former priority, and waits for nothing after a requeue but its delay."""
    scene = Site()
    job = scene.running()
    started_with = job.start_priority
    hold(scene, job)
    assert hold(scene, job, release=True) == []
    assert (job.priority, job.reason, job.start_priority) == (NO_VAL, Reason.NONE, started_with)
    requeue(scene, job)
    assert (job.priority, job.reason) == (NO_VAL, Reason.BeginTime)


def test_a_user_cannot_end_an_administrators_hold_by_way_of_a_run() -> None:
    """Neither while the job runs nor when it waits again."""
    scene = Site()
    job = scene.running()
    hold(scene, job)
    assert hold(scene, job, ALICE, release=True) == [Errno.ESLURM_ACCESS_DENIED]
    requeue(scene, job, ALICE)
    assert hold(scene, job, ALICE, release=True) == [Errno.ESLURM_ACCESS_DENIED]
    assert job.reason == Reason.JobHeldAdmin
    assert hold(scene, job, BOB) == [Errno.ESLURM_USER_ID_MISSING]


def test_the_priority_of_a_running_job_may_be_set() -> None:
    """0 holds it; another number is refused as long as it is held, as of a waiting job."""
    scene = Site()
    job = scene.running()
    assert update(scene, job, priority="70") == []
    assert job.priority == 70
    assert update(scene, job, ALICE, priority="80") == [Errno.ESLURM_ACCESS_DENIED]
    assert update(scene, job, priority="0") == []
    assert (job.priority, job.reason) == (0, Reason.JobHeldAdmin)
    assert update(scene, job, priority="100") == [Errno.ESLURM_JOB_HELD]


def test_keys_that_mean_nothing_once_a_job_runs() -> None:
    """Deadline, TimeMin and a throttle of no array change nothing; WCKey is refused."""
    scene = Site()
    job = scene.running()
    before = job.request
    for key, value in (("deadline", "1"), ("timemin", "5"), ("arraytaskthrottle", "3")):
        assert update(scene, job, **{key: value}) == []
        assert job.request == before
    assert update(scene, job, ALICE, deadline="1") == [Errno.ESLURM_ACCESS_DENIED]
    assert update(scene, job, wckey="fish") == [Errno.ESLURM_JOB_NOT_PENDING]


def test_suspending_twice_and_resuming_what_waits() -> None:
    """A second suspend is no error; a job that waits is not resumed, nor moved while it is held."""
    scene = Site()
    job, held_job = scene.running(), scene.waiting(priority=0)

    def steer(job: Job, resume: bool = False) -> list[int]:
        request = SuspendJobs(bytes(16), [str(job.job_id)], resume=resume)
        return errors(scene, suspend_jobs(scene.cluster, request, scene.context(ROOT)))

    assert steer(job) == []
    since_us = job.suspend_us
    scene.now_us += 1_000_000
    assert steer(job) == []
    assert (job.state, job.suspend_us) == (JobState.SUSPENDED, since_us)
    assert steer(held_job, resume=True) == [Errno.ESLURM_JOB_PENDING]
    request = TopJobs(bytes(16), [str(held_job.job_id)])
    assert errors(scene, top_jobs(scene.cluster, request, scene.context(ROOT))) == [
        Errno.ESLURM_JOB_HELD
    ]


def test_requeue_incomplete_passes_waiting_jobs_over() -> None:
    """It is for jobs that have begun and not ended; by itself a waiting one is refused."""
    scene = Site()
    job = scene.job(begin_us=scene.now_us + 10**9)
    request = RequeueJobs(bytes(16), [str(job.job_id)])
    refusals = errors(scene, requeue_jobs(scene.cluster, request, scene.context(ROOT)))
    assert refusals == [Errno.ESLURM_JOB_PENDING]
    request = RequeueJobs(bytes(16), [str(job.job_id)], incomplete=True)
    assert errors(scene, requeue_jobs(scene.cluster, request, scene.context(ROOT))) == []
