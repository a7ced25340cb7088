"""Nodes and controllers that fall silent: RELIABILITY 24 and 25, with SlurmdTimeout=6."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    kill,
    pid_of,
    wait_for_text,
)
from tests.daemons.live import LiveCluster
from tests.daemons.silent_nodes import (
    TIMEOUT_S,
    Victim,
    is_well,
    set_policy,
    shown,
    states,
    three_nodes,
)
from tests.world.processes import is_alive

pytestmark = AS_OTHERS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three nodes that are lost after six seconds of silence."""
    yield from three_nodes(tmp_path_factory.mktemp("silence"))


@contextmanager
def stopped(cluster: LiveCluster, daemon: str) -> Iterator[int]:
    """Let a daemon stand still, as in a debugger or on a host that hangs."""
    pid = pid_of(cluster, daemon)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


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
    job = cluster.submit("-N3", "-o", str(out), "--wrap", "echo $$; srun hostname; sleep 600")
    wait_for_text(cluster, out)
    script = int(out.read_text().split()[0])
    with stopped(cluster, "slurmctld"):
        cluster.keeps("the job runs", lambda: is_alive(script), 2 * TIMEOUT_S)
    cluster.keeps("no node is blamed", lambda: is_well(states(cluster)), 1.5 * TIMEOUT_S)
    assert cluster.out("squeue", "-h", "-j", str(job), "-o", "%T").strip() == "RUNNING"
    assert "Restarts=0" in cluster.out("scontrol", "show", "job", str(job))
    cluster.out("scancel", str(job))
    cluster.wait_for_jobs(job)


# node_loss ------------------------------------------------------------------------------------


def test_as_in_slurm_the_second_run_records_the_doubt(cluster: LiveCluster) -> None:
    """RELIABILITY 24, the default: both run at once.

    The record says that the first end was not confirmed.
    """
    set_policy(cluster, "node_loss=slurm")
    victim = Victim(cluster, "slurm")
    with stopped(cluster, f"slurmd-{victim.node}"):
        victim.wait_for_second_run()
        assert is_alive(victim.pid)
        text = f"run 1 began, the end of run 0 on {victim.node} was never confirmed"
        assert victim.comment() == f"{text} (node_loss=slurm)"
        assert "never confirmed" in cluster.out("scontrol", "explain", "job", str(victim.job))
    victim.end()


def test_a_job_begins_again_where_its_lost_run_still_is(cluster: LiveCluster) -> None:
    """RELIABILITY 24: its node comes back and is the only one left; the lost run ends first."""
    set_policy(cluster, "node_loss=slurm")
    victim = Victim(cluster, "same")
    others = ",".join(name for name in states(cluster) if name != victim.node)
    cluster.out("scontrol", "update", f"NodeName={others}", "State=DRAIN", "Reason=others")
    with stopped(cluster, f"slurmd-{victim.node}"):
        cluster.wait_until("requeue", lambda: shown(cluster, victim.job, "Restarts") == "1")
        cluster.wait_until("delay", lambda: shown(cluster, victim.job, "Reason") != "BeginTime")
        assert is_alive(victim.pid)
    victim.wait_for_second_run()
    assert victim.runs()[1] == f"run 1 on {victim.node}"
    assert "overlap" not in victim.lines()
    assert not is_alive(victim.pid)
    assert shown(cluster, victim.job, "JobState") == "RUNNING"
    cluster.run("scontrol", "update", f"NodeName={others}", "State=RESUME")
    victim.end()


