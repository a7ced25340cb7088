"""How long users' jobs usually run: soft state, from jobs that have ended.

Two things are foretold of a job. How long it runs follows from the user's share: the sum of run
times over the sum of limits, newer jobs counting more. Queues are sums of work, and a mean of
ratios would let a hundred jobs that failed at once hide a long one. What it costs to let the job go
first follows from the user's last run times one by one: jobs that failed at once must count there,
since waiting is worst for such jobs.

Source of the idea: Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions
Rather than User Runtime Estimates", IEEE TPDS 18(6), 2007.
"""

from __future__ import annotations

from collections import deque

from pyslurm_ng.base.numbers import MINUTE_US, NO_VAL, SECOND_US
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job

_FADING = 0.5 ** (1 / 50)  # a job counts half of one fifty jobs later
_RUN_FADING = 0.95  # a run counts so much of the next
_RUNS = 64  # remembered of a user: older ones hardly count
_RESIZED = 0.3  # how much a run counts with the same limit but of another size
_UNLIKE = 0.1  # how much a run with another limit counts
_WORD = 2.0  # how much the limit itself counts
_BRIEF_S = 10.0  # as in the bounded slowdown
_LEAST_US = SECOND_US

_Size = tuple[int, int, int]  # nodes, tasks and CPUs per task that were asked for
_Run = tuple[float, int, _Size]  # seconds, limit in minutes


class History:
    """What users' jobs took and asked for, and what that foretells of a job."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}  # by uid: used, asked, in microseconds
        self._runs: dict[int, deque[_Run]] = {}  # by uid

    def read(self, cluster: Cluster) -> None:
        """Begin with the ended jobs that are still known, the oldest first."""
        ended = [job for job in cluster.jobs.values() if job.end_us and job.start_us]
        for job in sorted(ended, key=lambda job: (job.end_us, job.job_id)):
            self.ended(job)

    def ended(self, job: Job) -> None:
        """Count a job that has ended."""
        if not job.start_us or job.time_limit_min >= NO_VAL or job.time_limit_min <= 0:
            return
        asked_us = job.time_limit_min * MINUTE_US
        used_us = min(asked_us, max(0, job.end_us - job.start_us - job.suspended_us))
        used, asked = self._sums.get(job.uid, (0.0, 0.0))
        self._sums[job.uid] = used * _FADING + used_us, asked * _FADING + asked_us
        runs = self._runs.setdefault(job.uid, deque(maxlen=_RUNS))
        runs.append((used_us / 1e6, job.time_limit_min, _size(job)))

    def foreseen_us(self, job: Job) -> int:
        """Return how long a job will probably run; its limit where nothing is known, or 0."""
        if job.time_limit_min >= NO_VAL or job.time_limit_min <= 0:
            return 0
        limit_us = job.time_limit_min * MINUTE_US
        sums = self._sums.get(job.uid)
        if sums is None or not sums[1]:
            return limit_us
        return min(limit_us, max(_LEAST_US, int(limit_us * (sums[0] / sums[1]))))

    def cost(self, job: Job) -> float:
        """Return expected run time over the slowdown that each second of waiting adds, in s^2.

        Run times are the user's last ones and the limit itself. Newer ones count more, and so do
        those of jobs with a similar limit and size. Both expectations are of the run time, not of
        its mean: a job that runs for a second or for a day is worth to be tried. 0 where there is
        no limit.
        """
        if job.time_limit_min >= NO_VAL or job.time_limit_min <= 0:
            return 0.0
        limit_s = job.time_limit_min * 60.0
        run_s, slowdown = _WORD * limit_s, _WORD / max(limit_s, _BRIEF_S)
        weight, own_size = 1.0, _size(job)
        for ran_s, limit_min, past_size in reversed(self._runs.get(job.uid, ())):
            if limit_min != job.time_limit_min:
                counts = weight * _UNLIKE
            else:
                counts = weight if past_size == own_size else weight * _RESIZED
            likely_s = min(ran_s, limit_s)
            run_s += counts * likely_s
            slowdown += counts / max(likely_s, _BRIEF_S)
            weight *= _RUN_FADING
        return run_s / slowdown


def _size(job: Job) -> _Size:
    asked = job.request
    return asked.nodes_min, asked.ntasks, asked.cpus_per_task
