#!/usr/bin/env python3
"""Durable submissions over one connection, memory and restart with a long queue, a big array.

Fills the controller of the cluster in SLURM_CONF with held jobs, and cancels all jobs of the user
at the end; ours only, since the peer has no pipelined client: its figures are for sbatch from 16
processes (330 a second recorded).
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgpack
import psutil

from figures import Cluster, clusters, parser, show, wait_for
from pyslurm_ng.conf.quick import quick
from pyslurm_ng.wire.client import QUICK_KEYS
from pyslurm_ng.wire.daemon_link import socket_path
from pyslurm_ng.wire.frame import FLAG_ERROR, HEAD_BYTES, pack_frame, parse_head

JOBS = 100_000
OUTSTANDING = 256
ARRAY_TASKS = 100_000
LIMITS = {
    "durable submissions per second": (5000.0, "at least"),
    "lines of pyslurm-ng submit per second": (5000.0, "at least"),
    "KiB per pending job": (2.0, "at most"),
    "array of 100,000: seconds": (0.050, "at most"),
    "restart until squeue answers: seconds": (3.0, "at most"),
}
RECORDED_PEER = {
    "durable submissions per second": "330 (sbatch x 16, not durable)",
    "lines of pyslurm-ng submit per second": "-",
    "KiB per pending job": "8.4",
    "array of 100,000: seconds": "-",
    "restart until squeue answers: seconds": "1.1 with 10,000 jobs",
}
SCRIPT = b"#!/bin/sh\nexec /bin/true\n"


def body(name: str, script: bytes = SCRIPT, **fields: object) -> bytes:
    """Return a submission; held unless `fields` of the request say otherwise (None: left out)."""
    request: dict[str, object] = {
        "name": name, "ntasks": 1, "time_limit_min": 5, "priority": 0, "work_dir": "/tmp",
        "std_out": "/dev/null", "command": "/tmp/bench.sh",
    }  # fmt: skip
    request |= fields
    request = {name: value for name, value in request.items() if value is not None}
    packed: bytes = msgpack.packb(
        {
            "request_id": secrets.token_bytes(16),
            "request": request,
            "script": script,
            "environment": b"PATH=/usr/bin:/bin\0",
        }
    )
    return packed


class Pipe:
    """One connection to slurmctld with many requests under way."""

    def __init__(self, path: str) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(path)
        self.received = b""

    def send(self, kind: str, sequence: int, content: bytes) -> None:
        self.connection.sendall(pack_frame(kind, sequence, content))

    def replies(self) -> int:
        """Wait for replies; return how many came. Leaves when one is an error."""
        count = 0
        while not count:
            chunk = self.connection.recv(1 << 20)
            if not chunk:
                sys.exit("bench: error: slurmctld closed the connection")
            self.received += chunk
            position = 0
            while len(self.received) - position >= HEAD_BYTES:
                head = self.received[position : position + HEAD_BYTES]
                flags, kind, credential, size, _ = parse_head(head)
                end = position + HEAD_BYTES + kind + credential + size
                if end > len(self.received):
                    break
                if flags & FLAG_ERROR:
                    sys.exit(f"bench: error: {msgpack.unpackb(self.received[end - size : end])}")
                count += 1
                position = end
            self.received = self.received[position:]
        return count


def submit_many(path: str, jobs: int) -> float:
    """Return seconds until all are acknowledged, hence on disk."""
    bodies = [body(f"bench-{number}") for number in range(jobs)]
    pipe = Pipe(path)
    begin = time.perf_counter()
    sent = answered = 0
    while answered < jobs:
        while sent < jobs and sent - answered < OUTSTANDING:
            sent += 1
            pipe.send("SubmitJob", sent, bodies[sent - 1])
        answered += pipe.replies()
    return time.perf_counter() - begin


def submit_lines(jobs: int) -> float:
    """Return seconds of one `pyslurm-ng submit` for held jobs, its start included."""
    lines = "".join(f"true {number}\n" for number in range(jobs))
    command = ["pyslurm-ng", "submit", "--from", "-", "--commands", "-H", "-o", "/dev/null"]
    begin = time.perf_counter()
    ids = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - begin
    if len(set(ids.split())) != jobs:
        sys.exit("bench: error: not every line became a job")
    return seconds


def submit_array(path: str) -> float:
    pipe = Pipe(path)
    content = body("bench-array", array=f"1-{ARRAY_TASKS}")
    begin = time.perf_counter()
    pipe.send("SubmitJob", 1, content)
    pipe.replies()
    return time.perf_counter() - begin


def controller(conf: dict[str, str]) -> psutil.Process:
    return psutil.Process(int(Path(conf["SlurmctldPidFile"]).read_text()))


def restart_seconds(cluster: Cluster, conf: dict[str, str]) -> float:
    """Kill the controller and return how long until a new one answers squeue."""
    process = controller(conf)
    process.send_signal(signal.SIGKILL)
    wait_for(
        lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 10, "the end"
    )
    begin = time.perf_counter()
    cluster.run("slurmctld", "-f", os.environ["SLURM_CONF"])
    cluster.run("squeue", "-h", "-t", "suspended")  # an answer, and a short one
    return time.perf_counter() - begin


def measured(cluster: Cluster, jobs: int) -> dict[str, float]:
    """Return the figures; the order matters, since each adds to the queue of the next."""
    conf = quick(os.environ["SLURM_CONF"], (*QUICK_KEYS, "SlurmctldPidFile"))
    path = socket_path(conf)
    submit_many(path, 100)
    before = controller(conf).memory_info().rss
    seconds = submit_many(path, jobs)
    after = controller(conf).memory_info().rss
    return {
        "durable submissions per second": jobs / seconds,
        "lines of pyslurm-ng submit per second": jobs / submit_lines(jobs),
        "KiB per pending job": (after - before) / jobs / 1024,
        "array of 100,000: seconds": submit_array(path),
        "restart until squeue answers: seconds": restart_seconds(cluster, conf),
    }


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--jobs", type=int, default=JOBS)
    options = parse.parse_args()
    cluster = clusters(options)[0]
    try:
        figures = measured(cluster, options.jobs)
    finally:
        # Nobody else uses the cluster: the queue of another program would be measured, too.
        cluster.run("scancel", "--me")
    rows: list[dict[str, object]] = []
    for what, value in figures.items():
        limit, word = LIMITS[what]
        ok = value >= limit if word == "at least" else value <= limit
        peer = RECORDED_PEER[what]
        rows.append(
            {"what": what, "ours": value, "recorded_peer": peer, word: limit, "ok": ok}
            if options.json
            else {"what": what, "ours": value, "recorded_peer": peer, "limit": f"{word} {limit:g}",
                  "ok": ok}
        )  # fmt: skip
    show(options, f"{options.jobs} jobs over one connection, {OUTSTANDING} outstanding", rows)


if __name__ == "__main__":
    main()
