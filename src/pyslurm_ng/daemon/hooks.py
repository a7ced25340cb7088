"""Running Prolog and Epilog: as root, with a small fixed environment, within their time."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyslurm_ng.base.numbers import NO_VAL16
from pyslurm_ng.daemon.process_tree import descendants, signal_below

_KEPT_BYTES = 4_096
_READS_AT_END = 32  # more than a pipe holds; a process may still be writing


@dataclass(frozen=True, slots=True)
class HookResult:
    """How the programs of one hook ended: the first bad wait status, and a line about it."""

    status: int
    text: str


def programs(patterns: Sequence[str]) -> list[str]:
    """Return the programs that a key names; a pattern's matches in reverse alphabetical order."""
    paths: list[str] = []
    for pattern in patterns:
        if not pattern:
            continue
        if any(char in pattern for char in "*?["):
            paths += sorted(glob.glob(pattern), reverse=True)
        else:
            paths.append(pattern)
    return paths


async def run_hook(
    patterns: Sequence[str], environment: Mapping[str, str], limit_s: int
) -> HookResult:
    """Run one after the other and stop at the first that fails or takes too long."""
    for program in programs(patterns):
        result = await _run(program, environment, limit_s)
        if result.status:
            return result
    return HookResult(0, "")


async def _run(program: str, environment: Mapping[str, str], limit_s: int) -> HookResult:
    messages = _Messages()
    try:
        process = subprocess.Popen(
            [program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=messages.theirs,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        messages.end()
        return HookResult(1 << 8, f"{program}: {error.strerror}")
    messages.begin()
    timeout = None if limit_s >= NO_VAL16 or limit_s <= 0 else float(limit_s)
    try:
        await asyncio.wait_for(_dead(process.pid), timeout)
    except asyncio.TimeoutError:
        await _kill(process)
        messages.end()
        return HookResult(signal.SIGKILL, f"{program}: timeout after {limit_s} s")
    except asyncio.CancelledError:
        await _kill(process)
        messages.end()
        raise
    # What it left in its session must not outlive it; a daemon that it started may. It is reaped
    # only then: until it is, no other process can have its number.
    _kill_group(process.pid)
    code = process.wait()
    text = messages.end().decode("utf-8", "replace").strip().splitlines()
    if not code:
        return HookResult(0, "")
    status = code << 8 if code > 0 else -code
    last = f": {text[-1]}" if text else ""
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    return HookResult(status, f"{program}: {how}{last}")


async def _dead(pid: int) -> None:
    """Wait until a child has ended, and leave it to be reaped."""
    loop = asyncio.get_running_loop()
    held = os.pidfd_open(pid)
    ended = loop.create_future()
    loop.add_reader(held, ended.cancel)
    try:
        await asyncio.wait({ended})
    finally:
        loop.remove_reader(held)
        os.close(held)


async def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and its whole tree: a child that it waits for may have a new session."""
    # Children before their parents: without its parent a process no longer belongs to the tree.
    tree = descendants(process.pid)[::-1]
    signal_below(process.pid, tree, signal.SIGKILL)
    _kill_group(process.pid)
    await _dead(process.pid)
    process.wait()


class _Messages:
    """The end of what a program writes to stderr.

    The pipe is ours and not the event loop's: the loop would wait for every process that holds it,
    and a daemon that a prolog starts holds it for ever. A program that writes much does not wait
    and does not fill our memory.
    """

    def __init__(self) -> None:
        self._ours, self.theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._ours, False)
        self._kept = b""

    def begin(self) -> None:
        """Read as it comes, once the program has its end."""
        os.close(self.theirs)
        self.theirs = -1
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def _read(self) -> bool:
        try:
            data = os.read(self._ours, 65536)
        except BlockingIOError:
            return False
        self._kept = (self._kept + data)[-_KEPT_BYTES:]
        if not data:
            asyncio.get_running_loop().remove_reader(self._ours)
        return bool(data)

    def end(self) -> bytes:
        """Close, and return the last part of the output so far."""
        if self.theirs >= 0:
            os.close(self.theirs)
        else:
            asyncio.get_running_loop().remove_reader(self._ours)
            for _ in range(_READS_AT_END):
                if not self._read():
                    break
        os.close(self._ours)
        return self._kept


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
