"""`scontrol update step`: the time limit of steps that run."""

from __future__ import annotations

from pyslurm_ng.base import units
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, SIGNAL_TIME_LIMIT
from pyslurm_ng.ctld.job_filter import JobFinder
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.rules.steps.steps import kill_step
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import Job, Step, is_completing
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.query_messages import JobsChanged, UpdateStep


def update_step(cluster: Cluster, request: UpdateStep, context: Context) -> Decision | Reject:
    """Give a step, or all steps of a job, another time limit; one that has passed ends it."""
    try:
        name = parse_job_id(request.step)
    except JobIdError:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    events: list[ev.AnyEvent] = []
    late: list[tuple[Job, Step]] = []
    for job, _ in JobFinder(cluster).find(name):
        if job.state not in (JobState.RUNNING, JobState.SUSPENDED) or is_completing(job):
            continue
        if not may_change(cluster, job, context.caller):
            return Reject(Errno.ESLURM_USER_ID_MISSING)
        for step in job.steps.values():
            if name.step not in (-1, step.step_id):
                continue
            try:
                limit = units.changed_time_limit_min(request.time_limit, step.time_limit_min)
            except units.UnitError:
                return Reject(Errno.ESLURM_INVALID_TIME_LIMIT)
            events.append(ev.StepUpdated(context.now_us, job.job_id, step.step_id, limit))
            if _has_passed(step, limit, context.now_us):
                late.append((job, step))
    if not events:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    duty_id = cluster.next_duty_id
    for job, step in late:
        events += kill_step(cluster, job, step, context.now_us, SIGNAL_TIME_LIMIT, duty_id)
        duty_id += len(step.nodes_pending)
    return Decision(events=events, reply=JobsChanged(count=1, errors=[]))


def _has_passed(step: Step, limit: int, now_us: int) -> bool:
    """Return whether this limit has passed already: timers look only at limits that are to come."""
    if limit == INFINITE or step.step_id >= STEP_INTERACTIVE or not step.nodes_pending:
        return False
    return step.start_us + limit * MINUTE_US <= now_us
