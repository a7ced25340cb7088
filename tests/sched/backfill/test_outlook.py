"""When waiting jobs would start if they were served in order."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import starts_in_us
from tests.oracle import outlook


def test_jobs_start_one_after_another() -> None:
    """Four CPUs, two of which are free: the first fits, the second waits for the runner."""
    assert starts_in_us(2, [(10, 2)], [(2, 30), (4, 5), (4, 5)]) == [0, 30, 35]


def test_a_job_that_does_not_delay_the_first_one_passes_it() -> None:
    """Two CPUs are free and ten are wanted.

    A job of eight goes first; a job of twenty does not, unless it fits beside the first.
    """
    assert starts_in_us(2, [(10, 2)], [(3, 5), (2, 8)]) == [10, 0]
    assert starts_in_us(2, [(10, 2)], [(3, 5), (2, 20)]) == [10, 15]
    assert starts_in_us(2, [(10, 2)], [(3, 5), (1, 20)]) == [10, 0]


def test_a_job_wider_than_the_partition_does_not_hold_up_others() -> None:
    """Nodes are down, so its start is unknown."""
    assert starts_in_us(2, [(10, 2)], [(5, 5), (4, 5)])[1] == 10


@given(
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 4)), max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20)), max_size=10),
)
def test_running_jobs_never_exceed_the_nodes(
    free: int, running: list[tuple[int, int]], queue: list[tuple[int, int]]
) -> None:
    """At each start, of what ran and what has begun."""
    most = free + sum(cpus for _, cpus in running)
    starts = starts_in_us(free, running, queue)
    able = [(at, at + run, cpus) for at, (cpus, run) in zip(starts, queue, strict=True)
            if cpus <= most]  # fmt: skip
    able += [(0, end, cpus) for end, cpus in running]
    for at, _, _ in able:
        assert sum(cpus for begin, end, cpus in able if begin <= at < end) <= most


@settings(deadline=None)
@given(
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 4)), max_size=6),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 20)), max_size=30),
    st.sampled_from([1, 1, 1, 60]),
)
def test_the_kernel_agrees_with_its_twin(
    free: int, running: list[tuple[int, int]], queue: list[tuple[int, int]], times: int
) -> None:
    """On queues that are longer than those looked at, too."""
    queue *= times
    assert starts_in_us(free, running, queue) == outlook.starts_in_us(free, running, queue)


def test_runs_for_ever_do_not_overflow() -> None:
    """Of each a hundred years count at most."""
    starts = starts_in_us(1, [], [(1, 1 << 62)] * 1000)
    assert starts == sorted(starts)
    assert starts[-1] > starts[0] == 0
