"""Room kept for jobs that have to wait, and why each of them waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyslurm_ng._select import NEVER
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.backfill.depth import BackfillLimits
from pyslurm_ng.sched.backfill.smart import Smart
from pyslurm_ng.sched.cons_tres.obstacle import Obstacles
from pyslurm_ng.sched.demand import elastic, reason
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.demand.het import Part
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan, PlannedNodes, Wait
from pyslurm_ng.sched.frame.policy import EVERY_JOB, Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.limits.gate import LimitGate
from pyslurm_ng.sched.preemption.preempt import Preempting, Vacated
from pyslurm_ng.sched.preemption.preempt_together import VacatedTogether
from pyslurm_ng.sched.timeline.finding import Finding, left_by_others
from pyslurm_ng.sched.timeline.promises import Promises
from pyslurm_ng.sched.timeline.room_planner import RoomPlanner

_WORTH_US = MINUTE_US  # what a second reservation of a job has to bring
_MOST_SHORTENED = 1000  # jobs that may run shorter for which the best start to come is looked for


class PromisedRoom:
    """The promises of one walk.

    promises: the room promised to each job. behind: why jobs wait in a partition with a blocked
        one.
    hopeless: why a demand has no room in the whole window, by its identity. licenses: those left
    by the starts of this walk.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        planner: RoomPlanner,
        plan: Plan,
        gate: LimitGate,
        limits: BackfillLimits | None,
    ) -> None:
        self.promises = Promises()
        self.behind: dict[str, Wait] = {}
        self.hopeless: dict[int, Wait] = {}
        self.licenses = dict(snapshot.licenses_free)
        self.smart: Smart | None = None
        self.preempting: Preempting | None = None
        self._snapshot = snapshot
        self._policy = policy
        self._planner = planner
        self._plan = plan
        self._gate = gate
        self._limits = limits
        self._counts: dict[str, int] = {}  # by partition
        self._shortened = 0
        self._obstacles = Obstacles(snapshot)
        self._promised: tuple[int, PlannedNodes] = (0, PlannedNodes())

    def wait(self, job: Waiting, finding: Finding) -> Wait:
        """Keep room for a job that cannot start now, and say why it waits.

        Args:
            finding: what was found for it.
        """
        plan, name = self._plan, finding.demand.partition.name
        asked, lies_badly = finding.demand, finding.lies_badly
        finding = self.soonest(job, finding)
        vacated = self.vacated(job, finding.demand, finding.start_us)
        if vacated is not None:
            finding = left_by_others(finding.demand, vacated.start_us, vacated.nodes)
        demand, start_us = finding.demand, finding.start_us
        if elastic.misses_deadline(job.request, demand.duration_us, start_us):
            return reason.deadline(job.request.deadline_us, self._snapshot.now_us)
        if start_us == NEVER:
            hopeless = self._never(job, demand, lies_badly=lies_badly)
            if demand.is_plain and demand.loose is None and not demand.need.sharing:
                self.hopeless[id(demand)] = hopeless
            return hopeless
        promised_us = plan.expected_start_us.get(job.job_id, NEVER)
        is_sooner = self._is_worth(job, promised_us, start_us)
        if (
            self._may_reserve(job, demand.partition)
            and start_us > self._snapshot.now_us
            and (promised_us == NEVER or is_sooner or job.array_pending)
        ):
            if is_sooner:
                self.promises.supersede(job.job_id)
                plan.expected_start_us[job.job_id] = start_us
            self._planner.take(finding, job.job_id)
            self.promise(job.job_id, demand, start_us)
        plan.expected_start_us.setdefault(job.job_id, start_us)
        if self.lacks_licenses(demand):
            return reason.licenses(demand, self.licenses)
        wait = self._kept_by_reservation(job, demand) or self.behind.get(name)
        if wait is None:
            self.behind[name] = reason.behind(job.job_id, name)
            return _too_far(self._snapshot, asked) if lies_badly else reason.resources(demand)
        return wait

    def _is_worth(self, job: Waiting, promised_us: int, start_us: int) -> bool:
        """Return whether a start in another partition is so much sooner that room is kept there."""
        if promised_us == NEVER or job.array_pending or self._policy.reserves_once:
            return False
        return start_us < promised_us - _WORTH_US

    def soonest(self, job: Waiting, finding: Finding) -> Finding:
        """Return as what, when and where a job starts that cannot start now.

        Args:
            finding: what was found for it.
        """
        first_us = self._snapshot.now_us + 1
        if NEVER != finding.start_us < first_us:
            # There is enough of everything, but not as the job needs it: others may not have it.
            finding = self._planner.find_from(finding.demand, first_us)
        finding = self._patient(job, finding)
        finding = self._planner.recall(job.job_id, finding, first_us)
        return self._cut(job, finding) if finding.demand.is_elastic else finding

    def vacated(self, job: Waiting, demand: Demand, before_us: int) -> Vacated | None:
        """Return where a job may start before a time once others are no longer exempt from it."""
        if self.preempting is None or job.het_job_id:
            return None
        return self.preempting.find_later(
            job,
            demand,
            self._snapshot.until_us if before_us == NEVER else before_us,
            self.licenses,
            lambda at_us: self.promised_nodes(demand, at_us),
        )

    def vacated_together(
        self, components: Sequence[tuple[Waiting, Demand]], before_us: int
    ) -> VacatedTogether | None:
        """Return the same of all components of a heterogeneous job."""
        if self.preempting is None:
            return None
        return self.preempting.together.find_later(
            components,
            self._snapshot.until_us if before_us == NEVER else before_us,
            self.licenses,
            self.promised_nodes,
        )

    def keep_from(self, job: Waiting, demand: Demand, first_us: int) -> int:
        """Keep room for a task that may not start before a time; return its end, or NEVER."""
        planner, job_id = self._planner, job.job_id
        finding = planner.find(demand)
        if NEVER < finding.start_us < first_us:
            finding = planner.find_from(demand, first_us)
        finding = planner.recall(job_id, finding, first_us)
        start_us = finding.start_us
        is_late = elastic.misses_deadline(job.request, demand.duration_us, start_us)
        if start_us == NEVER or is_late:
            return NEVER
        self._plan.expected_start_us.setdefault(job_id, start_us)
        if not self._may_reserve(job, demand.partition):
            return NEVER
        planner.take(finding, job_id)
        self.promise(job_id, demand, start_us)
        return demand.end_us(start_us)

    def promise(self, job_id: int, demand: Demand, start_us: int) -> None:
        """Note that the planner keeps room for a job."""
        name = demand.partition.name
        self._counts[name] = self._counts.get(name, 0) + 1
        self.promises.append(job_id, demand, start_us)

    def has_depth(self, names: Iterable[str]) -> bool:
        """Return whether one more job may be promised room in each of some partitions."""
        depth = self._policy.reserve_depth
        return all(self._counts.get(name, 0) < depth for name in names)

    def _may_reserve(self, job: Waiting, partition: Partition) -> bool:
        """Return whether a job may be promised room."""
        if job.is_guest:
            return False
        priority = self._plan.priorities.get(job.job_id, 0)
        if self._limits is not None and not self._limits.may_reserve(job, priority):
            return False
        if not self._gate.may_reserve(job, partition, priority):
            return False
        if self.smart is not None:
            return self.smart.may_reserve(job.job_id, self._counts.get(partition.name, 0))
        return self.has_depth((partition.name,))

    def keeps(self, queue: Sequence[Entry]) -> bytes | None:
        """Return a byte for each job, 0 for jobs that are kept no room behind `settled`; None: all
        are kept room."""
        if self.smart is not None:
            return self.smart.reserves(queue)
        return None if self._policy.reserve_depth >= EVERY_JOB else bytes(len(queue))

    def settled(self) -> dict[str, Wait]:
        """Return the partitions of `behind` where `keeps` says which jobs are promised room from
        now on."""
        if self.smart is None and self._policy.reserve_depth >= EVERY_JOB:
            return self.behind
        return {name: wait for name, wait in self.behind.items() if self.is_settled(name)}

    def is_settled(self, name: str) -> bool:
        """Return whether a partition is one of `settled`."""
        depth = 1 if self.smart is not None else self._policy.reserve_depth
        return name in self.behind and self._counts.get(name, 0) >= depth

    def waits(self, entries: Sequence[Entry]) -> list[Wait]:
        """Return why jobs wait that others were promised room before, in `settled` partitions."""
        behind, kept = self.behind, self._kept_by_reservation
        if not self._snapshot.reservations:
            return [behind[demand.partition.name] for _, _, demand in entries]
        return [kept(job, demand) or behind[demand.partition.name] for _, job, demand in entries]

    def lacks_licenses(self, demand: Demand) -> bool:
        """Return whether fewer licences are left than a job asks for."""
        return any(self.licenses.get(name, 0) < count for name, count in demand.licenses)

    def take_licenses(self, demand: Demand) -> None:
        """Count the licences of a job that starts."""
        for name, count in demand.licenses:
            self.licenses[name] = self.licenses.get(name, 0) - count

    def promised_nodes(self, demand: Demand, from_us: int = 0, own_id: int = 0) -> frozenset[int]:
        """Return the nodes promised to others for a time in which such a job would run from now.

        Args:
            from_us: it would run from then; 0: now.
            own_id: the job itself, where it may have its own promise already.
        """
        if not self.promises:
            return frozenset()
        if self._promised[0] != len(self.promises):
            self.promises.settle()
            planned = self._planner.planned_nodes(self.promises)
            self._promised = len(self.promises), planned
        nodes = self._promised[1]
        until_us = demand.end_us(from_us or self._snapshot.now_us)
        return frozenset(
            node_id
            for job_id, _, start_us in self.promises
            if start_us < until_us and abs(job_id) != own_id
            for node_id in nodes.get(job_id, ())
        )

    def _patient(self, job: Waiting, finding: Finding) -> Finding:
        """Return where a job starts: below few switches, or any once it has waited enough."""
        demand, start_us = finding.demand, finding.start_us
        loose = demand.loose
        if loose is None or loose.stamp != demand.stamp or NEVER < start_us <= job.patience_us:
            return finding
        first_us = max(job.patience_us, self._snapshot.now_us)
        anywhere = self._planner.find_from(loose, first_us)
        anywhere = self._planner.recall(job.job_id, anywhere, first_us)
        if anywhere.start_us == NEVER or NEVER < start_us <= anywhere.start_us:
            # The same room once more: some searches have budgets, which decide what others find.
            return self._planner.find(demand)
        return anywhere

    def _cut(self, job: Waiting, finding: Finding) -> Finding:
        """Return where a job starts soonest, with the longest limit of those that do."""
        planner, now_us, job_id = self._planner, self._snapshot.now_us, job.job_id
        demand, start_us = finding.demand, finding.start_us  # with its own limit, or NEVER
        least, most = elastic.bounds_min(job.request, demand.duration_us, now_us)
        if least >= most or self._shortened >= _MOST_SHORTENED:
            return finding
        self._shortened += 1
        first_us = now_us + 1
        soonest = planner.find_from(demand.lasting(least, now_us), first_us)
        soonest_us = soonest.start_us
        promised = planner.promised_as(job_id, demand)
        if promised is not None:
            recalled = planner.recall(job_id, soonest._replace(demand=promised), first_us)
            is_sooner = start_us == NEVER or recalled.start_us < start_us
            if recalled.recalled is not None and is_sooner:
                return recalled
        if soonest_us != NEVER and (start_us == NEVER or soonest_us < start_us):

            def room(demand: Demand) -> Finding | None:
                finding = planner.find_from(demand, soonest_us)
                return finding if finding.start_us == soonest_us else None

            bounds = elastic.bounds_min(job.request, demand.duration_us, soonest_us)
            longest = elastic.longest(demand, *bounds, now_us, room)
            if longest is not None:
                return longest
        return planner.recall(job_id, planner.find_from(demand, first_us), first_us)

    def _never(self, job: Waiting, demand: Demand, *, lies_badly: bool) -> Wait:
        """Return why there is no room for a job in the whole window."""
        if lies_badly:
            return _too_far(self._snapshot, demand)
        return (
            self._kept_by_reservation(job, demand)
            or self._obstacles.lasting(job.request, demand)
            or (reason.licenses(demand, self.licenses) if self.lacks_licenses(demand) else None)
            or reason.never(demand)
        )

    def never_together(self, parts: Sequence[Part]) -> dict[int, Wait]:
        """Return why components of a heterogeneous job have no room at once, by job id."""
        lasting = self._obstacles.lasting_together(parts)
        if lasting:
            return lasting
        wait = reason.never_together([part.hopeful[0] for part in parts])
        waits = dict.fromkeys((part.job.job_id for part in parts), wait)
        now_us, find_from = self._snapshot.now_us, self._planner.find_from
        for part in parts:
            if all(find_from(demand, now_us).start_us == NEVER for demand in part.hopeful):
                why, stuck = self._never(part.job, part.hopeful[0], lies_badly=False), part.job
                text = f"component {stuck.job_id} of its job finds no room: {why.text}"
                others = dict.fromkeys(waits, Wait(why.reason, text, why.shown))
                return others | {stuck.job_id: why}
        return waits

    def _kept_by_reservation(self, job: Waiting, demand: Demand) -> Wait | None:
        """Return the reservation but for which a job would start now, if there is one."""
        if not self._snapshot.reservations:
            return None

        def taken() -> frozenset[int]:
            nodes = {alloc.node_id for start in self._plan.starts for alloc in start.nodes}
            return self.promised_nodes(demand, own_id=job.job_id) | nodes

        return self._obstacles.reservation(demand, taken)


def _too_far(snapshot: Snapshot, demand: Demand) -> Wait:
    """Return the reason of a job with enough nodes free, but not near one another."""
    return reason.topology(demand.need, snapshot.network(demand.partition))
