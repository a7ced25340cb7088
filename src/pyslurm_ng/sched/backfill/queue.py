"""The queue of a pass: every waiting job in each of its partitions, in the order to look at them.

What does not change with time is worked out once per job and kept from pass to pass.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence, Set
from operator import itemgetter

from pyslurm_ng._select import rank, taken_over, untracked
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.demand import het
from pyslurm_ng.sched.demand.demand import Demand, Demands, Entry
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import JobFaults, Plan, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking, bounded
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.modes import qos_ranks

# An entry before time has its say: tier, priority so far, whether that is all, demand.
Prepared = tuple[int, float, bool, Demand]
_TIER = 1 << 33  # priorities are below
_ABLE = _TIER << 20  # tiers are below: jobs that can preempt come before all others


def _sort_key(entry: Entry) -> tuple[int, int, int]:
    """Return where an entry belongs: the job that was submitted first goes before others with the
    same leader."""
    return entry[0], entry[1].submit_us, entry[1].job_id


class Queue:
    """What is known of waiting jobs from pass to pass.

    `parts` has the components of heterogeneous jobs of the last pass by leader; these stand in the
    queue once.
    """

    def __init__(self) -> None:
        self.parts: dict[int, list[het.Part]] = {}
        self._demands = Demands()
        self._qos: dict[str, int] = {}
        self._qos_ranks: dict[str, int] = {}
        self._assocs: Mapping[int, int] = {}
        self._generation = 0
        self._jobs: list[Waiting] = []  # of the last pass, and what was prepared for each
        self._prepared: list[tuple[Prepared, ...] | None] = []
        self._alike: dict[tuple[Prepared, ...], tuple[Prepared, ...]] = {}  # jobs share them
        self._pass = 0
        self._best: dict[tuple[int, str], int] = {}

    def begin(self, snapshot: Snapshot, policy: Policy) -> bool:
        """Forget what no longer holds; return whether all that was made of nodes is stale, too."""
        self._demands.begin(snapshot, policy)
        self._het_priority = policy.het_priority
        is_stale = self._demands.generation != self._generation
        if is_stale:
            self._generation = self._demands.generation
            self._forget_jobs()
        elif self._demands.rehosted:
            self._forget_jobs_of(self._demands.rehosted)
        ranks = qos_ranks(snapshot.qos) if policy.preempt_by == "qos" else {}
        if ranks != self._qos_ranks:
            self._qos_ranks = ranks
            self._forget_jobs()
        if snapshot.assoc_priority is not self._assocs:
            self._assocs = snapshot.assoc_priority
            self._forget_jobs()
        if snapshot.qos_priority != self._qos or len(self._alike) > 2 * len(self._jobs) + 1000:
            self._qos = snapshot.qos_priority
            self._forget_jobs()
        return is_stale

    def _forget_jobs(self) -> None:
        """Forget what was prepared for any job."""
        self._jobs, self._prepared, self._alike = [], [], {}

    def _forget_jobs_of(self, owners: Set[int | str]) -> None:
        """Forget what was made of jobs of some users, by uid, or of some labels."""
        for index, job in enumerate(self._jobs):
            if job.uid in owners or job.request.mcs_label in owners:
                self._prepared[index] = None

    def entries(
        self, snapshot: Snapshot, ranking: Ranking, outcome: Plan
    ) -> tuple[list[Entry], list[Demand]]:
        """Return an entry per job and partition in the order of the queue, and all demands."""
        self.parts = {}
        self._pass += 1
        faults: dict[int, Exception] = {}

        def prepare(job: Waiting) -> tuple[Prepared, ...]:
            try:
                # Components of heterogeneous jobs enter the queue together.
                prepared = () if job.het_job_id else self._prepare(job, snapshot, ranking)
            except Exception as error:  # noqa: BLE001 - all such jobs are found in one go
                faults[job.job_id] = error
                return ()
            return self._alike.setdefault(prepared, prepared)

        waiting = snapshot.waiting
        prepared: list[tuple[Prepared, ...] | None]
        prepared = taken_over(waiting, self._jobs, self._prepared, prepare)
        if faults:
            raise JobFaults(faults)
        self._jobs, self._prepared = waiting, prepared
        moving = untracked(ranking.moving_parts(waiting))
        entries: list[Entry]
        entries, demands, without = rank(waiting, moving, prepared, outcome.priorities)
        tried_demands: list[Demand] = []
        for demand in demands:
            self._want(demand, tried_demands)
        for job in without:
            if not job.het_job_id:
                outcome.waits[job.job_id] = _without_partition(job)
        for parts in het.groups(job for job in without if job.het_job_id):
            try:
                self._enter_het(parts, snapshot, ranking, outcome, entries, tried_demands)
            except Exception as error:
                raise JobFaults({parts[0].job_id: error}) from error
        return entries, tried_demands

    def _want(self, demand: Demand, demands: list[Demand]) -> None:
        """Enter a demand once: planners number those that they are given."""
        for variant in (demand, demand.loose):
            if variant is not None and variant.stamp != self._pass:
                variant.stamp = self._pass
                demands.append(variant)

    def _enter_het(
        self,
        jobs: list[Waiting],
        snapshot: Snapshot,
        ranking: Ranking,
        outcome: Plan,
        entries: list[Entry],
        demands: list[Demand],
    ) -> None:
        """Enter a heterogeneous job once, led by its first component."""
        keys: list[int] = []
        parts: list[het.Part] = []
        for job, moving in zip(jobs, ranking.moving_parts(jobs), strict=True):
            ranked = self._ranked_demands(job, moving, snapshot, ranking)
            if not ranked:
                outcome.waits[job.job_id] = _without_partition(job)
                continue
            tier, priority, _ = ranked[0]
            outcome.priorities[job.job_id] = priority
            keys.append(tier - priority)
            parts.append(het.Part(job, tuple(demand for _, _, demand in ranked)))
        if len(parts) < jobs[0].het_size:
            wait = het.incomplete(jobs)
            for job in jobs:
                outcome.waits.setdefault(job.job_id, wait)
            return
        self.parts[jobs[0].het_job_id] = parts
        for part in parts:
            for demand in part.demands:
                if demand.stamp != self._pass:
                    demand.stamp = self._pass
                    demands.append(demand)
        key = het.key_of(keys, self._het_priority)
        insort(entries, (key, jobs[0], parts[0].demands[0]), key=_sort_key)

    def entries_of(
        self, jobs: Sequence[Waiting], snapshot: Snapshot, ranking: Ranking
    ) -> list[list[Entry]]:
        """Return for each job what its entries would be, one for each of its partitions."""
        return [
            [
                (tier - priority, job, demand)
                for tier, priority, demand in self._ranked_demands(job, moving, snapshot, ranking)
            ]
            for job, moving in zip(jobs, ranking.moving_parts(jobs), strict=True)
        ]

    def _ranked_demands(
        self, job: Waiting, moving: float, snapshot: Snapshot, ranking: Ranking
    ) -> list[tuple[int, int, Demand]]:
        """Return what leads a job's entry and what it is to have, for each of its partitions.

        Args:
            moving: what time and use add to its priority now.
        """
        return [
            (tier, int(fixed) if is_all else bounded(int(fixed + moving)), demand)
            for tier, fixed, is_all, demand in self._prepare(job, snapshot, ranking)
        ]

    def _prepare(self, job: Waiting, snapshot: Snapshot, ranking: Ranking) -> tuple[Prepared, ...]:
        prepared = []
        shape_id = self._demands.shape_id(job.request)
        for name in job.partitions:
            partition = snapshot.partitions.get(name)
            if partition is None:
                continue
            fixed, is_all = ranking.fixed_part(job, partition)
            first = self._first(job, partition)
            for demand in self._demands.each(job, shape_id, partition):
                prepared.append((first, fixed, is_all, demand))
        return tuple(prepared)

    def never_lower(self, entries: list[Entry], outcome: Plan) -> list[Entry]:
        """Return entries no further back than a pass has had them before: INCR_ONLY."""
        known, self._best = self._best, {}
        kept: list[Entry] = []
        for index, job, demand in entries:
            key = job.job_id, demand.partition.name
            best = index if job.priority != NO_VAL else min(index, known.get(key, index))
            self._best[key] = best
            if demand.partition.name == job.partitions[0]:
                outcome.priorities[job.job_id] += index - best
            kept.append((best, job, demand))
        kept.sort(key=itemgetter(0))
        return kept

    def ranked(self, entries: list[Entry], ranking: Ranking) -> list[Entry]:
        """Return entries led by what goes before any order within: tier and standing."""
        known = {job.job_id: each for job, each in zip(self._jobs, self._prepared, strict=True)}
        ranked: list[Entry] = []
        for _, job, demand in entries:
            for first, fixed, _, prepared_demand in known.get(job.job_id) or ():
                if prepared_demand is demand:
                    ranked.append((first - ranking.standing_with(job, fixed), job, demand))
                    break
            else:
                first = self._first(job, demand.partition)
                ranked.append((first - ranking.standing(job, demand.partition), job, demand))
        return ranked

    def _first(self, job: Waiting, partition: Partition) -> int:
        """Return what leads a job in a partition before its priority does."""
        return -partition.priority_tier * _TIER - self._qos_ranks.get(job.qos, 0) * _ABLE


def _without_partition(job: Waiting) -> Wait:
    text = f"partition {','.join(job.partitions)} no longer exists"
    return Wait(Reason.PartitionDown, text)
