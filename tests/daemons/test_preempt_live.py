"""Preemption on real daemons: victims are requeued, cancelled after a grace, or suspended."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start

pytestmark = pytest.mark.daemons

CONF = """
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
PartitionName=again Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE MaxTime=60
PartitionName=over Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=2 MaxTime=60
PartitionName=pause Nodes=ALL PriorityTier=1 MaxTime=60
PartitionName=rows Nodes=ALL PriorityTier=1 OverSubscribe=FORCE:2 MaxTime=60
PartitionName=high Nodes=ALL PriorityTier=10 MaxTime=60
SchedulerTimeSlice=5
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    """Two nodes of two CPUs."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        lines = Path(name) / "extra.conf"
        lines.write_text(CONF)
        made = start(
            Path(name) / "c", "--nodes", "2", "--cpus", "2", "--memory", "2048",
            "--conf", str(lines),
        )  # fmt: skip
        try:
            yield made
        finally:
            made.down()


def submit(cluster: LiveCluster, partition: str, script: str, *words: str) -> int:
    return cluster.submit(
        "-p", partition, "--mem-per-cpu=100", "-o", f"{cluster.directory}/%j.out", *words,
        "--wrap", script,
    )  # fmt: skip


def wait_for_state(cluster: LiveCluster, job_id: int, state: str) -> None:
    def is_so() -> bool:
        return f"JobState={state}" in cluster.run("scontrol", "show", "job", str(job_id)).stdout

    cluster.wait_until(f"job {job_id} is {state}", is_so)


def output(cluster: LiveCluster, job_id: int) -> str:
    path = cluster.directory / f"{job_id}.out"
    return path.read_text() if path.exists() else ""


def test_requeue_and_cancel(cluster: LiveCluster) -> None:
    """One victim waits again, the other gets SIGTERM and some time; the preemptor runs on both."""
    again = submit(cluster, "again", "sleep 600", "-w", "n1", "-n2")
    over = submit(
        cluster, "over", "trap 'echo told' TERM; echo ready; while :; do sleep 1 & wait; done",
        "-w", "n2", "-n2",
    )  # fmt: skip
    cluster.wait_until("the trap is set", lambda: "ready" in output(cluster, over))
    wait_for_state(cluster, again, "RUNNING")
    high = submit(cluster, "high", "true", "-N2", "-n4", "--ntasks-per-node=2")
    wait_for_state(cluster, high, "COMPLETED")
    assert cluster.accounted(over) == "PREEMPTED|0:0"
    assert "told" in output(cluster, over)
    for job_id, node in ((again, "n1"), (over, "n2")):
        lines = output(cluster, job_id)
        assert f"*** JOB {job_id} ON {node} CANCELLED AT" in lines, lines
        assert "DUE TO PREEMPTION ***" in lines
    shown = cluster.out("scontrol", "show", "job", str(again))
    assert "JobState=PENDING Reason=BeginTime" in shown and "Restarts=1" in shown
    former = cluster.out("sacct", "-D", "-X", "-n", "-P", "-j", str(again), "-o", "State")
    assert former.split()[0] == "PREEMPTED"
    cluster.run("scancel", str(again))


def test_suspended_job_goes_on_by_itself(cluster: LiveCluster) -> None:
    """The victim stops while the preemptor runs on its cores, and then ends as usual."""
    stop = cluster.directory / "stop"
    victim = submit(
        cluster, "pause", f"echo ready; until test -e {stop}; do sleep 0.1; done; echo done",
        "-N2", "-n4", "--ntasks-per-node=2",
    )  # fmt: skip
    cluster.wait_until("the victim runs", lambda: "ready" in output(cluster, victim))
    go = cluster.directory / "go"
    high = submit(cluster, "high", f"until test -e {go}; do sleep 0.1; done", "-n2")
    wait_for_state(cluster, high, "RUNNING")
    wait_for_state(cluster, victim, "SUSPENDED")
    go.touch()
    wait_for_state(cluster, high, "COMPLETED")
    wait_for_state(cluster, victim, "RUNNING")
    stop.touch()
    cluster.wait_for_jobs(victim)
    assert cluster.accounted(victim) == "COMPLETED|0:0"


def test_two_jobs_take_turns_on_the_same_cores(cluster: LiveCluster) -> None:
    """With FORCE:2 both have all cores; each stops for the other's time slice."""
    stop = cluster.directory / "enough"
    script = f"until test -e {stop}; do sleep 0.1; done"
    jobs = [submit(cluster, "rows", script, "-N2", "-n4", "--ntasks-per-node=2") for _ in range(2)]
    for job_id in (*jobs, *jobs):
        wait_for_state(cluster, job_id, "SUSPENDED")
        wait_for_state(cluster, job_id, "RUNNING")
    stop.touch()
    cluster.wait_for_jobs(*jobs)
    assert [cluster.accounted(job_id) for job_id in jobs] == ["COMPLETED|0:0"] * 2
