"""RELIABILITY 54d: minutes, or days, of jobs under random faults, after which all is well.

PYSLURM_SOAK_MINUTES says how long; what is checked afterwards does not depend on it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    USERS,
    accounted,
    kill,
    open_directory,
    pid_of,
    start_daemon,
    submit_as,
    without_faults,
)
from tests.daemons.live import LiveCluster, start
from tests.daemons.streams import check_ledger, promises_of, submissions, wait_for_promises
from tests.world.processes import resident_mib

pytestmark = [*AS_OTHERS, pytest.mark.soak]
MINUTES = float(os.environ.get("PYSLURM_SOAK_MINUTES", "3"))
DAEMONS = ("slurmctld", "slurmdbd", "slurmd-n1", "slurmd-n2")
GROWTH_MIB = 64
QUESTIONS = {"slurmctld": ["squeue"], "slurmdbd": ["sacct"]}
"""What asks a daemon; an answer of the others is that of a node."""


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        extra = directory / "extra.conf"
        extra.write_text("KillWait=1\nDefMemPerCPU=1\nMaxJobCount=1000000\n")
        made = start(directory / "c", "--nodes", "2", "--cpus", "32", "--conf", str(extra))
        with without_faults(made):
            yield made


def one_fault(cluster: LiveCluster, chance: random.Random) -> None:
    """Kill a daemon and start it again, or stop one while somebody asks it."""
    daemon = chance.choice(DAEMONS)
    if chance.random() < 0.7:
        kill(cluster, daemon)
        start_daemon(cluster, daemon)
        return
    pid = pid_of(cluster, daemon)
    os.kill(pid, signal.SIGSTOP)
    node = {"SLURMD_NODENAME": daemon.removeprefix("slurmd-")}
    with subprocess.Popen(
        QUESTIONS.get(daemon, ["scontrol", "show", "slurmd"]),
        env={**cluster.environment, **node},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as question:
        with suppress(subprocess.TimeoutExpired):
            question.wait(chance.uniform(0.1, 2))
        os.kill(pid, signal.SIGCONT)


def resources(pid: int) -> tuple[int, int]:
    """Return a process's resident memory in MiB and its open descriptors."""
    return resident_mib(pid), len(os.listdir(f"/proc/{pid}/fd"))


def strays(cluster: LiveCluster) -> list[str]:
    """Return processes of the test's users that are jobs of this cluster.

    The users may run something else on the machine; only this cluster's jobs have its slurm.conf.
    """
    mark = f"SLURM_CONF={cluster.environment['SLURM_CONF']}\0".encode()
    import pwd

    uids = {pwd.getpwnam(user).pw_uid for user in USERS}
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid in uids and mark in (path / "environ").read_bytes():
                processes.append(f"{path.name} {(path / 'comm').read_text().strip()}")
        except OSError:
            continue
    return processes


def test_nothing_needs_a_hand(cluster: LiveCluster) -> None:
    """No promise is broken, no process is left, accounting is whole, memory is steady."""
    chance = random.Random(int(MINUTES * 60))
    ledger = cluster.directory / "ledger"
    ledger.touch()
    ledger.chmod(0o666)
    submit_as(cluster, USERS[0], "-o", "/dev/null", "--wrap", "sleep 10")
    cluster.wait_until("a process that is seen", lambda: bool(strays(cluster)))
    begun = {daemon: resources(pid_of(cluster, daemon)) for daemon in DAEMONS}
    end_s = time.monotonic() + MINUTES * 60
    names = [f"soak{number}" for number in range(4)]
    with submissions(cluster, ledger, names, users=USERS) as submitters:
        while time.monotonic() < end_s:
            wait_for_promises(cluster, submitters, chance.randint(1, 40))
            one_fault(cluster, chance)
    promises = promises_of(submitters)
    assert len(promises) > 20 * MINUTES
    cluster.wait_for_jobs(limit_s=240)
    check_ledger(ledger, promises)
    states = accounted(cluster, sorted(promises), "State,Comment")
    assert states == {job_id: f"COMPLETED|{mark}" for job_id, mark in promises.items()}
    cluster.wait_until("ends of processes", lambda: not strays(cluster))
    assert cluster.out("sinfo", "-h", "-o", "%T").split() == ["idle"]
    assert "No runaway jobs" in cluster.out("sacctmgr", "-i", "show", "runawayjobs")
    for daemon in DAEMONS:
        memory_mib, descriptors = resources(pid_of(cluster, daemon))
        assert memory_mib < begun[daemon][0] + GROWTH_MIB, daemon
        assert descriptors < begun[daemon][1] + 32, daemon
