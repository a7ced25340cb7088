"""CPUs and tasks of a job's node, as its script is told them; figures of Slurm 22.05."""

from __future__ import annotations

import pytest

from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.task_counts import tasks_to_start, usable_cpus

WHOLE = NodeAlloc(0, 16, b"\xff", 0, 1)  # eight cores of two threads


@pytest.mark.parametrize(
    ("fields", "cpus", "tasks"),
    [
        ({}, 16, 16),
        ({"cpus_per_task": 4}, 16, 4),
        ({"cpus_per_task": 3}, 16, 5),
        ({"threads_per_core": 1}, 8, 8),
        ({"threads_per_core": 2}, 16, 16),
        ({"cpus_per_task": 20}, 16, 1),
        ({"ntasks": 1}, 16, 1),
        ({"ntasks_per_node": 1}, 16, 1),
        ({"gpus": "1", "ntasks_per_gpu": 1}, 16, 1),
        ({"gpus": "1", "gpus_per_task": "1"}, 16, 1),
    ],
)
def test_cpus_have_a_task_each_unless_tasks_are_counted(
    fields: dict[str, int | str], cpus: int, tasks: int
) -> None:
    """SLURM_JOB_CPUS_PER_NODE and SLURM_TASKS_PER_NODE of `sbatch --exclusive`."""
    request = JobRequest(**fields)  # type: ignore[arg-type]
    assert (usable_cpus(request, WHOLE), tasks_to_start(request, WHOLE)) == (cpus, tasks)
