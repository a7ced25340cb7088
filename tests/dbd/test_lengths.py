"""Rows that fit their columns are found by a kernel; all others are cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.columns import SCRIPT_CHARACTERS
from pyslurm_ng.dbd.lengths import LEAST, MOST, fit
from pyslurm_ng.kernels.records import examined, picked

NAMES, LENGTHS, DEFAULTS = ("name", "count", "state", "end_us"), (5, -1, 3, -1), (None,) * 4
ROW: dict[str, Any] = {"name": "häöü€", "state": "run", "count": MOST, "end_us": LEAST}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"other": None}, True),
        ({"count": True}, True),
        ({"name": "häöü€x"}, False),
        ({"state": "runs"}, False),
        ({"count": MOST + 1}, False),
        ({"end_us": LEAST - 1}, False),
        ({"count": None}, False),
        ({"count": 1.0}, False),
        ({"count": "1"}, False),
        ({"name": None}, False),
        ({"name": b"abc"}, False),
        ({"name": 7}, False),
    ],
)
def test_a_row_fits_if_each_value_does(change: dict[str, Any], expected: bool) -> None:
    row = ROW | change
    assert examined([ROW, row], NAMES, LENGTHS, DEFAULTS, 8) == ([] if expected else [row], [])


def test_all_texts_together_have_a_bound() -> None:
    assert examined([ROW], NAMES, LENGTHS, DEFAULTS, 8)[0] == []
    assert examined([ROW], NAMES, LENGTHS, DEFAULTS, 7)[0] == [ROW]


def test_what_is_missing_is_told() -> None:
    row = {"name": "", "state": "", "count": 0}
    with pytest.raises(KeyError, match="end_us"):
        examined([row], NAMES, LENGTHS, DEFAULTS, 8)
    with pytest.raises(KeyError, match="end_us"):
        picked([row], NAMES, 1)
    with pytest.raises(ValueError, match="one length"):
        examined([ROW], NAMES, LENGTHS[1:], DEFAULTS, 8)
    with pytest.raises(ValueError, match="group"):
        picked([ROW], NAMES, 0)
    with pytest.raises(TypeError):
        examined([()], NAMES, LENGTHS, DEFAULTS, 8)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        picked([()], NAMES, 1)  # type: ignore[list-item]


@pytest.mark.parametrize("seed", range(3))
def test_values_are_found_whatever_the_order_of_a_row(seed: int) -> None:
    """The kernel goes through a row in its order; other orders and other key objects cost time."""
    chance = random.Random(seed)
    names = [f"column {number}" for number in range(12)]
    for _ in range(50):
        rows = []
        for number in range(7):
            chance.shuffle(names)
            row = {str(bytes(name, "ascii"), "ascii"): f"{number} {name}" for name in names}
            row[names[0]] = row.pop(names[0])
            rows.append(row)
        columns = tuple(chance.sample(names, chance.randrange(1, 12)))
        group = chance.randrange(1, 9)
        values = [row[name] for row in rows for name in columns]
        groups = picked(rows, columns, group)
        assert [value for values_of_group in groups for value in values_of_group] == values
        assert [len(values) for values in groups[:-1]] == [group * len(columns)] * (len(groups) - 1)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_fits_once_it_is_cut(seed: int) -> None:
    """Whatever was in it; and rows that fit stay as they are."""
    chance = random.Random(seed)
    columns = {column.name: column for column in schema.jobs.columns}
    for _ in range(50):
        row: dict[str, Any] = {}
        for name, column in columns.items():
            is_text = schema.default_of(column) == ""
            row[name] = "x" * chance.choice((0, 3, 300)) if is_text else chance.randrange(2**70)
        fit(schema.jobs, [row], 1 << 20)
        assert all(
            len(value) <= (columns[name].type.length or SCRIPT_CHARACTERS)  # type: ignore[attr-defined]
            if isinstance(value, str)
            else LEAST <= value <= MOST
            for name, value in row.items()
        )
        before = row.copy()
        fit(schema.jobs, [row], 1 << 20)
        assert row == before


def test_usual_is_what_all_rows_have_by_default() -> None:
    names, lengths, defaults = ("name", "count", "uid"), (5, -1, -1), ("", 0, -1)
    rows: list[dict[str, Any]] = [{"name": "", "count": 0, "uid": -1, "more": n} for n in range(3)]
    assert examined(rows, names, lengths, defaults, 8) == ([], list(names))
    rows[1]["count"] = 5
    rows[2]["name"] = None
    assert examined(rows, names, lengths, defaults, 8) == ([rows[2]], ["uid"])
    assert examined([], names, lengths, defaults, 8) == ([], list(names))


def test_few_rows_have_nothing_usual() -> None:
    row = {column.name: schema.default_of(column) for column in schema.jobs.columns}
    row |= {"job_index": 1, "cluster_id": 1}
    assert fit(schema.jobs, [row], 1 << 20) == frozenset()
    usual = fit(schema.jobs, [row] * 60, 1 << 20)
    assert {"comment", "kill_uid", "is_last", "het_job_offset"} <= usual
    assert not {"job_index", "cluster_id"} & usual  # without a default, so rows say them
