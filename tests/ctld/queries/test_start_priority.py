"""The priority of a job that runs: what it had when it started, whoever is asked."""

from __future__ import annotations

from pyslurm_ng.ctld.queries.job_fields import soft_values
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.world.site import Site


def test_a_restarted_controller_shows_the_same() -> None:
    """The start records it in the journal, so it need not be worked out again."""
    scene = Site()
    job = scene.job()
    plan = scene.plan(snapshot(scene.cluster, scene.now_us), policy(scene.conf))
    scene.apply(
        dispatch(scene.cluster, plan.starts[0], scene.now_us, priorities={job.job_id: 4711})
    )
    again = Cluster.from_bytes(scene.cluster.to_bytes())
    soft = Soft(scene.now_us, rank=lambda job: 1)
    for cluster in (scene.cluster, again):
        assert soft_values(cluster, soft, cluster.jobs[job.job_id]).priority == 4711
