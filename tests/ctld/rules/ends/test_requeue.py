"""When a job whose run is over may run again."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.state_names import job_state
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.ends.requeue import RequeueRules, requeue_rules, requeued
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, release_fields, requeue_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.wire.query_messages import HoldJobs, RequeueJobs
from tests.ctld.rules.reason_scenarios import ID
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.callers import ROOT
from tests.world.passes import run_pass
from tests.world.site import Site

SECOND_US = 1_000_000
FAILED = int(JobFlag.REQUEUED | JobFlag.LAUNCH_FAILED)


def test_delay_is_the_administrators() -> None:
    """120 seconds, or requeue_delay; and a second, so that two runs never share one."""
    job = _running()[1]
    for line, delay_s in (("", 121), ("SchedulerParameters=requeue_delay=7\n", 8)):
        event = requeued(
            job, int(JobFlag.REQUEUED), START_US, requeue_rules(conf_of(FOUR_NODES + line))
        )
        assert event.begin_us == START_US + delay_s * SECOND_US
        assert (event.reason, event.priority) == (Reason.BeginTime, 4294967294)


def _running() -> tuple[Cluster, Job]:
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest())
    run_pass(cluster)
    return cluster, cluster.jobs[job_id]


@pytest.mark.parametrize("launches", [0, 2])
def test_launches_that_fail_wait_longer_and_longer_and_are_held(launches: int) -> None:
    """Each failed launch doubles the wait; after MaxBatchRequeue of them somebody has to look."""
    job = _running()[1]
    rules = RequeueRules(delay_s=10, launches=launches)
    waits = []
    for _ in range(launches):
        event = requeued(job, FAILED, START_US, rules)
        waits.append((event.begin_us - START_US) // SECOND_US)
        job.launch_failures = event.launch_failures
    assert waits == [11, 21][:launches]
    event = requeued(job, FAILED, START_US, rules)
    assert (event.priority, event.reason) == (0, Reason.JobHoldMaxRequeue)
    assert (event.begin_us, event.launch_failures) == (0, launches + 1)


def test_a_run_that_was_launched_resets_the_count() -> None:
    job = _running()[1]
    job.launch_failures = 5
    assert requeued(job, int(JobFlag.REQUEUED), START_US, RequeueRules()).launch_failures == 0


def test_release_forgives() -> None:
    """A released job has all its launches again; held for them it is not considered."""
    cluster, job = _running()
    apply_all(cluster, [
        ev.JobCompleting(START_US, job.job_id, JobState.FAILED, 1, 0, cluster.next_duty_id, (),
                         flags=FAILED),
        requeued(job, FAILED, START_US, RequeueRules(launches=0)),
    ])  # fmt: skip
    assert job.reason == Reason.JobHoldMaxRequeue and job.launch_failures == 1
    root = Context(conf_of(), START_US, Caller(0, 0, "root", "root", is_operator=True))
    fields = release_fields(cluster, job, root, as_user=False)
    assert isinstance(fields, dict)
    apply(cluster, ev.JobUpdated(START_US, job.job_id, fields))
    assert (job.launch_failures, job.priority, job.reason) == (0, 4294967294, Reason.NONE)


def test_a_special_exit_is_shown_as_such() -> None:
    """`scontrol requeuehold State=SpecialExit`: squeue shows SE, where the plain form shows RH."""
    job = _running()[1]
    for flags, kept in (
        (JobFlag.REQUEUED | JobFlag.REQUEUE_HOLD, JobFlag.REQUEUE_HOLD),
        (JobFlag.REQUEUED | JobFlag.REQUEUE_HOLD | JobFlag.SPECIAL_EXIT, JobFlag.SPECIAL_EXIT),
    ):
        event = requeued(job, int(flags), START_US, RequeueRules())
        assert (event.flags, event.priority, event.reason) == (kept, 0, Reason.JobHeldUser)
        assert event.reason_text == "job requeued in held state"


def test_a_special_exit_that_is_cancelled_is_shown_as_cancelled() -> None:
    cluster = cluster_of()
    job = cluster.jobs[submit(cluster, JobRequest())]
    job.flags = int(JobFlag.REQUEUE_HOLD | JobFlag.SPECIAL_EXIT)
    assert job_state(job.state, job.flags) == "SPECIAL_EXIT"
    apply(cluster, ev.JobEnded(START_US, job.job_id, JobState.CANCELLED))
    assert job_state(job.state, job.flags) == "CANCELLED"


def test_an_array_that_is_over_runs_again_as_a_whole() -> None:
    """Of several records those that are over are passed over only while others are not."""
    scene = Site()
    array = scene.job(array="1-3")
    while array.array_pending:
        scene.run_pass()
    tasks = [
        scene.cluster.jobs[job_id]
        for job_id in scene.cluster.job_index.arrays[array.job_id].values()
    ]
    root, name = scene.context(ROOT), [str(array.job_id)]
    for task in tasks:
        scene.ended(task, 0)
    decision = hold_jobs(scene.cluster, HoldJobs(ID, name), root)
    assert isinstance(decision, Decision)
    assert [error[1] for error in decision.reply.errors] == [Errno.ESLURM_JOB_FINISHED] * 3
    outcome = requeue_jobs(scene.cluster, RequeueJobs(ID, name), root)
    assert isinstance(outcome, Decision) and outcome.reply.errors == []
    scene.apply(list(outcome.events))
    assert {JobState(task.state) for task in tasks} == {JobState.PENDING}


def test_a_run_that_is_put_back_gives_back_its_licences() -> None:
    cluster = cluster_of(conf_of(FOUR_NODES + "Licenses=matlab:5\n"))
    job_id = submit(cluster, JobRequest(licenses="matlab:3"))
    run_pass(cluster)
    job = cluster.jobs[job_id]
    assert cluster.job_counts.licenses_used == {"matlab": 3}
    apply(cluster, ev.JobCompleting(START_US, job_id, JobState.CANCELLED, 0, 0, 0, (),
                                    flags=int(JobFlag.REQUEUED)))  # fmt: skip
    apply(cluster, requeued(job, int(JobFlag.REQUEUED), START_US))
    assert cluster.job_counts.licenses_used == {"matlab": 0}
    assert job.licenses_alloc == ""
