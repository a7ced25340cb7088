"""Reading the journal's files from a cursor on, while the journal grows.

The writer tells a follower in the controller's process which records are durable. The follower
never reads beyond them, because later records could still be lost.
"""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.journal.segment import (
    Frame,
    JournalDamage,
    JournalError,
    SegmentName,
    SegmentReader,
    list_segments,
)

READ_BYTES = 1 << 20


class CursorLost(JournalError):
    """The records after a cursor are no longer in the journal."""


class Follow:
    """Reads the batches after a cursor, in order, each once.

    Attributes:
        sequence: the last record returned; the next call continues after it.
    """

    def __init__(self, directory: Path, after_sequence: int) -> None:
        self._directory = directory
        self.sequence = after_sequence
        self._reader: SegmentReader | None = None
        self._limit: int | None = None  # a later epoch has replaced records beyond it
        self._kept: list[Frame] = []

    def read(self, durable: int, max_bytes: int = READ_BYTES) -> list[Frame]:
        """Return the next records up to `durable`, about `max_bytes` of them; [] if there are none.

        Raises:
            CursorLost: the next record is older than the oldest that is kept.
            JournalDamage: a durable record cannot be read.
        """
        while self.sequence < durable:
            kept = self._kept or self._read_files(max_bytes)
            frames = [frame for frame in kept if self.sequence < frame.sequence <= durable]
            self._kept = [frame for frame in kept if frame.sequence > durable]
            if frames:
                self.sequence = frames[-1].sequence
                return frames
        return []

    def close(self) -> None:
        """Close the file that is open."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _read_files(self, max_bytes: int) -> list[Frame]:
        """Return some frames, and go on to the next segment at the end of one."""
        if self._reader is None:
            self._open_first()
        assert self._reader is not None
        while True:
            frames = self._reader.read(max_bytes)
            if self._limit is not None:
                frames = [frame for frame in frames if frame.sequence <= self._limit]
            if frames:
                return frames
            self._advance()

    def _open_first(self) -> None:
        """Open the segment that holds the record after the cursor."""
        segments = list_segments(self._directory)
        next_sequence = self.sequence + 1
        indexes = [
            index
            for index, segment in enumerate(segments)
            if segment.first_sequence <= next_sequence
        ]
        if not indexes:
            oldest = segments[0].first_sequence if segments else 0
            raise CursorLost(
                f"{self._directory}: record {next_sequence} is no longer kept; "
                f"the oldest is {oldest}"
            )
        self._open(segments, indexes[-1])

    def _open(self, segments: list[SegmentName], index: int) -> SegmentReader:
        self.close()
        self._reader = SegmentReader(segments[index].path)
        later = segments[index + 1 :]
        self._limit = later[0].first_sequence - 1 if later else None
        return self._reader

    def _advance(self) -> None:
        """Go to the next segment; the caller knows that there are more records."""
        reader = self._reader
        assert reader is not None
        segments = list_segments(self._directory)
        index = next(i for i, segment in enumerate(segments) if segment.path == reader.path)
        if index + 1 == len(segments):
            raise JournalDamage(reader.path, reader.offset, "a durable record cannot be read")
        next_reader = self._open(segments, index + 1)
        header = next_reader.header
        if header.first_sequence > self.sequence + 1:
            if not header.follows_gap:
                why = f"records from {self.sequence + 1} on are missing"
                raise JournalDamage(next_reader.path, 0, why)
            self.sequence = header.first_sequence - 1
