"""Whether limits let a waiting job have another account, QOS or partition."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.queue import queue_room
from pyslurm_ng.ctld.rules.submission import limits
from pyslurm_ng.ctld.rules.submission.account import Standing
from pyslurm_ng.ctld.rules.update.job_change import Change
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.task_ranges import TaskRanges


def breaks_limits(change: Change, request: JobRequest, tasks: TaskRanges) -> bool:
    """Return whether limits keep a job from where an update moves it.

    Operators may move it there. What an update changes of a job that stays is never refused: the
    job waits with the limit's reason.

    Args:
        tasks: the waiting tasks that move; empty: all.
    """
    cluster, job = change.cluster, change.job
    account = str(change.fields.get("account", job.account))
    qos = str(change.fields.get("qos", job.qos))
    names = str(change.fields.get("partition", job.partition))
    is_moved = (account, qos, names) != (job.account, job.qos, job.partition)
    if not is_moved or not change.is_pending or change.context.caller.is_operator:
        return False
    partition = cluster.partitions.get(names.partition(",")[0])
    if partition is None:
        return False
    assoc_id = change.fields.get("assoc_id", job.assoc_id)
    assert isinstance(assoc_id, int)
    standing = Standing(account, qos, cluster.assocs.get(assoc_id), cluster.qos.get(qos))
    count = task_ranges.count(tasks) or queue_room.waiting_tasks(job)
    return limits.refuses_move(cluster, job, request, partition, standing, count, change.context)
