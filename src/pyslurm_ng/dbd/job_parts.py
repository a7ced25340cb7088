"""The stored rows of listed jobs, part by part.

Statements are built once for a listing and the numbers of jobs put in as text: with SQLAlchemy and
a driver that quotes each number, that would take longer than the database needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.mysql import pymysql

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.admin.wckeys import DEFAULT_MARK

PART_BYTES = 8 << 20
"""A part ends when it has as much: the texts of one job may take half a megabyte."""

_JOBS_AT_ONCE = 2_000
_STEPS_AT_ONCE = 20_000
_MOST_STEP_BYTES = 64 << 20
_MARK = "are_of_part"
_encode = msgspec.msgpack.Encoder().encode

WCKEY_ID = "wckey_id"
"""The number of a job's wckey, 0 without one: jobs keep the name only."""
JOB_COLUMNS = frozenset((*(column.name for column in schema.jobs.columns), WCKEY_ID))
STEP_COLUMNS = frozenset(column.name for column in schema.steps.columns)
STEP_TOTALS = ("total_user_cpu_us", "total_system_cpu_us", "total_energy_j")
"""Sums over a job's steps; -1 energy means that no step ended with a figure."""
_NO_STEPS = (0, 0, -1)

_DIALECTS: dict[str, sa.Dialect] = {
    "sqlite": sqlite.dialect(), "mysql": pymysql.dialect(), "mariadb": pymysql.dialect()
}  # fmt: skip
_jobs = schema.jobs.c
_steps = schema.steps.c
_first = itemgetter(0)


