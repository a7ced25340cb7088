"""Soft state: what can be measured or computed again. Never journaled; apply never reads it.

Heartbeats and loads of nodes, counters for sdiag, and the last scheduling pass's opinions
(priorities, reasons with numbers, expected starts), by job id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.records import RecordCache
from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, Reason
from pyslurm_ng.sched.frame.plan import Plan, PlannedNodes, Wait

_LATE_US = 500_000  # a second's turn of the loop is never exact
_LOST = (JobState.NODE_FAIL, JobState.BOOT_FAIL)
_KEEP_PRIORITY = frozenset((ev.JobEnded, ev.ArrayTaskSplit, ev.JobPurged))


@dataclass(slots=True)
class NodeMeasures:
    """What one node last said about itself; -1 and 0 where it has not said anything."""

    last_seen_us: int = 0
    cpu_load_hundredths: int = -1
    free_mem_mib: int = -1
    watts: int = 0
    mean_watts: int = 0


@dataclass(slots=True)
class CallCount:
    """Number and total duration of one kind of request, or of one user's."""

    count: int = 0
    total_us: int = 0


@dataclass(slots=True)
class PassCount:
    """Scheduling passes since the last reset."""

    cycles: int = 0
    last_us: int = 0
    longest_us: int = 0
    total_us: int = 0
    tested: int = 0
    last_tested: int = 0
    tried: int = 0  # of those, jobs that room was looked for
    last_tried: int = 0
    last_started: int = 0
    queue_length: int = 0
    queue_total: int = 0
    slots: int = 0  # of the last pass's timeline
    slots_total: int = 0
    last_at_us: int = 0
    started: int = 0  # from behind a blocked job: by backfill
    started_ever: int = 0  # the same since the daemon began
    cut_by: dict[str, int] = field(default_factory=dict)  # passes that an option has cut short
    het_components: int = 0  # of heterogeneous jobs that have started


@dataclass(slots=True)
class JobCount:
    """Jobs since the last reset."""

    submitted: int = 0
    started: int = 0
    completed: int = 0
    cancelled: int = 0
    failed: int = 0


