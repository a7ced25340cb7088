"""TRES that accounting counts: each has a number of its own, for ever."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.updates import next_version


def track(connection: sa.Connection, names: Iterable[str]) -> list[tuple[int, str]]:
    """Give numbers to TRES that have none yet; return number and name of the new ones.

    Args:
        names: `TYPE` or `TYPE/NAME`.
    """
    table = schema.tres
    known = {(row.type, row.name) for row in connection.execute(sa.select(table))}
    newest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar_one()
    next_id = max(newest + 1, schema.FIRST_DYNAMIC_TRES_ID)
    version = 0
    made = []
    for name in names:
        kind, _, rest = name.partition("/")
        if (kind, rest) in known:
            continue
        version = version or next_version(connection)
        connection.execute(table.insert().values(id=next_id, type=kind, name=rest, version=version))
        known.add((kind, rest))
        made.append((next_id, name))
        next_id += 1
    return made
