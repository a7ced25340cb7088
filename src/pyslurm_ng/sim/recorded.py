"""A recorded journal -> what users asked for, how long it ran, and what befell the nodes.

Files are only read: a journal that a controller writes at the moment is as good as a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

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
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, NodeState

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


@dataclass(frozen=True, slots=True)
class Action:
    """Something from outside that happens again in a simulation: one of these is set."""

    time_us: int
    submitted: tuple[ev.JobSubmitted, ...] = ()  # several: components of a heterogeneous job
    cancelled: tuple[int, str] | None = None  # id and, for tasks of an array, their indexes
    told: ev.AnyEvent | None = None  # accounting's records
    down: tuple[str, ...] = ()  # nodes by name
    back: tuple[str, ...] = ()


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
    actions: list[Action] = field(default_factory=list)
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
    found = Recording()
    first = segments[0].first_sequence
    base = None
    if first > 1:
        base = _base(checkpoints, first)
        if base is None:
            raise JournalError(
                f"{path}: begins with record {first}, and no checkpoint of record {first - 1} or "
                "later is there; give the state directory"
            )
        found.base = bytes(base.payload)
        found.notes.append(
            f"records 1 to {base.position.sequence} are only in a checkpoint and are not "
            "replayed; jobs that ended before are not known"
        )
    reader = _Reader(found, cluster_of(base))
    after = base.position.sequence if base is not None else 0
    for frame in _frames(segments, after, found.notes):
        reader.frame(frame)
    if not found.records:
        raise JournalError(f"{path}: nothing is recorded after its newest checkpoint")
    reader.finish()
    return found


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
    return sorted(segments.values()), [item for _, item in sorted(checkpoints)]


def _base(checkpoints: list[Path], first: int) -> Checkpoint | None:
    """Return the oldest valid checkpoint that the first record may follow."""
    for path in checkpoints:
        found = read_checkpoint(path)
        if isinstance(found, Checkpoint) and found.position.sequence >= first - 1:
            return found
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
                    notes.append(f"{segment.path}: {ending.kind} at its end: {ending.why}")


class _Reader:
    """Applies the records and remembers what matters for a simulation."""

    def __init__(self, found: Recording, cluster: Cluster) -> None:
        self._found = found
        self._cluster = cluster
        self._held: dict[int, ev.JobSubmitted] = {}
        self._untold: Counter[str] = Counter()
        self._names: dict[int, str] = {}
        self._learn_names()
        for job_id in cluster.active:
            self._started(cluster.jobs[job_id])

    def _learn_names(self) -> None:
        self._names |= {node.node_id: node.spec.name for node in self._cluster.living_nodes()}

    def frame(self, frame: Frame) -> None:
        try:
            events = ev.decode_batch(frame.payload)
        except msgspec.DecodeError as error:
            raise JournalError(f"record {frame.sequence} is of another version: {error}") from None
        found = self._found
        found.records += 1
        het: dict[int, list[ev.JobSubmitted]] = {}
        for event in events:
            found.begin_us = found.begin_us or event.time_us
            found.end_us = max(found.end_us, event.time_us)
            if isinstance(event, ev.JobSubmitted) and event.het_job_id:
                het.setdefault(event.het_job_id, []).append(event)
            else:
                self._before(event)
            try:
                apply(self._cluster, event)
            except (AssertionError, KeyError, IndexError, ValueError) as error:
                raise JournalError(
                    f"record {frame.sequence}: {type(event).__name__} does not fit the state "
                    f"before it ({type(error).__name__}: {error})"
                ) from error
            self._after(event)
        for parts in het.values():
            self._act(Action(parts[0].time_us, submitted=tuple(parts)))

    def finish(self) -> None:
        """Count what has no end, and what is not replayed."""
        found, cluster = self._found, self._cluster
        found.total_cpus = sum(node.spec.cpus for node in cluster.living_nodes())
        going = [run for run in found.runs.values() if not run.end_us]
        for run in going:
            run.run_us = max(found.end_us - run.start_us, 0)
        if self._held:
            found.notes.append(f"{len(self._held)} jobs were held to the end: they are left out")
        if going:
            found.notes.append(f"{len(going)} jobs still ran at the end: they end there")
        if cluster.pending:
            found.notes.append(
                f"{len(cluster.pending)} jobs still waited at the end: nobody knows how long they "
                "would have run, so they are left out"
            )
            waiting = {self._key(cluster.jobs[one])[0] for one in cluster.pending}
            started = {key[0] for key in found.runs}
            found.actions = [
                action
                for action in found.actions
                if not (action.submitted and action.submitted[0].job_id in waiting - started)
            ]
        for name, count in sorted(self._untold.items()):
            found.notes.append(f"{count} times {name}: not replayed")

    def _act(self, action: Action) -> None:
        self._found.actions.append(action)

    def _key(self, job: Job) -> Key:
        if job.array_job_id:
            return job.array_job_id, job.array_task_id
        return job.job_id, NO_VAL

    def _before(self, event: ev.AnyEvent) -> None:
        """See what an event changes while the state is still as it was."""
        if isinstance(event, ev.JobSubmitted):
            if event.priority == 0:
                self._held[event.job_id] = event
            else:
                self._act(Action(event.time_us, submitted=(event,)))
        elif isinstance(event, ev.JobEnded):
            job = self._cluster.jobs.get(event.job_id)
            self._held.pop(event.job_id, None)
            if job is not None and job.state == JobState.PENDING and not job.start_us:
                job_id, task = self._key(job)
                tasks = _task_text(job.array_pending) or ("" if task == NO_VAL else str(task))
                if event.state == JobState.CANCELLED:
                    self._act(Action(event.time_us, cancelled=(job_id, tasks)))
        elif isinstance(event, ev.NodesDown):
            names = tuple(self._names[one] for one in event.node_ids if one in self._names)
            self._act(Action(event.time_us, down=names))
        elif isinstance(event, ev.NodesReturned):
            names = tuple(self._names[one] for one in event.node_ids if one in self._names)
            self._act(Action(event.time_us, back=names))
        elif isinstance(event, ev.NodeRegistered):
            node = self._cluster.nodes[event.node_id]
            if node is not None and node.state == NodeState.DOWN != event.state:
                self._act(Action(event.time_us, back=(node.spec.name,)))
        elif isinstance(event, ev.AssocChanged | ev.QosChanged | ev.UsageReset):
            self._act(Action(event.time_us, told=event))
        elif type(event) in _NOT_REPLAYED:
            self._untold[_NOT_REPLAYED[type(event)]] += 1

    def _after(self, event: ev.AnyEvent) -> None:
        """See what an event has led to."""
        if isinstance(event, ev.ConfigLoaded):
            self._learn_names()
        elif isinstance(event, ev.JobAllocated):
            self._started(self._cluster.jobs[event.job_id])
        elif isinstance(event, ev.JobCompleting):
            job = self._cluster.jobs[event.job_id]
            run = self._found.runs.get(self._key(job))
            if run is not None:
                run.end_us = job.end_us
                run.run_us = max(job.end_us - job.start_us - job.suspended_us, 0)
        elif (
            isinstance(event, ev.JobUpdated)
            and event.job_id in self._held
            and self._cluster.jobs[event.job_id].priority
        ):
            held = self._held.pop(event.job_id)
            self._act(Action(event.time_us, submitted=(held,)))
        elif isinstance(event, ev.JobUpdated):
            job = self._cluster.jobs[event.job_id]
            if job.state == JobState.PENDING and (event.request is not None or event.fields):
                self._untold["a waiting job was changed (scontrol update, hold)"] += 1

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
            cpus=sum(alloc.cpus for alloc in job.nodes),
            eligible_us=job.eligible_us or job.submit_us,
            start_us=job.start_us,
            end_us=job.end_us,
            run_us=max(job.end_us - job.start_us - job.suspended_us, 0) if job.end_us else 0,
        )


_NOT_REPLAYED: dict[type, str] = {
    ev.ReservationCreated: "a reservation was made",
    ev.ReservationUpdated: "a reservation was changed",
    ev.ReservationDeleted: "a reservation was deleted",
    ev.PartitionUpdated: "a partition was changed by hand",
    ev.PartitionDeleted: "a partition was deleted by hand",
    ev.NodeUpdated: "nodes were changed by hand (drained, resumed)",
    ev.JobSuspended: "a job was suspended",
}


def _task_text(ranges: tuple[tuple[int, int, int], ...]) -> str:
    if not ranges:
        return ""
    parts = [f"{first}-{last}:{step}" for first, last, step in ranges]
    return f"[{','.join(parts)}]"
