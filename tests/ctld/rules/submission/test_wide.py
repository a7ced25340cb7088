"""Requests for more CPUs than their partition has: they wait, as nodes may be added."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.hostlist import expand
from pyslurm_ng.base.numbers import REQ_HOLD, REQ_NODES_SET, REQ_OVERCOMMIT
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
def test_only_cpus_are_compared_with_the_partition(more: dict[str, object]) -> None:
    """Slurm compares CPUs first; nodes of another kind may be added."""
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
    outcome = scene.submit(ntasks=65, cpus_per_task=17, flags=REQ_OVERCOMMIT)
    assert outcome == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE


@pytest.mark.parametrize(
    "more",
    [
        {"ntasks": 4, "ntasks_per_node": 17, "flags": REQ_OVERCOMMIT},
        {"ntasks_per_node": 9, "cpus_per_task": 2, "flags": REQ_OVERCOMMIT},
        {"constraint": "[ib*9]"},
        {"cpus_per_gpu": 99, "gpus": "1"},
        {"cpus_per_gpu": 9, "gpus_per_node": "2"},
    ],
)
def test_these_do_not_wait_for_more_nodes(more: dict[str, object]) -> None:
    """Slurm refuses them without saying what there is too little of."""
    scene = Site()
    assert scene.submit(**more) == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE


def test_more_nodes_than_there_are_for_so_many_tasks_of_each_are_refused() -> None:
    """As in Slurm 22.05; a count of nodes that is told waits for more nodes."""
    scene = Site()
    wide = scene.submit(ntasks=10, ntasks_per_node=2)
    assert wide == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    assert isinstance(scene.waiting(ntasks=10, ntasks_per_node=2, nodes_min=5, nodes_max=5), Job)


@pytest.mark.parametrize(
    "more", [{"mem_per_node_mib": 10**9}, {"tmp_mib": 10**9}, {"mincpus": 99}, {"ntasks": 20}]
)
def test_held_jobs_may_ask_for_what_no_node_has(more: dict[str, object]) -> None:
    """Nodes may come before they are released. Names of no node are refused at once."""
    scene = Site()
    fields = {"nodes_min": 1, "nodes_max": 1, **more}
    assert scene.submit(**fields) == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    job = scene.submit(flags=REQ_HOLD, **fields)
    assert not isinstance(job, Errno)
    refused = scene.submit(flags=REQ_HOLD, node_list="n1", exclude="n1")
    assert refused == Errno.ESLURM_INVALID_NODE_NAME


@pytest.mark.parametrize(
    ("more", "nodes"),
    [
        ({"node_list": "n3", "nodes_min": 1, "ntasks": 17}, 2),
        ({"node_list": "n[1-2]", "nodes_min": 2, "ntasks": 33}, 3),
        ({"node_list": "n3", "nodes_min": 1, "ntasks": 12, "ntasks_per_node": 4}, 3),
        ({"node_list": "n3", "nodes_min": 1, "ntasks": 16}, 1),
        ({"node_list": "n[1-3]", "nodes_min": 3}, 3),
    ],
)
def test_a_list_of_nodes_is_no_limit(more: dict[str, object], nodes: int) -> None:
    """-w names nodes that a job has in any case; where its tasks need more, it has others, too."""
    scene = Site()
    job = scene.running(**more)
    names = set(scene.cluster.node_names([alloc.node_id for alloc in job.nodes]))
    assert len(names) == nodes and set(expand(str(more["node_list"]))) <= names


def test_a_count_beside_a_list_of_nodes_is_a_limit() -> None:
    """-N says how many there are."""
    more = {"node_list": "n3", "nodes_min": 1, "nodes_max": 1, "ntasks": 17}
    outcome = Site().submit(**more, flags=REQ_NODES_SET)
    assert outcome == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
