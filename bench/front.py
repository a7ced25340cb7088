#!/usr/bin/env python3
"""slurmrestd with a long queue: lists, pages, metrics, idle listeners, and squeue beside them.

Fills the controller of the cluster in SLURM_CONF with held jobs (--jobs) and starts a slurmrestd of
its own on a Unix socket. CPU times are those of slurmrestd and slurmctld together.
"""

from __future__ import annotations

import http.client
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from figures import Cluster, clusters, parser, show, wait_for
from queue_10000 import fill

ROUNDS = 5
CLIENTS = 100
SQUEUES = 120
AT_ONCE = 32
"""Listeners that begin together: of one user 64 requests may be open."""
LIMIT_OF_LIST_S, LIMIT_OF_PAGE_S, LIMIT_OF_SCRAPE_S = 0.3, 1.0, 0.05
LIMIT_OF_SQUEUE_S = 0.020
JOBS = "/slurm/v0.0.46/jobs/"
PAGES = ("/", "/jobs", "/jobs?text=x", "/nodes", "/plan", "/shares", "/scheduler")
METRICS = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler")
Row = dict[str, object]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=600)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(600)
        self.sock.connect(self._path)


def get(connection: http.client.HTTPConnection, target: str) -> int:
    """Return how many bytes an answer has; it has to be 200."""
    connection.request("GET", target)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        sys.exit(f"bench: error: {target}: {answer.status} {content[:200]!r}")
    return len(content)


