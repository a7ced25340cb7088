"""`sacctmgr list reservation`: when reservations were, and for how long nothing used them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.history_rows import ids_of, midnight_us, window
from pyslurm_ng.dbd.lengths import MOST
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.reports.reserved import node_names, used_of
from pyslurm_ng.dbd.reports.scope import Scope
from pyslurm_ng.dbd.rollup.rows import Members, amounts
from pyslurm_ng.dbd.tree import Row

FIELDS = ("Cluster", "Name", "ID", "TRES", "TimeStart", "TimeEnd", "UnusedWall", "Flags",
          "NodeNames", "Associations")  # fmt: skip


def reservations(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return those of today and later, or of the time that Start and End name, by begin."""
    where, table = asked.where, schema.reservations.c
    start_us, end_us = window(asked, midnight_us(asked.now_us))
    ids = ids_of(where, "reservation id")
    if not where.last("Start") and not where.last("End"):
        end_us = MOST
    names, nodes = where.values("Names"), set(where.values("Nodes"))
    scope = Scope(asked.connection, asked.actor, asked.private)
    shown = []
    for cluster_id, cluster in asked.clusters():
        query = sa.select(*table).where(
            table.cluster_id == cluster_id,
            table.start_us <= end_us,
            sa.or_(table.end_us == 0, table.end_us >= start_us),
        )
        query = query.where(table.name.in_(names)) if names else query
        query = query.where(table.reservation_id.in_(ids)) if ids else query
        rows = [
            row
            for row in asked.connection.execute(query.order_by(table.start_us, table.name))
            if not nodes or nodes.intersection(node_names(row.node_list))
        ]
        used = used_of(scope, cluster_id, rows) if rows else []
        members = Members(asked.connection, cluster_id)
        shown += [
            _row(cluster, row, _unused_s(row, seconds, asked.now_us))
            | {"Associations": ",".join(map(str, members.of(row.users, row.accounts)))}
            for row, seconds in zip(rows, used, strict=True)
        ]
    return FIELDS, shown


def _row(cluster: str, row: Any, unused_s: float) -> Row:
    return {
        "Cluster": cluster,
        "Name": row.name,
        "ID": row.reservation_id,
        "TRES": row.tres,
        "TimeStart": row.start_us,
        "TimeEnd": row.end_us,
        "UnusedWall": f"{unused_s:.6f}",
        "Flags": row.flags,
        "NodeNames": row.node_list,
    }


def _unused_s(row: Any, used: dict[str, int], now_us: int) -> float:
    """Return for how long no job used a reservation; one that used half of it counts half."""
    end_us = min(row.end_us or now_us, now_us)
    lasted_s: float = max(end_us - row.start_us, 0) / SECOND_US
    reserved_cpus = amounts(row.tres).get("cpu", 0)
    used_s = used.get("cpu", 0) / reserved_cpus if reserved_cpus else 0.0
    return max(lasted_s - used_s, 0.0)
