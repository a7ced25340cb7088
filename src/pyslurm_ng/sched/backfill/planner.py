"""Conservative backfill over the whole queue: every job gets a start or a reservation.

Jobs are taken in priority order against free resources over time. A job that fits now starts. A job
that does not fit gets the earliest room, and later jobs take only what is left, so a job of lower
priority delays no other. With `bf_reserve_depth` only the first waiting jobs of each partition get
a reservation, the others just an estimate.

Source: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyslurm_ng.sched.backfill.queue import Queue
from pyslurm_ng.sched.backfill.smart import Smart
from pyslurm_ng.sched.backfill.strict_order import StrictOrder
from pyslurm_ng.sched.backfill.walk import Walk
from pyslurm_ng.sched.cons_tres.rows import Sharing, any_shares
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import HandOver, PastPromises, Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.preempt import Preempting
from pyslurm_ng.sched.reservation.het_reservations import add_across, ids_across
from pyslurm_ng.sched.reservation.inside import Inside
from pyslurm_ng.sched.reservation.overlapping import add_overlapping
from pyslurm_ng.sched.timeline.node_plan import NodePlan
from pyslurm_ng.sched.timeline.pools import Pools
from pyslurm_ng.sched.timeline.room_now import RoomNow
from pyslurm_ng.sched.timeline.room_planner import RoomPlanner

_NO_BUDGET = 1 << 62


class Planner:
    """Plans one pass after another, and remembers what does not depend on time."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Begin again."""
        self._queue = Queue()
        self._pools = Pools()
        self._nodes: NodePlan | None = None
        self._now: RoomNow | None = None
        self._smart: Smart | None = None
        self._inside = Inside(Planner)

    def __call__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int = _NO_BUDGET,
        fairshare: Mapping[int, float] | None = None,
        *,
        hand_over: HandOver | None = None,
    ) -> Plan:
        """Return the jobs that start now, when the others are to start, and why they wait.

        Args:
            budget: jobs to look at; those beyond it wait for `Priority`.
            hand_over: is shown the unfinished plan of jobs outside of reservations, whenever more
                of them start.

        Raises:
            JobFaults: planning these jobs raised something; any other exception: it is not known
                which jobs it was about. Nothing of a pass that did not end is remembered.
        """
        try:
            if not snapshot.reservations:
                return self._plan(snapshot, policy, budget, fairshare, hand_over)
            inside, rest = self._inside.plan(snapshot, policy, budget, fairshare)
            budget = max(0, budget - inside.tested)
            outside = self._plan(rest, policy, budget, fairshare, hand_over)
            add_overlapping(outside, rest, policy, Planner, fairshare)
            past_promises = outside.past_promises
            inside.add(outside)
            inside.past_promises = past_promises
            across = ids_across(snapshot.waiting)
            apart = [job for job in snapshot.waiting if job.het_job_id in across] if across else []
            add_across(inside, rest, apart, policy, Planner, fairshare)
            return inside
        except BaseException:
            self._forget()
            raise

    def fresh(self) -> Planner:
        """Return a planner of the same sort that remembers nothing."""
        return Planner()

    def _plan(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        fairshare: Mapping[int, float] | None,
        hand_over: HandOver | None,
    ) -> Plan:
        """Return the plan of jobs outside of reservations."""
        outcome = Plan()
        self._begin(snapshot, policy)
        ranking = Ranking(snapshot, policy, fairshare)
        queue, demands = self._queue.entries(snapshot, ranking, outcome)
        if policy.only_increases:
            queue = self._queue.never_lower(queue, outcome)
        if not policy.is_smart:
            self._smart = None
        else:
            self._smart = self._smart or Smart()
            queue = self._smart.order(snapshot, self._queue.ranked(queue, ranking))
        if not queue:
            outcome.lost_claims += snapshot.claims
            return outcome
        budget = min(budget, policy.test_depth)
        walk = self._walk(snapshot, policy, budget, demands, outcome, ranking)
        walk.hand_over = hand_over
        if self._smart is not None:
            walk.room.smart = self._smart
            walk.run(queue)
            self._smart.started(outcome.starts)
        else:
            walk.run(queue)
        outcome.slots, outcome.past_promises = walk.planner.slots, walk.planner.past_promises
        return outcome

    def rehearse(
        self,
        snapshot: Snapshot,
        policy: Policy,
        others: Sequence[Waiting],
        fairshare: Mapping[int, float] | None = None,
        past_promises: PastPromises | None = None,
    ) -> Rehearsal | None:
        """Return a walk that has not begun, its queue, and where `others` would be in it.

        For a separate planner: it keeps nothing for passes. None under sched/builtin.

        Args:
            past_promises: where the last pass has promised room.
        """
        if not policy.backfills:
            return None
        outcome = Plan()
        if snapshot.reservations:
            _, snapshot = self._inside.plan(snapshot, policy, _NO_BUDGET, fairshare)
        self._begin(snapshot, policy)
        ranking = Ranking(snapshot, policy, fairshare)
        queue, demands = self._queue.entries(snapshot, ranking, outcome)
        tried = self._queue.entries_of(others, snapshot, ranking)
        # One entry per demand: planners number those that they are given.
        extra = {id(demand): demand for entries in tried for _, _, demand in entries}
        known = {id(demand) for demand in demands}
        demands += [demand for name, demand in extra.items() if name not in known]
        walk = self._walk(snapshot, policy, _NO_BUDGET, demands, outcome, ranking, past_promises)
        if policy.is_smart:
            walk.room.smart = Smart()
            queue = walk.room.smart.order(snapshot, self._queue.ranked(queue, ranking))
        return Rehearsal(walk, queue, tried)

    def _begin(self, snapshot: Snapshot, policy: Policy) -> None:
        """Forget what no longer holds."""
        if self._queue.begin(snapshot, policy):
            self._pools, self._nodes, self._now = Pools(), None, None

    def _walk(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        demands: list[Demand],
        outcome: Plan,
        ranking: Ranking,
        past_promises: PastPromises | None = None,
    ) -> Walk:
        """Return a walk with what it needs for shared cores, preemption and het jobs."""
        if not policy.backfills:
            return self._strict_walk(snapshot, policy, budget, demands, outcome)
        planner = self._planner(snapshot, policy, demands, past_promises)
        walk = Walk(snapshot, policy, budget, planner, outcome, self._queue.parts)
        if any_shares(snapshot):
            walk.sharing = Sharing(snapshot, outcome)
        if policy.preempt_by:
            walk.preempting = walk.room.preempting = Preempting(snapshot, policy, outcome, ranking)
        return walk

    def _strict_walk(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        demands: list[Demand],
        outcome: Plan,
    ) -> Walk:
        """Return a walk that starts the jobs of each partition strictly in order."""
        if self._now is None:
            self._now = RoomNow(snapshot)
        self._now.begin(snapshot, demands)
        walk = Walk(snapshot, policy, budget, self._now, outcome, self._queue.parts)
        walk.strict = StrictOrder(snapshot, self._now, outcome, walk.gate, walk.room)
        return walk

    def _planner(
        self,
        snapshot: Snapshot,
        policy: Policy,
        demands: list[Demand],
        past_promises: PastPromises | None,
    ) -> RoomPlanner:
        """Return the planner for these demands: counts where those are exact, else nodes.

        Args:
            past_promises: where jobs were promised room by another planner.
        """
        # Nodes that are reserved at times, or from which jobs may be driven, are not alike.
        are_alike = not snapshot.reservations and not policy.preempt_by
        are_alike = are_alike and not any_shares(snapshot) and not policy.packs_serial
        # A job that was promised single nodes gets these, though any would do by now.
        are_alike = are_alike and (self._nodes is None or not self._nodes.has_promised)
        are_alike = are_alike and past_promises is None
        if are_alike and self._pools.fit(snapshot, demands):
            self._pools.begin(demands, policy.window_s)
            return self._pools
        if self._nodes is None:
            self._nodes = NodePlan(snapshot)
        self._nodes.begin(snapshot, demands, policy)
        if past_promises is not None:
            self._nodes.adopt(past_promises)
        return self._nodes


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A walk that has not begun, its queue in order, and entries of jobs that are not in it."""

    walk: Walk
    queue: list[Entry]
    tried: list[list[Entry]]


plan = Planner()
"""The pass of this process."""
