"""How many tasks and CPUs a job's nodes offer to programs that start tasks there."""

from __future__ import annotations

from .job import JobRequest, NodeAlloc


def usable_cpus(request: JobRequest, alloc: NodeAlloc) -> int:
    """Return the CPUs of a node that tasks may use.

    Cores are given and charged whole; tasks use at most `--threads-per-core` threads of each.
    """
    cores = int.from_bytes(alloc.cores, "little").bit_count()
    if not request.threads_per_core or not cores:
        return alloc.charged_cpus
    return min(alloc.charged_cpus, cores * request.threads_per_core)


def tasks_to_start(request: JobRequest, alloc: NodeAlloc) -> int:
    """Return how many tasks a launcher other than srun should start on a node.

    If no number of tasks is set, every CPU has one (or every `--cpus-per-task` CPUs).
    """
    if (
        request.ntasks
        or request.ntasks_per_node
        or request.ntasks_per_gpu
        or request.gpus_per_task
        or not alloc.cpus
    ):
        return max(1, alloc.tasks)
    return max(1, usable_cpus(request, alloc) // max(1, request.cpus_per_task))
