"""Splitting waiting array tasks off, so that a change reaches only them."""

from __future__ import annotations

from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job


class JobParts:
    """Hands out job ids in the order apply expects them, for the events of one decision."""

    def __init__(self, cluster: Cluster, now_us: int) -> None:
        self.cluster = cluster
        self.now_us = now_us
        self.events: list[ev.AnyEvent] = []
        self._next_job_id = cluster.next_job_id
        # What this decision's own splits leave of an array's record, since they are not applied.
        self.left: dict[int, task_ranges.TaskRanges] = {}
        self.claimed: set[int] = set()

    def record_id(self, job: Job, tasks: task_ranges.TaskRanges) -> int:
        """Return the id of the record that holds exactly `tasks` of `job`, splitting if needed.

        0 where this decision has split off all of them already: they were named twice.
        """
        pending = self.left.get(job.job_id, job.array_pending)
        if not tasks:
            return job.job_id
        tasks, rest = task_ranges.intersect(pending, tasks)
        if not tasks:
            return 0
        if not rest:
            return job.job_id
        self.left[job.job_id] = rest
        job_id = self.claim()
        single = len(tasks) == 1 and tasks[0][0] == tasks[0][1]
        self.events.append(
            ev.ArrayTaskSplit(
                time_us=self.now_us,
                array_job_id=job.job_id,
                task_id=tasks[0][0],
                job_id=job_id,
                tasks=() if single else tasks,
            )
        )
        return job_id

    def next_task(self, job: Job) -> int:
        """Return the id of a record of an array's first waiting task alone, splitting if needed.

        That of the job itself is the last one's, and that of a job without tasks.
        """
        pending = self.left.get(job.job_id, job.array_pending)
        task_id = pending[0][0] if pending else -1
        rest = task_ranges.remove(pending, task_id) if pending else ()
        if not rest:
            return job.job_id
        self.left[job.job_id] = rest
        job_id = self.claim()
        self.events.append(ev.ArrayTaskSplit(self.now_us, job.job_id, task_id, job_id))
        return job_id

    def claim(self) -> int:
        """Return the next free job id and keep it for this decision."""
        cluster = self.cluster
        job_id = self._next_job_id
        while job_id in cluster.jobs:
            job_id = self._after(job_id)
        self._next_job_id = self._after(job_id)
        self.claimed.add(job_id)
        return job_id

    def _after(self, job_id: int) -> int:
        return job_id + 1 if job_id < self.cluster.max_job_id else self.cluster.first_job_id
