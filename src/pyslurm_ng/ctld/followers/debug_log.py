"""DebugFlags: what slurmctld logs more, a line for each event that a flag names.

The names and prefixes are Slurm's; the sentences are ours, since what happens inside is ours.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BUFFER_STATES
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import step_text
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import JobState
from pyslurm_ng.model.touched import EVERYTHING, touched_jobs
from pyslurm_ng.sched.frame.plan import Plan

_PRIORITIES = 20  # of one pass; a queue may have a hundred thousand
_TRACED = 100  # jobs of one event


class Log(Protocol):
    """Where lines go."""

    def info(self, *texts: str) -> None:
        """Say something."""


class DebugLog:
    """Logs what the flags in force ask for."""

    def __init__(self, cluster: Cluster, log: Log, soft: Soft, flags: Sequence[str]) -> None:
        self._cluster = cluster
        self._log = log
        self._soft = soft
        self._flags: frozenset[str] = frozenset()
        self.adopt(flags)

    def adopt(self, flags: Sequence[str]) -> None:
        """Use other flags from now on."""
        self._flags = frozenset(flags)
        self._lines = [
            (_PREFIXES[flag], lines) for flag, lines in _EVENTS.items() if flag in self._flags
        ]
        self._soft.on_pass = self._passed if self._flags & {"Backfill", "Priority"} else None
        self._soft.on_call = self._called if self._flags & {"AuditRPCs", "Protocol"} else None

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Write the lines of events just applied."""
        if not self._flags:
            return
        for event in events:
            for prefix, lines in self._lines:
                line = lines.get(type(event))
                text = line(self._cluster, event) if line is not None else ""
                if text:
                    self._log.info(f"{prefix}: {text}")
            if "TraceJobs" in self._flags:
                self._trace(event)

    def _trace(self, event: ev.AnyEvent) -> None:
        """Say which state an event left each of its jobs in."""
        job_ids = touched_jobs(event)
        if job_ids == EVERYTHING:
            return
        for job_id in job_ids[:_TRACED]:
            job = self._cluster.jobs.get(job_id)
            state = JobState(job.state).name if job is not None else "purged"
            self._log.info(f"TRACE_JOBS: {type(event).__name__} JobId={job_id} state={state}")

    def _passed(self, plan: Plan, queue_length: int, took_us: int) -> None:
        """Say what a scheduling pass has found out."""
        if "Backfill" in self._flags:
            self._log.info(
                f"BACKFILL: pass of {took_us} usec: {plural(queue_length, 'job')} in the queue, "
                f"{len(plan.starts)} start, {len(plan.expected_start_us)} have an expected start, "
                f"{len(plan.preemptions)} preempt, {plan.tested} tests of nodes"
            )
        if "Priority" in self._flags and plan.priorities:
            highest = heapq.nlargest(
                _PRIORITIES, plan.priorities.items(), key=lambda of_job: of_job[1]
            )
            shown = " ".join(f"JobId={job_id}:{priority}" for job_id, priority in highest)
            self._log.info(f"PRIO: {plural(len(plan.priorities), 'job')}, highest first: {shown}")

    def _called(self, kind: str, uid: int, took_us: int) -> None:
        """Name a request."""
        for flag in ("AuditRPCs", "Protocol"):
            if flag in self._flags:
                self._log.info(f"{_PREFIXES[flag]}: {kind} from UID={uid} took {took_us} usec")


def _step_id(job_id: int, step_id: int) -> str:
    return f"StepId={job_id}.{step_text(step_id)}"


def _step_created(cluster: Cluster, event: ev.StepCreated) -> str:
    step = event.step
    return (
        f"{_step_id(event.job_id, step.step_id)} created on {_places(cluster, step.nodes)}, "
        f"{plural(step.ntasks, 'task')}, {plural(step.cpus, 'CPU')}"
    )


def _step_ended(cluster: Cluster, event: ev.StepEnded) -> str:
    state = JobState(event.state).name
    return f"{_step_id(event.job_id, event.step_id)} ended: {state}, status {event.exit_code}"


def _step_updated(cluster: Cluster, event: ev.StepUpdated) -> str:
    return f"{_step_id(event.job_id, event.step_id)} has a limit of {event.time_limit_min} minutes"


def _suspended(cluster: Cluster, event: ev.JobSuspended) -> str:
    return f"JobId={event.job_id} suspended"


def _resumed(cluster: Cluster, event: ev.JobResumed) -> str:
    return f"JobId={event.job_id} resumed"


def _selected(cluster: Cluster, event: ev.JobAllocated) -> str:
    return f"JobId={event.job_id} gets {_shares(cluster, event.nodes)}"


def _resized(cluster: Cluster, event: ev.JobResized) -> str:
    job = cluster.jobs[event.job_id]
    return f"JobId={event.job_id} is left with {_shares(cluster, job.nodes)}"


def _backfilled(cluster: Cluster, event: ev.JobAllocated) -> str:
    if event.scheduler != "Backfill":
        return ""
    return f"Started JobId={event.job_id} in {event.partition} on {_places(cluster, event.nodes)}"


