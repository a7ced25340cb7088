"""Which jobs a job may preempt, in which mode, and what they are worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_USER, SECOND_US
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Running, Waiting
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.reserved import gives_way
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.modes import exempt_s, mode_of, mode_words, words_of


class Unit(NamedTuple):
    """Jobs that leave together: one, or all components of a heterogeneous job."""

    value: tuple[int, ...]  # what it is worth: the least is taken first
    job_ids: tuple[int, ...]
    modes: tuple[str, ...]
    nodes: frozenset[int]
    cpus: int
    is_gone: bool  # suspended already: taking it costs nothing


class _Known(NamedTuple):
    """The jobs that a job may preempt now, by what they are worth, and later ones, by time."""

    now: list[Unit]
    later: list[tuple[int, Unit]]


class Victims:
    """The jobs that jobs may preempt in one pass; `taken` have been preempted in it already."""

    def __init__(self, snapshot: Snapshot, policy: Policy, plan: Plan, ranking: Ranking) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._plan = plan
        self._ranking = ranking
        self.taken: set[int] = set()
        self.awaited: set[int] = set()  # those that jobs wait for which they may not preempt yet
        self._known_units: dict[tuple[str, str, int, str, int], _Known] = {}
        modes = [
            policy.preempt_mode,
            *(words_of(own.preempt_mode) for own in snapshot.qos.values()),
        ]
        modes += [words_of(partition.preempt_mode) for partition in snapshot.partitions.values()]
        self._goes_by_priority = any(words & {"PRIORITY", "WITHIN"} for words in modes)
        tiers = {partition.priority_tier for partition in snapshot.partitions.values()}
        self._lowest_tier = min(tiers, default=0)

    def is_able(self, job: Waiting, demand: Demand) -> bool:
        """Return whether there may be a job that this one can preempt.

        A job that shares nodes with its own user's only waits until there is room.
        """
        if demand.need.sharing:
            return False
        if self._goes_first(job):
            return True
        if self._policy.preempt_by == "partition_prio":
            return demand.partition.priority_tier > self._lowest_tier
        own = self._snapshot.qos.get(job.qos)
        return own is not None and bool(own.preempt or self._is_within(job.qos))

    def _is_within(self, qos_name: str) -> bool:
        own = self._snapshot.qos.get(qos_name)
        words = words_of(own.preempt_mode) if own is not None else frozenset()
        return "WITHIN" in (words or self._policy.preempt_mode)

    def _may(
        self, job: Waiting, demand: Demand, running_job: Running
    ) -> tuple[str, frozenset[str]]:
        """Return what the job may do to another, "" for nothing; its age is not looked at."""
        victim, policy, snapshot = running_job.victim, self._policy, self._snapshot
        nothing: tuple[str, frozenset[str]] = "", frozenset()
        if victim is None or victim.is_leaving or running_job.job_id in self.taken:
            return nothing
        other = victim.job
        if self._gives_way(job, other):
            return "REQUEUE", frozenset()
        is_within = False
        if policy.preempt_by == "partition_prio":
            partition = snapshot.partitions.get(victim.partition)
            if partition is None or demand.partition.priority_tier <= partition.priority_tier:
                return nothing
        else:
            own = snapshot.qos.get(job.qos)
            is_within = other.qos == job.qos and self._is_within(job.qos)
            if own is None or not (is_within or other.qos in own.preempt):
                return nothing
        words = mode_words(policy, snapshot.qos, snapshot.partitions, victim)
        mode = mode_of(words, policy)
        if not mode:
            return nothing
        if other.request.flags & REQ_EXCLUSIVE_USER and other.uid != job.uid:
            return nothing
        if other.request.mcs_label != job.request.mcs_label:
            return nothing
        if policy.preempt_exempt_priority or is_within or "PRIORITY" in words:
            theirs = self._priority(other, victim.partition)
            if policy.preempt_exempt_priority and theirs >= policy.preempt_exempt_priority:
                return nothing
            by_priority = is_within or "PRIORITY" in words
            if by_priority and self._priority(job, demand.partition.name) <= theirs:
                return nothing
        return mode, words

    def _goes_first(self, job: Waiting) -> bool:
        """Return whether the job's reservation has a MaxStartDelay."""
        reservation = self._snapshot.only_reservation
        return reservation is not None and reservation.max_start_delay_s > 0 and not job.is_guest

    def _gives_way(self, job: Waiting, other: Waiting) -> bool:
        """Return whether another runs only as long as jobs of this one's reservation let it."""
        reservation = self._snapshot.only_reservation
        return (
            reservation is not None
            and self._goes_first(job)
            and gives_way(reservation, other.request)
        )

    def _priority(self, job: Waiting, partition_name: str) -> int:
        partition = self._snapshot.partitions.get(partition_name)
        return self._ranking.priority(job, partition) if partition is not None else 0

    def exempt_until_us(self, job: Waiting, demand: Demand) -> int:
        """Return when the first job that this one may preempt has run for long enough; 0 if none
        will."""
        if not self.is_able(job, demand):
            return 0
        return min((at_us for at_us, _ in self._later(job, demand)), default=0)

    def _later(self, job: Waiting, demand: Demand) -> list[tuple[int, Unit]]:
        """Return the jobs on the job's nodes that will no longer be exempt, and when."""
        mask, known = demand.mask, self._known(job, demand)
        return [
            victim for victim in known.later if any(mask[node_id] for node_id in victim[1].nodes)
        ]

    def _known(self, job: Waiting, demand: Demand) -> _Known:
        """Return which jobs such jobs may preempt now, and when others will no longer be exempt."""
        # By priority each job has its own victims; otherwise jobs of a kind have the same.
        own_id = job.job_id if self._goes_by_priority else 0
        key = (job.qos, demand.partition.name, job.uid, job.request.mcs_label, own_id)
        known = self._known_units.get(key)
        if known is None:
            if own_id:
                self._known_units.clear()
            known = self._known_units[key] = self._all_units(job, demand)
        return known

    def units_now(self, job: Waiting, demand: Demand) -> list[Unit]:
        """Return the units that a job may preempt now on its nodes, the least valuable first."""
        plan = self._plan
        for at_us, _ in self._later(job, demand):
            plan.retry_us = min(plan.retry_us, at_us) if plan.retry_us else at_us
        return self._left(self._known(job, demand).now, demand)

    def units_then(self, job: Waiting, demand: Demand, at_us: int) -> list[Unit]:
        """Return the units that a job may preempt at a later moment, the least valuable first."""
        later = [unit for exempt_us, unit in self._later(job, demand) if exempt_us <= at_us]
        return sorted(self._left([*self._known(job, demand).now, *later], demand), key=order_of)

    def moments_us(self, job: Waiting, demand: Demand) -> set[int]:
        """Return when others on the job's nodes will no longer be exempt."""
        return {at_us for at_us, _ in self._later(job, demand)}

    def _left(self, units: Iterable[Unit], demand: Demand) -> list[Unit]:
        """Return the jobs on a job's nodes that no job has preempted or waits for."""
        mask, taken, awaited = demand.mask, self.taken, self.awaited
        return [
            unit
            for unit in units
            if taken.isdisjoint(unit.job_ids)
            and awaited.isdisjoint(unit.job_ids)
            and any(mask[node_id] for node_id in unit.nodes)
        ]

    def _all_units(self, job: Waiting, demand: Demand) -> _Known:
        """Return whom such jobs may preempt, and when others will be old enough."""
        snapshot, policy = self._snapshot, self._policy
        by_job: dict[int, list[tuple[Running, str]]] = {}
        barred: set[int] = set()
        exempt_us: dict[int, int] = {}
        for running_job in snapshot.running:
            victim = running_job.victim
            if victim is None:
                continue
            group = victim.het_job_id or running_job.job_id
            mode, _ = self._may(job, demand, running_job)
            if mode and victim.preemptor > 0 and mode != "SUSPEND":
                mode = ""  # suspended when the configuration was another
            if running_job.is_suspended and not victim.preemptor and mode == "SUSPEND":
                mode = ""  # an operator's: it holds no cores
            partition = snapshot.partitions.get(victim.partition)
            ends_us = victim.start_us + SECOND_US * exempt_s(
                policy.preempt_exempt_s, snapshot.qos, partition, victim.job.qos
            )
            if mode and ends_us > snapshot.now_us and not self._gives_way(job, victim.job):
                exempt_us[group] = max(ends_us, exempt_us.get(group, 0))
            if mode:
                by_job.setdefault(group, []).append((running_job, mode))
            else:
                barred.add(group)
        known = _Known([], [])
        for group, members in by_job.items():
            if group in exempt_us and group not in barred:
                known.later.append((exempt_us[group], self._unit(members)))
            elif group not in barred:
                known.now.append(self._unit(members))
        known.now.sort(key=order_of)
        known.later.sort(key=lambda pair: (pair[0], order_of(pair[1])))
        return known

    def _unit(self, members: Sequence[tuple[Running, str]]) -> Unit:
        """Return the jobs of one unit with what they are worth together."""
        snapshot, policy = self._snapshot, self._policy
        values: list[tuple[int, ...]] = []
        cpus = 0
        for running_job, _ in members:
            victim = running_job.victim
            assert victim is not None
            cpu_count = sum(alloc.cpus for alloc in running_job.nodes)
            cpus += cpu_count
            if policy.preempts_youngest_first:
                values.append((-victim.start_us, cpu_count))
                continue
            if policy.preempt_by == "qos":
                worth = snapshot.qos_priority.get(victim.job.qos, 0)
            else:
                partition = snapshot.partitions.get(victim.partition)
                worth = partition.priority_tier if partition is not None else 0
            values.append((worth, cpu_count, -victim.start_us))
        return Unit(
            value=max(values),
            job_ids=tuple(running_job.job_id for running_job, _ in members),
            modes=tuple(mode for _, mode in members),
            nodes=frozenset(
                alloc.node_id for running_job, _ in members for alloc in running_job.nodes
            ),
            cpus=cpus,
            is_gone=all(
                running_job.victim is not None and running_job.victim.preemptor > 0
                for running_job, _ in members
            ),
        )


def order_of(unit: Unit) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
    """Return the key by which units are taken."""
    return not unit.is_gone, unit.value, unit.job_ids
