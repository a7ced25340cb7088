"""Sets of array tasks as ranges."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyslurm_ng.model import task_ranges

SETS = st.sets(st.integers(0, 200), min_size=1)


@given(SETS)
def test_ranges_name_exactly_their_tasks(tasks: set[int]) -> None:
    """Going to ranges and back loses nothing."""
    ranges = task_ranges.from_tasks(tasks)
    assert sorted(task_ranges.tasks(ranges)) == sorted(tasks)
    assert task_ranges.count(ranges) == len(tasks)


@given(SETS, st.data())
def test_remove_takes_one_task_out(tasks: set[int], data: st.DataObject) -> None:
    """Starting one task leaves the others waiting."""
    gone = data.draw(st.sampled_from(sorted(tasks)))
    ranges = task_ranges.remove(task_ranges.from_tasks(tasks), gone)
    assert set(task_ranges.tasks(ranges)) == tasks - {gone}
    assert not task_ranges.contains(ranges, gone)


@given(SETS, SETS)
def test_intersect_splits_a_set(tasks: set[int], wanted: set[int]) -> None:
    """`scancel id_[1-3]` takes part of the waiting tasks."""
    inside, outside = task_ranges.intersect(
        task_ranges.from_tasks(tasks), task_ranges.from_tasks(wanted)
    )
    assert set(task_ranges.tasks(inside)) == tasks & wanted
    assert set(task_ranges.tasks(outside)) == tasks - wanted


def test_text_is_slurms() -> None:
    """Ranges, steps and lone ids as squeue shows them."""
    assert task_ranges.text(((0, 9, 1), (12, 12, 1), (20, 26, 2))) == "0-9,12,20-26:2"