@dataclass
class Soft:
    """All soft state of one controller.

    `priority`, `reason`, `expected_start_us` and `sched_nodes` are the last pass's opinions by job
    id. `dbd_queue` is how many batches slurmdbd has not acknowledged, `agent_queue` how many
    duties wait for a node's answer. `refused` counts refusals of the wire by cause.
    """

    started_us: int
    records: RecordCache = field(default_factory=RecordCache)
    node_load: dict[int, NodeMeasures] = field(default_factory=dict)
    last_seen_us: dict[int, int] = field(default_factory=dict)
    listened_us: int = 0
    calls: dict[str, CallCount] = field(default_factory=dict)
    callers: dict[int, CallCount] = field(default_factory=dict)
    passes: PassCount = field(default_factory=PassCount)
    jobs: JobCount = field(default_factory=JobCount)
    reset_us: int = 0
    priority: Mapping[int, int] = field(default_factory=dict)
    last_priority: dict[int, int] = field(default_factory=dict)  # of jobs that no longer wait
    reason: Mapping[int, Wait] = field(default_factory=dict)
    expected_start_us: Mapping[int, int] = field(default_factory=dict)
    sched_nodes: PlannedNodes = field(default_factory=PlannedNodes)
    plan_generation: int = 0
    rank: Callable[[Job], int] = lambda job: 0  # the priority of a job that no pass considers yet
    fairshare: Mapping[int, float] = field(default_factory=dict)  # factors by association
    dbd_queue: int = 0
    dbd_connected: bool = False
    agent_queue: int = 0
    agents: int = 0
    journal_bytes: int = 0
    journal_groups: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)  # by kind: see `base.faults`
    connections: dict[str, int] = field(default_factory=dict)  # and bytes: `wire.shares`
    limited: dict[int, int] = field(default_factory=dict)  # told to back off, by uid
    spared: Spared = raise_it  # is told of records that a query has to leave out
    clock_latency_us: int = 0  # of a thousand looks at the clock
    # DebugFlags: told of each pass with the queue's length and its duration, and of each request.
    on_pass: Callable[[Plan, int, int], None] | None = None
    on_call: Callable[[str, int, int], None] | None = None

    def heard(
        self,
        node_id: int,
        now_us: int,
        *,
        load: int = -1,
        free_mem_mib: int = -1,
        watts: tuple[int, int] | None = None,
    ) -> NodeMeasures:
        """Note that a node spoke, and what it measured if it said so."""
        measures = self.node_load.get(node_id)
        if measures is None:
            measures = self.node_load[node_id] = NodeMeasures()
        measures.last_seen_us = now_us
        self.last_seen_us[node_id] = now_us
        if load >= 0:
            measures.cpu_load_hundredths = load
        if free_mem_mib >= 0:
            measures.free_mem_mib = free_mem_mib
        if watts is not None:
            measures.watts, measures.mean_watts = watts
        return measures

    def expect(self, cluster: Cluster, now_us: int) -> None:
        """Begin to wait for nodes that have not spoken since this controller began.

        They have SlurmdTimeout from now on, with or without an earlier message.
        """
        if len(self.last_seen_us) < len(cluster.nodes):
            for node_id, node in enumerate(cluster.nodes):
                if node is not None:
                    self.last_seen_us.setdefault(node_id, now_us)

    def listened(self, now_us: int, period_us: int, timeout_us: int) -> None:
        """Note that nodes could be heard now, which is asked to happen once in `period_us`.

        Time in which this controller was stopped or too busy to listen counts for no node's
        silence. After a long one (a fourth of SlurmdTimeout) nodes may have to find it again, so
        each has SlurmdTimeout from now on.
        """
        before_us, self.listened_us = self.listened_us, now_us
        late_us = now_us - before_us - period_us
        if not before_us or late_us < _LATE_US:
            return
        if timeout_us and late_us * 4 >= timeout_us:
            late_us = now_us
        for node_id, seen_us in self.last_seen_us.items():
            self.last_seen_us[node_id] = min(now_us, seen_us + late_us)

    def count_call(self, kind: str, uid: int, took_us: int) -> None:
        """Count one request that was answered."""
        of_kind = self.calls.get(kind)
        if of_kind is None:
            of_kind = self.calls[kind] = CallCount()
        of_user = self.callers.get(uid)
        if of_user is None:
            of_user = self.callers[uid] = CallCount()
        for counted in (of_kind, of_user):
            counted.count += 1
            counted.total_us += took_us
        if self.on_call is not None:
            self.on_call(kind, uid, took_us)

    def planned(
        self,
        plan: Plan,
        reasons: Mapping[int, Wait],
        *,
        queue_length: int,
        took_us: int,
        now_us: int,
    ) -> None:
        """Keep what a pass found out; `reasons` is the plan's waits as queries want them."""
        self.reason = reasons
        self.priority = plan.priorities
        self.expected_start_us = plan.expected_start_us
        self.sched_nodes = plan.planned_nodes
        self.plan_generation += 1
        passes = self.passes
        passes.cycles += 1
        passes.last_us = took_us
        passes.longest_us = max(passes.longest_us, took_us)
        passes.total_us += took_us
        passes.last_tested = len(plan.priorities)
        passes.tested += passes.last_tested
        passes.last_tried = min(plan.tested, passes.last_tested)
        passes.tried += passes.last_tried
        passes.queue_length = queue_length
        passes.queue_total += queue_length
        passes.slots = plan.slots
        passes.slots_total += plan.slots
        passes.last_at_us = now_us
        if plan.cut_by:
            passes.cut_by[plan.cut_by] = passes.cut_by.get(plan.cut_by, 0) + 1
        if self.on_pass is not None:
            self.on_pass(plan, queue_length, took_us)

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Count what happened to jobs.

        Failed are those that were lost with their node or could not be launched: sdiag's manual
        says "due to slurmd or other internal issues". Whatever a job exits with, it is completed.
        """
        jobs = self.jobs
        for event in events:
            if type(event) in _KEEP_PRIORITY:
                self._keep_priority(event)
            if isinstance(event, ev.JobSubmitted):
                jobs.submitted += max(1, event.array_count)
            elif isinstance(event, ev.JobAllocated):
                jobs.started += 1
                self.passes.last_started += 1
                if event.scheduler == "Backfill":
                    self.passes.started += 1
                    self.passes.started_ever += 1
            elif isinstance(event, ev.TimesMoved) and event.is_all:
                self._move(event.shift_us)
            elif isinstance(event, ev.JobEnded):
                if event.state == JobState.CANCELLED:
                    jobs.cancelled += 1
                elif event.state in _LOST or event.reason == Reason.JobLaunchFailure:
                    jobs.failed += 1
                else:
                    jobs.completed += 1

    def _move(self, shift_us: int) -> None:
        """Have nodes be as silent as before, by a clock that has been moved."""
        self.listened_us += shift_us if self.listened_us else 0
        for node_id in self.last_seen_us:
            self.last_seen_us[node_id] += shift_us
        for measures in self.node_load.values():
            measures.last_seen_us += shift_us

    def priority_of(self, job: Job) -> int:
        """Return what a job's place in the queue was worth last, or would be worth."""
        if job.priority != NO_VAL:
            return job.priority
        known = job.start_priority or self.priority.get(job.job_id, 0)
        known = known or self.last_priority.get(job.job_id, 0)
        if known or job.state in TERMINAL_STATES:
            return known
        return self.rank(job)

    def _keep_priority(self, event: ev.AnyEvent) -> None:
        """Remember the priority of a job that ended while it waited, as squeue goes on showing it.

        One that has started has it in its record.
        """
        if isinstance(event, ev.JobEnded):
            priority = self.priority.get(event.job_id)
            if priority is not None:
                self.last_priority[event.job_id] = priority
        elif isinstance(event, ev.ArrayTaskSplit):
            priority = self.priority.get(event.array_job_id)
            if priority is not None:
                self.last_priority[event.job_id] = priority
        elif isinstance(event, ev.JobPurged):
            for job_id in event.job_ids:
                self.last_priority.pop(job_id, None)

    def reset(self, now_us: int) -> None:
        """Set the counters to zero, as `sdiag -r` and midnight (UTC) do."""
        self.calls.clear()
        self.callers.clear()
        started_ever = self.passes.started_ever
        self.passes = PassCount(started_ever=started_ever)
        self.jobs = JobCount()
        self.faults.clear()
        self.limited.clear()
        self.reset_us = now_us
