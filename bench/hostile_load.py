#!/usr/bin/env python3
"""What one ordinary user can do to another's squeue and sbatch by attacking the daemons.

A child process becomes the attacker and does one thing without pause, while another user's squeue
and sbatch are timed from start to exit, and the jobs from sbatch's start to their first line. The
limit is for the 99th percentile of squeue. A command that fails ends the benchmark; so does an
attack that ends by itself, or a job of the other user's that does not start and end. Needs root and
a cluster with slurmdbd and a slurmd on this host.

One row for each attack, or with --loop one row for all of them, one after another and all at once
at the end, again and again for --rounds:

    bench/hostile_load.py --loop --rounds 3 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import glob
import os
import pwd
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from figures import Cluster, clusters, parser, show, spawn_seconds, wait_for
from pyslurm_ng.base.numbers import MOST_IDS, REQ_HOLD, SHOW_DETAIL
from pyslurm_ng.conf.quick import quick
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire import table
from pyslurm_ng.wire.client import QUICK_KEYS
from pyslurm_ng.wire.daemon_link import run_directory
from pyslurm_ng.wire.dbd_messages import Assignment, ChangeEntities, ListJobRecords
from pyslurm_ng.wire.frame import pack_frame, pack_head
from pyslurm_ng.wire.job_messages import SubmitJob, TestJob
from pyslurm_ng.wire.messages import Ping
from pyslurm_ng.wire.query_messages import (
    CancelJobs,
    ExplainJob,
    HoldJobs,
    JobFilter,
    RequeueJobs,
    ShowAssociations,
    ShowJobs,
    ShowNodes,
    ShowPartitions,
    ShowPriorities,
    ShowReservations,
    ShowSteps,
    ShowTopology,
    TopJobs,
    UpdateJob,
)
from pyslurm_ng.wire.step_messages import CreateStep

LIMIT_S = 1.0
_PAUSE_S = 0.1
HELD = 2_000
MARK = b"id of a request!"
PIPELINED = 200


def daemon_sockets(cluster: Cluster) -> dict[str, str]:
    """Return the Unix socket of each kind of daemon on this host."""
    conf = quick(cluster.environment["SLURM_CONF"], QUICK_KEYS)
    folders = {
        run_directory(str(conf.get(f"{name}PidFile", ""))) for name in ("Slurmctld", "Slurmd")
    }
    path_of = {}
    for daemon in ("slurmctld", "slurmd", "slurmdbd"):
        paths = sorted(
            path for at in folders for path in glob.glob(f"{at}/**/{daemon}-*.sock", recursive=True)
        )
        if not paths:
            sys.exit(f"bench: error: no {daemon} has a socket in {' or '.join(sorted(folders))}")
        path_of[daemon] = paths[0]
    return path_of


# --- attacks: each does its worst until its process is killed ------------------------------


class Attack:
    """What all attacks share."""

    def __init__(self, sockets: dict[str, str]) -> None:
        self.sockets = sockets

    async def connect(self, daemon: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and again when refused."""
        while True:
            try:
                return await asyncio.open_unix_connection(self.sockets[daemon])
            except OSError:
                await asyncio.sleep(0.01)

    async def hold(self, daemon: str, sent: bytes, drip: bytes = b"") -> None:
        """Keep a connection that has begun a frame, adding a byte a second; begin anew when cut."""
        while True:
            reader, writer = await self.connect(daemon)
            writer.write(sent)
            while not reader.at_eof() and not writer.is_closing():
                try:
                    await asyncio.wait_for(reader.read(65536), 1.0)
                except asyncio.TimeoutError:
                    if drip:
                        writer.write(drip)
                except OSError:
                    break
            writer.close()

    async def flood(self, daemon: str, message: Any, *, reads: bool = True) -> None:
        """Send a request over and over without waiting for answers."""
        kind, body = table.kind_of(message), table.encode(message)
        while True:
            reader, writer = await self.connect(daemon)
            read = asyncio.create_task(drain(reader)) if reads else None
            number = 0
            try:
                while True:
                    frames = [pack_frame(kind, number + n, body) for n in range(1, PIPELINED)]
                    number += PIPELINED
                    writer.write(b"".join(frames))
                    await writer.drain()
            except OSError:
                pass
            if read is not None:
                read.cancel()
            writer.close()

    async def vary(self, daemon: str, message: Any) -> None:
        """Send a request over and over, each time under a new id, as fast as it is answered."""
        kind, body = table.kind_of(message), table.encode(message)
        while True:
            reader, writer = await self.connect(daemon)
            read = asyncio.create_task(drain(reader))
            number = 0
            try:
                while not read.done():
                    number += 1
                    writer.write(pack_frame(kind, number, body.replace(MARK, os.urandom(16), 1)))
                    await writer.drain()
                    await asyncio.sleep(0)
            except OSError:
                pass
            read.cancel()
            writer.close()

    async def knock(self, daemon: str) -> None:
        """Connect, ask, close, without pause."""
        ping = pack_frame("Ping", 1, table.encode(Ping()))
        while True:
            reader, writer = await self.connect(daemon)
            try:
                writer.write(ping)
                await reader.read(256)
            except OSError:
                pass
            writer.close()


