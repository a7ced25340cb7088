"""PrologFlags=RunInJob: Prolog and Epilog are in the control groups of the extern step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.d.host import cgroup
from tests.daemons.faults import AS_OTHERS, open_directory, without_faults
from tests.daemons.live import LiveCluster, start

HAS_GROUPS = cgroup.detect("/sys/fs/cgroup", "autodetect", "p") is not None
pytestmark = [
    *AS_OTHERS,
    pytest.mark.skipif(not HAS_GROUPS, reason="control groups cannot be made here"),
]
TELL = "#!/bin/sh\ncat /proc/self/cgroup >$(dirname $0)/$SLURM_SCRIPT_CONTEXT.$SLURM_JOB_ID\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        for name, more in (("prolog", "[ ! -e $(dirname $0)/fails ]\n"), ("epilog", "")):
            (directory / name).write_text(TELL + more)
            (directory / name).chmod(0o755)
        extra = directory / "extra"
        extra.write_text(
            "PrologFlags=RunInJob\nProctrackType=proctrack/cgroup\n"
            f"Prolog={directory}/prolog\nEpilog={directory}/epilog\n"
        )
        made = start(directory / "c", "--nodes", "1", "--cpus", "4", "--conf", str(extra))
        with without_faults(made):
            yield made


def groups_of(job_id: int) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"*/slurm_n1*/uid_0/job_{job_id}/step_extern"))


def test_programs_are_in_the_jobs_groups(cluster: LiveCluster) -> None:
    """From their beginning; nothing is left of the groups after the job."""
    job_id = cluster.submit("-o", "/dev/null", "--wrap", "true")
    cluster.wait_for_jobs(job_id)
    for context in ("prolog_slurmd", "epilog_slurmd"):
        told = cluster.directory.parent / f"{context}.{job_id}"
        assert f"/job_{job_id}/step_extern\n" in told.read_text(), context
    cluster.wait_until("removal of the groups", lambda: groups_of(job_id) == [])


def test_a_prolog_that_fails_leaves_no_group(cluster: LiveCluster) -> None:
    fails = cluster.directory.parent / "fails"
    fails.touch()
    job_id = cluster.submit("-o", "/dev/null", "--wrap", "true")
    cluster.wait_until("drain", lambda: "Prolog error" in cluster.out("sinfo", "-hR", "-o", "%E"))
    fails.unlink()
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert (cluster.directory.parent / f"prolog_slurmd.{job_id}").exists()
    cluster.wait_until("removal of the groups", lambda: groups_of(job_id) == [])
