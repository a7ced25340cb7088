"""A step manager's file: what a restarted slurmd must know of the steps of a job.

Records are appended and never synced: if the machine dies, so does the job. A record is a length, a
letter for its kind, and a body. What a crash has cut off at the end is left out.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator

_HEAD = struct.Struct(">Ic")
_LARGEST = 64 << 20
_SPARE_BYTES = 4 << 20
_MOST_BYTES = 256 << 20

NEWS = b"N"  # steps that were made or are over: encode_news
SENT = b"S"  # how many of the news the controller has, all in all
QUEUED = b"Q"  # a step that waits: its number and its request
CANCELLED = b"C"  # the number of a step that no longer waits
NEXT = b"I"  # the number of the next step
ANSWERED = b"A"  # requests that have been answered, with the steps that they made


class Notes:
    """The file of one job's step manager; without room for it, steps go on all the same."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._least = 0  # its size when it was last made anew
        self._size = 0

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield kind and body of each whole record. Raises OSError."""
        with open(self._path, "rb") as file:
            content = file.read()
        at = 0
        while at + _HEAD.size <= len(content):
            length, kind = _HEAD.unpack_from(content, at)
            end = at + _HEAD.size + length
            if length > _LARGEST or end > len(content):
                break
            yield kind, content[at + _HEAD.size : end]
            at = end
        self._size = at

    @property
    def is_long(self) -> bool:
        """Whether most of the file is of no use any more."""
        return self._size > 2 * self._least + _SPARE_BYTES

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be queued: the spool is for all jobs of the node."""
        return self._size > _MOST_BYTES

    def add(self, kind: bytes, body: bytes) -> None:
        """Append a record. Raises OSError."""
        record = _HEAD.pack(len(body), kind) + body
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        try:
            written = os.write(descriptor, record)
            if written < len(record):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise OSError(28, "No space left on device", self._path)
        finally:
            os.close(descriptor)
        self._size += len(record)

    def renew(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Write the file anew with these records alone. Raises OSError."""
        fresh = self._path + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        size = 0
        with open(os.open(fresh, flags, 0o600), "wb") as file:
            for kind, body in records:
                size += file.write(_HEAD.pack(len(body), kind)) + file.write(body)
        os.rename(fresh, self._path)
        self._size = self._least = size

    def remove(self) -> None:
        """The job is over."""
        for path in (self._path, self._path + ".new"):
            with contextlib.suppress(OSError):
                os.unlink(path)
