"""--overcommit: one CPU of a node suffices for all tasks there."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import REQ_OVERCOMMIT
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.frame.policy import policy
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.passes import run_pass

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters={select}
SchedulerType=sched/{scheduler}
PriorityType=priority/basic
NodeName=n[1-2] CPUs=16 RealMemory=32000
NodeName=n3 CPUs=4 RealMemory=2000 Weight=5
PartitionName=main Nodes=n[1-3] Default=YES MaxTime=INFINITE DefMemPerCPU=500
"""


@pytest.mark.parametrize("select", ["CR_Core", "CR_Core_Memory"])
@pytest.mark.parametrize("scheduler", ["backfill", "builtin"])
@pytest.mark.parametrize(
    ("tasks", "node_list", "node"), [(40, "", 1), (20, "n3", 3), (200, "n2", 2)]
)
def test_one_node_holds_all_tasks(
    select: str, scheduler: str, tasks: int, node_list: str, node: int
) -> None:
    """Memory comes with the one CPU, not with tasks; figures of Slurm 22.05."""
    conf = conf_of(CONF.format(select=select, scheduler=scheduler))
    cluster = cluster_of(conf)
    request = JobRequest(ntasks=tasks, node_list=node_list, flags=REQ_OVERCOMMIT)
    job_id = submit(cluster, request)
    run_pass(cluster, START_US, policy(conf))
    (alloc,) = cluster.jobs[job_id].nodes
    mem_mib = 500 if select == "CR_Core_Memory" else 0
    assert (alloc.node_id + 1, alloc.cpus, alloc.tasks) == (node, 1, tasks)
    assert alloc.mem_mib == mem_mib


@pytest.mark.parametrize("select", ["CR_Core", "CR_Core_Memory"])
@pytest.mark.parametrize("scheduler", ["backfill", "builtin"])
def test_cpus_of_a_task_are_allotted_once_for_each_node(select: str, scheduler: str) -> None:
    """-O -n4 -c3: three CPUs; figures of Slurm 22.05."""
    conf = conf_of(CONF.format(select=select, scheduler=scheduler))
    cluster = cluster_of(conf)
    request = JobRequest(ntasks=4, cpus_per_task=3, flags=REQ_OVERCOMMIT)
    first = submit(cluster, request)
    two = JobRequest(ntasks=8, cpus_per_task=5, nodes_min=2, nodes_max=2, flags=REQ_OVERCOMMIT)
    second = submit(cluster, two)
    run_pass(cluster, START_US, policy(conf))
    (alloc,) = cluster.jobs[first].nodes
    assert (alloc.cpus, alloc.tasks) == (3, 4)
    assert alloc.mem_mib == (1500 if select == "CR_Core_Memory" else 0)
    assert [alloc.cpus for alloc in cluster.jobs[second].nodes] == [5, 5]
