"""Limits of associations and QOS that refuse a job at submission, or bound what it left open.

These are the number of jobs that may be submitted and, with the QOS flag DenyOnLimit, what one job
may ask for. Because of any other limit a job waits, with a reason that the scheduler sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.submission.account import Standing, enforced, lineage
from pyslurm_ng.model.amounts import requested_tres
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.job_counts import Submitter
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.measures import Ask
from pyslurm_ng.sched.limits import standing as of_limits
from pyslurm_ng.sched.limits.broken_limits import broken_alone
from pyslurm_ng.sched.limits.precedence import Kind
from pyslurm_ng.sched.limits.relative import absolute_qos
from pyslurm_ng.sched.limits.running_amounts import Counter, Used

Applies: TypeAlias = Callable[[Submitter], bool]
_ON_AMOUNTS = (Kind.HELD, Kind.JOB, Kind.NODE, Kind.LEAST)


class _Owner(NamedTuple):
    """Whose job it would be."""

    qos: str
    uid: int
    account: str
    assoc_id: int
    user_name: str


class _SubmitLimit(NamedTuple):
    """A limit on queued or running jobs: whose jobs count (None: all users'), and which."""

    limit: int
    reason: Reason
    uid: int | None
    applies: Applies

    def counts(self, submitter: Submitter) -> bool:
        """Return whether a submitter's jobs count."""
        return self.uid in (None, submitter.uid) and self.applies(submitter)


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
    under = _under(cluster, standing, partition, context)
    reason = _too_many_submitted(cluster, standing, under.qos, context.caller.uid, tasks)
    if reason is None and _denies(under.qos, context):
        ask = ask_of(request, partition, time_limit_min, context)
        wait = next(broken_alone(under, ask, {}), None)
        reason = wait.reason if wait is not None else None
    return _refusal(reason) if reason is not None else None


def refuses_move(
    cluster: Cluster,
    job: Job,
    request: JobRequest,
    partition: Partition,
    standing: Standing,
    tasks: int,
    context: Context,
) -> bool:
    """Return whether a waiting job may not get another account, QOS or partition.

    As in Slurm 22.05, limits on times and minutes refuse none, and where the job counts already it
    counts no second time.

    Args:
        request: what it asks for by then.
        tasks: how many jobs it counts for.
    """
    if "limits" not in enforced(context.conf):
        return False
    owner = Caller(job.uid, job.gid, job.user_name)
    under = _under(cluster, standing, partition, msgspec.structs.replace(context, caller=owner))
    counted = Submitter(job.uid, job.assoc_id, job.account, job.qos, job.partition)
    if _too_many_submitted(cluster, standing, under.qos, job.uid, tasks, counted) is not None:
        return True
    if not any("DenyOnLimit" in qos.flags for qos in under.qos):
        return False
    ask = ask_of(request, partition, NO_VAL, context)
    return next(broken_alone(under, ask, {}, kinds=_ON_AMOUNTS), None) is not None


def check_together(
    cluster: Cluster,
    components: Iterable[tuple[JobRequest, Partition, Standing]],
    context: Context,
) -> Reject | None:
    """Return why all components of a heterogeneous job break a limit that none breaks alone."""
    if "limits" not in enforced(context.conf):
        return None
    used: dict[Counter, Used] = {}
    for request, partition, standing in components:
        under = _under(cluster, standing, partition, context)
        if not _denies(under.qos, context):
            continue
        ask = ask_of(request, partition, NO_VAL, context)
        wait = next(broken_alone(under, ask, used, kinds=(Kind.HELD,)), None)
        if wait is not None:
            return _refusal(wait.reason)
        for counter, _ in under.counters():
            used.setdefault(counter, Used()).add(ask, 0)
    return None


def longest_min(
    cluster: Cluster,
    request: JobRequest,
    partitions: Iterable[Partition],
    standing: Standing,
    context: Context,
) -> int:
    """Return for how long a job that asked for no time limit may run in each of its partitions.

    Slurm gives it what MaxWall and MaxTRESMinsPerJob leave; INFINITE where they are not set.
    """
    least = INFINITE
    if "limits" not in enforced(context.conf):
        return least
    for partition in partitions:
        under = _under(cluster, standing, partition, context)
        for rule in under.rules:
            if rule.spec.kind == Kind.JOB_WALL:
                least = min(least, rule.limit)
            elif rule.spec.kind == Kind.JOB_MINUTES and rule.most is not None:
                amounts = ask_of(request, partition, INFINITE, context).amounts
                for tres, most in rule.most.items():
                    if 0 < amounts.get(tres, 0) <= most:
                        least = min(least, most // amounts[tres])
    return least


def most_nodes(
    cluster: Cluster,
    request: JobRequest,
    partitions: Iterable[Partition],
    standing: Standing,
    context: Context,
) -> int:
    """Return how many nodes a job may have at most in each of its partitions."""
    least = INFINITE
    if "limits" not in enforced(context.conf):
        return least
    for partition in partitions:
        for rule in _under(cluster, standing, partition, context).rules:
            if rule.spec.kind in (Kind.JOB, Kind.HELD) and rule.most is not None:
                least = min(least, rule.most.get("node", INFINITE))
    return least


def _under(
    cluster: Cluster, standing: Standing, partition: Partition, context: Context
) -> of_limits.Standing:
    """Return the limits that a job would be under."""
    caller = context.caller
    owner = _Owner(standing.qos, caller.uid, standing.account, standing.assoc_id, caller.user_name)
    return of_limits.standing_of(cluster.assocs, absolute_qos(cluster), owner, partition)


def _refusal(reason: Reason) -> Reject:
    return Reject(Errno.ESLURM_ACCOUNTING_POLICY, reason.name)


def _denies(qualities: Iterable[Qos], context: Context) -> bool:
    """Return whether what breaks a limit for ever is refused at submission."""
    denies = any("DenyOnLimit" in qos.flags for qos in qualities)
    return denies or context.conf.enforce_part_limits != "NO"


def ask_of(request: JobRequest, partition: Partition, time_limit_min: int, context: Context) -> Ask:
    """Return what a job asks for as limits measure it."""
    tracked = context.conf.tracked_tres()
    amounts = dict(requested_tres(request, partition, tracked))
    amounts["node"] = max(amounts["node"], 1)
    limit_min = INFINITE if time_limit_min >= NO_VAL else time_limit_min
    return Ask(amounts, partition, limit_min)


def _too_many_submitted(
    cluster: Cluster,
    standing: Standing,
    qualities: Sequence[Qos],
    uid: int,
    tasks: int,
    counted: Submitter | None = None,
) -> Reason | None:
    """Return why `tasks` more jobs are more than may be queued and running at once.

    Args:
        counted: whose jobs they are counted as so far; None: they are new.
    """
    for limit in _submit_limits(cluster, standing, qualities, uid):
        is_new = counted is None or not limit.counts(counted)
        if limit.limit != INFINITE and is_new and _count(cluster, limit) + tasks > limit.limit:
            return limit.reason
    return None


def _submit_limits(
    cluster: Cluster, standing: Standing, qualities: Sequence[Qos], uid: int
) -> Iterator[_SubmitLimit]:
    """Yield each limit on queued and running jobs.

    Of several only the first that is set counts, but of associations all limits on groups.
    """
    account = standing.account
    of_group = of_user = of_account = False  # a QOS sets it, so the association's does not count
    for record in qualities:
        limits, applies = record.limits, _in_qos(cluster, record.name)
        own = _of_account(applies, account)
        if not of_group:
            yield _SubmitLimit(limits.grp_submit, Reason.QOSGrpSubmitJobsLimit, None, applies)
        if not of_account:
            most = limits.max_submit_per_account
            yield _SubmitLimit(most, Reason.MaxSubmitJobsPerAccount, None, own)
        if not of_user:
            most = limits.max_submit
            yield _SubmitLimit(most, Reason.QOSMaxSubmitJobPerUserLimit, uid, applies)
        of_group = of_group or limits.grp_submit != INFINITE
        of_user = of_user or limits.max_submit != INFINITE
        of_account = of_account or limits.max_submit_per_account != INFINITE
    above = lineage(cluster, standing.assoc)
    for level, assoc in enumerate(above):
        if assoc.limits.grp_submit != INFINITE and not of_group:
            below = _below(cluster, assoc.assoc_id)
            most = assoc.limits.grp_submit
            yield _SubmitLimit(most, Reason.AssocGrpSubmitJobsLimit, None, _in_assocs(below))
        if level == 0 and not of_user:
            most = of_limits.first_set(upper.limits.max_submit for upper in above)
            own = _in_assocs(frozenset((assoc.assoc_id,)))
            yield _SubmitLimit(most, Reason.AssocMaxSubmitJobLimit, uid, own)


def _in_qos(cluster: Cluster, name: str) -> Applies:
    """Return a test of the jobs that count in a QOS: by the job's QOS, or by a partition's."""
    names = frozenset(
        partition.name for partition in cluster.partitions.values() if partition.qos == name
    )

    def applies(submitter: Submitter) -> bool:
        if submitter.qos == name:
            return True
        return bool(names) and not names.isdisjoint(submitter.partition.split(","))

    return applies


def _of_account(applies: Applies, account: str) -> Applies:
    return lambda submitter: submitter.account == account and applies(submitter)


def _in_assocs(ids: frozenset[int]) -> Applies:
    return lambda submitter: submitter.assoc_id in ids


def _below(cluster: Cluster, assoc_id: int) -> frozenset[int]:
    """Return an association's id with those of all below it."""
    children: dict[int, list[int]] = {}
    for assoc in cluster.assocs.values():
        children.setdefault(assoc.parent_id, []).append(assoc.assoc_id)
    below: dict[int, None] = {}
    queue = [assoc_id]
    while queue:
        above_id = queue.pop()
        if above_id not in below:
            below[above_id] = None
            queue += children.get(above_id, [])
    return frozenset(below)


def _count(cluster: Cluster, limit: _SubmitLimit) -> int:
    """Return how many queued and running jobs count, tasks of arrays singly."""
    submitted = cluster.job_counts.submitted
    return sum(count for submitter, count in submitted.items() if limit.counts(submitter))
