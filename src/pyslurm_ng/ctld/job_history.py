"""What the journal says of one job: what happened to it, and which jobs freed its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.journal.segment import JournalError, SegmentReader, list_segments
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState

# Beyond so many bytes the oldest segments are not read: an answer is due in a few seconds.
_MOST_BYTES = 128 << 20


@dataclass(slots=True)
class JobHistory:
    """Lines of (time, text) in order; `begin_us` is how far back the journal was read."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    begin_us: int = 0


def read_history(journal: Path, job_id: int, node_names: dict[int, str]) -> JobHistory:
    """Return the history of a job; damage ends the reading, what was read stays.

    Args:
        job_id: the record's own; a task's history begins with that of its array.
        node_names: by node id.
    """
    found = JobHistory()
    reader = _Reader(job_id, node_names, found)
    try:
        for event in _events(journal):
            if not found.begin_us:
                found.begin_us = event.time_us
            reader.take(event)
    except (JournalError, OSError, msgspec.DecodeError):
        pass  # the journal is recovered elsewhere; a history may be short
    return found


def _events(journal: Path) -> Iterator[ev.AnyEvent]:
    segments = list_segments(journal)
    sizes = [segment.path.stat().st_size for segment in segments]
    while len(segments) > 1 and sum(sizes) > _MOST_BYTES:
        del segments[0], sizes[0]
    for segment in segments:
        with SegmentReader(segment.path) as reader:
            for frame in reader:
                yield from ev.decode_batch(frame.payload)


class _Reader:
    """Follows events and notes those of one job, and who left which nodes last."""

    def __init__(self, job_id: int, node_names: dict[int, str], found: JobHistory) -> None:
        self._ids = {job_id}
        self._names = node_names
        self._found = found
        self._array_lines: dict[int, list[tuple[int, str]]] = {}
        self._nodes: dict[int, frozenset[int]] = {}  # of running jobs
        self._freed: dict[int, tuple[int, int]] = {}  # by node: when, by which job

    def take(self, event: ev.AnyEvent) -> None:
        """Look at the next event."""
        job_id = getattr(event, "job_id", 0)
        if isinstance(event, ev.JobSubmitted) and event.array_pending:
            self._array_lines[job_id] = [(event.time_us, "submitted as part of an array")]
        elif isinstance(event, ev.ArrayTaskSplit) and event.job_id in self._ids:
            self._found.lines += self._array_lines.get(event.array_job_id, [])
            return
        if job_id in self._ids:
            text = self._text(event)
            if text:
                self._found.lines.append((event.time_us, text))
        self._follow(event)

    def _follow(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.JobAllocated):
            self._nodes[event.job_id] = frozenset(alloc.node_id for alloc in event.nodes)
        elif isinstance(event, ev.JobEnded):
            for node_id in self._nodes.pop(event.job_id, ()):
                self._freed[node_id] = (event.time_us, event.job_id)

    def _text(self, event: ev.AnyEvent) -> str:
        if isinstance(event, ev.JobSubmitted):
            return "submitted" + (", held" if event.priority == 0 else "")
        if isinstance(event, ev.JobUpdated):
            names = sorted(event.fields) + (["request"] if event.request is not None else [])
            return f"changed: {', '.join(names)}"
        if isinstance(event, ev.JobEligible):
            return "eligible: its begin time has come and its dependencies are met"
        if isinstance(event, ev.DependencyChanged):
            open_terms = sum(1 for term in event.dependencies if not term.state)
            return f"dependencies changed, {open_terms} left to meet"
        if isinstance(event, ev.JobAllocated):
            return self._start_text(event)
        if isinstance(event, ev.JobEnded):
            return f"ended: {JobState(event.state).name}"
        return _PLAIN.get(type(event), "")

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
            time_us, job_id = max(freed)
            text += f"; job {job_id} was the last to leave them, "
            text += f"{max(0, event.time_us - time_us) / 1e6:.1f} s before"
        else:
            text += "; nothing had run there since the journal begins"
        return text


_PLAIN: dict[type, str] = {
    ev.JobStarted: "prologs are over, the script runs",
    ev.JobSuspended: "suspended",
    ev.JobResumed: "resumed",
    ev.JobRequeued: "put back into the queue",
}
