"""Who takes room of pools next: jobs that are eligible, and the next tasks of arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.ctld.rules.buffers.directives import rounded
from pyslurm_ng.ctld.rules.buffers.pools import Pool, free_room
from pyslurm_ng.ctld.rules.job_parts import JobParts
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.frame.job_views import may_be_considered

USUAL_TASKS_AHEAD = 10
_MOST_TASKS_AHEAD = 1000  # each is a record of its own, and they are split off at once


def tasks_ahead_of(conf: SlurmConf) -> int:
    """Return how many waiting tasks of one array have burst buffers: bb_array_stage_cnt."""
    count = option_int(conf.scheduler_parameters, "bb_array_stage_cnt", USUAL_TASKS_AHEAD)
    return min(max(count, 1), _MOST_TASKS_AHEAD)


def concerned(cluster: Cluster, job_ids: Collection[int]) -> list[int]:
    """Return jobs with burst buffers, and what else waits of the arrays that they belong to."""
    jobs, buffers = cluster.jobs, cluster.buffers
    with_buffers = [job_id for job_id in job_ids if job_id in buffers]
    arrays = {jobs[job_id].array_job_id for job_id in with_buffers} - {0}
    if not arrays:
        return with_buffers
    others = (
        job_id
        for job_id, buffer in buffers.items()
        if buffer.state == BufferState.PENDING and jobs[job_id].array_job_id in arrays
    )
    return [*dict.fromkeys((*with_buffers, *others))]


class Room:
    """What is left while one decision gives it away; its events are not applied yet."""

    def __init__(
        self, cluster: Cluster, pools: Mapping[str, Pool], now_us: int, tasks_ahead: int
    ) -> None:
        """Count what jobs have taken.

        Args:
            tasks_ahead: how many tasks of one array may have burst buffers before they run.
        """
        self._pools = pools
        self._now_us = now_us
        self._tasks_ahead = tasks_ahead
        self._free = free_room(cluster.buffers.values(), pools)
        self._parts = JobParts(cluster, now_us)
        self._ahead: Counter[int] = Counter()  # by array
        for buffer in cluster.buffers.values():
            job = cluster.jobs[buffer.job_id]
            # A task that is held keeps no other one back.
            if job.array_job_id and buffer.holds_room and job.state == JobState.PENDING:
                self._ahead[job.array_job_id] += job.priority != 0

    def take(self, job: Job, buffer: Buffer) -> list[ev.AnyEvent]:
        """Take a burst buffer's room, if its job is eligible and its pool has so much.

        Tasks of an array take it one by one, each as a job of its own.
        """
        events: list[ev.AnyEvent] = []
        if job.state != JobState.PENDING or not may_be_considered(job):
            return events
        while self._may_take(job) and (size := self._taken(buffer)) is not None:
            splits = len(self._parts.events)
            job_id = self._parts.next_task(job)
            events += self._parts.events[splits:]
            own = replace(
                buffer,
                job_id=job_id,
                state=BufferState.STAGING_IN,
                created_us=self._now_us,
                size=size,
            )
            events.append(ev.BufferChanged(self._now_us, job_id, own))
            self._ahead[job.array_job_id] += 1
            if job_id == job.job_id:
                break
        return events

    def _may_take(self, job: Job) -> bool:
        """Return whether a job is none of an array, or its array has not enough tasks ahead."""
        if not job.array_job_id:
            return True
        # More than may run at once would only hold room.
        most = min(self._tasks_ahead, job.array_limit or self._tasks_ahead)
        return self._ahead[job.array_job_id] < most

    def _taken(self, buffer: Buffer) -> int | None:
        """Take room of a pool; return how much, None if there is not so much."""
        if not buffer.pool:
            return buffer.size
        pool = self._pools.get(buffer.pool)
        if pool is None:
            return None
        size = rounded(buffer.size, pool.granularity)
        if size > self._free[pool.name]:
            return None
        self._free[pool.name] -= size
        return size
