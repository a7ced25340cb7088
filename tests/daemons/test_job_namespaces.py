"""Private directories of jobs with real daemons: who sees what, and what is leftovers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.kernels.process import umount
from tests.d.mounts import can_mount
from tests.daemons.faults import (
    AS_OTHERS,
    as_user,
    kill,
    pid_of,
    start_daemon,
    submit_as,
)
from tests.daemons.live import LiveCluster
from tests.daemons.private_directories import private_directories

pytestmark = [
    *AS_OTHERS,
    pytest.mark.skipif(not can_mount(), reason="mount namespaces cannot be made here"),
]
OWNER, OTHER = "games", "nobody"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with private_directories() as made:
        yield made


@pytest.fixture(scope="module")
def base(cluster: LiveCluster) -> Path:
    return cluster.directory.parent / "base"


@pytest.fixture(scope="module")
def work(cluster: LiveCluster) -> Path:
    directory = cluster.directory.parent / "work"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def is_clean(cluster: LiveCluster, base: Path) -> None:
    cluster.wait_until("removal of private directories", lambda: os.listdir(base) == [])


def test_all_of_a_job_share_its_directories(cluster: LiveCluster, base: Path, work: Path) -> None:
    """Script, steps, output files and files of sbcast are in the job's own /tmp."""
    script = work / "script"
    script.write_text(
        "#!/bin/sh\n"
        "echo script > /tmp/psng-a\n"
        "srun sh -c 'cat /tmp/psng-a; touch /dev/shm/psng-b'\n"
        "echo sent > file; sbcast file /tmp/psng-c; srun cat /tmp/psng-c\n"
        "ls /dev/shm; cat /tmp/psng-out\n"
        f"ls {base}/*\n"
    )
    job_id = submit_as(cluster, OWNER, "-o", "out", "-e", "/tmp/psng-out", str(script), cwd=work)
    cluster.wait_for_jobs(job_id)
    text = (work / "out").read_text()
    assert text.split() == ["script", "sent", "psng-b"], text
    for name in ("a", "c", "out"):
        assert not os.path.exists(f"/tmp/psng-{name}")
    assert not os.path.exists("/dev/shm/psng-b")
    is_clean(cluster, base)


def test_jobs_do_not_see_each_other(cluster: LiveCluster, base: Path, work: Path) -> None:
    """RELIABILITY 72, and what a job may not do: go to the host's, or to another's."""
    wait = "echo x > /tmp/psng-mine; sleep 300"
    other = submit_as(cluster, OTHER, "-o", "/dev/null", "--wrap", wait, cwd=work)
    cluster.wait_until("a file", lambda: any(base.glob(f"{other}/.*/_tmp/psng-mine")))
    said = as_user(
        cluster, OWNER, "srun", "sh", "-c",
        f"ls /tmp; cat {base}/{other}/.*/_tmp/psng-mine; umount /tmp; nsenter -t 1 -m ls; true",
        cwd=work,
    )  # fmt: skip
    assert said.stdout == ""
    assert "Permission denied" in said.stderr
    as_user(cluster, OTHER, "scancel", str(other))
    cluster.wait_for_jobs()
    is_clean(cluster, base)


def test_a_restarted_slurmd_finds_them_again(cluster: LiveCluster, base: Path, work: Path) -> None:
    """Also that of a job without a process; what is leftovers of one that ended meanwhile goes."""
    program = work / "between"
    program.write_text(
        "#!/bin/sh\nsrun sh -c 'echo kept > /tmp/psng-k; echo kept > /dev/shm/psng-k'\n"
        f"touch {work}/first\nwhile [ ! -e {work}/go ]; do sleep 0.1; done\n"
        "srun cat /tmp/psng-k /dev/shm/psng-k\n"
    )
    program.chmod(0o755)
    job_id = submit_as(cluster, OWNER, "-o", "out2", str(program), cwd=work)
    cluster.wait_until("the first step", (work / "first").exists)
    leftovers = base / "99999"
    (leftovers / ".5" / "_tmp").mkdir(parents=True)
    leftovers.chmod(0o700)
    (leftovers / ".5" / "_tmp" / "old").write_text("x")
    kill(cluster, "slurmd-n1")
    start_daemon(cluster, "slurmd-n1")
    assert pid_of(cluster, "slurmd-n1")
    cluster.wait_until("removal of the leftovers", lambda: not leftovers.exists())
    (work / "go").touch()
    cluster.wait_for_jobs(job_id)
    assert (work / "out2").read_text() == "kept\nkept\n"
    is_clean(cluster, base)


def test_another_base_path_is_made_by_a_reconfiguration(
    cluster: LiveCluster, base: Path, work: Path
) -> None:
    """One that cannot be used leaves the old one in force."""
    settings = cluster.directory / "etc" / "job_container.conf"
    usual, other = settings.read_text(), base.parent / "other"
    log = cluster.directory / "log" / "slurmd-n1.log"
    (base.parent / "file").touch()
    try:
        for path, is_used in ((other, True), (base.parent / "file" / "x", False)):
            settings.write_text(f"AutoBasePath=true BasePath={path}\n")
            begin = log.stat().st_size
            cluster.out("scontrol", "reconfigure")
            word = "registered with" if is_used else "the configuration in force stays"
            cluster.wait_until("the new file", lambda: word in log.read_text()[begin:])  # noqa: B023
            seen = as_user(cluster, OWNER, "srun", "cat", "/proc/self/mountinfo", cwd=work)
            assert str(other) in seen.stdout, seen
        assert (
            f"job_container.conf: BasePath={base.parent}/file/x: Not a directory" in log.read_text()
        )
        cluster.wait_until("removal of private directories", lambda: os.listdir(other) == [])
    finally:
        settings.write_text(usual)
        cluster.out("scontrol", "reconfigure")
        umount(bytes(other), 2)


def test_an_idle_allocation_keeps_its_directories(
    cluster: LiveCluster, base: Path, work: Path
) -> None:
    """While slurmd is away nothing of the job may run on the node."""
    (work / "held").write_text(
        "srun sh -c 'echo kept > /dev/shm/psng-i'; touch idle\n"
        "while [ ! -e on ]; do sleep 0.1; done; srun cat /dev/shm/psng-i > idle-out\n"
    )
    words = ["setpriv", "--reuid=games", "--regid=60", "--clear-groups", "salloc", "-n1"]
    with subprocess.Popen(
        [*words, "sh", "held"], cwd=work, env=cluster.environment, stderr=subprocess.DEVNULL
    ) as client:
        cluster.wait_until("the first step", (work / "idle").exists)
        kill(cluster, "slurmd-n1")
        start_daemon(cluster, "slurmd-n1")
        (work / "on").touch()
        client.wait(60)
    assert (work / "idle-out").read_text() == "kept\n"
    is_clean(cluster, base)
