"""Rows that fit their columns are found by a kernel; all others are cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.columns import SCRIPT_CHARACTERS
from pyslurm_ng.dbd.lengths import LEAST, MOST, fit, usual_columns
from pyslurm_ng.kernels.records import fits, unchanged

TEXTS, LENGTHS, NUMBERS = ("name", "state"), (5, 3), ("count", "end_us")
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
    assert fits(ROW | change, TEXTS, LENGTHS, NUMBERS, 8) is expected


def test_all_texts_together_have_a_bound() -> None:
    assert fits(ROW, TEXTS, LENGTHS, NUMBERS, 8)
    assert not fits(ROW, TEXTS, LENGTHS, NUMBERS, 7)


def test_what_is_missing_is_told() -> None:
    with pytest.raises(KeyError, match="end_us"):
        fits({"name": "", "state": "", "count": 0}, TEXTS, LENGTHS, NUMBERS, 8)
    with pytest.raises(ValueError, match="one length"):
        fits(ROW, TEXTS, (5,), NUMBERS, 8)


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
    defaults = {"name": "", "count": 0, "uid": -1}
    rows: list[dict[str, Any]] = [{"name": "", "count": 0, "uid": -1, "more": n} for n in range(3)]
    assert unchanged(rows, defaults) == ["name", "count", "uid"]
    rows[1]["count"] = 5
    rows[2]["name"] = None
    assert unchanged(rows, defaults) == ["uid"]
    assert unchanged([], defaults) == list(defaults)
    with pytest.raises(KeyError, match="uid"):
        unchanged([{"name": "", "count": 0}], defaults)
    with pytest.raises(TypeError):
        unchanged([()], defaults)  # type: ignore[list-item]


def test_few_rows_are_not_looked_through() -> None:
    row = {column.name: schema.default_of(column) for column in schema.jobs.columns}
    assert usual_columns(schema.jobs, [row]) == frozenset()
    usual = usual_columns(schema.jobs, [row] * 60)
    assert {"comment", "kill_uid", "is_last", "het_job_offset"} <= usual
    assert not {"job_index", "cluster_id"} & usual  # without a default, so rows say them
