"""Daemons killed, stopped and starved while jobs run: RELIABILITY rows 1, 3, 6, 34, 35, 38b, 48."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    accounted,
    kill,
    pid_of,
    start_daemon,
    tracebacks,
    wait_for_text,
    without_faults,
)
from tests.daemons.live import LiveCluster, start
from tests.daemons.streams import check_ledger, promises_of, submissions, wait_for_promises
from tests.world.processes import is_alive

pytestmark = AS_OTHERS
SUBMITTERS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Two nodes of their own, since these tests kill every daemon there is."""
    directory = tmp_path_factory.mktemp("daemons")
    extra = directory / "extra.conf"
    extra.write_text("KillWait=1\nDefMemPerCPU=1\nBatchStartTimeout=10\n")
    made = start(directory / "c", "--nodes", "2", "--cpus", "64", "--conf", str(extra))
    with without_faults(made):
        yield made


@pytest.mark.parametrize(
    ("count", "away_s"),
    [
        (20, 0),
        *(pytest.param(100, away_s, marks=pytest.mark.soak) for away_s in (1, 30, 300)),
    ],
)
def test_controller_killed_under_running_jobs(
    cluster: LiveCluster, count: int, away_s: int
) -> None:
    """RELIABILITY 3: jobs keep their processes; ends while it was away have their code and time."""
    go = cluster.directory / f"go3.{count}.{away_s}"
    outputs = [cluster.directory / f"ctld.{count}.{away_s}.{number}" for number in range(count)]
    jobs = [
        cluster.submit(
            "-o", str(out), "--wrap",
            f"echo $$; until [ -e {go}{number % 2} ]; do sleep 0.1; done; date +%s; exit {number}",
        )
        for number, out in enumerate(outputs)
    ]  # fmt: skip
    wait_for_text(cluster, *outputs)
    pids = [int(out.read_text()) for out in outputs]
    kill(cluster, "slurmctld")
    Path(f"{go}0").touch()
    cluster.wait_until("ends in the outage", lambda: not any(map(is_alive, pids[::2])))
    ended_by = time.time()
    cluster.keeps("processes", lambda: all(map(is_alive, pids[1::2])), away_s)
    assert all(map(is_alive, pids[1::2]))
    # Ends are shown in whole seconds: a time of recording must not look like that of an end.
    cluster.wait_until("a later second", lambda: time.time() >= ended_by + 2)
    start_daemon(cluster, "slurmctld")
    cluster.wait_until(
        "reports of ends",
        lambda: len(cluster.out("squeue", "-h", "-t", "R").splitlines()) == len(jobs) // 2,
    )
    assert all(map(is_alive, pids[1::2]))
    Path(f"{go}1").touch()
    cluster.wait_for_jobs(*jobs)
    ends = accounted(cluster, jobs, "ExitCode,Restarts,End")
    for number, job_id in enumerate(jobs):
        code, restarts, end = ends[job_id].split("|")
        assert (code, restarts) == (f"{number}:0", "0")
        assert len(outputs[number].read_text().splitlines()) == 2
        if number % 2 == 0:
            assert time.mktime(time.strptime(end, "%Y-%m-%dT%H:%M:%S")) <= ended_by + 1


def stream_with_kills(cluster: LiveCluster, rounds: int, seed: int) -> int:
    """Kill the controller at random moments of a stream of jobs; return how many were promised.

    Fails when a promised job is lost, runs twice, or an id was given twice.
    """
    chance = random.Random(seed)
    ledger = cluster.directory / f"ledger{seed}"
    with submissions(cluster, ledger, [f"s{seed}-{n}" for n in range(SUBMITTERS)]) as submitters:
        for _ in range(rounds):
            wait_for_promises(cluster, submitters, chance.randint(1, 15))
            kill(cluster, "slurmctld")
            start_daemon(cluster, "slurmctld")
    promises = promises_of(submitters)
    cluster.wait_for_jobs(limit_s=180)
    check_ledger(ledger, promises)
    ends = accounted(cluster, sorted(promises), "State,Comment")
    assert ends == {job_id: f"COMPLETED|{mark}" for job_id, mark in promises.items()}
    return len(promises)


