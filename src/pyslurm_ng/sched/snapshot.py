"""Cluster -> the columns of one scheduling pass: the only file that knows both shapes.

A snapshot shares only frozen records and copied columns with the Cluster, so a pass may run in
another thread while the Cluster moves on.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason

HELD_REASONS = frozenset(
    {Reason.JobHeldUser, Reason.JobHeldAdmin, Reason.JobHoldMaxRequeue, Reason.BadConstraints}
)


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


@dataclass(frozen=True, slots=True)
class Running:
    """What a running job holds and until when; `end_us` 0 for no limit."""

    job_id: int
    end_us: int
    node_ids: tuple[int, ...]


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
    licenses_free: dict[str, int]
    qos_priority: dict[str, int]
    total_cpus: int
    total_nodes: int


def snapshot(cluster: Cluster, now_us: int) -> Snapshot:
    """Return the columns of one pass at `now_us`."""
    nodes, uses = cluster.nodes, cluster.use
    return Snapshot(
        now_us=now_us,
        specs=tuple(node.spec if node is not None else None for node in nodes),
        weights=array("q", [node.weight if node is not None else 0 for node in nodes]),
        features=tuple(node.features_active if node is not None else () for node in nodes),
        usable=bytearray(cluster.columns.usable),
        cpus_free=array("i", cluster.columns.cpus_free),
        mem_free_mib=array("q", cluster.columns.mem_free_mib),
        cores_busy=[use.cores for use in uses],
        gres_busy=[dict(use.gres) if use.gres else {} for use in uses],
        gres_used=[dict(use.gres_count) if use.gres_count else {} for use in uses],
        in_use=bytearray(1 if use.allocs else 0 for use in uses),
        partitions=dict(cluster.partitions),
        node_by_name=dict(cluster.node_by_name),
        waiting=[
            _waiting(cluster, job)
            for job in map(cluster.jobs.__getitem__, cluster.pending)
            if may_be_considered(job)
        ],
        licenses_free={
            name: total - cluster.licenses_used.get(name, 0)
            for name, total in cluster.licenses.items()
        },
        qos_priority={qos.name: qos.priority for qos in cluster.qos.values()},
        total_cpus=sum(node.spec.cpus for node in nodes if node is not None),
        total_nodes=sum(1 for node in nodes if node is not None),
    )


def may_be_considered(job: Job) -> bool:
    """Return whether a pending job is eligible and not held."""
    return bool(job.eligible_us) and job.priority != 0 and job.reason not in HELD_REASONS


def _waiting(cluster: Cluster, job: Job) -> Waiting:
    left = 1
    if job.array_pending:
        left = task_ranges.count(job.array_pending)
        if job.array_limit:
            running = cluster.array_active.get(job.array_job_id, 0)
            left = min(left, max(0, job.array_limit - running))
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
    )
