"""Jobs whose run time is not certain, since the clock did not fit the records at the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.rules import clocks
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire import node_messages as nm


class RunTimes:
    """Jobs that wait for a node to say how long they have run. Soft state, made at each start."""

    def __init__(self, cluster: Cluster, gap_us: int) -> None:
        """Begin after a start at which the wall clock was `gap_us` ahead of the newest record."""
        self._cluster = cluster
        self.gap_us = gap_us
        self._unsure: dict[int, int] = {}  # attempts by job id
        self._fresh: set[int] = set()
        if abs(gap_us) > clocks.TOLERANCE_US:
            jobs = (cluster.jobs[job_id] for job_id in cluster.job_index.active)
            self._unsure = {job.job_id: job.attempt for job in jobs if clocks.has_run(job)}

    def __len__(self) -> int:
        return len(self._unsure)

    def start_report(self) -> str:
        """Return one line on what was found at the start; "" if there is nothing to report."""
        if abs(self.gap_us) <= clocks.TOLERANCE_US or not self._cluster.time_us:
            return ""
        long = _duration(abs(self.gap_us))
        if self.gap_us < 0:
            return (
                f"clock: the newest record is {long} ahead of this host's clock, which is taken "
                f"for right: times on record are moved back; run times of "
                f"{plural(len(self), 'job')} stay as they are until their nodes say "
                "how long they have run"
            )
        return (
            f"clock: the newest record is {long} old: this controller was away for so long, or "
            f"its clock has jumped; time limits do not end "
            f"{plural(len(self), 'running job')} until their nodes say how long they have run"
        )

    def heard(
        self, node_id: int, running: Sequence[nm.RunningJob], now_us: int
    ) -> list[ev.AnyEvent]:
        """Return the events that follow from what a node's registration says of such jobs."""
        if not self._unsure:
            return []
        events, sure = clocks.run_times(
            self._cluster, node_id, running, self._unsure, max(0, self.gap_us), now_us
        )
        for job_id in sure:
            del self._unsure[job_id]
        self._fresh.update(sure)
        return events

    def take_fresh(self) -> set[int]:
        """Return the jobs with run times that have become known since the last call."""
        fresh, self._fresh = self._fresh, set()
        return fresh

    def sure(self, job_ids: Iterable[int]) -> list[int]:
        """Return those of some jobs that have a known run time."""
        if not self._unsure:
            return list(job_ids)
        return [job_id for job_id in job_ids if not self._is_unsure(job_id)]

    def _is_unsure(self, job_id: int) -> bool:
        job, attempt = self._cluster.jobs.get(job_id), self._unsure.get(job_id)
        if attempt is None:
            return False
        if job is not None and job.attempt == attempt and clocks.has_run(job):
            return True
        del self._unsure[job_id]  # that run is over
        return False


def _duration(span_us: int) -> str:
    seconds = span_us // SECOND_US
    days, seconds = divmod(seconds, 86_400)
    return f"{days}-{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
