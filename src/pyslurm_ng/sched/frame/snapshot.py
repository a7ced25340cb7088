"""Cluster -> the columns of one scheduling pass.

A snapshot shares only frozen records and copied columns with the Cluster, so a pass may run in
another thread while the Cluster moves on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyslurm_ng.base.numbers import MINUTE_US, NO_VAL
from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import SUSPENDED_BY_GANG, Job, NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import Node, NodeSpec, spec_with_facts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.rows import Load, may_mix
from pyslurm_ng.model.states import JobState, NodeFlag
from pyslurm_ng.model.topology import Topology, topology_of
from pyslurm_ng.sched.frame.answers import answers
from pyslurm_ng.sched.frame.job_records import NO_END_US, Claim, Running, Waiting
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.licenses import LicensesInside, kept_from, licenses_inside
from pyslurm_ng.sched.frame.measures import Limits
from pyslurm_ng.sched.frame.reserved import with_families
from pyslurm_ng.sched.request.sharing import tenant_of

_BOOTS, _ASLEEP = 1 << 40, 1 << 41  # above every Weight=


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a pass may know. Node columns are indexed by node id.

    cores_busy: bit mask of cores in use; gres_busy: "name:type" -> device mask;
    gres_used: "name:type" -> count. Columns are copies, those of devices shared by passes.
    The records are frozen.
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
    qos: Mapping[str, Qos] = field(default_factory=dict)
    claims: Mapping[int, Claim] = field(default_factory=dict)  # by job id
    assoc_priority: Mapping[int, int] = field(default_factory=dict)  # of those that have one
    fairshare: Mapping[int, float] = field(default_factory=dict)  # factors by association
    features_available: tuple[tuple[str, ...], ...] = ()
    extras: tuple[str, ...] = ()
    licenses_inside: Mapping[str, LicensesInside] = field(default_factory=dict)  # of reservations
    only_reservation: Reservation | None = None  # of all its jobs; see `reservation_view`
    hosts: frozenset[int | str] = frozenset()  # whose jobs share nodes with their own only
    limits: Limits | None = None  # this pass's own, for it counts; None: nothing is enforced
    licenses: Mapping[str, int] = field(default_factory=dict)  # all that the cluster has
    until_us: int = NO_END_US  # jobs start before that only

    def leaving(self, claim: Claim) -> list[Running]:
        """Return the jobs that are still in the way of a claim."""
        return [job for job in self.running if job.job_id in claim.leaving]

    def network(self, partition: Partition) -> Topology | None:
        """Return the topology of a partition, if it has a network model."""
        return topology_of(self.topologies, partition)

    def vacated_us(self, claim: Claim) -> int:
        """Return when the jobs in the way of a claim are to be gone: their grace is over then."""
        return max((job.end_us for job in self.leaving(claim)), default=0) or self.now_us


class _Static(NamedTuple):
    """What changes only with nodes; kept beside the Cluster until then."""

    specs: tuple[NodeSpec | None, ...]
    weights: array[int]
    features: tuple[tuple[str, ...], ...]
    node_by_name: dict[str, int]
    available: tuple[tuple[str, ...], ...]
    extras: tuple[str, ...]
    total_cpus: int
    total_nodes: int


def snapshot(cluster: Cluster, now_us: int, views: Views | None = None) -> Snapshot:
    """Return the columns of one pass at `now_us`."""
    static = _static(cluster)
    columns = cluster.node_index.columns
    views = views or Views()
    waiting, running = views.renew(cluster, now_us)
    inside = licenses_inside(cluster, now_us) if cluster.reservations else {}
    kept = kept_from(inside, ())
    gres_busy, gres_used = _gres_columns(cluster)
    if cluster.job_index.claims:
        gres_busy, gres_used = gres_busy[:], gres_used[:]  # claims are entered below
    view = Snapshot(
        now_us=now_us,
        specs=static.specs,
        weights=static.weights,
        features=static.features,
        usable=columns.usable[:],
        cpus_free=columns.cpus_free[:],
        mem_free_mib=columns.mem_free_mib[:],
        cores_busy=columns.cores_busy[:],
        gres_busy=gres_busy,
        gres_used=gres_used,
        in_use=columns.in_use[:],
        partitions=dict(cluster.partitions),
        node_by_name=static.node_by_name,
        waiting=waiting,
        running=running,
        licenses_free={
            name: cluster.licenses_left(name) - kept.get(name, 0) for name in cluster.licenses
        },
        licenses=dict(cluster.licenses),
        qos_priority={qos.name: qos.priority for qos in cluster.qos.values()},
        total_cpus=static.total_cpus,
        total_nodes=static.total_nodes,
        licenses_inside=inside,
        reservations=with_families(cluster),
        topologies=cluster.topologies,
        qos=dict(cluster.qos),
        assoc_priority=_assoc_priority(cluster),
        features_available=static.available,
        extras=static.extras,
        claims={
            job_id: _claim(cluster, cluster.jobs[job_id]) for job_id in cluster.job_index.claims
        },
        hosts=views.hosts,
    )
    _keep_preempted(cluster, view)
    if view.claims:
        _keep_claims(cluster, view)
    return view


def outline(cluster: Cluster, now_us: int) -> Snapshot:
    """Return a snapshot without nodes and jobs: what priorities depend on."""
    static = _static(cluster)
    return Snapshot(
        now_us=now_us,
        specs=static.specs,
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
        assoc_priority=_assoc_priority(cluster),
    )


class _GresColumns(NamedTuple):
    changes: int
    busy: list[dict[str, int]]
    used: list[dict[str, int]]


def _gres_columns(cluster: Cluster) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Return copies of the columns of devices, the same ones as long as nothing has changed."""
    columns = cluster.node_index.columns
    kept = answers(cluster)
    copies = kept.get("gres_columns")
    if not isinstance(copies, _GresColumns) or copies.changes != columns.gres_changes:
        copies = _GresColumns(columns.gres_changes, columns.gres_busy[:], columns.gres_used[:])
        kept["gres_columns"] = copies
    return copies.busy, copies.used


