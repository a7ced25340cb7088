"""Which nodes a reservation gets: those named, or the best of those free at its time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.calendar import Calendar
from pyslurm_ng.ctld.rules.reservation_times import meet
from pyslurm_ng.model.cluster import Cluster, is_completing
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.sched import features

_MINUTE_US = 60_000_000
_SHARES = ("MAINT", "OVERLAP")
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
    if not names or any(name not in cluster.node_by_name for name in names):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return tuple(sorted(cluster.node_by_name[name] for name in names))


def check_named(
    cluster: Cluster, reservation: Reservation, node_ids: Iterable[int], calendar: Calendar
) -> Reject | None:
    """Refuse nodes that another reservation has at the time, or that jobs will still use."""
    wanted = frozenset(node_ids)
    if not wanted.isdisjoint(taken_nodes(cluster, reservation, calendar)):
        return Reject(Errno.ESLURM_RESERVATION_OVERLAP)
    if not _ignores_jobs(reservation) and not wanted.isdisjoint(
        busy_nodes(cluster, reservation.start_us, reservation.name)
    ):
        return Reject(Errno.ESLURM_NODES_BUSY)
    return None


def choose_nodes(
    cluster: Cluster, reservation: Reservation, count: int, calendar: Calendar
) -> tuple[int, ...] | Reject:
    """Return `count` more nodes for a reservation: free of jobs first, then by weight and order."""
    taken = taken_nodes(cluster, reservation, calendar) | frozenset(reservation.node_ids)
    busy = busy_nodes(cluster, reservation.start_us, reservation.name)
    ignores_jobs = _ignores_jobs(reservation)
    candidates = [
        node
        for node in _source(cluster, reservation)
        if node.node_id not in taken
        and (ignores_jobs or node.node_id not in busy)
        and not is_failed(node)
        and (not reservation.features or features.matches(reservation.features, _features(node)))
    ]
    if len(candidates) < count:
        return Reject(Errno.ESLURM_NODES_BUSY)
    candidates.sort(key=lambda node: (node.node_id in busy, node.weight, node.node_id))
    return tuple(sorted(node.node_id for node in candidates[:count]))


def _features(node: Node) -> tuple[str, ...]:
    return node.features_active


def _source(cluster: Cluster, reservation: Reservation) -> list[Node]:
    partition = cluster.partitions.get(reservation.partition)
    if partition is None:
        return cluster.living_nodes()
    ids = partition.node_ids
    return [node for node_id in ids if (node := cluster.nodes[node_id]) is not None]


def is_failed(node: Node) -> bool:
    """Return whether a node is out of service for longer than a missed heartbeat."""
    if node.state in (NodeState.DOWN, NodeState.FUTURE):
        return True
    return bool(node.flags & FAILED_FLAGS)


def taken_nodes(cluster: Cluster, reservation: Reservation, calendar: Calendar) -> frozenset[int]:
    """Return the nodes that others have at times of a reservation."""
    if any(flag in reservation.flags for flag in _SHARES):
        return frozenset()
    return frozenset(
        node_id
        for other in cluster.reservations.values()
        if other.name != reservation.name
        and not any(flag in other.flags for flag in _SHARES)
        and meet(reservation, other, calendar)
        for node_id in other.node_ids
    )


def busy_nodes(cluster: Cluster, from_us: int, except_in: str = "") -> frozenset[int]:
    """Return nodes that running jobs may still use at a time; not those of one reservation's."""
    return frozenset(
        alloc.node_id
        for job_id in cluster.active
        for job in (cluster.jobs[job_id],)
        if not is_completing(job)
        and not (except_in and job.reservation == except_in)
        and _may_run_until(job, from_us)
        for alloc in job.nodes
    )


def _may_run_until(job: Job, when_us: int) -> bool:
    if job.time_limit_min >= NO_VAL:
        return True
    return job.start_us + job.suspended_us + job.time_limit_min * _MINUTE_US > when_us


def _ignores_jobs(reservation: Reservation) -> bool:
    return "IGNORE_JOBS" in reservation.flags


def cores_and_cpus(cluster: Cluster, node_ids: Sequence[int]) -> tuple[int, int]:
    """Return how many cores and CPUs nodes have in all."""
    specs = [node.spec for node_id in node_ids if (node := cluster.nodes[node_id]) is not None]
    cores = sum(spec.sockets * spec.cores_per_socket for spec in specs)
    return cores, sum(spec.cpus for spec in specs)
