"""What the end of one component means for the others of its heterogeneous job.

The leader's end is the job's. So is anything else that happens to a component, with one exception:
if a running component is cancelled by itself, the others go on, unless SchedulerParameters has
whole_hetjob. Waiting components never outlive one another.
"""

from __future__ import annotations

from pyslurm_ng.base.numbers import (
    SIGNAL_CANCELLED,
    SIGNAL_NODE_FAIL,
    SIGNAL_REQUEUED,
    SIGNAL_TIME_LIMIT,
)
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobFlag, JobState, Reason

_WHY = {
    JobState.CANCELLED: SIGNAL_CANCELLED,
    JobState.TIMEOUT: SIGNAL_TIME_LIMIT,
    JobState.DEADLINE: SIGNAL_TIME_LIMIT,
    JobState.NODE_FAIL: SIGNAL_NODE_FAIL,
}
_KEPT_FLAGS = JobFlag.REQUEUED | JobFlag.REQUEUE_HOLD | JobFlag.SPECIAL_EXIT | JobFlag.LAUNCH_FAILED


def is_whole(conf: SlurmConf) -> bool:
    """Return whether SchedulerParameters lets every cancellation reach all components."""
    return has_option(conf.scheduler_parameters, "whole_hetjob")


def follow(cluster: Cluster, leader: int, now_us: int, *, whole: bool) -> list[ev.AnyEvent]:
    """Return the ends of components that follow from the ends of others; none if all is well.

    Decided from the state alone, so it may be asked again at any time, after a restart too.
    """
    parts = _parts(cluster, leader)
    alive = [part for part in parts if _is_alive(part)]
    if not alive or len(alive) == len(parts):
        return _requeue_rest(cluster, parts, now_us)
    cause = next((part for part in parts if not _is_alive(part) and _ends_all(part, whole)), None)
    if cause is None:
        return _requeue_rest(cluster, parts, now_us)
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for part in alive:
        if part.state == JobState.PENDING:
            if not cause.nodes:
                events += _end_waiting(cluster, part, cause, now_us)
            continue
        events += _end_running(cluster, part, cause, now_us, duty_id)
        duty_id += len(part.nodes)
    return events


def _parts(cluster: Cluster, leader: int) -> list[Job]:
    first = cluster.jobs.get(leader)
    if first is not None:
        return het_components(cluster, first)
    # The leader's record may have been purged.
    components = (job for job in cluster.jobs.values() if job.het_job_id == leader)
    return sorted(components, key=lambda job: job.het_offset)


def _is_alive(job: Job) -> bool:
    """Return whether a component waits or runs, and nothing has ended it."""
    if job.state == JobState.PENDING:
        return True
    return job.state in (JobState.RUNNING, JobState.SUSPENDED) and not is_completing(job)


def _ends_all(job: Job, whole: bool) -> bool:
    if not job.nodes or not job.het_offset or whole:
        return True
    return job.state != JobState.CANCELLED or bool(job.flags & JobFlag.REQUEUED)


def _end_waiting(cluster: Cluster, job: Job, cause: Job, now_us: int) -> list[ev.AnyEvent]:
    state = JobState(cause.state)
    ended = ev.JobEnded(
        time_us=now_us,
        job_id=job.job_id,
        state=state,
        exit_code=cause.exit_code,
        reason=cause.reason,
        cancelled_by=cause.cancelled_by,
    )
    return [ended, *dependency.after_end(cluster, job, state, cause.exit_code, now_us)]


def _end_running(
    cluster: Cluster, job: Job, cause: Job, now_us: int, duty_id: int
) -> list[ev.AnyEvent]:
    state, flags = JobState(cause.state), cause.flags & _KEPT_FLAGS
    return job_end.complete(
        cluster,
        job,
        job_end.End(
            state,
            exit_code=cause.exit_code,
            reason=Reason(cause.reason),
            flags=flags,
            cancelled_by=cause.cancelled_by,
            failed_node=cause.failed_node,
            duty_flags=SIGNAL_REQUEUED if flags & JobFlag.REQUEUED else _WHY.get(state, 0),
        ),
        now_us,
        first_duty_id=duty_id,
    )


def _requeue_rest(cluster: Cluster, parts: list[Job], now_us: int) -> list[ev.AnyEvent]:
    """Put running components back into the queue when others are there already."""
    running = [part for part in parts if _is_alive(part) and part.state != JobState.PENDING]
    if not running or not any(part.state == JobState.PENDING for part in parts):
        return []
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for part in running:
        events += job_end.complete(
            cluster,
            part,
            job_end.End(JobState.CANCELLED, flags=JobFlag.REQUEUED, duty_flags=SIGNAL_REQUEUED),
            now_us,
            first_duty_id=duty_id,
        )
        duty_id += len(part.nodes)
    return events
