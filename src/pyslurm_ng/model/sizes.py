"""How large a request is with its defaults: one answer for submission, queries and scheduler."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from pyslurm_ng.base.numbers import INFINITE, REQ_MEM_SET, REQ_NODES_SET, REQ_OVERCOMMIT
from pyslurm_ng.base.tres import TresError, parse_gres

from .job import JobRequest
from .partition import Partition

_MOST_RANGES = 64  # in a list of node counts


class JobSizes(Struct, frozen=True):
    """Counts of a job in one partition.

    At most one of the three memory amounts is set; `mem_whole_node` is --mem=0. `cpus` is for the
    whole job and counts CPUs (threads).
    """

    nodes_min: int
    nodes_max: int
    tasks: int
    cpus_per_task: int
    cpus: int
    mem_per_node_mib: int = 0
    mem_per_cpu_mib: int = 0
    mem_per_gpu_mib: int = 0
    mem_whole_node: bool = False
    # CPUs that come with each GPU, if they are not the same for each task; otherwise
    # `cpus_per_task` includes them, and this is 0.
    cpus_per_gpu: int = 0


def mem_of_node_mib(request: JobRequest, sizes: JobSizes) -> int:
    """Return the most memory that one node is known to give, as far as that is a number.

    Memory of CPUs counts those of one task, of the tasks on each node (--ntasks-per-node), or of
    an equal share on the most nodes that are allowed.
    """
    if sizes.mem_per_node_mib or not sizes.mem_per_cpu_mib:
        return sizes.mem_per_node_mib
    if request.flags & REQ_OVERCOMMIT:
        return sizes.mem_per_cpu_mib
    tasks = max(
        min(request.ntasks_per_node, sizes.tasks), -(-sizes.tasks // max(1, sizes.nodes_max))
    )
    return sizes.mem_per_cpu_mib * sizes.cpus_per_task * max(1, tasks)


def total(text: str) -> int:
    """Return the sum of a `[type:]n` list, which the --gpus options take."""
    return sum(int(part.rpartition(":")[2]) for part in text.split(",") if part)


@lru_cache(maxsize=4096)
def _gpus_per_node(gres: str, per_node: str, per_socket: str, sockets: int) -> int:
    """Return the number of GPUs that each node must give."""
    count = total(per_node) + total(per_socket) * max(1, sockets)
    try:
        return count + sum(gres.amount for gres in parse_gres(gres) if gres.name == "gpu")
    except TresError:
        return count  # the submit rule has checked it


@lru_cache(maxsize=1024)
def node_sizes(text: str) -> tuple[range, ...]:
    """Return the node counts that `1,2,4` or `2-10:2` allow, each range as it stands there.

    Raises:
        ValueError: the text cannot be read, a count is no number, or there are too many ranges.
    """
    parts = text.split(",")
    if len(parts) > _MOST_RANGES:
        raise ValueError(text)
    sizes = []
    for part in parts:
        span, colon, step_text = part.partition(":")
        low_text, dash, high_text = span.partition("-")
        if colon and not dash:
            raise ValueError(text)
        low = int(low_text)
        high = int(high_text) if dash else low
        step = int(step_text) if colon else 1
        if not 0 < low <= high or step < 1:
            raise ValueError(text)
        sizes.append(range(low, high + 1, step))
    return tuple(sizes)


def sizes_within(sizes: tuple[range, ...], least: int, most: int) -> list[int]:
    """Return those of some node counts that lie between two others, ascending."""
    inside: set[int] = set()
    for part in sizes:
        first = max(part.start, least + (part.start - least) % part.step)
        inside.update(range(first, min(part.stop, most + 1), part.step))
    return sorted(inside)


def job_sizes(request: JobRequest, partition: Partition | None) -> JobSizes:
    """Return the sizes of `request` with the defaults of `partition`."""
    nodes_min, nodes_max, tasks, cpus_per_task, cpus, cpus_per_gpu = least_counts(
        request, partition
    )
    if partition is not None:
        nodes_max = min(nodes_max, partition.max_nodes)
    per_node, per_cpu, per_gpu, whole = memory_amounts(request, partition)
    return JobSizes(
        nodes_min, nodes_max, tasks, cpus_per_task, cpus, per_node, per_cpu, per_gpu, whole,
        cpus_per_gpu,
    )  # fmt: skip


def _gpus_on_node(request: JobRequest) -> int:
    if not (request.gres or request.gpus_per_node or request.gpus_per_socket):
        return 0
    return _gpus_per_node(
        request.gres,
        request.gpus_per_node,
        request.gpus_per_socket,
        request.sockets_per_node,
    )


def wants_gpus(request: JobRequest) -> bool:
    """Return whether a request names any GPUs."""
    return bool(request.gpus or request.gpus_per_task or _gpus_on_node(request))


def cpus_of_each_gpu(request: JobRequest, partition: Partition | None) -> int:
    """Return the CPUs that come with each GPU, 0 if nothing is set."""
    if request.cpus_per_gpu or request.cpus_per_task or partition is None:
        return request.cpus_per_gpu
    return partition.def_cpus_per_gpu if wants_gpus(request) else 0


def least_counts(
    request: JobRequest, partition: Partition | None
) -> tuple[int, int, int, int, int, int]:
    """Return nodes_min, nodes_max, tasks, cpus_per_task, cpus and cpus_per_gpu of a request."""
    # A job that accepts fewer nodes than the partition's least number waits: see `demand.verdict`.
    least_nodes = partition.min_nodes if partition is not None else 0
    if 0 < request.nodes_max < least_nodes:
        least_nodes = 0
    return _counts(
        request.nodes_min,
        request.nodes_max,
        request.ntasks,
        request.ntasks_per_node,
        request.ntasks_per_gpu,
        request.cpus_per_task,
        cpus_of_each_gpu(request, partition),
        request.mincpus,
        request.gpus,
        _gpus_on_node(request),
        request.gpus_per_task,
        least_nodes,
        bool(request.flags & REQ_OVERCOMMIT),
        _may_have_more(request),
    )


def _may_have_more(request: JobRequest) -> bool:
    """Return whether only --nodelist says how many nodes a job has: tasks may have more."""
    is_list_of_tasks = request.distribution.lower().startswith("arbitrary")
    return bool(request.node_list) and not (request.flags & REQ_NODES_SET or is_list_of_tasks)


@lru_cache(maxsize=4096)
def _counts(
    nodes_min: int,
    nodes_max: int,
    ntasks: int,
    per_node: int,
    per_gpu: int,
    cpus_per_task: int,
    cpus_per_gpu: int,
    mincpus: int,
    gpus: str,
    gpus_per_node: int,
    gpus_per_task: str,
    least_nodes: int,
    is_overcommitted: bool,
    is_named: bool,
) -> tuple[int, int, int, int, int, int]:
    """Return nodes_min, nodes_max, tasks, cpus_per_task, cpus, cpus_per_gpu; jobs repeat."""
    whole = total(gpus)
    if whole and gpus_per_node and not whole % gpus_per_node:
        nodes_min = nodes_max = whole // gpus_per_node
    is_given = nodes_min > 0
    if not is_given:
        nodes_min = -(-ntasks // per_node) if ntasks and per_node else 1
    nodes_min = max(nodes_min, least_nodes)
    gpu_count = whole or gpus_per_node * nodes_min
    if ntasks:
        tasks = max(ntasks, least_nodes)
    elif per_node:
        tasks = per_node * nodes_min
    elif per_gpu and gpu_count:
        tasks = per_gpu * gpu_count
    elif gpus_per_task and gpu_count:
        tasks = max(1, gpu_count // total(gpus_per_task))
    else:
        tasks = nodes_min
    if not nodes_max:
        is_open = is_named or not is_given
        nodes_max = max(nodes_min, tasks) if is_open else nodes_min
        if is_open and gpu_count and not ntasks:  # a number of tasks needs no further nodes
            nodes_max = max(nodes_max, gpu_count)
    cpus_each, with_gpus, cpus_of_gpus = max(1, cpus_per_task), 0, 0
    if cpus_per_gpu and not cpus_per_task:
        gpu_count = gpu_count or total(gpus_per_task) * tasks
        cpus_of_gpus = cpus_per_gpu * gpu_count
        # GPUs of the whole job may be on any of its nodes, unless there are GPUs for each task or
        # node.
        is_counted = bool(ntasks or per_node or per_gpu) or nodes_min == nodes_max
        if gpus_per_task:
            cpus_each = max(1, cpus_per_gpu * total(gpus_per_task))
        elif (is_counted or not gpus) and cpus_of_gpus and not cpus_of_gpus % tasks:
            cpus_each = cpus_of_gpus // tasks
        elif cpus_of_gpus:
            with_gpus = cpus_per_gpu
    cpus_of_tasks = nodes_min if is_overcommitted else tasks * cpus_each
    cpus = max(cpus_of_tasks, nodes_min * max(1, mincpus), cpus_of_gpus)
    return nodes_min, min(nodes_max, INFINITE), tasks, cpus_each, cpus, with_gpus


def memory_amounts(request: JobRequest, partition: Partition | None) -> tuple[int, int, int, bool]:
    """Return memory (per node, per CPU, per GPU, whole node) as asked or by default."""
    if request.mem_per_gpu_mib:
        return 0, 0, request.mem_per_gpu_mib, False
    if request.mem_per_cpu_mib:
        return 0, request.mem_per_cpu_mib, 0, False
    if request.mem_per_node_mib:
        return request.mem_per_node_mib, 0, 0, False
    if request.flags & REQ_MEM_SET:
        return 0, 0, 0, True
    if partition is None:
        return 0, 0, 0, False
    if partition.def_mem_per_gpu_mib and wants_gpus(request):
        return 0, 0, partition.def_mem_per_gpu_mib, False
    if partition.def_mem_per_cpu_mib:
        return 0, partition.def_mem_per_cpu_mib, 0, False
    if partition.def_mem_per_node_mib:
        return partition.def_mem_per_node_mib, 0, 0, False
    # Memory is consumed but no amount is given: as in Slurm, all of the node.
    return 0, 0, 0, True
