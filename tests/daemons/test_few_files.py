"""RELIABILITY 46: on a node with few open files users leave slurmd those that it needs."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator

import pytest

from tests.daemons.faults import AS_OTHERS, as_user, open_directory, pid_of, without_faults
from tests.daemons.live import PYTHON, LiveCluster, start

pytestmark = AS_OTHERS
FILES = 1_024
"""The soft limit of open files that login shells and services have by default."""
KNOCK = """
import select, socket, sys
held = []
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    while len(held) < int(sys.argv[2]):
        knock = socket.socket(socket.AF_UNIX)
        knock.setblocking(False)
        try:
            knock.connect(sys.argv[1])
        except OSError:
            break
        held.append(knock)
    open_ends = select.poll()
    for knock in held:
        open_ends.register(knock, select.POLLIN)
    ended = {number for number, _ in open_ends.poll(0)}
    held = [knock for knock in held if knock.fileno() not in ended]
"""
"""Holds as many connections as it can and makes new ones for those that are refused."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open_directory() as directory:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
        try:
            made = start(directory / "c", "--nodes", "1", "--cpus", "4")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with without_faults(made):
            yield made


def test_another_users_steps_start_beside_a_crowd_of_connections(cluster: LiveCluster) -> None:
    """They failed: "spool: Too many open files"."""
    (socket_path,) = (cluster.directory / "run").glob("slurmd-*.sock")
    as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "--"]
    words = [*as_nobody, "prlimit", f"--nofile={4 * FILES}", PYTHON, "-c", KNOCK]
    with subprocess.Popen(
        [*words, str(socket_path), str(3 * FILES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as crowd:
        assert crowd.stdout is not None and crowd.stdout.readline() == "begun\n"
        for _ in range(5):
            done = as_user(cluster, "games", "srun", "-Q", "hostname")
            assert (done.returncode, done.stderr) == (0, "")
        pid = pid_of(cluster, "slurmd-n1")
        crowd.communicate()
    assert pid_of(cluster, "slurmd-n1") == pid
