"""Cluster -> the columns of one scheduling pass: the only file that knows both shapes.

A snapshot shares only frozen records and copied columns with the Cluster, so a pass may run in
another thread while the Cluster moves on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import Job, JobRequest, NodeAlloc
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.model.topology import Topology

HELD_REASONS = frozenset(
    {Reason.JobHeldUser, Reason.JobHeldAdmin, Reason.JobHoldMaxRequeue, Reason.BadConstraints}
)

NO_END_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Waiting:
    """One pending record as the pass sees it; for an array `tasks_left` bounds its starts now."""

    job_id: int
    request: JobRequest
    partitions: tuple[str, ...]
    time_limit_min: int
    submit_us: int
    accrue_us: int
    priority: int  # set by hand, or NO_VAL
    nice: int
    site_factor: int
    qos: str
    account: str
    assoc_id: int
    uid: int
    array_pending: tuple[tuple[int, int, int], ...]
    tasks_left: int
    user_name: str = ""
    switches: int = 0  # at most so many leaf switches; 0 once it has waited long enough
    patience_us: int = 0  # when that will be


class Running(NamedTuple):
    """What a job holds and until when its limit lets it; `end_us` 0: it is over, nodes clean up."""

    job_id: int
    end_us: int
    nodes: tuple[NodeAlloc, ...]
    licenses: str
    is_suspended: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a pass may know. Node columns are indexed by node id.

    cores_busy: bit mask of cores in use; gres_busy: "name:type" -> device mask;
    gres_used: "name:type" -> count. Columns are copies; the records are frozen.
    """

    now_us: int
    specs: tuple[NodeSpec | None, ...]
    weights: array[int]
    features: tuple[tuple[str, ...], ...]
    usable: bytearray
    cpus_free: array[int]
    mem_free_mib: array[int]
    cores_busy: list[int]
    gres_busy: list[dict[str, int]]
    gres_used: list[dict[str, int]]
    in_use: bytearray  # 1 where any job holds anything
    partitions: dict[str, Partition]
    node_by_name: Mapping[str, int]
    waiting: list[Waiting]
    running: list[Running]
    licenses_free: dict[str, int]
    qos_priority: dict[str, int]
    total_cpus: int
    total_nodes: int
    reservations: tuple[Reservation, ...] = ()  # in order of creation; see `reserved`
    topologies: tuple[Topology, ...] = ()


class Views:
    """Records of pending and active jobs kept from pass to pass.

    Whoever sees events says what to `forget`; only that is made anew, and what changes by itself:
    how many tasks an array may start, whose patience has ended, how long a suspended job has left,
    which nodes still clean up. A job keeps its place when its record is made anew.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting | None] = {}
        self._running: dict[int, Running] = {}
        self._stale: dict[int, None] = {}
        self._moving: dict[int, None] = {}
        self._knows_all = False

    def forget(self, job_ids: Iterable[int]) -> None:
        """Make the records of some jobs anew; -1 stands for all."""
        for job_id in job_ids:
            if job_id < 0:
                self._knows_all = False
            else:
                self._stale[job_id] = None

    def renew(self, cluster: Cluster, now_us: int) -> tuple[list[Waiting], list[Running]]:
        """Return pending jobs that may be considered and active ones, as they are now."""
        if self._knows_all:
            stale = [*self._moving, *self._stale]
        else:
            self._waiting.clear()
            self._running.clear()
            stale = [*cluster.pending, *cluster.active]
        self._moving = {}
        self._stale = {}
        self._knows_all = True
        for job_id in stale:
            self._renew_waiting(cluster, job_id, now_us)
            self._renew_running(cluster, job_id, now_us)
        waiting = [view for view in self._waiting.values() if view is not None]
        return waiting, [*self._running.values()]

    def _renew_waiting(self, cluster: Cluster, job_id: int, now_us: int) -> None:
        if job_id not in cluster.pending:
            self._waiting.pop(job_id, None)
            return
        job = cluster.jobs[job_id]
        is_considered = may_be_considered(job)
        self._waiting[job_id] = _waiting(cluster, job, now_us) if is_considered else None
        if job.array_pending or job.request.switches:
            self._moving[job_id] = None

    def _renew_running(self, cluster: Cluster, job_id: int, now_us: int) -> None:
        if job_id not in cluster.active:
            self._running.pop(job_id, None)
            return
        job = cluster.jobs[job_id]
        self._running[job_id] = _running(job, now_us)
        if job.flags & JobFlag.COMPLETING or job.state == JobState.SUSPENDED:
            self._moving[job_id] = None


class _Static(NamedTuple):
    """What changes only with nodes; kept in the Cluster's memo, which is emptied then."""

    specs: tuple[NodeSpec | None, ...]
    weights: array[int]
    features: tuple[tuple[str, ...], ...]
    node_by_name: dict[str, int]
    total_cpus: int
    total_nodes: int


