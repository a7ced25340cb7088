"""Which nodes a reservation gets: those named, or the best of those free at its time."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.calendar import Calendar
from pyslurm_ng.ctld.rules.reservation.times import meet
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing, limit_end_us
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.reservation import NOTHING, WHOLE, NodePart, Reservation, part_of
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.sched.cons_tres.cores import lowest_bits, usable_cores
from pyslurm_ng.sched.request import features

_SHARES = ("MAINT", "OVERLAP")
_ANY = features.Way(None)
FAILED_FLAGS = NodeFlag.DRAIN | NodeFlag.FAIL


def named_nodes(cluster: Cluster, text: str, partition: str) -> tuple[int, ...] | Reject:
    """Return the ids of a list of nodes, or of ALL: of the partition if there is one."""
    if text.upper() == "ALL":
        if partition:
            return cluster.partitions[partition].node_ids
        return tuple(node.node_id for node in cluster.living_nodes())
    try:
        names = hostlist.expand_unique(text)
    except hostlist.HostlistError:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    if not names or any(name not in cluster.node_index.by_name for name in names):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return tuple(sorted(cluster.node_index.by_name[name] for name in names))


def check_named(
    cluster: Cluster, reservation: Reservation, node_ids: Iterable[int], calendar: Calendar
) -> Reject | None:
    """Refuse nodes that another reservation has at the time, or that jobs will still use."""
    parts = reservation.parts()
    named_parts = {node_id: parts.get(node_id, WHOLE) for node_id in node_ids}
    if _meets(named_parts, reserved_parts(cluster, reservation, calendar)):
        return Reject(Errno.ESLURM_RESERVATION_OVERLAP)
    busy = busy_parts(cluster, reservation.start_us, reservation.name)
    if not _ignores_jobs(reservation) and _meets(named_parts, busy):
        return Reject(Errno.ESLURM_NODES_BUSY)
    return None


def _meets(parts: dict[int, NodePart], others: dict[int, NodePart]) -> bool:
    return any(node_id in others and part.meets(others[node_id]) for node_id, part in parts.items())


def with_cores(
    cluster: Cluster,
    reservation: Reservation,
    counts: tuple[int, ...],
    calendar: Calendar,
    *,
    in_cpus: bool = False,
    named: bool = False,
    is_each: bool = False,
) -> Reservation | Reject:
    """Return a reservation with cores of nodes: those free then, lowest first.

    Args:
        counts: with `is_each` cores of each node, else one number, the total of all nodes.
        in_cpus: these are CPUs; each node gives whole cores.
        named: only on the reservation's present nodes.
    """
    taken = taken_parts(cluster, reservation, calendar)
    cores: dict[int, int] = {}
    each = list(counts) if is_each else []
    core_count = sum(counts)
    for node in candidates(cluster, reservation, named=named):
        spec, node_id = node.spec, node.node_id
        usable = usable_cores(spec)
        free = usable & ~taken.get(node_id, NOTHING).cores
        if "FIRST_CORES" in reservation.flags:
            free = _first_of(usable, free)
        threads = max(1, spec.threads_per_core) if in_cpus else 1
        count = -(-(each[0] if is_each else core_count) // threads)
        count = count if is_each else min(free.bit_count(), count)
        if free.bit_count() < count:
            if named:
                held_by_others = reserved_parts(cluster, reservation, calendar).get(
                    node_id, NOTHING
                )
                left_by_others = (usable & ~held_by_others.cores).bit_count()
                is_reserved = left_by_others < count <= usable.bit_count()
                return Reject(
                    Errno.ESLURM_RESERVATION_OVERLAP if is_reserved else Errno.ESLURM_NODES_BUSY
                )
            continue
        if count:
            cores[node_id] = lowest_bits(free, count)
            core_count -= count * threads
        del each[:1]
        if not each if is_each else core_count <= 0:
            break
    if each if is_each else core_count > 0:
        return Reject(Errno.ESLURM_NODES_BUSY)
    node_ids = tuple(sorted(cores))
    masks = tuple(packed(cores[node_id]) for node_id in node_ids)
    return msgspec.structs.replace(reservation, node_ids=node_ids, core_masks=masks, gres=())


def _first_of(usable: int, free: int) -> int:
    """Return the free cores below the first one that is not."""
    busy = usable & ~free
    return free & ((busy & -busy) - 1) if busy else free


def packed(mask: int) -> bytes:
    """Return a mask as it is kept in records."""
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def choose_nodes(
    cluster: Cluster,
    reservation: Reservation,
    count: int,
    calendar: Calendar,
    leaving: Collection[int] = (),
    overlaps: bool = False,
) -> tuple[int, ...] | Reject:
    """Return `count` more nodes for a reservation: free of jobs first, then by weight and order.

    Where its features have counts, these hold for the nodes it has in the end.

    Args:
        leaving: which of its nodes it loses.
        overlaps: it may have nodes of reservations that allow others beside them.
    """
    taken = {*taken_parts(cluster, reservation, calendar, named=overlaps), *reservation.node_ids}
    free = [node for node in candidates(cluster, reservation) if node.node_id not in taken]
    staying = cluster.nodes_of(set(reservation.node_ids).difference(leaving))
    for way in features.ways(reservation.features) if reservation.features else (_ANY,):
        chosen = _by_counts(free, way, staying, count)
        if chosen is not None:
            return tuple(sorted(node.node_id for node in chosen))
    return Reject(Errno.ESLURM_NODES_BUSY)


def _by_counts(
    free: list[Node], way: features.Way, have: list[Node], count: int
) -> list[Node] | None:
    """Return `count` nodes, as many of each kind as a way counts; None if there are not."""
    suiting = [node for node in free if _every(way, node)]
    chosen: list[Node] = []
    remaining = list(have)
    for tree, node_count in way.counts:
        with_features = [node for node in remaining if features.holds(tree, node.features_active)][
            :node_count
        ]
        remaining = [node for node in remaining if node not in with_features]
        fresh = [
            node
            for node in suiting
            if node not in chosen and features.holds(tree, node.features_active)
        ]
        if len(with_features) + len(fresh) < node_count:
            return None
        chosen += fresh[: node_count - len(with_features)]
    if way.counts:
        kinds = [tree for tree, _ in way.counts]
        suiting = [
            node
            for node in suiting
            if any(features.holds(tree, node.features_active) for tree in kinds)
        ]
    chosen += [node for node in suiting if node not in chosen][: max(0, count - len(chosen))]
    return chosen if len(chosen) == count else None


def _every(way: features.Way, node: Node) -> bool:
    return way.every is None or features.holds(way.every, node.features_active)


def candidates(cluster: Cluster, reservation: Reservation, *, named: bool = False) -> list[Node]:
    """Return the nodes a reservation may be given, those without jobs first, then by weight.

    Args:
        named: the nodes it names, in their order, in any state.
    """
    if named:
        return cluster.nodes_of(reservation.node_ids)
    expression = reservation.features
    nodes = [
        node
        for node in _source(cluster, reservation)
        if not is_failed(node)
        and (not expression or features.matches(expression, node.features_active))
    ]
    busy = busy_parts(cluster, reservation.start_us, reservation.name)
    nodes.sort(key=lambda node: (node.node_id in busy, node.weight, node.node_id))
    return nodes


def _source(cluster: Cluster, reservation: Reservation) -> list[Node]:
    partition = cluster.partitions.get(reservation.partition)
    return cluster.living_nodes() if partition is None else cluster.nodes_of(partition.node_ids)


def is_failed(node: Node) -> bool:
    """Return whether a node is out of service for longer than a missed heartbeat."""
    if node.state in (NodeState.DOWN, NodeState.FUTURE):
        return True
    return bool(node.flags & FAILED_FLAGS)


def taken_parts(
    cluster: Cluster, reservation: Reservation, calendar: Calendar, *, named: bool = True
) -> dict[int, NodePart]:
    """Return by node what a reservation cannot have: others', or still used by jobs.

    Args:
        named: its nodes were named; then they may be under maintenance, which is never chosen.
    """
    taken = reserved_parts(cluster, reservation, calendar, named=named)
    if not _ignores_jobs(reservation):
        for node_id, part in busy_parts(cluster, reservation.start_us, reservation.name).items():
            taken[node_id] = taken.get(node_id, NOTHING).joined(part)
    return taken


def reserved_parts(
    cluster: Cluster, reservation: Reservation, calendar: Calendar, *, named: bool = True
) -> dict[int, NodePart]:
    """Return by node what other reservations have at times of this one.

    Args:
        named: its nodes were named; then those of others that allow that may be among them.
    """
    taken: dict[int, NodePart] = {}
    if any(flag in reservation.flags for flag in _SHARES):
        return taken
    for other in cluster.reservations.values():
        if other.name == reservation.name:
            continue
        if named and any(flag in other.flags for flag in _SHARES):
            continue
        if meet(reservation, other, calendar):
            parts = other.parts()
            for node_id in other.node_ids:
                part = parts.get(node_id, WHOLE)
                taken[node_id] = taken.get(node_id, NOTHING).joined(part)
    return taken


def busy_parts(cluster: Cluster, from_us: int, except_in: str = "") -> dict[int, NodePart]:
    """Return by node what jobs may still use at a time; not of one reservation's jobs."""
    busy: dict[int, NodePart] = {}
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        if is_completing(job) or not _may_run_until(job, from_us):
            continue
        if except_in and job.reservation == except_in:
            continue
        for alloc in job.nodes:
            busy[alloc.node_id] = busy.get(alloc.node_id, NOTHING).joined(part_of(alloc))
    return busy


def _may_run_until(job: Job, when_us: int) -> bool:
    end_us = limit_end_us(job)
    return not end_us or end_us > when_us


def _ignores_jobs(reservation: Reservation) -> bool:
    return "IGNORE_JOBS" in reservation.flags


def cores_and_cpus(cluster: Cluster, reservation: Reservation) -> tuple[int, int]:
    """Return how many cores and CPUs a reservation has in all."""
    parts = reservation.parts()
    cores = cpus = 0
    for node_id in reservation.node_ids:
        node = cluster.nodes[node_id]
        if node is None:
            continue
        spec = node.spec
        if node_id in parts:
            own = parts[node_id].cores.bit_count()
            cores, cpus = cores + own, cpus + own * max(1, spec.threads_per_core)
        else:
            cores, cpus = cores + spec.sockets * spec.cores_per_socket, cpus + spec.cpus
    return cores, cpus
