"""Fit rows to their columns: longer texts are cut, larger numbers are brought into range.

Messages have bounds, and this is the second check: no text of any user or controller version may
make the database refuse a row, as MariaDB would (RELIABILITY 50).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.columns import TEXT_CHARACTERS
from pyslurm_ng.kernels.records import fits, unchanged

Row = dict[str, Any]

LEAST, MOST = -(2**63), 2**63 - 1
_UTF8_BYTES = 4
_MANY = 50
"""Rows for which it is worth the time to look what they have in common."""


def usual_columns(table: sa.Table, rows: list[Row]) -> frozenset[str]:
    """Return columns that have their default in all of many rows, half of those of most jobs."""
    if len(rows) < _MANY:
        return frozenset()
    return frozenset(unchanged(rows, _defaults(table)))


def fit(
    table: sa.Table, rows: Sequence[Row], row_bytes: int, usual: frozenset[str] = frozenset()
) -> None:
    """Change rows in place so that the database takes them; all have the same columns.

    Args:
        row_bytes: the most that the texts of one row may take, encoded; of a larger row the
            longest texts are cut first.
        usual: columns that need no look, see `usual_columns`.
    """
    if not rows:
        return
    columns = _columns(table, tuple([name for name in rows[0] if name not in usual]))
    for row in rows:
        if not columns.hold(row, row_bytes):
            columns.cut(row, row_bytes)


class _Columns:
    """The columns of one kind of row."""

    def __init__(self, texts: dict[str, int], numbers: list[str]) -> None:
        self._texts = texts
        self._numbers = numbers
        # Every row is checked, so a kernel does it.
        self._checks = (tuple(texts), tuple(texts.values()), tuple(numbers))

    def hold(self, row: Row, row_bytes: int) -> bool:
        """Return whether a row fits as it is; a row with a value of another type does not."""
        return fits(row, *self._checks, row_bytes // _UTF8_BYTES)

    def cut(self, row: Row, row_bytes: int) -> None:
        """Cut the values that do not fit."""
        for name, most in self._texts.items():
            value = row[name]
            row[name] = (value if isinstance(value, str) else str(value))[:most]
        for name in self._numbers:
            value = row[name]
            if value is not None:
                row[name] = min(max(int(value), LEAST), MOST)
        _shorten(row, sorted(self._texts, key=lambda name: len(row[name])), row_bytes)


def _shorten(row: Row, names: list[str], row_bytes: int) -> None:
    """Cut the longest texts of a row, whose names come last, until all fit."""
    free_bytes = row_bytes
    for index, name in enumerate(names):
        share = free_bytes // (len(names) - index)
        encoded = row[name].encode("utf-8", "replace")
        if len(encoded) > share:
            encoded = encoded[:share]
            row[name] = encoded.decode("utf-8", "ignore")
        free_bytes -= len(encoded)


@cache
def _defaults(table: sa.Table) -> dict[str, Any]:
    """Return the defaults that fit and are the same object wherever they are."""
    defaults = {column.name: schema.default_of(column) for column in table.columns}
    return {name: value for name, value in defaults.items() if value in ("", 0, 1, -1)}


@lru_cache(256)
def _columns(table: sa.Table, names: tuple[str, ...]) -> _Columns:
    texts: dict[str, int] = {}
    numbers: list[str] = []
    for name in names:
        column = table.c[name]
        if isinstance(column.type, sa.String):
            texts[name] = column.type.length or column.info.get("most", TEXT_CHARACTERS)
        else:
            numbers.append(name)
    return _Columns(texts, numbers)
