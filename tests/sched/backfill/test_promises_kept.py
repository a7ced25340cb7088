"""A start once promised is never put off while jobs run exactly as long as their limits."""

from __future__ import annotations

from random import Random

import pytest

from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
)
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from tests.sched.backfill.promises import (
    BEGIN_US,
    KINDS,
    MINUTE_US,
    PLAIN,
    Asked,
    Late,
    PromisingSite,
    SiteOfEarlyEnds,
    queue_of,
    run,
)
from tests.world.examples import drawn

ONE_BY_ONE = [kind for kind, (_, _, wants) in KINDS.items() if "array" not in wants]


def run_seed(kind: str, seed: int) -> bool:
    """Run a queue of a kind by its seed; return whether all its jobs have run."""
    conf, topology, wants = KINDS[kind]
    return run(PromisingSite(conf, topology), *queue_of(Random(seed), wants))


def run_seed_of_early_ends(kind: str, seed: int) -> bool:
    """Run a queue with many jobs that end early; return whether all jobs have run."""
    conf, topology, wants = KINDS[kind]
    queue = queue_of(Random(seed), wants)
    return run(SiteOfEarlyEnds(conf, topology, Random(seed)), *queue)


@pytest.mark.seeds
@pytest.mark.parametrize("kind", KINDS)
def test_no_start_is_put_off(kind: str) -> None:
    """Whatever jobs ask for: the jobs before them in the queue were planned as they will run."""
    for seed in range(drawn(20)):
        assert run_seed(kind, seed)


@pytest.mark.seeds
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_early_ends_put_off_no_job_except_for_jobs_before_it(kind: str) -> None:
    """All start in order of submission, and a new job goes last."""
    for seed in range(drawn(10)):
        assert run_seed_of_early_ends(kind, seed)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_early_ends_hardly_ever_put_off_a_job_without_need(kind: str) -> None:
    """In no more than two of a hundred queues that are made for this."""
    late = 0
    for seed in range(1000):
        try:
            run_seed_of_early_ends(kind, seed)
        except Late:
            late += 1
    assert late <= 20


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_hardly_any_start_is_put_off(kind: str) -> None:
    """The best fit of a job may be another once others lie elsewhere, and leave less to the next.

    In no more than three of a hundred queues that are made for this.
    """
    late = 0
    for seed in range(1000):
        try:
            run_seed(kind, seed)
        except Late:
            late += 1
    assert late <= 30


def test_what_is_left_of_nodes_counts_though_all_that_wait_would_take_whole_ones() -> None:
    """Two tasks fill a node, and fit as well beside others on two."""
    assert run(
        PromisingSite(PLAIN),
        [
            Asked(7, JobRequest(nodes_min=2, cpus_per_task=3, flags=REQ_EXCLUSIVE)),
            Asked(6, JobRequest(nodes_min=3, cpus_per_task=2)),
            Asked(1, JobRequest(nodes_min=3, ntasks=2)),
            Asked(6, JobRequest(ntasks=2, cpus_per_task=2)),
        ],
        [],
    )


def test_tasks_are_spread_unevenly_where_licences_are_wanted() -> None:
    """The third is to have three tasks on one node, and the others are put beside that."""
    wide = JobRequest(nodes_min=2, ntasks=4)
    assert run(
        PromisingSite(PLAIN),
        [
            Asked(1, JobRequest(nodes_min=2, licenses="matlab:2")),
            Asked(2, JobRequest(nodes_min=1, ntasks=4, licenses="matlab:1")),
            Asked(4, JobRequest(nodes_min=2, ntasks=4, licenses="matlab:2")),
            Asked(3, JobRequest(nodes_min=1, ntasks=4)),
            Asked(5, wide),
            Asked(4, wide),
        ],
        [],
    )


def test_tasks_behind_their_arrays_limit_are_planned_one_after_another() -> None:
    """A task fills a node for two minutes. A later job may not have it in between."""
    site = PromisingSite(PLAIN.replace("n[1-5]", "n1"))
    each = JobRequest(nodes_min=1, cpus_per_task=4)
    array = site.submit(Asked(2, each, ((1, 4, 1),), array_limit=1))
    other = site.submit(Asked(5, each))
    plan = site.run_pass()
    assert [(start.job_id, start.task_id) for start in plan.starts] == [(array, 1)]
    assert plan.waits[array].reason == Reason.JobArrayTaskLimit
    starts_min = {
        job_id: (at_us - BEGIN_US) // MINUTE_US for job_id, at_us in plan.expected_start_us.items()
    }
    assert starts_min == {array: 2, other: 8}
    site.end_next()
    plan = site.run_pass()
    assert [(start.job_id, start.task_id) for start in plan.starts] == [(array, 2)]
    assert plan.expected_start_us[other] == BEGIN_US + 8 * MINUTE_US
