"""Small clusters drawn for tests: a slurm.conf in, a Cluster with all nodes idle out."""

from __future__ import annotations

from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState

FOUR_NODES = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
SelectTypeParameters=CR_Core_Memory
NodeName=n[1-2] Sockets=2 CoresPerSocket=8 RealMemory=64000 \
  Gres=gpu:a100:4 Feature=gpunode,ib Weight=10
NodeName=n[3-4] Sockets=2 CoresPerSocket=8 RealMemory=64000 Feature=cpunode,ib
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-0 DefaultTime=60 DefMemPerCPU=1000
PartitionName=gpu Nodes=n[1-2] MaxTime=12:00:00 DefMemPerCPU=1000 PriorityJobFactor=10
PartitionName=debug Nodes=n4 MaxTime=30 DefMemPerCPU=1000 PriorityTier=10
"""
START_US = 1_000_000_000_000_000


def conf_of(text: str = FOUR_NODES) -> SlurmConf:
    """Return a checked configuration."""
    return parse_slurm_conf(text)


def cluster_of(conf: SlurmConf | None = None, now_us: int = START_US) -> Cluster:
    """Return a cluster whose nodes have all registered."""
    conf = conf or conf_of()
    cluster = Cluster()
    apply_all(cluster, configure(cluster, conf, now_us))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(now_us, node.node_id, NodeFacts(), NodeState.IDLE))
    return cluster


def submit(
    cluster: Cluster,
    request: JobRequest,
    now_us: int = START_US,
    *,
    uid: int = 1001,
    ranges: tuple[tuple[int, int, int], ...] = (),
    array_limit: int = 0,
    requeue: bool = True,
    time_limit_min: int = 60,
    het_job_id: int = 0,
    het_offset: int = 0,
) -> int:
    """Record a batch job as accepted and return its id; no rule judges it."""
    job_id = free_job_id(cluster)
    apply(
        cluster,
        ev.JobSubmitted(
            time_us=now_us,
            job_id=job_id,
            request=request,
            uid=uid,
            gid=uid,
            user_name=f"user{uid}",
            group_name=f"user{uid}",
            account="acct",
            qos="normal",
            assoc_id=1,
            partition=request.partition or "main",
            time_limit_min=time_limit_min,
            script_hash="0" * 32,
            eligible_us=now_us,
            array_pending=ranges,
            array_limit=array_limit,
            requeue=requeue,
            het_job_id=het_job_id,
            het_offset=het_offset,
        ),
    )
    return job_id


def submit_het(
    cluster: Cluster, *requests: JobRequest, now_us: int = START_US, time_limit_min: int = 60
) -> list[int]:
    """Record the components of a heterogeneous job as accepted; return their ids."""
    leader = free_job_id(cluster)
    return [
        submit(
            cluster,
            request,
            now_us,
            time_limit_min=time_limit_min,
            het_job_id=leader,
            het_offset=offset,
        )
        for offset, request in enumerate(requests)
    ]
