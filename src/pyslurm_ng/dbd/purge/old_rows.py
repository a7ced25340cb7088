"""Old rows of each kind: a few at a time, found by an index, and their removal.

Records that usage is added up from stay until it is. What the last roll-up has not reached, or has
to do again, is not old, whatever slurmdbd.conf says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.rollup.periods import hour_of

Row = dict[str, Any]
Rows = dict[sa.Table, list[Row]]
Find = Callable[[sa.Connection, int, int, int], Rows]
"""From a cluster, the time before which rows are old and how many at most, to keys of old rows."""

ROLLED_UP = ("event", "job", "resv", "suspend")
"""Kinds that usage is added up from."""
OF_ALL_CLUSTERS = ("job_script", "job_env", "txn")
_PERIOD_DONE = {"hour": "day_us", "day": "month_us"}
"""How far the sums are done that are made of hours and days."""


def until(connection: sa.Connection, kind: str, cluster_id: int, before_us: int) -> int:
    """Return the time before which records of a kind may go: their usage is stored for good."""
    if kind not in ROLLED_UP:
        return before_us
    table = schema.last_ran
    row = connection.execute(sa.select(table).where(table.c.cluster_id == cluster_id)).first()
    if row is None:
        return 0
    until_us: int = row.hour_us
    if row.changed_us:
        # All that overlaps the hour of the change is read again.
        until_us = min(until_us, hour_of(row.changed_us // SECOND_US) * SECOND_US)
    return min(before_us, until_us)


def note_purge(connection: sa.Connection, cluster_id: int, kind: str, before_us: int) -> None:
    """Remember that usage before a time can no longer be added up again."""
    column = {"usage": "usage_purged_us"}.get(kind, "purged_us" if kind in ROLLED_UP else "")
    if column:
        table = schema.last_ran
        connection.execute(
            table.update()
            .where(table.c.cluster_id == cluster_id, table.c[column] < before_us)
            .values({column: before_us})
        )


def find(connection: sa.Connection, kind: str, cluster_id: int, before_us: int, most: int) -> Rows:
    """Return keys of some old rows of a kind, and of all that belongs to them; empty: none is old.

    An index has all that this reads. Where MariaDB needs more of a row, it also looks at all jobs
    that are not over.
    """
    rows = _FIND[kind](connection, cluster_id, before_us, most)
    return {table: table_rows for table, table_rows in rows.items() if table_rows}


def whole(connection: sa.Connection, keys: Rows) -> Rows:
    """Return the rows of keys with all columns."""
    rows: Rows = {}
    for table, table_keys in keys.items():
        if connection.dialect.name == "sqlite":
            query = sa.select(table).where(_has_key(table))
            selected = [connection.execute(query, _marked(key)).one() for key in table_keys]
            rows[table] = [dict(row._mapping) for row in selected]
        else:
            rows[table] = _read(connection, sa.select(table).where(_is_of(table, table_keys)))
    return rows


def remove(connection: sa.Connection, keys: Rows) -> int:
    """Delete the rows of keys; return how many."""
    for table, table_keys in keys.items():
        if connection.dialect.name == "sqlite":
            # For a choice of several keys SQLite reads the whole table.
            connection.execute(
                table.delete().where(_has_key(table)), list(map(_marked, table_keys))
            )
        else:
            # A statement for each row would wait for the server as often.
            connection.execute(table.delete().where(_is_of(table, table_keys)))
    return sum(map(len, keys.values()))


def _has_key(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(*[key == sa.bindparam(f"key_{key.name}") for key in table.primary_key.columns])


def _marked(key: Row) -> Row:
    """Return the values of `_has_key`."""
    return {f"key_{name}": value for name, value in key.items()}


def _is_of(table: sa.Table, keys: list[Row]) -> sa.ColumnElement[bool]:
    columns = list(table.primary_key.columns)
    values = [tuple(key[column.name] for column in columns) for key in keys]
    if len(values) == 1:
        # For a choice of one MariaDB reads, and locks, the whole table.
        return sa.and_(*[column == value for column, value in zip(columns, *values, strict=True)])
    return sa.tuple_(*columns).in_(values)


def _keys(table: sa.Table) -> sa.Select[Any]:
    return sa.select(*table.primary_key.columns)


def _ended(table: sa.Table) -> Find:
    """Return how rows of a cluster are found whose time has ended."""

    def find_ended(connection: sa.Connection, cluster_id: int, before_us: int, most: int) -> Rows:
        end = table.c.end_us
        query = _keys(table).where(table.c.cluster_id == cluster_id, end > 0, end < before_us)
        return {table: _read(connection, query.order_by(end).limit(most))}

    return find_ended


def _events(connection: sa.Connection, cluster_id: int, before_us: int, most: int) -> Rows:
    """Return what happened to nodes, and which instances of a cloud they were."""
    rows: Rows = {}
    for table in (schema.node_events, schema.node_instances):
        rows |= _ended(table)(connection, cluster_id, before_us, most)
    return rows


def _of_jobs(table: sa.Table) -> Find:
    """Return how rows are found that belong to a cluster's jobs and have ended."""

    def find_ended(connection: sa.Connection, cluster_id: int, before_us: int, most: int) -> Rows:
        jobs, end = schema.jobs, table.c.end_us
        # No join: MariaDB would begin with all jobs, and sort their rows for each transaction.
        cluster = sa.select(jobs.c.cluster_id).where(jobs.c.job_index == table.c.job_index)
        query = (
            _keys(table)
            .where(end > 0, end < before_us, cluster.scalar_subquery() == cluster_id)
            .order_by(end)
            .limit(most)
        )
        return {table: _read(connection, query)}

    return find_ended


