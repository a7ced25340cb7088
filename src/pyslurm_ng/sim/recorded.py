"""A recorded journal -> what users asked for, how long it ran, and what befell the nodes.

Files are only read: a journal that a controller writes at the moment is as good as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.recover import cluster_of
from pyslurm_ng.journal.checkpoint import Checkpoint, list_checkpoints, read_checkpoint
from pyslurm_ng.journal.segment import (
    Frame,
    JournalError,
    SegmentName,
    SegmentReader,
    list_segments,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, NodeState
from pyslurm_ng.sim import actions as act

_AFTER_9999_US = 253_402_300_800_000_000

Key = tuple[int, int]
"""Id of a job or its array, and the task's index or NO_VAL."""


@dataclass(slots=True)
class Run:
    """What became of one job or array task; times in microseconds, 0 for not yet."""

    user: str
    account: str
    partition: str
    cpus: int
    eligible_us: int
    start_us: int
    end_us: int = 0
    run_us: int = 0


@dataclass
class Recording:
    """A journal's story.

    Attributes:
        base: the cluster where it begins, as bytes; empty when it begins with an empty cluster.
        notes: lines about what could not be read or is not replayed, with numbers.
    """

    begin_us: int = 0
    end_us: int = 0
    records: int = 0
    total_cpus: int = 0
    base: bytes = b""
    runs: dict[Key, Run] = field(default_factory=dict)
    actions: list[act.Action] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_recording(path: Path) -> Recording:
    """Read a state directory, a directory of segments, or one segment.

    Raises:
        JournalError: it is not a journal, of another version, or does not tell where it began.
        OSError: a file cannot be read.
    """
    segments, checkpoints = _files(path)
    if not segments:
        raise JournalError(f"{path}: there is no journal segment in it")
    recording = Recording()
    first = segments[0].first_sequence
    base = None
    if first > 1:
        base = _base(checkpoints, first)
        if base is None:
            raise JournalError(
                f"{path}: begins with record {first}, and no checkpoint of record {first - 1} or "
                "later is there; give the state directory"
            )
        recording.base = bytes(base.payload)
        recording.notes.append(
            f"records 1 to {base.position.sequence} are only in a checkpoint and are not "
            "replayed; jobs that ended before are not known"
        )
    reader = _Reader(recording, cluster_of(base))
    after = base.position.sequence if base is not None else 0
    for frame in _frames(segments, after, recording.notes):
        reader.frame(frame)
    if not recording.records:
        raise JournalError(f"{path}: nothing is recorded after its newest checkpoint")
    reader.finish()
    return recording


def _files(path: Path) -> tuple[list[SegmentName], list[Path]]:
    """Return all segments, archived ones too, and checkpoints, oldest first."""
    if path.is_file():
        named = [segment for segment in list_segments(path.parent) if segment.path == path]
        return named, []
    segments: dict[tuple[int, int], SegmentName] = {}
    checkpoints: list[tuple[int, Path]] = []
    for directory in (path, path / "archive", path / "journal", path / "checkpoint"):
        if directory.is_dir():
            for segment in list_segments(directory):
                segments[segment.epoch, segment.first_sequence] = segment
            checkpoints += list_checkpoints(directory)
    return sorted(segments.values()), [checkpoint for _, checkpoint in sorted(checkpoints)]


def _base(checkpoints: list[Path], first: int) -> Checkpoint | None:
    """Return the oldest valid checkpoint that the first record may follow."""
    for path in checkpoints:
        checkpoint = read_checkpoint(path)
        if isinstance(checkpoint, Checkpoint) and checkpoint.position.sequence >= first - 1:
            return checkpoint
    return None


def _frames(segments: list[SegmentName], after: int, notes: list[str]) -> Iterator[Frame]:
    """Yield the records behind `after`; those that a later epoch overruled are left out."""
    reached = after
    for index, segment in enumerate(segments):
        later = segments[index + 1 :]
        limit = later[0].first_sequence - 1 if later else None
        if limit is not None and limit <= after:
            continue
        with SegmentReader(segment.path) as reader:
            if reader.header.first_sequence > reached + 1:
                missing = f"{reached + 1} to {reader.header.first_sequence - 1}"
                raise JournalError(f"{segment.path}: records {missing} are missing before it")
            for frame in reader:
                if limit is not None and frame.sequence > limit:
                    break
                if frame.sequence > reached:
                    reached = frame.sequence
                    yield frame
            else:
                ending = reader.examine_end()
                if ending.kind:
                    so_far = "" if later else f"; replayed as far as record {reached}"
                    notes.append(f"{segment.path}: {ending.kind}: {ending.why}{so_far}")


