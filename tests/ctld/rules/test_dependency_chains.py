"""RELIABILITY 54b: fifty thousand jobs, each waiting for the one before, or all for one."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules import dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import REQ_KILL_INVALID_DEP, Dependency, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.policy import policy
from pyslurm_ng.sched.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit

LENGTHS = (2_000, pytest.param(50_000, marks=pytest.mark.soak))


def waits_for(cluster: Cluster, job_id: int, kind: str = "afterok", flags: int = 0) -> int:
    """Submit a job that waits for another."""
    text = f"{kind}:{job_id}"
    fresh = submit(cluster, JobRequest(dependency=text, flags=flags))
    apply(cluster, ev.JobUpdated(START_US, fresh, {"eligible_us": 0, "accrue_us": 0}))
    apply(cluster, ev.DependencyChanged(START_US, fresh, (Dependency(kind, job_id),)))
    return fresh


def chain(cluster: Cluster, length: int, flags: int = 0) -> list[int]:
    """Return jobs of which each waits for the one before."""
    jobs = [submit(cluster, JobRequest())]
    while len(jobs) < length:
        jobs.append(waits_for(cluster, jobs[-1], flags=flags))
    return jobs


@pytest.mark.parametrize("length", LENGTHS)
def test_a_chain_breaks_in_one_decision(length: int) -> None:
    """Its head fails, and all behind end too: no recursion that a long chain would overflow."""
    cluster = cluster_of()
    jobs = chain(cluster, length, REQ_KILL_INVALID_DEP)
    first = cluster.jobs[jobs[0]]
    apply(cluster, ev.JobEnded(START_US, jobs[0], JobState.CANCELLED))
    apply_all(cluster, dependency.after_end(cluster, first, JobState.CANCELLED, 0, START_US))
    assert {cluster.jobs[job_id].state for job_id in jobs} == {JobState.CANCELLED}
    assert check(cluster) == []


@pytest.mark.parametrize("length", LENGTHS)
def test_a_cycle_is_found_through_a_long_chain(length: int) -> None:
    """The first may not wait for the last."""
    cluster = cluster_of()
    jobs = chain(cluster, length)
    outcome = dependency.for_update(cluster, cluster.jobs[jobs[0]], f"afterok:{jobs[-1]}")
    assert isinstance(outcome, Reject)
    assert outcome.code == Errno.ESLURM_CIRCULAR_DEPENDENCY


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_a_pass_looks_at_those_only_that_may_start(length: int, shape: str) -> None:
    """Who waits for others is not in the queue, so it costs a pass nothing."""
    cluster = cluster_of()
    if shape == "chain":
        chain(cluster, length)
    else:
        first = submit(cluster, JobRequest())
        for _ in range(length - 1):
            waits_for(cluster, first)
    view = snapshot(cluster, START_US)
    assert len(view.waiting) == 1
    outcome = Planner()(view, policy(conf_of()))
    assert len(outcome.starts) == 1
    assert outcome.tested <= 1


@pytest.mark.parametrize("length", LENGTHS)
def test_a_fan_opens_in_one_decision(length: int) -> None:
    """All that waited for one may run when it is over."""
    cluster = cluster_of()
    first = submit(cluster, JobRequest())
    others = [waits_for(cluster, first, "afterany") for _ in range(length)]
    apply(cluster, ev.JobEnded(START_US, first, JobState.CANCELLED))
    head = cluster.jobs[first]
    apply_all(cluster, dependency.after_end(cluster, head, JobState.CANCELLED, 0, START_US))
    assert not any(cluster.jobs[job_id].dependencies for job_id in others)
    assert len(snapshot(cluster, START_US).waiting) == length
    assert check(cluster) == []
