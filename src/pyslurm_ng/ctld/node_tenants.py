"""Which user, label or job a node is kept for: `--exclusive=user`, `=mcs` and `=topo`."""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.node import Node
from pyslurm_ng.sched.request.sharing import MCS, TOPO, USER, Units, sharing_of

NO_OWNER = -1


def tenant_of_node(cluster: Cluster, node: Node) -> tuple[int, str]:
    """Return the user, and the label, whose jobs alone may be on a node; NO_OWNER, "" for all."""
    owner_uid, label = NO_OWNER, ""
    for job_id in cluster.node_index.use[node.node_id].allocs:
        job = cluster.jobs[job_id]
        sharing = _sharing(cluster, job)
        if sharing == USER:
            owner_uid = job.uid
        elif sharing == MCS:
            label = job.request.mcs_label
    return owner_uid, label


def keeps_its_unit(cluster: Cluster, job: Job) -> bool:
    """Return whether a job that runs has its leaf switches or blocks to itself."""
    return _sharing(cluster, job) == TOPO


def blocked_nodes(cluster: Cluster, job_ids: Iterable[int]) -> frozenset[int]:
    """Return the other nodes of the units that these jobs have to themselves."""
    units = Units(cluster.topologies, cluster.partitions)
    blocked: set[int] = set()
    for job_id in job_ids:
        job = cluster.jobs[job_id]
        own = {alloc.node_id for alloc in job.nodes}
        blocked |= units.beside(job.partition, own) - own
    return frozenset(blocked)


def _sharing(cluster: Cluster, job: Job) -> str:
    return sharing_of(job.request, cluster.partitions.get(job.partition))
