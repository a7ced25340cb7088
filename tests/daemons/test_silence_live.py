"""Nodes and controllers that fall silent: RELIABILITY 24 and 25, with SlurmdTimeout=6."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.daemons.faults import AS_OTHERS, pid_of, tracebacks, wait_for_text
from tests.daemons.live import LiveCluster, start

pytestmark = AS_OTHERS
TIMEOUT_S = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three nodes that are lost after six seconds of silence."""
    directory = tmp_path_factory.mktemp("silence")
    extra = directory / "extra.conf"
    extra.write_text(
        f"SlurmdTimeout={TIMEOUT_S}\nKillWait=1\nDefMemPerCPU=1\nReturnToService=2\n"
        "SchedulerParameters=requeue_delay=1\n"
    )
    made = start(directory / "c", "--nodes", "3", "--cpus", "8", "--conf", str(extra))
    yield made
    left = tracebacks(made)
    made.down()
    assert left == []


@contextmanager
def stopped(cluster: LiveCluster, daemon: str) -> Iterator[int]:
    """Let a daemon stand still, as in a debugger or on a host that hangs."""
    pid = pid_of(cluster, daemon)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def states(cluster: LiveCluster) -> dict[str, str]:
    """Return what sinfo shows of each node: `idle`, `mix*`, `down*`."""
    lines = cluster.out("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
    return dict(line.split() for line in lines)


def is_well(shown: dict[str, str]) -> bool:
    return all(state in ("idle", "mix", "alloc", "comp") for state in shown.values())


def test_healthy_nodes_stay_in_service_under_load(cluster: LiveCluster) -> None:
    """SlurmdTimeout=6 with jobs coming and going for two of its times: no node is ever marked."""
    begun = time.monotonic()
    while time.monotonic() < begun + 2.5 * TIMEOUT_S:
        cluster.submit("-o", "/dev/null", "--array=0-19", "--wrap", "true")
        shown = states(cluster)
        assert is_well(shown), shown
    cluster.wait_for_jobs()


def test_a_stopped_controller_blames_no_node(cluster: LiveCluster) -> None:
    """SIGSTOP of slurmctld for two of SlurmdTimeout: no node is lost for it, and no job."""
    out = cluster.directory / "stopped.out"
    job = cluster.submit("-N3", "-o", str(out), "--wrap", "srun hostname; sleep 600")
    wait_for_text(cluster, out)
    with stopped(cluster, "slurmctld"):
        time.sleep(2 * TIMEOUT_S)  # the fault has to last
    ends = time.monotonic() + 1.5 * TIMEOUT_S
    while time.monotonic() < ends:
        shown = states(cluster)
        assert is_well(shown), shown
    assert cluster.out("squeue", "-h", "-j", str(job), "-o", "%T").strip() == "RUNNING"
    assert "Restarts=0" in cluster.out("scontrol", "show", "job", str(job))
    cluster.out("scancel", str(job))
    cluster.wait_for_jobs(job)