class JobParts:
    """Reads the chosen columns of jobs and of their steps.

    Args:
        columns: of jobs, also those of `STEP_TOTALS`.
        step_columns: of steps; empty for no steps.
    """

    def __init__(
        self, connection: sa.Connection, columns: Sequence[str], step_columns: Sequence[str]
    ) -> None:
        plain = tuple(name for name in columns if name in JOB_COLUMNS)
        chosen = tuple(step_columns)
        kind = connection.dialect.name
        self._jobs = _text(kind, "jobs", plain)
        self._has_totals = len(plain) < len(columns)
        places = [*plain, *STEP_TOTALS]
        self._order = [places.index(name) + 1 for name in columns]
        self._totals = _text(kind, "totals", ()) + " GROUP BY steps.job_index"
        by_key = " ORDER BY steps.job_index, steps.step_id, steps.het_component"
        self._steps = _text(kind, "steps", chosen) + by_key if chosen else ""
        self._lengths = _text(kind, "lengths", chosen)
        self._jobs_at_once = _JOBS_AT_ONCE

    def part(self, connection: sa.Connection, indexes: Sequence[int]) -> tuple[int, bytes, bytes]:
        """Return how many of the jobs a part holds, and its packed job and step records.

        Jobs that the database no longer has are left out. A step record begins with the position
        of its job among the job records.

        Raises:
            RefusedError: the steps of one job take too much.
        """
        records: list[bytes] = []
        step_records: list[bytes] = []
        taken = size = count = 0
        while taken < len(indexes) and size < PART_BYTES:
            ids = list(indexes[taken : taken + self._jobs_at_once])
            steps = self._steps_of(connection, ids)
            while steps is None:
                self._jobs_at_once = max(len(ids) // 2, 1)
                ids = ids[: self._jobs_at_once]
                steps = self._steps_of(connection, ids)
            rows = self._job_rows(connection, ids)
            there = [index for index in ids if index in rows]
            records.append(_packed([rows[index] for index in there]))
            step_records.append(
                _packed(
                    [
                        (position, *step[1:])
                        for position, index in enumerate(there, count)
                        for step in steps.get(index, ())
                    ]
                )
            )
            count += len(there)
            size += len(records[-1]) + len(step_records[-1])
            taken += len(ids)
        return taken, b"".join(records), b"".join(step_records)

    def _job_rows(self, connection: sa.Connection, ids: list[int]) -> dict[int, Any]:
        """Return the columns wanted of each job that is there."""
        rows = _rows(connection, self._jobs, ids)
        if not self._has_totals:
            return {row[0]: row[1:] for row in rows}
        totals = {
            index: (int(user_us), int(system_us), int(energy_j))
            for index, user_us, system_us, energy_j in _rows(connection, self._totals, ids)
        }
        in_order = itemgetter(*self._order, 0)  # not a single one, of which it makes no tuple
        return {row[0]: in_order((*row, *totals.get(row[0], _NO_STEPS)))[:-1] for row in rows}

    def _steps_of(self, connection: sa.Connection, ids: list[int]) -> dict[int, Any] | None:
        """Return the steps of jobs, None if these jobs have too many together."""
        if not self._steps:
            return {}
        rows = _rows(connection, f"{self._steps} LIMIT {_STEPS_AT_ONCE + 1}", ids)
        if len(rows) > _STEPS_AT_ONCE:
            if len(ids) > 1:
                return None
            lengths = _rows(connection, self._lengths, ids)[0][1:]
            if sum(int(value or 0) for value in lengths) > _MOST_STEP_BYTES:
                raise RefusedError(
                    f"The steps of one job take more than {_MOST_STEP_BYTES >> 20} MiB: "
                    "ask for less with -X or -o"
                )
            rows = _rows(connection, self._steps, ids)
        return {index: list(steps) for index, steps in groupby(rows, _first)}


@lru_cache(256)
def _text(dialect: str, what: str, columns: tuple[str, ...]) -> str:
    """Return the statement for some columns behind the number of the job, as the driver takes it.

    A driver may take no name twice, so columns are numbered.
    """
    values: list[Any]
    match what:
        case "jobs":
            values = [_wckey_id() if name == WCKEY_ID else _jobs[name] for name in columns]
        case "steps":
            values = [_steps[name] for name in columns]
        case "lengths":
            values = [sa.func.sum(sa.func.length(_steps[name])) for name in columns]
        case _:
            values = [
                sa.func.sum(_steps.user_cpu_us),
                sa.func.sum(_steps.system_cpu_us),
                sa.func.max(_steps.energy_j),
            ]
    index = _jobs.job_index if what == "jobs" else _steps.job_index
    named = [value.label(f"c_{number}") for number, value in enumerate(values)]
    query = sa.select(index, *named).where(sa.text(f"{index} {_MARK}"))
    return str(query.compile(dialect=_DIALECTS[dialect]))


def _wckey_id() -> Any:
    """Return the number of the wckey that a job's user has by the job's name for it.

    A name behind the mark of defaults is the key's. Removed keys keep their numbers.
    """
    keys = schema.wckeys.c
    first: sa.ColumnElement[int] = sa.literal_column("1")
    second: sa.ColumnElement[int] = sa.literal_column("2")
    is_marked = sa.func.substr(_jobs.wckey, first, first) == sa.literal_column(f"'{DEFAULT_MARK}'")
    name = sa.case((is_marked, sa.func.substr(_jobs.wckey, second)), else_=_jobs.wckey)
    query = sa.select(keys.id).where(
        keys.cluster_id == _jobs.cluster_id, keys.name == name, keys.user == _jobs.user
    )
    return sa.func.coalesce(query.scalar_subquery(), sa.literal_column("0"))


def _rows(connection: sa.Connection, text: str, ids: Sequence[int]) -> Sequence[Any]:
    """Return the rows of jobs, and perhaps of a few others between them."""
    return connection.exec_driver_sql(text.replace(_MARK, _among(ids))).all()


def _among(ids: Sequence[int]) -> str:
    """Return the condition for numbers of jobs; they are at least four fifths of what it selects.

    Those of a day mostly follow each other. MariaDB reads a range in a third of the time that it
    takes to look for as many numbers.
    """
    first, last = min(ids), max(ids)
    if last - first < len(ids) * 5 // 4:
        return f"BETWEEN {first} AND {last}"
    return f"IN ({','.join(map(str, ids))})"


def _packed(rows: list[Any]) -> bytes:
    """Return rows one after the other, as msgpack has them behind the length of their list."""
    return _encode(rows)[1 if len(rows) < 16 else 3 if len(rows) < 1 << 16 else 5 :]
