"""JobSubmitPlugins that are built in; a configuration that names others is refused at start.

Source: what Slurm 22.05 does with them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.submission.place import hidden_partitions
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest


def edited(
    cluster: Cluster, request: JobRequest, plugins: Iterable[str], context: Context
) -> JobRequest | Reject:
    """Return a request as the site's plugins leave it, each after the one before.

    Scripts (lua, python) have seen it already. What is done here a second time, after them, changes
    nothing more.
    """
    for name in plugins:
        if name == "require_timelimit" and request.time_limit_min == NO_VAL:
            return Reject(Errno.ESLURM_MISSING_TIME_LIMIT)
        if name == "throttle" and _is_throttled(context):
            return Reject(Errno.ESLURM_ACCOUNTING_POLICY, "Reached jobs per hour limit")
        if name == "all_partitions" and not request.partition:
            # Also those that the user may not use: they are sorted out as if they had been named.
            request = msgspec.structs.replace(request, partition=",".join(cluster.partitions))
        if name == "partition" and not request.partition:
            hidden = hidden_partitions(cluster, context.caller)
            usable = [each for each in cluster.partitions.values() if each.name not in hidden]
            best = max(usable, key=lambda each: each.priority_tier, default=None)
            if best is not None:
                request = msgspec.structs.replace(request, partition=best.name)
    return request


def _is_throttled(context: Context) -> bool:
    """Return whether a user has submitted as many jobs within an hour as SchedulerParameters lets.

    Slurm counts in the same way: an array is one job, and operators are counted, too.
    """
    most = option_int(context.conf.scheduler_parameters, "jobs_per_user_per_hour", 0)
    return bool(most) and context.recent_submissions >= most