class _Reader:
    """Applies the records and remembers what matters for a simulation."""

    def __init__(self, recording: Recording, cluster: Cluster) -> None:
        self._found = recording
        self._cluster = cluster
        self._held: dict[int, ev.JobSubmitted] = {}
        self._names: dict[int, str] = {}
        self._learn_names()
        for job_id in cluster.job_index.active:
            self._started(cluster.jobs[job_id])

    def _learn_names(self) -> None:
        self._names |= {node.node_id: node.spec.name for node in self._cluster.living_nodes()}

    def frame(self, frame: Frame) -> None:
        try:
            events = decode_batch(frame.payload)
        except msgspec.DecodeError as error:
            raise JournalError(f"record {frame.sequence} is of another version: {error}") from None
        recording = self._found
        recording.records += 1
        het: dict[int, list[ev.JobSubmitted]] = {}
        for event in events:
            if not 0 <= event.time_us < _AFTER_9999_US:
                raise JournalError(
                    f"record {frame.sequence}: {type(event).__name__} is of a time that "
                    f"no calendar has ({event.time_us} us)"
                )
            recording.begin_us = recording.begin_us or event.time_us
            recording.end_us = max(recording.end_us, event.time_us)
            try:
                if isinstance(event, ev.JobSubmitted) and event.het_job_id:
                    het.setdefault(event.het_job_id, []).append(event)
                else:
                    self._before(event)
                apply(self._cluster, event)
            except (AssertionError, KeyError, IndexError, ValueError) as error:
                raise JournalError(
                    f"record {frame.sequence}: {type(event).__name__} does not fit the state "
                    f"before it ({type(error).__name__}: {error})"
                ) from error
            self._after(event)
        for parts in het.values():
            self._act(act.Submitted(parts[0].time_us, tuple(parts)))

    def finish(self) -> None:
        """Count what has no end."""
        recording, cluster = self._found, self._cluster
        recording.total_cpus = sum(node.spec.cpus for node in cluster.living_nodes())
        going = [run for run in recording.runs.values() if not run.end_us]
        for run in going:
            run.run_us = max(recording.end_us - run.start_us, 0)
        if self._held:
            recording.notes.append(f"{plural(len(self._held), 'job')} held to the end: left out")
        if going:
            recording.notes.append(
                f"{plural(len(going), 'job')} still running at the end: cut there"
            )
        waiting_on = len(cluster.job_index.pending.keys() - self._held.keys())
        if waiting_on:
            recording.notes.append(
                f"{plural(waiting_on, 'job')} still waiting at the end: left out, since "
                "it is not known how long they would have run"
            )
        if cluster.job_index.pending:
            waiting = {self._key(cluster.jobs[job_id])[0] for job_id in cluster.job_index.pending}
            started = {key[0] for key in recording.runs}
            recording.actions = [
                action
                for action in recording.actions
                if not (
                    isinstance(action, act.Submitted)
                    and action.parts[0].job_id in waiting - started
                )
            ]

    def _act(self, action: act.Action) -> None:
        self._found.actions.append(action)

    def _key(self, job: Job) -> Key:
        if job.array_job_id:
            return job.array_job_id, job.array_task_id
        return job.job_id, NO_VAL

    def _before(self, event: ev.AnyEvent) -> None:
        """See what an event changes while the state is still as it was."""
        see = _SEEN.get(type(event))
        if see is not None:
            see(self, event)

    def _submitted(self, event: ev.JobSubmitted) -> None:
        if event.priority == 0:
            self._held[event.job_id] = event
        else:
            self._act(act.Submitted(event.time_us, (event,)))

    def _ended(self, event: ev.JobEnded) -> None:
        job = self._cluster.jobs.get(event.job_id)
        was_held = self._held.pop(event.job_id, None) is not None
        if job is None or was_held or job.state != JobState.PENDING or job.start_us:
            return
        if event.state == JobState.CANCELLED:
            job_id, tasks = self._name(job)
            self._act(act.Cancelled(event.time_us, job_id, tasks))

    def _job_updated(self, event: ev.JobUpdated) -> None:
        job = self._cluster.jobs[event.job_id]
        if event.job_id in self._held or job.state in TERMINAL_STATES:
            return
        job_id, tasks = self._name(job)
        change = act.job_change(job, job_id, tasks, event)
        if change is not None:
            self._act(change)

    def _suspended(self, event: ev.JobSuspended | ev.JobResumed) -> None:
        """Remember what was done by hand; the scheduler decides again which jobs it suspends."""
        job = self._cluster.jobs[event.job_id]
        if not job.suspended_by:
            job_id, tasks = self._name(job)
            resume = isinstance(event, ev.JobResumed)
            self._act(act.Suspended(event.time_us, job_id, tasks, resume))

    def _nodes_down(self, event: ev.NodesDown) -> None:
        self._act(act.NodesDown(event.time_us, self._named(event.node_ids)))

    def _nodes_back(self, event: ev.NodesReturned) -> None:
        self._act(act.NodesBack(event.time_us, self._named(event.node_ids)))

    def _registered(self, event: ev.NodeRegistered) -> None:
        node = self._cluster.nodes[event.node_id]
        if node is not None and node.state == NodeState.DOWN != event.state:
            self._act(act.NodesBack(event.time_us, (node.spec.name,)))

    def _nodes_changed(self, event: ev.NodeUpdated) -> None:
        nodes = [
            node for node_id in event.node_ids if (node := self._cluster.nodes[node_id]) is not None
        ]
        change = act.node_change(nodes, event)
        if change is not None:
            self._act(change)

    def _partition_changed(self, event: ev.PartitionUpdated) -> None:
        fresh = event.partition
        before = self._cluster.partitions.get(fresh.name)
        self._act(act.partition_change(before, fresh, self._names, event.time_us))

    def _partition_deleted(self, event: ev.PartitionDeleted) -> None:
        self._act(act.PartitionDeleted(event.time_us, event.name))

    def _reserved(self, event: ev.ReservationCreated | ev.ReservationUpdated) -> None:
        fresh = event.reservation
        before = self._cluster.reservations.get(fresh.name)
        if before is None or act.is_by_hand(before, fresh):
            self._act(act.ReservationMade(event.time_us, fresh, self._named(fresh.node_ids)))

    def _unreserved(self, event: ev.ReservationDeleted) -> None:
        reservation = self._cluster.reservations[event.name]
        if event.time_us < reservation.end_us and not reservation.purge_s:
            self._act(act.ReservationDeleted(event.time_us, event.name))

    def _accounting_changed(self, event: ev.AnyEvent) -> None:
        self._act(act.AccountingChanged(event.time_us, event))

    def _named(self, node_ids: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self._names[node_id] for node_id in node_ids if node_id in self._names)

    def _name(self, job: Job) -> tuple[int, str]:
        """Return what a user would type for a job: an id, and tasks that are not all there are."""
        job_id, task = self._key(job)
        if job.array_pending and job.job_id != job_id:
            return job_id, _task_text(job.array_pending)
        return job_id, "" if task == NO_VAL else str(task)

    def _after(self, event: ev.AnyEvent) -> None:
        """See what an event has led to."""
        if isinstance(event, (ev.ConfigLoaded, ev.NodesCreated)):
            self._learn_names()
        elif isinstance(event, ev.JobAllocated):
            self._started(self._cluster.jobs[event.job_id])
        elif isinstance(event, ev.JobCompleting):
            job = self._cluster.jobs[event.job_id]
            run = self._found.runs.get(self._key(job))
            if run is not None:
                run.end_us = job.end_us
                run.run_us = max(job.end_us - job.start_us - job.suspended_us, 0)
        elif isinstance(event, ev.JobUpdated) and event.job_id in self._held:
            job = self._cluster.jobs[event.job_id]
            if job.priority:
                submission = self._held.pop(event.job_id)
                self._act(act.Submitted(event.time_us, (_as_it_is(job, submission),)))

    def _started(self, job: Job) -> None:
        key = self._key(job)
        known = self._found.runs.get(key)
        if known is not None:
            known.end_us = 0  # it runs again; how long it waited the first time stays
            return
        self._found.runs[key] = Run(
            user=job.user_name,
            account=job.account,
            partition=job.partition,
            cpus=sum(alloc.charged_cpus for alloc in job.nodes),
            eligible_us=job.eligible_us or job.submit_us,
            start_us=job.start_us,
            end_us=job.end_us,
            run_us=max(job.end_us - job.start_us - job.suspended_us, 0) if job.end_us else 0,
        )


