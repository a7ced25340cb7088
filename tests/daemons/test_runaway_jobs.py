"""Jobs that slurmdbd has open and slurmctld does not know are found, and over when told so."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start

NONE = "Runaway Jobs: No runaway jobs found on cluster cluster\n"


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        made = start(Path(name) / "c", "--nodes", "1", "--cpus", "4", "--memory", "2048")
        try:
            yield made
        finally:
            made.down()


def test_jobs_that_only_the_records_know_are_found_and_fixed(cluster: LiveCluster) -> None:
    """As after a journal that was lost. Jobs that wait or run are not among them."""
    ended = cluster.submit("--wrap", "true")
    cluster.accounted(ended)
    waiting = cluster.submit("-H", "--wrap", "true")
    cluster.wait_until(
        "the record", lambda: "PENDING" in cluster.out("sacct", "-nX", "-j", str(waiting))
    )
    assert cluster.out("sacctmgr", "show", "runawayjobs") == NONE

    with sqlite3.connect(cluster.directory / "state" / "slurmdbd.sqlite", timeout=30) as records:
        changed = records.execute(
            "UPDATE jobs SET job_id = 4242, end_us = 0, state = 'RUNNING' WHERE job_id = ?",
            (ended,),
        )
        assert changed.rowcount == 1
    records.close()

    shown = cluster.run("sacctmgr", "-nP", "show", "runawayjobs", "format=id,state")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("NOTE: Runaway jobs are jobs that don't exist in the controller")
    assert lines[1] == "4242|RUNNING"
    assert "Would you like to fix these runaway jobs?" in lines
    assert "4242|RUNNING" in cluster.out("sacct", "-nXP", "-j", "4242", "-o", "JobID,State")

    done = cluster.out("sacctmgr", "-inP", "show", "runawayjobs", "format=id,state")
    assert done.splitlines()[1:] == ["4242|RUNNING"]
    fixed = cluster.out("sacct", "-nXP", "-j", "4242", "-o", "State,Start,End").strip().split("|")
    assert fixed[0] == "COMPLETED"
    assert fixed[1] == fixed[2]
    assert cluster.out("sacctmgr", "show", "runawayjobs") == NONE
    assert cluster.out("squeue", "-h", "-o", "%i").split() == [str(waiting)]
