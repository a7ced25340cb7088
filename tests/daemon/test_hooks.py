"""Prolog and epilog programs: how they end, and that none holds up the node daemon."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pyslurm_ng.daemon.hooks import HookResult, run_hook
from pyslurm_ng.daemon.process_tree import is_zombie
from tests.world.waiting import wait_until


def run(tmp_path: Path, body: str, limit_s: int = 20) -> HookResult:
    program = tmp_path / "hook"
    program.write_text(f"#!/bin/bash\n{body}\n")
    program.chmod(0o755)

    async def within() -> HookResult:
        environment = {"PATH": os.environ["PATH"]}
        return await asyncio.wait_for(run_hook((str(program),), environment, limit_s), 30)

    return asyncio.run(within())


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("exit 0", 0, ""),
        ("echo one >&2; echo two >&2; exit 3", 3 << 8, "exit code 3: two"),
        ("kill -TERM $$", signal.SIGTERM, "signal 15"),
        ("head -c 3000000 /dev/zero >&2; echo last >&2; exit 1", 1 << 8, "last"),
        ("head -c 3000000 /dev/zero; exit 0", 0, ""),
    ],
)
def test_how_it_ends(tmp_path: Path, body: str, status: int, said: str) -> None:
    """The wait status counts, the last line of stderr explains it, floods are drained."""
    result = run(tmp_path, body)
    assert result.status == status
    assert result.text.endswith(said)


def test_missing_program() -> None:
    result = asyncio.run(run_hook(("/no/such/hook",), {}, 5))
    assert result == HookResult(1 << 8, "/no/such/hook: No such file or directory")


def test_timeout_ends_the_whole_tree(tmp_path: Path) -> None:
    """RELIABILITY 34: also processes that made a session of their own and hold the pipe."""
    pid_file = tmp_path / "pid"
    result = run(tmp_path, f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600'; true", limit_s=4)
    assert result.status == signal.SIGKILL
    assert result.text.endswith("timeout after 4 s")
    # It has been killed; on a busy machine it dies a little later, and is reaped later still.
    wait_until(lambda: is_zombie(int(pid_file.read_text())), "end of the hook's process")


def test_daemon_of_a_prolog_is_not_waited_for(tmp_path: Path) -> None:
    """A prolog may start a service that keeps its stderr open."""
    pid_file = tmp_path / "pid"
    result = run(
        tmp_path,
        f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' &\n"
        f"until [ -s {pid_file} ]; do sleep 0.01; done",
    )
    assert result == HookResult(0, "")
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
