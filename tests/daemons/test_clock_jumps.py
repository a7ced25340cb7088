"""Clocks that jump under a live cluster, by libfaketime: RELIABILITY row 14."""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.daemons.faults import AS_OTHERS, kill, open_directory, start_daemon, without_faults
from tests.daemons.live import LiveCluster, start

_FOUND = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
pytestmark = [
    *AS_OTHERS,
    pytest.mark.skipif(not _FOUND, reason="libfaketime is not installed"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        extra = directory / "extra.conf"
        extra.write_text("KillWait=1\nOverTimeLimit=0\nSlurmdTimeout=15\n")
        made = start(directory / "c", "--nodes", "2", "--cpus", "8", "--conf", str(extra))
        with without_faults(made):
            yield made


def faked(cluster: LiveCluster, offset: str) -> LiveCluster:
    """Return the cluster as its daemons see it whose wall clock is off by so much."""
    environment = {
        **cluster.environment,
        "LD_PRELOAD": _FOUND[0],
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    return replace(cluster, environment=environment)


def restart(cluster: LiveCluster, daemon: str, offset: str = "") -> None:
    """Start a daemon that was killed, with its wall clock off by so much."""
    start_daemon(faked(cluster, offset) if offset else cluster, daemon)


def is_idle(cluster: LiveCluster, node: str) -> bool:
    return cluster.out("sinfo", "-h", "-n", node, "-o", "%t").strip() == "idle"


def refusals(cluster: LiveCluster) -> int:
    """Return how many messages slurmctld has refused because of clocks."""
    counted = re.search(r"^\tclock\s+count:(\d+)", cluster.out("sdiag"), re.MULTILINE)
    return int(counted[1]) if counted else 0


def log_of(cluster: LiveCluster, daemon: str = "slurmctld") -> str:
    return (cluster.directory / "log" / f"{daemon}.log").read_text()


def seconds(shown: str) -> int:
    """Return seconds of squeue's [D-]HH:MM:SS."""
    days, _, clock = shown.strip().rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    return int(days or 0) * 86_400 + sum(n * 60**at for at, n in enumerate(reversed(parts)))


def elapsed(cluster: LiveCluster, job_id: int) -> int:
    return seconds(cluster.out("squeue", "-h", "-j", str(job_id), "-o", "%M"))


def state(cluster: LiveCluster, job_id: int) -> str:
    return cluster.out("squeue", "-h", "-a", "-t", "all", "-j", str(job_id), "-o", "%T").strip()


def test_a_host_that_starts_with_a_wrong_clock(cluster: LiveCluster) -> None:
    """Findings C5 and M5: jobs were TIMEOUT at once, and later none could be launched for days."""
    begun = time.monotonic()
    job_id = cluster.submit("-t", "10", "-o", "none", "--wrap", "sleep 1000")
    cluster.wait_until("start", lambda: state(cluster, job_id) == "RUNNING")
    daemons = ("slurmdbd", "slurmctld", "slurmd-n1", "slurmd-n2")
    for offset, said in (("+2h", "old: this controller was away"), ("", "is .* ahead of")):
        before = len(log_of(cluster))
        for daemon in daemons:
            kill(cluster, daemon)
        for daemon in daemons:
            restart(cluster, daemon, offset)
        lines = [line for line in log_of(cluster)[before:].splitlines() if "clock: " in line]
        assert len(lines) == 1, lines
        assert re.search(said, lines[0]), lines

        def is_right() -> bool:
            return elapsed(cluster, job_id) <= time.monotonic() - begun + 61

        cluster.wait_until("the node's word", is_right)
        assert state(cluster, job_id) == "RUNNING", cluster.logs()
        # Everything can be launched at either time.
        cluster.wait_until("n2", lambda: is_idle(cluster, "n2"))
        assert cluster.out("srun", "-w", "n2", "-t", "1", "echo", "launched") == "launched\n"
    done = cluster.submit("-o", "none", "--wrap", "exit 3")
    assert cluster.accounted(done) == "FAILED|3:0"
    start, end = cluster.accounted(done, "Start,End").split("|")
    assert start <= end <= time.strftime("%Y-%m-%dT%H:%M:%S")
    cluster.out("scancel", str(job_id))
    spent = seconds(cluster.accounted(job_id, "Elapsed"))
    assert 0 <= spent <= time.monotonic() - begun + 61


def test_a_controller_alone_with_a_wrong_clock_loses_no_job(cluster: LiveCluster) -> None:
    """It believes no node then, and logs why with both times. No node counts as lost."""
    job_id = cluster.submit("-t", "10", "-o", "none", "--wrap", "sleep 1000")
    cluster.wait_until("start", lambda: state(cluster, job_id) == "RUNNING")
    before = len(log_of(cluster)), len(log_of(cluster, "slurmd-n1"))
    kill(cluster, "slurmctld")
    start_daemon(faked(cluster, "-3d"), "slurmctld")
    cluster.wait_until("no new work", lambda: "idle*" in cluster.out("sinfo", "-h", "-o", "%t"))
    refused = cluster.out("sdiag")
    # Longer than SlurmdTimeout, counted in what is refused meanwhile.
    cluster.wait_until("refusals", lambda: refusals(cluster) >= 12, 120)
    assert state(cluster, job_id) == "RUNNING", refused
    assert "down" not in cluster.out("sinfo", "-h", "-o", "%t")
    both = r"from \S+Z does not fit this host's clock \S+Z; clocks may differ by 300 s"
    assert re.search(both, log_of(cluster)[before[0] :])
    kill(cluster, "slurmctld")
    restart(cluster, "slurmctld")
    cluster.wait_until("n2", lambda: is_idle(cluster, "n2"))
    assert state(cluster, job_id) == "RUNNING", cluster.logs()
    assert cluster.out("srun", "-w", "n2", "echo", "on") == "on\n"
    cluster.out("scancel", str(job_id))
    assert cluster.accounted(job_id, "State").startswith("CANCELLED")


@pytest.mark.parametrize("offset", ["+240s", "-240s"])
def test_a_node_within_five_minutes_works(cluster: LiveCluster, offset: str) -> None:
    """Credentials allow a difference of 300 s, and usage does not depend on it."""
    kill(cluster, "slurmd-n1")
    restart(cluster, "slurmd-n1", offset)
    assert cluster.out("srun", "-w", "n1", "hostname").strip()
    job_id = cluster.submit("-w", "n1", "-o", "none", "--wrap", "sleep 2; exit 4")
    assert cluster.accounted(job_id) == "FAILED|4:0"
    assert 1 <= seconds(cluster.accounted(job_id, "Elapsed")) <= 60
    kill(cluster, "slurmd-n1")
    restart(cluster, "slurmd-n1")


def test_a_node_two_hours_off_logs_why(cluster: LiveCluster) -> None:
    """One clear line has both times, and its jobs are not given up."""
    job_id = cluster.submit("-w", "n1", "-t", "10", "-o", "none", "--wrap", "sleep 1000")
    cluster.wait_until("start", lambda: state(cluster, job_id) == "RUNNING")
    before = len(log_of(cluster))
    kill(cluster, "slurmd-n1")
    restart(cluster, "slurmd-n1", "+2h")
    both = r"node n1 refused: .*from \S+Z does not fit this host's clock \S+Z; .*300 s"
    cluster.wait_until("refusal", lambda: bool(re.search(both, log_of(cluster)[before:])))
    enough = refusals(cluster) + 6
    cluster.wait_until("refusals", lambda: refusals(cluster) >= enough, 120)
    assert state(cluster, job_id) == "RUNNING", cluster.logs()
    assert cluster.out("srun", "-w", "n2", "echo", "on") == "on\n"
    kill(cluster, "slurmd-n1")
    restart(cluster, "slurmd-n1")
    assert cluster.out("srun", "-w", "n1", "echo", "on") == "on\n"
    assert state(cluster, job_id) == "RUNNING", cluster.logs()
    cluster.out("scancel", str(job_id))
    assert cluster.accounted(job_id, "State").startswith("CANCELLED")