def _jobs(connection: sa.Connection, cluster_id: int, before_us: int, most: int) -> Rows:
    """Return jobs with their steps and suspensions; or some of these first, if there are many."""
    jobs = _ended(schema.jobs)(connection, cluster_id, before_us, most)[schema.jobs]
    indices = [row["job_index"] for row in jobs]
    rows: Rows = {}
    for table in (schema.steps, schema.suspensions):
        query = _keys(table).where(table.c.job_index.in_(indices)).limit(most)
        rows[table] = _read(connection, query) if indices else []
        if len(rows[table]) == most:
            return rows
    return rows | {schema.jobs: jobs}


def _texts(column: str) -> Find:
    """Return how scripts or environments are found that no younger job has, and no job as both."""

    def find_unused(connection: sa.Connection, _: int, before_us: int, most: int) -> Rows:
        texts, jobs = schema.texts, schema.jobs
        own, other = (jobs.c[name] for name in (column, _OTHER[column]))
        is_young = sa.or_(jobs.c.end_us == 0, jobs.c.end_us >= before_us)
        query = (
            _keys(texts)
            .where(
                texts.c.last_used_us < before_us,
                ~sa.exists().where(own == texts.c.hash, is_young),
                ~sa.exists().where(other == texts.c.hash),
            )
            .limit(min(most, _TEXTS))
        )
        return {texts: _read(connection, query)}

    return find_unused


_OTHER = {"script_hash": "environment_hash", "environment_hash": "script_hash"}
_TEXTS = 20
"""Texts of one transaction; each may have megabytes."""


def _transactions(connection: sa.Connection, _: int, before_us: int, most: int) -> Rows:
    table = schema.txn
    query = _keys(table).where(table.c.time_us < before_us)
    return {table: _read(connection, query.order_by(table.c.time_us).limit(most))}


def _usage(connection: sa.Connection, cluster_id: int, before_us: int, most: int) -> Rows:
    """Return usage; hours and days stay until the days and months are added up."""
    last = schema.last_ran
    done = connection.execute(sa.select(last).where(last.c.cluster_id == cluster_id)).first()
    if done is None:
        return {}
    for tables in schema.USAGE:
        for period, table in tables.items():
            name = _PERIOD_DONE.get(period)
            until_us = min(before_us, done._mapping[name]) if name else before_us
            begin = table.c.start_us
            query = _keys(table).where(table.c.cluster_id == cluster_id, begin < until_us)
            rows = _read(connection, query.order_by(begin).limit(most))
            if rows:
                return {table: rows}
    return {}


def _read(connection: sa.Connection, query: sa.Select[Any]) -> list[Row]:
    return [dict(row._mapping) for row in connection.execute(query)]


_FIND: dict[str, Find] = {
    "event": _events,
    "job": _jobs,
    "job_script": _texts("script_hash"),
    "job_env": _texts("environment_hash"),
    "resv": _ended(schema.reservations),
    "step": _of_jobs(schema.steps),
    "suspend": _of_jobs(schema.suspensions),
    "txn": _transactions,
    "usage": _usage,
}
