"""How a job's own tasks lie on its nodes, for programs that start them without srun. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.task_counts import tasks_to_start, usable_cpus
from pyslurm_ng.sched.cons_tres.layout import parse_distribution, spread


def tasks_on_nodes(request: JobRequest, allocs: Sequence[NodeAlloc]) -> list[int]:
    """Return how many tasks of a job a launcher should start on each node: SLURM_TASKS_PER_NODE.

    Tasks that are counted for the whole job are laid out as a step with all of them would be.
    """
    counted = [tasks_to_start(request, alloc) for alloc in allocs]
    if not request.ntasks or request.ntasks_per_node or not allocs:
        return counted
    distribution = parse_distribution(request.distribution, request.plane_size)
    if distribution.node == "arbitrary":
        return counted
    each = max(1, request.cpus_per_task)
    capacity = [usable_cpus(request, alloc) // each for alloc in allocs]
    return list(map(len, spread(request.ntasks, capacity, distribution)))
