"""Programs that slurmctld runs as SlurmUser beside its loop: MailProg, PrologSlurmctld, more."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pyslurm_ng.daemon.hooks import PATH, HookResult, run_hook
from pyslurm_ng.wire.lanes import Lanes

AT_ONCE = 8
HOOKS_AT_ONCE = 256
WAITING = 1_000
"""Of one user: mails of an array that asks for one of each task."""
LIMIT_S = 120.0


class Note(Protocol):
    """Where failures are told: `base.faults.Faults.note`."""

    def __call__(self, kind: str, text: str, /) -> None:
        """Count one of this kind, and name it once a minute at most."""


class _Run(NamedTuple):
    argv: Sequence[str]
    environment: Mapping[str, str]
    kind: str
    name: str


class Programs:
    """Runs programs one after the other, a few at once; nothing waits for them.

    Users have their turns, so the mails of one do not keep those of others waiting. Too many of a
    user are dropped and counted rather than kept: a mail program that hangs must not fill the
    controller's memory.
    """

    def __init__(self, note: Note, limit_s: float = LIMIT_S) -> None:
        self._note = note
        self._limit_s = limit_s
        self._queue: Lanes[_Run] = Lanes()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        uid: int = 0,
        *,
        kind: str = "program",
        about: str = "",
    ) -> None:
        """Run a program some time soon, with these variables and PATH only.

        Args:
            uid: for whom.
            kind: what a run that fails, or that is not done, is counted as.
            about: which job such a run was about.
        """
        run = _Run(argv, environment, kind, f"{argv[0]}{about and ' for ' + about}")
        if self._queue.waiting(uid) >= WAITING:
            self._note(kind, f"{run.name}: not run, because {WAITING} runs for uid {uid} wait")
            return
        self._queue.push(uid, run)
        if len(self._tasks) < AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._queue:
            _, run = self._queue.pop()
            failure = await run_program(run.argv, run.environment, self._limit_s)
            if failure:
                self._note(run.kind, f"{run.name}: {failure.removeprefix(run.argv[0] + ': ')}")

    def stop(self) -> None:
        """Begin nothing more; what runs is left to end by itself."""
        while self._queue:
            _, run = self._queue.pop()
            self._note(run.kind, f"{run.name}: not run before the end")


async def run_program(
    argv: Sequence[str],
    environment: Mapping[str, str],
    limit_s: float,
    *,
    user: tuple[int, int, tuple[int, ...]] | None = None,
) -> str:
    """Run a program without input or output to its end; return what went wrong, or "".

    Args:
        environment: its variables besides PATH.
        user: uid, gid and groups that it gets instead of the daemon's.
    """
    identity: dict[str, Any] = {}
    if user is not None:
        identity = {"user": user[0], "group": user[1], "extra_groups": user[2]}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": PATH, **environment},
            cwd="/",
            start_new_session=True,
            **identity,
        )
    except (OSError, ValueError) as error:
        # ValueError: a NUL in a name that a user chose.
        return f"{argv[0]}: {getattr(error, 'strerror', None) or error}"
    try:
        code = await asyncio.wait_for(process.wait(), limit_s)
    except (asyncio.TimeoutError, asyncio.CancelledError):
        _kill_group(process.pid)
        await process.wait()
        return f"{argv[0]}: killed after {limit_s:.0f} s"
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        return f"{argv[0]}: {how}"
    return ""


class HookRunner:
    """Runs programs with an outcome that others wait for; many together, each within its time."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(HOOKS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def run(
        self,
        patterns: Sequence[str],
        environment: Mapping[str, str],
        limit_s: int,
        done: Callable[[HookResult], None],
        /,
    ) -> Callable[[], object]:
        """Run what the patterns name, one after the other; then `done`.

        The function returned kills what runs, and `done` is not called.
        """
        task = asyncio.get_running_loop().create_task(
            self._run(patterns, environment, limit_s, done)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel

    async def _run(
        self,
        patterns: Sequence[str],
        environment: Mapping[str, str],
        limit_s: int,
        done: Callable[[HookResult], None],
    ) -> None:
        async with self._room:
            result = await run_hook(patterns, environment, limit_s)
        done(result)

    async def stop(self) -> None:
        """Kill all that runs; the next controller begins it again."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
