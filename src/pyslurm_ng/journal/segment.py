"""Segments of the journal: their names, headers and frames.

A segment is one header followed by frames; one frame carries one event batch. Every frame names its
epoch, its sequence and the checksum of the frame before it, so a lost write or an old sector is
noticed. Checksums are BLAKE2b keyed with the journal's random id: bytes that a user puts into a
payload never look like a frame.

A segment grows by pieces of zeros ahead of the writing position, because a sync takes a third less
time if the file's size stays the same. So zeros up to the end of a file mean "nothing written yet".

Frame:   magic u32 | length u32 | epoch u64 | sequence u64 | synced u64 | previous u64
         | payload | checksum u64 of everything before it       (all little-endian)
`synced` is the newest sequence that was durable when the frame was written. A damaged frame whose
sequence is not above the `synced` of a later frame was acknowledged: it must never be removed
silently.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

FORMAT_VERSION = 1
MAX_PAYLOAD = 256 << 20
SEGMENT_BYTES = 64 << 20
REPAIR_COMMAND = "slurmctld -i"

_FRAME_MAGIC = 0x464A5350  # "PSJF"
_FRAME_MAGIC_BYTES = _FRAME_MAGIC.to_bytes(4, "little")
_FRAME = struct.Struct("<IIQQQQ")
_CHECKSUM_BYTES = 8
FRAME_OVERHEAD = _FRAME.size + _CHECKSUM_BYTES

_SEGMENT_MAGIC = b"PSNGJRNL"
# magic, version, flags, journal id, epoch, first sequence, checksum of the frame before
_HEADER = struct.Struct("<8sHH4x16sQQQ")
HEADER_BYTES = _HEADER.size + _CHECKSUM_BYTES
_FLAG_GAP = 1

_NAME = re.compile(r"^(\d{8})-(\d{16})\.journal$")
_SECTOR = 512
_READ_BYTES = 1 << 20


class JournalError(Exception):
    """The journal cannot be used; the text is one line for the operator."""


class JournalDamage(JournalError):
    """Acknowledged bytes are unreadable or missing.

    Attributes:
        path: the damaged file.
        offset: where in it the first unreadable record begins.
        problem: what is wrong and where, without advice for the operator.
    """

    def __init__(self, path: Path, offset: int, why: str) -> None:
        self.problem = f"{path}: damaged at offset {offset}: {why}"
        super().__init__(
            f"{self.problem}; recover the file from a standby or a backup, or run "
            f"'{REPAIR_COMMAND}' to go on without this record and all after it"
        )
        self.path = path
        self.offset = offset


class Position(NamedTuple):
    """The last record that was read or written; the chain of checksums continues from it."""

    epoch: int
    sequence: int
    checksum: int


ORIGIN = Position(0, 0, 0)


class Frame(NamedTuple):
    """One event batch as it was read; `checksum` is that of this frame."""

    epoch: int
    sequence: int
    checksum: int
    payload: bytes

    @property
    def position(self) -> Position:
        """The position just after this frame."""
        return Position(self.epoch, self.sequence, self.checksum)


def checksum_of(key: bytes, *parts: bytes) -> int:
    """Return the keyed 64-bit checksum of the parts in order."""
    digest = hashlib.blake2b(digest_size=_CHECKSUM_BYTES, key=key)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little")


def encode_frames(
    key: bytes, position: Position, synced: int, payloads: Iterable[bytes]
) -> tuple[list[bytes], Position]:
    """Return the pieces of consecutive frames after `position`, and the new position.

    Args:
        key: the journal's id.
        position: the last frame written; the new ones take its epoch.
        synced: the newest sequence known to be durable.
        payloads: one for each frame, each at most MAX_PAYLOAD bytes.
    """
    epoch, sequence, previous = position
    base = hashlib.blake2b(digest_size=_CHECKSUM_BYTES, key=key)
    pieces: list[bytes] = []
    for payload in payloads:
        sequence += 1
        head = _FRAME.pack(_FRAME_MAGIC, len(payload), epoch, sequence, synced, previous)
        digest = base.copy()
        digest.update(head)
        digest.update(payload)
        tail = digest.digest()
        previous = int.from_bytes(tail, "little")
        pieces += (head, payload, tail)
    return pieces, Position(epoch, sequence, previous)


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The header of a segment.

    Attributes:
        journal_id: 16 random bytes, the same in all segments; the key of the checksums.
        first_sequence: the sequence of the first frame.
        previous: checksum of the frame before the first.
        follows_gap: an operator chose to go on after damage, so sequences may jump here.
    """

    journal_id: bytes
    epoch: int
    first_sequence: int
    previous: int
    follows_gap: bool = False

    @property
    def position(self) -> Position:
        """The position just before the first frame."""
        return Position(self.epoch, self.first_sequence - 1, self.previous)

    def encode(self) -> bytes:
        """Return the header's bytes, HEADER_BYTES long."""
        flags = _FLAG_GAP if self.follows_gap else 0
        body = _HEADER.pack(
            _SEGMENT_MAGIC,
            FORMAT_VERSION,
            flags,
            self.journal_id,
            self.epoch,
            self.first_sequence,
            self.previous,
        )
        return body + checksum_of(self.journal_id, body).to_bytes(_CHECKSUM_BYTES, "little")


