"""What partitions say about the size of a job: MinNodes, MaxMemPerNode, MaxTime."""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.base.numbers import NO_VAL, REQ_MEM_SET
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.policy import policy
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.passes import run_pass

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters={select}
PriorityType=priority/basic
NodeName=n[1-4] CPUs=4 RealMemory=1000
PartitionName=wide Nodes=n[1-4] Default=YES MaxTime=INFINITE MinNodes=2
PartitionName=brief Nodes=n[1-4] MaxTime=10
PartitionName=away Nodes=n[1-4] MaxTime=INFINITE State=DOWN
PartitionName=lean Nodes=n[1-4] MaxTime=INFINITE DefMemPerNode=100 MaxMemPerNode=600
"""


def _reason(select: str, **fields: Any) -> tuple[Cluster, int, Reason]:
    conf = conf_of(CONF.format(select=select))
    cluster = cluster_of(conf)
    request = JobRequest(**fields)
    limit = min(request.time_limit_min, 60)  # what a first partition gives who asks for none
    job = submit(cluster, request, uid=1001, time_limit_min=limit)
    plan = run_pass(cluster, START_US, policy(conf))
    return cluster, job, plan.waits[job].reason if job in plan.waits else Reason.NONE


@pytest.mark.parametrize(
    ("fields", "nodes", "tasks"),
    [
        ({}, 2, [1, 1]),
        ({"ntasks": 1}, 2, [1, 1]),
        ({"ntasks": 3}, 2, [2, 1]),
        ({"nodes_min": 1, "nodes_max": 3}, 3, [1, 1, 1]),
        ({"ntasks": 12}, 3, [4, 4, 4]),
    ],
)
def test_a_job_has_as_many_nodes_as_its_partition_gives_at_least(
    fields: dict[str, int], nodes: int, tasks: list[int]
) -> None:
    """MinNodes=2, with at least a task on each; figures of Slurm 22.05."""
    cluster, job, _ = _reason("CR_Core", partition="wide", **fields)
    allocs = cluster.jobs[job].nodes
    assert (len(allocs), sorted((alloc.tasks for alloc in allocs), reverse=True)) == (nodes, tasks)


def test_a_job_that_may_not_have_as_many_nodes_waits() -> None:
    cluster, job, reason = _reason("CR_Core", partition="wide", nodes_min=1, nodes_max=1)
    assert (len(cluster.jobs[job].nodes), reason) == (0, Reason.PartitionNodeLimit)


@pytest.mark.parametrize("select", ["CR_Core", "CR_Core_Memory"])
@pytest.mark.parametrize("fields", [{"mem_per_node_mib": 700}, {"flags": REQ_MEM_SET}])
def test_memory_over_the_partitions_waits_even_if_it_is_not_consumed(
    select: str, fields: dict[str, int]
) -> None:
    """--mem=0 asks for all of a node, which is more than MaxMemPerNode."""
    _, _, reason = _reason(select, partition="lean", **fields)
    assert reason == Reason.MaxMemPerLimit
    _, _, reason = _reason(select, partition="lean", mem_per_node_mib=600)
    assert reason == Reason.NONE


@pytest.mark.parametrize("scheduler", ["backfill", "builtin"])
@pytest.mark.parametrize(
    ("fields", "limit_min"),
    [({}, 10), ({"time_limit_min": 20, "time_min_min": 5}, 10), ({"time_limit_min": 5}, 5)],
)
def test_the_partition_where_a_job_runs_bounds_its_time(
    scheduler: str, fields: dict[str, int], limit_min: int
) -> None:
    """A job without a limit, or that may run with less, has the limit of the second partition."""
    select = f"CR_Core\nSchedulerType=sched/{scheduler}"
    cluster, job, reason = _reason(select, partition="away,brief", **fields)
    assert (reason, cluster.jobs[job].time_limit_min) == (Reason.NONE, limit_min)


def test_a_job_that_asks_for_more_time_waits() -> None:
    for least in (NO_VAL, 15):
        _, _, reason = _reason("CR_Core", partition="brief", time_limit_min=20, time_min_min=least)
        assert reason == Reason.PartitionTimeLimit
