"""The fields of job records, in order; squeue, scontrol and --json read them by name.

Three groups: BRIEF serves the daily formats, DETAIL everything else, SOFT what scheduling passes
change. A brief record is BRIEF + SOFT, a detailed one BRIEF + DETAIL + SOFT. Each field stands
once, its name beside what it is got from; a record has the fields in the order of these tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import astuple, replace

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import (
    NO_VAL,
    REQ_CPUS_SET,
    REQ_DEFAULT_ACCOUNT,
    REQ_MEM_SET,
    SECOND_US,
)
from pyslurm_ng.base.request_words import exclusive_word
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.ctld.rules.submission.feasible import most_cpus_of_a_node
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import amounts, task_ranges
from pyslurm_ng.model.buffer import BUFFER_STATES, BufferState
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import Dependency, GresAlloc, Job, JobRequest, NodeAlloc, is_completing
from pyslurm_ng.model.kept_request import shared_part, whole_request
from pyslurm_ng.model.node import Node, is_part, schedulable_mem_mib, spec_with_facts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.rows import oversubscribe_shown
from pyslurm_ng.model.sizes import JobSizes, cpus_of_each_gpu, job_sizes, least_counts
from pyslurm_ng.model.states import JobFlag, JobState, Reason, reason_text
from pyslurm_ng.sched.preemption import modes as preempt_modes

Values: TypeAlias = dict[str, object]
"""Fields of one job by name, in the order of its record."""

OF_REQUEST = (
    "nodes_min",
    "nodes_max",
    "ntasks_per_node",
    "ntasks_per_socket",
    "ntasks_per_core",
    "ntasks_per_gpu",
    "cpus_per_task",
    "mincpus",
    "sockets_per_node",
    "cores_per_socket",
    "threads_per_core",
    "core_spec",
    "thread_spec",
    "tmp_mib",
    "gres",
    "gpus",
    "gpus_per_node",
    "gpus_per_socket",
    "gpus_per_task",
    "cpus_per_gpu",
    "tres_per_task",
    "tres_bind",
    "tres_freq",
    "node_list",
    "exclude",
    "constraint",
    "prefer",
    "batch_features",
    "cluster_features",
    "switches",
    "switches_wait_s",
    "segment",
    "distribution",
    "time_min_min",
    "deadline_us",
    "delay_boot_min",
    "signal",
    "mail_type",
    "mail_user",
    "work_dir",
    "std_in",
    "std_out",
    "std_err",
    "command",
    "submit_line",
    "alloc_sid",
    "argv",
    "reservation",
    "wckey",
    "extra",
    "mcs_label",
    "licenses",
    "network",
    "container",
    "burst_buffer",
    "profile",
    "acctg_freq",
    "cron",
)
"""Fields of DETAIL that are the request's own, by the same names."""
_of_request = itemgetter(*[JobRequest.__struct_fields__.index(name) for name in OF_REQUEST])
# A queue holds few different requests and many jobs.
_tres_texts: dict[tuple[object, ...], str] = {}
_TRES_TEXTS_KEPT = 10_000
_LONG = 1024
"""Characters of a request whose text is not kept."""


