"""Jobs with a step manager of their own, on real daemons."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons

SCRIPT = """#!/bin/bash
env | grep ^SLURM_STEPMGR=
srun -Q -N2 -n2 -l echo plain
for number in 1 2 3 4 5 6; do
    srun -Q --async --parsable -n1 --exact -o step-%s bash -c "sleep 1; echo $number"
done
srun -Q --async -N1 -n1 --exact -o /dev/null true
srun --async -N2 -n2 --mem=0 -o wide-%t sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS'
swait --timeout=0; echo timeout $?
swait; echo swait $?
srun -Q -n1 sh -c 'swait; echo inner $?'
"""


def test_queued_steps_run_and_swait_waits_for_them(live_cluster: LiveCluster, work: Path) -> None:
    """srun --async leaves at once; the steps share the job as others do, and are accounted for."""
    (work / "job.sh").write_text(SCRIPT)
    job_id = live_cluster.submit(
        "--stepmgr", "-N2", "-n4", "--exclusive", "-o", "out", "job.sh", cwd=work
    )
    live_cluster.wait_for_jobs(job_id)
    lines = (work / "out").read_text().splitlines()
    assert lines[0].startswith("SLURM_STEPMGR=n")
    assert sorted(lines[1:3]) == ["0: plain", "1: plain"]
    assert lines[3:9] == [f"{job_id}.{step}" for step in range(1, 7)]
    assert lines[9] == f"Submitted step {job_id}.8"  # of that with -Q nothing is said
    assert "timeout 1" in lines and lines[-2:] == ["swait 0", "inner 0"]
    assert sorted((work / f"step-{step}").read_text() for step in range(1, 7)) == [
        f"{number}\n" for number in range(1, 7)
    ]
    assert [(work / f"wide-{task}").read_text() for task in (0, 1)] == ["0 of 2\n", "1 of 2\n"]
    shown = live_cluster.out("sacct", "-nPj", str(job_id), "-o", "JobID,State").split()
    assert shown[2:] == [f"{job_id}.{step}|COMPLETED" for step in range(10)]


def test_steps_are_shown_attached_to_and_cancelled(live_cluster: LiveCluster, work: Path) -> None:
    """All commands about steps know those of a step manager, queued ones included."""
    job_id = live_cluster.submit(
        "--stepmgr", "-N2", "-n2", "-c1", "--mem=100", "--wrap", "sleep 60", cwd=work
    )
    live_cluster.wait_until("it runs", lambda: "StepMgrEnabled=Yes" in live_cluster.out(
        "scontrol", "show", "job", str(job_id)) and bool(live_cluster.out(
            "squeue", "-hs", "-j", str(job_id))))  # fmt: skip
    inside = f"--jobid={job_id}"
    srun = subprocess.Popen(
        ["srun", inside, "-N2", "-n2", "sleep", "50"], env=live_cluster.environment, cwd=work,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def steps() -> list[str]:
        return live_cluster.out("squeue", "-hs", "-j", str(job_id), "-o", "%i").split()

    live_cluster.wait_until("the step is listed", lambda: f"{job_id}.0" in steps())
    assert "NodeList=n[" in live_cluster.out("scontrol", "show", "step", f"{job_id}.0")
    assert live_cluster.run("sattach", "--layout", f"{job_id}.0").stdout.count("Node ") == 2
    assert f"{job_id}.0" in live_cluster.out("sstat", "-nPj", f"{job_id}.0", "-o", "JobID")
    queued = live_cluster.out("srun", inside, "--async", "--parsable", "-N2", "-n2", "hostname",
                              cwd=work).split()[-1]  # fmt: skip
    assert queued == f"{job_id}.1"
    assert live_cluster.run("scancel", queued).returncode == 0
    assert live_cluster.run("scancel", queued).returncode != 0
    assert live_cluster.run("scancel", f"{job_id}.0").returncode == 0
    assert srun.wait(60) != 0
    assert live_cluster.run("swait", str(job_id)).returncode == 0


def test_no_step_is_lost_when_slurmd_is_killed(live_cluster: LiveCluster, work: Path) -> None:
    """The steps that run go on, those that wait begin later, swait waits for all."""
    script = """#!/bin/bash
