"""What becomes of one waiting job, and of others in its place, asked of the real planner.

The jobs ahead are planned as in a pass; then the job is looked for as it is and changed. A change
that moves it back in the queue is looked for behind those that it would then have ahead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyslurm_ng._select import NEVER
from pyslurm_ng.sched.backfill.planner import Planner, Rehearsal
from pyslurm_ng.sched.backfill.walk_het import in_order
from pyslurm_ng.sched.demand import elastic, het
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.plan import PastPromises, Plan, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.limits.asks import least_ask
from pyslurm_ng.sched.timeline.common_start import common_start
from pyslurm_ng.sched.timeline.finding import Finding, left_by_others

# Jobs ahead that are planned before the time is looked at again.
_STRIDE = 2048


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found; `NO_END_US` stands for no start in the window.

    demand: of the job in the partition where it starts first. nodes: what it is to get.
    others_us: starts of the others in its place, None for those there was no time to try.
    victims: each job that would be preempted for that start. before: jobs ahead of
    it, each with its demand. plan: what becomes of those. limit: what keeps it from any promise.
    exempt_us: when the first that it may preempt has run for long enough, 0 if none must.
    parts: all components of a heterogeneous job. is_vacated: others must leave for that start, when
    they are no longer exempt.
    """

    demand: Demand
    start_us: int
    nodes: tuple[int, ...]
    others_us: list[int | None]
    before: list[tuple[int, Demand]]
    plan: Plan
    limit: Wait | None = None
    victims: dict[int, tuple[int, ...]] = field(default_factory=dict)
    exempt_us: int = 0
    parts: Sequence[het.Part] = ()
    is_vacated: bool = False


class OutOfTimeError(Exception):
    """There was no time to plan the jobs ahead."""


def never_late() -> bool:
    """Return that there is time."""
    return False


def probe(
    snapshot: Snapshot,
    policy: Policy,
    job: Waiting,
    others: Sequence[Waiting],
    fairshare: Mapping[int, float] | None = None,
    is_late: Callable[[], bool] = never_late,
    planner: Planner | None = None,
    past_promises: PastPromises | None = None,
) -> Probe | None:
    """Return when a waiting job is to start, and when `others` would start in its place.

    None where no timeline decides: in a reservation, in a partition that is gone, under
    sched/builtin.

    Args:
        is_late: returns whether the answer is due.
        planner: one that is for such questions alone; it answers the next one sooner.
        past_promises: where the last pass has promised room.

    Raises:
        OutOfTimeError: it was due before the jobs ahead were planned.
    """
    rehearsal = (planner or Planner()).rehearse(snapshot, policy, others, fairshare, past_promises)
    if rehearsal is None:
        return None
    return _Prober(rehearsal, snapshot, job, others, is_late).run()


