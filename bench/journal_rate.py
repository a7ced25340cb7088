"""Durable submissions per second through writer and journal, without network and rules.

Prints events applied, encoded and synced with a number of requests outstanding, beside the bare
sync rate of the same disk: what group commit gains. `--json` prints one object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import JobRequest

CONF = parse_slurm_conf("ClusterName=b\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n")


class Submission:
    """A request and the command that sent it."""

    def __init__(self, done: Any) -> None:
        self.request_id = os.urandom(16)
        self.done = done

    def reply(self, answer: object) -> None:
        self.done()

    def error(self, code: int, text: str) -> None:
        raise SystemExit(text)


def submit(cluster: Cluster, request: Any, context: Context) -> Decision:
    event = ev.JobSubmitted(
        time_us=context.now_us, job_id=free_job_id(cluster), request=JobRequest(name="bench"),
        uid=1000, gid=1000, user_name="alice", group_name="alice", account="a", qos="normal",
        assoc_id=1, partition="p", time_limit_min=60, script_hash="0" * 32, env_hash="1" * 32,
    )  # fmt: skip
    return Decision([event])


def syncs_per_second(directory: Path, count: int = 300) -> float:
    """One small write and one fdatasync at a time, as without group commit."""
    fd = os.open(directory / "plain", os.O_RDWR | os.O_CREAT, 0o600)
    begin = time.perf_counter()
    for number in range(count):
        os.pwrite(fd, b"x" * 400, number * 400)
        os.fdatasync(fd)
    os.close(fd)
    return count / (time.perf_counter() - begin)


async def measure(directory: Path, total: int, outstanding: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    layout = Layout(directory)
    layout.create()
    recovery = Recovery(layout)
    list(recovery.frames())
    journal = JournalWriter(
        layout.journal,
        recovery.journal_id,
        recovery.position._replace(epoch=1),
        first_sequence=1,
        on_durable=lambda sequence: loop.call_soon_threadsafe(writer.on_durable, sequence),
        on_fatal=lambda why: os._exit(1),
        reserve=Reserve(layout.reserve),
    )
    writer = Writer(
        Cluster(), journal, call_soon=loop.call_soon, on_bug=lambda text, error: os._exit(1)
    )
    ended = asyncio.Event()
    sent = answered = 0

    def send() -> None:
        nonlocal sent
        sent += 1
        context = Context(CONF, time.time_ns() // 1000, Caller(1000, 1000, "alice"))
        request: Any = Submission(answer)
        writer.change(submit, request, context, request)

    def answer() -> None:
        nonlocal answered
        answered += 1
        if sent < total:
            loop.call_soon(send)
        if answered == total:
            ended.set()

    begin = time.perf_counter()
    for _ in range(outstanding):
        send()
    await ended.wait()
    seconds = time.perf_counter() - begin
    journal.close()
    begin = time.perf_counter()
    frames = sum(len(batch) for batch in Recovery(layout).frames())
    return {
        "submissions_per_s": total / seconds,
        "groups": journal.groups,
        "bytes_per_submission": journal.bytes_written / total,
        "records": frames,
        "read_s": time.perf_counter() - begin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--outstanding", type=int, default=256)
    parser.add_argument("--directory", help="on the file system to measure")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        plain = syncs_per_second(Path(name))
        result = asyncio.run(measure(Path(name), arguments.count, arguments.outstanding))
    result["plain_syncs_per_s"] = plain
    if arguments.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:22} {value:12,.2f}")


if __name__ == "__main__":
    main()
