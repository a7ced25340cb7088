"""When a job may start, for how long it may run, and what it waits for."""

from __future__ import annotations

import msgspec

from pyslurm_ng.base import units
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import MINUTE_US, NO_VAL, SECOND_US
from pyslurm_ng.ctld.rules.orders.job_orders import comes_back
from pyslurm_ng.ctld.rules.queue import dependency as dependencies, dependency_text
from pyslurm_ng.ctld.rules.update.job_change import Change, moment, while_pending
from pyslurm_ng.model.partition import opened
from pyslurm_ng.model.states import Reason


def time_limit(change: Change, value: str) -> int:
    """Set TimeLimit, or with a sign change it by so much."""
    try:
        limit = units.changed_time_limit_min(value, change.job.time_limit_min)
    except units.UnitError:
        return Errno.ESLURM_INVALID_TIME_LIMIT
    return _set_time_limit(change, limit)


def _set_time_limit(change: Change, limit: int) -> int:
    job = change.job
    if limit > job.time_limit_min and not change.is_privileged:
        # A waiting job's owner may ask for what the partition would have let it ask for at first.
        partition = change.cluster.partitions.get(job.partition.partition(",")[0])
        if not change.is_pending or partition is None:
            return Errno.ESLURM_ACCESS_DENIED
        if limit > opened(partition, change.cluster.qos.get(job.qos)).max_time_min:
            return Errno.ESLURM_ACCESS_DENIED
    change.fields["time_limit_min"] = limit
    change.request["time_limit_min"] = limit
    return 0


def end_time(change: Change, value: str) -> int:
    """Set the time limit of a running job so that it ends then."""
    if not change.is_running:
        return Errno.ESLURM_JOB_NOT_RUNNING
    began_us = change.job.start_us + change.job.suspended_us  # as if it had never been suspended
    end_us = units.whole_number(value)
    if end_us is None or end_us <= began_us:
        return Errno.ESLURM_INVALID_TIME_VALUE
    # As in Slurm, whose times are whole seconds: what is left of a minute is not given.
    began_us -= began_us % SECOND_US
    return _set_time_limit(change, max(1, (end_us - began_us) // MINUTE_US))


def time_min(change: Change, value: str) -> int:
    """Set TimeMin, which the time limit may not be below; it means nothing once the job runs."""
    try:
        minutes = units.parse_time_limit_min(value)
    except units.UnitError:
        return Errno.ESLURM_INVALID_TIME_LIMIT
    limit = change.fields.get("time_limit_min", change.job.time_limit_min)
    assert isinstance(limit, int)
    if not change.is_pending:
        return 0
    if minutes > limit:
        return Errno.ESLURM_INVALID_TIME_MIN_LIMIT
    change.request["time_min_min"] = minutes or NO_VAL
    return 0


def delay_boot(change: Change, value: str) -> int:
    """Set DelayBoot, which is kept and shown."""
    try:
        change.request["delay_boot_min"] = min(units.parse_time_limit_min(value), NO_VAL - 1)
    except units.UnitError:
        return Errno.ESLURM_INVALID_TIME_VALUE
    return 0


def begin(change: Change, value: str) -> int:
    """Set the begin time: the job is eligible from then."""
    code = moment("begin_us")(change, value)
    if code:
        return code
    begin_us = int(value)
    if comes_back(change.job):
        # Not before now, so that the requeue knows it from the run's own (`requeue.requeued`).
        change.fields["begin_us"] = max(begin_us, change.context.now_us)
        return 0
    change.fields["begin_us"] = begin_us
    waits = begin_us > change.context.now_us
    if change.job.dependencies or change.job.priority == 0:
        if waits:
            # A job that was eligible before it was held is no longer so when it is released.
            change.fields.update(eligible_us=0, accrue_us=0)
        return 0
    if waits:
        change.fields.update(eligible_us=0, accrue_us=0, reason=int(Reason.BeginTime))
    elif not change.job.waits_for_proof:
        change.fields.update(eligible_us=change.context.now_us, accrue_us=change.context.now_us)
        if change.job.reason == Reason.BeginTime:
            change.fields["reason"] = int(Reason.NONE)
    return 0


@while_pending
def reset_accrual(change: Change, value: str) -> int:
    """Let the age of an eligible job count from now."""
    if change.job.accrue_us:
        change.fields["accrue_us"] = change.context.now_us
    return 0


def deadline(change: Change, value: str) -> int:
    """Set the deadline, which must be to come; 0 for none. Only operators may.

    It means nothing once the job runs.
    """
    if not change.is_pending:
        return 0 if change.context.caller.is_operator else Errno.ESLURM_ACCESS_DENIED
    code = moment("deadline_us")(change, value)
    # Dates as typed have whole seconds: `now` has passed, but not by a second.
    if not code and 0 < int(value) <= change.context.now_us - SECOND_US:
        return Errno.ESLURM_INVALID_TIME_VALUE
    if not code and not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    return code


@while_pending
def dependency(change: Change, value: str) -> int:
    """Replace what the job waits for."""
    parsed = dependency_text.for_update(change.cluster, change.job, value)
    if isinstance(parsed, Reject):
        return parsed.code
    terms, is_any = parsed
    renewed = msgspec.structs.replace(
        change.job, dependencies=terms, dependency_any=is_any, reason=0
    )
    now_us = change.context.now_us
    terms, is_never = dependencies.judge(change.cluster, renewed, dependencies.Ends(), now_us)
    change.fields["dependencies"] = msgspec.to_builtins(terms)
    change.fields["dependency_any"] = is_any
    change.request["dependency"] = value
    if change.job.priority == 0:
        if terms:
            change.fields.update(eligible_us=0, accrue_us=0)  # as for a begin time: see `begin`
        return 0
    if terms:
        why = Reason.DependencyNeverSatisfied if is_never else Reason.Dependency
        change.fields.update(eligible_us=0, accrue_us=0, reason=int(why))
    elif change.job.reason in (Reason.Dependency, Reason.DependencyNeverSatisfied):
        later = change.job.begin_us > change.context.now_us
        change.fields["reason"] = int(Reason.BeginTime if later else Reason.NONE)
    return 0
