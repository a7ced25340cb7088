"""A job that is requeued while its nodes still clean up waits already, to its user."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.ends import requeue
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, requeue_jobs
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.events import DutiesDone
from pyslurm_ng.model.job import Job, JobRequest, is_completing
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.query_messages import HoldJobs, RequeueJobs, UpdateJob
from tests.model.clusters import START_US, cluster_of, conf_of, submit

CONF = conf_of()
ROOT = Caller(uid=0, gid=0, user_name="root", group_name="root", is_operator=True, is_admin=True)
SECOND_US = 1_000_000
LATER_US = START_US + 10 * SECOND_US


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of(CONF)


@pytest.fixture
def job(cluster: Cluster) -> Job:
    """Job 1: it ran, was requeued by hand, and its node has not reported the end yet."""
    requeued = cluster.jobs[submit(cluster, JobRequest(), requeue=True)]
    for start in Planner()(snapshot(cluster, START_US), policy(CONF)).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    request = RequeueJobs(request_id=bytes(16), jobs=[str(requeued.job_id)])
    outcome = requeue_jobs(cluster, request, Context(CONF, START_US + 5 * SECOND_US, ROOT))
    assert isinstance(outcome, Decision)
    apply_all(cluster, list(outcome.events))
    assert is_completing(requeued)
    return requeued


def steer(cluster: Cluster, job: Job, **settings: str) -> object:
    request = UpdateJob(request_id=bytes(16), settings=settings, jobs=[str(job.job_id)])
    outcome = update_job(cluster, request, Context(CONF, LATER_US, ROOT))
    assert isinstance(outcome, Decision)
    apply_all(cluster, list(outcome.events))
    assert check(cluster) == []
    return outcome.reply


def hold(cluster: Cluster, job: Job, release: bool) -> None:
    request = HoldJobs(request_id=bytes(16), jobs=[str(job.job_id)], release=release)
    outcome = hold_jobs(cluster, request, Context(CONF, LATER_US, ROOT))
    assert isinstance(outcome, Decision)
    apply_all(cluster, list(outcome.events))


def cleaned(cluster: Cluster, job: Job) -> Job:
    """The node has reported; a second has gone by since the last command."""
    now_us = LATER_US + SECOND_US
    done = tuple((node_id, duty) for node_id, of in cluster.duties.items() for duty in of)
    apply_all(cluster, [DutiesDone(now_us, done)])
    apply_all(cluster, [requeue.requeued(job, job.flags, now_us)])
    assert check(cluster) == []
    assert job.state == JobState.PENDING
    return job


def test_it_waits_for_a_while(cluster: Cluster, job: Job) -> None:
    """Two minutes and a second, as with Slurm."""
    assert cleaned(cluster, job).begin_us == LATER_US + 122 * SECOND_US
    assert job.reason == Reason.BeginTime


def test_a_start_time_given_now_counts(cluster: Cluster, job: Job) -> None:
    """`scontrol update StartTime=now`: the command names whole seconds, so perhaps one before."""
    steer(cluster, job, starttime=str(LATER_US - SECOND_US // 2))
    assert (cleaned(cluster, job).begin_us, job.reason) == (0, Reason.NONE)
    assert job.eligible_us == LATER_US + SECOND_US


def test_other_settings_are_those_of_the_next_run(cluster: Cluster, job: Job) -> None:
    """The request is kept over the requeue."""
    steer(cluster, job, comment="again", numnodes="2")
    assert (cleaned(cluster, job).request.nodes_min, job.comment) == (2, "again")


def test_a_hold_takes_effect_and_can_be_taken_back(cluster: Cluster, job: Job) -> None:
    """Held once its nodes are free."""
    hold(cluster, job, release=False)
    hold(cluster, job, release=True)
    hold(cluster, job, release=False)
    assert (cleaned(cluster, job).priority, job.reason) == (0, Reason.JobHeldUser)


def test_a_priority_is_refused_while_the_job_cleans_up(cluster: Cluster, job: Job) -> None:
    """It is computed when the job waits again, so the setting would be lost."""
    reply = steer(cluster, job, priority="5")
    assert str(int(Errno.ESLURM_TRANSITION_STATE_NO_UPDATE)) in str(reply)
