"""Statements that are compiled once: to build one with SQLAlchemy takes longer than the database.

Only those that every message of a controller needs are written so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.compiler import SQLCompiler

_MARK = "numbers_of_statement"

NUMBERS = sa.literal_column(_MARK, sa.BigInteger())
"""Stands for a list of whole numbers, as in `column.in_([NUMBERS])`."""


class _Text(NamedTuple):
    """A statement as its driver takes it.

    Attributes:
        order: names of values in the order of their marks; None where marks have names.
        fixed: values that are part of the statement.
    """

    text: str
    order: tuple[str, ...] | None
    fixed: dict[str, Any]


class Statement:
    """A statement whose values are given by name when it runs."""

    def __init__(self, expression: sa.sql.ClauseElement) -> None:
        self._expression = expression
        self._texts: dict[str, _Text] = {}

    def run(
        self,
        connection: sa.Connection,
        values: Mapping[str, Any],
        numbers: Iterable[int] | None = None,
    ) -> sa.CursorResult[Any]:
        """Run it with these values.

        Args:
            numbers: what stands in place of `NUMBERS`.
        """
        kind = connection.dialect.name
        text, order, fixed = self._texts.get(kind) or self._compiled(connection.dialect)
        if numbers is not None:
            text = text.replace(_MARK, ",".join(map(str, numbers)))
        parameters = {**fixed, **values}
        if order is None:
            return connection.exec_driver_sql(text, parameters)
        return connection.exec_driver_sql(text, tuple(parameters[name] for name in order))

    def _compiled(self, dialect: sa.Dialect) -> _Text:
        compiled = self._expression.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        order = tuple(compiled.positiontup or ()) if compiled.positional else None
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        made = self._texts[dialect.name] = _Text(str(compiled), order, fixed)
        return made
