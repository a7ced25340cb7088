"""RELIABILITY 44: 5,000 clients send a byte a second, 10,000 are idle, and others are served.

The figures are those of the row: squeue's 99th percentile within a second, and at most 200 MB more
memory in slurmctld. A second cluster that nobody attacks is asked in turn with the first, so that
other work on the machine is not taken for the clients' doing.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyslurm_ng.wire import table
from pyslurm_ng.wire.frame import pack_frame, pack_head
from pyslurm_ng.wire.messages import Ping
from tests.daemons.faults import AS_OTHERS, as_user, open_directory, pid_of, without_faults
from tests.daemons.live import PYTHON, LiveCluster, start
from tests.world.processes import resident_mib

pytestmark = [*AS_OTHERS, pytest.mark.soak]
PROGRAM = Path(__file__).with_name("slow_clients.py")
SLOW, IDLE = 5_000, 10_000
UIDS = (61_001, 61_002, 61_003, 61_004)
"""Users without accounts share the clients, since one user may have 4,096 connections."""
LOOKS = 150
MOST_S = 1.0
MOST_MIB = 200e6 / (1 << 20)


@pytest.fixture
def clusters() -> Iterator[list[LiveCluster]]:
    """The attacked cluster, and the one beside it."""
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            directory = stack.enter_context(open_directory())
            cluster = start(directory / "c", "--nodes", "1", "--cpus", "8")
            made.append(stack.enter_context(without_faults(cluster)))
        yield made


@contextmanager
def crowd(cluster: LiveCluster) -> Iterator[list[Path]]:
    """Start the clients; yield the files in which they count their connections."""
    (path,) = (cluster.directory / "run" / "service").glob("slurmctld-*.sock")
    most = table.row("CreateStep").max_bytes
    request = pack_head("CreateStep", 1, 0, 0, most) + bytes(1 << 12)
    question = pack_frame("Ping", 1, table.encode(Ping()))
    program = cluster.directory.parent / PROGRAM.name
    program.write_bytes(PROGRAM.read_bytes())
    program.chmod(0o644)
    counts, children = [], []
    try:
        for uid in UIDS:
            counts.append(cluster.directory.parent / f"count.{uid}")
            words = [
                "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--",
                PYTHON, str(program), str(path), str(SLOW // len(UIDS)), str(IDLE // len(UIDS)),
                request.hex(), question.hex(),
            ]  # fmt: skip
            with counts[-1].open("w") as file:
                children.append(subprocess.Popen(words, stdout=file))
        yield counts
        assert [child.poll() for child in children] == [None] * len(UIDS)
    finally:
        for child in children:
            child.kill()
            child.wait()


def counted(counts: list[Path]) -> list[int]:
    """Return slow, silent and idle connections of all clients, and how many of each were cut."""
    lines = [path.read_text().rpartition("\n")[0].rpartition("\n")[2] for path in counts]
    if not all(lines):
        return [0] * 6
    return [sum(column) for column in zip(*(map(int, line.split()) for line in lines), strict=True)]


def seconds_of_squeue(cluster: LiveCluster) -> float:
    """Return how long another user's squeue takes, from its start to its end."""
    began = time.monotonic()
    done = as_user(cluster, "games", "squeue")
    assert (done.returncode, done.stderr) == (0, ""), cluster.logs()
    return time.monotonic() - began


def percentile_99(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]


def test_fifteen_thousand_connections_delay_nobody(clusters: list[LiveCluster]) -> None:
    """Slow clients are cut; users and administrators are served; jobs start."""
    cluster, beside = clusters
    pid = pid_of(cluster, "slurmctld")
    seconds_of_squeue(cluster)
    before = most = resident_mib(pid)
    attacked_s: list[float] = []
    beside_s: list[float] = []
    with crowd(cluster) as counts:
        cluster.wait_until("connections", lambda: sum(counted(counts)[:3]) > SLOW, 300)
        while len(attacked_s) < LOOKS or counted(counts)[3] < SLOW:
            attacked_s.append(seconds_of_squeue(cluster))
            beside_s.append(seconds_of_squeue(beside))
            most = max(most, resident_mib(pid))
            cluster.out("squeue")
        job_id = cluster.submit("-o", "/dev/null", "--wrap", "true")
        cluster.wait_for_jobs(job_id)
        numbers = counted(counts)
    assert pid_of(cluster, "slurmctld") == pid
    assert numbers[3] >= SLOW, "slow clients are cut"
    assert numbers[4] > 0, "connections that say nothing are cut"
    p99_s, p99_beside_s = percentile_99(attacked_s), percentile_99(beside_s)
    figures = f"{numbers}, {most - before:.0f} MiB, {p99_s:.2f} s, beside it {p99_beside_s:.2f} s"
    print(f"\nslow, silent, idle; cut of each; growth; squeue's 99th percentile: {figures}")
    assert most - before <= MOST_MIB, figures
    assert p99_s <= MOST_S + p99_beside_s, figures
