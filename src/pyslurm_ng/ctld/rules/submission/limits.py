"""Limits of associations and QOS that refuse a job at submission.

These are the number of jobs that may be submitted and, with the QOS flag DenyOnLimit, what one job
may ask for. Because of any other limit a job waits, with a reason that the scheduler sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.submission.account import Standing, enforced, lineage
from pyslurm_ng.model.amounts import requested_tres
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.job_counts import Submitter
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.limits.relative import absolute_qos

Applies: TypeAlias = Callable[[Submitter], bool]
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
    qualities = _qualities(cluster, standing, partition)
    if _too_many_submitted(cluster, standing, qualities, context.caller.uid, tasks):
        return _POLICY
    if not _denies(qualities, context):
        return None
    amounts = _wanted(request, partition, context)
    holders = _holders(cluster, standing, qualities).values()
    return (
        _POLICY if any(_too_large(limits, amounts, time_limit_min) for limits in holders) else None
    )


def check_together(
    cluster: Cluster,
    components: Iterable[tuple[JobRequest, Partition, Standing]],
    context: Context,
) -> Reject | None:
    """Return why all components of a heterogeneous job break a limit that none breaks alone."""
    if "limits" not in enforced(context.conf):
        return None
    asked: dict[tuple[str | int, str], Counter[str]] = {}
    for request, partition, standing in components:
        qualities = _qualities(cluster, standing, partition)
        if not _denies(qualities, context):
            continue
        amounts = _wanted(request, partition, context)
        for name, limits in _holders(cluster, standing, qualities).items():
            for whose, allowed in _shared(limits, standing.account):
                total = asked.setdefault((name, whose), Counter())
                total.update({tres: amounts.get(tres, 0) for tres in allowed})
                if any(total[tres] > amount for tres, amount in allowed.items()):
                    return _POLICY
    return None


def _shared(limits: Limits, account: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield what all jobs of a group, a user or an account may have together, and whose it is."""
    yield "group", limits.grp_tres
    yield "user", limits.max_tres_per_user
    yield f"account {account}", limits.max_tres_per_account


def _denies(qualities: Iterable[Qos], context: Context) -> bool:
    """Return whether what breaks a limit for ever is refused at submission."""
    denies = any("DenyOnLimit" in qos.flags for qos in qualities)
    return denies or context.conf.enforce_part_limits != "NO"


def _holders(
    cluster: Cluster, standing: Standing, qualities: Iterable[Qos]
) -> dict[str | int, Limits]:
    """Return the limits that concern a job: of QOS by name, of associations by id."""
    amounts = absolute_qos(cluster)
    holders: dict[str | int, Limits] = {qos.name: amounts[qos.name].limits for qos in qualities}
    for assoc in lineage(cluster, standing.assoc):
        holders[assoc.assoc_id] = assoc.limits
    return holders


def _wanted(request: JobRequest, partition: Partition, context: Context) -> dict[str, int]:
    amounts = dict(requested_tres(request, partition, context.conf.tracked_tres()))
    amounts["node"] = max(amounts["node"], 1)
    return amounts


def _qualities(cluster: Cluster, standing: Standing, partition: Partition) -> list[Qos]:
    """Return the QOS of the partition and of the job, the one whose limits come first before."""
    own, other = standing.qos_record, cluster.qos.get(partition.qos)
    qos_pair = [own, other] if own is not None and "OverPartQOS" in own.flags else [other, own]
    return [
        qos for index, qos in enumerate(qos_pair) if qos is not None and qos not in qos_pair[:index]
    ]


def _too_large(limits: Limits, amounts: Mapping[str, int], time_limit_min: int) -> bool:
    """Return whether one job alone is beyond what a job, a group or a user may have."""
    if limits.max_wall_min != INFINITE and time_limit_min > limits.max_wall_min:
        return True
    for most in (limits.max_tres_per_job, *dict(_shared(limits, "")).values()):
        if any(amounts.get(name, 0) > amount for name, amount in most.items()):
            return True
    nodes = max(1, amounts.get("node", 1))
    if any(
        -(-amounts.get(name, 0) // nodes) > amount
        for name, amount in limits.max_tres_per_node.items()
    ):
        return True
    if time_limit_min < NO_VAL and any(
        amounts.get(name, 0) * time_limit_min > amount
        for name, amount in limits.max_tres_mins_per_job.items()
    ):
        return True
    return any(amounts.get(name, 0) < amount for name, amount in limits.min_tres_per_job.items())


def _too_many_submitted(
    cluster: Cluster, standing: Standing, qualities: Sequence[Qos], uid: int, tasks: int
) -> bool:
    """Return whether `tasks` more jobs are more than may be queued and running at once."""
    return any(
        limit != INFINITE and _count(cluster, whose, applies) + tasks > limit
        for limit, whose, applies in _submit_limits(cluster, standing, qualities, uid)
    )


def _submit_limits(
    cluster: Cluster, standing: Standing, qualities: Sequence[Qos], uid: int
) -> Iterator[tuple[int, int | None, Applies]]:
    """Yield each limit, the user whose jobs count against it (None: all users), and which jobs
    count.

    Of several limits on a user or account only the first that is set counts; of limits on groups
    all count.
    """
    account = standing.account
    of_user = of_account = False  # a QOS has set it
    for record in qualities:
        limits, applies = record.limits, _in_qos(cluster, record.name)
        yield limits.grp_submit, None, applies
        if not of_user:
            yield limits.max_submit, uid, applies
        if not of_account:
            yield limits.max_submit_per_account, None, _of_account(applies, account)
        of_user = of_user or limits.max_submit != INFINITE
        of_account = of_account or limits.max_submit_per_account != INFINITE
    above = lineage(cluster, standing.assoc)
    most = next((level.limits.max_submit for level in above if level.limits.max_submit != INFINITE),
                INFINITE)  # fmt: skip
    if above and not of_user:
        yield most, uid, _in_assocs(frozenset((above[0].assoc_id,)))
    for assoc in above:
        if assoc.limits.grp_submit != INFINITE:
            below = _below(cluster, assoc.assoc_id)
            yield assoc.limits.grp_submit, None, _in_assocs(below)


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


def _count(cluster: Cluster, uid: int | None, applies: Applies) -> int:
    """Return how many queued and running jobs, tasks of arrays counted singly, a test holds for."""
    return sum(
        count
        for submitter, count in cluster.job_counts.submitted.items()
        if uid in (None, submitter.uid) and applies(submitter)
    )
