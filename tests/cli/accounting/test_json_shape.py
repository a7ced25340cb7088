"""Templates of JSON give what json.dumps gives of the same values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.data_parser.json_shape import (
    Template,
    amount,
    columns_of,
    count,
    optional,
    text,
    value,
    word,
)
from pyslurm_ng.kernels.records import json_rows

SHAPE: dict[str, Any] = {
    "100%": text("name"),
    "nothing": [],
    "empty": {},
    "numbers": {"n": count("number"), "twice": amount(lambda number: 2 * number, "number")},
    "list": [text("name"), "fixed \x7f", word(lambda name, at: f"{name}{at}", "name", "number")],
    "value": value(lambda number: {"even": number % 2 == 0, "list": [number, None]}, "number"),
    "maybe": optional(lambda number: number if number % 3 else None, "number"),
}  # fmt: skip
PLACES = {"name": 1, "number": 0}


def expected(number: int, name: str) -> dict[str, Any]:
    """Return what the shape stands for."""
    is_set = number % 3 != 0
    return {
        "100%": name,
        "nothing": [],
        "empty": {},
        "numbers": {"n": number, "twice": 2 * number},
        "list": [name, "fixed \x7f", f"{name}{number}"],
        "value": {"even": number % 2 == 0, "list": [number, None]},
        "maybe": {"set": is_set, "infinite": False, "number": number if is_set else 0},
    }


def dumped(whole: Any, depth: int) -> str:
    """Return what Python's own encoder writes, indented."""
    plain = json.dumps(whole, indent=2).replace("\x7f", "\\u007f")
    return plain.replace("\n", "\n" + "  " * depth)


ROWS = st.lists(
    st.tuples(st.integers(-(2**70), 2**70), st.text(st.characters(codec="utf-8"))),
    max_size=8,
)


@given(ROWS, st.integers(0, 4))
def test_records_are_what_the_encoder_writes(rows: list[tuple[int, str]], depth: int) -> None:
    """Whatever texts users have chosen; all of it is ASCII that no terminal takes for a command."""
    got = Template(SHAPE, PLACES, depth).listed(rows).decode()
    whole = dumped([expected(*row) for row in rows], max(depth - 1, 0))
    if depth:
        assert got == whole
    assert json.loads(got) == [expected(*row) for row in rows]
    assert got.isascii() and got.replace("\n", "").isprintable()


def test_a_shape_tells_its_columns() -> None:
    """slurmdbd is asked for these and no others."""
    assert columns_of(SHAPE) == ["name", "number"]


@pytest.mark.parametrize("row", [(), (1,), None, [1, "a"]])
def test_a_short_row_is_refused(row: Any) -> None:
    """A place beyond its end is never read."""
    with pytest.raises((IndexError, TypeError)):
        Template(SHAPE, PLACES, 0).joined([row])


def test_a_negative_place_is_refused() -> None:
    """It would be read before the begin."""
    with pytest.raises(IndexError):
        json_rows([(1,)], [(b"", False, None, (-1,), b"", b"", b"")], b"", b"", str.encode)