class _AssocPriorities(NamedTuple):
    version: tuple[int, int]
    priorities: dict[int, int]


def _assoc_priority(cluster: Cluster) -> dict[int, int]:
    """Return the priorities of associations, the same object as long as none has changed."""
    version = cluster.assoc_version, len(cluster.assocs)
    kept = answers(cluster)
    known = kept.get("assoc_priority")
    if not isinstance(known, _AssocPriorities) or known.version != version:
        priorities = {
            assoc.assoc_id: assoc.priority for assoc in cluster.assocs.values() if assoc.priority
        }
        known = kept["assoc_priority"] = _AssocPriorities(version, priorities)
    return known.priorities


def _static(cluster: Cluster) -> _Static:
    kept = answers(cluster)
    known = kept.get("snapshot")
    if isinstance(known, _Static):
        return known
    nodes = cluster.nodes
    static = kept["snapshot"] = _Static(
        specs=tuple(spec_with_facts(node) if node is not None else None for node in nodes),
        weights=array("q", [_weight(node) if node is not None else 0 for node in nodes]),
        features=tuple(node.features_active if node is not None else () for node in nodes),
        node_by_name=dict(cluster.node_index.by_name),
        available=tuple(node.features if node is not None else () for node in nodes),
        extras=tuple(node.extra if node is not None else "" for node in nodes),
        total_cpus=sum(node.spec.cpus for node in nodes if node is not None),
        total_nodes=sum(1 for node in nodes if node is not None),
    )
    return static


def _weight(node: Node) -> int:
    """Return a node's weight: nodes that sleep come after those that boot, these after the rest."""
    if node.flags & NodeFlag.POWERED_DOWN:
        return node.weight + _ASLEEP
    return node.weight + _BOOTS if node.flags & NodeFlag.POWERING_UP else node.weight


def _claim(cluster: Cluster, job: Job) -> Claim:
    """Return what a waiting job claims, and the jobs that are still in its way."""
    leaving: dict[int, None] = {}
    is_free = True
    for alloc in job.claim:
        is_free = is_free and is_free_now(cluster, alloc)
        allocs = cluster.node_index.use[alloc.node_id].allocs
        leaving.update(dict.fromkeys(victim for victim in job.claim_victims if victim in allocs))
    licenses = license_counts(job.request.licenses)
    for name, count in licenses:
        is_free = is_free and cluster.licenses_left(name) >= count
    if licenses:
        leaving.update(
            dict.fromkeys(
                victim for victim in job.claim_victims if victim in cluster.job_index.active
            )
        )
    return Claim(
        job.job_id, job.claim_partition, job.claim, job.claim_tasks, tuple(leaving), is_free
    )


def are_free_now(
    cluster: Cluster, allocs: Iterable[NodeAlloc], partition: str = "", rows: int = 1
) -> bool:
    """Return whether no job holds any of this and its nodes take jobs.

    Args:
        partition, rows: so many jobs of that partition may have each core, if all of them share.
    """
    columns = cluster.node_index.columns
    usable, in_use, cpus_free = columns.usable, columns.in_use, columns.cpus_free
    mem_free_mib = columns.mem_free_mib
    for alloc in allocs:
        node_id = alloc.node_id
        if in_use[node_id] or alloc.gres:
            if not is_free_now(cluster, alloc, partition, rows):
                return False
        elif (
            not usable[node_id]
            or (cpus_free[node_id] < alloc.cpus and not _may_be_whole(cluster, alloc))
            or mem_free_mib[node_id] < alloc.mem_mib
        ):
            return False
    return True


