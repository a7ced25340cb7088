"""Lists of array tasks as Slurm 22.05 writes them; each expected text was printed by it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base import task_lists
from pyslurm_ng.model import task_ranges


def _text(array: str) -> str:
    """Return the ranges that a controller sends for `--array=`."""
    ids: list[int] = []
    for word in array.split(","):
        bounds, _, step = word.partition(":")
        first, _, last = bounds.partition("-")
        ids += range(int(first), int(last or first) + 1, int(step or 1))
    return task_ranges.text(task_ranges.from_tasks(ids))


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        ("1-11:2", "1,3,5,7,9,11"),
        ("1-13:2", "1-13:2"),
        ("0-12:3", "0,3,6,9,12"),
        ("0-15:3", "0-15:3"),
        ("1-21:20", "1,21"),
        ("100-500:100", "100,200,300,400,500"),
        ("100-600:100", "100-600:100"),
        ("0-990:330", "0,330,660,990"),
        ("5,10-40:5", "5-40:5"),
        ("1,4-14:2", "1,4,6,8,10,12,14"),
        ("2-14:2,15", "2,4,6,8,10,12,14-15"),
        ("1,3,5-9:2", "1,3,5,7,9"),
        ("0-11,13", "0-11,13"),
        ("1-12", "1-12"),
    ],
)
def test_a_step_is_written_for_one_long_progression_only(array: str, shown: str) -> None:
    """Scripts split these texts at commas; `1-5:2` where Slurm says `1,3,5` is another list."""
    assert task_lists.written(_text(array)) == shown


@pytest.mark.parametrize(
    ("array", "width", "shown"),
    [
        ("1,3,5,7,9,11", 4, "..."),
        ("1,3,5,7,9,11", 5, "1..."),
        ("1,3,5,7,9,11", 8, "1,3,..."),
        ("1,3,5,7,9,11", 12, "1,3,5,7,..."),
        ("1,21", 6, "1,..."),
        ("1,21", 7, "1,21"),
        ("1-13:2", 4, "1-13:2"),
        ("1,3-9,12,15,20-30", 1, ""),
        ("1,3-9,12,15,20-30", 3, ".."),
        ("1,3-9,12,15,20-30", 12, "1,3-9,12..."),
        ("1,3-9,12,15,20-30", 0, "1,3-9,12,15,20-30"),
    ],
)
def test_a_list_is_cut_where_slurm_cuts_it(array: str, width: int, shown: str) -> None:
    """SLURM_BITSTR_LEN counts an end mark, and a list without room for dots loses more."""
    assert task_lists.written(_text(array), width) == shown


@given(st.sets(st.integers(0, 60), min_size=1))
def test_nothing_is_lost(tasks: set[int]) -> None:
    """What is written names the same tasks."""
    shown = task_lists.written(task_ranges.text(task_ranges.from_tasks(tasks)))
    named: set[int] = set()
    for word in shown.split(","):
        bounds, _, step = word.partition(":")
        first, _, last = bounds.partition("-")
        named |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    assert named == tasks


def test_a_long_list_costs_no_more_than_what_is_shown() -> None:
    """Two million tasks in steps are shown by their first."""
    shown = task_lists.written("1-4000001:2,4000004", 64)
    assert shown.endswith("...") and len(shown) == 63
