"""What one job needs of each node and in all, read once out of its request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyslurm_ng.base.hostlist import expand
from pyslurm_ng.base.tres import parse_gres
from pyslurm_ng.model.job import (
    REQ_EXCLUSIVE,
    REQ_OVERCOMMIT,
    JobRequest,
)
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes

GresNeed = tuple[str, str, int]  # name, type or empty, count


@dataclass(frozen=True, slots=True)
class Need:
    """Requirements with all defaults filled in; zero counts do not constrain.

    Either `mem_per_node_mib` or `mem_per_cpu_mib` or `mem_per_gpu_mib` is set, or
    `mem_whole_node`, or memory is not consumed.
    """

    nodes_min: int
    nodes_max: int
    tasks: int
    cpus_per_task: int
    tasks_per_node: int
    fixed_tasks_per_node: bool  # each node gets exactly `tasks_per_node`
    tasks_per_core: int
    threads_per_core: int
    cpus_min_per_node: int
    mem_per_node_mib: int
    mem_per_cpu_mib: int
    mem_per_gpu_mib: int
    mem_whole_node: bool
    tmp_mib: int
    gres_per_node: tuple[GresNeed, ...]
    gres_per_task: tuple[GresNeed, ...]
    gres_total: tuple[GresNeed, ...]
    is_exclusive: bool
    overcommit: bool
    required_nodes: frozenset[int]
    excluded_nodes: frozenset[int]
    segment: int = 0  # nodes that have to be in one block
    is_block: bool = False  # cores socket after socket: the second word of --distribution
    switches: int = 0  # leaf switches it wants at most; 0: any, or it has waited enough


def need_of(
    request: JobRequest,
    partition: Partition,
    node_by_name: Mapping[str, int],
    with_memory: bool = True,
) -> Need:
    """Return what `request` needs in `partition`.

    Node names that do not exist are passed over: the submit rule has refused them, and a node may
    have been removed since.
    """
    sizes = job_sizes(request, partition)
    flags = request.flags
    required = _node_ids(request.node_list, node_by_name)
    mem = sizes.mem_per_node_mib, sizes.mem_per_cpu_mib, sizes.mem_per_gpu_mib
    if not with_memory:
        mem = 0, 0, 0
    return Need(
        nodes_min=max(sizes.nodes_min, len(required), 1),
        nodes_max=max(sizes.nodes_max, len(required), 1),
        tasks=sizes.tasks,
        cpus_per_task=sizes.cpus_per_task,
        tasks_per_node=request.ntasks_per_node,
        fixed_tasks_per_node=bool(request.ntasks_per_node and not request.ntasks),
        tasks_per_core=request.ntasks_per_core,
        threads_per_core=request.threads_per_core,
        cpus_min_per_node=request.mincpus,
        mem_per_node_mib=mem[0],
        mem_per_cpu_mib=mem[1],
        mem_per_gpu_mib=mem[2],
        mem_whole_node=with_memory and sizes.mem_whole_node,
        tmp_mib=request.tmp_mib,
        gres_per_node=_gres(request.gres) + _gpus(request.gpus_per_node),
        gres_per_task=_gpus(request.gpus_per_task),
        gres_total=_gpus(request.gpus),
        is_exclusive=bool(flags & REQ_EXCLUSIVE) or partition.exclusive == "NODE",
        overcommit=bool(flags & REQ_OVERCOMMIT),
        required_nodes=frozenset(required),
        excluded_nodes=frozenset(_node_ids(request.exclude, node_by_name)),
        segment=request.segment,
        is_block=request.distribution.lower().split(",")[0].split(":")[1:2] == ["block"],
    )


def _node_ids(text: str, node_by_name: Mapping[str, int]) -> list[int]:
    if not text:
        return []
    return [node_by_name[name] for name in expand(text) if name in node_by_name]


def _gres(text: str) -> tuple[GresNeed, ...]:
    if not text or text.lower() == "none":
        return ()
    return tuple((item.name, item.type_name, item.amount) for item in parse_gres(text))


def _gpus(text: str) -> tuple[GresNeed, ...]:
    """Read the `[type:]n` lists of the --gpus options."""
    needs = []
    for part in text.split(","):
        if part:
            kind, _, count = part.rpartition(":")
            needs.append(("gpu", kind, int(count)))
    return tuple(needs)
