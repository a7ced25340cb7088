"""RELIABILITY 54b: fifty thousand jobs, each waiting for the one before, or all for one."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_KILL_INVALID_DEP
from pyslurm_ng.ctld.rules.queue import dependency, dependency_text
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Dependency, Job, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
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
    outcome = dependency_text.for_update(cluster, cluster.jobs[jobs[0]], f"afterok:{jobs[-1]}")
    assert isinstance(outcome, Reject)
    assert outcome.code == Errno.ESLURM_CIRCULAR_DEPENDENCY


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_a_pass_looks_only_at_jobs_that_may_start(length: int, shape: str) -> None:
    """Jobs that wait for others are not in the queue, so they take no time of a pass."""
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


def test_jobs_that_wait_for_the_end_of_a_chain_are_judged_again() -> None:
    """A failure ends a chain. A job that waits for its head and for its last job gets both ends."""
    cluster = cluster_of()
    first, _, last = chain(cluster, 3, REQ_KILL_INVALID_DEP)
    waiting = waits_for(cluster, first, "afterany")
    terms = (Dependency("afterany", first), Dependency("afterany", last))
    apply(cluster, ev.DependencyChanged(START_US, waiting, terms))
    head = cluster.jobs[first]
    apply(cluster, ev.JobEnded(START_US, first, JobState.FAILED))
    apply_all(cluster, dependency.after_end(cluster, head, JobState.FAILED, 0, START_US))
    assert cluster.jobs[last].state == JobState.CANCELLED
    assert cluster.jobs[waiting].dependencies == ()
    assert cluster.jobs[waiting].eligible_us == START_US
    assert check(cluster) == []


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Dependency]:
    """Return a list that gains each term whose targets are looked at."""
    looked: list[Dependency] = []
    original = dependency._targets

    def counted(cluster: Cluster, term: Dependency, ends: dependency.Ends) -> list[Job] | None:
        looked.append(term)
        return original(cluster, term, ends)

    monkeypatch.setattr(dependency, "_targets", counted)
    return looked


def test_an_end_is_looked_at_once_for_all_dependents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two hundred jobs with 8,000 terms each took six seconds for each end of one of those."""
    cluster = cluster_of()
    targets = [submit(cluster, JobRequest()) for _ in range(50)]
    terms = tuple(Dependency("afterany", job_id) for job_id in targets)
    for _ in range(20):
        waiting = submit(cluster, JobRequest())
        apply(cluster, ev.DependencyChanged(START_US, waiting, terms))
    looked = looked_at(monkeypatch)
    over = cluster.jobs[targets[7]]
    apply(cluster, ev.JobEnded(START_US, over.job_id, JobState.COMPLETED))
    events = dependency.after_end(cluster, over, JobState.COMPLETED, 0, START_US)
    assert looked == [terms[7]]
    changed = [event for event in events if isinstance(event, ev.DependencyChanged)]
    assert [event.dependencies for event in changed] == [(*terms[:7], *terms[8:])] * 20


def test_namesakes_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end among 5,000 jobs with `singleton` looked at each of the user's jobs for each."""
    cluster = cluster_of()
    jobs = [submit(cluster, JobRequest(name="same")) for _ in range(50)]
    for job_id in jobs[1:]:
        apply(cluster, ev.DependencyChanged(START_US, job_id, (Dependency("singleton"),)))
    looked: list[int] = []
    original = dependency._is_namesake

    def counted(other: Job, job: Job) -> bool:
        looked.append(other.job_id)
        return original(other, job)

    monkeypatch.setattr(dependency, "_is_namesake", counted)
    over = cluster.jobs[jobs[0]]
    apply(cluster, ev.JobEnded(START_US, over.job_id, JobState.COMPLETED))
    apply_all(cluster, dependency.after_end(cluster, over, JobState.COMPLETED, 0, START_US))
    assert sorted(looked) == jobs
    assert [cluster.jobs[job_id].dependencies == () for job_id in jobs[1:3]] == [True, False]
