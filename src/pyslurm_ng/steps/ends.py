"""How steps end, from what their nodes report: one set of rules for slurmctld and step managers.

Pure, and safe to hear twice.
"""

from __future__ import annotations

from pyslurm_ng.base.numbers import (
    END_OUT_OF_MEMORY,
    END_OVER_MEMORY,
    INFINITE,
    MINUTE_US,
    NO_VAL,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import Job, Step
from pyslurm_ng.model.states import JobState
from pyslurm_ng.model.usage import merge
from pyslurm_ng.wire import node_messages as nm


def step_end_state(status: int, flags: int) -> JobState:
    """Return the state of a step: one killed by a signal counts as cancelled, as in Slurm."""
    if flags & END_OUT_OF_MEMORY:
        return JobState.OUT_OF_MEMORY
    if status & 0x7F:
        return JobState.CANCELLED
    return JobState.FAILED if status else JobState.COMPLETED


def step_ended(node_id: int, job: Job, report: nm.StepEnded, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows when a node says that its part of a step is over."""
    step = job.steps.get(report.step_id)
    if step is None or node_id not in step.nodes_pending:
        return []
    state = step_end_state(report.status, report.flags)
    if state == JobState.CANCELLED and has_passed_limit(step, now_us):
        state = JobState.TIMEOUT
    if step.nodes_pending != (node_id,):
        return [
            ev.StepNodesDone(
                time_us=now_us,
                job_id=job.job_id,
                step_id=step.step_id,
                node_ids=(node_id,),
                exit_code=report.status,
                state=state,
                usage=report.usage,
            )
        ]
    return [_whole_step_ended(job, step, report, state, now_us)]


def _whole_step_ended(
    job: Job, step: Step, report: nm.StepEnded, state: JobState, now_us: int
) -> ev.StepEnded:
    if state == JobState.COMPLETED:
        state = JobState(step.end_state)
    usage = step.usage
    if report.usage is not None:
        usage = merge(usage, report.usage)
    return ev.StepEnded(
        time_us=now_us,
        job_id=job.job_id,
        step_id=step.step_id,
        state=state,
        exit_code=max(step.exit_code, report.status),
        usage=usage,
        end_us=reported_end_us(step, report.end_us, now_us),
        cancelled_by=killer(step, report.flags, state),
    )


def reported_end_us(step: Step, reported_us: int, now_us: int) -> int:
    """Return when a step ended by its node's clock, within what ours allows."""
    return min(max(reported_us, step.start_us or step.created_us), now_us) if reported_us else 0


def killer(step: Step, flags: int, state: JobState) -> int:
    """Return the user that ended a step: root, for the node, if it used more memory than it had."""
    if flags & END_OVER_MEMORY:
        return 0
    return step.cancelled_by if state == JobState.CANCELLED else NO_VAL


def nodes_left(
    job: Job, step: Step, node_ids: tuple[int, ...], exit_code: int, state: JobState, now_us: int
) -> list[ev.AnyEvent]:
    """Return the events when a step has nothing left on some of its nodes."""
    if not node_ids:
        return []
    if set(step.nodes_pending) - set(node_ids):
        return [
            ev.StepNodesDone(
                time_us=now_us,
                job_id=job.job_id,
                step_id=step.step_id,
                node_ids=node_ids,
                exit_code=exit_code,
                state=state,
            )
        ]
    ended = ev.StepEnded(
        time_us=now_us,
        job_id=job.job_id,
        step_id=step.step_id,
        state=state,
        exit_code=max(step.exit_code, exit_code),
        usage=step.usage,
    )
    return [ended]


def step_end_us(step: Step) -> int:
    """Return when a step's own limit passes; 0 for a step without, or one that is over."""
    if step.time_limit_min in (INFINITE, NO_VAL) or step.step_id >= STEP_INTERACTIVE:
        return 0
    return step.start_us + step.time_limit_min * MINUTE_US if step.nodes_pending else 0


def has_passed_limit(step: Step, now_us: int) -> bool:
    """Return whether a step has run for as long as its own limit (srun -t) allows."""
    return 0 < step_end_us(step) <= now_us
