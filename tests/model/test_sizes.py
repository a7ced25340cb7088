"""Sizes of a request with a partition's defaults."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import REQ_MEM_SET, REQ_OVERCOMMIT
from pyslurm_ng.ctld.queries.job_fields import brief_values, detail_values
from pyslurm_ng.model.amounts import requested_gres
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.sizes import cpus_of_each_gpu, job_sizes
from tests.model.clusters import cluster_of, conf_of, submit

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
NodeName=n[1-2] CPUs=16 RealMemory=16000 Gres=gpu:4
PartitionName=gpu Nodes=n[1-2] Default=YES DefCpuPerGPU=2
"""


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({"gpus": "2"}, 2),
        ({"gpus_per_task": "1", "ntasks": 2}, 2),
        ({"gpus_per_socket": "1"}, 2),
        ({"gres": "gpu:1"}, 2),
        ({"gpus": "2", "cpus_per_gpu": 3}, 3),
        ({"gpus": "2", "cpus_per_task": 3}, 0),
        ({"ntasks": 4}, 0),
    ],
)
def test_cpus_that_come_with_each_gpu(fields: dict[str, object], cpus: int) -> None:
    """DefCpuPerGPU where GPUs are asked for and CPUs are not; it is shown as if asked for."""
    cluster = cluster_of(conf_of(CONF))
    request = JobRequest(partition="gpu", **fields)  # type: ignore[arg-type]
    assert cpus_of_each_gpu(request, cluster.partitions["gpu"]) == cpus
    job = cluster.jobs[submit(cluster, request)]
    shown = detail_values(cluster, job, ())
    assert shown["cpus_per_gpu"] == cpus


@pytest.mark.parametrize(
    ("tasks", "cpus_each", "nodes"),
    [(16, 1, 1), (17, 1, 2), (20, 1, 2), (17, 2, 3), (5, 9, 5), (1, 17, 1), (5, 17, 5), (0, 17, 1)],
)
def test_a_waiting_job_shows_as_many_nodes_as_its_tasks_take(
    tasks: int, cpus_each: int, nodes: int
) -> None:
    """Twenty tasks do not fit on one node of 16 CPUs: squeue %D and NumNodes= say 2.

    No node has 17 CPUs; Slurm 22.05 still shows one node for each such task.
    """
    cluster = cluster_of(conf_of(CONF))
    request = JobRequest(partition="gpu", ntasks=tasks, cpus_per_task=cpus_each)
    job = cluster.jobs[submit(cluster, request)]
    assert brief_values(cluster, job, ())["node_count"] == nodes


def test_all_memory_of_nodes_is_a_number() -> None:
    """--mem=0 asks for what the first node of the partition has, as Slurm 22.05 shows it."""
    cluster = cluster_of(conf_of(CONF))
    request = JobRequest(partition="gpu", nodes_min=2, nodes_max=2, flags=REQ_MEM_SET)
    job = cluster.jobs[submit(cluster, request)]
    assert detail_values(cluster, job, ())["tres_req"] == "cpu=2,mem=32000M,node=2,billing=2"
    request = JobRequest(partition="gpu", nodes_min=2, nodes_max=2)
    job = cluster.jobs[submit(cluster, request)]
    assert detail_values(cluster, job, ())["tres_req"] == "cpu=2,node=2,billing=2"


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"ntasks": 4}, "cpu=1,mem=10M,node=1,billing=1"),
        ({"ntasks": 4, "cpus_per_task": 3}, "cpu=1,mem=10M,node=1,billing=1"),
        ({"ntasks": 4, "nodes_min": 2, "nodes_max": 2}, "cpu=2,mem=20M,node=2,billing=2"),
    ],
)
def test_tasks_that_share_cpus_ask_for_one_of_each_node(
    fields: dict[str, object], asked: str
) -> None:
    """As Slurm 22.05 shows a job with --overcommit that waits."""
    cluster = cluster_of(conf_of(CONF))
    request = JobRequest(
        partition="gpu",
        mem_per_cpu_mib=10,
        flags=REQ_OVERCOMMIT,
        **fields,  # type: ignore[arg-type]
    )
    job = cluster.jobs[submit(cluster, request)]
    assert detail_values(cluster, job, ())["tres_req"] == asked


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"gpus": "2", "gpus_per_task": "1"}, 2),
        ({"gpus": "4", "gpus_per_node": "2", "gpus_per_task": "1"}, 4),
        ({"gpus_per_node": "2", "gpus_per_task": "1"}, 4),
        ({"gres": "gpu:2", "gpus_per_socket": "1", "sockets_per_node": 2}, 4),
        ({"gpus": "4", "gres": "gpu:2,fpga:1"}, 4),
        ({"gpus_per_task": "a100:1"}, 2),
    ],
)
def test_gpus_that_several_options_name_are_counted_once(
    fields: dict[str, object], gpus: int
) -> None:
    """Two nodes with a task each; limits and ReqTRES count these amounts."""
    amounts = requested_gres(JobRequest(**fields), nodes=2, tasks=2)  # type: ignore[arg-type]
    assert amounts["gres/gpu"] == gpus
    assert amounts.get("gres/fpga", 2) == 2


def test_tasks_that_are_counted_are_on_no_more_nodes_than_there_are_tasks() -> None:
    """-n2 --gpus=9 never fits where a node has four GPUs, as in Slurm; --gpus=9 alone does."""
    for ntasks, nodes in ((2, 2), (0, 9)):
        sizes = job_sizes(JobRequest(gpus="9", ntasks=ntasks), None)
        assert sizes.nodes_max == nodes
