"""Group commit: one thread writes all waiting batches, syncs once, and tells the loop once.

Batches that come while the disk works form the next group, so groups grow with the load, and a
single batch does not wait. An error of a sync is final: the kernel may have dropped the pages and
marked them clean, so a second try could report success although data are lost. The process stops,
and the next start reads only records with valid checksums.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from pyslurm_ng.journal import disk
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.segment import (
    HEADER_BYTES,
    MAX_PAYLOAD,
    SEGMENT_BYTES,
    Position,
    SegmentHeader,
    encode_frames,
    segment_path,
    unfinished_path,
)

BUSY_BYTES = 64 << 20
_EXTEND_BYTES = 1 << 20
_GROUP_BYTES = 8 << 20
_FULL_RETRY_S = 0.5


class JournalWriter:
    """Appends event batches to the journal of one epoch.

    `append` belongs to one thread (the loop's). `on_durable(sequence)` is called in the
    writer's thread after each group; the daemon passes a function that hands it to its loop.

    Attributes:
        space_low: the file system is nearly full; submissions should be refused.
        is_stalled: a group waits for the file system to have room again.
    """

    def __init__(
        self,
        directory: Path,
        journal_id: bytes,
        position: Position,
        *,
        first_sequence: int,
        on_durable: Callable[[int], None],
        on_fatal: Callable[[str], None],
        reserve: Reserve,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Create the epoch's first segment and start the thread.

        Args:
            directory: where the segments are.
            journal_id: key of the checksums, 16 bytes.
            position: the last record so far, but with the new epoch.
            first_sequence: the sequence of the next record; after a gap more than position + 1.
            on_fatal: called once with one line when the journal can no longer be written. It must
                stop the process and not return.

        Raises:
            FileExistsError: another controller has begun this epoch.
            OSError: the segment cannot be created.
        """
        self._directory = directory
        self._key = journal_id
        self._position = Position(position.epoch, first_sequence - 1, position.checksum)
        self._on_durable = on_durable
        self._on_fatal = on_fatal
        self._reserve = reserve
        self._segment_bytes = segment_bytes
        self._appended = first_sequence - 1
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._wake = threading.Condition()
        self._is_closing = False
        self._has_failed = False
        self.durable = first_sequence - 1
        self.groups = 0
        self.bytes_written = 0
        self.space_low = False
        self.is_stalled = False
        self._fd = -1
        self._offset = self._zeroed = self._extend_bytes = 0
        self._open_segment(follows_gap=first_sequence != position.sequence + 1)
        self._check_space()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def appended(self) -> int:
        """The newest sequence given out; it may not be durable yet."""
        return self._appended

    @property
    def is_busy(self) -> bool:
        """Whether so much waits for the disk that no further requests should be taken."""
        return self._pending_bytes > BUSY_BYTES

    def append(self, payload: bytes) -> int:
        """Queue one batch and return its sequence; it is not durable yet.

        Raises:
            ValueError: the batch is larger than a record may be, or the writer is closed.
        """
        if len(payload) > MAX_PAYLOAD:
            raise ValueError(f"a batch of {len(payload)} bytes exceeds {MAX_PAYLOAD}")
        with self._wake:
            if self._is_closing or self._has_failed:
                raise ValueError("the journal is closed")
            self._pending.append(payload)
            self._pending_bytes += len(payload)
            self._appended += 1
            self._wake.notify()
        return self._appended

    def close(self) -> None:
        """Write what is queued, then close the segment at its true length."""
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        self._thread.join()
        if not self._has_failed and self._fd >= 0:
            self._end_segment()
            self._reserve.close()

    def _run(self) -> None:
        # A bug in this thread must stop the process, as an error of the disk does.
        why = "internal error in the journal's thread"
        try:
            while (group := self._next_group()) is not None:
                if group:
                    self._write_group(group)
                    self._on_durable(self.durable)
                self._check_space()
            why = ""
        except OSError as error:
            why = error.strerror or str(error)
        finally:
            if why:
                self._fail(why)

    def _fail(self, why: str) -> None:
        """Stop for ever. The descriptor stays open, because `close` could sync a second time."""
        with self._wake:
            self._has_failed = True
        self._on_fatal(
            f"cannot write the journal in {self._directory}: {why}; "
            f"records up to {self.durable} are safe, stopping at once"
        )

    def _next_group(self) -> list[bytes] | None:
        """Wait for batches; return [] after a second without any if space is low, None to end."""
        with self._wake:
            while not self._pending:
                if self._is_closing:
                    return None
                if not self._wake.wait(1.0 if self.space_low else None):
                    return []
            group, size = self._pending, 0
            for count, payload in enumerate(group, 1):
                size += len(payload)
                if size >= _GROUP_BYTES:
                    self._pending = group[count:]
                    group = group[:count]
                    break
            else:
                self._pending = []
            self._pending_bytes -= size
            return group

    def _write_group(self, group: list[bytes]) -> None:
        """Write a group's frames after the last one, with one sync for all."""
        pieces, position = encode_frames(self._key, self._position, self.durable, group)
        block = b"".join(pieces)
        if self._offset > HEADER_BYTES and self._offset + len(block) > self._segment_bytes:
            self._end_segment()
            self._open_segment()
        self._patiently(lambda: self._write_block(block), self._go_on_in_reserve)
        os.fdatasync(self._fd)
        self._offset += len(block)
        self._position = position
        self.durable = position.sequence
        self.groups += 1
        self.bytes_written += len(block)

    def _write_block(self, block: bytes) -> None:
        """Write at the current offset; zero the file ahead in larger steps."""
        end = self._offset + len(block)
        if end > self._zeroed:
            ahead = self._extend_bytes if end < self._segment_bytes else 0
            disk.write_fully(self._fd, block + bytes(ahead), self._offset)
            self._zeroed = end + ahead
        else:
            disk.write_fully(self._fd, block, self._offset)

    def _go_on_in_reserve(self) -> bool:
        """Make the reserve the next segment; return whether a write may be tried again."""
        if self._offset <= HEADER_BYTES:
            return self._reserve.give_up()  # a second empty segment would have the same name
        os.ftruncate(self._fd, self._offset)  # the write may have left half a frame
        os.fsync(self._fd)
        self._zeroed = self._offset
        path, head = self._next_segment(follows_gap=False)
        reserve_fd = self._reserve.become(path, head)
        if reserve_fd < 0:
            return self._reserve.give_up()
        os.close(self._fd)
        self._fd, self._offset, self._zeroed = reserve_fd, len(head), self._reserve.size
        return True

    def _patiently(self, step: Callable[[], None], use_reserve: Callable[[], bool]) -> None:
        """Do a step that needs room; on a full file system use the reserve, then wait.

        No reply depends on the step yet, so it is safe to wait, and it would not help to stop. A
        write may be tried again because, unlike a sync, it reports what it has not done.
        """
        while True:
            try:
                step()
            except OSError as error:
                if error.errno not in disk.DISK_FULL:
                    raise
                if self._extend_bytes:
                    self._extend_bytes = 0
                    continue
                self.space_low = True
                if use_reserve():
                    continue
                self.is_stalled = True
                if self._is_closing:
                    raise
                threading.Event().wait(_FULL_RETRY_S)
            else:
                self.is_stalled = False
                return

    def _check_space(self) -> None:
        free = disk.free_bytes(self._fd)
        self.space_low = self._reserve.is_low(free)
        self._extend_bytes = 0 if self.space_low else min(_EXTEND_BYTES, self._reserve.spare(free))

    def _open_segment(self, *, follows_gap: bool = False) -> None:
        """Create the next segment: name, header, file and directory are durable at the end.

        The file gets its name when its header is durable, so a crash before that leaves no file of
        this name. An empty file of this name has therefore lost its records.
        """
        path, head = self._next_segment(follows_gap=follows_gap)
        unfinished = unfinished_path(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._extend_bytes = 0

        def create() -> None:
            self._fd = os.open(unfinished, flags, 0o600)

        self._patiently(create, self._reserve.give_up)
        self._patiently(lambda: disk.write_fully(self._fd, head, 0), self._reserve.give_up)
        os.fsync(self._fd)
        if path.exists():
            # Only this process writes this epoch, so the name cannot appear before the renaming.
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self._patiently(lambda: os.rename(unfinished, path), self._reserve.give_up)
        disk.sync_directory(self._directory)
        self._offset = self._zeroed = len(head)

    def _next_segment(self, *, follows_gap: bool) -> tuple[Path, bytes]:
        """Return path and header of the next segment."""
        epoch, sequence, previous = self._position
        header = SegmentHeader(self._key, epoch, sequence + 1, previous, follows_gap)
        return segment_path(self._directory, epoch, sequence + 1), header.encode()

    def _end_segment(self) -> None:
        """Cut off the zeros at the end; everything before them is durable already."""
        os.ftruncate(self._fd, self._offset)
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
