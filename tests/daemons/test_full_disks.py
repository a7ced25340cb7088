"""Disks that fill up under a live cluster: RELIABILITY rows 6 and 32."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyslurm_ng.wire.replay_store import ReplayStore
from tests.daemons.faults import (
    AS_OTHERS,
    kill,
    open_directory,
    start_daemon,
    submit_as,
    tracebacks,
    wait_for_text,
)
from tests.daemons.live import LiveCluster, start
from tests.world.processes import running_in

pytestmark = AS_OTHERS
TIMEOUT_S = 10
NONCES_OF_A_PAGE = 4096 // 20


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[None]:
    """Have a directory be a file system of its own, with what was in it."""
    status = directory.stat()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode={status.st_mode & 0o777:o}"]
    words[-1] += f",uid={status.st_uid},gid={status.st_gid}"
    kept = directory.with_name(directory.name + ".kept")
    directory.rename(kept)
    directory.mkdir()
    if subprocess.run(
        [*words, "tmpfs", str(directory)], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        subprocess.run(["cp", "-a", f"{kept}/.", str(directory)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Take every byte that is left."""
    ballast = directory / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def heartbeats(cluster: LiveCluster) -> int:
    """Return how many heartbeats slurmctld has taken."""
    for line in cluster.out("sdiag").splitlines():
        if "Heartbeat" in line:
            return int(line.split("count:")[1].split()[0])
    return 0


def state_of(cluster: LiveCluster, job_id: int) -> str:
    return cluster.out("squeue", "-h", "-a", "-t", "all", "-j", str(job_id), "-o", "%T").strip()


def shows(cluster: LiveCluster, node: str, text: str) -> bool:
    return text in cluster.out("scontrol", "-o", "show", "node", node)


def waiting_script(directory: Path, name: str, rest: str = "") -> Path:
    """Write a script that says that it runs and waits until the test lets it end."""
    script = directory / f"{name}.sh"
    script.write_text(
        f"#!/bin/bash\n{rest}\necho on >{directory}/{name}.on\n"
        f"until [ -e {directory}/{name}.go ]; do sleep 0.1; done\nexit 7\n"
    )
    return script


@pytest.fixture
def work() -> Iterator[Path]:
    with open_directory() as directory:
        written = directory / "work"
        written.mkdir()
        written.chmod(0o777)
        yield written


def cluster_in(work: Path, conf: str) -> LiveCluster:
    extra = work.parent / "extra.conf"
    extra.write_text(conf)
    return start(work.parent / "c", "--nodes", "2", "--cpus", "4", "--conf", str(extra))


def test_a_full_state_disk_costs_no_node_and_no_job(work: Path) -> None:
    """Row 6: after SlurmdTimeout all nodes were DOWN and all jobs dead."""
    cluster = cluster_in(work, f"SlurmdTimeout={TIMEOUT_S}\n")
    try:
        kill(cluster, "slurmctld")
        kill(cluster, "slurmdbd")
        state = cluster.directory / "state"
        with small_disk(state, "48m"):
            # Soon nonces need a page that the file does not have yet.
            now_us, replay = time.time_ns() // 1000, state / "replay"
            owner = replay.stat()
            store = ReplayStore(now_us, str(replay))
            for _ in range(NONCES_OF_A_PAGE - 20 - len(store)):
                store.remember(os.urandom(16), now_us + 3600_000_000, now_us)
            store.close()
            os.chown(replay, owner.st_uid, owner.st_gid)
            start_daemon(cluster, "slurmdbd")
            start_daemon(cluster, "slurmctld")
            check_full_state_disk(cluster, state, work)
            kill(cluster, "slurmctld")
            kill(cluster, "slurmdbd")
    finally:
        cluster.down()


def check_full_state_disk(cluster: LiveCluster, state: Path, work: Path) -> None:
    job_id = submit_as(cluster, "nobody", "-o", "none", str(waiting_script(work, "a")), cwd=work)
    wait_for_text(cluster, work / "a.on")
    ballast, log = fill(state), cluster.directory / "log" / "slurmctld.log"

    def takes_no_nonce() -> bool:
        fill(state)  # what fills it goes on
        return "fault (replay_store)" in log.read_text()

    cluster.wait_until("the nonces' file to be full", takes_no_nonce)
    # Three times SlurmdTimeout, counted in what is to arrive meanwhile.
    enough = heartbeats(cluster) + 2 * 9
    cluster.wait_until("heartbeats", lambda: heartbeats(cluster) >= enough, 120)
    assert "down" not in cluster.out("sinfo", "-h", "-o", "%T %N")
    assert state_of(cluster, job_id) == "RUNNING"
    refused = cluster.run("sbatch", "-o", "none", "--wrap", "true")
    assert refused.returncode == 1
    assert "No space left in StateSaveLocation" in refused.stderr
    ballast.unlink()
    cluster.wait_until(
        "submissions to be accepted again",
        lambda: cluster.run("sbatch", "-o", "none", "--wrap", "true").returncode == 0,
    )
    (work / "a.go").touch()
    assert cluster.accounted(job_id) == "FAILED|7:0"
    assert tracebacks(cluster) == []


def test_a_full_spool_drains_its_node_which_still_obeys(work: Path) -> None:
    """Row 32: such a node took no messages, and its job could not be ended."""
    cluster = cluster_in(work, "SchedulerParameters=requeue_delay=0\nKillWait=1\n")
    spool = cluster.directory / "spool" / "n1"
    try:
        kill(cluster, "slurmd-n1")
        with small_disk(spool, "4m"):
            start_daemon(cluster, "slurmd-n1")
            check_full_spool(cluster, spool, work)
            kill(cluster, "slurmd-n1")
    finally:
        cluster.down()


def check_full_spool(cluster: LiveCluster, spool: Path, work: Path) -> None:
    fills = "dd if=/dev/zero of=$(dirname $0)/fill bs=4k; cat /dev/zero >>$0"
    options = ("-w", "n1", "-o", f"{work}/%x.out")
    cancelled, ended = (
        submit_as(cluster, "nobody", *options, "-J", name, str(script), cwd=work)
        for name, script in (
            ("b", waiting_script(work, "b", fills)), ("e", waiting_script(work, "e")),
        )
    )  # fmt: skip
    wait_for_text(cluster, work / "b.on", work / "e.on")
    assert (work / "b.out").read_text().count("Permission denied") == 2
    assert not list(spool.glob("job*/fill"))
    # Somebody else fills it. What comes next is refused, and the node takes no more.
    ballast = fill(spool)
    late = submit_as(cluster, "nobody", *options, "--wrap", "true", cwd=work)
    cluster.wait_until("drain", lambda: shows(cluster, "n1", "Reason=SlurmdSpoolDir is full"))
    assert shows(cluster, "n1", "State=MIXED+DRAIN")
    cluster.wait_until("requeue", lambda: state_of(cluster, late) == "PENDING")
    # Orders and ends go on: nothing that they need is written, or there is room kept for it.
    cluster.out("scancel", str(cancelled))
    (work / "e.go").touch()
    assert cluster.accounted(cancelled, "State").startswith("CANCELLED")
    assert cluster.accounted(ended) == "FAILED|7:0"
    assert running_in(work) == []
    ballast.unlink()
    cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert cluster.accounted(late) == "COMPLETED|0:0"
    assert tracebacks(cluster) == []
