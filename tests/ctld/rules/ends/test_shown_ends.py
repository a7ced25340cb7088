"""Ends and waits as Slurm's users see them: deadlines, dependencies that failed, lost nodes."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import REQ_HOLD, REQ_KILL_INVALID_DEP
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.ends import job_end, node_loss
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.events import DependencyChanged, JobEnded, JobUpdated, StepEnded
from pyslurm_ng.model.job import Dependency, Job, JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.query_messages import HoldJobs
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.site import Site

CONF = conf_of()
ALICE = Caller(uid=1001, gid=1001, user_name="alice", group_name="alice")
SECOND_US = 1_000_000


def tick(cluster: Cluster, now_us: int) -> None:
    apply_all(cluster, timers.due(cluster, CONF, {}, now_us))
    assert check(cluster) == []


def test_a_waiting_job_ends_when_its_deadline_cannot_be_kept() -> None:
    """It needs a minute, and from the eleventh second on there is less."""
    cluster = cluster_of(CONF)
    request = JobRequest(deadline_us=START_US + 70 * SECOND_US, time_limit_min=1)
    job = cluster.jobs[submit(cluster, request, time_limit_min=1)]
    tick(cluster, START_US + 10 * SECOND_US)
    assert job.state == JobState.PENDING
    tick(cluster, START_US + 11 * SECOND_US)
    assert (job.state, job.reason, job.exit_code) == (JobState.DEADLINE, Reason.DeadLine, 1)
    assert cluster.job_index.with_deadline == {}


def test_the_shortest_time_it_accepts_decides_whether_a_deadline_can_be_kept() -> None:
    """--time-min lets a job start later than its limit would."""
    cluster = cluster_of(CONF)
    request = JobRequest(deadline_us=START_US + 600 * SECOND_US, time_min_min=1)
    job = cluster.jobs[submit(cluster, request, time_limit_min=60)]
    tick(cluster, START_US + 500 * SECOND_US)
    assert job.state == JobState.PENDING


def dependent(cluster: Cluster, flags: int = 0) -> tuple[Job, Job]:
    """A job and another that needs its success."""
    first = submit(cluster, JobRequest())
    second = submit(cluster, JobRequest(flags=flags))
    apply(cluster, DependencyChanged(START_US, second, (Dependency("afterok", first),)))
    return cluster.jobs[first], cluster.jobs[second]


def fail(cluster: Cluster, job: Job) -> None:
    apply(cluster, JobEnded(time_us=START_US, job_id=job.job_id, state=JobState.FAILED))
    apply_all(cluster, dependency.after_end(cluster, job, JobState.FAILED, 256, START_US))
    assert check(cluster) == []


def test_a_dependency_that_failed_is_marked() -> None:
    """squeue shows `afterok:1(failed)` then."""
    cluster = cluster_of(CONF)
    first, second = dependent(cluster)
    fail(cluster, first)
    assert second.dependencies == (Dependency("afterok", first.job_id, state=2),)
    assert second.reason == Reason.DependencyNeverSatisfied


def test_a_job_killed_for_its_dependency_shows_which_failed() -> None:
    """--kill-on-invalid-dep."""
    cluster = cluster_of(CONF)
    first, second = dependent(cluster, REQ_KILL_INVALID_DEP)
    fail(cluster, first)
    assert second.state == JobState.CANCELLED
    assert [term.state for term in second.dependencies] == [2]


def test_a_job_submitted_held_is_eligible_from_its_release_on() -> None:
    """Age counts from then; until then EligibleTime is unknown."""
    cluster = cluster_of(CONF)
    message = SubmitJob(bytes(16), JobRequest(flags=REQ_HOLD), b"#!/bin/sh\n")
    outcome = submit_job(cluster, message, Context(CONF, START_US, ALICE))
    assert isinstance(outcome, Decision)
    apply_all(cluster, list(outcome.events))
    (job,) = cluster.jobs.values()
    tick(cluster, START_US + SECOND_US)
    assert job.eligible_us == 0
    later_us = START_US + 2 * SECOND_US
    released = hold_jobs(
        cluster,
        HoldJobs(request_id=bytes(16), jobs=str(job.job_id), release=True),
        Context(CONF, later_us, ALICE),
    )
    assert isinstance(released, Decision)
    apply_all(cluster, list(released.events))
    assert (job.eligible_us, job.accrue_us) == (later_us, later_us)
    assert check(cluster) == []


def test_the_end_of_a_script_on_a_lost_node_is_unknown() -> None:
    """sacct shows no exit code for the step and 1:0 for the job."""
    cluster = cluster_of(CONF)
    job = cluster.jobs[submit(cluster, JobRequest(node_list="n1"), requeue=False)]
    for start in Planner()(snapshot(cluster, START_US), policy(CONF)).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    events = node_loss.nodes_down(cluster, (0,), "power supply", START_US)
    assert [event.exit_code for event in events if isinstance(event, StepEnded)] == [-1]
    apply_all(cluster, events)
    assert (job.state, job.exit_code, job.failed_node) == (JobState.NODE_FAIL, 1, "n1")
    assert check(cluster) == []


def test_fifty_thousand_wait_for_one() -> None:
    """RELIABILITY 54b: all are judged in one decision, whose work grows with their number only."""
    cluster = cluster_of(CONF)
    first = submit(cluster, JobRequest())
    count = 50_000
    for _ in range(count):
        waiting = submit(cluster, JobRequest())
        terms = (Dependency("afterany", first),)
        apply(cluster, DependencyChanged(START_US, waiting, terms))
    events = dependency.after_end(cluster, cluster.jobs[first], JobState.CANCELLED, 0, START_US)
    assert sum(isinstance(event, DependencyChanged) for event in events) == count


@pytest.mark.parametrize("status", [0, 143 << 8])
def test_a_preempted_job_that_ends_within_its_grace(status: int) -> None:
    """It ends by itself after SIGTERM: PREEMPTED, as if it had been killed; its exit code stays."""
    scene = Site()
    job = scene.running()
    told = {
        "preempt_us": scene.now_us,
        "preempt_end_us": scene.now_us + 60 * SECOND_US,
        "preempt_mode": "CANCEL",
    }
    scene.apply([JobUpdated(scene.now_us, job.job_id, told)])
    scene.advance(SECOND_US)
    state = JobState.FAILED if status else JobState.COMPLETED
    end = job_end.End(state, exit_code=status, reason=Reason.NonZeroExitCode)
    scene.apply(job_end.complete(scene.cluster, job, end, scene.now_us))
    assert (job.state, job.exit_code, job.reason) == (JobState.PREEMPTED, status, Reason.NONE)
