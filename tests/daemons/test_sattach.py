"""sattach on real daemons."""

from __future__ import annotations

import os
import pty
import subprocess
import termios
from collections.abc import Iterator

import pytest

from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons


@pytest.fixture(name="step")
def _step(live_cluster: LiveCluster) -> Iterator[str]:
    """A step of two tasks on two nodes that waits for a line of input."""
    srun = subprocess.Popen(
        ["srun", "-N2", "-n2", "bash", "-c", "read line; echo $SLURM_PROCID $line; exit 4"],
        env=live_cluster.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip

    def steps() -> list[str]:
        return live_cluster.out("squeue", "-hs", "-o", "%i").split()

    try:
        # It is listed before its tasks run: sattach waits for them.
        live_cluster.wait_until("the step is listed", lambda: bool(steps()))
        yield steps()[-1]
        out, _ = srun.communicate(timeout=30)
        assert srun.returncode == 4
        assert sorted(out.splitlines()) == ["0 hello", "1 hello"]
    finally:
        srun.kill()
        srun.wait()


def test_reads_and_writes_beside_srun(live_cluster: LiveCluster, step: str) -> None:
    """What it sends reaches the tasks; both it and srun get what they write."""
    layout = live_cluster.out("sattach", "--layout", step).splitlines()
    assert layout[0] == "Job step layout:"
    assert layout[1].startswith("\t2 tasks, 2 nodes (n[")
    assert [line.split(":")[1].strip() for line in layout[3:]] == ["0", "1"]
    read = live_cluster.run("sattach", "-l", step, stdin="hello\n")
    assert sorted(read.stdout.splitlines()) == ["0: 0 hello", "1: 1 hello"]
    assert sorted(read.stderr.splitlines()) == [
        "sattach: error: task 0 exited with exit code 4",
        "sattach: error: task 1 exited with exit code 4",
    ]
    assert read.returncode == 4


def test_filters_choose_tasks(live_cluster: LiveCluster, step: str) -> None:
    """--input-filter leaves the other task waiting; -v tells of each end unless -Q is given."""
    words = ("-Q", "-v", "--output-filter=1", "--error-filter=1", "--input-filter=0", step)
    first = subprocess.Popen(
        ["sattach", *words], env=live_cluster.environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdin is not None and first.stderr is not None
    first.stdin.write("hello\n")
    first.stdin.flush()
    assert first.stderr.readline() == "sattach: error: task 0 exited with exit code 4\n"
    second = live_cluster.run("sattach", "-v", "--input-filter=1", step, stdin="hello\n")
    out, err = first.communicate(timeout=30)
    assert second.stderr.splitlines()[-2:] == [
        "sattach: 1 tasks finished (rc=1024)",
        "sattach: error: task 1 exited with exit code 4",
    ]
    assert "error" not in second.stderr.splitlines()[0]  # node 0 has no task left
    assert err == "sattach: error: task 1 exited with exit code 4\n"
    assert (second.stdout, out) == ("1 hello\n", "1 hello\n")
    assert (second.returncode, first.returncode) == (4, 4)


def test_a_terminal_is_raw_meanwhile(live_cluster: LiveCluster, step: str) -> None:
    """--pty: keys go to the tasks as they are typed, and sattach restores the terminal."""

    def echoes() -> bool:
        return bool(termios.tcgetattr(inner)[3] & termios.ECHO)

    outer, inner = pty.openpty()
    try:
        first = subprocess.Popen(
            ["sattach", "--pty", step], env=live_cluster.environment, stdin=inner,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        live_cluster.wait_until("the terminal is raw", lambda: not echoes())
        os.write(outer, b"hello\n")
        assert first.wait(30) == 4
        assert echoes()
    finally:
        os.close(outer)
        os.close(inner)


def test_a_job_without_such_a_step(live_cluster: LiveCluster) -> None:
    """A pending job, one that has ended, one that never was, and a script."""
    lead = "sattach: error: Could not get job step info: "
    job = live_cluster.submit("-H", "-o", "/dev/null", "--wrap", "sleep 30")
    assert live_cluster.run("sattach", f"{job}.0").stderr == f"{lead}Job is pending execution\n"
    live_cluster.out("scancel", str(job))
    said = live_cluster.run("sattach", f"{job}.0").stderr
    assert said == f"{lead}Job/step already completing or completed\n"
    said = live_cluster.run("sattach", "999999.0", SLURM_EXIT_ERROR="9")
    assert (said.stderr, said.returncode) == (f"{lead}Invalid job id specified\n", 9)
    job = live_cluster.submit("-o", "/dev/null", "--wrap", "sleep 30")
    live_cluster.wait_until(
        "the script runs", lambda: "batch" in live_cluster.run("squeue", "-hs").stdout
    )
    said = live_cluster.run("sattach", f"{job}.batch")
    text = f"{job}.batch: its output goes to files; steps of srun are allowed"
    assert (said.stderr, said.returncode) == (f"sattach: error: {text}\n", 1)
    live_cluster.out("scancel", str(job))
