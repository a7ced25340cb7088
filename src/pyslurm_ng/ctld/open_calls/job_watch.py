"""Commands that wait for a job: salloc and srun for their allocation, `sbatch -W` for its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.touched import EVERYTHING, touched_jobs

Changed = Callable[["Job | None"], bool]


class JobWatch:
    """Calls back when an event has touched a job, until the callback has seen enough.

    Callbacks run as soon as events are applied; what they let out goes through
    `Writer.when_durable`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watched: dict[int, list[Changed]] = {}

    def watch(self, job_id: int, changed: Changed) -> None:
        """Call `changed` now and after each event about the job, until it returns True.

        It is given the job's record, or None once that is gone.
        """
        if not changed(self._cluster.jobs.get(job_id)):
            self._watched.setdefault(job_id, []).append(changed)

    def forget(self, job_id: int, changed: Changed) -> None:
        """Stop calling; nothing happens if it has ended already."""
        waiting = self._watched.get(job_id, [])
        if changed in waiting:
            waiting.remove(changed)
            if not waiting:
                del self._watched[job_id]

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Call the callbacks of jobs that were touched."""
        if not self._watched:
            return
        due: dict[int, None] = {}
        for event in events:
            job_ids = touched_jobs(event)
            if job_ids == EVERYTHING:
                due.update(dict.fromkeys(self._watched))
            else:
                due.update((job_id, None) for job_id in job_ids if job_id in self._watched)
        for job_id in due:
            job = self._cluster.jobs.get(job_id)
            fault: Exception | None = None
            for changed in self._watched.pop(job_id, []):
                try:
                    is_over = changed(job)
                except Exception as error:  # noqa: BLE001 - others watch this job, too
                    is_over, fault = False, error
                if not is_over:
                    self._watched.setdefault(job_id, []).append(changed)
            if fault is not None:
                raise fault
