"""How many jobs behind a blocked one a pass looks at: the bf_max_job_* and bf_min_* options."""

from __future__ import annotations

from collections import Counter

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.policy import Policy


class BackfillLimits:
    """The counters of one pass; a job in several partitions counts in each."""

    def __init__(self, policy: Policy, now_us: int) -> None:
        self._policy = policy
        self._now_us = now_us
        self._looked: Counter[tuple[str, object]] = Counter()
        self._started = 0

    def looks_at(self, job: Waiting, partition_name: str) -> bool:
        """Count a job that could only be backfilled; return whether it may be looked at."""
        policy = self._policy
        if policy.most_backfilled and self._started >= policy.most_backfilled:
            return False
        keys: list[tuple[tuple[str, object], int]] = [
            (("user", job.uid), policy.most_of_user),
            (("association", job.assoc_id), policy.most_of_assoc),
            (("partition", partition_name), policy.most_of_partition),
            (("both", (job.uid, partition_name)), policy.most_of_user_in_partition),
        ]
        if any(most and self._looked[key] >= most for key, most in keys):
            return False
        for key, most in keys:
            if most:
                self._looked[key] += 1
        return True

    def started(self) -> None:
        """Count a start from behind a blocked job."""
        self._started += 1

    def may_start(self) -> bool:
        """Return whether one more may be started from behind a blocked job."""
        return not self._policy.most_backfilled or self._started < self._policy.most_backfilled

    def may_reserve(self, job: Waiting, priority: int) -> bool:
        """Return whether a job is old and important enough to be promised room."""
        waited_s = (self._now_us - (job.accrue_us or job.submit_us)) // SECOND_US
        return (
            waited_s >= self._policy.least_age_to_reserve_s
            and priority >= self._policy.least_priority_to_reserve
        )
