"""Multifactor priority in closed form at a given time.

Source: Slurm's documented multifactor formula; see the manual's priority_multifactor page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyslurm_ng.base.numbers import INFINITE, NO_VAL, REQ_EXCLUSIVE
from pyslurm_ng.model.amounts import billing, requested_tres
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot

MAX_PRIORITY = INFINITE
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
    assoc: float = 0.0
    tres: tuple[tuple[str, float], ...] = ()  # of the TRES that weigh something


class Ranking:
    """Priorities of one pass; the maxima that factors are divided by are found once."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, fairshare: Mapping[int, float] | None = None
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._fairshare = fairshare or snapshot.fairshare
        partitions = snapshot.partitions.values()
        self._top_partition = max(
            (partition.priority_job_factor for partition in partitions), default=0
        )
        self._top_qos = max(snapshot.qos_priority.values(), default=0)
        self._top_assoc = max(snapshot.assoc_priority.values(), default=0)
        self._totals: dict[str, dict[str, int]] = {}  # TRES of partitions

    def factors(self, job: Waiting, partition: Partition) -> Factors:
        """Return the factors of `job` in one of its partitions."""
        policy = self._policy
        since_us = job.submit_us if policy.accrues_always else job.accrue_us
        waited_s = max(0, self._snapshot.now_us - since_us) / 1e6 if since_us else 0.0
        qos = float(self._snapshot.qos_priority.get(job.qos, 0))
        part = float(partition.priority_job_factor)
        if "qos" not in policy.no_normal:
            qos = qos / self._top_qos if self._top_qos else 0.0
        if "part" not in policy.no_normal:
            part = part / self._top_partition if self._top_partition else 0.0
        assoc = float(self._snapshot.assoc_priority.get(job.assoc_id, 0))
        if "assoc" not in policy.no_normal:
            assoc = assoc / self._top_assoc if self._top_assoc else 0.0
        return Factors(
            age=min(1.0, waited_s / policy.max_age_s) if policy.max_age_s else 0.0,
            fairshare=self._fairshare.get(job.assoc_id, 0.0),
            size=self._size(job, partition),
            partition=part,
            qos=qos,
            assoc=assoc,
            tres=self._tres(job, partition) if policy.weight_tres else (),
        )

    def _tres(self, job: Waiting, partition: Partition) -> tuple[tuple[str, float], ...]:
        """Return what a job asks for of each TRES over what its partition has."""
        names = self._policy.weight_tres
        amounts = requested_tres(job.request, partition, names)
        totals = self._totals.get(partition.name)
        if totals is None:
            totals = self._totals[partition.name] = self._partition_tres(partition)
        if "tres" in self._policy.no_normal:
            return tuple((name, float(amounts.get(name, 0))) for name in names)
        return tuple(
            (name, min(1.0, amounts.get(name, 0) / totals[name]) if totals.get(name) else 0.0)
            for name in names
        )

    def _partition_tres(self, partition: Partition) -> dict[str, int]:
        node_specs = (self._snapshot.specs[node_id] for node_id in partition.node_ids)
        specs = [spec for spec in node_specs if spec is not None]
        totals = {
            "cpu": sum(spec.cpus for spec in specs),
            "mem": sum(spec.real_memory_mib for spec in specs),
            "node": len(specs),
        }
        for spec in specs:
            for gres in spec.gres:
                for name in {f"gres/{gres.name}", f"gres/{gres.name}:{gres.type}".rstrip(":")}:
                    totals[name] = totals.get(name, 0) + gres.count
        totals["billing"] = billing(totals, partition.billing_terms)
        return totals

    def _size(self, job: Waiting, partition: Partition) -> float:
        sizes = job_sizes(job.request, partition)
        nodes, cpus = max(1, sizes.nodes_min), sizes.cpus
        all_nodes, all_cpus = self._snapshot.total_nodes, self._snapshot.total_cpus
        if not all_nodes or not all_cpus:
            return 0.0
        if is_exclusive(job.request, partition):
            cpus = max(cpus, nodes * all_cpus // all_nodes)  # whole nodes, as large as the mean one
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

    def fixed_part(self, job: Waiting, partition: Partition) -> tuple[float, bool]:
        """Return the priority without what time and use change, and whether that is all of it.

        It is a fraction, as the sum of all terms is truncated, not each of them.
        """
        if job.priority != NO_VAL:
            return job.priority, True
        if not self._policy.is_multifactor:
            return max(1, _BASIC_FIRST - job.job_id - job.nice), True
        policy, factors = self._policy, self.factors(job, partition)
        fixed = (
            job.site_factor
            + policy.weight_size * factors.size
            + policy.weight_partition * factors.partition
            + policy.weight_qos * factors.qos
            + policy.weight_assoc * factors.assoc
            - job.nice
        )
        for name, factor in factors.tres:
            fixed += policy.weight_tres[name] * factor
        return fixed, False

    def moving_part(self, job: Waiting) -> float:
        """Return what age and fair-share add now."""
        return self.moving_parts((job,))[0]

    def moving_parts(self, jobs: Sequence[Waiting]) -> list[float]:
        """Return what age and fair-share add to the priorities of many jobs."""
        policy, now_us = self._policy, self._snapshot.now_us
        weight, longest_s = float(policy.weight_age), policy.max_age_s
        if not weight or not longest_s:
            aged = [0.0] * len(jobs)
        else:
            always = policy.accrues_always
            aged = [
                (weight if waited_s >= longest_s else weight * (waited_s / longest_s))
                if (since_us := job.submit_us if always else job.accrue_us)
                and (waited_s := (now_us - since_us) / 1e6) > 0
                else 0.0
                for job in jobs
            ]
        if not self._fairshare or not policy.weight_fairshare:
            return aged
        share, of_assoc = policy.weight_fairshare, self._fairshare.get
        return [
            age + share * of_assoc(job.assoc_id, 0.0) for age, job in zip(aged, jobs, strict=True)
        ]

    def standing(self, job: Waiting, partition: Partition) -> int:
        """Return the priority of `job` without what time or the order of submission adds."""
        is_summed = job.priority == NO_VAL and self._policy.is_multifactor
        return self.standing_with(job, self.fixed_part(job, partition)[0] if is_summed else 0.0)

    def standing_with(self, job: Waiting, fixed: float) -> int:
        """Return what `standing` does, from a fixed part that is known."""
        if job.priority != NO_VAL:
            return job.priority
        if not self._policy.is_multifactor:
            return max(1, _BASIC_FIRST - job.nice)
        fairshare = self._policy.weight_fairshare * self._fairshare.get(job.assoc_id, 0.0)
        return bounded(int(fixed + fairshare))

    def priority(self, job: Waiting, partition: Partition) -> int:
        """Return the priority of `job` in one of its partitions; 0 means held."""
        fixed, is_all = self.fixed_part(job, partition)
        return int(fixed) if is_all else bounded(int(fixed + self.moving_part(job)))


def bounded(priority: int) -> int:
    """Return a computed priority within what can be shown; 0 would mean held."""
    return min(MAX_PRIORITY, max(1, priority))


def is_exclusive(request: JobRequest, partition: Partition) -> bool:
    """Return whether a job gets whole nodes in a partition."""
    return (
        bool(request.flags & REQ_EXCLUSIVE)
        or partition.exclusive == "NODE"
        or partition.oversubscribe.startswith("EXCLUSIVE")
    )
