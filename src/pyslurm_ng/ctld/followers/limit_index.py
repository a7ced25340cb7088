"""When the time limit of each running job is to be looked at next.

Without it every second would walk through all running jobs. Jobs that an event has changed are
looked at again at once; the others when the earliest of their moments has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it
from pyslurm_ng.ctld.rules.steps.steps import step_ends_us
from pyslurm_ng.ctld.rules.timers import limit_moments_us
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.touched import EVERYTHING, touched_jobs

_CHANGE_MANY = (ev.PartitionUpdated, ev.ReservationUpdated)  # limits, or ends, of many jobs


class LimitIndex:
    """Soft state: made from the Cluster at the start, and kept by the events that it is shown."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed: dict[int, None] = dict.fromkeys(cluster.job_index.active)
        self._moments: list[tuple[int, int]] = []  # (time, job id), a heap; stale ones do no harm

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note which jobs to look at."""
        for event in events:
            job_ids = touched_jobs(event)
            if job_ids == EVERYTHING or isinstance(event, _CHANGE_MANY):
                self._changed = dict.fromkeys(self._cluster.job_index.active)
            else:
                active = (
                    self._cluster.job_index.active
                )  # a hundred thousand may wait, and none of them counts
                for job_id in job_ids:
                    if job_id in active:
                        self._changed[job_id] = None

    def due(self, conf: SlurmConf, now_us: int, spared: Spared = raise_it) -> list[int]:
        """Return the jobs that have reached a limit, warning, deadline or step limit.

        A job is returned each time until an event has changed it; one about whose moments nothing
        can be said, `spared` is told of.
        """
        moments, jobs, active = self._moments, self._cluster.jobs, self._cluster.job_index.active
        while moments and moments[0][0] <= now_us:
            self._changed[heappop(moments)[1]] = None
        job_ids: list[int] = []
        for job_id in self._changed:
            if job_id not in active:
                continue
            job = jobs[job_id]
            try:
                when_us = min(
                    (*limit_moments_us(self._cluster, conf, job), *step_ends_us(job)), default=0
                )
            except Exception as error:  # noqa: BLE001 - it costs this job only
                spared(f"limits of job {job_id}", error)
                continue
            if when_us > now_us:
                heappush(moments, (when_us, job_id))
            elif when_us:
                job_ids.append(job_id)
        self._changed = dict.fromkeys(job_ids)
        return job_ids