def test_controller_killed_in_a_stream(cluster: LiveCluster) -> None:
    """RELIABILITY 1, 38b: nothing promised is lost, nothing runs twice, no id is reused."""
    assert stream_with_kills(cluster, rounds=6, seed=1) > 20


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 7))
def test_controller_killed_fifty_times(cluster: LiveCluster, seed: int) -> None:
    """RELIABILITY 1, ten rounds for each of five seeds."""
    assert stream_with_kills(cluster, rounds=10, seed=seed) > 20


def test_everything_killed_at_once(cluster: LiveCluster) -> None:
    """Every daemon dies; scripts go on; all is known once the daemons are back."""
    go = cluster.directory / "goall"
    outputs = [cluster.directory / f"all.{number}" for number in range(10)]
    jobs = [
        cluster.submit("-o", str(out), "--wrap", f"echo b; until [ -e {go} ]; do sleep 0.1; done")
        for out in outputs
    ]
    wait_for_text(cluster, *outputs)
    daemons = ("slurmctld", "slurmdbd", "slurmd-n1", "slurmd-n2")
    for daemon in daemons:
        kill(cluster, daemon)
    go.touch()
    for daemon in reversed(daemons):
        start_daemon(cluster, daemon)
    cluster.wait_for_jobs(*jobs)
    assert set(accounted(cluster, jobs, "State,Restarts").values()) == {"COMPLETED|0"}


def test_accounting_away(cluster: LiveCluster) -> None:
    """RELIABILITY 48: jobs of an outage, with the controller killed in it, are there once."""
    os.kill(pid_of(cluster, "slurmdbd"), signal.SIGTERM)
    first = [cluster.submit("-o", "/dev/null", "--wrap", f"exit {n}") for n in range(10)]
    cluster.wait_for_jobs(*first)
    done = cluster.run("sacct", "-n")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    kill(cluster, "slurmctld")
    start_daemon(cluster, "slurmctld")
    second = [cluster.submit("-o", "/dev/null", "--wrap", f"exit {n}") for n in range(10)]
    cluster.wait_for_jobs(*second)
    start_daemon(cluster, "slurmdbd")
    ends = accounted(cluster, first + second, "ExitCode")
    assert ends == {job_id: f"{n % 10}:0" for n, job_id in enumerate(first + second)}
    rows = cluster.out("sacct", "-D", "-X", "-n", "-P", "-o", "JobIDRaw,SubmitLine").splitlines()
    assert len(rows) == len({row.split("|")[0] for row in rows})


def test_accounting_stopped(cluster: LiveCluster) -> None:
    """A slurmdbd that hangs holds up neither submissions nor jobs."""
    pid = pid_of(cluster, "slurmdbd")
    os.kill(pid, signal.SIGSTOP)
    try:
        jobs = [cluster.submit("-o", "/dev/null", "--wrap", "true") for _ in range(10)]
        cluster.wait_for_jobs(*jobs)
        kill(cluster, "slurmctld")
        start_daemon(cluster, "slurmctld")
        jobs.append(cluster.submit("-o", "/dev/null", "--wrap", "true"))
        cluster.wait_for_jobs(*jobs)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert set(accounted(cluster, jobs, "State").values()) == {"COMPLETED"}


