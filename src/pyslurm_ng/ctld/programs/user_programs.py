"""Runs programs as the users who want them: those of triggers.

Each user has a few at once and a bounded queue, so a user whose programs hang or are many delays
nobody else's. A program that runs too long is killed with its process group.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyslurm_ng.ctld.programs.runner import Note, run_program
from pyslurm_ng.ctld.users.identities import RunInThread

AT_ONCE = 64
AT_ONCE_OF_A_USER = 8
WAITING = 1_000
"""Of one user: as many as a user may have triggers."""
_KIND = "trigger_program"
LIMIT_S = 300.0
"""The manual's page of strigger: five minutes."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a process needs to become a user; `name` is "" for a uid without one."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    shell: str


def look_up_account(uid: int, gid: int) -> Account:
    """Ask the system's user directory; may block."""
    try:
        person = pwd.getpwuid(uid)
        groups = tuple(os.getgrouplist(person.pw_name, gid))
    except (KeyError, OSError, ValueError, OverflowError):
        return Account(uid, gid, (), "", "/", "/bin/sh")
    return Account(uid, gid, groups, person.pw_name, person.pw_dir, person.pw_shell)


class Start(Protocol):
    """`run_program`."""

    async def __call__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        limit_s: float,
        *,
        user: tuple[int, int, tuple[int, ...]] | None = None,
    ) -> str:
        """Run a program to its end; return what went wrong, or ""."""


class UserPrograms:
    """Runs programs of users, a few of each at once."""

    def __init__(
        self,
        note: Note,
        look_up: RunInThread,
        *,
        start: Start = run_program,
        own_uid: int = -1,
        limit_s: float = LIMIT_S,
    ) -> None:
        """`own_uid` is the user that the daemon runs as, -1 to ask."""
        self._note = note
        self._look_up = look_up
        self._start = start
        self._own_uid = os.geteuid() if own_uid < 0 else own_uid
        self._limit_s = limit_s
        self._waiting: dict[int, deque[Callable[[], None]]] = {}
        self._running: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, argv: Sequence[str], uid: int, gid: int, environment: Mapping[str, str]) -> None:
        """Run a program as a user some time soon, with these variables and a login's."""
        queue = self._waiting.setdefault(uid, deque())
        if len(queue) >= WAITING:
            why = f"not run, because {WAITING} programs of uid {uid} wait"
            self._note(_KIND, f"{argv[0]}: {why}")
            return
        queue.append(partial(self._begin, argv, uid, gid, environment))
        self._next()

    def _next(self) -> None:
        """Begin what may begin, one of each user in turn."""
        total = sum(self._running.values())
        for uid in list(self._waiting):
            queue = self._waiting[uid]
            while queue and total < AT_ONCE and self._running.get(uid, 0) < AT_ONCE_OF_A_USER:
                self._running[uid] = self._running.get(uid, 0) + 1
                total += 1
                queue.popleft()()
            # The next turn begins with another user.
            del self._waiting[uid]
            if queue:
                self._waiting[uid] = queue

    def _begin(
        self, argv: Sequence[str], uid: int, gid: int, environment: Mapping[str, str]
    ) -> None:
        self._look_up(
            partial(look_up_account, uid, gid),
            lambda account: self._known(argv, account, environment),
        )

    def _known(self, argv: Sequence[str], account: Account, environment: Mapping[str, str]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(argv, account, environment))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(
        self, argv: Sequence[str], account: Account, environment: Mapping[str, str]
    ) -> None:
        login = {
            "HOME": account.home,
            "LOGNAME": account.name,
            "SHELL": account.shell,
            "USER": account.name,
            **environment,
        }
        user = None
        if account.uid != self._own_uid:
            user = account.uid, account.gid, account.groups
        try:
            failure = await self._start(argv, login, self._limit_s, user=user)
            if failure:
                self._note(_KIND, f"program of uid {account.uid}: {failure}")
        finally:
            self._running[account.uid] -= 1
            if not self._running[account.uid]:
                del self._running[account.uid]
            self._next()

    def stop(self) -> None:
        """Begin nothing more; what runs is left to end by itself."""
        waiting = sum(map(len, self._waiting.values()))
        self._waiting.clear()
        if waiting:
            self._note(_KIND, f"{waiting} programs of users were not run before the end")