def decode_header(path: Path, raw: bytes) -> SegmentHeader:
    """Check a segment's first bytes.

    Raises:
        JournalDamage: the bytes have changed since they were written.
        JournalError: a newer version wrote them.
    """
    if len(raw) < HEADER_BYTES:
        raise JournalDamage(path, 0, "the header is incomplete")
    body, tail = raw[: _HEADER.size], raw[_HEADER.size : HEADER_BYTES]
    magic, version, flags, journal_id, epoch, first, previous = _HEADER.unpack(body)
    if magic != _SEGMENT_MAGIC:
        raise JournalDamage(path, 0, "this is not a journal segment")
    if checksum_of(journal_id, body) != int.from_bytes(tail, "little"):
        raise JournalDamage(path, 0, "the header's checksum is wrong")
    if version > FORMAT_VERSION:
        raise JournalError(
            f"{path}: written by a newer version (format {version}, this program reads up to "
            f"{FORMAT_VERSION}); nothing was changed"
        )
    return SegmentHeader(journal_id, epoch, first, previous, bool(flags & _FLAG_GAP))


class SegmentName(NamedTuple):
    """A segment in a directory; names sort in the order in which segments were written."""

    epoch: int
    first_sequence: int
    path: Path


def segment_path(directory: Path, epoch: int, first_sequence: int) -> Path:
    """Return the path of the segment of this epoch that begins with this sequence."""
    return directory / f"{epoch:08d}-{first_sequence:016d}.journal"


def unfinished_path(path: Path) -> Path:
    """Return the temporary path of a segment that is being made."""
    return path.with_name(path.name + ".new")


def list_unfinished(directory: Path) -> list[Path]:
    """Return incomplete segments; nothing was ever recorded in them."""
    return sorted(directory.glob("*.journal.new"))


def list_segments(directory: Path) -> list[SegmentName]:
    """Return the segments of a directory, oldest first; other files are left alone."""
    segments = []
    for name in os.listdir(directory):
        match = _NAME.match(name)
        if match:
            segments.append(SegmentName(int(match[1]), int(match[2]), directory / name))
    return sorted(segments)


class Scan(NamedTuple):
    """The frames at the beginning of a buffer.

    Attributes:
        used: how many bytes the frames take.
        needed: how many bytes the next frame takes, as far as known; 0 if the bytes after `used`
            are not a frame.
    """

    frames: list[Frame]
    used: int
    position: Position
    needed: int


def scan_frames(key: bytes, buffer: bytes, position: Position) -> Scan:
    """Return the complete, valid frames that continue `position` in `buffer`.

    The first frame that is too long, breaks the chain or has a wrong checksum ends the scan.
    """
    epoch, sequence, previous = position
    base = hashlib.blake2b(digest_size=_CHECKSUM_BYTES, key=key)
    frames: list[Frame] = []
    start, size = 0, len(buffer)
    needed = FRAME_OVERHEAD
    while size - start >= FRAME_OVERHEAD:
        head = buffer[start : start + _FRAME.size]
        magic, length, frame_epoch, frame_sequence, _, before = _FRAME.unpack(head)
        if (
            magic != _FRAME_MAGIC
            or length > MAX_PAYLOAD
            or (frame_epoch, frame_sequence, before) != (epoch, sequence + 1, previous)
        ):
            needed = 0
            break
        middle = start + _FRAME.size
        end = middle + length
        if end + _CHECKSUM_BYTES > size:
            needed = FRAME_OVERHEAD + length
            break
        payload = buffer[middle:end]
        digest = base.copy()
        digest.update(head)
        digest.update(payload)
        tail = buffer[end : end + _CHECKSUM_BYTES]
        if digest.digest() != tail:
            needed = 0
            break
        sequence += 1
        previous = int.from_bytes(tail, "little")
        frames.append(Frame(epoch, sequence, previous, payload))
        start = end + _CHECKSUM_BYTES
    return Scan(frames, start, Position(epoch, sequence, previous), needed)