class _Prober:
    def __init__(
        self,
        rehearsal: Rehearsal,
        snapshot: Snapshot,
        job: Waiting,
        others: Sequence[Waiting],
        is_late: Callable[[], bool],
    ) -> None:
        self._walk, self._queue = rehearsal.walk, rehearsal.queue
        self._tried = rehearsal.tried
        self._snapshot, self._job, self._others = snapshot, job, others
        self._is_late = is_late
        self._done = 0  # entries of the queue planned
        self._is_vacated = False

    def run(self) -> Probe | None:
        """Look for the job and then for all others, those further back last."""
        own = [(at, entry[2]) for at, entry in enumerate(self._queue) if self._is_own(entry[1])]
        if not own:
            return None
        position = own[0][0]
        self._plan_until(position)
        before = [(job.job_id, demand) for _, job, demand in self._queue[:position]]
        planned = len(before)
        demand, start_us, nodes, limit = self._look_for_job([demand for _, demand in own])
        starts: list[int | None] = [None] * len(self._others)
        positions = self._positions()
        victims: dict[int, tuple[int, ...]] = {}
        order = sorted(range(len(starts)), key=lambda at: max(positions[at], default=0) > position)
        behind = [at for at in order if max(positions[at], default=0) > position]
        for at in order:
            if at not in behind and not self._is_late():
                starts[at] = self._look_for(at)
        plan = self._walk.plan
        exempt_us = self._exempt_us(demand)
        parts = self._walk.parts.get(self._job.het_job_id, ())
        probed = Probe(
            demand,
            start_us,
            nodes,
            starts,
            before[:planned],
            plan,
            limit,
            victims,
            exempt_us,
            parts,
            self._is_vacated,
        )
        self._preempt(order, starts, start_us, victims, set(behind))
        for at in sorted(behind, key=lambda at: max(positions[at])):
            if self._is_late():
                break
            try:
                self._plan_until(max(positions[at]))
            except OutOfTimeError:
                break
            starts[at] = self._look_for(at)
        return probed

    def _is_own(self, job: Waiting) -> bool:
        own = self._job
        return job.job_id == own.job_id or (
            bool(own.het_job_id) and job.het_job_id == own.het_job_id
        )

    def _plan_until(self, position: int) -> None:
        """Plan the entries up to a place of the queue, the job's own left out."""
        while self._done < position:
            if self._done and self._is_late():
                raise OutOfTimeError
            upto = min(position, self._done + _STRIDE)
            entries = [
                entry for entry in self._queue[self._done : upto] if not self._is_own(entry[1])
            ]
            self._walk.run(entries)
            self._done = upto

    def _positions(self) -> list[list[int]]:
        """Return where in the queue each changed job would stand in each of its partitions."""
        if self._walk.room.smart is not None:
            return [[] for _ in self._tried]  # that order is not one of keys
        rest = [(key, job.submit_us, job.job_id) for key, job, _ in self._queue[self._done :]]
        return [
            [
                self._done + bisect_left(rest, (key, job.submit_us, job.job_id))
                for key, job, _ in entries
            ]
            for entries in self._tried
        ]

    def _limit(self, job: Waiting, demand: Demand) -> Wait | None:
        quotas = self._snapshot.limits
        if quotas is None:
            return None
        return quotas.may_start(job, least_ask(demand))

    def _look_for_job(self, own: list[Demand]) -> tuple[Demand, int, tuple[int, ...], Wait | None]:
        """Return where and when the job itself starts, on which nodes, or what limits it."""
        job, walk = self._job, self._walk
        if job.het_job_id:
            return self._look_for_components()
        limit = self._limit(job, own[0])
        if limit is not None:
            return own[0], NO_END_US, (), limit
        planner, room, now_us = walk.planner, walk.room, self._snapshot.now_us
        planner.begin_trial()
        finding = min((self._look(job, demand) for demand in own), key=_start_us)
        nodes: tuple[int, ...] = ()
        if finding.start_us == now_us:
            allocs = planner.start(finding)
            if allocs is None:
                finding = room.soonest(job, finding)
            nodes = tuple(alloc.node_id for alloc in allocs or ())
        demand, start_us = finding.demand, _start_us(finding)
        vacated = None
        if start_us > now_us:
            vacated = room.vacated(job, demand, start_us)
            if vacated is not None:
                start_us = vacated.start_us
                finding = left_by_others(demand, start_us, vacated.nodes)
        if now_us < start_us < NO_END_US:
            planner.take(finding)
            room.promises.append(job.job_id, demand, start_us)
            nodes = planner.planned_nodes(room.promises).get(job.job_id, ())
            room.promises.pop()
        planner.roll_back()
        if vacated is not None and walk.preempting is not None:
            walk.preempting.give_up(vacated)
            self._is_vacated = True
        return demand, start_us, nodes, None

    def _look_for_components(self) -> tuple[Demand, int, tuple[int, ...], Wait | None]:
        """Return where and when all components start together, or what limits one of them."""
        job, walk = self._job, self._walk
        parts = walk.parts[job.het_job_id]
        own_part = next(part for part in parts if part.job.job_id == job.job_id)
        demand = (own_part.hopeful or own_part.demands)[0]
        for part in parts:
            limit = self._limit(part.job, part.demands[0])
            if limit is not None:
                return demand, NO_END_US, (), limit
        start_us = self._common(parts)
        if start_us <= self._snapshot.now_us or not all(part.hopeful for part in parts):
            return demand, start_us, (), None
        vacated = walk.room.vacated_together(in_order(parts), start_us)
        if vacated is None or walk.preempting is None:
            return demand, start_us, (), None
        walk.preempting.give_up(vacated)
        self._is_vacated = True
        nodes = tuple(alloc.node_id for alloc in vacated.nodes[job.job_id])
        return demand, vacated.start_us, nodes, None

    def _common(self, parts: Sequence[het.Part]) -> int:
        if any(not part.hopeful for part in parts):
            return NO_END_US
        now_us = self._snapshot.now_us
        common = common_start(self._walk.planner, parts, now_us, reserves=False, is_trial=True)
        return NO_END_US if common.start_us == NEVER else common.start_us

    def _look_for(self, at: int) -> int:
        """Return when one of the others would start."""
        job = self._others[at]
        demands = [demand for _, _, demand in self._tried[at]]
        if not demands or self._limit(job, demands[0]) is not None:
            return NO_END_US
        if job.het_job_id:
            changed = het.Part(job, tuple(demands))
            parts = self._walk.parts[job.het_job_id]
            return self._common(
                [changed if part.job.job_id == job.job_id else part for part in parts]
            )
        return min(_start_us(self._look(job, demand)) for demand in demands)

    def _look(self, job: Waiting, demand: Demand) -> Finding:
        """Return as what, when and where a job would start; NEVER if over too late."""
        finding = self._walk.look(job, demand)
        is_late = elastic.misses_deadline(job.request, finding.demand.duration_us, finding.start_us)
        return Finding(demand, NEVER) if is_late or finding.start_us == NEVER else finding

    def _exempt_us(self, demand: Demand) -> int:
        preempting = self._walk.preempting
        if preempting is None or demand.verdict is not None:
            return 0
        if not self._job.het_job_id:
            return preempting.exempt_until_us(self._job, demand)
        if not self._is_vacated:
            return 0
        parts = self._walk.parts[self._job.het_job_id]
        exempt_us = (preempting.exempt_until_us(*component) for component in in_order(parts))
        return min(filter(None, exempt_us), default=0)

    def _preempt(
        self,
        order: Sequence[int],
        starts: list[int | None],
        start_us: int,
        victims: dict[int, tuple[int, ...]],
        behind: set[int],
    ) -> None:
        """Try whether one of the others could make room for itself: the first that can."""
        preempting, room = self._walk.preempting, self._walk.room
        now_us = self._snapshot.now_us
        if preempting is None or self._job.het_job_id or start_us <= now_us:
            return
        for at in order:
            job = self._others[at]
            if job.partitions == self._job.partitions or self._is_late() or at in behind:
                continue
            for _, _, demand in self._tried[at]:
                if self._limit(job, demand) is not None:
                    continue  # which also counts the jobs that would leave
                preemption = (starts[at] or 0) > now_us and preempting.find(
                    job, demand, -1, room.licenses, room.promised_nodes(demand)
                )
                if preemption:
                    starts[at] = now_us
                    victims[at] = tuple(job_id for job_id, _ in preemption.victims)
                    return


def _start_us(finding: Finding) -> int:
    """Return a start, or NO_END_US for none."""
    return NO_END_US if finding.start_us == NEVER else finding.start_us
