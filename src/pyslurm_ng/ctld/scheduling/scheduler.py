"""When passes run, and what becomes of their plans.

A pass is a snapshot on the loop, a plan in a thread, and a dispatch on the loop that checks each
start again. One pass at a time; what happens meanwhile makes the next one due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.jobs import is_live_behind, refresh_live
from pyslurm_ng.ctld.rules.starts import gang, preempt
from pyslurm_ng.ctld.rules.starts.complete_wait import held_back
from pyslurm_ng.ctld.rules.starts.preparation import Preparation
from pyslurm_ng.ctld.scheduling.early_starts import EarlyStarts
from pyslurm_ng.ctld.scheduling.job_priorities import JobPriorities
from pyslurm_ng.ctld.scheduling.left_out import LeftOut
from pyslurm_ng.ctld.scheduling.pass_input import PassInput
from pyslurm_ng.ctld.scheduling.starter import Starter
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.sched.backfill.blame import Blame, blame
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.measures import Limits
from pyslurm_ng.sched.frame.plan import HandOver, PastPromises, Plan, Start, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot

Reasons = Mapping[int, Wait]
AfterPass = Callable[[Snapshot, Callable[[], Limits | None], int], None]
"""Shown what a pass saw, how to get the limits with what it has started counted, and the time."""

# Starts applied before the loop may look at messages again: a tenth of a millisecond each.
_STARTS_PER_TURN = 16
_LONG_QUEUE = 10_000
_LONGEST_PAUSE_S = 1.0
_LONGEST_PAUSE_US = SECOND_US
_AFTER_FAILED_PASS_S = 1.0
# Passes shorter than this follow one another without a pause: what has become free is used again
# at once, and the loop hardly misses the thread.
_SHORT_PASS_S = 0.05

# After any other event the last plan still holds.
_MAKES_DUE = (
    ev.JobUpdated,
    ev.JobEligible,
    ev.JobSuspended,
    ev.JobEnded,
    ev.JobRequeued,
    ev.JobResized,
    ev.NodeRegistered,
    ev.NodeUpdated,
    ev.NodesCreated,
    ev.NodesReturned,
    ev.NodesSilent,
    ev.ConfigLoaded,
    ev.PartitionUpdated,
    ev.LicensesUpdated,
    ev.ReservationUpdated,
    ev.ReservationDeleted,
    ev.QosChanged,
    ev.AssocChanged,
    ev.UsageReset,
)


def _makes_due(event: ev.AnyEvent) -> bool:
    if isinstance(event, ev.JobSubmitted):
        # A held job, or one that must wait for its time or others, changes nothing for now.
        return event.priority != 0 and event.eligible_us != 0
    if isinstance(event, ev.BufferChanged):
        return event.buffer is not None and event.buffer.state == BufferState.STAGED_IN
    return isinstance(event, _MAKES_DUE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the thread hands back; the pass took `took_us` of it.

    A pass that raised has an `error` and an empty plan; `blame` says which jobs it was about.
    """

    plan: Plan
    reasons: Reasons
    took_us: int
    error: Exception | None = None
    blame: Blame | None = None


class PlanFunction(Protocol):
    """What plans; `sched.backfill.plan` is one."""

    def __call__(
        self, snapshot: Snapshot, policy: Policy, /, *, hand_over: HandOver | None = None
    ) -> Plan:
        """Return a plan; show it to `hand_over` whenever it has got more starts."""


class Edges(Protocol):
    """What a scheduler needs of its surroundings: time, the thread, the loop."""

    def now_us(self) -> int:
        """The controller's time."""

    def monotonic_us(self) -> int:
        """For durations."""

    def call_soon(self, function: Callable[[], None], /) -> object:
        """Run at the end of the present turn."""

    def call_later(self, delay_s: float, function: Callable[[], None], /) -> object:
        """Run after a while."""

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None], /) -> None:
        """Run in the scheduler's thread, then `done` on the loop."""


