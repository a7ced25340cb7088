"""The invariants of every cluster after every event; tests, simulator and recovery check them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyslurm_ng.base.numbers import NO_VAL

from . import task_ranges
from .cluster import Cluster
from .duty import DutyKind
from .gres_parts import held_parts, hold
from .job import Job, is_completing
from .job_index import JobIndex
from .license_server import license_counts
from .node import NodeGres, effective_cpus, schedulable_mem_mib, spec_with_facts
from .node_index import NodeUse
from .rows import Load
from .states import TERMINAL_STATES, JobFlag, JobState, NodeState

# Indexes that a fresh cluster has, too; the others count how often something changed.
_COUNTS = ("array_active", "array_waiting", "unsplit_tasks", "unsplit_by_user", "submitted")
_COLUMNS = (
    "usable", "cpus_free", "mem_free_mib", "in_use", "cores_busy", "gres_busy", "gres_used",
)  # fmt: skip


def check(cluster: Cluster) -> list[str]:
    """Return every broken invariant as one sentence; an empty list for a sound cluster."""
    broken: list[str] = []
    for job in cluster.jobs.values():
        broken += _check_job(cluster, job)
    broken += _check_uses(cluster)
    broken += _check_duties(cluster)
    broken += _check_programs(cluster)
    broken += _check_indexes(cluster)
    broken += _check_licenses(cluster)
    return broken


def _check_licenses(cluster: Cluster) -> Iterator[str]:
    """Say which counts are wrong; more licences than there are may be in use after a reduction."""
    counts: dict[str, int] = {}
    for job_id in cluster.job_index.active:
        for name, count in license_counts(cluster.jobs[job_id].licenses_alloc):
            counts[name] = counts.get(name, 0) + count
    for name in {**counts, **cluster.job_counts.licenses_used}:
        used = cluster.job_counts.licenses_used.get(name, 0)
        if used != counts.get(name, 0):
            yield f"licence {name}: {used} in use, jobs hold {counts.get(name, 0)}"


def _check_job(cluster: Cluster, job: Job) -> list[str]:
    broken = []
    name = f"job {job.job_id}"
    if job.state == JobState.PENDING and (job.nodes or job.nodes_pending or job.steps):
        broken.append(f"{name}: pending with resources")
    if job.state in (JobState.RUNNING, JobState.SUSPENDED) and not job.nodes:
        broken.append(f"{name}: running without nodes")
    if is_completing(job) and job.state not in TERMINAL_STATES:
        broken.append(f"{name}: completing in state {job.state}")
    if job.nodes_pending and not is_completing(job):
        broken.append(f"{name}: waits for nodes but is not completing")
    if job.nodes_leaving and job.job_id not in cluster.job_index.active:
        broken.append(f"{name}: leaves nodes but does not run")
    if not set(job.nodes_pending) <= {alloc.node_id for alloc in job.nodes_held}:
        broken.append(f"{name}: waits for nodes it never had")
    if job.claim and job.state != JobState.PENDING:
        broken.append(f"{name}: claims resources but does not wait")
    if job.job_id in cluster.job_index.active and any(
        run.blocks and run.attempt < job.attempt for run in job.lost_runs
    ):
        broken.append(f"{name}: runs before the end of an earlier run is known")
    if job.array_pending and job.array_task_id != NO_VAL:
        broken.append(f"{name}: both an array record and a task")
    if job.array_pending and job.state in (JobState.RUNNING, JobState.SUSPENDED):
        broken.append(f"{name}: an array record runs")
    if job.job_id > cluster.max_job_id:
        broken.append(f"{name}: id beyond {cluster.max_job_id}")
    return broken


def _check_uses(cluster: Cluster) -> list[str]:
    """Compare the uses that apply keeps with a fresh count, and each with its node's size."""
    broken = []
    fresh = [NodeUse() for _ in cluster.nodes]
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        cleaning = set(job.nodes_pending)
        for alloc in job.nodes_held:
            if not is_completing(job) or alloc.node_id in cleaning:
                fresh[alloc.node_id].allocs[job_id] = alloc
    for node_id, (use, expected) in enumerate(zip(cluster.node_index.use, fresh, strict=True)):
        node = cluster.nodes[node_id]
        if node is None:
            if use.allocs:
                broken.append(f"removed node {node_id} is in use")
            continue
        name = node.spec.name
        if dict(use.allocs) != expected.allocs:
            broken.append(f"node {name}: allocations {sorted(use.allocs)} are out of date")
        expected.count(cluster.job_index.suspended)
        for what in ("cpus", "mem_mib", "cores", "gres", "gres_count"):
            if getattr(use, what) != getattr(expected, what):
                broken.append(f"node {name}: {what} is out of date")
        if use.mem_mib > schedulable_mem_mib(node.spec):
            broken.append(f"node {name}: {use.mem_mib} MiB in use of {node.spec.real_memory_mib}")
        broken += _check_sharing(cluster, node_id, name)
        if cluster.node_index.columns.cpus_free[node_id] != effective_cpus(node.spec) - use.cpus:
            broken.append(f"node {name}: column of free CPUs is out of date")
    return broken