class SegmentReader:
    """Reads the frames of one segment from the beginning.

    Each call continues where the last one ended, so it can follow a growing file.
    """

    def __init__(self, path: Path) -> None:
        """Open the segment and check its header.

        Raises:
            OSError, JournalError: see `decode_header`.
        """
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.header = decode_header(path, os.pread(self._fd, HEADER_BYTES, 0))
        except BaseException:
            os.close(self._fd)
            raise
        self.position = self.header.position
        self.offset = HEADER_BYTES

    def close(self) -> None:
        """Close the file; the reader can no longer be used."""
        os.close(self._fd)

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, max_bytes: int = _READ_BYTES) -> list[Frame]:
        """Return the next frames, about `max_bytes` of them but at least one; [] at the end."""
        size = max_bytes
        while True:
            buffer = os.pread(self._fd, size, self.offset)
            scan = scan_frames(self.header.journal_id, buffer, self.position)
            if scan.frames:
                self.offset += scan.used
                self.position = scan.position
                return scan.frames
            if scan.needed <= size or len(buffer) < size:
                return []
            size = scan.needed

    def __iter__(self) -> Iterator[Frame]:
        while frames := self.read():
            yield from frames

    def size(self) -> int:
        """Return the present size of the file in bytes."""
        return os.fstat(self._fd).st_size

    def examine_end(self) -> Ending:
        """Return what follows the last valid frame."""
        rest = os.pread(self._fd, max(self.size() - self.offset, 0), self.offset)
        if not rest or rest.count(0) == len(rest):
            return Ending("", 0)
        sequence = self.position.sequence + 1
        frames = list(_valid_frames(self.header, rest, sequence))
        if not frames:
            why = f"record {sequence} was not written completely"
            return Ending("torn", self.position.sequence, why)
        last = frames[-1].sequence
        proof = next((later for later in frames if later.synced >= sequence), None)
        if proof is not None:
            why = (
                f"record {sequence} is unreadable, but record {proof.sequence}, written after "
                "it was safe on disk, is intact"
            )
            return Ending("damaged", last, why)
        if _has_empty_sector(rest[: frames[0].offset], self.offset):
            why = f"records from {sequence} on were written together and not completely"
            return Ending("torn", last, why)
        return Ending("damaged", last, f"record {sequence} is unreadable and not the last")


class Ending(NamedTuple):
    """How a segment ends.

    Attributes:
        kind: "" for a clean end, "torn" for an incomplete write that was never acknowledged,
            "damaged" for an acknowledged record that cannot be read.
        last_sequence: the highest sequence of the segment, that of unreadable records included.
    """

    kind: str
    last_sequence: int
    why: str = ""


class _Later(NamedTuple):
    offset: int
    sequence: int
    synced: int


def _valid_frames(header: SegmentHeader, rest: bytes, sequence: int) -> Iterator[_Later]:
    """Yield the intact frames anywhere in `rest` with a higher sequence than `sequence`."""
    start = rest.find(_FRAME_MAGIC_BYTES)
    while start >= 0:
        head = rest[start : start + _FRAME.size]
        step = 1
        if len(head) == _FRAME.size:
            _, length, epoch, frame_sequence, synced, _ = _FRAME.unpack(head)
            end = start + _FRAME.size + length
            if epoch == header.epoch and frame_sequence > sequence and end + 8 <= len(rest):
                tail = int.from_bytes(rest[end : end + _CHECKSUM_BYTES], "little")
                if checksum_of(header.journal_id, rest[start:end]) == tail:
                    yield _Later(start, frame_sequence, synced)
                    step = end + _CHECKSUM_BYTES - start
        start = rest.find(_FRAME_MAGIC_BYTES, start + step)


def _has_empty_sector(region: bytes, offset: int) -> bool:
    """Return whether a disk sector has only zeros; of a sector at an edge, the part in the region.

    A frame never begins with zeros and hardly ever ends with eight of them. So a part of a sector
    with only zeros shows, like a whole one, that it was never written.
    """
    start, end = 0, _SECTOR - offset % _SECTOR
    while start < len(region):
        piece = region[start:end]
        if len(piece) >= _CHECKSUM_BYTES and piece.count(0) == len(piece):
            return True
        start, end = end, end + _SECTOR
    return False
