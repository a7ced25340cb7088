"""What a job has to itself, in the words of its programs' environment."""

from __future__ import annotations

from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
    REQ_OVERSUBSCRIBE,
)
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest

_EXCLUSIVE = (
    (REQ_EXCLUSIVE_TOPO, "TOPO"),
    (REQ_EXCLUSIVE_MCS, "MCS"),
    (REQ_EXCLUSIVE_USER, "USER"),
    (REQ_EXCLUSIVE, "NODE"),
)


def exclusive(request: JobRequest) -> str:
    """Return SLURM_JOB_EXCLUSIVE: what a job has to itself."""
    return next((word for bit, word in _EXCLUSIVE if request.flags & bit), "NO")


def oversubscribe(cluster: Cluster, job: Job) -> str:
    """Return SLURM_JOB_OVERSUBSCRIBE: whether a job may share what it has."""
    partition = cluster.partitions.get(job.partition)
    forced = partition is not None and partition.oversubscribe.upper().startswith("FORCE")
    if forced or job.request.flags & REQ_OVERSUBSCRIBE:
        return "YES"
    return "NO"