def job_counts(cluster: Cluster, job: Job, partition: Partition | None) -> tuple[int, int, int]:
    """Return nodes, CPUs and tasks of a job: what it holds, or what it needs at least."""
    request = shared_part(job.request)
    nodes_min, _, tasks, cpus_each, cpus, _ = least_counts(request, partition)
    if job.nodes:
        cpu_count = sum(alloc.charged_cpus for alloc in job.nodes)
        return len(job.nodes), cpu_count, job.total_tasks or tasks
    # Each node takes as many tasks as it has CPUs for, and one that no node has CPUs for.
    if request.ntasks and cpus > nodes_min and partition is not None:
        most = most_cpus_of_a_node(cluster, partition)
        nodes_min = max(nodes_min, -(-tasks // max(1, most // cpus_each)) if most else 0)
    return nodes_min, cpus, tasks


def first_partition(cluster: Cluster, job: Job) -> Partition | None:
    """Return the partition a job runs in, or the first it may wait for."""
    return cluster.partitions.get(job.partition.partition(",")[0])


def nodes_text(cluster: Cluster, allocs: Sequence[NodeAlloc]) -> str:
    """Return the folded names of nodes held; a removed one is left out."""
    if not allocs:
        return ""
    nodes = (cluster.nodes[alloc.node_id] for alloc in allocs)
    return hostlist.fold([node.spec.name for node in nodes if node is not None])


def brief_values(cluster: Cluster, job: Job, tasks: task_ranges.TaskRanges) -> Values:
    """Return a job's BRIEF fields, by name; with `tasks` of only some of an array's tasks."""
    node_count, cpus, task_count = job_counts(cluster, job, first_partition(cluster, job))
    waiting = tasks or job.array_pending
    task_id, text = job.array_task_id, ""
    if len(waiting) == 1 and waiting[0][0] == waiting[0][1] and tasks:
        task_id = waiting[0][0]
    elif waiting:
        text = task_ranges.text(waiting)
    return {
        "job_id": job.job_id,
        "array_job_id": job.array_job_id,
        "array_task_id": task_id,
        "array_tasks": text,
        "array_limit": job.array_limit,
        "het_job_id": job.het_job_id,
        "het_offset": job.het_offset,
        "user_id": job.uid,
        "user_name": job.user_name,
        "name": job.request.name,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "state": job.state,
        "flags": job.flags,
        "submit_us": job.submit_us,
        "start_us": job.start_us,
        "end_us": job.end_us or job.preempt_end_us,
        "suspend_us": job.suspend_us,
        "suspended_us": job.suspended_us,
        "time_limit_min": job.time_limit_min,
        "node_count": node_count,
        "cpus": cpus,
        "tasks": task_count,
        "nodes": nodes_text(cluster, job.nodes),
    }


class SoftValues(Struct, frozen=True, gc=False):
    """The SOFT fields of a job: what each scheduling pass may change of all that wait.

    Not a dict as the other groups are: it is made ten thousand times after a pass, and is a key.
    """

    priority: int
    reason: str
    reason_text: str
    expected_start_us: int
    sched_nodes: str


def soft_values(cluster: Cluster, soft: Soft, job: Job) -> SoftValues:
    """Return a job's SOFT fields."""
    reason, text, start_us, planned = _why_it_waits(cluster, soft, job)
    names = ""
    if planned:
        nodes = (cluster.nodes[node_id] for node_id in planned)
        names = hostlist.fold([node.spec.name for node in nodes if node is not None])
    return SoftValues(soft.priority_of(job), reason_text(reason), text, start_us, names)


def _why_it_waits(cluster: Cluster, soft: Soft, job: Job) -> tuple[int, str, int, Sequence[int]]:
    """Return a job's reason with its text, when it is expected to start, and on which nodes."""
    if is_completing(job) and job.flags & JobFlag.REQUEUED:
        return Reason.Cleaning, "", 0, ()
    reason, text = job.reason, job.reason_text
    if job.state != JobState.PENDING:
        return reason, text, 0, ()
    job_id = job.job_id
    if not reason:
        wait = soft.reason.get(job_id)
        if job_id in cluster.buffers and cluster.waits_for_buffer(job_id):
            is_staging = cluster.buffers[job_id].state == BufferState.STAGING_IN
            reason = Reason.BurstBufferStageIn if is_staging else Reason.BurstBufferResources
        elif wait is not None:
            reason, text = int(wait.reason), wait.shown
    start_us = soft.expected_start_us.get(job_id, 0)
    if not start_us and (reason == Reason.BeginTime or job.begin_us > cluster.time_us):
        start_us = job.begin_us
    return reason, text, start_us, soft.sched_nodes.nodes_of(job_id)


def preempt_exempt_s(cluster: Cluster, job: Job, usual_s: int) -> int:
    """Return how long a job runs before it may be preempted; `usual_s` is the cluster's time."""
    partition = cluster.partitions.get(job.partition)
    return preempt_modes.exempt_s(usual_s, cluster.qos, partition, job.qos)


def detail_values(cluster: Cluster, job: Job, tracked: Sequence[str], exempt_s: int = 0) -> Values:
    """Return a job's DETAIL fields, by name.

    Args:
        tracked: the TRES names the cluster counts.
        exempt_s: PreemptExemptTime of the cluster.
    """
    request = whole_request(job.request)
    if job.reservation:
        request = replace(request, reservation=job.reservation)
    partition = first_partition(cluster, job)
    sizes = job_sizes(request, partition)
    of_gpu = cpus_of_each_gpu(request, partition)
    if of_gpu != request.cpus_per_gpu:
        request = replace(request, cpus_per_gpu=of_gpu)
    exempt_us = SECOND_US * preempt_exempt_s(cluster, job, exempt_s)
    terms = partition.billing_terms if partition else ""
    nodes = job.nodes or job.nodes_before
    licenses = job.licenses_alloc if job.nodes else request.licenses
    allocated = amounts.allocated_tres(nodes, tracked, terms, licenses) if nodes else {}
    batch_node = cluster.nodes[job.batch_node_id] if job.batch_node_id >= 0 else None
    return {
        "group_id": job.gid,
        "group_name": job.group_name,
        "assoc_id": job.assoc_id,
        "eligible_us": job.eligible_us,
        "accrue_us": job.accrue_us,
        "begin_us": job.begin_us,
        "last_eval_us": job.last_eval_us,
        "preempt_us": job.preempt_us,
        "preemptable_us": job.start_us and job.start_us + exempt_us,
        "resize_us": job.resize_us,
        "scheduler": job.scheduler,
        "attempt": job.attempt,
        "requeue": job.requeue,
        "is_batch": bool(job.script_hash),
        "exit_code": job.exit_code,
        "derived_exit_code": job.derived_exit_code,
        "nice": job.nice,
        "site_factor": job.site_factor,
        "dependency": dependency_text(cluster, job.dependencies, job.dependency_any),
        "array_count": job.array_count,
        "batch_host": batch_node.spec.name if batch_node is not None and job.script_hash else "",
        "failed_node": job.failed_node,
        **_notes(job),
        "burst_buffer_state": buffer_state(cluster, job),
        "licenses_alloc": job.licenses_alloc,
        "tres_alloc": format_tres(allocated),
        "tres_req": requested_text(
            request,
            _with_whole_memory(cluster, request, partition, sizes, allocated),
            partition,
            tracked,
        ),
        "alloc_node": request.alloc_node,
        "resources": resources_of(cluster, job),
        "gres_alloc": _gres_total(job),
        "het_job_ids": _het_ids(cluster, job),
        "kill_us": job.kill_us,
        "elapsed_before_us": _elapsed_before_us(job),
        "job_cpus_per_node": [alloc.charged_cpus for alloc in job.nodes],
        "request_flags": request.flags | _shown_flags(job),
        **_wanted(request),
        "oversubscribe": oversubscribe_shown(request, partition),
        "exclusive": exclusive_word(request.flags, partition.exclusive if partition else "NO"),
        "mem_per_node_mib": sizes.mem_per_node_mib,
        "mem_per_cpu_mib": sizes.mem_per_cpu_mib,
        "mem_per_gpu_mib": sizes.mem_per_gpu_mib,
        "cpus_each": sizes.cpus_per_task,
    }


def _with_whole_memory(
    cluster: Cluster,
    request: JobRequest,
    partition: Partition | None,
    sizes: JobSizes,
    allocated: Mapping[str, int],
) -> JobSizes:
    """Give all memory of nodes its amount: what the job has, or as its partition's first node."""
    if not sizes.mem_whole_node:
        return sizes
    mib = allocated.get("mem", 0) // max(1, sizes.nodes_min)
    if not allocated and request.flags & REQ_MEM_SET and partition is not None:
        nodes = (cluster.nodes[node_id] for node_id in partition.node_ids)
        mib = next((schedulable_mem_mib(node.spec) for node in nodes if node is not None), 0)
    return replace(sizes, mem_per_node_mib=mib)


def _wanted(request: JobRequest) -> Values:
    """Return the fields of `OF_REQUEST`; --gpu-bind is shown in its long form."""
    values: Values = dict(zip(OF_REQUEST, _of_request(astuple(request)), strict=True))
    if request.gpu_bind and not request.tres_bind:
        values["tres_bind"] = f"gres/gpu:{request.gpu_bind}"
    return values


def requested_text(
    request: JobRequest, sizes: JobSizes, partition: Partition | None, tracked: Sequence[str]
) -> str:
    """Return ReqTRES: remembered, since most jobs ask for what others ask for."""
    key = (
        sizes,
        request.gres,
        request.gpus,
        request.gpus_per_node,
        request.gpus_per_task,
        request.gpus_per_socket,
        request.sockets_per_node,
        request.tres_per_task,
        request.licenses,
        partition.billing_terms if partition is not None else "",
        tracked,
    )
    text = _tres_texts.get(key)
    if text is None:
        text = format_tres(amounts.requested_tres(request, partition, tracked, sizes))
        lists = request.gres, request.gpus, request.tres_per_task, request.licenses
        if sum(map(len, lists)) > _LONG:
            return text
        if len(_tres_texts) >= _TRES_TEXTS_KEPT:
            _tres_texts.clear()
        _tres_texts[key] = text
    return text


def _elapsed_before_us(job: Job) -> int:
    """Return how long a job had run when it was last suspended, also after it was resumed."""
    if not job.suspend_us:
        return 0
    return max(0, job.suspend_us - job.start_us - job.suspended_us)


def _notes(job: Job) -> Values:
    """Return the comments of a job."""
    return {
        "comment": job.comment,
        "admin_comment": job.admin_comment,
        "system_comment": job.system_comment,
    }


def buffer_state(cluster: Cluster, job: Job) -> str:
    """Return how far a job's burst buffer is, "" if it has none."""
    buffer = cluster.buffers.get(job.job_id)
    return BUFFER_STATES[buffer.state] if buffer is not None else ""


def dependency_text(cluster: Cluster, terms: Sequence[Dependency], is_any: bool) -> str:
    """Return dependencies as Slurm shows them: `afterok:21(unfulfilled)`, `after:30_*(failed)`."""
    words = []
    for term in terms:
        if term.state == 1:
            continue
        mark = "(failed)" if term.state == 2 else "(unfulfilled)"
        if not term.job_id:
            words.append(term.kind + mark)
            continue
        task = ""
        if term.task_id != NO_VAL:
            task = f"_{term.task_id}"
        elif _is_array(cluster, term.job_id):
            task = "_*"
        delay = f"+{term.delay_min}" if term.delay_min else ""
        words.append(f"{term.kind}:{term.job_id}{task}{delay}{mark}")
    return ("?" if is_any else ",").join(words)


def _is_array(cluster: Cluster, job_id: int) -> bool:
    head = cluster.jobs.get(job_id)
    return job_id in cluster.job_index.arrays or (head is not None and head.array_job_id == job_id)


def ids_of_mask(mask: bytes) -> str:
    """Return the numbers of the bits set, as ranges: `0-3,8`."""
    bits = int.from_bytes(mask, "little")
    numbers = [index for index in range(bits.bit_length()) if bits >> index & 1]
    parts: list[str] = []
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            first, last = numbers[start], numbers[index - 1]
            parts.append(f"{first}-{last}" if last > first else f"{first}")
            start = index
    return ",".join(parts)


def _gres_text(alloc: NodeAlloc, node: Node) -> str:
    """Return the GRES held on one node: `gpu:a100:2(IDX:0-1)`, `shard:3(3/4,0/4)`.

    Of parts of GPUs, how many of those of each GPU are the job's.
    """
    words = []
    for gres in alloc.gres:
        kind = f":{gres.type}" if gres.type else ""
        where = f"(IDX:{ids_of_mask(gres.indexes)})" if gres.indexes else ""
        if is_part(gres.name):
            where = _parts_text(gres, node) or where
        words.append(f"{gres.name}{kind}:{gres.count}{where}")
    return ",".join(words)


def _parts_text(alloc: GresAlloc, node: Node) -> str:
    own = held_parts(alloc)
    resources = [
        gres
        for gres in spec_with_facts(node).gres
        if (gres.name, gres.type) == (alloc.name, alloc.type)
    ]
    shares = [
        f"{own.get(number, 0)}/{whole}"
        for gres in resources
        for number, whole in enumerate(gres.parts)
        if whole
    ]
    return f"({','.join(shares)})" if shares else ""


def _gres_total(job: Job) -> str:
    total: dict[str, int] = {}
    for alloc in job.nodes:
        for gres in alloc.gres:
            name = f"{gres.name}:{gres.type}" if gres.type else gres.name
            total[name] = total.get(name, 0) + gres.count
    return ",".join(f"{name}:{count}" for name, count in total.items())


def resources_of(cluster: Cluster, job: Job) -> list[tuple[int | str, ...]]:
    """Return what the job holds by node.

    Name, CPUs, CPU ids, MiB, GRES; the node's sockets and cores per socket, and the core ids;
    then what its steps hold of it: CPUs, core ids, MiB. Of a job that has ended the cores are still
    shown, its devices are not.
    """
    is_over = job.state > JobState.SUSPENDED
    rows: list[tuple[int | str, ...]] = []
    used = _used(job) if job.steps else {}
    for alloc in job.nodes:
        node = cluster.nodes[alloc.node_id]
        if node is None:
            continue
        threads = max(1, node.spec.threads_per_core)
        cores = ids_of_mask(cpu_mask(alloc.cores, threads))
        step_cores, step_mib = used.get(alloc.node_id, (0, 0))
        step_mask = step_cores.to_bytes((step_cores.bit_length() + 7) // 8, "little")
        rows.append(
            (
                node.spec.name,
                alloc.charged_cpus,
                cores,
                alloc.mem_mib,
                "" if is_over else _gres_text(alloc, node),
                node.spec.sockets,
                node.spec.cores_per_socket,
                ids_of_mask(alloc.cores),
                min(alloc.charged_cpus, step_cores.bit_count() * threads),
                ids_of_mask(step_mask),
                step_mib,
            )
        )
    return rows


def cpu_mask(cores: bytes, threads: int) -> bytes:
    """Return the mask of CPUs on the cores of a mask: each core's threads have adjacent ids."""
    if threads == 1:
        return cores
    bits, wide = int.from_bytes(cores, "little"), 0
    for index in range(bits.bit_length()):
        if bits >> index & 1:
            wide |= (1 << threads) - 1 << index * threads
    return wide.to_bytes((wide.bit_length() + 7) // 8, "little")


def _shown_flags(job: Job) -> int:
    """Return what `--json` tells about a request beside its own flags, as bits above those.

    Which names were left to their defaults, and whether CPUs were counted exactly.
    """
    request = job.request
    values = (request.account, request.partition, request.qos, request.wckey)
    flags = sum(REQ_DEFAULT_ACCOUNT << bit for bit, name in enumerate(values) if not name)
    if request.cpus_per_task:
        flags |= REQ_CPUS_SET
    return flags


def _used(job: Job) -> dict[int, tuple[int, int]]:
    """Return the cores (mask) and MiB that running steps hold, by node id."""
    used: dict[int, tuple[int, int]] = {}
    for step in job.steps.values():
        if step.step_id >= STEP_INTERACTIVE or step.state != JobState.RUNNING:
            continue
        for alloc in step.nodes:
            cores, mem_mib = used.get(alloc.node_id, (0, 0))
            cores |= int.from_bytes(alloc.cores, "little")
            used[alloc.node_id] = (cores, mem_mib + alloc.mem_mib)
    return used


def _het_ids(cluster: Cluster, job: Job) -> str:
    if not job.het_job_id:
        return ""
    jobs = (cluster.jobs[job_id] for job_id in cluster.job_index.by_user.get(job.uid, {}))
    ids = sorted(other.job_id for other in jobs if other.het_job_id == job.het_job_id)
    return task_ranges.text(task_ranges.from_tasks(ids))


# The names stand beside the values above; these are they, in the order of a record.
_NOBODY = Job(0, JobRequest(), 0, 0, "", "", 0, "", "", 0, "", 0)
BRIEF = tuple(brief_values(Cluster(), _NOBODY, ()))
DETAIL = tuple(detail_values(Cluster(), _NOBODY, ()))
SOFT = SoftValues.__struct_fields__
