"""What is worked out for a waiting job is kept from pass to pass, whoever comes and goes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, strategies as st

from pyslurm_ng._select import taken_over


@dataclass(frozen=True)
class _Job:
    job_id: int
    version: int


_PASSES = st.lists(
    st.lists(
        st.builds(_Job, st.integers(1, 9), st.integers(0, 1)),
        max_size=9,
        unique_by=lambda job: job.job_id,
    ),
    max_size=5,
)


@given(_PASSES)
def test_each_job_has_what_was_prepared_for_it(passes: list[list[_Job]]) -> None:
    """In whatever order jobs stand, and even if what is equal is another record by now."""
    before: list[_Job] = []
    known: list[tuple[int, int] | None] = []
    for jobs in passes:
        known = taken_over(jobs, before, known, lambda job: (job.job_id, job.version))
        assert known == [(job.job_id, job.version) for job in jobs]
        before = jobs


def test_only_new_and_changed_jobs_are_prepared_again() -> None:
    """One has ended, one was changed, what was known of one is void, and one is new."""
    before = [_Job(job_id, 0) for job_id in range(1, 7)]
    known: list[str | None] = ["kept"] * 6
    known[4] = None
    jobs = [before[0], *before[2:5], _Job(6, 1), _Job(7, 0)]
    results = taken_over(jobs, before, known, lambda job: f"new {job.job_id}")
    assert results == ["kept", "kept", "kept", "new 5", "new 6", "new 7"]


def test_a_job_put_back_at_the_end_costs_no_other_job_its_results() -> None:
    """Job 2 waits again, behind all others.

    Job 1, which was behind it, keeps what was worked out.
    """
    first, second, third = (_Job(job_id, 0) for job_id in (1, 2, 3))
    known = ["of 2", "of 3", "of 1"]
    results = taken_over([first, third, second], [second, third, first], known, lambda job: "new")
    assert results == ["new", "of 3", "new"]
    assert taken_over([first, third, second], [first, third, second], results, str) == results
