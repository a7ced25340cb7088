"""Components of heterogeneous jobs end together: looks at a job when one of its parts has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.ends import het
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev

_ENDS = (ev.JobCompleting, ev.JobEnded, ev.JobRequeued)


class HetFollower:
    """Decides at the end of the turn in which a component ended; after a restart, at once."""

    def __init__(
        self,
        writer: Writer,
        call_soon: Callable[[Callable[[], None]], object],
        now_us: Callable[[], int],
        conf: Callable[[], SlurmConf],
    ) -> None:
        """Read the configuration with `conf` each time."""
        self._writer = writer
        self._call_soon = call_soon
        self._now_us = now_us
        self._conf = conf
        self._due: dict[int, None] = {}

    def begin(self) -> None:
        """Look at all components that wait or run: a stop may have come between two ends."""
        cluster = self._writer.cluster
        for index in (cluster.job_index.pending, cluster.job_index.active):
            for job_id in index:
                self._note(cluster.jobs[job_id].het_job_id)

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note which jobs to look at."""
        jobs = self._writer.cluster.jobs
        for event in events:
            if isinstance(event, _ENDS):
                job = jobs.get(event.job_id)
                if job is not None:
                    self._note(job.het_job_id)

    def _note(self, leader: int) -> None:
        if not leader:
            return
        if not self._due:
            self._call_soon(self._follow)
        self._due[leader] = None

    def _follow(self) -> None:
        due, self._due = self._due, {}
        whole = het.is_whole(self._conf())
        for leader in due:
            try:
                events = het.follow(self._writer.cluster, leader, self._now_us(), whole=whole)
                self._writer.record(events)
            except Exception as error:  # noqa: BLE001 - other jobs end together all the same
                self._writer.spared(f"the end of heterogeneous job {leader}", error)
