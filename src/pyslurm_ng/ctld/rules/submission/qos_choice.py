"""Which QOS of its list a waiting job has: the first one whose limits let it start now.

`-q high,low` is a list in the order of the QOS' priorities, whatever its order as typed. A job that
no QOS of its list lets start keeps the one that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.queue import queue_room
from pyslurm_ng.ctld.rules.submission import limits
from pyslurm_ng.ctld.rules.submission.account import Standing, enforced, in_order
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Limits


def has_list(job: Job) -> bool:
    """Return whether a job asked for several QOS."""
    return "," in job.request.qos


def changes(
    cluster: Cluster, waiting: Iterable[Waiting], in_force: Limits, context: Context
) -> list[ev.AnyEvent]:
    """Return which waiting jobs get another QOS of their list.

    Args:
        waiting: records of the last pass of jobs with a list.
        in_force: the limits as that pass has left them.
    """
    events: list[ev.AnyEvent] = []
    for record in waiting:
        job = cluster.jobs.get(record.job_id)
        if job is None or job.state != JobState.PENDING or not has_list(job):
            continue
        for name in _choices(cluster, job, context):
            if _lets_start(cluster, job, replace(record, qos=name), in_force, context):
                if name != job.qos:
                    events.append(ev.JobUpdated(context.now_us, job.job_id, {"qos": name}))
                break
    return events


def _choices(cluster: Cluster, job: Job, context: Context) -> Iterator[str]:
    """Yield what a job may have of its list, the QOS of highest priority first."""
    assoc = cluster.assocs.get(job.assoc_id)
    only = assoc.qos if assoc is not None and "qos" in enforced(context.conf) else ()
    for name in in_order(cluster, job.request.qos.split(",")):
        record = cluster.qos[name]
        if only and name not in only:
            continue
        if "RequiresReservation" in record.flags and not job.request.reservation:
            continue
        if all(_allows(partition, name) for partition in _partitions(cluster, job)):
            yield name


def _partitions(cluster: Cluster, job: Job) -> list[Partition]:
    names = job.partition.split(",")
    return [cluster.partitions[name] for name in names if name in cluster.partitions]


def _allows(partition: Partition, qos: str) -> bool:
    return qos not in partition.deny_qos and (not partition.allow_qos or qos in partition.allow_qos)


def _lets_start(
    cluster: Cluster, job: Job, record: Waiting, in_force: Limits, context: Context
) -> bool:
    """Return whether no limit stops a job in one of its partitions, if it has this record's QOS."""
    assoc, qos = cluster.assocs.get(job.assoc_id), cluster.qos[record.qos]
    standing = Standing(job.account, record.qos, assoc, qos)
    count = queue_room.waiting_tasks(job)
    for partition in _partitions(cluster, job):
        ask = limits.ask_of(job.request, partition, job.time_limit_min, context)
        if in_force.may_start(record, ask) is not None:
            continue
        if record.qos == job.qos or not limits.refuses_move(
            cluster, job, job.request, partition, standing, count, context
        ):
            return True
    return False
