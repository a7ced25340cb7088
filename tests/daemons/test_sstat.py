"""sstat on real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons
SCRIPT = """#!/bin/bash
srun -n2 --exact bash -c 'sleep 300 & wait'
"""


@pytest.fixture(name="job")
def _job(live_cluster: LiveCluster, tmp_path: Path) -> Iterator[str]:
    """A job with a step of two tasks that runs."""
    script = tmp_path / "steps.sh"
    script.write_text(SCRIPT)
    told = live_cluster.run("sbatch", "--parsable", "-n2", "-o", "/dev/null", str(script))
    job = told.stdout.strip()
    live_cluster.wait_until(
        "the step runs", lambda: f"{job}.0" in live_cluster.run("squeue", "-hs").stdout
    )
    yield job
    live_cluster.run("scancel", job)


def test_shows_what_the_tasks_of_a_step_use(live_cluster: LiveCluster, job: str) -> None:
    """The lowest numbered step, unless all are asked for."""
    fields = ("-n", "-P", "-o", "jobid,ntasks,maxrss,maxrssnode,avecpu")
    live_cluster.wait_until(
        "the step runs", lambda: "K|n" in live_cluster.run("sstat", *fields, "-j", job).stdout
    )
    printed = live_cluster.run("sstat", *fields, "-j", job)
    name, tasks, _, node, _ = printed.stdout.rstrip("\n").split("|")
    assert (name, tasks, printed.returncode) == (f"{job}.0", "2", 0)
    assert node.startswith("n")
    all_steps = live_cluster.run("sstat", "-a", "-n", "-P", "-o", "jobid", "-j", job)
    assert sorted(all_steps.stdout.split()) == [f"{job}.0", f"{job}.batch"]
    named = live_cluster.out("sstat", "-n", "-P", "-o", "jobid", f"{job}.batch,{job}.0").split()
    assert named == [f"{job}.batch", f"{job}.0"]
    pids = live_cluster.run("sstat", "-i", "-n", "-P", "-j", f"{job}.0").stdout.split("|")[2]
    assert len(pids.split(",")) >= 2


def test_bars_and_plain_numbers(live_cluster: LiveCluster, job: str) -> None:
    """--parsable ends a line with a bar; --noconvert leaves bytes and has no K."""
    words = ("-n", "-j", f"{job}.0", "-o", "jobid,maxrss")
    live_cluster.wait_until(
        "it is measured",
        lambda: "K|" in live_cluster.run("sstat", *words, "--parsable").stdout,
    )
    lines = live_cluster.out("sstat", *words, "--parsable").splitlines()
    assert [line[-2:] for line in lines] == ["K|"]
    raw = live_cluster.out("sstat", *words, "--noconvert", "--parsable2").strip().split("|")
    assert raw[0] == f"{job}.0" and int(raw[1]) % 1024 == 0


def test_a_job_that_does_not_run_has_no_steps(live_cluster: LiveCluster) -> None:
    """One line, and the headings."""
    printed = live_cluster.run("sstat", "-n", "-j", "999999")
    assert printed.stdout == ""
    assert printed.stderr == "sstat: error: No steps running for JobId=999999\n"
    printed = live_cluster.run("sstat", "-n", "-j", "999999.3")
    assert printed.stderr == "sstat: error: StepId=999999.3 not found running.\n"
    printed = live_cluster.run("sstat", "-n", "-j", "7.x")
    assert (printed.stderr, printed.returncode) == ("sstat: fatal: Bad step specified: 7\n", 1)
