"""The cluster where a recording begins, under another configuration."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sim.recorded import Recording
from pyslurm_ng.sim.replayed import with_members


def begin_with(
    recording: Recording, conf: SlurmConf, topologies: Sequence[TopologyConf]
) -> tuple[Cluster, list[str]]:
    """Return the cluster with this configuration's nodes, and reservations on other nodes now."""
    begin_us = recording.begin_us
    cluster = Cluster.from_bytes(recording.base) if recording.base else Cluster()
    known = set(cluster.node_index.by_name)
    members = {
        item.name: tuple(node.spec.name for node in cluster.nodes_of(item.node_ids))
        for item in cluster.reservations.values()
    }
    apply_all(cluster, configure(cluster, conf, begin_us, topologies))
    fresh: list[ev.AnyEvent] = [
        ev.NodeRegistered(begin_us, node.node_id, NodeFacts(), NodeState.IDLE)
        for node in cluster.living_nodes()
        if node.spec.name not in known
    ]
    apply_all(cluster, fresh)
    moved = []
    for item in tuple(cluster.reservations.values()):
        there = with_members(cluster, item, members[item.name])
        if there != item:
            apply_all(cluster, [ev.ReservationUpdated(begin_us, there)])
        if is_moved(cluster, item.name, members[item.name]):
            moved.append(item.name)
    return cluster, moved


def is_moved(cluster: Cluster, name: str, members: tuple[str, ...]) -> bool:
    """Return whether a reservation has not got the nodes it had in the past."""
    item = cluster.reservations.get(name)
    return item is not None and set(cluster.node_names(item.node_ids)) != set(members)
