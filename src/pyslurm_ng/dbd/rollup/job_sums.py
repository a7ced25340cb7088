"""Jobs that came and ended in one hour, added up by the database.

Most jobs of a busy cluster are short. A row of each takes the driver longer than the database needs
to add them up. So rows are read only of jobs for which a sum does not do: see `is_plain`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema

_jobs = schema.jobs.c
_MOST_BYTES = 255
"""Of a list of TRES: MariaDB groups rows in memory only by short texts."""


def is_plain(end_us: int) -> sa.ColumnElement[bool]:
    """Return whether a job of an hour was over at its end, and is of no reservation or suspended.

    Jobs whose energy is known are none: it is not multiplied by their time.

    The additions of 0 keep databases from the index of ends, in which the jobs of all years are.
    """
    return sa.and_(
        _jobs.end_us + 0 > 0,
        _jobs.end_us + 0 <= end_us,
        sa.or_(
            _jobs.start_us == 0,
            sa.and_(_jobs.start_us >= _jobs.eligible_us, _jobs.end_us >= _jobs.start_us),
        ),
        _jobs.suspended_us == 0,
        _jobs.suspend_start_us == 0,
        _jobs.reservation == "",
        _jobs.array_tasks == "",
        sa.func.length(_jobs.tres_allocated) <= _MOST_BYTES,
        _jobs.tres_allocated.not_like("%energy=%"),
    )


def read_sums(
    connection: sa.Connection, cluster_id: int, start_us: int, end_us: int
) -> list[sa.Row[Any]]:
    """Return the sums of the plain jobs that became eligible in an hour.

    Rows have association_id, qos, user, wckey, tres (what each job held), used_s (for how long, in
    all) and waited_cpu_s (CPUs asked for times seconds of waiting).
    """
    # A function of the column is a short text for MariaDB, the column itself is none.
    tres = sa.func.substr(_jobs.tres_allocated, 1, _MOST_BYTES).label("tres")
    keys = (_jobs.association_id, _jobs.qos, _jobs.user, _jobs.wckey, tres)
    start_s, end_s = _seconds(connection, _jobs.start_us), _seconds(connection, _jobs.end_us)
    used_s = sa.case((_jobs.start_us == 0, 0), else_=end_s - start_s)
    until_s = sa.case((_jobs.start_us == 0, end_s), else_=start_s)
    waited_s = until_s - _seconds(connection, _jobs.eligible_us)
    # The record of a run that has changed its size goes on with an earlier one.
    is_first = _jobs.sluid == _jobs.original_sluid
    waited_cpu_s = sa.case((is_first, _jobs.cpus_requested * waited_s), else_=0)
    sums = (sa.func.sum(used_s).label("used_s"), sa.func.sum(waited_cpu_s).label("waited_cpu_s"))
    query = sa.select(*keys, *sums).where(_came(cluster_id, start_us, end_us), is_plain(end_us))
    return list(connection.execute(query.group_by(*keys)))


def last_ends(
    connection: sa.Connection, cluster_id: int, start_us: int, end_us: int
) -> list[sa.Row[Any]]:
    """Return for each list of nodes when the last plain job there ended: node_list, end_us."""
    last_us = sa.func.max(_jobs.end_us).label("end_us")
    query = sa.select(_jobs.node_list, last_us).where(
        _came(cluster_id, start_us, end_us), is_plain(end_us), _jobs.start_us > 0
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
