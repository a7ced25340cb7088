"""What the journal says of one job: what happened to it, and which jobs freed its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_CONTIGUOUS,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
    REQ_EXPEDITE,
    REQ_NO_REQUEUE,
    REQ_OVERCOMMIT,
    REQ_OVERSUBSCRIBE,
    REQ_REBOOT,
    REQ_REQUEUE,
    REQ_SPREAD,
    REQ_STEPMGR,
    REQ_USE_MIN_NODES,
    SECOND_US,
)
from pyslurm_ng.base.units import format_minutes_short, plural
from pyslurm_ng.journal.segment import JournalError, SegmentReader, list_segments
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.buffer import BUFFER_STATES
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobFlag, JobState, Reason

# Beyond so many bytes the oldest segments are not read: an answer is due in a few seconds.
_MOST_BYTES = 64 << 20
# What a user changes again and again must not fill the answer, and the loop's time with it.
_MOST_LINES = 1000
_LONGEST_LINE = 500


@dataclass(slots=True)
class JobHistory:
    """Lines of (time, text) in order; `begin_us` is how far back they go."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    begin_us: int = 0

    def add(self, time_us: int, text: str) -> None:
        """Append a line, cut to a bearable length; the oldest go when there are too many."""
        if len(text) > _LONGEST_LINE:
            text = f"{text[:_LONGEST_LINE]}..."
        self.lines.append((time_us, text))
        if len(self.lines) > _MOST_LINES:
            del self.lines[: _MOST_LINES // 2]
            self.begin_us = self.lines[0][0]


def read_history(journal: Path, job_id: int, node_names: dict[int, str]) -> JobHistory:
    """Return the history of a job; damage ends the reading, what was read stays.

    Args:
        job_id: the record's own; a task's history begins with that of its array.
        node_names: by node id.
    """
    history = JobHistory()
    reader = _Reader(job_id, node_names, history)
    try:
        for event in _events(journal):
            if not history.begin_us:
                history.begin_us = event.time_us
            reader.take(event)
    except (JournalError, OSError, msgspec.DecodeError):
        pass  # the journal is recovered elsewhere; a history may be short
    return history


def _events(journal: Path) -> Iterator[ev.AnyEvent]:
    segments = list_segments(journal)
    sizes = [segment.path.stat().st_size for segment in segments]
    while len(segments) > 1 and sum(sizes) > _MOST_BYTES:
        del segments[0], sizes[0]
    for segment in segments:
        with SegmentReader(segment.path) as reader:
            for frame in reader:
                yield from decode_batch(frame.payload)


class _Freed(NamedTuple):
    """When a node, or its cores, became free, and by which job."""

    time_us: int
    job_id: int
    is_suspended: bool = False


class _Reader:
    """Follows events and notes those of one job, and the jobs that left nodes last."""

    def __init__(self, job_id: int, node_names: dict[int, str], history: JobHistory) -> None:
        self._ids = {job_id}
        self._names = node_names
        self._found = history
        self._array_lines: dict[int, list[tuple[int, str]]] = {}
        self._array_requests: dict[int, JobRequest] = {}
        self._nodes: dict[int, set[int]] = {}  # of jobs that have some
        self._cleaning: dict[int, int] = {}  # by duty to clean a node: whose
        self._freed: dict[int, _Freed] = {}  # by node
        self._request: JobRequest | None = None

    def take(self, event: ev.AnyEvent) -> None:
        """Look at the next event."""
        job_id = getattr(event, "job_id", 0)
        if isinstance(event, ev.JobSubmitted) and event.array_pending:
            self._array_lines[job_id] = [(event.time_us, "submitted as part of an array")]
            self._array_requests[job_id] = event.request
        elif isinstance(event, ev.ArrayTaskSplit) and event.job_id in self._ids:
            self._found.lines += self._array_lines.get(event.array_job_id, [])
            self._request = self._array_requests.get(event.array_job_id)
            return
        elif isinstance(event, ev.JobUpdated) and event.fields.get("claim_victims"):
            self._name_preemptor(event)
        if job_id in self._ids:
            text = self._text(event)
            if text:
                self._found.add(event.time_us, text)
        self._follow(event)

    def _name_preemptor(self, claim: ev.JobUpdated) -> None:
        """Say for which job the job has to leave: it is told to leave before that is recorded."""
        victims, lines = claim.fields["claim_victims"], self._found.lines
        if isinstance(victims, (list, tuple)) and self._ids & set(victims):
            at = (claim.time_us, _FOR_ANOTHER)
            if at in lines:
                lines[lines.index(at)] = (claim.time_us, _make_room(f"job {claim.job_id}"))

    def _follow(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.JobAllocated):
            self._nodes[event.job_id] = {alloc.node_id for alloc in event.nodes}
        elif isinstance(event, ev.JobCompleting):
            for duty_id, _ in enumerate(event.node_ids, event.first_duty_id):
                self._cleaning[duty_id] = event.job_id
        elif isinstance(event, (ev.DutiesDone, ev.DutiesDropped)):
            # Others may have a node before the job's last one is clean.
            pairs = event.done if isinstance(event, ev.DutiesDone) else event.dropped
            for node_id, duty_id in pairs:
                job_id = self._cleaning.pop(duty_id, 0)
                if node_id in self._nodes.get(job_id, ()):
                    self._nodes[job_id].discard(node_id)
                    self._freed[node_id] = _Freed(event.time_us, job_id)
        elif isinstance(event, (ev.JobEnded, ev.JobRequeued)):
            for node_id in self._nodes.pop(event.job_id, ()):
                self._freed[node_id] = _Freed(event.time_us, event.job_id)
        elif isinstance(event, ev.JobSuspended):
            for node_id in self._nodes.get(event.job_id, ()):
                self._freed[node_id] = _Freed(event.time_us, event.job_id, is_suspended=True)

    def _text(self, event: ev.AnyEvent) -> str:
        if isinstance(event, ev.JobSubmitted):
            self._request = event.request
            return "submitted" + (", held" if event.priority == 0 else "")
        if isinstance(event, ev.JobUpdated):
            return self._update_text(event)
        if isinstance(event, ev.JobEligible):
            return "eligible: its begin time has come and its dependencies are met"
        if isinstance(event, ev.DependencyChanged):
            if event.never_satisfied:
                return "one of its dependencies can never be met"
            if not event.dependencies:
                return "its last dependency was met"
            return f"a dependency was met, {plural(len(event.dependencies), 'other')} still open"
        if isinstance(event, ev.JobAllocated):
            return self._start_text(event)
        if isinstance(event, ev.JobCompleting):
            if event.flags & JobFlag.REQUEUED and event.state == JobState.CANCELLED:
                return "ended, to be put back into the queue"
            return _end_text(event, has_run=True)
        if isinstance(event, ev.JobEnded):
            # A run's end has been told when it began to be cleaned up.
            return "its nodes are clean" if self._has_ended() else _end_text(event, has_run=False)
        if isinstance(event, ev.JobRequeued):
            return "put back into the queue" + (", held" if event.priority == 0 else "")
        if isinstance(event, ev.LostRunsChanged):
            return _lost_runs_text(event)
        if isinstance(event, ev.BufferChanged) and event.buffer is not None:
            return f"its burst buffer is {BUFFER_STATES[event.buffer.state]}"
        return _PLAIN.get(type(event), "")

    def _has_ended(self) -> bool:
        return bool(self._found.lines) and self._found.lines[-1][1].startswith("ended")

    def _start_text(self, event: ev.JobAllocated) -> str:
        nodes = fold([self._names.get(alloc.node_id, "?") for alloc in event.nodes])
        text = f"started on {nodes} of {event.partition}"
        if event.scheduler == "Backfill":
            text += " by backfill, ahead of jobs of higher priority that cannot use them yet"
        else:
            text += ", next in the order of priority"
        freed = [
            self._freed[alloc.node_id] for alloc in event.nodes if alloc.node_id in self._freed
        ]
        if freed:
            last = max(freed)
            seconds = f"{max(0, event.time_us - last.time_us) / 1e6:.1f} s before"
            if last.is_suspended:
                text += f"; job {last.job_id} was the last to stop there, suspended {seconds}"
            else:
                text += f"; job {last.job_id} was the last to leave them, {seconds}"
        else:
            text += "; no job had to end for it"
        return text

    def _update_text(self, event: ev.JobUpdated) -> str:
        """Return what a change of the job was about."""
        victims = event.fields.get("claim_victims")
        if isinstance(victims, (list, tuple)):
            return f"preempts {', '.join(f'job {job_id}' for job_id in victims)}" if victims else ""
        if event.fields.get("preempt_us"):
            other = event.fields.get("suspended_by")
            return _make_room(f"job {other}") if other else _FOR_ANOTHER
        before, self._request = self._request, event.request or self._request
        changes = _changes(before, event.request) if before and event.request else []
        return _update_text(event, changes)


def _lost_runs_text(event: ev.LostRunsChanged) -> str:
    runs = event.lost_runs
    nodes = fold(sorted({run.node for run in runs}))
    proofs = {run.proof for run in runs}
    if proofs == {""}:
        return f"its run is lost with {nodes}, and may go on there"
    return f"its lost run is over on {nodes}: {', '.join(sorted(proofs - {''}))}"


def _make_room(name: str) -> str:
    return f"has to make room for {name}"


def _changes(before: JobRequest, after: JobRequest) -> list[str]:
    """Return which of a request's values changed, as they are now, with their units."""
    texts = []
    for name in JobRequest.__struct_fields__:
        value = getattr(after, name)
        if name in _TOLD or value == getattr(before, name):
            continue
        if name == "flags":
            changed = before.flags ^ after.flags
            texts += [
                f"{text} {'on' if after.flags & bit else 'off'}"
                for bit, text in _FLAGS.items()
                if changed & bit
            ]
            continue
        label, shown = _MEASURED.get(name, (name.replace("_", " "), str))
        texts.append(f"{label} {shown(value) if value and value != NO_VAL else 'none'}")
    return texts


def _update_text(event: ev.JobUpdated, changes: list[str]) -> str:
    """Return what a user or an administrator did.

    Args:
        changes: of the request, in words.
    """
    fields = event.fields
    if fields.get("priority") == 0:
        why = Reason(int(str(fields.get("reason", 0))))
        if why == Reason.ReservationDeleted:
            return "held: its reservation is gone"
        return "held by an administrator" if why == Reason.JobHeldAdmin else "held by its user"
    if fields.get("priority") == NO_VAL:
        return "released"
    texts = [
        f"{_TOLD[name]} {'unlimited' if value == INFINITE else value}"
        for name, value in sorted(fields.items())
        if name in _TOLD
    ]
    return f"changed: {', '.join(texts + changes)}" if texts or changes else ""


def _end_text(event: ev.JobCompleting | ev.JobEnded, *, has_run: bool) -> str:
    """Return what ended a job."""
    state, code = JobState(event.state), event.exit_code
    text = f"ended: {state.name}"
    if state == JobState.CANCELLED and event.cancelled_by != NO_VAL:
        return f"{text} by user id {event.cancelled_by}"
    why = ""
    if state == JobState.TIMEOUT:
        why = "its time limit was over"
    elif event.reason == Reason.DependencyNeverSatisfied:
        why = "its dependency could no longer be met"
    elif state == JobState.DEADLINE:
        why = "its deadline had come" if has_run else "it could not be over by its deadline"
    elif state == JobState.OUT_OF_MEMORY:
        why = "it used more memory than it had asked for"
    elif state == JobState.NODE_FAIL and isinstance(event, ev.JobCompleting):
        why = f"node {event.failed_node} was lost" if event.failed_node else "a node lost it"
    elif state == JobState.PREEMPTED:
        why = "it made room for another job"
    elif event.reason_text:
        why = event.reason_text
    elif code & 0x7F:
        why = f"signal {code & 0x7F}"
    elif code:
        why = f"exit code {code >> 8}"
    return f"{text}: {why}" if why else text


# Of what changes may set of a job itself, what its user knows.
_TOLD = {
    "account": "account",
    "array_limit": "tasks at once",
    "nice": "nice",
    "partition": "partition",
    "priority": "priority",
    "qos": "QOS",
    "time_limit_min": "time limit in minutes",
}
_FLAGS = {
    REQ_REQUEUE: "requeue",
    REQ_NO_REQUEUE: "no requeue",
    REQ_EXPEDITE: "requeue=expedite",
    REQ_STEPMGR: "stepmgr",
    REQ_OVERSUBSCRIBE: "oversubscribe",
    REQ_EXCLUSIVE: "exclusive",
    REQ_EXCLUSIVE_USER: "exclusive=user",
    REQ_EXCLUSIVE_MCS: "exclusive=mcs",
    REQ_EXCLUSIVE_TOPO: "exclusive=topo",
    REQ_OVERCOMMIT: "overcommit",
    REQ_CONTIGUOUS: "contiguous",
    REQ_SPREAD: "spread",
    REQ_USE_MIN_NODES: "use min nodes",
    REQ_REBOOT: "reboot",
}


def _date(value_us: int) -> str:
    return format_date(value_us // SECOND_US)


def _mib(value: int) -> str:
    return f"{value} MiB"


def _seconds(value: int) -> str:
    return f"{value} s"


# Values of a request that have a unit: what they are called, and how they are written.
_MEASURED: dict[str, tuple[str, Callable[[Any], str]]] = {
    "begin_us": ("begin time", _date),
    "deadline_us": ("deadline", _date),
    "delay_boot_min": ("delay boot", format_minutes_short),
    "mem_per_cpu_mib": ("memory per CPU", _mib),
    "mem_per_gpu_mib": ("memory per GPU", _mib),
    "mem_per_node_mib": ("memory per node", _mib),
    "signal_before_s": ("signal before the end", _seconds),
    "switches_wait_s": ("switches wait", _seconds),
    "time_min_min": ("least time limit", format_minutes_short),
    "tmp_mib": ("temporary disk", _mib),
}
_FOR_ANOTHER = _make_room("another job")
_PLAIN: dict[type, str] = {
    ev.JobStarted: "prologs are over, the script runs",
    ev.PrologEnded: "PrologSlurmctld is over",
    ev.EpilogEnded: "EpilogSlurmctld is over",
    ev.JobSuspended: "suspended",
    ev.JobResumed: "resumed",
    ev.JobResized: "gave up some of what it had",
}