def is_free_now(cluster: Cluster, alloc: NodeAlloc, partition: str = "", rows: int = 1) -> bool:
    """Return whether no job holds any of this and its node takes jobs.

    Args:
        partition, rows: so many jobs of that partition may have each core, if all of them share.
    """
    columns, use = cluster.node_index.columns, cluster.node_index.use[alloc.node_id]
    if not columns.usable[alloc.node_id]:
        return False
    if columns.mem_free_mib[alloc.node_id] < alloc.mem_mib:
        return False
    if rows > 1:
        if not _has_row(cluster, alloc, partition, rows):
            return False
    elif use.cores & int.from_bytes(alloc.cores, "little") or (
        columns.cpus_free[alloc.node_id] < alloc.cpus
        and (columns.in_use[alloc.node_id] or not _may_be_whole(cluster, alloc))
    ):
        return False
    if not alloc.gres:
        return True
    resources = spec_with_facts(cluster.node(alloc.node_id)).gres
    return all(
        gres_parts.has_room(resources, use.gres, use.gres_count, gres) for gres in alloc.gres
    )


def _may_be_whole(cluster: Cluster, alloc: NodeAlloc) -> bool:
    """Return whether an idle node has so many CPUs with those that are set aside (--core-spec)."""
    return alloc.cpus <= cluster.node(alloc.node_id).spec.cpus


def _has_row(cluster: Cluster, alloc: NodeAlloc, partition: str, rows: int) -> bool:
    """Return whether each of these cores has less than `rows` jobs of that partition.

    All its jobs share it; see `may_mix` for those of other partitions.
    """
    own = cluster.partitions.get(partition)
    own_cores = int.from_bytes(alloc.cores, "little")
    load = Load()
    for job_id, other_alloc in cluster.node_index.use[alloc.node_id].allocs.items():
        cores = own_cores & int.from_bytes(other_alloc.cores, "little")
        job = cluster.jobs[job_id]
        if not cores or (
            job_id in cluster.job_index.suspended and job.suspended_by != SUSPENDED_BY_GANG
        ):
            continue
        if job.partition == partition and job.rows > 1:
            load.add(cores)
        elif job.rows <= 1 or not may_mix(own, cluster.partitions.get(job.partition)):
            return False
    return not load.with_jobs(rows)


def _keep_preempted(cluster: Cluster, view: Snapshot) -> None:
    """Keep the cores of jobs suspended for others from all jobs that did not preempt them."""
    for job_id in cluster.job_index.suspended:
        job = cluster.jobs[job_id]
        if job.suspended_by and job.state == JobState.SUSPENDED:
            for alloc in job.nodes:
                _keep_cores(view, alloc)


def _keep_cores(view: Snapshot, alloc: NodeAlloc) -> None:
    node_id, spec = alloc.node_id, view.specs[alloc.node_id]
    assert spec is not None, node_id
    before = view.cores_busy[node_id]
    cores = int.from_bytes(alloc.cores, "little")
    view.cores_busy[node_id] = before | cores
    view.cpus_free[node_id] -= (cores & ~before).bit_count() * max(1, spec.threads_per_core)


def _keep_claims(cluster: Cluster, view: Snapshot) -> None:
    """Let claims be in use: no other job may have what their jobs preempted others for.

    Those others still hold some of it: a node has left what it has now, or what it will have when
    they are gone and the claim's job runs, whichever is less.
    """
    for claim in view.claims.values():
        job = cluster.jobs[claim.job_id]
        leaving = frozenset(claim.leaving)
        for alloc in claim.nodes:
            allocs = cluster.node_index.use[alloc.node_id].allocs
            _keep(view, alloc, [allocs[job_id] for job_id in leaving if job_id in allocs])
        for name, count in license_counts(job.request.licenses):
            view.licenses_free[name] = view.licenses_free.get(name, 0) - count
        end_us = (
            view.now_us + (job.time_limit_min if job.time_limit_min < NO_VAL else 0) * MINUTE_US
        )
        if job.time_limit_min >= NO_VAL:
            end_us = NO_END_US
        partition = cluster.partitions.get(job.partition.partition(",")[0])
        tenant = tenant_of(job.request, partition, job.uid)
        view.running.append(
            Running(claim.job_id, end_us, claim.nodes, job.request.licenses, tenant=tenant)
        )


def _keep(view: Snapshot, alloc: NodeAlloc, leaving: list[NodeAlloc]) -> None:
    node_id = alloc.node_id
    _keep_cores(view, alloc)
    view.in_use[node_id] = 1
    freed_mib = sum(alloc_leaving.mem_mib for alloc_leaving in leaving)
    view.mem_free_mib[node_id] -= max(0, alloc.mem_mib - freed_mib)
    busy, used = dict(view.gres_busy[node_id]), dict(view.gres_used[node_id])
    gres_parts.keep(
        busy, used, alloc.gres, (gres for alloc_leaving in leaving for gres in alloc_leaving.gres)
    )
    view.gres_busy[node_id], view.gres_used[node_id] = busy, used
