"""How records are removed: their rows stay, so that jobs keep their names.

As in Slurm, what is removed within a day of being made, and of which no job is known, is never
listed again; the rest is by WithDeleted. Rows of both kinds stay: controllers learn from them what
is gone, and an id never means two things.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import DAY_US
from pyslurm_ng.dbd import removed, schema
from pyslurm_ng.dbd.admin.change import Change

_AT_ONCE = 500


def remove(
    change: Change,
    key: sa.Column[Any],
    names: Iterable[Any],
    of_jobs: sa.Column[Any] | None = None,
    **values: object,
) -> None:
    """Mark records as removed.

    Args:
        key: the column that names a record, of the table that has `created_us`.
        names: its values in the records.
        of_jobs: the column of jobs that has the same values; None: jobs do not name such records.
        values: further columns to set.
    """
    table, names = key.table, list(names)
    assert isinstance(table, sa.Table)
    for first in range(0, len(names), _AT_ONCE):
        piece = names[first : first + _AT_ONCE]
        query = sa.select(key, table.c.created_us).where(
            key.in_(piece), table.c.created_us > change.now_us - DAY_US
        )
        young = {row[0]: row[1] for row in change.connection.execute(query)}
        unknown = set(young)
        if young and of_jobs is not None:
            unknown -= with_jobs(change, of_jobs, unknown, min(young.values()))
        for mark, marked in (
            (removed.NEVER_WAS, [name for name in piece if name in unknown]),
            (removed.DELETED, [name for name in piece if name not in unknown]),
        ):
            change.connection.execute(
                table.update()
                .where(key.in_(marked))
                .values(is_deleted=mark, **values, **change.stamp())
            )


def with_jobs(
    change: Change, of_jobs: sa.Column[Any], names: Iterable[Any], since_us: int
) -> set[Any]:
    """Return the names that jobs have which ended since then or are not over.

    The index of ends is read for at most a day, not the table for a name.
    """
    jobs = schema.jobs.c
    clusters = list(change.connection.execute(sa.select(schema.clusters.c.id)).scalars())
    known: set[Any] = set()
    for when in (jobs.end_us >= since_us, jobs.end_us == 0):
        query = sa.select(of_jobs).where(jobs.cluster_id.in_(clusters), when)
        query = query.where(of_jobs.in_(list(names))).distinct()
        known.update(change.connection.execute(query).scalars())
    return known
