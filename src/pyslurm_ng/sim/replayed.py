"""What administrators did, as events of the simulated cluster, whose ids are its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.ends import node_loss
from pyslurm_ng.ctld.rules.ends.requeue import RequeueRules
from pyslurm_ng.ctld.rules.orders.job_orders import Steering
from pyslurm_ng.ctld.rules.reservation.reservation_nodes import choose_nodes
from pyslurm_ng.ctld.rules.reservation.reservations import deletion
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.license_server import is_remote
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, NodeState
from pyslurm_ng.model.task_ranges import TaskRanges
from pyslurm_ng.sim import actions as act

Deed = (
    act.AccountingChanged
    | act.NodesDown
    | act.NodesBack
    | act.NodesChanged
    | act.PartitionChanged
    | act.PartitionDeleted
    | act.ReservationMade
    | act.ReservationDeleted
)


def repeated(
    cluster: Cluster, deed: Deed, now_us: int, rules: RequeueRules
) -> list[ev.AnyEvent] | str:
    """Return the events that repeat a deed, none when it is done already, or why it cannot be."""
    if isinstance(deed, act.AccountingChanged):
        if isinstance(deed.event, ev.LicensesUpdated):
            return [_licenses(cluster, deed.event, now_us)]
        return [deed.event]
    if isinstance(deed, act.NodesDown):
        up = [node for node in _nodes(cluster, deed.names) if node.state != NodeState.DOWN]
        if not up:
            return []
        return node_loss.nodes_down(cluster, _ids(up), "recorded", now_us, rules=rules)
    if isinstance(deed, act.NodesBack):
        down = [node for node in _nodes(cluster, deed.names) if node.state == NodeState.DOWN]
        return [ev.NodesReturned(now_us, _ids(down))] if down else []
    if isinstance(deed, act.NodesChanged):
        return _change_nodes(_nodes(cluster, deed.names), deed, now_us)
    if isinstance(deed, act.PartitionChanged):
        return [_change_partition(cluster, deed, now_us)]
    if isinstance(deed, act.PartitionDeleted):
        return _delete_partition(cluster, deed.name, now_us)
    if isinstance(deed, act.ReservationMade):
        return _reserve(cluster, deed, now_us)
    reservation = cluster.reservations.get(deed.name)
    return deletion(cluster, reservation, now_us) if reservation is not None else []


def _licenses(cluster: Cluster, recorded: ev.LicensesUpdated, now_us: int) -> ev.AnyEvent:
    """Return what there is of other servers' licences, beside this configuration's own."""
    own = [(name, count) for name, count in cluster.licenses.items() if not is_remote(name)]
    remote = [(name, count) for name, count in recorded.licenses if is_remote(name)]
    return ev.LicensesUpdated(now_us, (*own, *remote), recorded.servers)


def change_jobs(
    cluster: Cluster,
    name: str,
    fields: Mapping[str, object],
    request: Mapping[str, object],
    context: Context,
) -> list[ev.AnyEvent] | str:
    """Return the events that change a job as typed; of one that runs, only its time limit."""
    partitions = str(fields.get("partition", "")).split(",")
    for partition in filter(None, partitions):
        if partition not in cluster.partitions:
            return f"a change of jobs to partition {partition}, which is not there"
    steering = Steering(cluster, context)

    def change(job: Job, tasks: TaskRanges) -> int:
        waits = job.state == JobState.PENDING
        new_fields = dict(fields)
        if not waits:
            new_fields = {key: value for key, value in fields.items() if key == "time_limit_min"}
        if job.state in TERMINAL_STATES or not (new_fields or (waits and request)):
            return 0
        changed = changed_request(job.request, **request) if waits and request else None
        steering.update(job, tasks, new_fields, changed)
        return 0

    steering.by_id([name], change)
    return steering.parts.events


def _nodes(cluster: Cluster, names: Iterable[str]) -> list[Node]:
    ids = (cluster.node_index.by_name.get(name) for name in names)
    return [cluster.node(node_id) for node_id in ids if node_id is not None]


def _ids(nodes: Iterable[Node]) -> tuple[int, ...]:
    return tuple(node.node_id for node in nodes)


def _change_nodes(nodes: list[Node], deed: act.NodesChanged, now_us: int) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = []
    for node in nodes:
        fields = dict(deed.fields)
        flags = (node.flags | deed.raised) & ~deed.lowered
        if flags != node.flags:
            fields["flags"] = flags
        if fields:
            events.append(ev.NodeUpdated(now_us, (node.node_id,), fields))
    return events


def _change_partition(cluster: Cluster, deed: act.PartitionChanged, now_us: int) -> ev.AnyEvent:
    fields: dict[str, Any] = dict(deed.fields)
    if deed.members is not None:
        members = tuple(sorted(_ids(_nodes(cluster, deed.members))))
        fields |= {"node_ids": members, "nodes_text": hostlist.fold(cluster.node_names(members))}
    current = cluster.partitions.get(deed.name) or Partition(deed.name)
    return ev.PartitionUpdated(now_us, msgspec.structs.replace(current, **fields))


def _delete_partition(cluster: Cluster, name: str, now_us: int) -> list[ev.AnyEvent] | str:
    if name not in cluster.partitions:
        return []
    for job_id in [*cluster.job_index.pending, *cluster.job_index.active]:
        if name in cluster.jobs[job_id].partition.split(","):
            return f"the deletion of partition {name}, which jobs still use"
    return [ev.PartitionDeleted(now_us, name)]


def _reserve(cluster: Cluster, deed: act.ReservationMade, now_us: int) -> list[ev.AnyEvent] | str:
    made = deed.reservation
    fresh = with_members(cluster, made, deed.members)
    if deed.members and not fresh.node_ids:
        return f"reservation {made.name}: no nodes for it are there"
    fresh = msgspec.structs.replace(fresh, is_active=made.start_us <= now_us)
    if made.name in cluster.reservations:
        return [ev.ReservationUpdated(now_us, fresh)]
    return [ev.ReservationCreated(now_us, fresh)] if made.end_us > now_us else []


def with_members(cluster: Cluster, made: Reservation, members: tuple[str, ...]) -> Reservation:
    """Return a reservation with nodes of this cluster: those of the names, else as many others.

    A node that replaced one before does so again. Where it has all nodes, it has all of this
    cluster. Parts of nodes are not replaced: other nodes have other cores.
    """
    masks = dict(zip(members, made.core_masks, strict=False))
    devices = dict(zip(members, made.gres, strict=False))
    every = "ALL_NODES" in made.flags and not made.partition
    named = cluster.living_nodes() if every else _nodes(cluster, members)
    named.sort(key=lambda node: node.node_id)
    reservation = msgspec.structs.replace(
        made,
        node_ids=_ids(named),
        core_masks=tuple(masks[node.spec.name] for node in named) if masks else (),
        gres=tuple(devices[node.spec.name] for node in named) if devices else (),
    )
    missing = len(members) - len(named)
    if masks or missing <= 0:
        return reservation
    before = cluster.reservations.get(made.name)
    known = [
        node_id
        for node_id in (before.node_ids if before is not None else ())
        if node_id not in reservation.node_ids and cluster.nodes[node_id] is not None
    ][:missing]
    reservation = msgspec.structs.replace(
        reservation, node_ids=tuple(sorted((*reservation.node_ids, *known)))
    )
    for count in range(missing - len(known), 0, -1):
        more = choose_nodes(cluster, reservation, count, UTC)
        if isinstance(more, tuple):
            return msgspec.structs.replace(
                reservation, node_ids=tuple(sorted(reservation.node_ids + more))
            )
    return reservation
