"""The tables of usage, and how far they are filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.lengths import fit
from pyslurm_ng.dbd.rollup.hour import Usage
from pyslurm_ng.dbd.rollup.periods import (
    day_of,
    hour_of,
    month_of,
    next_day,
    next_hour,
    next_month,
)
from pyslurm_ng.dbd.rollup.spans import Span

BEGIN_OF: Mapping[str, Callable[[int], int]] = {
    "hour": hour_of, "day": day_of, "month": month_of
}  # fmt: skip
NEXT: Mapping[str, Callable[[int], int]] = {
    "hour": next_hour, "day": next_day, "month": next_month
}  # fmt: skip
FINER = {"day": "hour", "month": "day"}

_ROW_BYTES = 4096
"""More than the names of a row can take."""

_ASKED, _DONE_AGAIN = "usage_asked_us_", "usage_done_again_s_"
"""Names in the store, before the id of a cluster."""

Rows = dict[sa.Table, list[dict[str, Any]]]


class LastRan(NamedTuple):
    """What is done for a cluster: everything before these times, in seconds.

    `claimed_s` is the end of the hours that may be read now.
    """

    hour: int
    day: int
    month: int
    claimed_s: int


def claim(connection: sa.Connection, database: Database, cluster_id: int, now_s: int
          ) -> LastRan | None:  # fmt: skip
    """Return what is to be done until now; hours that have changed are to be done again.

    From here on, changes of these hours are noted. None: the cluster has nothing to count yet.
    """
    table = schema.last_ran
    row = connection.execute(sa.select(table).where(table.c.cluster_id == cluster_id)).first()
    if row is None:
        first_s = _first_second(connection, cluster_id, now_s)
        if first_s is None:
            return None
        done = {period: begin_of(first_s) for period, begin_of in BEGIN_OF.items()}
    else:
        done = {period: row._mapping[f"{period}_us"] // SECOND_US for period in BEGIN_OF}
        changed_us = row.changed_us
        if not changed_us and done["hour"] == hour_of(now_s):
            changed_us = _asked_for(connection, database, cluster_id, hour_of(now_s))
        if changed_us:
            changed_s = max(changed_us // SECOND_US, _came_s(connection, cluster_id, now_s))
            kept_s = _kept_since(row)
            done = {
                period: min(done_s, max(BEGIN_OF[period](changed_s), kept_s[period]))
                for period, done_s in done.items()
            }
    claimed_s = max(hour_of(now_s), done["hour"])
    values = {f"{period}_us": done_s * SECOND_US for period, done_s in done.items()}
    values |= {"claimed_us": claimed_s * SECOND_US, "changed_us": 0, "cluster_id": cluster_id}
    database.upsert(connection, table, ("cluster_id",), [values])
    return LastRan(done["hour"], done["day"], done["month"], claimed_s)


def _kept_since(row: sa.Row[Any]) -> dict[str, int]:
    """Return the first hour, day and month whose records are all there, in seconds."""
    usage_s = row.usage_purged_us // SECOND_US
    kept_s = {"hour": max(usage_s, row.purged_us // SECOND_US), "day": usage_s, "month": usage_s}
    return {
        period: second if BEGIN_OF[period](second) == second else NEXT[period](second)
        for period, second in kept_s.items()
    }


def note_change(connection: sa.Connection, cluster_id: int, time_us: int) -> None:
    """Have the hours since a time done again, if they are done or being done."""
    table = schema.last_ran
    is_earlier = sa.or_(table.c.changed_us == 0, table.c.changed_us > time_us)
    connection.execute(
        table.update()
        .where(table.c.cluster_id == cluster_id, table.c.claimed_us > time_us, is_earlier)
        .values(changed_us=max(time_us, 1))
    )


def ask_again(connection: sa.Connection, database: Database, cluster_id: int, time_us: int) -> None:
    """Have the hours since a time done again some time: at most once an hour, after new ones.

    So users may ask for it: they delay neither new hours, nor what is purged.
    """
    known = _noted(connection, f"{_ASKED}{cluster_id}")
    _note(connection, database, f"{_ASKED}{cluster_id}", min(known or time_us, time_us))


def _asked_for(connection: sa.Connection, database: Database, cluster_id: int, hour_s: int) -> int:
    """Return since when hours are to be done again now, 0 if none are."""
    asked_us = _noted(connection, f"{_ASKED}{cluster_id}")
    if not asked_us or _noted(connection, f"{_DONE_AGAIN}{cluster_id}") == hour_s:
        return 0
    _note(connection, database, f"{_ASKED}{cluster_id}", 0)
    _note(connection, database, f"{_DONE_AGAIN}{cluster_id}", hour_s)
    return asked_us


def _noted(connection: sa.Connection, name: str) -> int:
    table = schema.store
    value = connection.execute(sa.select(table.c.value).where(table.c.name == name)).scalar()
    return int(value or 0)


def _note(connection: sa.Connection, database: Database, name: str, value: int) -> None:
    row = {"name": name, "value": str(value)}
    database.upsert(connection, schema.store, ("name",), [row])


def _first_second(connection: sa.Connection, cluster_id: int, now_s: int) -> int | None:
    """Return when there was something to count first; a job may have its begin time to come."""
    came_s = _came_s(connection, cluster_id, now_s)
    if came_s:
        return came_s
    jobs = schema.jobs.c
    first_us = _least(connection, jobs.eligible_us, jobs.cluster_id == cluster_id, now_s)
    return first_us // SECOND_US or None


def _came_s(connection: sa.Connection, cluster_id: int, now_s: int) -> int:
    """Return when a cluster told for the first time what it has, 0 if it has not.

    As in Slurm, nothing is counted before: a record of that time has it from a wrong clock, and
    the hours since 1970 would take as long as those of all years to come.
    """
    events = schema.node_events.c
    of_cluster = sa.and_(events.cluster_id == cluster_id, events.node_name == "")
    return _least(connection, events.start_us, of_cluster, now_s) // SECOND_US


def _least(
    connection: sa.Connection, times: sa.Column[int], which: sa.ColumnElement[bool], now_s: int
) -> int:
    """Return the first of some times until now, 0 if there is none."""
    query = sa.select(sa.func.min(times)).where(which, times.between(1, now_s * SECOND_US))
    return connection.execute(query).scalar() or 0


def hour_rows(usage: Usage, tres_ids: Mapping[str, int]) -> Rows:
    """Return the rows of an hour, without cluster and time."""
    clusters = [
        {
            "tres_id": tres_ids[name],
            **{_COLUMNS[key]: value for key, value in asdict(times).items()},
        }
        for name, times in usage.cluster.items()
        if name in tres_ids
    ]
    associations = [
        {"association_id": association, "qos_id": qos, "tres_id": tres_ids[name], "allocated_s": s}
        for (association, qos), seconds in usage.by_association.items()
        for name, s in seconds.items()
        if name in tres_ids
    ]
    wckeys = [
        {"wckey": wckey, "user": user, "tres_id": tres_ids[name], "allocated_s": s}
        for (wckey, user), seconds in usage.by_wckey.items()
        for name, s in seconds.items()
        if name in tres_ids
    ]
    return {
        schema.cluster_usage["hour"]: clusters,
        schema.association_usage["hour"]: associations,
        schema.wckey_usage["hour"]: wckeys,
    }


_COLUMNS = {
    "count": "count", "allocated": "allocated_s", "down": "down_s",
    "planned_down": "planned_down_s", "idle": "idle_s", "planned": "planned_s", "over": "over_s",
}  # fmt: skip


def sum_rows(connection: sa.Connection, cluster_id: int, period: str, span: Span) -> Rows:
    """Return the rows of a day or month: the sums of its hours or days."""
    sums: Rows = {}
    for tables in schema.USAGE:
        finer = tables[FINER[period]]
        keys = [key for key in finer.primary_key if key.name not in ("cluster_id", "start_us")]
        values = [
            (sa.func.max(column) if column.name == "count" else sa.func.sum(column)).label(
                column.name
            )
            for column in finer.c
            if not column.primary_key
        ]
        query = sa.select(*keys, *values).where(_of(finer, cluster_id, span)).group_by(*keys)
        sums[tables[period]] = [
            {
                name: value if isinstance(value, str) else int(value)
                for name, value in row._mapping.items()
            }
            for row in connection.execute(query)
        ]
    return sums


def replace(
    connection: sa.Connection, cluster_id: int, period: str, span: Span, rows: Rows
) -> bool:
    """Store the rows of a period in place of those that are there.

    Returns:
        False if what they were read from has changed since; nothing is stored then.
    """
    last = schema.last_ran
    of_cluster = last.c.cluster_id == cluster_id
    changed_us = connection.execute(sa.select(last.c.changed_us).where(of_cluster)).scalar()
    if changed_us is None or 0 < changed_us < span.end_s * SECOND_US:
        return False
    own = {"cluster_id": cluster_id, "start_us": span.start_s * SECOND_US}
    for table, table_rows in rows.items():
        connection.execute(table.delete().where(_of(table, cluster_id, span)))
        if table_rows:
            fitting = [own | row for row in table_rows]
            fit(table, fitting, _ROW_BYTES)
            connection.execute(table.insert(), fitting)
    done = {f"{period}_us": span.end_s * SECOND_US}
    connection.execute(last.update().where(of_cluster).values(**done))
    return True


def _of(table: sa.Table, cluster_id: int, span: Span) -> sa.ColumnElement[bool]:
    return sa.and_(
        table.c.cluster_id == cluster_id,
        table.c.start_us >= span.start_s * SECOND_US,
        table.c.start_us < span.end_s * SECOND_US,
    )


def tres_ids(connection: sa.Connection) -> dict[str, int]:
    """Return the ids of TRES by name, as amounts name them."""
    return {
        f"{row.type}/{row.name}" if row.name else row.type: row.id
        for row in connection.execute(sa.select(schema.tres))
    }
