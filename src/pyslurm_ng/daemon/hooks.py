"""Running Prolog and Epilog: as root, with a small fixed environment and a time limit."""

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

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of programs that are not told of a user's."""
_TAIL_BYTES = 4_096
_JOINING = 'program=$1; shift; for group; do echo $$ >/proc/self/fd/$group; done; exec "$program"'
_READS_AT_END = 32  # more than a pipe has room for; a process may still be writing


@dataclass(frozen=True, slots=True)
class HookResult:
    """How the programs of one hook ended: the first wait status except 0, and a line about it."""

    status: int
    text: str


def programs(patterns: Sequence[str]) -> list[str]:
    """Return the programs that a key names; those of a pattern in reverse alphabetical order."""
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
    patterns: Sequence[str],
    environment: Mapping[str, str],
    limit_s: int,
    joins: Sequence[int] = (),
) -> HookResult:
    """Run programs one after the other; stop at the first that fails or takes too long.

    Args:
        joins: descriptors of control groups that the programs are to be in from their beginning.
    """
    for program in programs(patterns):
        result = await _run(program, environment, limit_s, joins)
        if result.status:
            return result
    return HookResult(0, "")


async def _run(
    program: str, environment: Mapping[str, str], limit_s: int, joins: Sequence[int]
) -> HookResult:
    messages = _Messages()
    words = ["/bin/sh", "-c", _JOINING, "sh", program, *map(str, joins)] if joins else [program]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=messages.write_fd,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
            pass_fds=joins,
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
    # What the program started in its session ends with it; a daemon has a session of its own. The
    # program is reaped after that, because until then no other process can get its number.
    _kill_group(process.pid)
    code = process.wait()
    text = messages.end().decode("utf-8", "replace").strip().splitlines()
    if not code:
        return HookResult(0, "")
    status = code << 8 if code > 0 else -code
    last_line = f": {text[-1]}" if text else ""
    reason = f"exit code {code}" if code > 0 else f"signal {-code}"
    return HookResult(status, f"{program}: {reason}{last_line}")


async def _dead(pid: int) -> None:
    """Wait until a child has ended, and do not reap it."""
    loop = asyncio.get_running_loop()
    pidfd = os.pidfd_open(pid)
    end = loop.create_future()
    loop.add_reader(pidfd, end.cancel)
    try:
        await asyncio.wait({end})
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and all its descendants: a child may have a session of its own."""
    # Children before their parents: without its parent a process no longer belongs to the tree.
    tree = descendants(process.pid)[::-1]
    signal_below(process.pid, tree, signal.SIGKILL)
    _kill_group(process.pid)
    await _dead(process.pid)
    process.wait()


class _Messages:
    """The last part of what a program writes to stderr.

    asyncio's own pipes are not used: they stay open as long as any process has them, and a daemon
    that a prolog starts has them for ever. A program that writes much does not wait here and does
    not fill our memory.
    """

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_fd, False)
        self._tail = b""

    def begin(self) -> None:
        """Read from now on; the program has its end of the pipe."""
        os.close(self.write_fd)
        self.write_fd = -1
        asyncio.get_running_loop().add_reader(self._read_fd, self._read)

    def _read(self) -> bool:
        try:
            data = os.read(self._read_fd, 65536)
        except BlockingIOError:
            return False
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if not data:
            asyncio.get_running_loop().remove_reader(self._read_fd)
        return bool(data)

    def end(self) -> bytes:
        """Close the pipe, and return the last part of the output."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
        else:
            asyncio.get_running_loop().remove_reader(self._read_fd)
            for _ in range(_READS_AT_END):
                if not self._read():
                    break
        os.close(self._read_fd)
        return self._tail


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
