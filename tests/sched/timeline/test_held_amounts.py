"""What running jobs hold is worked out once for each, whoever comes and goes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.frame.job_records import Running
from pyslurm_ng.sched.timeline.held_amounts import HeldAmounts


def packed(job: Running) -> list[int]:
    """Return numbers that tell what a job holds, of some jobs more than of others."""
    return [job.is_suspended, *(alloc.node_id for alloc in job.nodes)][job.job_id % 2 :]


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 6), st.integers(0, 3), st.booleans()),
            max_size=6,
            unique_by=lambda job: job[0],
        ),
        max_size=5,
    )
)
def test_amounts_are_those_of_the_jobs_of_each_pass(
    passes: list[list[tuple[int, int, bool]]],
) -> None:
    """In whatever order jobs stand, and whether or not they changed."""
    amounts = HeldAmounts()
    for jobs in passes:
        running = [
            Running(job_id, 9, (NodeAlloc(node_id, 1, b"\1", 0, 1),), "", is_suspended)
            for job_id, node_id, is_suspended in jobs
        ]
        assert [[*row] for row in amounts.of(running, packed)] == [packed(job) for job in running]


def test_jobs_that_ran_before_are_not_worked_out_again() -> None:
    """Some end, one changes, new ones come last."""
    amounts = HeldAmounts()
    first = [Running(job_id, 9, (NodeAlloc(job_id, 1, b"\1", 0, 1),), "") for job_id in range(1, 6)]
    amounts.of(first, packed)
    changed = first[3]._replace(nodes=(NodeAlloc(7, 1, b"\1", 0, 1),))
    then = [first[0], first[2], changed, Running(6, 9, (), "")]
    asked: list[int] = []

    def work_out(job: Running) -> list[int]:
        asked.append(job.job_id)
        return packed(job)

    assert [[*row] for row in amounts.of(then, work_out)] == [packed(job) for job in then]
    assert asked == [4, 6]
