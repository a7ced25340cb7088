"""RELIABILITY 73: an ordinary user can neither read, trace nor signal daemons and supervisors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    as_user,
    open_directory,
    pid_of,
    submit_as,
    without_faults,
)
from tests.daemons.live import PYTHON, LiveCluster, start

pytestmark = AS_OTHERS
OWNER = "games"

LOOK = """
import ctypes, os, signal, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, action):
    try:
        action()
    except OSError:
        return
    print(name)
def trace():
    if libc.ptrace(16, pid, None, None):  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")
for name in ("environ", "mem", "maps", "auxv"):
    tried(name, lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
tried("fd", lambda: os.listdir(f"/proc/{pid}/fd"))
tried("cwd", lambda: os.readlink(f"/proc/{pid}/cwd"))
tried("ptrace", trace)
tried("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGSTOP))
for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGABRT, signal.SIGQUIT):
    tried(f"signal {number}", lambda: os.kill(pid, number))
"""
"""Prints what a user was allowed to do with a process."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        made = start(directory / "c", "--nodes", "1", "--cpus", "4", "--slurm-user", "daemon")
        with without_faults(made):
            yield made


def supervisors(cluster: LiveCluster) -> list[int]:
    """Return the root processes that look after steps of this cluster."""
    pids = []
    spool = str(cluster.directory / "spool").encode()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            name, command = path.read_text(), (path.parent / "cmdline").read_bytes()
            owner = path.parent.stat().st_uid
        except OSError:
            continue
        if "stepd" in name and owner == 0 and (spool in command or "slurmstepd" in name):
            pids.append(int(path.parent.name))
    return pids


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmdbd", "slurmd-n1", "stepd"])
def test_a_user_gets_nothing_out_of_a_daemon(cluster: LiveCluster, daemon: str) -> None:
    """Keys and credentials of all users are in their memory."""
    begun = cluster.directory.parent / f"begun-{daemon}"
    begun.touch()
    begun.chmod(0o666)
    script = "echo begun; exec sleep 600"
    job = submit_as(cluster, OWNER, "-D", "/tmp", "-o", str(begun), "--wrap", script)
    # Until then the script's process is a child of the supervisor that still has its name.
    cluster.wait_until("start of the script", lambda: begun.read_text() == "begun\n")
    if daemon == "stepd":
        cluster.wait_until("a supervisor", lambda: bool(supervisors(cluster)))
        pids = supervisors(cluster)
    else:
        pids = [pid_of(cluster, daemon)]
    for pid in pids:
        done = as_user(cluster, OWNER, PYTHON, "-c", LOOK, str(pid), cwd=Path("/tmp"))
        assert (done.stdout, done.returncode) == ("", 0), done
    cluster.out("scancel", str(job))
