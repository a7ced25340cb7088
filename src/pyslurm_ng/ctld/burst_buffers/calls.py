"""Calls of functions of burst_buffer.lua, each in a process of its own with a time limit.

What a call costs is the start of a Python: a tenth of a second of one core, and 20 MiB as long as
the function runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from pyslurm_ng.ctld.burst_buffers.turns import Turns
from pyslurm_ng.daemon.process_tree import descendants, signal_below
from pyslurm_ng.policy.burst_buffer import MOST_TEXT, BufferAnswer, BufferCall

STAGES = ("validate", "stage-in", "pre-run", "stage-out", "teardown", "status")
"""Each has places of its own, so that a stage that hangs does not stop the others."""
MOST_AT_ONCE, MOST_OF_A_USER = 32, 8
_PLACES = {
    "validate": (MOST_AT_ONCE, 2),  # it computes, where other stages wait for storage
    "status": (4, 1),  # a question costs as much as a job, and nobody waits for it
}
_NICENESS = 10
"""What functions and their commands compute gives way to the controller's answers."""
_START = (
    f"import os, sys; os.nice({_NICENESS}); sys.path[:] = sys.argv.pop(1).split(':'); "
    "from pyslurm_ng.policy.burst_buffer import main; main()"
)
_MOST_BYTES = 8 * MOST_TEXT
_READ_BYTES = 1 << 16
_EXIT_S = 1.0


class Outcome(NamedTuple):
    """How a call ended: a function's number and text, or why there are none."""

    code: int
    text: str = ""
    is_missing: bool = False
    is_late: bool = False  # it took longer than its time


class Log(Protocol):
    """Where lines of scripts go."""

    def write(self, level: int, text: str) -> None:
        """Write a line."""


class Calls:
    """Calls functions of one script."""

    def __init__(self, path: str, log: Log) -> None:
        self.path = path
        self._log = log
        usual = MOST_AT_ONCE, MOST_OF_A_USER
        self._turns = {stage: Turns(*_PLACES.get(stage, usual)) for stage in STAGES}

    def waiting(self, stage: str, uid: int) -> int:
        """Return how many calls of a user wait for their turn in a stage."""
        return self._turns[stage].waiting(uid)

    async def call(
        self,
        stage: str,
        uid: int,
        function: str,
        arguments: Sequence[object] | Callable[[], Sequence[object]],
        limit_s: float,
        *,
        is_optional: bool = False,
    ) -> Outcome:
        """Call a function once it is the user's turn; cancelling this kills its process.

        Args:
            arguments: of the function, or what makes them when it is its turn.
        """
        turns = self._turns[stage]
        await turns.take(uid)
        try:
            words = arguments() if callable(arguments) else arguments
            return await self._run(
                BufferCall(self.path, function, tuple(map(str, words)), is_optional), limit_s
            )
        finally:
            turns.leave(uid)

    async def _run(self, call: BufferCall, limit_s: float) -> Outcome:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", _START, ":".join(sys.path)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return Outcome(-1, f"cannot start a process: {error.strerror}")
        try:
            body = await asyncio.wait_for(_talk(process, msgspec.msgpack.encode(call)), limit_s)
        except asyncio.TimeoutError:
            return Outcome(-1, f"timeout after {limit_s:.0f} s", is_late=True)
        finally:
            await _end(process)
        try:
            answer = msgspec.msgpack.decode(body, type=BufferAnswer)
        except msgspec.DecodeError:
            return Outcome(-1, "its process ended without an answer")
        for level, text in answer.log_lines:
            self._log.write(level, f"burst_buffer/lua: {text}")
        return Outcome(answer.code, answer.text, answer.is_missing)


async def _talk(process: Any, body: bytes) -> bytes:
    process.stdin.write(body)
    process.stdin.close()
    parts, size = [], 0
    while size <= _MOST_BYTES:
        part = await process.stdout.read(_READ_BYTES)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


async def _end(process: Any) -> None:
    """End a call's process and all that it started; the loop reaps it.

    Nobody waits long for a process that the kernel does not let end: its file server may be gone.
    """
    if process.returncode is None:
        tree = descendants(process.pid)[::-1]
        signal_below(process.pid, tree, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), _EXIT_S)
