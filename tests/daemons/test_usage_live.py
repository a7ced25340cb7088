"""Usage of an account outlives its jobs and the controller."""

from __future__ import annotations

import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start

CONF = "AccountingStorageEnforce=limits\nMinJobAge=2\nPriorityDecayHalfLife=0\n"


@pytest.fixture
def limited_cluster() -> Iterator[LiveCluster]:
    """One node; limits are enforced and jobs soon forgotten."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        extra = Path(name) / "extra.conf"
        extra.write_text(CONF)
        cluster = start(
            Path(name) / "c", "--nodes", "1", "--cpus", "4", "--memory", "2048",
            "--conf", str(extra),
        )  # fmt: skip
        try:
            yield cluster
        finally:
            cluster.down()


def used(cluster: LiveCluster) -> int:
    """Return the whole CPU-minutes that the account has used."""
    shown = cluster.out("scontrol", "show", "assoc_mgr", "accounts=physics", "flags=assoc")
    return int(shown.split("GrpTRESMins=cpu=1(")[1].split(")")[0])


def test_minutes_stay_used_after_purge_and_restart(limited_cluster: LiveCluster) -> None:
    """A controller that is killed and started again knows what purged jobs have used."""
    cluster = limited_cluster
    user = pwd.getpwuid(os.getuid()).pw_name
    cluster.out("sacctmgr", "-i", "add", "account", "physics")
    cluster.out("sacctmgr", "-i", "add", "user", user, "account=physics")
    cluster.out("sacctmgr", "-i", "modify", "account", "physics", "set", "GrpTRESMins=cpu=1")
    cluster.wait_until("the limit is known", lambda: "cpu=1(" in cluster.out(
        "scontrol", "show", "assoc_mgr", "accounts=physics", "flags=assoc"))  # fmt: skip
    job_id = cluster.submit("-A", "physics", "-n4", "--wrap", "sleep 16")
    cluster.wait_until(
        "the job is purged",
        lambda: cluster.run("scontrol", "show", "job", str(job_id)).returncode != 0,
    )
    assert used(cluster) == 1
    pid_file = cluster.directory / "run" / "service" / "slurmctld.pid"
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    cluster.out("slurmctld", "-f", cluster.environment["SLURM_CONF"])
    cluster.wait_until("it is up", lambda: cluster.run("sinfo").returncode == 0)
    assert used(cluster) == 1
    later = cluster.submit("-A", "physics", "--wrap", "true")
    cluster.wait_until(
        "the next job waits for the limit",
        lambda: "AssocGrpCPUMinutesLimit" in cluster.out("squeue", "-h", "-j", str(later)),
    )
