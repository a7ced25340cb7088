"""When the passing of time may settle a dependency of each waiting job: `after:ID+minutes`.

Without it every second would walk through all dependencies of all waiting jobs. A job is looked at
when an event has changed it or one that it waits for, and when the earliest of its moments comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.touched import EVERYTHING, touched_jobs


class DependencyIndex:
    """Soft state: made from the Cluster at the start, and kept by the events that it is shown."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed: dict[int, None] = dict.fromkeys(cluster.job_index.ineligible)
        self._timed: set[int] = set()  # jobs with a term that time may settle
        self._moments: list[tuple[int, int]] = []  # (time, job id), a heap; stale ones do no harm

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note which jobs to look at."""
        cluster = self._cluster
        for event in events:
            job_ids = touched_jobs(event)
            if job_ids == EVERYTHING:
                self._changed = dict.fromkeys(cluster.job_index.ineligible)
                continue
            for job_id in job_ids:
                if job_id in cluster.job_index.ineligible:
                    self._changed[job_id] = None
                if self._timed:
                    self._note_dependents(job_id)

    def _note_dependents(self, job_id: int) -> None:
        cluster = self._cluster
        job = cluster.jobs.get(job_id)
        for target in {job_id, job.array_job_id if job is not None else 0}:
            for waiting in cluster.job_index.dependents.get(target, ()):
                if waiting in self._timed:
                    self._changed[waiting] = None

    def due(self, now_us: int, spared: Spared = raise_it) -> list[int]:
        """Return the jobs of which a term may be settled now.

        A job is returned each time until an event has changed it; one about whose terms nothing
        can be said, `spared` is told of.
        """
        moments, cluster = self._moments, self._cluster
        while moments and moments[0][0] <= now_us:
            self._changed[heappop(moments)[1]] = None
        job_ids: list[int] = []
        for job_id in self._changed:
            self._timed.discard(job_id)
            if job_id not in cluster.job_index.ineligible:
                continue
            job = cluster.jobs[job_id]
            try:
                if not any(map(dependency.is_timed, job.dependencies)):
                    continue
                self._timed.add(job_id)
                when_us = dependency.settles_at_us(cluster, job)
            except Exception as error:  # noqa: BLE001 - it costs this job only
                spared(f"dependencies of job {job_id}", error)
                continue
            if when_us is None:
                continue
            if when_us > now_us:
                heappush(moments, (when_us, job_id))
            else:
                job_ids.append(job_id)
        self._changed = dict.fromkeys(job_ids)
        return job_ids