def _check_sharing(cluster: Cluster, node_id: int, name: str) -> list[str]:
    """Compare what the jobs of a node have; each partition counts its own jobs on a core."""
    broken = []
    cores: dict[int, tuple[int, str]] = {}  # by job; with the partition that shares them
    loads: dict[str, tuple[Load, int]] = {}
    busy: dict[str, int] = {}
    used: dict[str, int] = {}
    resources = spec_with_facts(cluster.node(node_id)).gres
    for job_id, alloc in cluster.node_index.use[node_id].allocs.items():
        if job_id in cluster.job_index.suspended:
            continue
        job = cluster.jobs[job_id]
        mask = int.from_bytes(alloc.cores, "little")
        group = job.partition if job.rows > 1 else ""
        if any(mask & other and not (group and theirs) for other, theirs in cores.values()):
            broken.append(f"node {name}: job {job_id} has a core of another job")
        cores[job_id] = mask, group
        if group:
            load, rows = loads.get(group, (Load(), 1))
            load.add(mask)
            loads[group] = load, max(rows, job.rows)
        for gres in alloc.gres:
            taken = busy.get(f"{gres.name}:{gres.type}", 0)
            if taken & int.from_bytes(gres.indexes, "little") and not held_parts(gres):
                broken.append(f"node {name}: job {job_id} has a {gres.name} of another job")
            hold(busy, used, gres)
    broken += _check_parts(name, resources, busy, used)
    for group, (load, rows) in loads.items():
        if load.with_jobs(rows + 1):
            broken.append(f"node {name}: more than {rows} jobs of {group} on a core")
    return broken


def _check_parts(
    name: str, resources: Sequence[NodeGres], busy: dict[str, int], used: dict[str, int]
) -> list[str]:
    """Compare the parts of GPUs in use with all parts, and with GPUs that are in use as a whole."""
    broken = []
    whole = sum(mask for key, mask in busy.items() if key.startswith("gpu:"))
    for resource in resources:
        key = f"{resource.name}:{resource.type}"
        for number, count in enumerate(resource.parts):
            used_parts = used.get(f"{key}:{number}", 0)
            if used_parts > count or (used_parts and whole >> number & 1):
                broken.append(
                    f"node {name}: {used_parts} of {count} {resource.name} of GPU {number} in use"
                )
    return broken


def _check_duties(cluster: Cluster) -> list[str]:
    broken = []
    for node_id, duties in cluster.duties.items():
        node = cluster.nodes[node_id]
        is_reboot = all(duty.kind == DutyKind.REBOOT for duty in duties.values())
        if node is None or (node.state == NodeState.DOWN and not is_reboot):
            broken.append(f"duties for node {node_id} which is not in service")
        for duty_id, duty in duties.items():
            if duty.duty_id != duty_id or duty.node_id != node_id:
                broken.append(f"duty {duty_id} is filed wrongly")
            if duty_id >= cluster.next_duty_id:
                broken.append(f"duty {duty_id} is not yet given out")
            if duty.job_id and duty.job_id not in cluster.jobs:
                broken.append(f"duty {duty_id} is for unknown job {duty.job_id}")
    return broken


def _check_programs(cluster: Cluster) -> list[str]:
    """The controller runs programs only for jobs that begin or end."""
    broken = []
    for job_id in cluster.prologs:
        job = cluster.jobs.get(job_id)
        if job is None or not job.flags & JobFlag.CONFIGURING:
            broken.append(f"job {job_id}: its prolog runs but it is not configuring")
    for job_id in cluster.epilogs:
        job = cluster.jobs.get(job_id)
        if job is None or not is_completing(job):
            broken.append(f"job {job_id}: its epilog runs but it is not completing")
    for job_id, buffer in cluster.buffers.items():
        job = cluster.jobs.get(job_id)
        if job is None:
            broken.append(f"job {job_id}: it is unknown but has a burst buffer")
        elif task_ranges.count(job.array_pending) > 1 and buffer.holds_room:
            broken.append(f"job {job_id}: several tasks have one burst buffer")
    return broken


def _check_indexes(cluster: Cluster) -> Iterator[str]:
    """Compare each index with a new one that is made from the stored records."""
    fresh = Cluster.from_bytes(cluster.to_bytes())
    if cluster.assoc_index.by_key != fresh.assoc_index.by_key:
        yield "index of associations is out of date"
    for name in JobIndex.__slots__:
        if getattr(cluster.job_index, name) != getattr(fresh.job_index, name):
            yield f"index {name} is out of date"
    for name in _COUNTS:
        if getattr(cluster.job_counts, name) != getattr(fresh.job_counts, name):
            yield f"count {name} is out of date"
    used = {name: count for name, count in cluster.job_counts.licenses_used.items() if count}
    if used != {name: count for name, count in fresh.job_counts.licenses_used.items() if count}:
        yield "count licenses_used is out of date"
    for name in ("by_name", "reserved"):
        if getattr(cluster.node_index, name) != getattr(fresh.node_index, name):
            yield f"index {name} is out of date"
    for name in _COLUMNS:
        if getattr(cluster.node_index.columns, name) != getattr(fresh.node_index.columns, name):
            yield f"column {name} is out of date"
