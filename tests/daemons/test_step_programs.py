"""Programs around a step: srun's own and those of its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons


def program(work: Path, name: str, text: str) -> str:
    """Return the path of a program that anybody may run."""
    path = work / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_programs_run_around_the_step(live_cluster: LiveCluster, work: Path) -> None:
    """Each once, in this order, knowing where it is called from."""
    say = "echo $SLURM_SCRIPT_CONTEXT $SLURM_STEP_NUM_TASKS >> log"
    prolog, epilog = program(work, "prolog", say), program(work, "epilog", say)
    task_prolog = program(work, "task_prolog", f"{say}; echo export FOO=bar")
    task_epilog = program(work, "task_epilog", f"cd {work}; {say}")
    ran = live_cluster.run(
        "srun", "-n1", f"--prolog={prolog}", f"--epilog={epilog}",
        f"--task-prolog={task_prolog}", f"--task-epilog={task_epilog}",
        "sh", "-c", "echo $FOO", cwd=work,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr, ran.returncode) == ("bar\n", "", 0)
    assert (work / "log").read_text().splitlines() == [
        "prolog_srun 1", "prolog_task 1", "epilog_task 1", "epilog_srun 1",
    ]  # fmt: skip


def test_a_failing_prolog_of_srun_aborts_the_step(live_cluster: LiveCluster, work: Path) -> None:
    """Nothing is launched. An epilog that fails is only reported."""
    fails = program(work, "fails", "exit 3")
    ran = live_cluster.run("srun", f"--prolog={fails}", "touch", "ran", cwd=work)
    assert ran.stderr == "srun: error: srun prolog failed rc = 3. Aborting step.\n"
    assert ran.returncode == 1
    assert not (work / "ran").exists()
    ran = live_cluster.run("srun", f"--epilog={fails}", "true", cwd=work)
    assert (ran.stderr, ran.returncode) == ("srun: error: srun epilog failed status=3\n", 0)
    ran = live_cluster.run("srun", "--prolog=/no/such/file", "true", cwd=work)
    assert ran.stderr == "srun: Access denied for /no/such/file: No such file or directory\n"
    assert ran.returncode == 0
