"""Fit rows to their columns: longer texts are cut, larger numbers are brought into range.

Messages have bounds, and this is the second check: no text of any user or controller version may
make the database refuse a row, as MariaDB would (RELIABILITY 50).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.columns import TEXT_CHARACTERS
from pyslurm_ng.kernels.records import examined

Row = dict[str, Any]

LEAST, MOST = -(2**63), 2**63 - 1
_UTF8_BYTES = 4
_MANY = 50
"""Rows for which it is worth the time to look what they have in common."""


def fit(table: sa.Table, rows: list[Row], row_bytes: int) -> frozenset[str]:
    """Change rows in place so that the database takes them; all have the same columns.

    Args:
        row_bytes: the most that the texts of one row may take, encoded; of a larger row the
            longest texts are cut first.

    Returns:
        columns that have their default in all of many rows, half of those of most jobs.
    """
    if not rows:
        return frozenset()
    columns = _columns(table, tuple(rows[0]))
    misfits, usual = columns.examined(rows, row_bytes)
    for row in misfits:
        columns.cut(row, row_bytes)
    return frozenset(usual) if len(rows) >= _MANY else frozenset()


class _Columns:
    """The columns of one kind of row."""

    def __init__(self, names: tuple[str, ...], texts: dict[str, int], usual: Row) -> None:
        self._texts = texts
        self._numbers = [name for name in names if name not in texts]
        lengths = tuple([texts.get(name, -1) for name in names])
        self._checks = (names, lengths, tuple(map(usual.get, names)))

    def examined(self, rows: list[Row], row_bytes: int) -> tuple[list[Row], list[str]]:
        """Return the rows that do not fit, and the columns that have their default in all rows.

        Every row is looked at, so a kernel does it.
        """
        return examined(rows, *self._checks, row_bytes // _UTF8_BYTES)

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


def _defaults(table: sa.Table) -> dict[str, Any]:
    """Return the defaults that fit and are the same object wherever they are."""
    defaults = {column.name: schema.default_of(column) for column in table.columns}
    return {name: value for name, value in defaults.items() if value in ("", 0, 1, -1)}


@lru_cache(256)
def _columns(table: sa.Table, names: tuple[str, ...]) -> _Columns:
    texts: dict[str, int] = {}
    for name in names:
        column = table.c[name]
        if isinstance(column.type, sa.String):
            texts[name] = column.type.length or column.info.get("most", TEXT_CHARACTERS)
    return _Columns(names, texts, _defaults(table))
