"""LaunchParameters=use_interactive_step: the shell of salloc is a step on the job's first node."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path

import pytest

from tests.daemons.live import BIN, LiveCluster

pytestmark = pytest.mark.daemons


def with_words(live_cluster: LiveCluster, path: Path, *lines: str) -> str:
    """Write a slurm.conf for commands, with some lines more; return its path."""
    text = Path(live_cluster.environment["SLURM_CONF"]).read_text()
    path.write_text("\n".join([text, "LaunchParameters=use_interactive_step", *lines, ""]))
    return str(path)


def test_the_shell_is_a_step_on_the_first_node(live_cluster: LiveCluster, tmp_path: Path) -> None:
    """It sees the job's counts, its steps run beside it, its exit code is salloc's."""
    conf = with_words(
        live_cluster, tmp_path / "slurm.conf", 'InteractiveStepOptions="--interactive $SHELL"'
    )
    script = """echo on $SLURMD_NODENAME of $SLURM_JOB_NODELIST $SLURM_NTASKS $SLURM_CPU_BIND
srun sh -c 'echo task $SLURM_PROCID'
squeue -h -s -j $SLURM_JOB_ID -o '%i %j %N'
srun --interactive true
exit 3
"""
    words = ("salloc", "-Q", "-N2", "-n3", "-w", "n[2-3]")
    ran = live_cluster.run(*words, stdin=script, SHELL="/bin/sh", SLURM_CONF=conf)
    assert ran.returncode == 3, ran
    lines = ran.stdout.splitlines()
    assert lines[0] == "on n2 of n[2-3] 3"
    assert sorted(lines[1:4]) == ["task 0", "task 1", "task 2"]
    match = re.fullmatch(r"(\d+)\.interactive interactive n2", lines[4])
    assert match is not None, ran
    assert "Duplicate job step id" in ran.stderr, ran
    job_id = int(match[1])
    live_cluster.accounted(job_id)
    shown = live_cluster.out("sacct", "-n", "-P", "-j", str(job_id), "-o", "JobID,JobName,ExitCode")
    assert f"{job_id}.interactive|interactive|3:0" in shown.splitlines()


def test_the_shell_has_the_terminal(live_cluster: LiveCluster, tmp_path: Path) -> None:
    """By default it has a terminal of its own, as large as the outer one; Ctrl-C there ends a
    command, not the shell.
    """
    conf = with_words(live_cluster, tmp_path / "slurm.conf")
    environment = {**live_cluster.environment, "SLURM_CONF": conf, "SHELL": "/bin/sh", "PS1": ""}
    salloc, outer = pty.fork()
    if not salloc:
        os.execvpe(BIN / "salloc", ["salloc", "-Q", "-n1"], environment)
    try:
        # It ends by a trap: Ctrl-C between the starts of two commands would be lost.
        waiting = b"trap 'exit 0' INT; tty; while sleep 0.2; do :; done"
        type_and_see(outer, b"echo rea''dy; sh -c \"" + waiting + b'"\n', b"ready")
        type_and_see(outer, b"", b"/dev/")
        type_and_see(outer, b"\x03echo sti''ll\n", b"still")
        fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 101, 0, 0))
        type_and_see(outer, b"until stty size | grep '^44 1''01'; do sleep 0.1; done\n", b"44 101")
        os.write(outer, b"exit 5\n")
        _, status = os.waitpid(salloc, 0)
        salloc = 0
        assert os.waitstatus_to_exitcode(status) == 5
    finally:
        if salloc:
            os.kill(salloc, signal.SIGKILL)
            os.waitpid(salloc, 0)
        os.close(outer)


def type_and_see(terminal: int, keys: bytes, awaited: bytes) -> None:
    """Write to a terminal, and read until it shows something."""
    os.write(terminal, keys)
    seen, deadline = b"", time.monotonic() + 60
    while awaited not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(terminal, 1)
