"""How much of what they ask for users usually take: soft state, from jobs that have ended.

A user's share is the run time of the jobs seen so far over the time asked for, newer jobs counting
more. Shares are sums over sums because queues are sums of work: a mean of ratios would let a
hundred jobs that failed at once hide a long one.

Source of the idea: Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions
Rather than User Runtime Estimates", IEEE TPDS 18(6), 2007.
"""

from __future__ import annotations

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import Job

_FADING = 0.5 ** (1 / 50)  # a job counts half of one fifty jobs later
_LEAST_US = 1_000_000
_MINUTE_US = 60_000_000


class History:
    """Time used and time asked for by user, and what that foretells of a job."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}  # by uid: used, asked, in microseconds

    def read(self, cluster: Cluster) -> None:
        """Begin with the ended jobs that are still known, the oldest first."""
        ended = [job for job in cluster.jobs.values() if job.end_us and job.start_us]
        for job in sorted(ended, key=lambda job: (job.end_us, job.job_id)):
            self.ended(job)

    def ended(self, job: Job) -> None:
        """Count a job that has ended."""
        if not job.start_us or job.time_limit_min >= NO_VAL or job.time_limit_min <= 0:
            return
        asked_us = job.time_limit_min * _MINUTE_US
        used_us = min(asked_us, max(0, job.end_us - job.start_us - job.suspended_us))
        used, asked = self._sums.get(job.uid, (0.0, 0.0))
        self._sums[job.uid] = used * _FADING + used_us, asked * _FADING + asked_us

    def foreseen_us(self, job: Job) -> int:
        """Return how long a job will probably run; its limit where nothing is known, or 0."""
        if job.time_limit_min >= NO_VAL or job.time_limit_min <= 0:
            return 0
        limit_us = job.time_limit_min * _MINUTE_US
        sums = self._sums.get(job.uid)
        if sums is None or not sums[1]:
            return limit_us
        return min(limit_us, max(_LEAST_US, int(limit_us * (sums[0] / sums[1]))))
