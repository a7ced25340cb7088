"""When passes run, and what becomes of their plans.

A pass is a snapshot on the loop, a plan in a thread, and a dispatch on the loop that checks each
start again. One pass at a time; what happens meanwhile makes the next one due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.jobs import is_live_behind, refresh_live
from pyslurm_ng.ctld.rules import gang, preempt
from pyslurm_ng.ctld.rules.complete_wait import held_back
from pyslurm_ng.ctld.rules.dispatch import dispatch, dispatch_het
from pyslurm_ng.ctld.rules.preparation import Preparation
from pyslurm_ng.ctld.scheduling.early_starts import EarlyStarts
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.history import History
from pyslurm_ng.sched.job_views import Views, waiting_record
from pyslurm_ng.sched.limits.measures import Limits
from pyslurm_ng.sched.limits.standing import Standings
from pyslurm_ng.sched.plan import HandOver, Places, Plan, Preemption, Start, Wait
from pyslurm_ng.sched.policy import Policy
from pyslurm_ng.sched.priority import Ranking
from pyslurm_ng.sched.snapshot import Snapshot, outline, snapshot

Reasons = Mapping[int, Wait]

# Starts applied before the loop may look at messages again: a tenth of a millisecond each.
_STARTS_PER_TURN = 16
_LONG_QUEUE = 10_000
_LONGEST_PAUSE_S = 1.0
_LONGEST_PAUSE_US = 1_000_000
_RANKING_LIFE_US = 1_000_000
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


# Of what changes a job's record: what its place was planned for. The rest is asked at its start.
_WANTS = frozenset(("account", "assoc_id", "begin_us", "partition", "qos", "time_limit_min"))


def _changes_wants(event: ev.AnyEvent) -> bool:
    return isinstance(event, ev.JobUpdated) and (
        event.request is not None or not _WANTS.isdisjoint(event.fields)
    )


def _makes_due(event: ev.AnyEvent) -> bool:
    if isinstance(event, ev.JobSubmitted):
        # A held job, or one that must wait for its time or others, changes nothing for now.
        return event.priority != 0 and event.eligible_us != 0
    return isinstance(event, _MAKES_DUE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the thread hands back; the pass took `took_us` of it."""

    plan: Plan
    reasons: Reasons
    took_us: int


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
        least_interval_s: float = 0.0,
        usage: UsageIndex | None = None,
        from_thread: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """Nothing runs until `due`.

        Args:
            least_interval_s: from the begin of one pass to that of the next: what arrives
                meanwhile, as in a stream of submissions, shares a pass.
            usage: what has been used, kept by whoever sees events.
            from_thread: runs a function on the loop, called in the scheduler's thread; without,
                all starts of a pass wait for its end.
        """
        self._least_interval_us = int(least_interval_s * 1e6)
        self.policy = policy
        self.prepare = prepare
        self._writer = writer
        self._soft = soft
        self._edges = edges
        self._plan = plan
        self._from_thread = from_thread
        self._is_due = False
        self._is_running = False
        self._is_stopped = False
        self._pause_s = 0.0
        self._waited: Mapping[int, Wait] = {}  # why jobs waited before the pass whose starts come
        self._begun_us = -_LONGEST_PAUSE_US
        self._snapshot_us = 0
        self._views = Views()
        self._outdated: set[int] = set()  # jobs that ask for something else than the pass knows
        self._slices = Slices(edges.call_soon)
        self._is_freshening = False
        self._former: list[object] = []  # tables of a former plan
        self.places: Places | None = None  # where the last pass has promised room
        self._standings = Standings()
        self._usage = usage or UsageIndex(writer.cluster)
        self._history: History | None = None
        self._ranking: Ranking | None = None
        self._ranking_us = 0
        self._releases = writer.cluster.releases
        self._retry_us = 0  # when a pass is due because a job may be preempted from then on
        self._patience_us = 0  # when a pass is due because a job has waited long enough
        soft.rank = self._rank

    def _rank(self, job: Job) -> int:
        """Return the priority that a job would have now, for those that passes leave out."""
        cluster, now_us = self._writer.cluster, self._edges.now_us()
        if self._ranking is None or now_us - self._ranking_us > _RANKING_LIFE_US:
            view = outline(cluster, now_us)
            self._ranking = Ranking(view, self.policy, self._soft.fairshare)
            self._ranking_us = now_us
        waiting = waiting_record(cluster, job)
        partition = cluster.partitions.get(waiting.partitions[0])
        return self._ranking.priority(waiting, partition) if partition is not None else 0

    def look(self) -> Snapshot:
        """Return what a pass would see now."""
        self._views.foresee(self._foresight())
        self._views.heed_preemption(bool(self.policy.preempt_by))
        self._views.heed_over_run(self.policy.over_run_us)
        cluster = self._writer.cluster
        view = snapshot(cluster, self._edges.now_us(), self._views)
        limits: Limits | None = None
        if self.policy.enforces_limits:
            limits = self._usage.quotas(self._edges.now_us(), is_safe=self.policy.is_safe)
        limits = self._standings.limits(
            cluster,
            limits,
            enforces_associations=self.policy.enforces_associations,
            fairshare=self._soft.fairshare if self.policy.enforces_limits else None,
        )
        if limits is None and not self._soft.fairshare:
            return view
        return replace(view, fairshare=self._soft.fairshare, limits=limits)

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """See whether events make a pass due, and what they change for it."""
        for event in events:
            if not isinstance(event, ev.JobSubmitted) or (event.eligible_us and event.priority):
                self._views.forget(touched_jobs(event))
            if self._is_running and _changes_wants(event):
                self._outdated.update(touched_jobs(event))
            if self._history is not None and isinstance(event, ev.JobEnded):
                self._history.ended(self._writer.cluster.jobs[event.job_id])
        if self._views.is_much_stale and not self._is_freshening:
            self._is_freshening = True
            self._slices.run(self._freshen())
        # Most duties done are launches; some clean a node, which others may have then.
        releases, self._releases = self._releases, self._writer.cluster.releases
        if self._is_due:
            return
        if releases != self._releases or any(_makes_due(event) for event in events):
            self.due()

    def _freshen(self) -> Iterator[None]:
        yield from self._views.freshen(self._writer.cluster)
        self._is_freshening = False

    def _foresight(self) -> History | None:
        """Return what is known of users' run times, if the policy asks for it."""
        if not self.policy.is_smart:
            self._history = None
        elif self._history is None:
            self._history = History()
            self._history.read(self._writer.cluster)
        return self._history

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

    def failed(self) -> None:
        """Go on after a pass that ended with an error; the caller has waited a little."""
        self._is_running = False
        self._is_due = False
        self.due()

    def stop(self) -> None:
        """Begin no more passes."""
        self._is_stopped = True

    def _begin(self) -> None:
        if self._is_running or self._is_stopped or not self._is_due:
            return
        self._is_due = False
        if not self._writer.cluster.pending:
            self._resume()
            self._soft.planned(Plan(), {}, queue_length=0, took_us=0, now_us=self._edges.now_us())
            return
        self._is_running = True
        plan, policy, monotonic_us = self._plan, self.policy, self._edges.monotonic_us
        taken_us = self._begun_us = monotonic_us()
        view = self.look()
        self._outdated.clear()
        self._snapshot_us = monotonic_us() - taken_us
        if view.topologies:
            self._come_back(view)

        early: EarlyStarts | None = None
        if self._from_thread is not None:
            early = EarlyStarts(monotonic_us, self._from_thread, self._take_early)
        self._soft.passes.last_started = 0

        def work() -> Outcome:
            begin_us = monotonic_us()
            # A claim that has become void stands in the way until the whole plan is known.
            if early is None or view.claims:
                result = plan(view, policy)
            else:
                result = plan(view, policy, hand_over=early)
            return Outcome(result, result.waits, monotonic_us() - begin_us)

        self._edges.run(work, lambda outcome: self._planned(outcome, len(view.waiting), early))

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
        self._waited = self._soft.reason
        starts = self._not_held_back(starts, self._edges.now_us())
        position = 0
        while position < len(starts) and not self._is_stopped:
            position = self._dispatch_next(starts, position)

    def _planned(self, outcome: Outcome, queue_length: int, early: EarlyStarts | None) -> None:
        soft, self.places = self._soft, outcome.plan.places
        self._former += (soft.reason, soft.priority, soft.expected_start_us, soft.sched_nodes)
        self._waited = soft.reason
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
        # Passes over a long queue must leave the thread half of the time, the loop four fifths.
        pause_s = max(outcome.took_us, 4 * self._snapshot_us) / 1e6
        self._pause_s = 0.0 if pause_s < _SHORT_PASS_S else min(pause_s, _LONGEST_PAUSE_S)
        plan, now_us = outcome.plan, self._edges.now_us()
        if plan.lost_claims:
            self._writer.record(preempt.lost_claims(self._writer.cluster, plan.lost_claims, now_us))
            self.due()
        for item in plan.preemptions:
            self._preempt(item, now_us)
        if plan.retry_us and not now_us <= self._retry_us <= plan.retry_us:
            self._retry_us = plan.retry_us
            self._edges.call_later(max(0, plan.retry_us - now_us) / 1e6, self.due)
        starts = plan.starts if early is None else early.left(plan.starts)
        self._start(self._not_held_back(starts, now_us), 0)

    def _let_go(self) -> Iterator[None]:
        """Forget the former plan, a table for each `yield`: one of a long queue takes 4 ms."""
        while self._former:
            self._former.pop()
            yield

    def _not_held_back(self, starts: Sequence[Start], now_us: int) -> Sequence[Start]:
        """Leave out starts that CompleteWait puts off, and come back when it is over."""
        held = held_back(
            self._writer.cluster,
            self.policy.complete_wait_s,
            now_us,
            only_near=self.policy.waits_near,
        )
        if not held.until_us:
            return starts
        left = [start for start in starts if start.partition not in held.partitions]
        if len(left) < len(starts):
            self._edges.call_later((held.until_us - now_us) / 1e6, self.due)
        return left

    def _preempt(self, item: Preemption, now_us: int) -> None:
        """Make victims leave; start the job at once if they only have to be suspended."""
        writer = self._writer
        if not self._outdated.isdisjoint(start.job_id for start in (item.start, *item.together)):
            return
        events, found = preempt.split(writer.cluster, item, now_us)
        writer.record(events)
        if found is None:
            return
        leave = preempt.preempt(writer.cluster, found, self.policy, now_us)
        if leave is None:
            return
        writer.record(leave)
        if not writer.cluster.jobs[found.start.job_id].claim:
            start = found.start
            self._dispatch(start, now_us)

    def _resume(self) -> None:
        """Let jobs that were suspended for others go on where those have left."""
        cluster, now_us = self._writer.cluster, self._edges.now_us()
        if cluster.suspended:
            self._writer.record(preempt.resumed(cluster, now_us))
        if self.policy.time_slice_s:
            self._writer.record(gang.turns(cluster, self.policy.time_slice_s, now_us))

    def _start(self, starts: Sequence[Start], position: int) -> None:
        """Apply some starts, each against the Cluster as the one before left it."""
        if self._is_stopped:
            return
        last = min(position + _STARTS_PER_TURN, len(starts))
        while position < last:
            position = self._dispatch_next(starts, position)
        if position < len(starts):
            self._edges.call_soon(lambda: self._start(starts, position))
            return
        self._waited = {}
        self._resume()
        self._is_running = False
        if self._is_due:
            self._begin_after(self._pause_s)

    def _dispatch(self, start: Start, now_us: int) -> None:
        events = dispatch(
            self._writer.cluster,
            start,
            now_us,
            prepare=self.prepare,
            waited_for=self._waited_for(start),
            priorities=self._soft.priority,
        )
        self._writer.record(events)

    def _waited_for(self, start: Start) -> int:
        """Return why a job has waited as far as the pass before the one that starts it."""
        wait = self._waited.get(start.job_id)
        return int(wait.reason) if wait is not None else 0

    def _dispatch_next(self, starts: Sequence[Start], position: int) -> int:
        """Start one job, or all components of one; return where the next stands."""
        writer, now_us = self._writer, self._edges.now_us()
        start = starts[position]
        position += 1
        if not start.het_job_id:
            if start.job_id not in self._outdated:
                self._dispatch(start, now_us)
            return position
        together = [start]
        while position < len(starts) and starts[position].het_job_id == start.het_job_id:
            together.append(starts[position])
            position += 1
        if not self._outdated.isdisjoint(one.job_id for one in together):
            return position
        events = dispatch_het(
            writer.cluster,
            together,
            now_us,
            prepare=self.prepare,
            waited_for=self._waited_for(start),
            priorities=self._soft.priority,
        )
        if events:
            self._soft.passes.het_components += len(together)
        writer.record(events)
        return position
