"""Soft state: measured, counted, never part of the Cluster."""

from __future__ import annotations

from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState, Reason
from tests.model.clusters import cluster_of


def test_a_heartbeat_keeps_measures_it_does_not_bring() -> None:
    """A message without a load says only that the node lives."""
    soft = Soft(started_us=1)
    soft.heard(3, 100, load=250, free_mem_mib=900)
    soft.heard(3, 200)
    measures = soft.node_load[3]
    assert (measures.cpu_load_hundredths, measures.free_mem_mib) == (250, 900)
    assert soft.last_seen_us == {3: 200}


def test_ends_of_jobs_are_counted_by_kind() -> None:
    """sdiag's numbers: failed are only jobs that nodes lost or could not launch, as in Slurm."""
    soft = Soft(started_us=1)
    own = (JobState.COMPLETED, JobState.CANCELLED, JobState.FAILED, JobState.TIMEOUT)
    soft.applied([ev.JobEnded(time_us=1, job_id=n, state=s) for n, s in enumerate(own)])
    assert (soft.jobs.completed, soft.jobs.cancelled, soft.jobs.failed) == (3, 1, 0)
    lost = ev.JobEnded(time_us=2, job_id=5, state=JobState.NODE_FAIL)
    why = int(Reason.JobLaunchFailure)
    unlaunched = ev.JobEnded(time_us=2, job_id=6, state=JobState.FAILED, reason=why)
    soft.applied([lost, unlaunched])
    assert (soft.jobs.completed, soft.jobs.failed) == (3, 2)


def test_calls_are_counted_by_kind_and_by_user_until_reset() -> None:
    """`sdiag -r` sets them to zero. What nodes reported stays."""
    soft = Soft(started_us=1)
    soft.count_call("Ping", 0, 10)
    soft.count_call("Ping", 1000, 20)
    soft.heard(1, 5)
    assert (soft.calls["Ping"].count, soft.calls["Ping"].total_us) == (2, 30)
    assert soft.callers[1000].total_us == 20
    soft.reset(9)
    assert (soft.calls, soft.callers, soft.reset_us) == ({}, {}, 9)
    assert soft.last_seen_us == {1: 5}


def test_nodes_that_never_spoke_are_waited_for_from_now() -> None:
    """A node that died while the controller was away is missed after SlurmdTimeout."""
    soft = Soft(started_us=1)
    cluster = cluster_of()
    soft.heard(2, 50)
    soft.expect(cluster, 100)
    soft.expect(cluster, 200)
    assert soft.last_seen_us == {0: 100, 1: 100, 2: 50, 3: 100}


def test_priority_outlives_the_wait() -> None:
    """A started job shows the priority it started with, an array's task its array's."""
    soft = Soft(started_us=1)
    soft.priority = {7: 50, 8: 60}
    split = ev.ArrayTaskSplit(time_us=2, array_job_id=8, task_id=0, job_id=9)
    soft.applied([split, ev.JobEnded(time_us=2, job_id=7, state=4)])
    soft.priority = {}
    assert soft.last_priority == {7: 50, 9: 60}
    soft.applied([ev.JobPurged(time_us=3, job_ids=(7,))])
    assert soft.last_priority == {9: 60}
