"""Steps with as many tasks and CPUs as they name, on a node of their job."""

from __future__ import annotations

from dataclasses import replace

from pyslurm_ng.sched.cons_tres.layout import parse_distribution
from pyslurm_ng.sched.cons_tres.step_select import StepNeed

_ONE_TASK = StepNeed(
    ntasks=1,
    nodes_min=1,
    nodes_max=1,
    tasks_per_node=0,
    cpus_per_task=1,
    threads_per_core=0,
    is_exact=True,
    is_overlapping=False,
    overcommit=False,
    mem_per_node_mib=0,
    mem_per_cpu_mib=0,
    mem_all=False,
    distribution=parse_distribution("", 0),
    gres_per_node=(),
)


def exact_step(**fields: object) -> StepNeed:
    """Return what a step of one task with one CPU asks for, with some other fields."""
    return replace(_ONE_TASK, **fields)  # type: ignore[arg-type]