def test_requeue_counts(cluster: LiveCluster) -> None:
    """A requeued job runs again under its id, with its count, and is accounted as two runs."""
    out = cluster.directory / "requeue"
    job_id = cluster.submit(
        "-o", str(out), "--open-mode=append", "--wrap",
        "echo run $SLURM_RESTART_COUNT; [ $SLURM_RESTART_COUNT = 1 ] || sleep 600",
    )  # fmt: skip
    wait_for_text(cluster, out)
    cluster.out("scontrol", "requeue", str(job_id))
    # The job may still be cleaned up: what is set then must hold as well.
    cluster.wait_until("end of first run", lambda: "REQUEUE" in out.read_text(), 60)
    cluster.out("scontrol", "update", f"JobId={job_id}", "StartTime=now")
    cluster.wait_for_jobs(job_id)
    runs = [line for line in out.read_text().splitlines() if line.startswith("run")]
    assert runs == ["run 0", "run 1"]
    assert cluster.accounted(job_id, "State,Restarts") == "COMPLETED|1"


def test_slow_clients(cluster: LiveCluster) -> None:
    """RELIABILITY 44: hundreds of clients that send a byte now and then delay no others."""
    paths = list((cluster.directory / "run" / "service").glob("slurmctld-*.sock"))
    assert len(paths) == 1
    slow = []
    try:
        for number in range(400):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            client.connect(str(paths[0]))
            client.send(b"\x00\x00\x01\x00"[: number % 4 + 1])
            slow.append(client)
        for _ in range(20):
            cluster.out("squeue")
        job_id = cluster.submit("-o", "/dev/null", "--wrap", "true")
        cluster.wait_for_jobs(job_id)
    finally:
        for client in slow:
            client.close()


@pytest.mark.parametrize("padding", [20000, 0], ids=["scripts", "journal"])
def test_full_state_disk(tmp_path_factory: pytest.TempPathFactory, padding: int) -> None:
    """RELIABILITY 6: the error names the cause.

    No promise is lost, and the controller goes on by itself.
    """
    directory = tmp_path_factory.mktemp("full")
    state = directory / "state"
    state.mkdir(mode=0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(state)]).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    extra = directory / "extra.conf"
    extra.write_text(f"StateSaveLocation={state}\nDefMemPerCPU=1\n")
    try:
        cluster = start(directory / "c", "--nodes", "1", "--cpus", "8", "--conf", str(extra))
        try:
            _fill_and_free(cluster, state, padding)
            assert tracebacks(cluster) == []
        finally:
            cluster.down()
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


def _fill_and_free(cluster: LiveCluster, state: Path, padding: int) -> None:
    out = cluster.directory / "full.out"
    runs = cluster.submit("-o", str(out), "--wrap", "echo b; sleep 600")
    wait_for_text(cluster, out)
    filler = state / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                file.write(b"x" * 65536)
                file.flush()
        except OSError:
            pass
    promised, refused = [], []
    script = cluster.directory / "big.sh"
    for number in range(2000):
        script.write_text(f"#!/bin/sh\n# {number if padding else 0}\n" + "# padding\n" * padding)
        done = cluster.run(
            "sbatch", "-H", "--parsable", "-o", "/dev/null", "--comment", "c" * 60000, str(script)
        )
        if done.returncode:
            refused.append((done.returncode, done.stderr))
            break
        promised.append(int(done.stdout))
    assert refused, f"{len(promised)} jobs on a full disk"
    code, text = refused[0]
    assert code == 1
    assert "No space left" in text
    assert all(line.startswith("sbatch: error: ") for line in text.splitlines())
    filler.unlink()

    def accepts() -> bool:
        done = cluster.run("sbatch", "-H", "--parsable", "-o", "/dev/null", "--wrap", "true")
        if done.returncode == 0:
            promised.append(int(done.stdout))
        return done.returncode == 0

    cluster.wait_until("submissions after space is free", accepts)
    queue = {int(word) for word in cluster.out("squeue", "-h", "-o", "%i").split()}
    assert set(promised) | {runs} == queue
    kill(cluster, "slurmctld")
    start_daemon(cluster, "slurmctld")
    assert {int(w) for w in cluster.out("squeue", "-h", "-o", "%i").split()} == queue
    assert cluster.out("squeue", "-h", "-j", str(runs), "-o", "%t").strip() == "R"
