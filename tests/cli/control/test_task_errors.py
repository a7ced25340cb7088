"""Errors about many tasks of one array: a line for each text, not for each record."""

from __future__ import annotations

from pyslurm_ng.cli.control.task_errors import folded


def test_tasks_with_the_same_error_share_a_line() -> None:
    """A waiting rest and tasks that run are different records, which users do not know."""
    denied, over = (2002, "Access/permission denied"), (2021, "Job has already finished")
    errors = [
        ("7_[3-4]", *denied),
        ("7_1", *denied),
        ("7_2", *over),
        ("9", *denied),
        ("7_6", *denied),
    ]
    assert folded(errors) == [("7_1,3-4,6", *denied), ("7_2", *over), ("9", *denied)]


def test_ids_of_other_shapes_stay() -> None:
    """Steps of ranges, long lists that were cut, words that are no ids."""
    errors = [("7_1-9:2", 1, "x"), ("7_...", 1, "x"), ("a_b", 1, "x"), ("7_0-99999999", 1, "x")]
    assert folded(errors) == errors


def test_tasks_named_twice_count_once() -> None:
    """`scontrol top 7_[3-4]` meets two records, each refused in the name of both."""
    error = ("7_[3-4]", 2002, "x")
    assert folded([error, error, ("7_4", 2002, "x")]) == [("7_3-4", 2002, "x")]
    assert folded([("7", 2002, "x")] * 3) == [("7", 2002, "x")]
