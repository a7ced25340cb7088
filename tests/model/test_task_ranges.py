"""Sets of array tasks as ranges."""

from __future__ import annotations

import sys

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
def test_intersect_splits_a_set(tasks: set[int], others: set[int]) -> None:
    """`scancel id_[1-3]` takes part of the waiting tasks."""
    inside, outside = task_ranges.intersect(
        task_ranges.from_tasks(tasks), task_ranges.from_tasks(others)
    )
    assert set(task_ranges.tasks(inside)) == tasks & others
    assert set(task_ranges.tasks(outside)) == tasks - others


@given(SETS | st.builds(lambda a, b, c: set(range(a, b + a, c)), *[st.integers(1, 300)] * 3))
def test_marks_make_the_same_ranges_as_tasks(tasks: set[int]) -> None:
    """What a journal holds does not depend on how ranges were found."""
    marks = bytearray(max(tasks) + 1)
    for task_id in tasks:
        marks[task_id] = 1
    assert task_ranges.from_marks(marks) == task_ranges.from_tasks(tasks)


def test_half_a_million_tasks_are_not_looked_at_one_by_one() -> None:
    """scancel of every second task of an array once took seconds of the controller's thread."""
    seen = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal seen
        seen += event in ("line", "call")
        return count

    sys.settrace(count)
    try:
        parts = task_ranges.intersect(((0, 500_000, 1),), ((5, 500_000, 2),))
    finally:
        sys.settrace(None)
    assert parts == (((5, 499_999, 2),), ((0, 4, 1), (6, 500_000, 2)))
    assert seen < 1_000


def test_text_is_slurms() -> None:
    """Ranges, steps and lone ids as squeue shows them."""
    assert task_ranges.text(((0, 9, 1), (12, 12, 1), (20, 26, 2))) == "0-9,12,20-26:2"


def test_too_many_ranges_are_none() -> None:
    """And no more of them are made than are allowed."""
    most = task_ranges.MOST_RANGES
    marks = bytearray(b"\0\1\1") * (most + 1)
    assert task_ranges.few_from_marks(marks) is None
    assert task_ranges.few_from_marks(marks[:-3]) == task_ranges.from_marks(marks[:-3])