@contextmanager
def slurmrestd(cluster: Cluster) -> Iterator[tuple[str, psutil.Process]]:
    """Start one for this user; yield its socket and its process."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rest.sock"
        words = cluster.argv("slurmrestd", "--max-connections", "27000", f"unix:{path}")
        environment = {**cluster.environment, "SLURMRESTD_SECURITY": "disable_user_check"}
        child = subprocess.Popen(words, env=environment)
        try:
            wait_for(lambda: Path(path).exists(), 60, "slurmrestd")
            yield path, psutil.Process(child.pid)
        finally:
            child.terminate()
            child.wait()


def controller(cluster: Cluster) -> psutil.Process:
    """Return slurmctld of the cluster."""
    folder = Path(cluster.environment["SLURM_CONF"]).parent.parent
    (pid_file,) = folder.glob("run/**/slurmctld.pid")
    return psutil.Process(int(pid_file.read_text()))


def cpu_s(*processes: psutil.Process) -> float:
    """Return the processor time that processes have used."""
    return sum(
        times.user + times.system for times in (process.cpu_times() for process in processes)
    )


def medians(
    get_one: object, count: int, processes: tuple[psutil.Process, ...]
) -> tuple[float, ...]:
    """Return first wall time, median wall time and mean CPU time of calls."""
    took = []
    before = 0.0
    for index in range(count + 1):
        if index == 1:
            before = cpu_s(*processes)
        begin = time.perf_counter()
        get_one()
        took.append(time.perf_counter() - begin)
    return took[0], statistics.median(took[1:]), (cpu_s(*processes) - before) / count


def squeue_p99_s(cluster: Cluster) -> float:
    """Return the 99th percentile of squeues in a row."""
    job = cluster.run("squeue", "-h", "-o", "%i").split(maxsplit=1)[0]
    took = sorted(cluster.seconds("squeue", "-h", "-j", job) for _ in range(SQUEUES))
    return took[int(0.99 * len(took)) - 1]


def beside_clients(cluster: Cluster, path: str) -> float:
    """Return that of squeue beside clients that ask for a node once a second each."""
    ends = threading.Event()

    def ask(index: int) -> None:
        connection = UnixConnection(path)
        ends.wait(index / CLIENTS)
        while not ends.is_set():
            get(connection, "/slurm/v0.0.46/node/n1")
            ends.wait(1.0)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        return squeue_p99_s(cluster)
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def passes(cluster: Cluster) -> int:
    """Return how many passes the scheduler has made."""
    text = cluster.run("sdiag")
    return int(text.split("Total cycles:")[1].split()[0])


def idle_listeners(cluster: Cluster, path: str, count: int, process: psutil.Process) -> list[Row]:
    """Return what listeners cost for ten seconds in which nothing happens."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listeners: list[socket.socket] = []
    begun = 0
    while len(listeners) < count:
        batch = [socket.socket(socket.AF_UNIX) for _ in range(min(AT_ONCE, count - len(listeners)))]
        for client in batch:
            client.connect(path)
            client.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        begun += sum(b" 200 " in client.recv(100) for client in batch)
        listeners += batch
    main = controller(cluster)
    before, passes_before = (cpu_s(main), cpu_s(process)), passes(cluster)
    time.sleep(10)
    after, passes_after = (cpu_s(main), cpu_s(process)), passes(cluster)
    rows: list[Row] = [
        {"what": "listeners that were begun", "ours": begun, "limit": count, "ok": begun == count},
        {"what": "passes of the scheduler in ten idle seconds",
         "ours": passes_after - passes_before, "limit": "none for them", "ok": None},
        {"what": "CPU ms of slurmctld in ten idle seconds",
         "ours": round(1000 * (after[0] - before[0])), "limit": "-", "ok": None},
        {"what": "CPU ms of slurmrestd in ten idle seconds",
         "ours": round(1000 * (after[1] - before[1])), "limit": "-", "ok": None},
        {"what": "MiB of slurmrestd", "ours": process.memory_info().rss >> 20, "limit": "-",
         "ok": None},
    ]  # fmt: skip
    for client in listeners:
        client.close()
    return rows


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--jobs", type=int, default=10_000)
    parse.add_argument("--listeners", type=int, default=0)
    parse.add_argument("--only-listeners", action="store_true", help="measure nothing else")
    options = parse.parse_args()
    cluster = clusters(options)[0]
    conf = cluster.environment["SLURM_CONF"]
    lines = dict(
        line.split("=", 1) for line in Path(conf).read_text().splitlines() if line.count("=") == 1
    )
    if lines.get("MetricsType") != "metrics/openmetrics":
        sys.exit(f"bench: error: {conf} has to have the line MetricsType=metrics/openmetrics")
    waiting = int(cluster.run("sdiag").split("Jobs pending:")[1].split()[0])
    if waiting < options.jobs:
        fill(cluster, options.jobs - waiting)
    rows: list[Row] = []

    def note(what: str, limit_s: float, figures: tuple[float, ...]) -> None:
        first, median, cpu = figures
        rows.append({"what": what, "ours_s": median, "first_s": first, "cpu_s": cpu,
                     "limit_s": limit_s, "ok": median <= limit_s})  # fmt: skip

    with slurmrestd(cluster) as (path, process):
        if options.only_listeners:
            listened = idle_listeners(cluster, path, options.listeners, process)
            show(options, f"{options.listeners} idle listeners", listened)
            return
        both = (process, controller(cluster))
        connection = UnixConnection(path)
        if options.jobs <= 20_000:
            note("GET jobs", LIMIT_OF_LIST_S, medians(lambda: get(connection, JOBS), ROUNDS, both))
        for page in PAGES:
            figures = medians(lambda name=page: get(connection, name), ROUNDS, both)
            note(f"page {page}", LIMIT_OF_PAGE_S, figures)
        port = int(lines.get("SlurmctldPort", "6817"))
        for name in METRICS:

            def scrape(page: str = name) -> int:
                return get(http.client.HTTPConnection("127.0.0.1", port), f"/metrics/{page}")

            note(f"metrics/{name}, cached", LIMIT_OF_SCRAPE_S, medians(scrape, ROUNDS, both))
        alone = squeue_p99_s(cluster)
        beside = beside_clients(cluster, path)
        rows.append({"what": "squeue p99 beside 100 clients, less alone", "ours_s": beside - alone,
                     "first_s": alone, "cpu_s": None, "limit_s": LIMIT_OF_SQUEUE_S,
                     "ok": beside - alone <= LIMIT_OF_SQUEUE_S})  # fmt: skip
        load = f"{os.getloadavg()[0]:.0f}"
        show(options, f"{options.jobs} jobs, median of {ROUNDS}, load {load}", rows)
        if options.listeners:
            listened = idle_listeners(cluster, path, options.listeners, process)
            show(options, f"{options.listeners} idle listeners", listened)


if __name__ == "__main__":
    main()
