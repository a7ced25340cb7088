"""`sacctmgr list instance`: which instances of a cloud nodes were, and when."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from pyslurm_ng.base.numbers import DAY_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.history_rows import bounded, nodes_of, window
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.tree import Row

FIELDS = ("Cluster", "NodeNames", "TimeStart", "TimeEnd", "InstanceId", "InstanceType", "Extra")


def instances(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return those of the last day, or of the time that Start and End name, by begin.

    Raises:
        RefusedError: a value that no instance can have, or too many for a user.
    """
    table = schema.node_instances
    start_us, end_us = window(asked, asked.now_us - DAY_US)
    nodes = nodes_of(asked.where)
    shown = []
    for cluster_id, cluster in asked.clusters():
        query = sa.select(table).where(
            table.c.cluster_id == cluster_id,
            table.c.start_us <= end_us,
            sa.or_(table.c.end_us == 0, table.c.end_us >= start_us),
        )
        for key, column in (
            ("InstanceId", table.c.instance_id),
            ("InstanceType", table.c.instance_type),
        ):
            if values := asked.where.values(key):
                query = query.where(column.in_(values))
        if (extra := asked.where.last("Extra")) is not None:
            query = query.where(table.c.extra == extra)  # it may have commas
        shown += [
            {
                "Cluster": cluster,
                "NodeNames": row.node_name,
                "TimeStart": row.start_us,
                "TimeEnd": row.end_us,
                "InstanceId": row.instance_id,
                "InstanceType": row.instance_type,
                "Extra": row.extra,
            }
            for row in bounded(asked, query.order_by(table.c.start_us, table.c.node_name))
            if not nodes or row.node_name in nodes
        ]
    return FIELDS, shown
