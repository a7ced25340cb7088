"""Steps: a share of a running job for srun, and how steps and interactive jobs end.

`create_step` refuses with one of `WAIT_CODES` when the step could run later: the edge keeps the
request and asks again when the job has changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.hostlist import HostlistError, expand_of_user
from pyslurm_ng.base.numbers import (
    NO_VAL,
    REQ_STEPMGR,
    SIGKILL,
    SIGNAL_CANCELLED,
    SIGNAL_TIME_LIMIT,
    STEP_BESIDE_ALL,
)
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.rules.queue import dependency, queue_room
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import Job, Step, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState, Reason
from pyslurm_ng.steps.creation import WAIT_CODES, create, node_address, refusal_of_job
from pyslurm_ng.steps.ends import nodes_left, step_end_us
from pyslurm_ng.wire.step_messages import CompleteJob, CompleteStep, CreateStep, StepManagerAt

__all__ = ["WAIT_CODES", "create_step", "nodes_left"]


# Creating ---------------------------------------------------------------------------------------


def create_step(cluster: Cluster, message: CreateStep, context: Context) -> Decision | Reject:
    """Give a step its share of a job; `StepGranted` without credential.

    A job with a step manager of its own has its steps from there: `StepManagerAt` says where.
    """
    job = _job_of(cluster, message)
    if job is None:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    refusal = refusal_of_job(job, context.caller.uid)
    if refusal is not None:
        return refusal
    if job.request.flags & REQ_STEPMGR and not message.flags & STEP_BESIDE_ALL:
        node = cluster.node(job.batch_node_id)
        return Decision((), StepManagerAt(job.job_id, node.spec.name, node_address(node)))
    if _excludes_unknown(cluster, message.exclude):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    created = create(cluster, job, message, context.conf, context.now_us)
    if isinstance(created, Reject):
        return created
    step, granted = created
    refusal = queue_room.refusal(cluster, context, [queue_room.step_beyond_usual(step)])
    if refusal is not None:
        return refusal
    return Decision([ev.StepCreated(context.now_us, job.job_id, step)], granted)


def _excludes_unknown(cluster: Cluster, names: str) -> bool:
    """Return whether a list for --exclude has a node that the cluster has not got."""
    known = cluster.node_index.by_name
    try:
        return bool(names) and not known.keys() >= set(expand_of_user(names, len(known)))
    except HostlistError:
        return True


def _job_of(cluster: Cluster, message: CreateStep) -> Job | None:
    if message.array_task_id != NO_VAL:
        job_id = cluster.job_index.arrays.get(message.job_id, {}).get(message.array_task_id, -1)
        return cluster.jobs.get(job_id)
    return cluster.jobs.get(message.job_id)


# Ending -----------------------------------------------------------------------------------------


def complete_step(cluster: Cluster, message: CompleteStep, context: Context) -> Decision | Reject:
    """End the part of a step that could not be launched; nothing happens when it is known."""
    job = cluster.jobs.get(message.job_id)
    if job is None:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    if not may_change(cluster, job, context.caller):
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    step = job.steps.get(message.step_id)
    if step is None or step.step_id > STEP_INTERACTIVE:
        return Decision()
    names = set(message.nodes)
    gone = tuple(
        node_id
        for node_id in step.nodes_pending
        if (node := cluster.nodes[node_id]) is None or node.spec.name in names
    )
    return Decision(
        nodes_left(job, step, gone, message.exit_code, JobState.CANCELLED, context.now_us)
    )


def kill_step(
    cluster: Cluster,
    job: Job,
    step: Step,
    now_us: int,
    flags: int = SIGNAL_CANCELLED,
    first_duty_id: int = 0,
) -> list[ev.AnyEvent]:
    """Return the order to its nodes to end a step without its srun or past its time.

    Args:
        first_duty_id: where to number duties from; 0 for the cluster's next.
    """
    return [
        ev.JobSignalled(
            time_us=now_us,
            job_id=job.job_id,
            signal=SIGKILL,
            flags=flags,
            step_id=step.step_id,
            first_duty_id=first_duty_id or cluster.next_duty_id,
            node_ids=step.nodes_pending or tuple(alloc.node_id for alloc in step.nodes),
        )
    ]


def step_ends_us(job: Job) -> list[int]:
    """Return when `step_time_limits` may have something to say about a job."""
    if is_completing(job):
        return []
    return [end_us for step in job.steps.values() if (end_us := step_end_us(step))]


def step_time_limits(
    cluster: Cluster, limited: Iterable[int], last_us: int, now_us: int, first_duty_id: int
) -> list[ev.AnyEvent]:
    """Return the ends of steps that reached their limit (srun -t) since `last_us`.

    Only the moment of passing counts: nodes that have not obeyed yet still owe the duty.

    Args:
        limited: the jobs to look at.
    """
    events: list[ev.AnyEvent] = []
    duty_id = first_duty_id
    for job_id in limited:
        job = cluster.jobs[job_id]
        if is_completing(job):
            continue
        for step in job.steps.values():
            end_us = step_end_us(step)
            if not end_us or not last_us < end_us <= now_us:
                continue
            events.append(
                ev.JobSignalled(
                    time_us=now_us,
                    job_id=job_id,
                    signal=SIGKILL,
                    flags=SIGNAL_TIME_LIMIT,
                    step_id=step.step_id,
                    first_duty_id=duty_id,
                    node_ids=step.nodes_pending,
                )
            )
            duty_id += len(step.nodes_pending)
    return events


def complete_job(cluster: Cluster, message: CompleteJob, context: Context) -> Decision | Reject:
    """salloc or srun is done with its allocation; one that is still pending is revoked."""
    job = cluster.jobs.get(message.job_id)
    if job is None:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    if not may_change(cluster, job, context.caller):
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if job.state in TERMINAL_STATES or is_completing(job):
        return Reject(Errno.ESLURM_ALREADY_DONE)
    if job.script_hash:
        return Reject(Errno.ESLURM_BATCH_ONLY)
    return Decision(end_allocation(cluster, job, message.exit_code, context.now_us))


def end_allocation(
    cluster: Cluster, job: Job, exit_code: int, now_us: int, *, cancelled_by: int = NO_VAL
) -> list[ev.AnyEvent]:
    """Return the end of an interactive job: by its command's status, or cancelled.

    Before its nodes are ready no command has begun, so its user has given it up.
    """
    if cancelled_by == NO_VAL and (
        job.state == JobState.PENDING or job.flags & JobFlag.CONFIGURING
    ):
        cancelled_by = job.uid
    if job.state == JobState.PENDING:
        revoked = ev.JobEnded(
            time_us=now_us,
            job_id=job.job_id,
            state=JobState.CANCELLED,
            reason=job.reason,  # why it waited, as for scancel
            cancelled_by=cancelled_by,
        )
        return [revoked, *dependency.after_end(cluster, job, JobState.CANCELLED, 0, now_us)]
    if cancelled_by != NO_VAL:
        return job_end.complete(
            cluster,
            job,
            job_end.End(JobState.CANCELLED, cancelled_by=cancelled_by, duty_flags=SIGNAL_CANCELLED),
            now_us,
        )
    return job_end.complete(cluster, job, job_end.of_command(exit_code), now_us)


def end_inactive(cluster: Cluster, job: Job, now_us: int) -> list[ev.AnyEvent]:
    """Return the end of a running job whose command was gone for InactiveLimit."""
    return job_end.complete(
        cluster,
        job,
        job_end.End(JobState.TIMEOUT, reason=Reason.InactiveLimit, duty_flags=SIGNAL_CANCELLED),
        now_us,
    )