for number in $(seq 8); do srun -Q --async -n1 --exact -o step-%s sh -c "sleep 2; echo $number"
done
echo queued
swait; echo swait $?
"""
    (work / "job.sh").write_text(script)
    job_id = live_cluster.submit("--stepmgr", "-N2", "-n4", "-o", "out", "job.sh", cwd=work)
    out = work / "out"
    live_cluster.wait_until("all are queued", lambda: out.exists() and "queued" in out.read_text())
    shown = live_cluster.out("scontrol", "show", "job", str(job_id))
    (host,) = (word[10:] for word in shown.split() if word.startswith("BatchHost="))
    pid_file = live_cluster.directory / "run" / f"slurmd-{host}.pid"
    command = Path(f"/proc/{pid_file.read_text().strip()}/cmdline").read_text().split("\0")[:-1]
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGKILL)
    live_cluster.wait_until("slurmd has ended", lambda: not Path(f"/proc/{pid}").exists())
    subprocess.run(command, env=live_cluster.environment, check=True, timeout=60)
    live_cluster.wait_for_jobs(job_id)
    assert out.read_text().endswith("swait 0\n")
    wrote = sorted((work / f"step-{step}").read_text() for step in range(8))
    assert wrote == [f"{number}\n" for number in range(1, 9)]
    shown = live_cluster.out("sacct", "-nPj", str(job_id), "-o", "JobID,State").split()
    assert shown[2:] == [f"{job_id}.{step}|COMPLETED" for step in range(8)]


def test_each_task_of_an_array_has_a_manager(live_cluster: LiveCluster, work: Path) -> None:
    """The last one has the number of the array, and its swait waits for its own steps alone."""
    script = "srun -Q --async -n1 -o /dev/null sleep 1; swait; echo swait $?"
    job_id = live_cluster.submit(
        "--stepmgr", "--array=1-2", "-o", "out-%a", "--wrap", script, cwd=work
    )
    live_cluster.wait_for_jobs(job_id)
    for task in (1, 2):
        assert (work / f"out-{task}").read_text().splitlines()[-1] == "swait 0"
    several = live_cluster.run("swait", str(job_id))
    assert several.returncode == 2 and "several jobs have this id" in several.stderr


def test_what_has_no_step_manager_is_named(live_cluster: LiveCluster, work: Path) -> None:
    """swait and srun --async say why they cannot."""
    plain = live_cluster.submit("--wrap", "sleep 60", cwd=work)
    for words, text, code in (
        (["swait", "abc"], "swait: error: abc: cannot parse job id", 2),
        (["swait"], "swait: error: no job id given", 2),
        (["swait", str(plain)], f"swait: error: JobId={plain} does not have stepmgr enabled", 2),
        (["swait", f"{plain}_2"], f"swait: error: JobId={plain}: not an array job", 2),
        (["swait", "9999999"],
         "swait: error: cannot load JobId=9999999: Invalid job id specified", 2),
        (["srun", "--async", "true"],
         "srun: error: --async is only valid for steps submitted within an existing job allocation",
         1),
        (["srun", "--parsable", "true"], "srun: error: --parsable requires --async", 1),
        (["srun", f"--jobid={plain}", "--async", "true"],
         f"srun: error: Unable to create step for job {plain}: Invalid feature specification", 1),
        (["srun", f"--jobid={plain}", "--async", "--pty", "true"],
         "srun: error: --pty and --async are mutually exclusive: no srun stays", 1),
        (["sbatch", "--stepmgr", "--no-kill", "--wrap", "true"], "", 1),
    ):  # fmt: skip
        answer = live_cluster.run(*words, cwd=work)
        assert answer.returncode == code, words
        assert text in answer.stderr.splitlines() or not text, (words, answer.stderr)
