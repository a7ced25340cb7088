"""A job's place in the queue, and whether it comes back into it."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, REQ_NO_REQUEUE, REQ_REQUEUE
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.ctld.rules.orders.job_orders import hold_fields
from pyslurm_ng.ctld.rules.update.job_change import Change, yes_or_no
from pyslurm_ng.sched.frame.job_views import waiting_record
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import outline

_NICE_MAX = 2147483645
_SITE_FACTOR_MAX = 2147483645


def priority(change: Change, value: str) -> int:
    """Set the priority: 0 holds the job. Only a release ends a hold."""
    job = change.job
    number = whole_number(value)
    if number is None or number >= NO_VAL:
        return Errno.ESLURM_INVALID_TIME_VALUE
    if number == 0:
        changed = hold_fields(change.cluster, job, change.context, as_user=False)
    elif job.priority == 0:
        return Errno.ESLURM_JOB_HELD
    elif not change.context.caller.is_operator:
        return _lowered(change, number)
    else:
        changed = {"priority": number}
    if isinstance(changed, int):
        return changed
    change.fields.update(changed)
    return 0


def _lowered(change: Change, number: int) -> int:
    """Refuse a user's priority: a lower one by the advice of Slurm, which lowers it until a change.

    It tells the user that the change does not last, and that nice does the same for good.
    """
    job, cluster, context = change.job, change.cluster, change.context
    present = job.priority
    if present == NO_VAL and job.start_priority:
        present = job.start_priority
    elif present == NO_VAL:
        partition = cluster.partitions.get(job.partition.partition(",")[0])
        if partition is None or not change.is_pending:
            return Errno.ESLURM_ACCESS_DENIED
        ranking = Ranking(outline(cluster, context.now_us), policy(context.conf))
        present = ranking.priority(waiting_record(cluster, job), partition)
    return Errno.ESLURM_PRIO_RESET_FAIL if number < present else Errno.ESLURM_ACCESS_DENIED


def _signed(text: str, limit: int) -> int | None:
    amount = whole_number(text[1:] if text[:1] in ("+", "-") else text)
    if amount is None or amount > limit:
        return None
    return -amount if text[:1] == "-" else amount


def nice(change: Change, value: str) -> int:
    """Set Nice; only operators may go below 0."""
    number = 100 if not value else _signed(value, _NICE_MAX)
    if number is None:
        return Errno.ESLURM_INVALID_NICE
    if number < 0 and not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    if change.job.start_priority:
        niced = change.job.start_priority - (number - change.job.nice)
        change.fields["start_priority"] = min(max(1, niced), NO_VAL - 1)
    change.fields["nice"] = number
    change.request["nice"] = number
    return 0


def site_factor(change: Change, value: str) -> int:
    """Set what the site adds to the priority."""
    factor = _signed(value, _SITE_FACTOR_MAX)
    if factor is None:
        return Errno.ESLURM_INVALID_NICE
    if not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    change.fields["site_factor"] = factor
    return 0


def throttle(change: Change, value: str) -> int:
    """Set how many tasks of an array may run at a time."""
    limit = whole_number(value)
    if limit is None or limit > INFINITE:
        return Errno.ESLURM_INVALID_ARRAY
    if change.job.array_job_id:  # it means nothing for other jobs, and is no error
        change.fields["array_limit"] = limit
    return 0


def requeue(change: Change, value: str) -> int:
    """Set whether the job may be run again."""
    is_yes = yes_or_no(value)
    if is_yes is None:
        return Errno.ESLURM_NOT_SUPPORTED
    change.fields["requeue"] = is_yes
    either = REQ_REQUEUE | REQ_NO_REQUEUE
    change.flag(REQ_REQUEUE if is_yes else REQ_NO_REQUEUE, either)
    return 0
