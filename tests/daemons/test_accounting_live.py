"""RELIABILITY 48, 49, and reading what was written, on a live cluster with either database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.up.ports import free_row
from tests.daemons.faults import accounted, kill, open_directory, start_daemon, without_faults
from tests.daemons.live import LiveCluster, missing_programs, start
from tests.daemons.streams import check_ledger, promises_of, submissions, wait_for_promises
from tests.dbd.mariadb import Server

pytestmark = pytest.mark.daemons
SIDE_BY_SIDE = 8
PASSWORD = "secret"


@pytest.fixture
def mariadb() -> Iterator[tuple[Server, str]]:
    """A server on TCP, and the URL of a database there."""
    port = free_row(1)
    server = Server("--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}")
    with server.connection() as connection:
        connection.exec_driver_sql(f"CREATE USER acct IDENTIFIED BY '{PASSWORD}'")
        connection.exec_driver_sql("GRANT ALL ON *.* TO acct")
    yield server, f"mysql://acct:{PASSWORD}@127.0.0.1:{port}/books"
    server.remove()


@pytest.fixture
def directory() -> Iterator[Path]:
    if missing := missing_programs():
        pytest.skip(f"not built: {' '.join(missing)}")
    with open_directory() as directory:
        yield directory


def cluster_in(directory: Path, *options: str) -> LiveCluster:
    extra = directory / "extra.conf"
    extra.write_text("KillWait=1\nDefMemPerCPU=1\nMaxJobCount=100000\nMinJobAge=30\n")
    words = ("--nodes", "2", "--cpus", "16", "--conf", str(extra))
    return start(directory / "c", *words, *options)


def unknown_after_submission(cluster: LiveCluster, count: int) -> list[str]:
    """Submit so many jobs, eight side by side; return what sacct said of those it did not know."""
    numbers = iter(range(count))
    turn = threading.Lock()
    unknown: list[str] = []

    def submit_and_look() -> None:
        while True:
            with turn:
                if next(numbers, None) is None:
                    return
            job_id = str(cluster.submit("-o", "/dev/null", "--wrap", "true"))
            done = cluster.run("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "JobIDRaw,State")
            if done.stdout.partition("|")[0] != job_id:
                unknown.append(f"{job_id}: {done.stdout}{done.stderr}")

    threads = [threading.Thread(target=submit_and_look) for _ in range(SIDE_BY_SIDE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return unknown


@pytest.mark.parametrize("count", [24, pytest.param(1000, marks=pytest.mark.soak)])
def test_sacct_knows_what_was_submitted_before(directory: Path, count: int) -> None:
    """However many commands run side by side."""
    with without_faults(cluster_in(directory)) as cluster:
        assert unknown_after_submission(cluster, count) == []


@pytest.mark.soak
def test_sacct_knows_what_was_submitted_before_with_mariadb(
    directory: Path, mariadb: tuple[Server, str]
) -> None:
    with without_faults(cluster_in(directory, "--database", mariadb[1])) as cluster:
        assert unknown_after_submission(cluster, 1000) == []


@pytest.mark.soak
def test_an_outage_of_everything_behind_loses_and_doubles_nothing(
    directory: Path, mariadb: tuple[Server, str]
) -> None:
    """MariaDB and slurmdbd die under submissions; the controller is killed twice meanwhile."""
    server, url = mariadb
    ledger = directory / "ledger"
    ledger.touch()
    with without_faults(cluster_in(directory, "--database", url)) as cluster:
        names = [f"outage{number}" for number in range(3)]
        with submissions(cluster, ledger, names) as submitters:
            wait_for_promises(cluster, submitters, 30)
            server.kill()
            wait_for_promises(cluster, submitters, 30)
            kill(cluster, "slurmdbd")
            for _ in range(2):
                wait_for_promises(cluster, submitters, 60)
                kill(cluster, "slurmctld")
                start_daemon(cluster, "slurmctld")
            wait_for_promises(cluster, submitters, 60)
            server.start()
            start_daemon(cluster, "slurmdbd")
            wait_for_promises(cluster, submitters, 30)
        promises = promises_of(submitters)
        cluster.wait_for_jobs(limit_s=240)
        check_ledger(ledger, promises)
        states = accounted(cluster, sorted(promises), "State,Comment")
        assert states == {job_id: f"COMPLETED|{mark}" for job_id, mark in promises.items()}
        lines = cluster.out(
            "sacct", "-a", "-n", "-X", "-P", "-D", "-S", "now-1days", "-o", "JobIDRaw"
        )
        assert len(lines.split()) == len(set(lines.split())) >= len(promises)
