"""What `scontrol update job` does to a job that runs: it may give up nodes, and trade licences."""

from __future__ import annotations

from collections.abc import Mapping

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.states import JobFlag

Kept = tuple[NodeAlloc, ...]


def kept_of_count(job: Job, count: int, conf: SlurmConf) -> Kept | int:
    """Return what is left of a job's nodes when it is to have `count`, or an error number.

    The first of them stay, and the batch host, which the job cannot do without.
    """
    if count > len(job.nodes):
        return Errno.ESLURM_NOT_SUPPORTED
    batch = [alloc.node_id for alloc in job.nodes if alloc.node_id == job.batch_node_id]
    others = [alloc.node_id for alloc in job.nodes if alloc.node_id != job.batch_node_id]
    return _kept(job, {*batch, *others[: count - len(batch)]}, conf)


def kept_of_names(cluster: Cluster, job: Job, text: str, conf: SlurmConf) -> Kept | int:
    """Return what is left of a job's nodes when it is to have only some, or an error number."""
    try:
        names = hostlist.expand_of_user(text, len(cluster.node_index.by_name))
    except hostlist.HostlistError:
        return Errno.ESLURM_INVALID_NODE_NAME
    id_of_name = {cluster.node(alloc.node_id).spec.name: alloc.node_id for alloc in job.nodes}
    if not names or not id_of_name.keys() >= set(names):
        return Errno.ESLURM_INVALID_NODE_NAME
    node_ids = {id_of_name[name] for name in names}
    if job.batch_node_id >= 0 and job.batch_node_id not in node_ids:
        return Errno.ESLURM_INVALID_NODE_NAME
    return _kept(job, node_ids, conf)


def _kept(job: Job, node_ids: set[int], conf: SlurmConf) -> Kept | int:
    if len(node_ids) == len(job.nodes):
        return job.nodes
    if has_option(conf.scheduler_parameters, "disable_job_shrink"):
        return Errno.ESLURM_NOT_SUPPORTED
    if job.flags & JobFlag.CONFIGURING:
        # Its nodes are being prepared; what one of them is ordered cannot be taken back.
        return Errno.ESLURM_TRANSITION_STATE_NO_UPDATE
    return tuple(alloc for alloc in job.nodes if alloc.node_id in node_ids)


def traded_licenses(
    cluster: Cluster, job: Job, text: str, taken: Mapping[str, int]
) -> tuple[str, dict[str, int]] | None:
    """Return the licences that a running job has from now on, and how many more; None: too many.

    Args:
        text: what it asks for; of alternatives joined by | it gets the first that is free.
        taken: how many more jobs changed by the same request have got.
    """
    before = dict(license_counts(job.licenses_alloc))
    for choice in text.split("|"):
        counts = dict(license_counts(choice))
        more = {name: count - before.get(name, 0) for name, count in counts.items()}
        if all(
            count <= 0 or cluster.licenses_left(name) - taken.get(name, 0) >= count
            for name, count in more.items()
        ):
            return choice, {name: count for name, count in more.items() if count > 0}
    return None


__all__ = ["Kept", "kept_of_count", "kept_of_names", "traded_licenses"]