_SEEN: dict[type, Callable[[_Reader, Any], None]] = {
    ev.JobSubmitted: _Reader._submitted,
    ev.JobEnded: _Reader._ended,
    ev.JobUpdated: _Reader._job_updated,
    ev.JobSuspended: _Reader._suspended,
    ev.JobResumed: _Reader._suspended,
    ev.NodesDown: _Reader._nodes_down,
    ev.NodesReturned: _Reader._nodes_back,
    ev.NodeRegistered: _Reader._registered,
    ev.NodeUpdated: _Reader._nodes_changed,
    ev.PartitionUpdated: _Reader._partition_changed,
    ev.PartitionDeleted: _Reader._partition_deleted,
    ev.ReservationCreated: _Reader._reserved,
    ev.ReservationUpdated: _Reader._reserved,
    ev.ReservationDeleted: _Reader._unreserved,
    ev.AssocChanged: _Reader._accounting_changed,
    ev.QosChanged: _Reader._accounting_changed,
    ev.UsageReset: _Reader._accounting_changed,
    ev.LicensesUpdated: _Reader._accounting_changed,
}


def _as_it_is(job: Job, submitted: ev.JobSubmitted) -> ev.JobSubmitted:
    """Return a submission with what was changed while the job was held."""
    return msgspec.structs.replace(
        submitted,
        request=whole_request(job.request),
        account=job.account,
        qos=job.qos,
        partition=job.partition,
        time_limit_min=job.time_limit_min,
    )


def _task_text(ranges: tuple[tuple[int, int, int], ...]) -> str:
    if not ranges:
        return ""
    parts = [f"{first}-{last}:{step}" for first, last, step in ranges]
    return f"[{','.join(parts)}]"
