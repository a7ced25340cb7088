"""Sizes of a request with a partition's defaults."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.queries.job_fields import detail_values
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.sizes import cpus_of_each_gpu
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
