"""One walk through the queue: jobs that start, jobs with promised room, and why the others wait."""

from __future__ import annotations

from collections.abc import Mapping

from pyslurm_ng._select import NEVER
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.backfill import others_room, walk_het
from pyslurm_ng.sched.backfill.array_turns import ArrayTurns, plan_turns
from pyslurm_ng.sched.backfill.plain_jobs import PlainJobs
from pyslurm_ng.sched.backfill.walk_result import WalkResult
from pyslurm_ng.sched.demand import elastic, het, reason
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import HandOver, JobFaults, Plan, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.started import left_of
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.room_planner import RoomPlanner


class Walk(WalkResult):
    """What a walk has given away so far; it may be taken in several stretches."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        planner: RoomPlanner,
        outcome: Plan,
        parts: Mapping[int, list[het.Part]],
    ) -> None:
        """Begin.

        Args:
            budget: jobs to look at.
            parts: components of heterogeneous jobs, by leader.
        """
        super().__init__(snapshot, policy, budget, planner, outcome)
        self.parts = parts
        self.turns = ArrayTurns(snapshot)
        self.hand_over: HandOver | None = None  # is shown the plan when more jobs start
        self._given_tasks: dict[int, list[int]] = {}  # of arrays: they start, or others leave
        self._barred: set[int] = set()  # those that could never run in the partitions seen so far
        self._plain = PlainJobs(self)

    def run(self, queue: list[Entry]) -> None:
        """Look at all jobs of the queue, or of the next stretch of it."""
        self._lose_claims(queue)
        planner, done, starts = self.planner, self.done, self.plan.starts
        # Nothing but room decides: many jobs can be answered without a look at everything else.
        takes_others = self.preempting is not None or self.sharing is not None
        by_room = self._looks_at_all(queue) and not takes_others
        keeps = self.room.keeps(queue)
        in_stretches = by_room and (self.gate.is_open or planner.learns)
        learns = in_stretches and keeps is not None and planner.learns
        shown = len(starts)
        at = tested = 0
        while True:
            while in_stretches and (placed := self._plain.place_next(queue, at, keeps)):
                at += placed
            if at >= len(queue):
                break
            _, job, demand = queue[at]
            at += 1
            if job.job_id in done:
                continue
            try:
                if by_room and self._plain.is_answered(job, demand, keeps_all=keeps is None):
                    tested += 1
                    continue
                self._settle(job, demand, self._consider(job, demand))
                if learns and demand.kind < 0:
                    self._plain.learn(demand)
            except Exception as error:
                # What it has booked may be half done, so this walk ends here.
                raise JobFaults({job.job_id: error}) from error
            if self.hand_over is not None and len(starts) > shown:
                shown = len(starts)
                self.hand_over(self.plan)
        self.plan.tested += tested
        if self.room.promises:
            self.room.promises.settle()
            self.plan.planned_nodes = self.planner.planned_nodes(self.room.promises)

    def _lose_claims(self, queue: list[Entry]) -> None:
        """Note the jobs whose claims are of no use: they are no longer in the queue."""
        claimed = self.snapshot.claims
        if claimed:
            alive = {job.job_id for _, job, _ in queue}
            self.plan.lost_claims += [job_id for job_id in claimed if job_id not in alive]

    def _settle(self, job: Waiting, demand: Demand, wait: Wait | None) -> None:
        """Note that a job needs no further look, or why it waits."""
        if wait is not None:
            self._note_wait(job.job_id, demand, wait)
            return
        self.done.add(job.job_id)
        self.plan.waits.pop(job.job_id, None)
        self.plan.expected_start_us.pop(job.job_id, None)

    def _looks_at_all(self, queue: list[Entry]) -> bool:
        """Return whether room is looked for, if there is any, for each job of the queue."""
        if self.budget < len(queue) or self._limits is not None:
            return False
        return self.gate.is_open or not self.policy.stops_at_limits

    def _note_wait(self, job_id: int, demand: Demand, wait: Wait) -> None:
        """Note why a job waits in its first partition, or in the first where it could ever run."""
        is_barred = wait is demand.verdict or wait is demand.lasting_wait
        if job_id not in self.plan.waits:
            self.plan.waits[job_id] = wait
            if is_barred:
                self._barred.add(job_id)
        elif job_id in self._barred and not is_barred:
            self.plan.waits[job_id] = wait
            self._barred.discard(job_id)

    def look(self, job: Waiting, demand: Demand) -> Finding:
        """Return as what, when and where a job would start after those of the walk.

        It uses what is free by then: no job has to leave for it.
        """
        if demand.verdict is not None:
            return Finding(demand, NEVER)
        short = self._short_now(job, demand) if demand.is_elastic else None
        if short is not None:
            return short
        finding = self._find(job, demand)
        if finding.start_us != self.snapshot.now_us or demand.is_elastic:
            finding = self.room.soonest(job, finding)
        return finding

    def _find(self, job: Waiting, demand: Demand) -> Finding:
        """Return when a job, or the next task of an array, can start: sooner or as promised."""
        finding = self.planner.find(demand)
        return self.planner.recall(job.job_id, finding, self.snapshot.now_us)

    def _consider(self, job: Waiting, demand: Demand) -> Wait | None:
        """Start a job, or as many tasks of it as fit; else reserve. Return why it waits."""
        if job.het_job_id:
            return walk_het.consider(self, self.parts[job.het_job_id])
        if demand.verdict is not None:
            return demand.verdict
        if not job.tasks_left:
            return self._await_turn(job, demand)
        if self.plan.tested >= self.budget:
            self.plan.cut_by = "bf_max_job_test"
            return reason.PASS_ENDED
        name = demand.partition.name
        is_behind = name in self.room.behind
        if is_behind and self._limits is not None and not self._limits.looks_at(job, name):
            if not self._limits.may_start():
                self.plan.cut_by = "bf_max_job_start"
            return reason.PASS_ENDED
        if name in self.gate.stopped:
            return self.gate.stopped[name]
        wait = self.gate.over_least(job, demand)
        claim = self.snapshot.claims.get(job.job_id)
        if wait is None and claim is not None:
            wait = self.gate.over_given(job, demand, claim.nodes)
        if wait is not None:
            self.give_up([claim] if claim is not None else ())
            return self.gate.stop(demand, wait)
        self.plan.tested += 1
        if claim is not None and claim.is_free and not job.array_pending:
            in_time = elastic.in_time(demand, job.request, self.snapshot.now_us)
            if in_time is not None:
                self.start_claimed(job, in_time, claim)
                return None
        if job.array_pending:
            return self._consider_array(job, demand)
        self._begin_attempt()
        if demand.is_elastic and self._start_short(job, demand, -1):
            return None
        finding = self._find(job, demand)
        is_now = finding.start_us == self.snapshot.now_us and not demand.is_elastic
        if is_now and self._start(job, finding, -1):
            return None
        sharing = self.sharing if self.over is None else None
        if sharing is not None and others_room.share(self, sharing, job, demand, -1):
            return None
        if self.over is not None:
            return self.gate.stop(demand, self.over)
        if claim is not None:
            return others_room.await_claim(self, job, demand, claim)
        if self.preempting is not None:
            wait = others_room.preempt(self, self.preempting, job, demand, -1)
            if wait is not None:
                return wait
        return self.wait(job, finding)

    def _consider_array(self, job: Waiting, demand: Demand) -> Wait | None:
        """Start as many tasks as fit; keep room for some of the others.

        Those that the array's limit keeps from running now have their turns one after another.
        """
        promises, starts, leaving = self.room.promises, self.plan.starts, self.plan.preemptions
        task_ids = self._given_tasks.setdefault(job.job_id, [])
        rest = left_of(job, task_ids)
        if rest is None:
            return reason.ARRAY_LIMIT
        job, promised, started, preempted = rest, len(promises), len(starts), len(leaving)
        wait = self._consider_tasks(job, demand)
        task_ids += [start.task_id for start in starts[started:]]
        task_ids += [preemption.start.task_id for preemption in leaving[preempted:]]
        if job.throttled_by:
            started, promised = len(starts) - started, len(promises) - promised
            self.turns.take(job, [self.snapshot.now_us + demand.duration_us] * started)
            self.turns.take(job, promises.last_ends_us(promised))
            if started + promised == job.tasks_left:
                plan_turns(self, self.turns, job, demand, promised)
        return wait

    def _await_turn(self, job: Waiting, demand: Demand) -> Wait:
        """Keep room for tasks of an array of which as many run as may."""
        is_open = demand.partition.name not in self.gate.stopped and job.throttled_by
        if is_open and self.plan.tested < self.budget:
            self.plan.tested += 1
            plan_turns(self, self.turns, job, demand, 0)
        return reason.ARRAY_LIMIT

    def _consider_tasks(self, job: Waiting, demand: Demand) -> Wait | None:
        """Give room to as many tasks as may run now; return why the next one waits."""
        tasks = task_ranges.tasks(job.array_pending)
        wait: Wait | None = None
        leaving: Wait | None = None
        reserved = 0
        for _ in range(job.tasks_left):
            over = self.gate.over_least(job, demand)
            if over is not None:
                return wait or self.gate.stop(demand, over)
            task_id = next(tasks)
            self._begin_attempt()
            if demand.is_elastic and wait is None and self._start_short(job, demand, task_id):
                continue
            finding = self._find(job, demand)
            is_now = finding.start_us == self.snapshot.now_us and not demand.is_elastic
            if is_now and wait is None and self._start(job, finding, task_id):
                continue
            may_share = wait is None and leaving is None and self.over is None
            sharing = self.sharing if may_share else None
            if sharing is not None and others_room.share(self, sharing, job, demand, task_id):
                continue
            if self.over is not None:
                return self.gate.stop(demand, self.over)
            if self.preempting is not None and wait is None:
                preempts = others_room.preempt(self, self.preempting, job, demand, task_id)
                if preempts is not None:
                    leaving = preempts
                    continue
            promised = self.wait(job, finding)
            wait = wait or promised
            reserved += 1
            if reserved >= self.policy.array_depth or finding.start_us == NEVER:
                break
        wait = wait or leaving
        if wait is None and task_ranges.count(job.array_pending) > job.tasks_left:
            return reason.ARRAY_LIMIT
        return wait

    def _begin_attempt(self) -> None:
        """No limit has been in the way of this job so far."""
        self.over = None

    def _start_short(self, job: Waiting, demand: Demand, task_id: int) -> bool:
        """Start a job whose limit may be cut, with the longest that fits now."""
        finding = self._short_now(job, demand)
        return finding is not None and self._start(job, finding, task_id)

    def _short_now(self, job: Waiting, demand: Demand) -> Finding | None:
        """Return room now for the longest limit that fits, of a job whose limit may be cut."""
        now_us, planner = self.snapshot.now_us, self.planner
        promised = planner.promised_as(job.job_id, demand) or demand
        recalled = planner.recall(job.job_id, Finding(promised, NEVER), now_us)
        if recalled.start_us == now_us:
            return recalled
        least, most = elastic.bounds_min(job.request, demand.duration_us, now_us)

        def room(demand: Demand) -> Finding | None:
            finding = planner.find(demand)
            return finding if finding.start_us == now_us else None

        return elastic.longest(demand, least, most, now_us, room)

    def _start(self, job: Waiting, finding: Finding, task_id: int) -> bool:
        demand = finding.demand
        is_behind = demand.partition.name in self.room.behind
        if is_behind and self._limits is not None and not self._limits.may_start():
            self.plan.cut_by = "bf_max_job_start"
            return False
        self.over = None
        if self.gate.is_open:
            allocs = self.planner.start(finding)
        else:
            allocs = self._start_within(job, finding)
        if allocs is None:
            return False
        self.start_on(job, demand, task_id, allocs)
        return True

    def _start_within(self, job: Waiting, finding: Finding) -> tuple[NodeAlloc, ...] | None:
        """Take what a job gets unless that breaks a limit, which is `_over` then."""
        self.planner.begin_trial()
        allocs = self.planner.start(finding)
        if allocs is not None:
            self.over = self.gate.over_given(job, finding.demand, allocs)
        if allocs is None or self.over is not None:
            self.planner.roll_back()
            return None
        self.planner.keep()
        return allocs
