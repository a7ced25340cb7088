"""Steps that a job's own step manager has made and ended: what its node says -> events.

Nothing is decided here but whether that node may say so: the shares are of its job, and the events
are the same as for steps of the controller, so that listings and accounting know no difference.
Hearing the same news twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import DecodeError
from msgspec.structs import replace

from pyslurm_ng.base.numbers import REQ_STEPMGR
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import Job, Step
from pyslurm_ng.model.states import JobState
from pyslurm_ng.model.usage import merge
from pyslurm_ng.wire import node_messages as nm


def is_manager(job: Job, node_id: int) -> bool:
    """Return whether a node gives the steps of a job their shares."""
    return bool(job.request.flags & REQ_STEPMGR) and node_id == job.batch_node_id


def managed_steps(
    cluster: Cluster, node_id: int, job: Job, report: nm.ManagedSteps, now_us: int
) -> list[ev.AnyEvent]:
    """Return the events of the news of a step manager; nothing from any other node."""
    if not is_manager(job, node_id):
        return []
    try:
        news = nm.decode_news(report.news)
    except DecodeError:
        return []
    return _events(job, news, now_us)


def _events(job: Job, news: Iterable[nm.StepNews], now_us: int) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = []
    steps = dict(job.steps)  # as the events before leave them
    for step_news in news:
        if not 0 <= step_news.step_id <= STEP_INTERACTIVE:
            continue
        if step_news.step is not None:
            step = _allowed(job, step_news.step_id, step_news.step, now_us)
            if step is not None and step.step_id not in steps:
                steps[step.step_id] = step
                events.append(ev.StepCreated(now_us, job.job_id, step))
            continue
        known = steps.get(step_news.step_id)
        if known is None:
            continue
        event = _over(job, known, step_news, now_us)
        if isinstance(event, ev.StepEnded):
            del steps[step_news.step_id]
        elif event is not None:
            steps[step_news.step_id] = _less(known, event)
        if event is not None:
            events.append(event)
    return events


def _allowed(job: Job, step_id: int, step: Step, now_us: int) -> Step | None:
    """Return a step as it is recorded, None if it has what its job has not."""
    of_job = {alloc.node_id: alloc for alloc in job.nodes}
    if not step.nodes or len({alloc.node_id for alloc in step.nodes}) < len(step.nodes):
        return None
    for alloc in step.nodes:
        whole = of_job.get(alloc.node_id)
        if whole is None or not 0 <= alloc.cpus <= max(whole.cpus, whole.charged_cpus):
            return None
    return replace(
        step,
        step_id=step_id,
        uid=job.uid,
        state=JobState.RUNNING,
        created_us=min(max(step.created_us, job.start_us), now_us),
        start_us=min(max(step.start_us, job.start_us), now_us),
        nodes_pending=tuple(alloc.node_id for alloc in step.nodes),
        exit_code=0,
        usage=None,
        end_us=0,
        end_state=JobState.COMPLETED,
        ports=(),
    )


def _over(
    job: Job, step: Step, step_news: nm.StepNews, now_us: int
) -> ev.StepNodesDone | ev.StepEnded | None:
    """Return what follows from the end of a step, or of its part on some nodes."""
    node_ids = tuple(node_id for node_id in step_news.node_ids if node_id in step.nodes_pending)
    try:
        state = JobState(step_news.state)
    except ValueError:
        state = JobState.FAILED
    if not node_ids:
        return None
    if set(step.nodes_pending) - set(node_ids):
        return ev.StepNodesDone(
            time_us=now_us,
            job_id=job.job_id,
            step_id=step.step_id,
            node_ids=node_ids,
            exit_code=step_news.exit_code,
            state=state,
            usage=step_news.usage,
        )
    is_whole = {alloc.node_id for alloc in step.nodes} <= set(step_news.node_ids)
    usage = step_news.usage
    if not is_whole:
        state = JobState(step.end_state) if state == JobState.COMPLETED else state
        usage = merge(step.usage, usage) if usage is not None else step.usage
    return ev.StepEnded(
        time_us=now_us,
        job_id=job.job_id,
        step_id=step.step_id,
        state=state,
        exit_code=max(step.exit_code, step_news.exit_code),
        usage=usage,
        end_us=min(max(step_news.end_us, step.start_us), now_us) if step_news.end_us else 0,
        cancelled_by=step_news.cancelled_by,
    )


def _less(step: Step, event: ev.StepNodesDone) -> Step:
    """Return a step as it is after a part of it has ended."""
    pending = tuple(node_id for node_id in step.nodes_pending if node_id not in event.node_ids)
    usage = merge(step.usage, event.usage) if event.usage is not None else step.usage
    state = event.state if event.state != JobState.COMPLETED else step.end_state
    return replace(
        step,
        nodes_pending=pending,
        exit_code=max(step.exit_code, event.exit_code),
        end_state=state,
        usage=usage,
    )
