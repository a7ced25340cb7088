"""Four nodes that jobs take whole, and the jobs that run there until their limits."""

from __future__ import annotations

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.frame.policy import policy
from tests.model.clusters import conf_of, submit

WHOLE_NODES = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
PriorityType=priority/basic
Licenses=matlab:2
NodeName=n[1-4] CPUs=2 RealMemory=1000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE
"""

RULES = policy(conf_of(WHOLE_NODES))


def job(cluster: Cluster, nodes: int, minutes: int, licenses: str = "") -> int:
    """Submit a job for whole nodes."""
    request = JobRequest(nodes_min=nodes, nodes_max=nodes, licenses=licenses)
    return submit(cluster, request, time_limit_min=minutes)


def end_due(cluster: Cluster, now_us: int) -> None:
    from pyslurm_ng.ctld.rules.ends import job_end

    for job in list(cluster.jobs.values()):
        if (
            job.state == JobState.RUNNING
            and job.start_us + job.time_limit_min * MINUTE_US == now_us
        ):
            nodes = frozenset(alloc.node_id for alloc in job.nodes)
            events: list[ev.AnyEvent] = list(
                job_end.complete(
                    cluster,
                    job,
                    job_end.End(JobState.COMPLETED, exit_code=0),
                    now_us,
                    clean_nodes=nodes,
                )
            )
            apply_all(cluster, events)
