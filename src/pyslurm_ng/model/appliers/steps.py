"""How each event of a step changes its job."""

from __future__ import annotations

import copy

from .. import events as ev
from ..cluster import Cluster
from ..ids import STEP_BATCH, STEP_INTERACTIVE
from ..states import JobState
from ..usage import merge
from .registry import applies


@applies(ev.StepCreated)
def _step_created(cluster: Cluster, event: ev.StepCreated) -> None:
    job = cluster.jobs[event.job_id]
    step = event.step
    assert step.step_id not in job.steps, step
    # The event's record must not change with ours: followers may still hold it.
    if not job.steps:
        job.steps = {}
    job.steps[step.step_id] = copy.copy(step)
    if step.step_id < STEP_INTERACTIVE:
        job.next_step_id = max(job.next_step_id, step.step_id + 1)


@applies(ev.StepUpdated)
def _step_updated(cluster: Cluster, event: ev.StepUpdated) -> None:
    cluster.jobs[event.job_id].steps[event.step_id].time_limit_min = event.time_limit_min


@applies(ev.StepEnded)
def _step_ended(cluster: Cluster, event: ev.StepEnded) -> None:
    job = cluster.jobs[event.job_id]
    job.steps.pop(event.step_id, None)
    if event.step_id < STEP_INTERACTIVE:
        job.derived_exit_code = max(job.derived_exit_code, event.exit_code)
    elif event.step_id == STEP_BATCH and not job.exit_code:
        # If a job is cancelled or timed out, the end of its script is known only afterwards.
        job.exit_code = event.exit_code


@applies(ev.StepNodesDone)
def _step_nodes_done(cluster: Cluster, event: ev.StepNodesDone) -> None:
    step = cluster.jobs[event.job_id].steps[event.step_id]
    step.nodes_pending = tuple(node for node in step.nodes_pending if node not in event.node_ids)
    step.exit_code = max(step.exit_code, event.exit_code)
    if event.state != JobState.COMPLETED:
        step.end_state = event.state
    if event.usage is not None:
        step.usage = merge(step.usage, event.usage)
