"""Jobs that end in one decision: their dependents are judged once, with all of them known."""

from __future__ import annotations

from pyslurm_ng.base.numbers import REQ_KILL_INVALID_DEP
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.ends import node_loss
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.events import DependencyChanged, JobEligible
from pyslurm_ng.model.job import Dependency, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit

CONF = conf_of()
MINUTE_US = 60_000_000


def two_running(cluster: Cluster) -> tuple[int, int]:
    """Two jobs on one node that may not be requeued."""
    jobs = [submit(cluster, JobRequest(node_list="n1"), requeue=False) for _ in range(2)]
    for start in Planner()(snapshot(cluster, START_US), policy(CONF)).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    return jobs[0], jobs[1]


def waiting_for(cluster: Cluster, kind: str, jobs: tuple[int, int], flags: int = 0) -> int:
    """A job that waits for both."""
    job_id = submit(cluster, JobRequest(flags=flags))
    terms = tuple(Dependency(kind, other) for other in jobs)
    apply(cluster, DependencyChanged(START_US, job_id, terms))
    return job_id


def test_one_that_waited_for_both_is_cancelled_once() -> None:
    """Each of the two ends would have ended it; an event for the dead would stop the daemon."""
    cluster = cluster_of(CONF)
    jobs = two_running(cluster)
    waiting = waiting_for(cluster, "afterok", jobs, REQ_KILL_INVALID_DEP)
    apply_all(cluster, node_loss.nodes_down(cluster, (0,), "Not responding", START_US))
    assert cluster.jobs[waiting].state == JobState.CANCELLED
    assert check(cluster) == []


def test_one_that_waited_for_both_to_fail_may_run() -> None:
    """Judged for each end alone it would wait for the other for ever."""
    cluster = cluster_of(CONF)
    jobs = two_running(cluster)
    waiting = waiting_for(cluster, "afternotok", jobs)
    events = node_loss.nodes_down(cluster, (0,), "Not responding", START_US)
    apply_all(cluster, events)
    assert cluster.jobs[waiting].dependencies == ()
    assert any(isinstance(event, JobEligible) for event in events)


def test_a_second_in_which_jobs_time_out_and_nodes_fall_silent() -> None:
    """Both make duties and may mean the same job; one waits for the next second."""
    cluster = cluster_of(CONF)
    two_running(cluster)
    elsewhere = submit(cluster, JobRequest(node_list="n2"), requeue=False)
    for start in Planner()(snapshot(cluster, START_US), policy(CONF)).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    later_us = START_US + 61 * MINUTE_US
    for second in range(8):
        now_us = later_us + second * 1_000_000
        apply_all(cluster, timers.due(cluster, CONF, {0: START_US}, now_us))
        assert check(cluster) == []
    assert cluster.jobs[elsewhere].state == JobState.TIMEOUT
    assert not cluster.node_index.use[0].allocs
