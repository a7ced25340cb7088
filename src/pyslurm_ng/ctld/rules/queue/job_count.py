"""How many jobs of MaxJobCount one user may have, so that there is room for every user's.

A user may hold as many jobs as nine times the places that are then left free (dynamic thresholds:
Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998).
So one user alone has nine tenths of the table, two have 47 % each, a hundred use all but a few
places. A user without jobs always has room. Pure.
"""

from __future__ import annotations

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.model.cluster import Cluster

_TIMES_LEFT = 9
_OPERATORS_PART = 1000
"""One place in so many is left for operators, who may always use the whole table."""


def refusal(cluster: Cluster, more: int, context: Context) -> Reject | None:
    """Return why there is no room for so many more jobs; tasks of an array count singly."""
    most = context.conf.max_job_count
    free = max(0, most - jobs_of_all(cluster))
    room = free - more
    if room < 0:
        return Reject(Errno.EAGAIN, f"MaxJobCount={most}: there is room for {free} more")
    if context.caller.is_operator:
        return None
    room -= most // _OPERATORS_PART
    job_count = jobs_of(cluster, context.caller.uid)
    # One more than is left: of a table of nine places the only user has all.
    if room < 0 or job_count + more > _TIMES_LEFT * (room + 1):
        return Reject(
            Errno.EAGAIN,
            f"MaxJobCount={most}: the user's jobs are {job_count}, and what is left is for others",
        )
    return None


def jobs_of_all(cluster: Cluster) -> int:
    """Return how many jobs the controller knows, tasks of arrays counted singly."""
    return len(cluster.jobs) + cluster.job_counts.unsplit_tasks


def jobs_of(cluster: Cluster, uid: int) -> int:
    """Return how many of them are a user's."""
    return len(cluster.job_index.by_user.get(uid, ())) + cluster.job_counts.unsplit_by_user.get(
        uid, 0
    )