def snapshot(cluster: Cluster, now_us: int, views: Views | None = None) -> Snapshot:
    """Return the columns of one pass at `now_us`."""
    static = cluster.memo.get("snapshot")
    if not isinstance(static, _Static):
        static = cluster.memo["snapshot"] = _static(cluster)
    columns = cluster.columns
    waiting, running = (views or Views()).renew(cluster, now_us)
    return Snapshot(
        now_us=now_us,
        specs=static.specs,
        weights=static.weights,
        features=static.features,
        usable=columns.usable[:],
        cpus_free=columns.cpus_free[:],
        mem_free_mib=columns.mem_free_mib[:],
        cores_busy=columns.cores_busy[:],
        gres_busy=columns.gres_busy[:],
        gres_used=columns.gres_used[:],
        in_use=columns.in_use[:],
        partitions=dict(cluster.partitions),
        node_by_name=static.node_by_name,
        waiting=waiting,
        running=running,
        licenses_free={
            name: total - cluster.licenses_used.get(name, 0)
            for name, total in cluster.licenses.items()
        },
        qos_priority={qos.name: qos.priority for qos in cluster.qos.values()},
        total_cpus=static.total_cpus,
        total_nodes=static.total_nodes,
        reservations=tuple(cluster.reservations.values()),
        topologies=cluster.topologies,
    )


def outline(cluster: Cluster, now_us: int) -> Snapshot:
    """Return a snapshot without nodes and jobs: what priorities depend on."""
    static = cluster.memo.get("snapshot")
    if not isinstance(static, _Static):
        static = cluster.memo["snapshot"] = _static(cluster)
    return Snapshot(
        now_us=now_us,
        specs=(),
        weights=array("q"),
        features=(),
        usable=bytearray(),
        cpus_free=array("i"),
        mem_free_mib=array("q"),
        cores_busy=[],
        gres_busy=[],
        gres_used=[],
        in_use=bytearray(),
        partitions=dict(cluster.partitions),
        node_by_name={},
        waiting=[],
        running=[],
        licenses_free={},
        qos_priority={qos.name: qos.priority for qos in cluster.qos.values()},
        total_cpus=static.total_cpus,
        total_nodes=static.total_nodes,
    )


def _static(cluster: Cluster) -> _Static:
    nodes = cluster.nodes
    return _Static(
        specs=tuple(node.spec if node is not None else None for node in nodes),
        weights=array("q", [node.weight if node is not None else 0 for node in nodes]),
        features=tuple(node.features_active if node is not None else () for node in nodes),
        node_by_name=dict(cluster.node_by_name),
        total_cpus=sum(node.spec.cpus for node in nodes if node is not None),
        total_nodes=sum(1 for node in nodes if node is not None),
    )


def _running(job: Job, now_us: int) -> Running:
    """Return what an active job holds; a suspended one goes on as long as it has left."""
    nodes = job.nodes
    if job.flags & JobFlag.COMPLETING:
        held = frozenset(job.nodes_pending)
        nodes = tuple(alloc for alloc in nodes if alloc.node_id in held)
        return Running(job.job_id, 0, nodes, job.licenses_alloc)
    is_suspended = job.state == JobState.SUSPENDED
    if job.time_limit_min >= NO_VAL:
        return Running(job.job_id, NO_END_US, nodes, job.licenses_alloc, is_suspended)
    end_us = job.start_us + job.suspended_us + job.time_limit_min * 60_000_000
    if is_suspended:
        end_us += now_us - job.suspend_us
    return Running(job.job_id, max(end_us, 1), nodes, job.licenses_alloc, is_suspended)


def may_be_considered(job: Job) -> bool:
    """Return whether a pending job is eligible and not held."""
    return bool(job.eligible_us) and job.priority != 0 and job.reason not in HELD_REASONS


def waiting_record(cluster: Cluster, job: Job) -> Waiting:
    """Return a pending job as a pass would see it, whether it may be considered or not."""
    return _waiting(cluster, job, cluster.time_us)


def _waiting(cluster: Cluster, job: Job, now_us: int) -> Waiting:
    left = 1
    if job.array_pending:
        left = task_ranges.count(job.array_pending)
        if job.array_limit:
            running = cluster.array_active.get(job.array_job_id, 0)
            left = min(left, max(0, job.array_limit - running))
    patience_us = _patience_us(job) if job.request.switches else 0
    return Waiting(
        job_id=job.job_id,
        request=job.request,
        partitions=tuple(job.partition.split(",")),
        time_limit_min=job.time_limit_min,
        submit_us=job.submit_us,
        accrue_us=job.accrue_us,
        priority=job.priority,
        nice=job.nice,
        site_factor=job.site_factor,
        qos=job.qos,
        account=job.account,
        assoc_id=job.assoc_id,
        uid=job.uid,
        array_pending=job.array_pending,
        tasks_left=left,
        user_name=job.user_name,
        switches=job.request.switches if now_us < patience_us else 0,
        patience_us=patience_us,
    )


def _patience_us(job: Job) -> int:
    """Return until when a job waits for few leaf switches."""
    return (job.eligible_us or job.submit_us) + job.request.switches_wait_s * 1_000_000
