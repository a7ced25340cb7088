"""`sacctmgr list federation`: federations with their clusters, a row for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from pyslurm_ng.dbd import removed, schema
from pyslurm_ng.dbd.federation_state import state_name

if TYPE_CHECKING:
    from pyslurm_ng.dbd.list_request import Asked

FIELDS = (
    "Federation", "Cluster", "ID", "Features", "FedState", "FedStateRaw", "ControlHost",
    "ControlPort",
)  # fmt: skip


def federations(asked: Asked) -> tuple[Iterable[str], list[dict[str, Any]]]:
    """Return a row for each cluster; one without a cluster for a federation that has none.

    With `Clusters` only federations are shown that have one of these, with all their clusters.
    """
    names = asked.where.values("Names", lower=True)
    cluster_names = set(asked.where.values("Clusters", lower=True))
    table, clusters = schema.federations, schema.clusters
    members: dict[str, list[sa.Row[Any]]] = {}
    of_some = sa.select(clusters).where(clusters.c.is_deleted == 0, clusters.c.federation != "")
    for row in asked.connection.execute(of_some.order_by(clusters.c.name)):
        members.setdefault(row.federation, []).append(row)
    query = sa.select(table.c.name).where(removed.is_listed(table, "withdeleted" in asked.flags))
    shown: list[dict[str, Any]] = []
    for name in asked.connection.execute(query.order_by(table.c.name)).scalars():
        inside = members.get(name, [])
        if (names and name not in names) or (
            cluster_names and cluster_names.isdisjoint(row.name for row in inside)
        ):
            continue
        shown += [
            {
                "Federation": name,
                "Cluster": row.name,
                "ID": row.federation_id,
                "Features": row.features,
                "FedState": state_name(row.federation_state),
                "FedStateRaw": row.federation_state,
                "ControlHost": row.control_host,
                "ControlPort": row.control_port,
            }
            for row in inside
        ] or [dict.fromkeys(FIELDS[1:], "") | {"Federation": name}]
    return FIELDS, shown
