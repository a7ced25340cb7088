"""Multifactor priority in closed form at a given time.

Source: Slurm's documented multifactor formula; see the manual's priority_multifactor page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyslurm_ng.model.ids import INFINITE, NO_VAL
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.sched.policy import Policy
from pyslurm_ng.sched.snapshot import Snapshot, Waiting

MAX_PRIORITY = 4294967295
_BASIC_FIRST = 4294901760  # priority/basic counts down from here in order of submission
_DEFAULT_MAX_TIME_MIN = 365 * 24 * 60  # stands for a partition without MaxTime


@dataclass(frozen=True, slots=True)
class Factors:
    """A job's normalised factors, each 0 to 1 unless a NO_NORMAL flag says otherwise."""

    age: float
    fairshare: float
    size: float
    partition: float
    qos: float


class Ranking:
    """Priorities of one pass; the maxima that factors are divided by are found once."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, fairshare: Mapping[int, float] | None = None
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._fairshare = fairshare or {}
        partitions = snapshot.partitions.values()
        self._top_partition = max((item.priority_job_factor for item in partitions), default=0)
        self._top_qos = max(snapshot.qos_priority.values(), default=0)

    def factors(self, job: Waiting, partition: Partition) -> Factors:
        """Return the factors of `job` in one of its partitions."""
        policy = self._policy
        waited_s = max(0, self._snapshot.now_us - job.accrue_us) / 1e6 if job.accrue_us else 0.0
        qos = float(self._snapshot.qos_priority.get(job.qos, 0))
        part = float(partition.priority_job_factor)
        if "qos" not in policy.no_normal:
            qos = qos / self._top_qos if self._top_qos else 0.0
        if "part" not in policy.no_normal:
            part = part / self._top_partition if self._top_partition else 0.0
        return Factors(
            age=min(1.0, waited_s / policy.max_age_s) if policy.max_age_s else 0.0,
            fairshare=self._fairshare.get(job.assoc_id, 0.0),
            size=self._size(job, partition),
            partition=part,
            qos=qos,
        )

    def _size(self, job: Waiting, partition: Partition) -> float:
        sizes = job_sizes(job.request, partition)
        nodes, cpus = max(1, sizes.nodes_min), sizes.cpus
        all_nodes, all_cpus = self._snapshot.total_nodes, self._snapshot.total_cpus
        if not all_nodes or not all_cpus:
            return 0.0
        if self._policy.size_relative_to_time:
            limit = job.time_limit_min
            if limit in (INFINITE, NO_VAL):
                limit = min(partition.max_time_min, _DEFAULT_MAX_TIME_MIN)
            size = max(nodes * all_cpus / all_nodes, cpus) / max(1, limit) / all_cpus
            size = 1 - size if self._policy.favor_small else size
        elif self._policy.favor_small:
            size = max(0.0, (all_nodes - nodes) / all_nodes)
            size = (size + (all_cpus - cpus) / all_cpus) / 2
        else:
            size = (nodes / all_nodes + cpus / all_cpus) / 2
        return min(1.0, max(0.0, size))

    def fixed_part(self, job: Waiting, partition: Partition) -> tuple[int, bool]:
        """Return the priority without what time and use change, and whether that is all of it."""
        if job.priority != NO_VAL:
            return job.priority, True
        if not self._policy.is_multifactor:
            return max(1, _BASIC_FIRST - job.job_id - job.nice), True
        policy, factors = self._policy, self.factors(job, partition)
        fixed = (
            job.site_factor
            + int(policy.weight_size * factors.size)
            + int(policy.weight_partition * factors.partition)
            + int(policy.weight_qos * factors.qos)
            - job.nice
        )
        return fixed, False

    def moving_part(self, job: Waiting) -> int:
        """Return what age and fair-share add now."""
        policy = self._policy
        total = 0
        if job.accrue_us and policy.weight_age and policy.max_age_s:
            waited_us = self._snapshot.now_us - job.accrue_us
            if waited_us > 0:
                total = int(policy.weight_age * min(1.0, waited_us / 1e6 / policy.max_age_s))
        if self._fairshare:
            total += int(policy.weight_fairshare * self._fairshare.get(job.assoc_id, 0.0))
        return total

    def moving_parts(self, jobs: Sequence[Waiting]) -> list[int]:
        """Return `moving_part` of many jobs, the plainest case without a call for each."""
        policy, now_us = self._policy, self._snapshot.now_us
        if self._fairshare:
            return [self.moving_part(job) for job in jobs]
        weight, longest_s = policy.weight_age, policy.max_age_s
        if not weight or not longest_s:
            return [0] * len(jobs)
        return [
            (weight if waited_s >= longest_s else int(weight * (waited_s / longest_s)))
            if job.accrue_us and (waited_s := (now_us - job.accrue_us) / 1e6) > 0
            else 0
            for job in jobs
        ]

    def standing(self, job: Waiting, partition: Partition) -> int:
        """Return the priority of `job` without what time or the order of submission adds."""
        if job.priority != NO_VAL:
            return job.priority
        if not self._policy.is_multifactor:
            return max(1, _BASIC_FIRST - job.nice)
        fairshare = int(self._policy.weight_fairshare * self._fairshare.get(job.assoc_id, 0.0))
        return bounded(self.fixed_part(job, partition)[0] + fairshare)

    def priority(self, job: Waiting, partition: Partition) -> int:
        """Return the priority of `job` in one of its partitions; 0 means held."""
        fixed, is_all = self.fixed_part(job, partition)
        return fixed if is_all else bounded(fixed + self.moving_part(job))


def bounded(priority: int) -> int:
    """Return a computed priority within what can be shown; 0 would mean held."""
    return min(MAX_PRIORITY, max(1, priority))
