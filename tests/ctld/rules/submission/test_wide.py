"""Requests for more CPUs than their partition has: they wait, as nodes may be added."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import REQ_OVERCOMMIT
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from tests.world.site import Site


@pytest.mark.parametrize(
    "more",
    [
        {"ntasks": 4, "cpus_per_task": 17},
        {"ntasks": 65, "mem_per_node_mib": 10**9},
        {"ntasks": 65, "nodes_min": 1, "nodes_max": 1},
        {"ntasks": 65, "ntasks_per_node": 65},
    ],
)
def test_whatever_else_is_too_much_is_not_looked_at(more: dict[str, object]) -> None:
    """Slurm compares CPUs first; nodes of another kind may come."""
    scene = Site()
    job = scene.waiting(**more)
    assert isinstance(job, Job)
    assert scene.shown(job)[0] == "PartitionConfig"
    assert job.state == JobState.PENDING


def test_what_no_node_has_is_refused_where_cpus_would_do() -> None:
    """Two tasks that each want more than a node, of four nodes."""
    scene = Site()
    assert scene.submit(ntasks=2, cpus_per_task=17) == (
        Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    )


def test_tasks_that_share_cpus_are_not_added_up() -> None:
    """With --overcommit the node is what counts."""
    scene = Site()
    found = scene.submit(ntasks=65, cpus_per_task=17, flags=REQ_OVERCOMMIT)
    assert found == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
