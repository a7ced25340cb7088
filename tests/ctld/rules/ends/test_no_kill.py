"""--no-kill: a job goes on without a node that it loses; with --no-kill=off its run ends."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import REQ_NO_KILL, REQ_NO_REQUEUE
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.model.states import JobState
from tests.world.site import Site


@pytest.mark.parametrize(
    ("flags", "state", "nodes_left"),
    [(REQ_NO_KILL, JobState.RUNNING, 1), (REQ_NO_REQUEUE, JobState.NODE_FAIL, 2)],
)
def test_a_job_that_loses_a_node(flags: int, state: JobState, nodes_left: int) -> None:
    """It goes on with the others, or fails and shows the nodes that it had."""
    scene = Site()
    job = scene.running(nodes_min=2, nodes_max=2, flags=flags)
    (second,) = {alloc.node_id for alloc in job.nodes} - {job.batch_node_id}
    scene.apply(nodes_down(scene.cluster, (second,), "no answer", scene.now_us))
    assert (job.state, len(job.nodes)) == (state, nodes_left)
