"""PrologFlags=Contain with real daemons: JOB.extern from the job's start to its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemons.faults import AS_OTHERS, kill, open_directory, start_daemon, tracebacks
from tests.daemons.live import LiveCluster, start

pytestmark = AS_OTHERS


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        extra = directory / "extra"
        extra.write_text("PrologFlags=Contain\n")
        made = start(directory / "c", "--nodes", "2", "--cpus", "4", "--conf", str(extra))
        try:
            yield made
            assert tracebacks(made) == []
        finally:
            made.down()


def test_it_lasts_as_long_as_its_job(cluster: LiveCluster) -> None:
    """Also over a restart of slurmd; a signal to the job or its own cancelling leaves it."""
    job_id = cluster.submit(
        "-N2", "-o", "/dev/null", "--wrap", "trap : USR1; while :; do sleep .1; done"
    )
    extern = f"{job_id}.extern"

    def steps() -> list[str]:
        return cluster.out("squeue", "-h", "-s", "-j", str(job_id), "-o", "%i %j %N").splitlines()

    cluster.wait_until("script", lambda: f"{job_id}.batch batch n1" in steps())
    assert f"{extern} extern n[1-2]" in steps()
    assert f"StepId={extern} " in cluster.out("scontrol", "show", "step", extern)
    kill(cluster, "slurmd-n2")
    start_daemon(cluster, "slurmd-n2")
    cluster.out("scancel", "--full", "-s", "USR1", str(job_id))
    cluster.out("scancel", extern)
    assert f"{extern} extern n[1-2]" in steps()
    cluster.out("scancel", str(job_id))
    cluster.accounted(job_id)
    rows = cluster.out("sacct", "-n", "-P", "-j", str(job_id), "-o", "JobID,State,ExitCode,NTasks")
    assert f"{extern}|COMPLETED|0:0|2" in rows.splitlines()
    cluster.wait_until(
        "end of its supervisors",
        lambda: f"[{extern}]" not in cluster.run("ps", "-eo", "args").stdout,
    )
