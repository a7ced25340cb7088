"""Running Prolog and Epilog: as root, with a small fixed environment, within their time."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NO_LIMIT = 65_534  # Slurm's way to say that a timeout is not set
_KEPT_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class HookResult:
    """How the programs of one hook ended: the first bad wait status, and a line about it."""

    status: int
    text: str


def programs(patterns: Sequence[str]) -> list[str]:
    """Return the programs that a key names; a pattern's matches in reverse alphabetical order."""
    found: list[str] = []
    for pattern in patterns:
        if not pattern:
            continue
        if any(char in pattern for char in "*?["):
            found += sorted(glob.glob(pattern), reverse=True)
        else:
            found.append(pattern)
    return found


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
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return HookResult(1 << 8, f"{program}: {error.strerror}")
    assert process.stderr is not None
    said = asyncio.ensure_future(_first_bytes(process.stderr))
    timeout = None if limit_s >= _NO_LIMIT or limit_s <= 0 else float(limit_s)
    try:
        code = await asyncio.wait_for(process.wait(), timeout)
    except asyncio.TimeoutError:
        _kill_group(process.pid)
        await process.wait()
        said.cancel()
        return HookResult(signal.SIGKILL, f"{program}: timeout after {limit_s} s")
    # What it left in its session must not outlive it.
    _kill_group(process.pid)
    text = (await said).decode("utf-8", "replace").strip().splitlines()
    if not code:
        return HookResult(0, "")
    status = code << 8 if code > 0 else -code
    last = f": {text[-1]}" if text else ""
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    return HookResult(status, f"{program}: {how}{last}")


async def _first_bytes(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, keep the last part: a program that writes much must not wait or fill us."""
    kept = b""
    while True:
        data = await stream.read(65536)
        if not data:
            return kept
        kept = (kept + data)[-_KEPT_BYTES:]


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
