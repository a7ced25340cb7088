"""Control groups that can no longer be written to: the node says so and eats no jobs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.d.host import cgroup
from tests.d.mounts import can_mount
from tests.daemons.faults import AS_OTHERS, kill, open_directory, pid_of, without_faults
from tests.daemons.live import LiveCluster, start

HAS_GROUPS = cgroup.detect("/sys/fs/cgroup", "autodetect", "p") is not None
pytestmark = [
    *AS_OTHERS,
    pytest.mark.skipif(
        not (HAS_GROUPS and can_mount()), reason="needs control groups and mount namespaces"
    ),
]
CLOSE = """
for point in $(cut -d' ' -f5 /proc/self/mountinfo | grep ^/sys/fs/cgroup); do
    mount -o remount,bind,ro "$point"
done
"""


@pytest.fixture(params=["yes", "no"], ids=["memory", "tracking"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """One whose slurmd has mounts of its own; it limits memory, or only tracks processes."""
    with open_directory() as directory:
        etc = directory / "c" / "etc"
        etc.mkdir(parents=True)
        (directory / "c").chmod(0o755)
        (etc / "cgroup.conf").write_text(f"ConstrainRAMSpace={request.param}\n")
        extra = directory / "extra"
        extra.write_text("TaskPlugin=task/cgroup\nProctrackType=proctrack/cgroup\n")
        options = ("--nodes", "1", "--cpus", "4", "--no-namespaces", "--conf", str(extra))
        made = start(directory / "c", *options)
        with without_faults(made):
            yield made


def test_the_node_is_drained(cluster: LiveCluster) -> None:
    """Its step names the group, its script waits for another node, and its spool is not blamed."""
    kill(cluster, "slurmd-n1")
    words = ["unshare", "-m", "slurmd", "-N", "n1"]
    subprocess.run(words, env=cluster.environment, check=True)
    cluster.wait_until("the node", lambda: "idle" in cluster.out("sinfo", "-h", "-o", "%t"))
    inside = ["nsenter", "-t", str(pid_of(cluster, "slurmd-n1")), "-m", "sh", "-e", "-c", CLOSE]
    subprocess.run(inside, check=True)
    said = cluster.run("srun", "--mem=10", "true")
    assert said.returncode != 0
    assert "control group /sys/fs/cgroup/" in said.stderr, said.stderr
    assert "Read-only file system" in said.stderr, said.stderr

    def reason() -> str:
        return cluster.out("sinfo", "-h", "-R", "-o", "%E")

    cluster.wait_until("the reason", lambda: reason() == "control groups cannot be made\n")
    assert Path(cluster.directory / "spool").exists()
    cluster.out("scontrol", "update", "nodename=n1", "state=resume")
    job_id = cluster.submit("--mem=10", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_until("the reason", lambda: reason() == "control groups cannot be made\n")
    shown = cluster.out("scontrol", "show", "job", str(job_id))
    assert "JobState=PENDING" in shown
    cluster.out("scancel", str(job_id))
