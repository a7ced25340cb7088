"""CompleteWait: no starts while nodes clean up, so that jobs get nodes that lie together.

Source: the manual's pages of CompleteWait and reduce_completing_frag. A job is waited for from its
end on, for that many seconds at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import is_completing


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Partitions in which nothing starts before `until_us`; 0: starts are free everywhere."""

    partitions: frozenset[str] = frozenset()
    until_us: int = 0


NOTHING = HeldBack()


def held_back(cluster: Cluster, wait_s: int, now_us: int, *, only_near: bool) -> HeldBack:
    """Return what waits for jobs that are completing.

    Args:
        wait_s: CompleteWait.
        only_near: reduce_completing_frag: partitions that have no node in common with that of a
            completing job go on.
    """
    if not wait_s:
        return NOTHING
    ends: dict[str, int] = {}
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        until_us = job.end_us + wait_s * SECOND_US
        if is_completing(job) and until_us > now_us:
            ends[job.partition] = max(until_us, ends.get(job.partition, 0))
    if not ends:
        return NOTHING
    names = frozenset(cluster.partitions)
    if only_near:
        names = frozenset(
            name for name in names if any(_share_nodes(cluster, name, other) for other in ends)
        )
    return HeldBack(names, max(ends.values()))


def _share_nodes(cluster: Cluster, name: str, other: str) -> bool:
    if name == other:
        return True
    partition = cluster.partitions.get(other)
    if partition is None:
        return False
    return not set(cluster.partitions[name].node_ids).isdisjoint(partition.node_ids)
