"""Jobs that came and ended in one hour, added up by the database.

Most jobs of a busy cluster are short. A row of each takes the driver longer than the database needs
to add them up. So rows are read only of jobs for which a sum does not do: see `is_plain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.columns import SUMMED_CHARACTERS

_jobs = schema.jobs.c


def summed_tres(row: Mapping[str, Any]) -> str:
    """Return what a record has as `summed_tres`: empty if a sum does not do for it.

    That is so for jobs that were suspended, use a reservation, wait as an array or go on with an
    earlier record; if their energy is known, which is not multiplied by their time; and if the
    list of their TRES is too long for an index.
    """
    tres: str = row["tres_allocated"]
    if (
        row["suspended_us"]
        or row["suspend_start_us"]
        or row["reservation"]
        or row["array_tasks"]
        or row["sluid"] != row["original_sluid"]
        or len(tres) > SUMMED_CHARACTERS
        or "energy=" in tres
    ):
        return ""
    return tres or schema.NO_TRES


def is_plain(end_us: int) -> sa.ColumnElement[bool]:
    """Return whether a job of an hour was over at its end, and a sum does for it.

    The additions of 0 keep databases from the index of ends, in which the jobs of all years are.
    """
    return sa.and_(
        _jobs.end_us + 0 > 0,
        _jobs.end_us + 0 <= end_us,
        sa.or_(
            # Jobs that end before their begin time never waited.
            sa.and_(_jobs.start_us == 0, _jobs.end_us >= _jobs.eligible_us),
            sa.and_(_jobs.start_us >= _jobs.eligible_us, _jobs.end_us >= _jobs.start_us),
        ),
        _jobs.summed_tres != "",
    )


def read_sums(
    connection: sa.Connection, cluster_id: int, start_us: int, end_us: int
) -> list[sa.Row[Any]]:
    """Return the sums of the plain jobs that became eligible in an hour.

    Rows have association_id, qos, user, wckey, summed_tres (what each job held), used_s (for how
    long, in all) and waited_cpu_s (CPUs asked for times seconds of waiting). Only columns of
    `ix_jobs_usage` are read: to look for the rows themselves takes the database thrice the time.
    """
    keys = (_jobs.association_id, _jobs.qos, _jobs.user, _jobs.wckey, _jobs.summed_tres)
    start_s, end_s = _seconds(connection, _jobs.start_us), _seconds(connection, _jobs.end_us)
    used_s = sa.case((_jobs.start_us == 0, 0), else_=end_s - start_s)
    until_s = sa.case((_jobs.start_us == 0, end_s), else_=start_s)
    waited_s = until_s - _seconds(connection, _jobs.eligible_us)
    sums = (
        sa.func.sum(used_s).label("used_s"),
        sa.func.sum(_jobs.cpus_requested * waited_s).label("waited_cpu_s"),
    )
    query = sa.select(*keys, *sums).where(_came(cluster_id, start_us, end_us), is_plain(end_us))
    return list(connection.execute(query.group_by(*keys)))


def last_ends(
    connection: sa.Connection, cluster_id: int, hour_us: tuple[int, int], drains_us: tuple[int, int]
) -> list[sa.Row[Any]]:
    """Return for each list of nodes when plain jobs ran there: node_list, start_us, end_us.

    The first begin and the last end are those of all jobs of the list.

    Args:
        hour_us: the hour in which the jobs came.
        drains_us: when the first node was drained, and the last one. What ended before says
            nothing, and what began later ran elsewhere, as a drained node starts no jobs. Most
            nodes are drained for longer than an hour, and then no row is looked for.
    """
    first_us, last_us = drains_us
    start_us = sa.func.min(_jobs.start_us).label("start_us")
    end_us = sa.func.max(_jobs.end_us).label("end_us")
    query = sa.select(_jobs.node_list, start_us, end_us).where(
        _came(cluster_id, *hour_us),
        is_plain(hour_us[1]),
        _jobs.start_us > 0,
        _jobs.start_us <= last_us,
        _jobs.end_us + 0 >= first_us,
    )
    return list(connection.execute(query.group_by(_jobs.node_list)))


def _came(cluster_id: int, start_us: int, end_us: int) -> sa.ColumnElement[bool]:
    return sa.and_(
        _jobs.cluster_id == cluster_id,
        _jobs.eligible_us >= max(start_us, 1),
        _jobs.eligible_us < end_us,
    )


def _seconds(connection: sa.Connection, column: sa.Column[int]) -> sa.ColumnElement[int]:
    """Return whole seconds; MariaDB's sign for division gives a decimal number."""
    sign = "/" if connection.dialect.name == "sqlite" else "DIV"
    return column.op(sign, return_type=sa.BigInteger())(SECOND_US)
