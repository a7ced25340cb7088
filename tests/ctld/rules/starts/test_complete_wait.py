"""CompleteWait: who is kept from starting while nodes clean up, and until when."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.complete_wait import NOTHING, HeldBack, held_back
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.world import World
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit

SECOND_US = 1_000_000
APART = FOUR_NODES.replace("Nodes=n[1-4]", "Nodes=n[3-4]")
"""`main` shares node n4 with `debug`, and none with `gpu`."""


def completing(text: str = FOUR_NODES, partition: str = "main") -> Cluster:
    """Return a cluster with a job that began to end at START_US."""
    conf = conf_of(text)
    cluster = cluster_of(conf)
    job_id = submit(cluster, JobRequest(partition=partition), time_limit_min=20)
    (start,) = Planner()(snapshot(cluster, START_US), policy(conf)).starts
    apply_all(cluster, dispatch(cluster, start, START_US))
    job = cluster.jobs[job_id]
    apply_all(cluster, job_end.complete(cluster, job, job_end.End(JobState.COMPLETED), START_US))
    return cluster


def test_a_completing_job_holds_all_partitions_back() -> None:
    """For that many seconds after its end, even if its nodes still clean up."""
    cluster = completing()
    waits = held_back(cluster, 10, START_US + 9 * SECOND_US, only_near=False)
    assert waits == HeldBack(frozenset(("main", "gpu", "debug")), START_US + 10 * SECOND_US)
    assert held_back(cluster, 10, START_US + 10 * SECOND_US, only_near=False) == NOTHING


def test_without_it_nothing_waits() -> None:
    """The default."""
    assert held_back(completing(), 0, START_US, only_near=False) == NOTHING


@pytest.mark.parametrize(
    ("partition", "partitions"),
    [("main", ("main", "debug")), ("gpu", ("gpu",)), ("debug", ("main", "debug"))],
)
def test_only_partitions_near_it(partition: str, partitions: tuple[str, ...]) -> None:
    """reduce_completing_frag: others go on."""
    cluster = completing(APART, partition)
    assert held_back(cluster, 10, START_US, only_near=True).partitions == frozenset(partitions)


def test_a_pass_is_made_when_the_wait_is_over() -> None:
    """The job starts then, though nothing else has happened."""
    conf = conf_of(FOUR_NODES + "CompleteWait=10\n")
    cluster = completing()
    world = World(start_us=START_US + SECOND_US)
    controller = SimController(world, conf, Planner(), cluster=cluster)
    waiting = submit(cluster, JobRequest())
    controller.scheduler.due()
    world.run(until_us=START_US + 9 * SECOND_US)
    assert cluster.jobs[waiting].state == JobState.PENDING
    world.run(until_us=START_US + 11 * SECOND_US)
    assert cluster.jobs[waiting].state == JobState.RUNNING
    assert cluster.jobs[waiting].start_us == START_US + 10 * SECOND_US


def test_a_clean_job_holds_nothing_back() -> None:
    """Its last node has reported."""
    cluster = completing()
    (job_id,) = cluster.job_index.active
    job = cluster.jobs[job_id]
    (node_id,) = job.nodes_pending
    (duty_id,) = cluster.duties[node_id]
    apply(cluster, ev.DutiesDone(START_US, ((node_id, duty_id),)))
    apply_all(cluster, job_end.finish(cluster, job, JobState.COMPLETED, 0, job.flags, START_US))
    assert held_back(cluster, 10, START_US, only_near=False) == NOTHING
