"""A start as plans carry it, put together from a job, its demand and what it gets."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.select import batch_node
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Start
from pyslurm_ng.sched.limits.asks import chosen_licenses
from pyslurm_ng.sched.request.sharing import tenant_of


def start_of(
    job: Waiting,
    demand: Demand,
    task_id: int,
    nodes: tuple[NodeAlloc, ...],
    features: Sequence[tuple[str, ...]],
    scheduler: str = "Main",
) -> Start:
    """Return the start of a job, or of one task of an array, on some nodes.

    Args:
        task_id: of an array; -1 for other jobs.
        features: of every node id.
        scheduler: which of Slurm's two would have found it: Main or Backfill.
    """
    return Start(
        job_id=job.job_id,
        task_id=task_id,
        partition=demand.partition.name,
        nodes=nodes,
        batch_node_id=batch_node(job.request, nodes, features),
        total_tasks=max(demand.need.tasks, sum(alloc.tasks for alloc in nodes)),
        scheduler=scheduler,
        time_limit_min=demand.limit_min,
        licenses=chosen_licenses(job, demand),
        het_job_id=job.het_job_id,
        tenant=tenant_of(job.request, demand.partition, job.uid),
    )
