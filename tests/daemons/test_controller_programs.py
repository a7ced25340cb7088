"""Programs of a real controller, which is killed in between, and more that few sites set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import kill, open_directory, start_daemon, without_faults
from tests.daemons.live import LiveCluster, missing_programs, start

# A job named after its prolog's fate; the epilog says what it was told.
PROLOG = """#!/bin/bash
echo "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURM_JOB_NODELIST" >> {directory}/runs
case "$SLURM_JOB_NAME" in
    fail) echo "no licence server" >&2; exit 3 ;;
    wait) while [ ! -e {directory}/go ]; do /bin/sleep 0.05; done ;;
esac
exit 0
"""
EPILOG = """#!/bin/bash
echo "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURM_JOB_EXIT_CODE2" >> {directory}/runs
exit 5
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    if missing_programs():
        pytest.skip("not built")
    with open_directory() as directory:
        # Programs of slurmctld write there as SlurmUser.
        notes = directory / "notes"
        notes.mkdir()
        notes.chmod(0o777)
        for name, text in (("prolog", PROLOG), ("epilog", EPILOG)):
            program = directory / name
            program.write_text(text.format(directory=notes))
            program.chmod(0o755)
        extra = directory / "extra.conf"
        extra.write_text(
            f"PrologSlurmctld={directory}/prolog\nEpilogSlurmctld={directory}/epilog\n"
            f"PropagatePrioProcess=1\nJobCompType=jobcomp/filetxt\nJobCompLoc={notes}/jobs\n"
        )
        made = start(directory / "c", "--nodes", "1", "--cpus", "4", "--conf", str(extra))
        with without_faults(made):
            yield made


@pytest.fixture
def runs(cluster: LiveCluster) -> Path:
    """Return the file in which programs note that they ran; it begins empty."""
    path = cluster.directory.parent / "notes" / "runs"
    path.write_text("")
    path.chmod(0o666)
    return path


def noted(runs: Path, job_id: int) -> list[str]:
    """Return what the programs of one job wrote."""
    lines = [line.split() for line in runs.read_text().splitlines()]
    return [f"{line[0]} {line[2]}" for line in lines if line[1] == str(job_id)]


def test_before_the_script_and_after_it(cluster: LiveCluster, runs: Path) -> None:
    """A failing epilog is only logged."""
    job_id = cluster.submit("-o", "/dev/null", "--wrap", "exit 4")
    cluster.wait_for_jobs(job_id)
    assert noted(runs, job_id) == ["prolog_slurmctld n1", "epilog_slurmctld 4:0"]
    assert cluster.accounted(job_id) == "FAILED|4:0"
    log = (cluster.directory / "log" / "slurmctld.log").read_text()
    assert f"epilog_slurmctld JobId={job_id}: " in log
    done = cluster.run("srun", "true")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_prolog_that_fails(cluster: LiveCluster, runs: Path) -> None:
    """A batch job goes back into the queue, an allocation is taken away."""
    job_id = cluster.submit("-J", "fail", "-o", "/dev/null", "--wrap", "true")

    def waits() -> bool:
        return cluster.out("squeue", "-h", "-j", str(job_id), "-o", "%t %r") == "PD BeginTime\n"

    cluster.wait_until("requeue", waits)
    assert noted(runs, job_id) == ["prolog_slurmctld n1", "epilog_slurmctld 0:0"]
    log = (cluster.directory / "log" / "slurmctld.log").read_text()
    assert f"prolog_slurmctld JobId={job_id}: " in log
    assert "exit code 3: no licence server" in log
    cluster.out("scancel", str(job_id))
    done = cluster.run("salloc", "-J", "fail", "true")
    assert done.returncode == 1
    assert "salloc: PrologSlurmctld failed, job killed" in done.stderr.splitlines()


def test_a_controller_that_dies_in_between(cluster: LiveCluster, runs: Path) -> None:
    """The next one runs the prolog again; the script runs once."""
    go = cluster.directory.parent / "notes" / "go"
    out = cluster.directory.parent / "notes" / "out"
    job_id = cluster.submit("-J", "wait", "-o", str(out), "--wrap", "echo ran")
    cluster.wait_until("prolog", lambda: bool(noted(runs, job_id)))
    shown = cluster.out("squeue", "-h", "-j", str(job_id), "-o", "%t %r")
    assert shown == "CF Prolog\n"
    kill(cluster, "slurmctld")
    start_daemon(cluster, "slurmctld")
    cluster.wait_until("prolog again", lambda: len(noted(runs, job_id)) == 2)
    go.touch()
    cluster.wait_for_jobs(job_id)
    assert noted(runs, job_id) == ["prolog_slurmctld n1"] * 2 + ["epilog_slurmctld 0:0"]
    assert cluster.accounted(job_id) == "COMPLETED|0:0"
    assert out.read_text() == "ran\n"


def test_tasks_are_as_nice_as_their_command(cluster: LiveCluster) -> None:
    """PropagatePrioProcess=1: no job gets a better priority than that of its sbatch or srun."""
    out = cluster.directory.parent / "notes" / "nice"
    niceness = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)  # the kernel's highest
    script = "nice; srun --overlap -n 1 nice"
    words = ("nice", "-n", "5", "sbatch", "--parsable", "-o", str(out), "--wrap", script)
    cluster.wait_for_jobs(int(cluster.out(*words)))
    assert out.read_text().split() == [str(niceness)] * 2


def test_a_line_for_each_job_that_is_over(cluster: LiveCluster) -> None:
    """JobCompType=jobcomp/filetxt, and how sacct shows it."""
    job_id = cluster.submit("-o", "/dev/null", "-J", "a b", "--wrap", "exit 4")
    cluster.wait_for_jobs(job_id)
    shown = cluster.out(
        "sacct", "-c", "-n", "-P", "-j", str(job_id), "-o", "jobname,state,exitcode"
    )
    assert shown == "a b|FAILED|4:0\n"
