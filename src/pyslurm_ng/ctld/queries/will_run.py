"""`--test-only`: when and where a request would start if it were next in the queue.

Running jobs are taken to last as long as they may, and reservations keep their nodes. Jobs are
removed in the order of their ends, a growing span at a time (30 s, then twice as long each time),
until the request fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.submission import submit
from pyslurm_ng.ctld.rules.submission.feasible import layouts_in
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import Job, JobRequest, NodeAlloc, limit_end_us
from pyslurm_ng.model.node import spec_with_facts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import NOTHING, WHOLE
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.cores import usable_cores
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.cons_tres.hidden_parts import hide
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.demand.demand import limit_us
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.reserved import (
    allowed_nodes,
    cut_of_us,
    kept_parts,
    own_parts,
    reservations_for,
    stay_us,
    with_families,
)
from pyslurm_ng.sched.request.features import suits
from pyslurm_ng.sched.request.need import Need, need_of
from pyslurm_ng.sched.request.sharing import Neighbours, PartitionCores, Tenant, Units, tenant_of
from pyslurm_ng.wire.job_messages import TestJob, WillRun

_FIRST_SPAN_US = 30_000_000
_NOWHERE = Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)


def test_job(
    cluster: Cluster, soft: Soft, conf: SlurmConf, request: TestJob, caller: Caller, now_us: int
) -> WillRun | Reject:
    """Check a request as if it were submitted, and say where it would start first."""
    del soft
    checked = submit.check(cluster, request.request, Context(conf, now_us, caller))
    if isinstance(checked, Reject):
        return _NOWHERE if checked.code == _NOWHERE.code else checked  # without its detail
    applicant = _Applicant(
        checked.request,
        caller.user_name,
        checked.standing.account,
        checked.standing.qos,
        caller.uid,
    )
    rules = policy(conf)
    earliest_us = max(now_us, checked.request.begin_us)
    best: tuple[int, Partition, tuple[NodeAlloc, ...]] | None = None
    for partition in checked.partitions:
        if 0 < checked.request.nodes_max < partition.min_nodes:
            continue  # it would wait there for ever: PartitionNodeLimit
        need = need_of(
            checked.request,
            partition,
            cluster.node_index.by_name,
            rules.selection,
            [node.extra if node is not None else "" for node in cluster.nodes],
        )
        length_us = limit_us(checked.time_limit_min, partition)
        start = _first_start(
            cluster, applicant, partition, need, earliest_us, length_us, rules.over_run_us
        )
        if start is not None and (best is None or start[0] < best[0]):
            best = (start[0], partition, start[1])
    if best is None:
        return _NOWHERE
    start_us, partition, allocs = best
    return WillRun(
        job_id=free_job_id(cluster),
        start_us=start_us,
        cpus=sum(alloc.charged_cpus for alloc in allocs),
        nodes=hostlist.fold_sorted(cluster.node_names([alloc.node_id for alloc in allocs])),
        partition=partition.name,
    )


@dataclass(frozen=True, slots=True)
class _Applicant:
    """The user that asks, as reservations see it."""

    request: JobRequest
    user_name: str
    account: str
    qos: str
    uid: int


def _first_start(
    cluster: Cluster,
    applicant: _Applicant,
    partition: Partition,
    need: Need,
    now_us: int,
    length_us: int,
    over_run_us: int,
) -> tuple[int, tuple[NodeAlloc, ...]] | None:
    """Return the first moment at which the request fits, and what it would hold then."""
    tenant = tenant_of(applicant.request, partition, applicant.uid)
    free = _free_nodes(cluster, applicant.request, partition, need)
    layout = layouts_in(cluster).get(partition.name)
    present_tenants = _tenants(cluster, tenant)
    job_counts = {node_id: len(cluster.node_index.use[node_id].allocs) for node_id in free}
    for at_us, jobs in _moments(cluster, now_us, over_run_us):
        for job in jobs:
            _release(free, job_counts, job)
            present_tenants.pop(job.job_id, None)
        start_us = max(now_us, at_us)
        nodes = _open_nodes(cluster, free, tenant, present_tenants)
        allocs = _fit_in_reservations(
            cluster,
            applicant,
            partition,
            need,
            nodes,
            layout,
            start_us,
            start_us + length_us,
            over_run_us,
        )
        if allocs is not None:
            return start_us, allocs
    return None


def _moments(cluster: Cluster, now_us: int, over_run_us: int) -> Iterator[tuple[int, list[Job]]]:
    """Yield now and when something changes, in order of time, with the jobs that are over then."""
    times = {
        time_us
        for reservation in cluster.reservations.values()
        for occurrence in reservation.occurrences()
        for time_us in occurrence
        if time_us > now_us
    }
    yield now_us, []
    yield from merge(
        _ends(cluster, now_us, over_run_us),
        ((time_us, []) for time_us in sorted(times)),
        key=lambda moment: max(now_us, moment[0]),
    )


def _fit_in_reservations(
    cluster: Cluster,
    applicant: _Applicant,
    partition: Partition,
    need: Need,
    nodes: list[FreeNode],
    layout: Layout | None,
    begin_us: int,
    end_us: int,
    over_run_us: int,
) -> tuple[NodeAlloc, ...] | None:
    """Return what the request would hold in the first reservation, or outside, that has room."""
    reservations = with_families(cluster)
    for reservation in reservations_for(reservations, applicant, (partition.name,)):
        until_us = stay_us(reservations, applicant, reservation, begin_us, end_us, over_run_us)
        if not until_us:
            continue
        allowed = allowed_nodes(reservations, reservation)
        own = own_parts(reservations, reservation)
        kept = kept_parts(reservations, reservation, begin_us, until_us)
        open_nodes = [node for node in nodes if allowed is None or node.node_id in allowed]
        hidden = [
            hide(node, own.get(node.node_id, WHOLE), kept.get(node.node_id, NOTHING))
            for node in open_nodes
            if node.node_id in own or node.node_id in kept
        ]
        chosen = choose(need, [node for node in open_nodes if node.cores], layout)
        allocs = allot(need, chosen) if chosen is not None else None
        for hidden_part in hidden:
            if hidden_part is not None:
                hidden_part.show()
        if allocs is not None:
            return allocs
    return None


def _tenants(cluster: Cluster, tenant: Tenant) -> dict[int, Tenant]:
    """Return the tenants of active jobs by job id; none where all may share with all."""
    tenants = {}
    is_particular = bool(tenant.sharing)
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        own = tenant_of(job.request, cluster.partitions.get(job.partition), job.uid)
        tenants[job_id] = own
        is_particular = is_particular or bool(own.sharing)
    return tenants if is_particular else {}


def _open_nodes(
    cluster: Cluster, free: dict[int, FreeNode], tenant: Tenant, present_tenants: dict[int, Tenant]
) -> list[FreeNode]:
    """Return the nodes that a job may share with the jobs still there."""
    if not present_tenants:
        return [*free.values()]
    neighbours = Neighbours(Units(cluster.topologies, cluster.partitions))
    for job_id, other in present_tenants.items():
        neighbours.add(
            other, {alloc.node_id: alloc.cpus for alloc in cluster.jobs[job_id].nodes}, 0
        )
    return [node for node_id, node in free.items() if neighbours.is_open(node_id, tenant)]


def _free_nodes(
    cluster: Cluster, request: JobRequest, partition: Partition, need: Need
) -> dict[int, FreeNode]:
    """Return what the nodes in service that suit the request have left now."""
    free = {}
    columns = cluster.node_index.columns
    caps = PartitionCores(cluster.partitions, INFINITE)
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        caps.add(job.partition, job.nodes)
    for node_id in partition.node_ids:
        if not columns.usable[node_id] or node_id in need.excluded_nodes:
            continue
        node, use = cluster.node(node_id), cluster.node_index.use[node_id]
        if not suits(request, node.features_active):
            continue
        free[node_id] = FreeNode(
            node_id=node_id,
            spec=spec_with_facts(node),
            cores=usable_cores(node.spec) & ~use.cores,
            mem_mib=columns.mem_free_mib[node_id],
            gres_busy=dict(use.gres),
            gres_used=dict(use.gres_count),
            weight=node.weight,
            is_idle=not use.allocs,
            features=node.features_active,
            partition_cores=caps.on(node_id),
        )
    return free


def _ends(cluster: Cluster, now_us: int, over_run_us: int) -> Iterator[tuple[int, list[Job]]]:
    """Yield jobs in the order of their ends, as many as a growing span of time holds."""
    running = [cluster.jobs[job_id] for job_id in cluster.job_index.active]
    timed = sorted(
        (
            (end_us, job)
            for job in running
            if (end_us := _end_us(cluster, job, over_run_us)) < NO_END_US
        ),
        key=lambda pair: (pair[0], pair[1].job_id),
    )
    span_us = _FIRST_SPAN_US
    position = 0
    while position < len(timed):
        until_us = max(now_us, timed[position][0]) + span_us
        batch = []
        last_us = 0
        while position < len(timed) and timed[position][0] <= until_us:
            last_us = timed[position][0]
            batch.append(timed[position][1])
            position += 1
        yield last_us, batch
        span_us *= 2


def _end_us(cluster: Cluster, job: Job, over_run_us: int) -> int:
    if job.end_us:
        return job.end_us
    return min(limit_end_us(job) or NO_END_US, cut_of_us(cluster, job, over_run_us))


def _release(free: dict[int, FreeNode], job_counts: dict[int, int], job: Job) -> None:
    """Give back what a job holds on the nodes looked at."""
    for alloc in job.nodes:
        node = free.get(alloc.node_id)
        if node is None:
            continue
        node.cores |= int.from_bytes(alloc.cores, "little") & usable_cores(node.spec)
        node.mem_mib += alloc.mem_mib
        for gres in alloc.gres:
            gres_parts.give_back(node.gres_busy, node.gres_used, gres)
        job_counts[alloc.node_id] -= 1
        node.is_idle = not job_counts[alloc.node_id]
        if node.partition_cores and job.partition in node.partition_cores:
            node.partition_cores[job.partition] &= ~int.from_bytes(alloc.cores, "little")


# So that pytest does not take the query for a test.
test_job.__test__ = False  # type: ignore[attr-defined]
