"""Reading the state at a start: the newest valid checkpoint, then every record after it.

An incomplete record at the very end is removed with a line in the log, because no client has had a
reply that depends on it. Anything else that is unreadable stops the start. An operator may set the
damaged part aside with `slurmctld -i`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pyslurm_ng.journal import disk
from pyslurm_ng.journal.checkpoint import Checkpoint, load_newest
from pyslurm_ng.journal.segment import (
    HEADER_BYTES,
    ORIGIN,
    Frame,
    JournalDamage,
    JournalError,
    SegmentName,
    SegmentReader,
    list_segments,
    list_unfinished,
)


class Layout:
    """The names inside a state directory (StateSaveLocation)."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.journal = state / "journal"
        self.checkpoints = state / "checkpoint"
        self.reserve = state / "reserve"

    def create(self) -> None:
        """Create the directories that are missing, durably.

        Raises:
            OSError: the state directory does not exist or is not writable.
        """
        disk.make_directory(self.journal)
        disk.make_directory(self.checkpoints)


class Recovery:
    """One pass over a state directory; read `frames()` to its end before the attributes.

    Attributes:
        checkpoint: the checkpoint to begin from, or None for an empty cluster.
        position: the last valid record, once `frames()` has ended.
        journal_id: the journal's id; fresh random bytes for a new journal.
        next_epoch: higher than every epoch that has written here.
        next_sequence: the sequence of the next record; it jumps if damage was set aside.
        notes: lines for the log about what was skipped or cut.
    """

    def __init__(self, layout: Layout, *, ignore_errors: bool = False) -> None:
        """Choose the checkpoint.

        Raises:
            JournalError: the state was written by a newer version.
            OSError: the directory cannot be read.
        """
        self._layout = layout
        self._ignore_errors = ignore_errors
        self.checkpoint: Checkpoint | None
        self.checkpoint, self.notes = load_newest(layout.checkpoints)
        self.position = self.checkpoint.position if self.checkpoint else ORIGIN
        self.journal_id = self.checkpoint.journal_id if self.checkpoint else b""
        self._segments = list_segments(layout.journal)
        epochs = [segment.epoch for segment in self._segments]
        self.next_epoch = max([self.position.epoch, *epochs]) + 1
        self.next_sequence = self.position.sequence + 1
        self._highest = self.position.sequence
        self._read_to = ORIGIN
        self._end = (layout.journal, 0)

    @property
    def follows_gap(self) -> bool:
        """Whether records were lost, so that the next segment must say so."""
        return self.next_sequence != self.position.sequence + 1

    def frames(self) -> Iterator[list[Frame]]:
        """Yield the records after the checkpoint in order, in lists.

        Raises:
            JournalDamage: acknowledged records are unreadable or missing.
            JournalError, OSError: see `SegmentReader`.
        """
        for path in list_unfinished(self._layout.journal):
            self.notes.append(f"{path}: removed, its creation was not completed")
            os.unlink(path)
        try:
            yield from self._read_segments()
            self._check_reaches_checkpoint("the journal ends there")
        except JournalDamage as damage:
            if not self._ignore_errors:
                raise
            self._set_aside(damage)
        self.journal_id = self.journal_id or os.urandom(16)
        self.next_sequence = max(self.position.sequence, self._highest) + 1

    def _read_segments(self) -> Iterator[list[Frame]]:
        segments = self._relevant()
        for index, segment in enumerate(segments):
            after = segments[index + 1] if index + 1 < len(segments) else None
            with SegmentReader(segment.path) as reader:
                self._enter(reader)
                yield from self._read_one(reader, after)
                self._end = (reader.path, reader.offset)

    def _relevant(self) -> list[SegmentName]:
        """Return the segments from the one that holds the checkpoint's record, if it is there."""
        first = 0
        for index, segment in enumerate(self._segments):
            if segment.first_sequence <= max(self.position.sequence, 1):
                first = index
        return self._segments[first:]

    def _enter(self, reader: SegmentReader) -> None:
        """Check that a segment continues what was read so far."""
        header = reader.header
        if self.journal_id and header.journal_id != self.journal_id:
            raise JournalError(f"{reader.path}: belongs to another journal; nothing was changed")
        self.journal_id = header.journal_id
        last = self.position.sequence
        if header.follows_gap and header.first_sequence > last:
            self.position = header.position
        elif header.first_sequence > last + 1:
            why = f"records {last + 1} to {header.first_sequence - 1} are missing"
            raise JournalDamage(*self._end, why)
        elif header.first_sequence == last + 1 and header.previous != self.position.checksum:
            raise JournalDamage(
                reader.path, 0, f"its checksum does not continue that of record {last}"
            )
        self._read_to = header.position

    def _read_one(self, reader: SegmentReader, after: SegmentName | None) -> Iterator[list[Frame]]:
        """Yield a segment's new records, except those that the next segment replaces."""
        limit = after.first_sequence - 1 if after is not None else None
        while frames := reader.read():
            if limit is not None and frames[-1].sequence > limit:
                self.notes.append(
                    f"{reader.path}: records after {limit} ignored, a later epoch took over there"
                )
                frames = [frame for frame in frames if frame.sequence <= limit]
                if frames:
                    yield self._new(reader, frames)
                return
            yield self._new(reader, frames)
        ending = reader.examine_end()
        if ending.kind == "damaged":
            self._highest = max(self._highest, ending.last_sequence)
            raise JournalDamage(reader.path, reader.offset, ending.why)
        if after is None and ending.kind == "torn":
            self._end = (reader.path, reader.offset)
            self._check_reaches_checkpoint(ending.why)
            self._cut(reader, ending.why)

    def _new(self, reader: SegmentReader, frames: list[Frame]) -> list[Frame]:
        """Return the frames after the position and move it; check them against a checkpoint."""
        old = self.position
        self._read_to = frames[-1].position
        if frames[0].sequence <= old.sequence:
            for frame in frames:
                if frame.sequence == old.sequence and frame.checksum != old.checksum:
                    why = f"record {old.sequence} is not the one that the checkpoint contains"
                    raise JournalDamage(reader.path, HEADER_BYTES, why)
            frames = [frame for frame in frames if frame.sequence > old.sequence]
        if frames:
            self.position = frames[-1].position
        return frames

    def _check_reaches_checkpoint(self, why: str) -> None:
        """Raise if the checkpoint is newer than the journal's end: then records are lost."""
        reached = self._read_to.sequence
        if self.checkpoint is not None and reached < self.checkpoint.position.sequence:
            raise JournalDamage(
                *self._end,
                f"{why}, but a checkpoint contains record {self.checkpoint.position.sequence}",
            )

    def _cut(self, reader: SegmentReader, why: str) -> None:
        """Remove an incomplete record at the end; it was never acknowledged."""
        removed = reader.size() - reader.offset
        with open(reader.path, "r+b") as file:
            file.truncate(reader.offset)
            os.fsync(file.fileno())
        self.notes.append(
            f"{reader.path}: cut at offset {reader.offset} ({removed} bytes): {why}; "
            "nothing in it had been acknowledged"
        )

    def _set_aside(self, damage: JournalDamage) -> None:
        """Keep what is readable in place and rename the rest, so that nothing is destroyed."""
        names = [segment.path for segment in self._segments]
        start = names.index(damage.path) if damage.path in names else len(names)
        for segment in self._segments[start:]:
            self._highest = max(self._highest, _highest_sequence(segment))
        for path in names[start:]:
            aside = path.with_name(path.name + ".damaged")
            if path == damage.path and damage.offset > HEADER_BYTES:
                aside.write_bytes(path.read_bytes())
                os.truncate(path, damage.offset)
            else:
                os.rename(path, aside)
            self.notes.append(f"{path}: set aside as {aside.name} from offset {damage.offset} on")
        disk.sync_directory(self._layout.journal)


def _highest_sequence(segment: SegmentName) -> int:
    """The highest sequence a segment can be shown to hold."""
    try:
        with SegmentReader(segment.path) as reader:
            for _ in reader:
                pass
            return max(reader.position.sequence, reader.examine_end().last_sequence)
    except (JournalError, OSError):
        return segment.first_sequence
