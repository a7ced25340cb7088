"""Used credentials: none is accepted twice."""

from __future__ import annotations

import contextlib
import os
import struct
from collections import Counter

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.wire.auth import AuthError

MOST_OF_USER = 250_000
"""In some six minutes: 700 requests a second over TCP."""
MOST_OF_USERS = 2_000_000
KEPT_FOR_EACH = 10_000
"""So many a user may have whatever others have: 28 requests a second."""
STORE_FULL = "replay_store_full"
MOST_OF_DAEMONS = 4_000_000
DAEMONS = -1
"""The owner of the credentials of daemons and administrators."""
_FORMER = -2
"""The owner of what the file had: it does not say whose it was."""


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
        self._by_minute: dict[int, dict[int, set[bytes]]] = {}
        self._count_of: Counter[int] = Counter()
        self._of_users = 0
        self._minute = now_us // MINUTE_US
        self._path = path
        self._descriptor = -1
        if path is not None:
            self._load(path)

    def remember(
        self, nonce: bytes, refuse_after_us: int, now_us: int, owner: int = DAEMONS
    ) -> bool:
        """Return whether the nonce is new, and keep it until `refuse_after_us`.

        Args:
            owner: the uid whose token it is; `DAEMONS` for daemons and administrators.

        Raises:
            AuthError: the owner's share is full, which only a flood of valid tokens can do.
        """
        minute = now_us // MINUTE_US
        if minute != self._minute:
            self._forget(minute)
        until = refuse_after_us // MINUTE_US + 1
        owners = self._by_minute.setdefault(until, {})
        if nonce in owners.get(owner, ()) or nonce in owners.get(_FORMER, ()):
            return False
        self._check_share(owner)
        owners.setdefault(owner, set()).add(nonce)
        self._count_of[owner] += 1
        self._of_users += owner >= 0
        self._append(self._RECORD.pack(until, nonce))
        return True

    def _check_share(self, owner: int) -> None:
        count = self._count_of[owner]
        if owner == DAEMONS:
            if count >= MOST_OF_DAEMONS:
                raise AuthError(STORE_FULL, "too many credentials in the last minutes")
            return
        allowed = MOST_OF_USER if self._of_users < MOST_OF_USERS else KEPT_FOR_EACH
        if count >= allowed:
            raise AuthError(STORE_FULL, f"too many credentials of uid {owner} in the last minutes")

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __len__(self) -> int:
        return self._count_of.total()

    def _forget(self, minute: int) -> None:
        """Drop expired nonces; rewrite the file if that empties much of it."""
        self._minute = minute
        past_minutes = [until for until in self._by_minute if until < minute]
        for until in past_minutes:
            for owner, nonces in self._by_minute.pop(until).items():
                self._count_of[owner] -= len(nonces)
                self._of_users -= len(nonces) if owner >= 0 else 0
        # Owners without any nonce go.
        self._count_of = +self._count_of
        if past_minutes or self._is_behind:
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
                self._by_minute.setdefault(until, {}).setdefault(_FORMER, set()).add(nonce)
        former = sum(len(owners[_FORMER]) for owners in self._by_minute.values())
        self._count_of[_FORMER] = former
        self._try_rewrite()

    def _rewrite(self, path: str) -> None:
        """Replace the file by one with all nonces in memory; on OSError the old one stays."""
        new_path = f"{path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(new_path, flags, 0o600)
        try:
            with open(os.dup(descriptor), "wb") as file:
                for until, owners in self._by_minute.items():
                    for nonces in owners.values():
                        file.write(b"".join(self._RECORD.pack(until, nonce) for nonce in nonces))
            os.rename(new_path, path)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(new_path)  # half of it would only take room
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
