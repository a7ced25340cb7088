"""Used credentials: none is accepted twice."""

from __future__ import annotations

import contextlib
import os
import struct

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.wire.auth import AuthError

MAX_REPLAY_ENTRIES = 4_000_000


class ReplayStore:
    """Nonces seen, until their tokens are too old to be accepted.

    With a path, nonces are also appended to that file (no fsync: a token outlives a process,
    not a reboot), so that a restarted daemon still refuses what its predecessor took. If the disk
    takes no nonces, requests are still accepted, since memory has the nonces. The fault is counted.
    Nothing is appended after what may be half a record; instead the whole file is written again
    each minute.
    """

    _RECORD = struct.Struct(">I16s")

    def __init__(self, now_us: int, path: str | None = None, faults: Faults | None = None) -> None:
        """Read what a predecessor kept; `faults` hears of a file that cannot be written.

        Raises:
            OSError: the file is there and cannot be read.
        """
        self._faults = faults
        self._is_behind = False  # the file lacks nonces that memory has
        self._by_minute: dict[int, set[bytes]] = {}
        self._count = 0
        self._minute = now_us // MINUTE_US
        self._path = path
        self._descriptor = -1
        if path is not None:
            self._load(path)

    def remember(self, nonce: bytes, refuse_after_us: int, now_us: int) -> bool:
        """Return whether the nonce is new, and keep it until `refuse_after_us`.

        Raises:
            AuthError: the store is full, which only a flood of valid tokens can do.
        """
        minute = now_us // MINUTE_US
        if minute != self._minute:
            self._forget(minute)
        until = refuse_after_us // MINUTE_US + 1
        bucket = self._by_minute.get(until)
        if bucket is None:
            bucket = self._by_minute[until] = set()
        if nonce in bucket:
            return False
        if self._count >= MAX_REPLAY_ENTRIES:
            raise AuthError("replay_store_full", "too many credentials in the last minutes")
        bucket.add(nonce)
        self._count += 1
        self._append(self._RECORD.pack(until, nonce))
        return True

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __len__(self) -> int:
        return self._count

    def _forget(self, minute: int) -> None:
        """Drop expired nonces; rewrite the file if that empties much of it."""
        self._minute = minute
        old = [until for until in self._by_minute if until < minute]
        for until in old:
            self._count -= len(self._by_minute.pop(until))
        if old or self._is_behind:
            self._try_rewrite()

    def _append(self, record: bytes) -> None:
        if self._descriptor < 0 or self._is_behind:
            return
        try:
            written = os.write(self._descriptor, record)
        except OSError as error:
            self._fell_behind(error.strerror or str(error))
        else:
            if written != len(record):
                self._fell_behind("half a record was written")

    def _fell_behind(self, why: str) -> None:
        self._is_behind = True
        if self._faults is not None:
            self._faults.note(
                "replay_store",
                f"{self._path}: {why}: used credentials are kept in memory only, and the file is "
                "tried again each minute",
            )

    def _try_rewrite(self) -> None:
        if self._path is None:
            return
        try:
            self._rewrite(self._path)
        except OSError as error:
            self._fell_behind(error.strerror or str(error))
        else:
            self._is_behind = False

    def _load(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            content = b""
        whole = len(content) - len(content) % self._RECORD.size
        for until, nonce in self._RECORD.iter_unpack(content[:whole]):
            if until >= self._minute:
                self._by_minute.setdefault(until, set()).add(nonce)
        self._count = sum(map(len, self._by_minute.values()))
        self._try_rewrite()

    def _rewrite(self, path: str) -> None:
        """Replace the file by one with all nonces in memory; on OSError the old one stays."""
        new = f"{path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(new, flags, 0o600)
        try:
            with open(os.dup(descriptor), "wb") as file:
                for until, nonces in self._by_minute.items():
                    file.write(b"".join(self._RECORD.pack(until, nonce) for nonce in nonces))
            os.rename(new, path)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(new)  # half of it would only take room
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