async def drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 18):
        pass


def declared(kind: str) -> bytes:
    """Return the beginning of a frame that declares as much as its kind may have."""
    return pack_head(kind, 1, 0, 0, table.row(kind).max_bytes) + b"\x80"


def half(kind: str) -> bytes:
    """Return half of the longest frame of a kind."""
    most = table.row(kind).max_bytes
    return pack_head(kind, 1, 0, 0, most) + bytes(most // 2)


def declared_lengths(at: Attack) -> list[Coroutine[Any, Any, None]]:
    kinds = {"slurmctld": ("CreateStep", "ShowJobs"), "slurmd": ("LaunchStep",),
             "slurmdbd": ("ListJobRecords",)}  # fmt: skip
    return [
        at.hold(daemon, declared(kind), b"\x80")
        for daemon, names in kinds.items()
        for kind in names
        for _ in range(70)
    ]


def half_bodies(at: Attack) -> list[Coroutine[Any, Any, None]]:
    sent = half("CreateStep")
    return [at.hold("slurmctld", sent, bytes(2048)) for _ in range(200)]


def slow_clients(at: Attack) -> list[Coroutine[Any, Any, None]]:
    return [at.hold("slurmctld", b"p", b"s") for _ in range(HELD)]


def connection_flood(at: Attack) -> list[Coroutine[Any, Any, None]]:
    return [at.knock("slurmctld") for _ in range(500)]


def squeue_flood(at: Attack) -> list[Coroutine[Any, Any, None]]:
    return [at.flood("slurmctld", ShowJobs()) for _ in range(100)]


def unread_answers(at: Attack) -> list[Coroutine[Any, Any, None]]:
    return [at.flood("slurmctld", ShowJobs(), reads=False) for _ in range(100)]


def step_flood(at: Attack) -> list[Coroutine[Any, Any, None]]:
    step = CreateStep(request_id=bytes(16), job_id=1)
    return [at.flood("slurmctld", step) for _ in range(20)]


def large_steps(at: Attack) -> list[Coroutine[Any, Any, None]]:
    names = [f"node{n}" for n in range(50_000)]
    step = CreateStep(request_id=bytes(16), job_id=1, task_nodes=names)
    return [at.flood("slurmctld", step) for _ in range(4)]


def many(at: Attack, messages: list[Any]) -> list[Coroutine[Any, Any, None]]:
    """Return floods of requests under new ids: what was answered once costs nothing again."""
    return [at.vary("slurmctld", message) for message in messages]


def jobs_of(**request: Any) -> SubmitJob:
    """Return a submission; a job that is taken waits until the attack is over."""
    made = JobRequest(nodes_min=1, flags=REQ_HOLD, **request)
    return SubmitJob(MARK, made, b"#!/bin/sh\ntrue\n")


def long_texts(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Submissions with texts as long as they may be, which the controller has to take apart."""
    names = ",".join(f"n{n}" for n in range(16_000))
    return many(
        at,
        [
            jobs_of(node_list=names[:131_000].rpartition(",")[0]),
            jobs_of(exclude="n[" + ",".join(map(str, range(1, 40_000, 2)))[:131_000] + "]"),
            jobs_of(dependency="afterany:" + ":".join(map(str, range(9_000, 17_000)))),
            jobs_of(dependency="afterany:" + ":".join(f"7{n}_[1-9]" for n in range(900))),
            jobs_of(dependency="after:" + ",after:".join(f"{n}+1" for n in range(1, 8_000))),
            jobs_of(constraint="&".join("ab"[n % 2] for n in range(2_000))),
            jobs_of(constraint="(" * 50 + "a" + "|a" * 1_900 + ")" * 50),
            jobs_of(gres=",".join(f"gpu:t{n}:1" for n in range(350))),
            jobs_of(licenses=",".join(f"m{n}:1" for n in range(500))),
            jobs_of(array=",".join(map(str, range(0, 1_000, 2)))),
            jobs_of(tres_per_task=",".join(f"gres/g{n}:1" for n in range(350))),
            jobs_of(comment="c" * 65_000, extra="x=" + "y" * 65_000),
        ],
    )


def many_names(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Requests that name as many jobs as they may."""
    ids = [f"{n}_[0-99:2]" for n in range(1, MOST_IDS + 1)]
    plain = [str(n) for n in range(1, MOST_IDS + 1)]
    return many(
        at,
        [
            ShowJobs(JobFilter(jobs=ids)),
            CancelJobs(MARK, JobFilter(jobs=ids), 10),
            HoldJobs(MARK, ids),
            UpdateJob(MARK, {"comment": "z"}, plain),
            RequeueJobs(MARK, plain),
            ShowJobs(JobFilter(nodes=",".join(f"n{n}" for n in range(10_000)))),
        ],
    )


def arrays(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Arrays that are submitted, split, and ended again."""
    mine = JobFilter(uids=[os.getuid()], all_states=False)
    return many(
        at,
        [
            jobs_of(array="0-999"),
            jobs_of(array="0-999:2"),
            HoldJobs(MARK, [f"{n}_7" for n in range(1, 4_000)], release=True),
            CancelJobs(MARK, mine),
            ShowJobs(),
        ],
    )


def changes_of_all(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Short requests that change as many jobs as there are, in ways that take long."""
    plain = [str(n) for n in range(1, MOST_IDS + 1)]
    mine = JobFilter(uids=[os.getuid()])
    return many(
        at,
        [
            *[jobs_of(name="mine") for _ in range(4)],
            HoldJobs(MARK, name="mine"),
            UpdateJob(MARK, {"numnodes": "1"}, plain),
            UpdateJob(MARK, {"dependency": "afterany:1:2:3"}, name="mine"),
            UpdateJob(MARK, {"comment": "c" * 2_000}, plain),
            UpdateJob(MARK, {"partition": "normal", "features": ""}, plain),
            TopJobs(MARK, plain),
            CancelJobs(MARK, mine, 10),
        ],
    )


def listings(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """All that squeue, scontrol, sprio and sinfo can ask, of all jobs and of each."""
    plain = [str(n) for n in range(1, MOST_IDS + 1)]
    asked: list[Any] = [
        ShowJobs(flags=SHOW_DETAIL),
        ShowJobs(JobFilter(jobs=plain), SHOW_DETAIL),
        ShowJobs(JobFilter(all_states=True)),
        ShowPriorities(),
        ShowPartitions(with_nodes=True),
        ShowNodes(flags=SHOW_DETAIL),
        ShowAssociations(),
        ShowSteps(),
        ShowReservations(),
        ShowTopology(),
        TestJob(JobRequest(nodes_min=1)),
    ]
    fill = many(at, [jobs_of(array="0-999"), jobs_of(name="mine")])
    return fill + [at.flood("slurmctld", question) for question in asked]


def mixed(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """All of it at once."""
    return [
        request
        for make in (half_bodies, connection_flood, squeue_flood, unread_answers, step_flood,
                     large_steps, sacct_flood, long_texts, many_names, changes_of_all,
                     listings, arrays, explanations, refused_changes,
                     ids_of_tasks)
        for request in make(at)
    ]  # fmt: skip


def sacct_flood(at: Attack) -> list[Coroutine[Any, Any, None]]:
    return [at.flood("slurmdbd", ListJobRecords(columns=["job_id"])) for _ in range(20)]


def explanations(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Of jobs whose long comment is changed again and again."""
    asked = [ExplainJob(str(n)) for n in range(1, 17)]
    changes = [jobs_of(name="told"), UpdateJob(MARK, {"comment": "c" * 60_000}, name="told")]
    return many(at, changes) + [at.flood("slurmctld", question) for question in asked]


def ids_of_tasks(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Queries of as many ids as allowed, no two alike, each of most tasks of an array."""
    ids = [f"_[{n % 900}-{999 + n // 900}]" for n in range(MOST_IDS)]
    asked = [ShowJobs(JobFilter(jobs=[f"{array}{task}" for task in ids])) for array in range(1, 17)]
    return many(at, [jobs_of(array="0-999")]) + [
        at.flood("slurmctld", question) for question in asked
    ]


def refused_changes(at: Attack) -> list[Coroutine[Any, Any, None]]:
    """Changes of accounting that take a look at 9,000 names each before they are refused."""
    names = Assignment("names", "=", ",".join(f"a{n}" for n in range(9_000)))
    change = ChangeEntities("delete", "account", [names])
    return [at.flood("slurmdbd", change) for _ in range(20)]


ATTACKS: dict[str, Callable[[Attack], list[Coroutine[Any, Any, None]]]] = {
    "nobody attacks": lambda at: [],
    "declared lengths, 280 sockets": declared_lengths,
    "half bodies, 200 sockets": half_bodies,
    "slow clients, 2,000": slow_clients,
    "connection flood": connection_flood,
    "squeue flood, 100 connections": squeue_flood,
    "unread answers, 100 connections": unread_answers,
    "step flood, 20 connections": step_flood,
    "steps of 50,000 names": large_steps,
    "sacct flood, 20 connections": sacct_flood,
    "refusals of accounting": refused_changes,
    "explanations of long histories": explanations,
    "ids of tasks, 16 connections": ids_of_tasks,
    "long texts": long_texts,
    "as many names as allowed": many_names,
    "changes of all jobs": changes_of_all,
    "listings": listings,
    "arrays": arrays,
    "mixed": mixed,
}


def begin(name: str, user: str, sockets: dict[str, str]) -> int:
    """Start an attack in a child process of that user's; return its id."""
    child = os.fork()
    if child:
        return child
    person = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(person.pw_gid, person.pw_gid, person.pw_gid)
    os.setresuid(person.pw_uid, person.pw_uid, person.pw_uid)

    async def run() -> None:
        await asyncio.gather(*ATTACKS[name](Attack(sockets)))

    try:
        asyncio.run(run())
        signal.pause()
    except BaseException:  # noqa: BLE001 - the benchmark is told by the exit status
        traceback.print_exc()
    finally:
        os._exit(1)


def end(child: int, name: str) -> None:
    """End an attack; leave with an error if it had ended by itself."""
    if os.waitpid(child, os.WNOHANG)[0]:
        sys.exit(f"bench: error: the attack {name!r} ended by itself")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


# --- the other user -----------------------------------------------------------------------


class Took:
    """Seconds of squeue and sbatch, and from sbatch's start to the job's."""

    def __init__(self) -> None:
        self.squeue: list[float] = []
        self.sbatch: list[float] = []
        self.starts: list[float] = []

    def __len__(self) -> int:
        return len(self.squeue) + len(self.sbatch)


def timed(cluster: Cluster, user: str, seconds: float, room: str, took: Took) -> None:
    """Run squeue and sbatch of the other user in turn for so long; the jobs write into `room`.

    There is a pause after each pair: what an attacker leaves of MaxJobCount are some 2,000 places,
    and jobs that have ended take theirs for MinJobAge, 300 s.
    """
    person = pwd.getpwnam(user)
    start = ("setpriv", f"--reuid={user}", f"--regid={person.pw_gid}", "--clear-groups", "--")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        argv = cluster.argv("squeue")
        took.squeue.append(spawn_seconds([*start, *argv], cluster.environment))
        # The job's file has in its name when sbatch began.
        wrap = f"date +%s.%N > {room}/{time.time():.6f}"
        argv = cluster.argv("sbatch", "-D", "/tmp", "-o", "/dev/null", "--wrap", wrap)
        took.sbatch.append(spawn_seconds([*start, *argv], cluster.environment))
        time.sleep(_PAUSE_S)


def count_starts(cluster: Cluster, user: str, room: str, took: Took, after: str) -> None:
    """Wait until the user's jobs have ended, and add up how long each took to start."""
    wait_for(
        lambda: not cluster.run("squeue", "-h", "-u", user).strip(), 60,
        f"the end of {user}'s jobs after {after}",
    )  # fmt: skip
    names = os.listdir(room)
    for name in names:
        path = os.path.join(room, name)
        took.starts.append(float(Path(path).read_text()) - float(name))
        os.unlink(path)
    if len(took.starts) != len(took.sbatch):
        sys.exit(
            f"bench: error: after {after} {len(took.starts)} of {len(took.sbatch)} jobs "
            f"of {user} have started"
        )


def resident_mib(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / (1 << 20)


def pid_behind(path: str) -> int:
    """Return the process that listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)
        raw = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid: int = struct.unpack("iII", raw)[0]
    return pid


def share(values: list[float], part: float) -> float:
    """Return a percentile in milliseconds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1e3


def row_of(name: str, took: Took, mib: float) -> dict[str, object]:
    """Return a line of the table."""
    p99_ms = share(took.squeue, 0.99)
    return {
        "attack": name,
        "commands": len(took),
        "squeue_p50_ms": share(took.squeue, 0.5),
        "squeue_p99_ms": p99_ms,
        "squeue_max_ms": max(took.squeue) * 1e3,
        "sbatch_p50_ms": share(took.sbatch, 0.5),
        "sbatch_max_ms": max(took.sbatch) * 1e3,
        "starts": len(took.starts),
        "start_p50_ms": share(took.starts, 0.5),
        "start_p99_ms": share(took.starts, 0.99),
        "start_max_ms": max(took.starts) * 1e3,
        "slurmctld_mib": mib,
        "limit_ms": LIMIT_S * 1e3,
        "ok": p99_ms <= LIMIT_S * 1e3,
    }


def main() -> None:
    parse = parser(__doc__ or "")
    parse.formatter_class = argparse.RawDescriptionHelpFormatter
    parse.add_argument("--attacker", default="nobody")
    parse.add_argument("--user", default="games")
    parse.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    parse.add_argument("--only", default="", help="attacks whose names contain this")
    parse.add_argument("--loop", action="store_true", help="one row for all attacks together")
    parse.add_argument("--rounds", type=int, default=1, help="how often each attack is run")
    options = parse.parse_args()
    cluster = clusters(options)[0]
    sockets = daemon_sockets(cluster)
    controller = pid_behind(sockets["slurmctld"])
    names = [name for name in ATTACKS if options.only in name]
    took_in_row: dict[str, Took] = {}
    mib: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as room:
        os.chmod(room, 0o711)
        files = os.path.join(room, "starts")
        os.mkdir(files)
        os.chown(files, pwd.getpwnam(options.user).pw_uid, -1)
        for name in names * options.rounds:
            row = "all in a loop" if options.loop else name
            took = took_in_row.setdefault(row, Took())
            child = begin(name, options.attacker, sockets)
            try:
                time.sleep(min(2.0, options.seconds / 4))
                timed(cluster, options.user, options.seconds, files, took)
                mib[row] = max(mib.get(row, 0.0), resident_mib(controller))
            finally:
                end(child, name)
            count_starts(cluster, options.user, files, took, name)
    rows = [row_of(name, took, mib[name]) for name, took in took_in_row.items()]
    show(options, f"another user beside the attacks of one, {options.seconds:.0f} s each", rows)


if __name__ == "__main__":
    main()
