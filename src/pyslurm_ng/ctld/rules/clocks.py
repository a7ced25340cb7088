"""Moves recorded times after a clock was wrong, so that durations stay as they are.

A controller that finds its clock far ahead of the newest record cannot tell whether it was away for
so long or the clock has jumped. The nodes can: they count how long a job has run by a clock that
cannot be set.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire import node_messages as nm

TOLERANCE_US = MINUTE_US
"""What launches, prologs and reports may take is no sign of a wrong clock."""


def has_run(job: Job) -> bool:
    """Whether a job's run is under way, so that its time counts."""
    return job.state in (JobState.RUNNING, JobState.SUSPENDED) and not is_completing(job)


def all_moved(cluster: Cluster, now_us: int, shift_us: int) -> list[ev.AnyEvent]:
    """Return the event that moves all recorded times to a clock that shows `now_us`."""
    running = tuple(job_id for job_id in cluster.job_index.active if has_run(cluster.jobs[job_id]))
    return [ev.TimesMoved(now_us, shift_us, running, is_all=True)]


def run_times(
    cluster: Cluster,
    node_id: int,
    running: Sequence[nm.RunningJob],
    unsure: Collection[int],
    unknown_us: int,
    now_us: int,
) -> tuple[list[ev.AnyEvent], list[int]]:
    """Return the events for a node's report about its jobs, and the jobs with times then certain.

    Each job's time goes by its own nodes only: a node that lies harms no other node's jobs.

    Args:
        unsure: jobs without a known time since the controller's start.
        unknown_us: how far to move a job that its node knows nothing of: an allocation without
            steps.
    """
    reported = {
        (running_job.job_id, running_job.attempt): running_job.run_us for running_job in running
    }
    by_shift: dict[int, list[int]] = {}
    sure: list[int] = []
    for job_id in unsure:
        job = cluster.jobs.get(job_id)
        if job is None or not has_run(job) or _decider(job) != node_id:
            continue
        sure.append(job_id)
        run_us = reported.get((job_id, job.attempt), -1)
        shift_us = now_us - run_us - job.start_us if run_us >= 0 else unknown_us
        shift_us = min(shift_us, now_us - job.start_us)
        if abs(shift_us) > TOLERANCE_US:
            by_shift.setdefault(shift_us, []).append(job_id)
    events: list[ev.AnyEvent] = [
        ev.TimesMoved(now_us, shift_us, tuple(job_ids)) for shift_us, job_ids in by_shift.items()
    ]
    return events, sure


def _decider(job: Job) -> int:
    """Return the node that has been with a job from its start, as far as it still has it."""
    nodes = [alloc.node_id for alloc in job.nodes]
    if job.batch_node_id in nodes:
        return job.batch_node_id
    return nodes[0] if nodes else -1