def test_a_run_is_confirmed_by_its_node(cluster: LiveCluster) -> None:
    """RELIABILITY 24, confirmed: the second run waits for the node's answer; 0 s of overlap."""
    set_policy(cluster, "node_loss=confirmed")
    victim = Victim(cluster, "confirmed")
    with stopped(cluster, f"slurmd-{victim.node}"):
        victim.wait_for_reason("Cleaning")
        assert is_alive(victim.pid)
        told = cluster.out("scontrol", "explain", "job", str(victim.job))
        assert f"run 0 was lost with {victim.node}" in " ".join(told.split())
        assert "node_loss=confirmed" in told
    victim.wait_for_second_run()
    assert "overlap" not in victim.lines()
    assert f"was confirmed: {victim.node} answered (node_loss=confirmed)" in victim.comment()
    victim.end()


def test_an_administrators_word_is_enough(cluster: LiveCluster) -> None:
    """One command lets the jobs of a dead node go on."""
    set_policy(cluster, "node_loss=confirmed")
    victim = Victim(cluster, "word")
    with stopped(cluster, f"slurmd-{victim.node}"):
        victim.wait_for_reason("Cleaning")
        cluster.out("scontrol", "update", f"NodeName={victim.node}", "State=DOWN", "Reason=fenced")
        victim.wait_for_second_run()
        assert "root said that the node is fenced" in victim.comment()
    cluster.run("scontrol", "update", f"NodeName={victim.node}", "State=RESUME")
    victim.end()


def test_fence_program_is_proof_once_it_returns_0(cluster: LiveCluster) -> None:
    """It runs as SlurmUser with the node's name; while it fails, the job waits."""
    program, go = cluster.directory / "fence", cluster.directory / "fence.go"
    program.write_text(
        f"#!/bin/sh\necho $SLURM_NODE_NAME $SLURM_JOB_IDS >> {go}.asked\n"
        f"[ -e {go} ] || exit 1\nexit 0\n"
    )
    program.chmod(0o755)
    asked = cluster.directory / "fence.go.asked"
    asked.touch()
    asked.chmod(0o666)
    set_policy(cluster, f"node_loss=confirmed,fence_program={program}")
    victim = Victim(cluster, "fence")
    with stopped(cluster, f"slurmd-{victim.node}"):
        wait_for_text(cluster, asked)
        assert asked.read_text() == f"{victim.node} {victim.job}\n"
        assert shown(cluster, victim.job, "JobState") == "PENDING"
        go.touch()
        victim.wait_for_second_run()
        assert f"fence_program has fenced {victim.node}" in victim.comment()
    victim.end()


@pytest.mark.parametrize("policy", ["slurm", "confirmed"])
def test_a_node_that_was_rebooted_gives_its_jobs_back_once(
    cluster: LiveCluster, policy: str
) -> None:
    """RELIABILITY 23: NODE_FAIL for the first run, and one second run; not both, not twice."""
    set_policy(cluster, f"node_loss={policy}")
    victim = Victim(cluster, f"reboot.{policy}")
    kill(cluster, f"slurmd-{victim.node}")
    reset(supervisors(victim.pid))
    cluster.wait_until("end of the run", lambda: not is_alive(victim.pid))
    done = cluster.run("slurmd", "-b", "-N", victim.node)
    assert done.returncode == 0, done.stderr
    victim.wait_for_second_run()
    words = ("sacct", "-X", "-D", "-n", "-P", "-j", str(victim.job), "-o", "State")
    cluster.wait_until(
        "accounting", lambda: cluster.out(*words).split() == ["NODE_FAIL", "RUNNING"]
    )
    assert len(victim.lines()) == 2
    victim.end()


def reset(pids: list[int]) -> None:
    """End processes as a reset does: none of them has time to notice another's end."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):  # it may end with its parent
                os.kill(pid, number)


def supervisors(pid: int) -> list[int]:
    """Return a script and all above it that belong to its job, the script first."""
    pids = [pid]
    while True:
        stat = Path(f"/proc/{pids[-1]}/stat").read_text()
        parent = int(stat[stat.rindex(")") + 2 :].split()[1])
        name = Path(f"/proc/{parent}/cmdline").read_text()
        if parent <= 1 or "slurmstepd" not in name:
            return pids
        pids.append(parent)