class Scheduler:
    """Runs passes when something has happened that could start a job."""

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        edges: Edges,
        *,
        plan: PlanFunction,
        policy: Policy,
        prepare: Preparation,
        faults: Faults,
        least_interval_s: float = 0.0,
        usage: UsageIndex | None = None,
        from_thread: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """Nothing runs until `due`.

        Args:
            faults: where exceptions about single jobs are counted.
            least_interval_s: from the begin of one pass to that of the next: what arrives
                meanwhile, as in a stream of submissions, shares a pass.
            usage: what has been used, kept by a follower of the events.
            from_thread: runs a function on the loop, called in the scheduler's thread; without,
                all starts of a pass wait for its end.
        """
        self._least_interval_us = int(least_interval_s * 1e6)
        self.policy = policy
        self._writer = writer
        self._soft = soft
        self._edges = edges
        self._plan = plan
        self._faults = faults
        self._from_thread = from_thread
        self._is_due = False
        self._is_running = False
        self._is_stopped = False
        self._pause_s = 0.0
        self._begun_us = -_LONGEST_PAUSE_US
        self._snapshot_us = 0
        self._slices = Slices(edges.call_soon)
        self._left_out = LeftOut(writer, faults, edges.now_us)
        self._starter = Starter(writer, soft, prepare, self._left_out, edges.now_us)
        self._priorities = JobPriorities(writer.cluster, soft, faults, edges.now_us)
        self._input = PassInput(
            writer.cluster,
            soft,
            usage or UsageIndex(writer.cluster),
            self._slices,
            self._no_record,
        )
        self._former: list[object] = []  # tables of a former plan
        self.past_promises: PastPromises | None = None  # where the last pass has promised room
        self.after_pass: AfterPass | None = None  # shown what a pass saw, once its jobs started
        self._view: Snapshot | None = None
        self._releases = writer.cluster.node_index.releases
        self._retry_us = 0  # when a pass is due because a job may be preempted from then on
        self._patience_us = 0  # when a pass is due because a job has waited long enough
        soft.rank = lambda job: self._priorities.priority(job, self.policy)
        writer.priority_of = soft.priority_of

    def adopt(self, policy: Policy, prepare: Preparation) -> None:
        """Go by another configuration from the next pass on."""
        self.policy = policy
        self._starter.prepare = prepare

    def look(self) -> Snapshot:
        """Return what a pass would see now."""
        now_us = self._edges.now_us()
        return self._left_out.without(self._input.look(self.policy, now_us))

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """See whether events make a pass due, and what they change for it."""
        for event in events:
            if isinstance(event, ev.TimesMoved) and event.is_all:
                self._priorities.forget()
                self._retry_us, self._patience_us = 0, 0
                self.due()
            if self._is_running:
                self._starter.applied(event)
        self._input.applied(events)
        # Most duties done are launches; some clean a node, which others may have then.
        releases, self._releases = self._releases, self._writer.cluster.node_index.releases
        if self._is_due:
            return
        if releases != self._releases or any(_makes_due(event) for event in events):
            self.due()

    def due(self) -> None:
        """Run a pass soon."""
        if self._is_due or self._is_stopped:
            return
        self._is_due = True
        if not self._is_running:
            self._begin_after(0.0)

    def _begin_after(self, pause_s: float) -> None:
        """Begin a pass after a pause, and not too soon after the last one began."""
        since_us = self._edges.monotonic_us() - self._begun_us
        wait_s = max(pause_s, (self._least_interval_us - since_us) / 1e6)
        if wait_s <= 0:
            self._edges.call_soon(self._begin)
        else:
            self._edges.call_later(wait_s, self._begin)

    def _go_on_later(self, error: Exception) -> None:
        """Try again in a second after an error that was about no job in particular."""
        self._faults.note("pass", "a scheduling pass failed", error)
        self._edges.call_later(_AFTER_FAILED_PASS_S, self._begin_anew)

    def _begin_anew(self) -> None:
        """Begin the next pass after one that did not end."""
        self._is_running = False
        self._is_due = False
        self.due()

    def _no_record(self, job_id: int, error: Exception) -> None:
        """Hold a job of which no record could be made, in a later turn of the loop."""
        self._edges.call_soon(lambda: self._left_out.hold(job_id, error))

    def _failed(self, error: Exception, blamed: Blame) -> None:
        """Begin the next pass without the jobs that this one has failed about."""
        if self._left_out.blame(blamed):
            self._begin_anew()
        else:
            self._go_on_later(error)

    def stop(self) -> None:
        """Begin no further passes."""
        self._is_stopped = True

    def _begin(self) -> None:
        if self._is_running or self._is_stopped or not self._is_due:
            return
        if self._input.catch_up(self.policy, self._begin):
            return  # it is still due
        self._is_due = False
        if not self._writer.cluster.job_index.pending:
            self._resume()
            self._soft.planned(Plan(), {}, queue_length=0, took_us=0, now_us=self._edges.now_us())
            return
        self._is_running = True
        try:
            self._pass()
        except Exception as error:  # noqa: BLE001 - the next pass may do better
            self._go_on_later(error)

    def _pass(self) -> None:
        """Take a snapshot and have the thread plan."""
        plan, policy, monotonic_us = self._plan, self.policy, self._edges.monotonic_us
        taken_us = self._begun_us = monotonic_us()
        view = self._view = self.look()
        self._starter.begin_pass()
        self._snapshot_us = monotonic_us() - taken_us
        if view.topologies:
            self._come_back(view)

        early: EarlyStarts | None = None
        if self._from_thread is not None:
            early = EarlyStarts(monotonic_us, self._from_thread, self._take_early)
        self._soft.passes.last_started = 0

        def work() -> Outcome:
            begin_us = monotonic_us()
            try:
                # A claim that has become void stands in the way until the whole plan is known.
                if early is None or view.claims:
                    result = plan(view, policy)
                else:
                    result = plan(view, policy, hand_over=early)
            except Exception as error:  # noqa: BLE001 - it is about one job, most likely
                blamed = blame(self._fresh_planner, view, policy, error)
                return Outcome(Plan(), {}, monotonic_us() - begin_us, error, blamed)
            return Outcome(result, result.waits, monotonic_us() - begin_us)

        def done(outcome: Outcome) -> None:
            try:
                if outcome.error is not None:
                    self._failed(outcome.error, outcome.blame or Blame())
                else:
                    self._planned(outcome, len(view.waiting), early)
            except Exception as error:  # noqa: BLE001 - the next pass may do better
                self._go_on_later(error)

        self._edges.run(work, done)

    def _fresh_planner(self) -> PlanFunction:
        """Return what plans like the passes' own planner and remembers nothing of them."""
        return self._plan.fresh() if isinstance(self._plan, Planner) else self._plan

    def _come_back(self, view: Snapshot) -> None:
        """Run a pass when the next job stops to wait for few leaf switches."""
        ends = [job.patience_us for job in view.waiting if job.switches]
        if not ends or view.now_us < self._patience_us <= min(ends):
            return
        self._patience_us = min(ends)
        self._edges.call_later((self._patience_us - view.now_us) / 1e6, self.due)

    def _take_early(self, unfinished: Plan, starts: Sequence[Start]) -> None:
        """Start jobs of a pass that still goes on."""
        if self._soft.priority is not unfinished.priorities:
            self._former.append(self._soft.priority)
            self._soft.priority = unfinished.priorities
        self._starter.waited = self._soft.reason
        starts = self._not_held_back(starts, self._edges.now_us())
        position = 0
        while position < len(starts) and not self._is_stopped:
            position = self._starter.start_next(starts, position)

    def _planned(self, outcome: Outcome, queue_length: int, early: EarlyStarts | None) -> None:
        self._left_out.pass_ended()
        soft, self.past_promises = self._soft, outcome.plan.past_promises
        self._former += (soft.reason, soft.priority, soft.expected_start_us, soft.sched_nodes)
        self._starter.waited = soft.reason
        soft.planned(
            outcome.plan,
            outcome.reasons,
            queue_length=queue_length,
            took_us=outcome.took_us,
            now_us=self._edges.now_us(),
        )
        if queue_length > _LONG_QUEUE:
            self._slices.run(self._let_go())
        else:
            self._former.clear()
        if is_live_behind(self._writer.cluster, self._soft):
            self._slices.run(refresh_live(self._writer.cluster, self._soft))
        # Passes over a long queue leave the thread half of the time, the loop four fifths; after
        # passes of more than a second, jobs would wait longer than that is worth.
        pause_s = max(outcome.took_us, 4 * self._snapshot_us) / 1e6
        self._pause_s = 0.0 if pause_s < _SHORT_PASS_S else min(pause_s, _LONGEST_PAUSE_S)
        plan, now_us = outcome.plan, self._edges.now_us()
        if plan.lost_claims:
            self._writer.record(preempt.lost_claims(self._writer.cluster, plan.lost_claims, now_us))
            self.due()
        for preemption in plan.preemptions:
            try:
                self._starter.preempt(preemption, self.policy, now_us)
            except Exception as error:  # noqa: BLE001 - it costs this job only
                self._left_out.hold(preemption.start.job_id, error)
        if plan.retry_us and not now_us <= self._retry_us <= plan.retry_us:
            self._retry_us = plan.retry_us
            self._edges.call_later(max(0, plan.retry_us - now_us) / 1e6, self.due)
        starts = plan.starts if early is None else early.left(plan.starts)
        self._start(self._not_held_back(starts, now_us), 0)

    def _let_go(self) -> Iterator[None]:
        """Forget the last plan, a table for each `yield`: the plan of a long queue takes 4 ms."""
        while self._former:
            self._former.pop()
            yield

    def _not_held_back(self, starts: Sequence[Start], now_us: int) -> Sequence[Start]:
        """Leave out starts that CompleteWait puts off, and come back when it is over."""
        delays = held_back(
            self._writer.cluster,
            self.policy.complete_wait_s,
            now_us,
            only_near=self.policy.waits_near,
        )
        if not delays.until_us:
            return starts
        allowed_starts = [start for start in starts if start.partition not in delays.partitions]
        if len(allowed_starts) < len(starts):
            self._edges.call_later((delays.until_us - now_us) / 1e6, self.due)
        return allowed_starts

    def _resume(self) -> None:
        """Let jobs that were suspended for others go on where those have left."""
        cluster, now_us = self._writer.cluster, self._edges.now_us()
        try:
            if cluster.job_index.suspended:
                self._writer.record(preempt.resumed(cluster, now_us))
            if self.policy.time_slice_s:
                self._writer.record(gang.turns(cluster, self.policy.time_slice_s, now_us))
        except Exception as error:  # noqa: BLE001 - they go on after the next pass
            self._faults.note("resume", "suspended jobs could not go on", error)

    def _start(self, starts: Sequence[Start], position: int) -> None:
        """Apply some starts, each against the Cluster as the one before left it."""
        if self._is_stopped:
            return
        last = min(position + _STARTS_PER_TURN, len(starts))
        while position < last:
            position = self._starter.start_next(starts, position)
        if position < len(starts):
            self._edges.call_soon(lambda: self._start(starts, position))
            return
        self._starter.waited = {}
        self._resume()
        if self.after_pass is not None and self._view is not None:
            now_us = self._edges.now_us()
            self.after_pass(self._view, lambda: self._input.limits(self.policy, now_us), now_us)
        self._view = None
        self._is_running = False
        if self._is_due:
            self._begin_after(self._pause_s)
