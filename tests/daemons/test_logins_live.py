"""Logins by our module of PAM: in the job's control groups and in its private directories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import AS_OTHERS, submit_as
from tests.daemons.live import LiveCluster
from tests.daemons.private_directories import private_directories
from tests.daemons.ssh_server import DENIED, HAS_SSH, MODULE, WHY_NOT, Ssh
from tests.world.processes import is_alive

OWNER, OTHER = "games", "nobody"
pytestmark = [
    *AS_OTHERS,
    pytest.mark.skipif(not HAS_SSH or not MODULE.exists(), reason=WHY_NOT),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with private_directories("PrologFlags=Contain") as made:
        yield made


@pytest.fixture
def directory(cluster: LiveCluster) -> Path:
    return cluster.directory.parent


@pytest.fixture
def ssh(cluster: LiveCluster, directory: Path) -> Iterator[Ssh]:
    files = directory / "ssh"
    files.mkdir(mode=0o755)
    made = Ssh(cluster, files, module=True)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(files)


def test_a_login_sees_what_its_job_sees(cluster: LiveCluster, ssh: Ssh, directory: Path) -> None:
    """Its /tmp and /dev/shm, in its groups; the end of the job ends what the login has left."""
    refused = ssh.run(OWNER, "echo in")
    assert (refused.returncode, "in\n" in refused.stdout) == (255, False), refused
    assert DENIED in refused.stdout + refused.stderr, (ssh.directory / "log").read_text()
    script = "echo of-job > /tmp/psng-l; echo of-job > /dev/shm/psng-l; sleep 600"
    job_id = submit_as(cluster, OWNER, "-o", "/dev/null", "--wrap", script)
    pattern = f"base/{job_id}/.*/_tmp/psng-l"
    cluster.wait_until("the job's file", lambda: any(directory.glob(pattern)))
    words = (
        "cat /tmp/psng-l /dev/shm/psng-l; ls -d /tmp/psng-*; cat /proc/self/cgroup; "
        "setsid sleep 603 >/dev/null 2>&1 & echo pid $!; echo of-login > /tmp/psng-m"
    )
    let_in = ssh.run(OWNER, words)
    lines = let_in.stdout.splitlines()
    assert (let_in.returncode, lines[:3]) == (0, ["of-job", "of-job", "/tmp/psng-l"]), let_in
    if Path("/sys/fs/cgroup/freezer").exists():
        assert f"/job_{job_id}/step_extern" in let_in.stdout
    assert not os.path.exists("/tmp/psng-m")
    pid = next(int(line.split()[1]) for line in lines if line.startswith("pid "))
    assert is_alive(pid)
    other = ssh.run(OTHER, "cat /tmp/psng-l")
    assert DENIED in other.stdout + other.stderr
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    cluster.wait_until("end of what was left", lambda: not is_alive(pid))
    cluster.wait_until("removal", lambda: os.listdir(directory / "base") == [])
