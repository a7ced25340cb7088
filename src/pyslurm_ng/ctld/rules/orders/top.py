"""`scontrol top`: jobs of one queue change places by changing their nice values.

A queue here is what Slurm's manual says: pending jobs of one user, partition, account and QOS that
name a single partition. The present priorities of the user's jobs are dealt out again, to the named
jobs first, so that no other user gains or loses.
"""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.orders.job_orders import Steering
from pyslurm_ng.ctld.rules.permission import is_privileged
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from pyslurm_ng.model.task_ranges import TaskRanges
from pyslurm_ng.sched.frame.job_views import waiting_record
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import outline
from pyslurm_ng.wire.query_messages import TopJobs

Queue = tuple[int, str, str, str]


def top_jobs(cluster: Cluster, request: TopJobs, context: Context) -> Decision | Reject:
    """Put jobs before all others of their queues, in the order in which they are named."""
    steering = Steering(cluster, context)
    named: dict[Queue, list[Job]] = {}

    def act(job: Job, tasks: TaskRanges) -> int:
        refusal = _refusal(cluster, job, tasks, context)
        if not refusal:
            named.setdefault(_queue(job), []).append(job)
        return refusal

    steering.by_id(request.jobs, act)
    if named:
        ranking = Ranking(outline(cluster, context.now_us), policy(context.conf))
        queues = _queues(cluster, named)
        for key, first in named.items():
            _deal(steering, ranking, first, queues[key])
    return steering.decision()


def _refusal(cluster: Cluster, job: Job, tasks: TaskRanges, context: Context) -> int:
    caller = context.caller
    if not is_privileged(cluster, job, caller):
        is_open = has_option(context.conf.scheduler_parameters, "enable_user_top")
        if not is_open or job.uid != caller.uid:
            return Errno.ESLURM_ACCESS_DENIED
    if job.state != JobState.PENDING:
        return Errno.ESLURM_JOB_NOT_PENDING
    if job.priority == 0:
        return Errno.ESLURM_JOB_HELD
    is_movable = job.priority == NO_VAL and "," not in job.partition
    if not is_movable or tasks or job.het_job_id or job.partition not in cluster.partitions:
        return Errno.ESLURM_NOT_SUPPORTED
    return 0


def _queue(job: Job) -> Queue:
    return job.uid, job.partition, job.account, job.qos


def _queues(cluster: Cluster, top_jobs: dict[Queue, list[Job]]) -> dict[Queue, list[Job]]:
    """Return the jobs that can change places, by queue."""
    queues: dict[Queue, list[Job]] = {key: [] for key in top_jobs}
    for job_id in cluster.job_index.pending:
        job = cluster.jobs[job_id]
        queue = queues.get(_queue(job))
        if queue is not None and job.priority == NO_VAL and not job.het_job_id:
            queue.append(job)
    return queues


def _deal(steering: Steering, ranking: Ranking, first: list[Job], queue: list[Job]) -> None:
    """Give the jobs of a queue each other's priorities, the largest to those in `first`."""
    cluster = steering.cluster
    partition = cluster.partitions[queue[0].partition]
    has = {job.job_id: ranking.priority(waiting_record(cluster, job), partition) for job in queue}
    queue.sort(key=lambda job: (-has[job.job_id], job.submit_us, job.job_id))
    chosen = list({job.job_id: job for job in first}.values())
    ids = {job.job_id for job in chosen}
    order = chosen + [job for job in queue if job.job_id not in ids]
    gets, before = 0, order[0]
    for index, (job, owner) in enumerate(zip(order, queue, strict=True)):
        most = has[owner.job_id]
        if index:
            # Of two jobs with the same priority the older goes first: one that is to go behind a
            # younger gets less.
            is_younger = (before.submit_us, before.job_id) < (job.submit_us, job.job_id)
            most = min(most, gets if is_younger else gets - 1)
        gets, before = most, job
        if gets != has[job.job_id]:
            steering.update(job, (), {"nice": job.nice + has[job.job_id] - gets})


__all__ = ["top_jobs"]
