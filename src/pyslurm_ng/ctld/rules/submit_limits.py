"""Limits of associations and QOS that refuse a job at submission.

Only how many jobs may be submitted, and with the QOS flag DenyOnLimit what one job may ask for;
everything else makes a job wait with a reason, which is the scheduler's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.submit_account import Standing, enforced, lineage
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.amounts import requested_tres
from pyslurm_ng.model.assoc import Limits
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import INFINITE
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.partition import Partition

Applies: TypeAlias = Callable[[Job], bool]
_POLICY = Reject(Errno.ESLURM_ACCOUNTING_POLICY)


def check(
    cluster: Cluster,
    request: JobRequest,
    partition: Partition,
    standing: Standing,
    time_limit_min: int,
    tasks: int,
    context: Context,
) -> Reject | None:
    """Return why a request breaks a limit of its association, those above it, or its QOS.

    Args:
        tasks: how many jobs it counts for: the tasks of an array.
    """
    if "limits" not in enforced(context.conf):
        return None
    if _too_many_submitted(cluster, standing, context.caller.uid, tasks):
        return _POLICY
    record = standing.qos_record
    denies = record is not None and "DenyOnLimit" in record.flags
    if not denies and context.conf.enforce_part_limits == "NO":
        return None
    holders = [assoc.limits for assoc in lineage(cluster, standing.assoc)]
    if record is not None:
        holders.insert(0, record.limits)
    wanted = requested_tres(request, partition, context.conf.tracked_tres())
    wanted["node"] = max(wanted["node"], 1)
    return (
        _POLICY if any(_too_large(limits, wanted, time_limit_min) for limits in holders) else None
    )


def _too_large(limits: Limits, wanted: Mapping[str, int], time_limit_min: int) -> bool:
    """Return whether one job alone is beyond what a job, a group or a user may have."""
    if limits.max_wall_min != INFINITE and time_limit_min > limits.max_wall_min:
        return True
    for most in (limits.max_tres_per_job, limits.grp_tres, limits.max_tres_per_user):
        if any(wanted.get(name, 0) > amount for name, amount in most.items()):
            return True
    return any(wanted.get(name, 0) < amount for name, amount in limits.min_tres_per_job.items())


def _too_many_submitted(cluster: Cluster, standing: Standing, uid: int, tasks: int) -> bool:
    """Return whether `tasks` more jobs are more than may be queued and running at once."""
    return any(
        limit != INFINITE and _count(cluster, whose, applies) + tasks > limit
        for limit, whose, applies in _submit_limits(cluster, standing, uid)
    )


def _submit_limits(
    cluster: Cluster, standing: Standing, uid: int
) -> Iterator[tuple[int, int | None, Applies]]:
    """Yield each limit with whose jobs count against it (None: everybody's), and which of them."""
    for assoc in lineage(cluster, standing.assoc):
        if assoc is standing.assoc:
            yield assoc.limits.max_submit, uid, _in_assocs(frozenset((assoc.assoc_id,)))
        if assoc.limits.grp_submit != INFINITE:
            below = _below(cluster, assoc.assoc_id)
            yield assoc.limits.grp_submit, None, _in_assocs(below)
    record = standing.qos_record
    if record is not None:
        name, account, limits = record.name, standing.account, record.limits
        yield limits.max_submit, uid, lambda job: job.qos == name
        yield limits.grp_submit, None, lambda job: job.qos == name
        yield (
            limits.max_submit_per_account,
            None,
            lambda job: job.qos == name and job.account == account,
        )


def _in_assocs(ids: frozenset[int]) -> Applies:
    return lambda job: job.assoc_id in ids


def _below(cluster: Cluster, assoc_id: int) -> frozenset[int]:
    """Return an association's id with those of all below it."""
    children: dict[int, list[int]] = {}
    for assoc in cluster.assocs.values():
        children.setdefault(assoc.parent_id, []).append(assoc.assoc_id)
    found: dict[int, None] = {}
    queue = [assoc_id]
    while queue:
        one = queue.pop()
        if one not in found:
            found[one] = None
            queue += children.get(one, [])
    return frozenset(found)


def _count(cluster: Cluster, uid: int | None, applies: Applies) -> int:
    """Return how many queued and running jobs, tasks of arrays counted singly, a test holds for."""
    if uid is None:
        ids = [*cluster.pending, *cluster.active]
    else:
        ids = [job_id for job_id in cluster.user_jobs.get(uid, ()) if job_id not in cluster.ended]
    total = 0
    for job_id in ids:
        job = cluster.jobs[job_id]
        if applies(job):
            total += task_ranges.count(job.array_pending) or 1
    return total
