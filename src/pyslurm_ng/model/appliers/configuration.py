"""How a new configuration, partitions, licences and reservations change the Cluster."""

from __future__ import annotations

import msgspec

from .. import events as ev
from ..cluster import RUNS_RESUME, Cluster
from ..node import Node, NodeSpec, topology_setting
from ..node_index import NodeUse
from ..states import NodeFlag, NodeState
from ..topology import placed
from .registry import applies

_INITIAL_STATES = {
    "DOWN": (NodeState.DOWN, NodeFlag.NONE),
    "DRAIN": (NodeState.UNKNOWN, NodeFlag.DRAIN),
    "FAIL": (NodeState.UNKNOWN, NodeFlag.FAIL),
    "FAILING": (NodeState.UNKNOWN, NodeFlag.FAIL),
    "FUTURE": (NodeState.FUTURE, NodeFlag.NONE),
    "CLOUD": (NodeState.IDLE, NodeFlag.CLOUD | NodeFlag.POWERED_DOWN),
    "EXTERNAL": (NodeState.IDLE, NodeFlag.EXTERNAL),
}


@applies(ev.ConfigLoaded)
def _config_loaded(cluster: Cluster, event: ev.ConfigLoaded) -> None:
    cluster.node_changes += 1
    cluster.cluster_name = event.cluster_name
    cluster.conf_hash = event.conf_hash
    cluster.first_job_id, cluster.max_job_id = event.first_job_id, event.max_job_id
    cluster.next_job_id = max(cluster.next_job_id, event.first_job_id)
    cluster.licenses = dict(event.licenses)
    cluster.programs = event.programs
    cluster.node_index.wakes = bool(event.programs & RUNS_RESUME)
    named = {spec.name for spec in event.nodes}
    for node in cluster.living_nodes():
        if node.spec.name not in named:
            _remove_node(cluster, node)
    for spec in event.nodes:
        _configure_node(cluster, spec, event)
    cluster.topologies = placed(event.topologies, _own_places(cluster))
    cluster.partitions = {partition.name: partition for partition in event.partitions}
    _index_nodes(cluster)


def _remove_node(cluster: Cluster, node: Node) -> None:
    assert not cluster.node_index.use[node.node_id].allocs, node
    cluster.duties.pop(node.node_id, None)
    cluster.nodes[node.node_id] = None
    del cluster.node_index.by_name[node.spec.name]


def _index_nodes(cluster: Cluster) -> None:
    while len(cluster.node_index.use) < len(cluster.nodes):
        cluster.node_index.use.append(NodeUse())
    cluster.node_index.update_all()


@applies(ev.NodesCreated)
def _nodes_created(cluster: Cluster, event: ev.NodesCreated) -> None:
    cluster.node_changes += 1
    assert event.first_node_id == len(cluster.nodes), event
    for spec in event.specs:
        base, flags = _INITIAL_STATES.get(spec.state.upper(), (NodeState.UNKNOWN, NodeFlag.NONE))
        _add_node(cluster, spec, base, flags | event.flags, spec.reason, event.time_us)
    new_ids = range(event.first_node_id, len(cluster.nodes))
    places = {node_id: text for node_id in new_ids if (text := cluster.node(node_id).spec.topology)}
    cluster.topologies = placed(cluster.topologies, places)
    _index_nodes(cluster)


@applies(ev.NodesDeleted)
def _nodes_deleted(cluster: Cluster, event: ev.NodesDeleted) -> None:
    cluster.node_changes += 1
    for node_id in event.node_ids:
        assert all(node_id not in part.node_ids for part in cluster.partitions.values()), event
        _remove_node(cluster, cluster.node(node_id))
    # A node that is in no unit is nowhere in any network.
    cluster.topologies = placed(cluster.topologies, dict.fromkeys(event.node_ids, ""))
    _index_nodes(cluster)


def _own_places(cluster: Cluster) -> dict[int, str]:
    """Return the Topology= of the nodes that have one."""
    living = cluster.living_nodes()
    return {node.node_id: text for node in living if (text := topology_setting(node))}


def _configure_node(cluster: Cluster, spec: NodeSpec, event: ev.ConfigLoaded) -> None:
    node_id = cluster.node_index.by_name.get(spec.name)
    if node_id is not None:
        node = cluster.node(node_id)
        if node.spec != spec:
            if node.spec.features != spec.features:
                node.features = node.features_active = spec.features
            if node.spec.weight != spec.weight:
                node.weight = spec.weight
            if node.spec.topology != spec.topology:
                node.topology = ""
            node.spec = spec
        return
    state, reason = spec.state.upper(), spec.reason
    for line in event.down_nodes:
        if spec.name in line.names:
            state, reason = line.state.upper(), line.reason
    base, flags = _INITIAL_STATES.get(state, (NodeState.UNKNOWN, NodeFlag.NONE))
    _add_node(cluster, spec, base, flags, reason, event.time_us)


def _add_node(
    cluster: Cluster, spec: NodeSpec, state: int, flags: int, reason: str, time_us: int
) -> None:
    node_id = len(cluster.nodes)
    cluster.nodes.append(
        Node(
            node_id=node_id,
            spec=spec,
            state=state,
            flags=flags,
            reason=reason,
            reason_us=time_us if reason else 0,
            features=spec.features,
            features_active=spec.features,
            weight=spec.weight,
            comment=spec.comment,
            extra=spec.extra,
        )
    )
    cluster.node_index.by_name[spec.name] = node_id


@applies(ev.PartitionUpdated)
def _partition_updated(cluster: Cluster, event: ev.PartitionUpdated) -> None:
    cluster.node_changes += 1
    changed = event.partition
    if changed.is_default:
        for name, other in cluster.partitions.items():
            if other.is_default and name != changed.name:
                cluster.partitions[name] = msgspec.structs.replace(other, is_default=False)
    cluster.partitions[changed.name] = changed


@applies(ev.PartitionDeleted)
def _partition_deleted(cluster: Cluster, event: ev.PartitionDeleted) -> None:
    cluster.node_changes += 1
    del cluster.partitions[event.name]


@applies(ev.LicensesUpdated)
def _licenses_updated(cluster: Cluster, event: ev.LicensesUpdated) -> None:
    cluster.licenses = dict(event.licenses)
    cluster.license_servers = {server.name: server for server in event.servers}


@applies(ev.ReservationCreated)
def _reservation_created(cluster: Cluster, event: ev.ReservationCreated) -> None:
    assert event.reservation.name not in cluster.reservations, event
    cluster.reservations[event.reservation.name] = event.reservation
    newest = max(cluster.last_reservation_id, event.reservation.reservation_id)
    cluster.last_reservation_id = newest
    cluster.node_index.enter_reservations(cluster.reservations.values())


@applies(ev.ReservationUpdated)
def _reservation_updated(cluster: Cluster, event: ev.ReservationUpdated) -> None:
    assert event.reservation.name in cluster.reservations, event
    cluster.reservations[event.reservation.name] = event.reservation
    cluster.node_index.enter_reservations(cluster.reservations.values())


@applies(ev.ReservationDeleted)
def _reservation_deleted(cluster: Cluster, event: ev.ReservationDeleted) -> None:
    del cluster.reservations[event.name]
    cluster.node_index.enter_reservations(cluster.reservations.values())