def _licensed(cluster: Cluster, event: ev.JobAllocated) -> str:
    return f"JobId={event.job_id} takes {event.licenses}" if event.licenses else ""


def _licenses_counted(cluster: Cluster, event: ev.LicensesUpdated) -> str:
    return "there are " + (",".join(f"{name}:{count}" for name, count in event.licenses) or "none")


def _dependencies(cluster: Cluster, event: ev.DependencyChanged) -> str:
    if event.never_satisfied:
        return f"JobId={event.job_id} has a dependency that can never be met"
    return f"JobId={event.job_id} waits for {plural(len(event.dependencies), 'more term')}"


def _buffer_changed(cluster: Cluster, event: ev.BufferChanged) -> str:
    state = "gone" if event.buffer is None else BUFFER_STATES[event.buffer.state]
    return f"burst buffer of JobId={event.job_id}: {state}"


def _eligible(cluster: Cluster, event: ev.JobEligible) -> str:
    return f"JobId={event.job_id} is eligible"


def _reserved(cluster: Cluster, event: ev.ReservationCreated | ev.ReservationUpdated) -> str:
    made = event.reservation
    names = [node.spec.name for node in cluster.nodes_of(made.node_ids)]
    state = "active" if made.is_active else "inactive"
    return (
        f"{made.name} {state} from {made.start_us // SECOND_US} to {made.end_us // SECOND_US} "
        f"on {hostlist.fold(names)}"
    )


def _unreserved(cluster: Cluster, event: ev.ReservationDeleted) -> str:
    return f"{event.name} deleted"


def _trigger_set(cluster: Cluster, event: ev.TriggerSet) -> str:
    trigger = event.trigger
    return (
        f"{trigger.trigger_id} set by uid {trigger.uid}: {','.join(trigger.events)} "
        f"runs {trigger.program}"
    )


def _triggers_cleared(cluster: Cluster, event: ev.TriggersCleared) -> str:
    return f"{','.join(map(str, event.trigger_ids))} cleared"


def _trigger_pulled(cluster: Cluster, event: ev.TriggerPulled) -> str:
    return f"{event.trigger_id} pulled by {event.seen}"


def _trigger_fired(cluster: Cluster, event: ev.TriggerFired) -> str:
    return f"{event.trigger_id} fired"


def _places(cluster: Cluster, nodes: Sequence[NodeAlloc]) -> str:
    names = [node.spec.name for node in cluster.nodes_of([alloc.node_id for alloc in nodes])]
    return hostlist.fold(names)


def _shares(cluster: Cluster, nodes: Sequence[NodeAlloc]) -> str:
    """Return what is taken of each node, alike ones together."""
    alike: dict[tuple[int, str, int], list[NodeAlloc]] = {}
    for alloc in nodes:
        key = alloc.cpus, alloc.cores[::-1].hex(), alloc.mem_mib
        alike.setdefault(key, []).append(alloc)
    parts = []
    for (cpus, cores, mem_mib), allocs in alike.items():
        taken = f"{plural(cpus, 'CPU')} (cores 0x{cores or '0'}), {mem_mib} MiB"
        parts.append(f"{taken} on {_places(cluster, allocs)}")
    return "; ".join(parts)


_EVENTS: dict[str, dict[type, Callable[[Cluster, Any], str]]] = {
    "Backfill": {ev.JobAllocated: _backfilled},
    "BurstBuffer": {ev.BufferChanged: _buffer_changed},
    "Dependency": {ev.DependencyChanged: _dependencies, ev.JobEligible: _eligible},
    "Gang": {ev.JobSuspended: _suspended, ev.JobResumed: _resumed},
    "License": {ev.JobAllocated: _licensed, ev.LicensesUpdated: _licenses_counted},
    "Reservation": {
        ev.ReservationCreated: _reserved,
        ev.ReservationUpdated: _reserved,
        ev.ReservationDeleted: _unreserved,
    },
    "SelectType": {ev.JobAllocated: _selected, ev.JobResized: _resized},
    "Steps": {
        ev.StepCreated: _step_created,
        ev.StepEnded: _step_ended,
        ev.StepUpdated: _step_updated,
    },
    "Triggers": {
        ev.TriggerSet: _trigger_set,
        ev.TriggersCleared: _triggers_cleared,
        ev.TriggerPulled: _trigger_pulled,
        ev.TriggerFired: _trigger_fired,
    },
}
_PREFIXES = {
    "AuditRPCs": "AUDIT_RPCS",
    "Backfill": "BACKFILL",
    "BurstBuffer": "BURST_BUF",
    "Dependency": "DEPENDENCY",
    "Gang": "GANG",
    "License": "LICENSE",
    "Protocol": "PROTOCOL",
    "Reservation": "RESERVATION",
    "SelectType": "SELECT_TYPE",
    "Steps": "STEPS",
    "Triggers": "TRIGGERS",
}
