"""Whether a job may share what it has, in the word of its programs' environment."""

from __future__ import annotations

from pyslurm_ng.base.request_words import oversubscribe_word
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job


def oversubscribe(cluster: Cluster, job: Job) -> str:
    """Return SLURM_JOB_OVERSUBSCRIBE: whether a job may share what it has."""
    partition = cluster.partitions.get(job.partition)
    forced = partition is not None and partition.oversubscribe.upper().startswith("FORCE")
    return "YES" if forced else oversubscribe_word(job.request.flags)
