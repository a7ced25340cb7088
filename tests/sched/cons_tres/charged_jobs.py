"""A job that has just started, with what it is charged."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.sched.frame.policy import policy
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.passes import run_pass

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
PriorityType=priority/basic
SelectTypeParameters={select}
NodeName=n[1-2] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=16000 Gres=gpu:4
PartitionName=main Nodes=n[1-2] Default=YES DefMemPerCPU=500
PartitionName=cores Nodes=n[1-2] DefMemPerCPU=500 SelectTypeParameters=CR_Core
PartitionName=capped Nodes=n[1-2] DefMemPerCPU=500 MaxCPUsPerNode=6
"""


def just_started(select: str, **fields: Any) -> tuple[Cluster, Job]:
    conf = conf_of(CONF.format(select=select))
    cluster = cluster_of(conf)
    job_id = submit(cluster, JobRequest(**fields), time_limit_min=10)
    run_pass(cluster, START_US, policy(conf))
    assert check(cluster) == []
    return cluster, cluster.jobs[job_id]
