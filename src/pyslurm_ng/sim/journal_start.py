"""The cluster where a recording begins, under another configuration."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.conf.power import all_awake
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.nodes.power import ASLEEP
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
        reservation.name: tuple(node.spec.name for node in cluster.nodes_of(reservation.node_ids))
        for reservation in cluster.reservations.values()
    }
    apply_all(cluster, configure(cluster, all_awake(conf), begin_us, topologies))
    asleep = [node for node in cluster.living_nodes() if node.flags & ASLEEP]
    apply_all(
        cluster,
        [
            ev.NodeUpdated(begin_us, (node.node_id,), {"flags": int(node.flags & ~ASLEEP)})
            for node in asleep
        ],
    )
    fresh: list[ev.AnyEvent] = [
        ev.NodeRegistered(begin_us, node.node_id, NodeFacts(), NodeState.IDLE)
        for node in cluster.living_nodes()
        if node.spec.name not in known
    ]
    apply_all(cluster, fresh)
    moved = []
    for reservation in tuple(cluster.reservations.values()):
        present = with_members(cluster, reservation, members[reservation.name])
        if present != reservation:
            apply_all(cluster, [ev.ReservationUpdated(begin_us, present)])
        if is_moved(cluster, reservation.name, members[reservation.name]):
            moved.append(reservation.name)
    return cluster, moved


def is_moved(cluster: Cluster, name: str, members: tuple[str, ...]) -> bool:
    """Return whether a reservation has not got the nodes it had in the past."""
    reservation = cluster.reservations.get(name)
    return reservation is not None and set(cluster.node_names(reservation.node_ids)) != set(members)
