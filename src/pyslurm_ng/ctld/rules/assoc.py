"""Events from what slurmdbd says of associations, QOS and users; none if nothing is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.model.cluster import remote_licenses
from pyslurm_ng.model.events import AssocChanged, LicensesUpdated, QosChanged
from pyslurm_ng.model.license_server import ServerUse, deficit, is_remote

if TYPE_CHECKING:
    from pyslurm_ng.model.cluster import Cluster
    from pyslurm_ng.model.events import AnyEvent
    from pyslurm_ng.wire.dbd_messages import AssociationUpdate, LicenseServer


def unknown_qos(cluster: Cluster) -> list[str]:
    """Return a line for each partition whose QOS slurmdbd does not have."""
    return [
        f"Partition {partition.name} has an invalid qos ({partition.qos}): no limits of it hold"
        for partition in cluster.partitions.values()
        if partition.qos and partition.qos not in cluster.qos
    ]


def mirror(cluster: Cluster, update: AssociationUpdate, now_us: int) -> list[AnyEvent]:
    """Return the events that bring the Cluster's copy to the state of `update`.

    A restarted controller gets everything again; only differences become events, so that the
    journal does not grow with every contact. QOS come first: associations name them.
    """
    events: list[AnyEvent] = []
    changed_qos = tuple(qos for qos in update.qos if cluster.qos.get(qos.name) != qos)
    gone_qos = tuple(name for name in update.qos_removed if name in cluster.qos)
    if update.is_full:
        named = {qos.name for qos in update.qos}
        gone_qos = tuple(name for name in cluster.qos if name not in named)
    if changed_qos or gone_qos:
        events.append(QosChanged(now_us, changed=changed_qos, removed=gone_qos))

    changed = tuple(
        assoc for assoc in update.associations if cluster.assocs.get(assoc.assoc_id) != assoc
    )
    gone = tuple(assoc_id for assoc_id in update.associations_removed if assoc_id in cluster.assocs)
    users = tuple(user for user in update.users if cluster.users.get(user.name) != user)
    gone_users = tuple(name for name in update.users_removed if name in cluster.users)
    if update.is_full:
        ids = {assoc.assoc_id for assoc in update.associations}
        gone = tuple(assoc_id for assoc_id in cluster.assocs if assoc_id not in ids)
        names = {user.name for user in update.users}
        gone_users = tuple(name for name in cluster.users if name not in names)
    if changed or gone or users or gone_users or update.version != cluster.assoc_version:
        events.append(
            AssocChanged(
                now_us,
                changed=changed,
                removed=gone,
                users=users,
                users_removed=gone_users,
                version=update.version,
            )
        )
    if update.licenses is not None:
        servers = _servers(cluster, dict(update.licenses), update.license_servers)
        is_known = servers == tuple(cluster.license_servers.values())
        if not is_known or dict(remote_licenses(cluster)) != dict(update.licenses):
            own = [(name, count) for name, count in cluster.licenses.items() if not is_remote(name)]
            events.append(LicensesUpdated(now_us, (*own, *update.licenses), servers))
    return events


def usage_resets(cluster: Cluster, update: AssociationUpdate) -> tuple[list[int], list[str]]:
    """Return the known associations and QOS with usage that was set to zero since they came."""
    assoc_ids = [
        assoc.assoc_id
        for assoc in update.associations
        if (known := cluster.assocs.get(assoc.assoc_id)) is not None
        and known.usage_reset_us != assoc.usage_reset_us
    ]
    names = [
        qos.name
        for qos in update.qos
        if (known_qos := cluster.qos.get(qos.name)) is not None
        and known_qos.usage_reset_us != qos.usage_reset_us
    ]
    return assoc_ids, names


def _servers(
    cluster: Cluster, shares: dict[str, int], reported: list[LicenseServer]
) -> tuple[ServerUse, ...]:
    """Return what servers say of their licences; the deficit is of the moment they said it."""
    servers = []
    for server in reported:
        known = cluster.license_servers.get(server.name)
        if known is None or known.updated_us != server.updated_us:
            used = cluster.job_counts.licenses_used.get(server.name, 0)
            missing = deficit(server.consumed, server.total, shares.get(server.name, 0), used)
            known = ServerUse(server.name, server.consumed, missing, server.updated_us)
        servers.append(known)
    return tuple(servers)
