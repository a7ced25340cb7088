"""Ids of users that credentials name, asked of the user directory without keeping the loop waiting.

A directory (LDAP) may need seconds for a name, and a daemon with one loop would serve nobody for
that time. A name that is not known is looked up in a thread; the frame that brought it waits.
"""

from __future__ import annotations

import asyncio
import pwd
import threading
from collections import deque
from collections.abc import Callable

from pyslurm_ng.base.numbers import NO_UID, SECOND_US
from pyslurm_ng.wire.auth import AuthError

KEPT = 10_000
FRESH_US = 60 * SECOND_US
"""After this a name is looked up again; until the answer is there the former one holds."""
UNKNOWN_US = 10 * SECOND_US
MOST_THREADS = 8
MOST_WAITING = 1_000

Ids = tuple[int, int]


class NotKnownYet(AuthError):
    """A name is being looked up; `later` calls a function on the loop when that has ended."""

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("name_not_known_yet", "the user is being looked up: try again")
        self.later = later


def look_up(name: str) -> Ids | None:
    """Ask the system's user directory; may block. None is a user that it does not know."""
    try:
        person = pwd.getpwnam(name)
    except (KeyError, ValueError, OSError):
        return None
    return (person.pw_uid, person.pw_gid) if 0 <= person.pw_uid < NO_UID else None


class UserIds:
    """Ids by name, for one loop; where none runs the directory is asked at once."""

    def __init__(
        self, clock_us: Callable[[], int], find: Callable[[str], Ids | None] = look_up
    ) -> None:
        self._clock_us = clock_us
        self._find = find
        self._known: dict[str, tuple[Ids | None, int]] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._queue: deque[str] = deque()
        self._threads = 0

    def of(self, name: str) -> Ids:
        """Return the ids of a user.

        Raises:
            NotKnownYet: they are being looked up.
            AuthError: there is no such user, or too many are being looked up.
        """
        ids, until_us = self._known.get(name, (None, 0))
        if until_us <= self._clock_us():
            ids = self._asked(name, ids)
        if ids is None:
            raise AuthError("unknown_user", f"user {name[:64]!r} is not known here")
        return ids

    def _asked(self, name: str, former: Ids | None) -> Ids | None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._learn(name, self._find(name))
        if name not in self._waiting:
            if len(self._waiting) >= MOST_WAITING:
                raise AuthError("directory_busy", "too many users are being looked up: try again")
            self._waiting[name] = []
            self._queue.append(name)
            self._start_thread(loop)
        if former is not None:
            return former
        raise NotKnownYet(self._waiting[name].append)

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._queue and self._threads < MOST_THREADS:
            self._threads += 1
            name = self._queue.popleft()
            # A daemon's end does not wait for a directory that hangs.
            threading.Thread(target=self._work, args=(loop, name), daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        ids = self._find(name)
        try:
            loop.call_soon_threadsafe(self._found, loop, name, ids)
        except RuntimeError:
            return  # the loop has ended

    def _found(self, loop: asyncio.AbstractEventLoop, name: str, ids: Ids | None) -> None:
        self._threads -= 1
        self._start_thread(loop)
        self._learn(name, ids)
        for tell in self._waiting.pop(name):
            tell()

    def _learn(self, name: str, ids: Ids | None) -> Ids | None:
        if len(self._known) >= KEPT:
            self._known.clear()
        life_us = FRESH_US if ids is not None else UNKNOWN_US
        self._known[name] = (ids, self._clock_us() + life_us)
        return ids
