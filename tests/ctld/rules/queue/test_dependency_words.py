"""What users may write as a dependency."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.queue.dependency import after_end
from pyslurm_ng.ctld.rules.queue.dependency_text import parse_dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Dependency, JobRequest
from pyslurm_ng.model.states import JobState
from tests.model.clusters import START_US, cluster_of, submit


def two_jobs() -> Cluster:
    cluster = cluster_of()
    assert [submit(cluster, JobRequest()) for _ in range(2)] == [1, 2]
    return cluster


@pytest.mark.parametrize(
    "text",
    [
        "afterok:1(unfulfilled),after:2+5(unfulfilled)",
        "afterok:1(failed),after:2+5(failed)",
        "afterok: 1 , after: 2+5",
    ],
)
def test_what_squeue_shows_can_be_given_to_another_job(text: str) -> None:
    """As Slurm 22.05 does, which also reads over blanks before a number."""
    parsed = parse_dependency(two_jobs(), text)
    assert parsed == ((Dependency("afterok", 1), Dependency("after", 2, delay_min=5)), False)


def test_a_shown_singleton_is_one() -> None:
    """It has a state in squeue, too."""
    parsed = parse_dependency(two_jobs(), "singleton(unfulfilled)")
    assert parsed == ((Dependency("singleton"),), False)


@pytest.mark.parametrize("text", ["afterok:1(fulfilled)", "afterok:(failed)", "afterok:1(failed)2"])
def test_other_words_behind_a_job_are_refused(text: str) -> None:
    """A state is the last thing of its job."""
    refusal = parse_dependency(two_jobs(), text)
    assert isinstance(refusal, Reject) and refusal.code == Errno.ESLURM_DEPENDENCY


def test_of_terms_of_which_one_is_enough_those_that_failed_are_marked() -> None:
    """squeue shows them as failed; the job goes on waiting for the others."""
    cluster = two_jobs()
    waits = submit(cluster, JobRequest(dependency="afterok:1?afterok:2"))
    terms = (Dependency("afterok", 1), Dependency("afterok", 2))
    apply(cluster, ev.DependencyChanged(START_US, waits, terms, True))
    apply(cluster, ev.JobUpdated(START_US, waits, {"eligible_us": 0, "accrue_us": 0}))
    first = cluster.jobs[1]
    apply(cluster, ev.JobEnded(START_US, 1, JobState.FAILED))
    apply_all(cluster, after_end(cluster, first, JobState.FAILED, 256, START_US))
    job = cluster.jobs[waits]
    assert [term.state for term in job.dependencies] == [2, 0]
    assert job.state == JobState.PENDING
