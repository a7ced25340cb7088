"""When passes run, and what becomes of their plans.

A pass is a snapshot on the loop, a plan in a thread, and a dispatch on the loop that checks each
start again. One pass at a time; what happens meanwhile makes the next one due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.jobs import is_live_behind, refresh_live
from pyslurm_ng.ctld.rules.ends import faulty
from pyslurm_ng.ctld.rules.starts import gang, preempt
from pyslurm_ng.ctld.rules.starts.complete_wait import held_back
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch, dispatch_het
from pyslurm_ng.ctld.rules.starts.preparation import Preparation
from pyslurm_ng.ctld.scheduling.early_starts import EarlyStarts
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.backfill.blame import Blame, blame
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.history import History
from pyslurm_ng.sched.frame.job_views import Views, waiting_record
from pyslurm_ng.sched.frame.measures import Limits
from pyslurm_ng.sched.frame.plan import HandOver, Places, Plan, Preemption, Start, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import Snapshot, outline, snapshot
from pyslurm_ng.sched.limits.account_checks import AccountWatch

Reasons = Mapping[int, Wait]

# Starts applied before the loop may look at messages again: a tenth of a millisecond each.
_STARTS_PER_TURN = 16
_LONG_QUEUE = 10_000
_LONGEST_PAUSE_S = 1.0
_LONGEST_PAUSE_US = SECOND_US
_RANKING_LIFE_US = SECOND_US
_AFTER_FAILED_PASS_S = 1.0
# A job that a pass has failed about, though not by itself, is looked at again after this time.
_LEFT_OUT_US = 300_000_000
# After so many passes that failed one after another, all jobs of the users concerned are left out.
_FEW_FAILED = 4
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
        self.prepare = prepare
        self._writer = writer
        self._soft = soft
        self._edges = edges
        self._plan = plan
        self._faults = faults
        self._left_out: dict[int, int] = {}  # until when, by job id; see `blame`
        self._failed_passes = 0  # one after another
        self._left_out_users: set[int] = set()
        self._from_thread = from_thread
        self._is_due = False
        self._is_running = False
        self._is_stopped = False
        self._pause_s = 0.0
        self._waited: Mapping[int, Wait] = {}  # why jobs waited before the pass whose starts come
        self._begun_us = -_LONGEST_PAUSE_US
        self._snapshot_us = 0
        self._views = Views(faulted=self._no_record)
        self._outdated: set[int] = set()  # jobs that ask for something else than the pass knows
        self._slices = Slices(edges.call_soon)
        self._is_freshening = False
        self._former: list[object] = []  # tables of a former plan
        self.places: Places | None = None  # where the last pass has promised room
        self._account_watch = AccountWatch()
        self._usage = usage or UsageIndex(writer.cluster)
        self._history: History | None = None
        self._ranking: Ranking | None = None
        self._ranking_us = 0
        self._releases = writer.cluster.node_index.releases
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
        try:
            waiting = waiting_record(cluster, job)
            partition = cluster.partitions.get(waiting.partitions[0])
            return self._ranking.priority(waiting, partition) if partition is not None else 0
        except Exception as error:  # noqa: BLE001 - it costs this job's priority only
            self._faults.note("priority", f"job {job.job_id} has no priority", error)
            return 0

    def look(self) -> Snapshot:
        """Return what a pass would see now."""
        self._views.foresee(self._foresight())
        self._views.heed_preemption(bool(self.policy.preempt_by))
        self._views.heed_over_run(self.policy.over_run_us)
        cluster = self._writer.cluster
        view = self._without_left_out(snapshot(cluster, self._edges.now_us(), self._views))
        limits: Limits | None = None
        if self.policy.enforces_limits:
            limits = self._usage.quotas(self._edges.now_us(), is_safe=self.policy.is_safe)
        limits = self._account_watch.limits(
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
            if isinstance(event, ev.TimesMoved) and event.is_all:
                self._ranking, self._retry_us, self._patience_us = None, 0, 0
                self.due()
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
        releases, self._releases = self._releases, self._writer.cluster.node_index.releases
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

    def _go_on_later(self, error: Exception) -> None:
        """Try again in a second after an error that was about no job in particular."""
        self._faults.note("pass", "a scheduling pass failed", error)
        self._edges.call_later(_AFTER_FAILED_PASS_S, self._begin_anew)

    def _begin_anew(self) -> None:
        """Begin the next pass after one that did not end."""
        self._is_running = False
        self._is_due = False
        self.due()

    def _without_left_out(self, view: Snapshot) -> Snapshot:
        """Leave out jobs about which passes have failed lately."""
        left_out, users = self._left_out, self._left_out_users
        if not left_out and not users:
            return view
        now_us = view.now_us
        for job_id in [job_id for job_id, until_us in left_out.items() if until_us <= now_us]:
            del left_out[job_id]
        gone = {job.het_job_id for job in view.waiting if job.job_id in left_out} - {0}
        waiting = [
            job
            for job in view.waiting
            if job.job_id not in left_out and job.uid not in users and job.het_job_id not in gone
        ]
        running = [item for item in view.running if abs(item.job_id) not in left_out]
        return replace(view, waiting=waiting, running=running)

    def _no_record(self, job_id: int, error: Exception) -> None:
        """Hold a job of which no record could be made, in a later turn of the loop."""
        self._edges.call_soon(lambda: self._hold(job_id, error))

    def _hold(self, job_id: int, error: Exception) -> None:
        """Hold a job at fault, so that passes go on without it."""
        self._faults.note("job", f"job {job_id} cannot be scheduled", error)
        self._left_out[job_id] = self._edges.now_us() + _LEFT_OUT_US
        events = faulty.held(self._writer.cluster, job_id, error, self._edges.now_us())
        if events:
            self._writer.record(events)
            del self._left_out[job_id]

    def _blamed(self, error: Exception, found: Blame) -> None:
        """Set aside what a pass has failed about, and begin the next one without it."""
        for job_id, why in found.own.items():
            self._hold(job_id, why)
        until_us = self._edges.now_us() + _LEFT_OUT_US
        for job_id, why in chain(found.others.items(), found.running.items()):
            self._faults.note("job", f"job {job_id} is left out of scheduling for a while", why)
            self._left_out[job_id] = until_us
        self._failed_passes += 1
        if self._failed_passes > _FEW_FAILED:
            jobs = self._writer.cluster.jobs
            for job_id in (*found.own, *found.others):
                if job_id in jobs:
                    self._left_out_users.add(jobs[job_id].uid)
        if found.own or found.others or found.running:
            self._begin_anew()
        else:
            self._go_on_later(error)

    def stop(self) -> None:
        """Begin no further passes."""
        self._is_stopped = True

    def _begin(self) -> None:
        if self._is_running or self._is_stopped or not self._is_due:
            return
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
            try:
                # A claim that has become void stands in the way until the whole plan is known.
                if early is None or view.claims:
                    result = plan(view, policy)
                else:
                    result = plan(view, policy, hand_over=early)
            except Exception as error:  # noqa: BLE001 - it is about one job, most likely
                found = blame(self._fresh_planner, view, policy, error)
                return Outcome(Plan(), {}, monotonic_us() - begin_us, error, found)
            return Outcome(result, result.waits, monotonic_us() - begin_us)

        def done(outcome: Outcome) -> None:
            try:
                if outcome.error is not None:
                    self._blamed(outcome.error, outcome.blame or Blame())
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
        self._waited = self._soft.reason
        starts = self._not_held_back(starts, self._edges.now_us())
        position = 0
        while position < len(starts) and not self._is_stopped:
            position = self._dispatch_next(starts, position)

    def _planned(self, outcome: Outcome, queue_length: int, early: EarlyStarts | None) -> None:
        self._failed_passes = 0
        self._left_out_users.clear()
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
            try:
                self._preempt(item, now_us)
            except Exception as error:  # noqa: BLE001 - it costs this job only
                self._hold(item.start.job_id, error)
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
        start = starts[position]
        last = position + 1
        if start.het_job_id:
            while last < len(starts) and starts[last].het_job_id == start.het_job_id:
                last += 1
        together = starts[position:last]
        if self._outdated.isdisjoint(one.job_id for one in together):
            now_us = self._edges.now_us()
            try:
                if start.het_job_id:
                    self._dispatch_together(together, now_us)
                else:
                    self._dispatch(start, now_us)
            except Exception as error:  # noqa: BLE001 - it costs this job only
                self._hold(start.job_id, error)
        return last

    def _dispatch_together(self, together: Sequence[Start], now_us: int) -> None:
        """Start all components of a heterogeneous job."""
        writer, start = self._writer, together[0]
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
