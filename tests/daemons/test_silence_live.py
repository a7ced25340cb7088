"""Nodes and controllers that fall silent: RELIABILITY 24 and 25, with SlurmdTimeout=6."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    is_running,
    kill,
    pid_of,
    tracebacks,
    wait_for_text,
)
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


# node_loss ------------------------------------------------------------------------------------

RUNS_LONG = """
if [ -e {ledger}.pid ] && kill -0 $(cat {ledger}.pid) 2>/dev/null; then echo overlap >> {ledger}; fi
echo $$ > {ledger}.pid
echo run $SLURM_RESTART_COUNT on $SLURMD_NODENAME >> {ledger}
sleep 600
"""


def set_policy(cluster: LiveCluster, words: str) -> None:
    """Let the cluster go by other words of SlurmctldParameters."""
    path = cluster.directory / "etc" / "slurm.conf"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("SlurmctldParameters=")]
    path.write_text("\n".join([*kept, f"SlurmctldParameters={words}", ""]))
    cluster.out("scontrol", "reconfigure")
    cluster.wait_until("all nodes in service", lambda: is_well(states(cluster)))


def shown(cluster: LiveCluster, job: int, field: str) -> str:
    """Return a field of `scontrol show job`."""
    text = cluster.out("scontrol", "-o", "show", "job", str(job))
    found = [word for word in text.split() if word.startswith(f"{field}=")]
    return found[0].partition("=")[2] if found else ""


class Victim:
    """A job that runs on a node of its own until it is told to end."""

    def __init__(self, cluster: LiveCluster, name: str) -> None:
        self.cluster = cluster
        self.ledger = cluster.directory / f"ledger.{name}"
        script = RUNS_LONG.format(ledger=self.ledger)
        self.job = cluster.submit("--requeue", "-o", "/dev/null", "--wrap", script)
        wait_for_text(cluster, self.ledger)
        self.node = self.lines()[0].split()[-1]
        self.pid = int((cluster.directory / f"ledger.{name}.pid").read_text())

    def lines(self) -> list[str]:
        return self.ledger.read_text().splitlines()

    def wait_for_reason(self, reason: str) -> None:
        self.cluster.wait_until(reason, lambda: shown(self.cluster, self.job, "Reason") == reason)

    def wait_for_second_run(self) -> None:
        self.cluster.wait_until("second run", lambda: len(self.runs()) > 1)
        assert self.runs()[1].startswith("run 1 on "), self.lines()

    def runs(self) -> list[str]:
        return [line for line in self.lines() if line.startswith("run ")]

    def comment(self) -> str:
        """Return SystemComment, as sacct has it as well."""
        words = ("sacct", "-X", "-n", "-P", "-j", str(self.job), "-o", "SystemComment")
        self.cluster.wait_until("comment in sacct", lambda: bool(self.cluster.out(*words).strip()))
        (line,) = self.cluster.out(*words).splitlines()
        assert line in self.cluster.out("scontrol", "show", "job", str(self.job))
        return line

    def end(self) -> None:
        self.cluster.out("scancel", str(self.job))
        self.cluster.wait_for_jobs(self.job)
        self.cluster.wait_until("all nodes in service", lambda: is_well(states(self.cluster)))


def test_as_in_slurm_the_second_run_records_the_doubt(cluster: LiveCluster) -> None:
    """RELIABILITY 24, the default: both run at once, and the record says what nobody confirmed."""
    set_policy(cluster, "node_loss=slurm")
    victim = Victim(cluster, "slurm")
    with stopped(cluster, f"slurmd-{victim.node}"):
        victim.wait_for_second_run()
        assert is_running(victim.pid)
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
        assert is_running(victim.pid)
    victim.wait_for_second_run()
    assert victim.runs()[1] == f"run 1 on {victim.node}"
    assert "overlap" not in victim.lines()
    assert not is_running(victim.pid)
    assert shown(cluster, victim.job, "JobState") == "RUNNING"
    cluster.out("scontrol", "update", f"NodeName={others}", "State=RESUME")
    victim.end()


def test_a_run_is_confirmed_by_its_node(cluster: LiveCluster) -> None:
    """RELIABILITY 24, confirmed: the second run waits for the node's answer; 0 s of overlap."""
    set_policy(cluster, "node_loss=confirmed")
    victim = Victim(cluster, "confirmed")
    with stopped(cluster, f"slurmd-{victim.node}"):
        victim.wait_for_reason("Cleaning")
        assert is_running(victim.pid)
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
    cluster.out("scontrol", "update", f"NodeName={victim.node}", "State=RESUME")
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
    for pid in supervisors(victim.pid):
        os.kill(pid, signal.SIGKILL)
    cluster.wait_until("end of the run", lambda: not is_running(victim.pid))
    done = cluster.run("slurmd", "-b", "-N", victim.node)
    assert done.returncode == 0, done.stderr
    victim.wait_for_second_run()
    words = ("sacct", "-X", "-D", "-n", "-P", "-j", str(victim.job), "-o", "State")
    cluster.wait_until(
        "accounting", lambda: cluster.out(*words).split() == ["NODE_FAIL", "RUNNING"]
    )
    assert len(victim.lines()) == 2
    victim.end()


def supervisors(pid: int) -> list[int]:
    """Return a script and all above it that belong to its job: as a reset does, they go at once."""
    found = [pid]
    while True:
        stat = Path(f"/proc/{found[-1]}/stat").read_text()
        parent = int(stat[stat.rindex(")") + 2 :].split()[1])
        name = Path(f"/proc/{parent}/cmdline").read_text()
        if parent <= 1 or "slurmstepd" not in name:
            return found
        found.append(parent)
