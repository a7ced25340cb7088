"""Checkpoints: the whole state at one sequence. A crash while one is written leaves the old one.

File:  magic | version u16 | journal id | epoch u64 | sequence u64 | checksum of that record u64
       | length u64 | payload | BLAKE2b-256 of everything before it
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from pyslurm_ng.journal import disk
from pyslurm_ng.journal.segment import JournalError, Position, list_segments

FORMAT_VERSION = 1
KEPT = 2
ARCHIVE = "archive"
"""Directory beside the journal; while it exists, old segments are moved there, not removed."""
ARCHIVE_DAYS = 62
_DAY_S = 86_400

_MAGIC = b"PSNGCKPT"
_HEADER = struct.Struct("<8sH6x16sQQQQ")
_DIGEST_BYTES = 32
_NAME = re.compile(r"^(\d{16})-(\d{8})\.checkpoint$")
_WRITE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A valid checkpoint as read back.

    Attributes:
        position: the last record whose effect the payload contains.
        payload: a view of the file's bytes, without a copy.
    """

    path: Path
    journal_id: bytes
    position: Position
    payload: memoryview


def checkpoint_path(directory: Path, position: Position) -> Path:
    """Return the name of a position's checkpoint."""
    return directory / f"{position.sequence:016d}-{position.epoch:08d}.checkpoint"


def write_checkpoint(
    directory: Path, journal_id: bytes, position: Position, payload: bytes
) -> Path:
    """Write a checkpoint durably; until it is complete nothing in the directory changes.

    Raises:
        OSError: nothing was replaced; a temporary file may remain, and the next call reuses it.
    """
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, journal_id, *position, len(payload))
    digest = hashlib.blake2b(header, digest_size=_DIGEST_BYTES)
    digest.update(payload)
    target = checkpoint_path(directory, position)
    temporary = directory / "checkpoint.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        disk.write_fully(fd, header, 0)
        rest = memoryview(payload)
        for start in range(0, len(rest), _WRITE_BYTES):
            disk.write_fully(fd, rest[start : start + _WRITE_BYTES], len(header) + start)
        disk.write_fully(fd, digest.digest(), len(header) + len(payload))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, target)
    disk.sync_directory(directory)
    return target


def read_checkpoint(path: Path) -> Checkpoint | str:
    """Return a checkpoint, or the reason why the file is not one.

    Raises:
        JournalError: a newer version wrote the file.
        OSError: the file cannot be read.
    """
    raw = path.read_bytes()
    if len(raw) < _HEADER.size + _DIGEST_BYTES:
        return "incomplete"
    magic, version, journal_id, epoch, sequence, checksum, length = _HEADER.unpack_from(raw)
    if magic != _MAGIC:
        return "not a checkpoint"
    if version > FORMAT_VERSION:
        raise JournalError(
            f"{path}: written by a newer version (format {version}, this program reads up to "
            f"{FORMAT_VERSION}); nothing was changed"
        )
    end = _HEADER.size + length
    if len(raw) != end + _DIGEST_BYTES:
        return "incomplete"
    digest = hashlib.blake2b(memoryview(raw)[:end], digest_size=_DIGEST_BYTES)
    if digest.digest() != raw[end:]:
        return "the checksum is wrong"
    payload = memoryview(raw)[_HEADER.size : end]
    return Checkpoint(path, journal_id, Position(epoch, sequence, checksum), payload)


def list_checkpoints(directory: Path) -> list[tuple[int, Path]]:
    """Return (sequence, path) of the checkpoints, oldest first; other files are left alone."""
    checkpoints = []
    for name in os.listdir(directory):
        match = _NAME.match(name)
        if match:
            checkpoints.append((int(match[1]), int(match[2]), directory / name))
    return [(sequence, path) for sequence, _, path in sorted(checkpoints)]


def load_newest(directory: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest valid checkpoint, and one line for each newer one that is not valid.

    Raises:
        JournalError: the newest was written by a newer version.
    """
    complaints: list[str] = []
    for _, path in reversed(list_checkpoints(directory)):
        checkpoint = read_checkpoint(path)
        if isinstance(checkpoint, Checkpoint):
            return checkpoint, complaints
        complaints.append(f"{path}: {checkpoint}; using an older checkpoint")
    return None, complaints


def remove_outdated(journal: Path, checkpoints: Path, keep_after: int) -> list[Path]:
    """Remove all checkpoints but the newest KEPT, and segments that are no longer needed.

    A segment is removed when all its records are in the older kept checkpoint and at or below
    `keep_after`, the lowest position of the followers (slurmdbd). The newest segment stays.

    If there is a directory `archive` beside the journal, files are moved there; see `_archive`.

    Returns:
        The files removed or moved.
    """
    known = list_checkpoints(checkpoints)
    removed = [path for _, path in known[:-KEPT]]
    kept = known[-KEPT:]
    if len(kept) == KEPT:
        limit = min(kept[0][0], keep_after)
        segments = list_segments(journal)
        for segment, after in itertools.pairwise(segments):
            if after.first_sequence - 1 > limit:
                break
            removed.append(segment.path)
    archive = journal.parent / ARCHIVE
    archived = _archive(removed, archive) if archive.is_dir() else set()
    for path in removed:
        if path not in archived:
            os.unlink(path)
    if removed:
        disk.sync_directory(checkpoints)
        disk.sync_directory(journal)
    return removed


def _archive(outdated: list[Path], archive: Path) -> set[Path]:
    """Move segments and one checkpoint a day into the archive; return the paths that were moved.

    Files that are ARCHIVE_DAYS older than the newest in the archive are removed. The archive must
    be on the journal's file system: files are renamed, so that a crash never leaves half a file.
    """
    moved: set[Path] = set()
    newest_s = max((path.stat().st_mtime for _, path in list_checkpoints(archive)), default=0.0)
    for path in outdated:
        made_s = path.stat().st_mtime
        if _NAME.match(path.name):
            if made_s < newest_s + _DAY_S:
                continue
            newest_s = made_s
        os.rename(path, archive / path.name)
        moved.add(path)
    replayable = [(path.stat().st_mtime, path) for path in _replayable(archive)]
    limit_s = max((made_s for made_s, _ in replayable), default=0.0) - ARCHIVE_DAYS * _DAY_S
    for made_s, path in replayable:
        if made_s < limit_s:
            os.unlink(path)
    disk.sync_directory(archive)
    return moved


def _replayable(archive: Path) -> list[Path]:
    segments = [segment.path for segment in list_segments(archive)]
    return segments + [path for _, path in list_checkpoints(archive)]
