"""--contiguous with names of nodes: those between them belong to the job."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import REQ_CONTIGUOUS
from pyslurm_ng.sched.request.need import need_of
from tests.world.site import Site


@pytest.mark.parametrize(
    ("names", "least", "most"), [("n1,n3", 2, 2), ("n1,n4", 2, 3), ("n1,n4", 3, 3)]
)
def test_too_few_nodes_to_reach_from_first_to_last(names: str, least: int, most: int) -> None:
    """As Slurm 22.05 says it."""
    request = {"node_list": names, "nodes_min": least, "nodes_max": most}
    assert Site().refused(flags=REQ_CONTIGUOUS, **request) == Errno.ESLURM_INVALID_NODE_COUNT
    assert Site().job(**request).job_id


@pytest.mark.parametrize(
    ("names", "least", "most", "nodes"),
    [("n1,n3", 0, 0, 3), ("n1,n3", 2, 3, 3), ("n1,n3", 3, 3, 3), ("n[2-3]", 0, 0, 2)],
)
def test_nodes_between_are_wanted(names: str, least: int, most: int, nodes: int) -> None:
    """Without -N, too."""
    scene = Site()
    job = scene.job(flags=REQ_CONTIGUOUS, node_list=names, nodes_min=least, nodes_max=most)
    partition = scene.cluster.partitions[job.partition]
    need = need_of(job.request, partition, scene.cluster.node_index.by_name)
    assert need.nodes_min == nodes
