"""A slurmdbd in this process, on a private Unix socket; and events as a controller records them."""

from __future__ import annotations

import asyncio
import calendar
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd import registration, schema, show
from pyslurm_ng.dbd.admin.change import actor_of
from pyslurm_ng.dbd.admin.verbs import Caller, change
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.ingest.batches import Frame, ingest
from pyslurm_ng.dbd.service import Service, Settings
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import GresAlloc, JobRequest, NodeAlloc, Step, Usage
from pyslurm_ng.model.node import NodeGres, NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.wire.daemon_link import socket_file
from pyslurm_ng.wire.dbd_messages import (
    Assignment,
    ChangeEntities,
    ChangeResult,
    ClusterRegistered,
    ListEntities,
    RegisterCluster,
)
from pyslurm_ng.wire.stream import StreamServer

SECOND = 1_000_000
JOURNAL = "journal-1"
PORT = 16819

Prepare = Callable[[Database], None]
OpenStore = Callable[..., Database]
"""Opens a store; the argument, if any, is a `Prepare`: what has been done to it."""


def at(clock: str) -> int:
    """Return a moment of 20 November 2026, UTC, in microseconds."""
    moment = time.strptime(f"2026-11-20T{clock}", "%Y-%m-%dT%H:%M:%S")
    return calendar.timegm(moment) * SECOND


def register(
    database: Database,
    journal_id: str = JOURNAL,
    store_flags: Sequence[str] = ("job_script",),
    cluster: str = "demo",
    tres: Sequence[str] = ("gres/gpu", "gres/gpu:a100"),
) -> ClusterRegistered:
    """Register a cluster as its controller does."""
    request = RegisterCluster(
        cluster=cluster,
        control_host="127.0.0.1",
        control_port=6817,
        journal_id=journal_id,
        tres=list(tres),
        store_flags=list(store_flags),
    )
    return registration.register(database, request)


def record(database: Database, *events: ev.AnyEvent) -> int:
    """Store one batch of events behind those before; return its sequence."""
    with database.read() as connection:
        after = connection.execute(sa.select(schema.cursors.c.sequence)).scalar() or 0
    frame = Frame(1, after + 1, list(events))
    return ingest(database, 1, JOURNAL, after, [frame])[1]


def configured(time_us: int) -> ev.ConfigLoaded:
    """Four nodes, the first two with GPUs; two partitions."""
    gpus = (NodeGres("gpu", "a100", 4),)
    nodes = tuple(
        NodeSpec(f"n{number}", cpus=16, real_memory_mib=64000, gres=gpus if number < 3 else ())
        for number in range(1, 5)
    )
    return ev.ConfigLoaded(time_us, "demo", nodes, (Partition("main"), Partition("gpu")))


def on(number: int, cpus: int = 1, mem_mib: int = 1000, gpus: int = 0) -> NodeAlloc:
    """What a job holds on node n<number>."""
    gres = (GresAlloc("gpu", "a100", gpus),) if gpus else ()
    return NodeAlloc(number - 1, cpus, b"\1", mem_mib, 1, gres)


def submitted(time_us: int, job_id: int, **request: object) -> ev.JobSubmitted:
    """A batch job of alice in partition main."""
    fields: dict[str, object] = {
        "work_dir": "/home/alice",
        "mem_per_cpu_mib": 1000,
        "name": f"job{job_id}",
        "ntasks": 1,
        **request,
    }
    array = fields.pop("array_pending", ())
    limit = fields.pop("array_limit", 0)
    eligible = fields.pop("eligible_us", time_us)
    minutes = fields.pop("time_limit_min", 60)
    return ev.JobSubmitted(
        time_us,
        job_id,
        JobRequest(**fields),  # type: ignore[arg-type]
        1001,
        1001,
        "alice",
        "alice",
        "physics",
        "normal",
        5,
        "main",
        minutes,  # type: ignore[arg-type]
        script_hash="digest",
        eligible_us=eligible,  # type: ignore[arg-type]
        array_pending=array,  # type: ignore[arg-type]
        array_limit=limit,  # type: ignore[arg-type]
    )


def started(time_us: int, job_id: int, *nodes: NodeAlloc, partition: str = "main"
            ) -> list[ev.AnyEvent]:  # fmt: skip
    """A job's allocation and its batch step on the first node."""
    return [
        ev.JobAllocated(time_us, job_id, partition, nodes, nodes[0].node_id, len(nodes), 1),
        ev.StepCreated(
            time_us, job_id, Step(STEP_BATCH, "batch", 1001, 1, nodes[0].cpus, nodes[:1], time_us)
        ),
    ]


def finished(
    time_us: int, job_id: int, state: int, status: int, usage: Usage | None = None, **more: int
) -> list[ev.AnyEvent]:
    """The end of a job whose batch step ends with it; `more` goes to JobCompleting."""
    step_state = 3 if not status else 4 if status & 0x7F else 5
    return [
        ev.JobCompleting(time_us, job_id, state, status, 0, 1, (0,), **more),  # type: ignore[arg-type]
        ev.StepEnded(time_us, job_id, STEP_BATCH, step_state, status, usage),
        ev.JobEnded(time_us, job_id, state),
    ]


def rows(database: Database, table: sa.Table, *columns: str) -> list[tuple[object, ...]]:
    """Return columns of all rows, in order of the table's key."""
    keys = list(table.primary_key.columns)
    with database.read() as connection:
        query = sa.select(*[table.c[name] for name in columns]).order_by(*keys)
        return [tuple(row) for row in connection.execute(query)]


def assignments(words: list[str]) -> list[Assignment]:
    """Return `key=value` words as the command sends them."""
    rows = []
    for word in words:
        key, equals, value = word.partition("=")
        op = f"{key[-1]}=" if equals and key[-1] in "+-" else "="
        rows.append(
            Assignment(key.rstrip("+-"), op, value) if equals else Assignment("", "=", word)
        )
    return rows


def manage(
    database: Database, line: str, user: str = "root", uid: int = 0, commit: bool = True
) -> ChangeResult:
    """Do one sacctmgr change, given as the words behind `sacctmgr -i`; quotes are not read."""
    verb, entity, *words = line.split()
    where: list[str] = []
    settings: list[str] = []
    target = where
    for word in words:
        if word in ("where", "set"):
            target = where if word == "where" else settings
        else:
            target.append(word)
    request = ChangeEntities(verb, entity, assignments(where), assignments(settings), commit)
    return change(database, request, Caller(uid, user, uid == 0))


def at_noon(database: Database) -> None:
    """Let a store know cluster demo and its nodes since noon."""
    register(database)
    record(database, configured(at("12:00:00")))


@functools.cache
def managed(lines: tuple[str, ...]) -> Prepare:
    """Return what registers cluster demo and does these changes of sacctmgr."""

    def prepare(database: Database) -> None:
        register(database)
        for line in lines:
            assert manage(database, line).exit_code == 0, line

    return prepare


def listed(
    database: Database,
    entity: str,
    words: str = "",
    *flags: str,
    uid: int = 0,
    user: str = "root",
    private: frozenset[str] = frozenset(),
) -> list[dict[str, object]]:
    """Return the rows by field that sacctmgr shows a user, before slurmctld is asked."""
    request = ListEntities(entity, assignments(words.split()), list(flags))
    with database.read() as connection:
        actor = actor_of(connection, uid, user, uid == 0)
        answer = show.list_entities(connection, request, actor, private)
    columns = project(answer.records, range(len(answer.fields)))
    return [dict(zip(answer.fields, row, strict=True)) for row in columns]


@dataclass
class Room:
    """A running slurmdbd and its database."""

    database: Database
    conf_path: Path
    socket_path: str
    service: Service
    loop: asyncio.AbstractEventLoop


@contextlib.contextmanager
def serving(database: Database, directory: Path, port: int = PORT) -> Iterator[Room]:
    """Serve `database` on a socket below `directory`, from a loop in a thread of its own.

    Args:
        port: names the socket; nothing listens there.
    """
    pid_file = f"{directory}/slurmctld.pid"
    conf_path = directory / "slurm.conf"
    conf_path.write_text(
        "ClusterName=demo\nSlurmctldHost=localhost\nAuthType=auth/slurm\n"
        f"SlurmctldPidFile={pid_file}\nAccountingStorageType=accounting_storage/slurmdbd\n"
        f"AccountingStorageHost=localhost\nAccountingStoragePort={port}\n"
    )
    path = socket_file("slurmdbd", pid_file, port)
    begun = threading.Event()
    made: list[Room] = []
    stop = asyncio.Event()

    async def main() -> None:
        log = DaemonLog("slurmdbd")
        log.stderr_level = QUIET
        service = Service(
            database,
            Settings("ctl", os.geteuid(), frozenset(), ()),
            log,
            on_shutdown=stop.set,
            on_reconfigure=lambda: None,
        )
        server = StreamServer(
            service.handle,
            audience="slurmdbd",
            host="ctl",
            service_uid=os.geteuid(),
            authenticator=None,
        )
        await server.listen_unix(path)
        loop = asyncio.get_running_loop()
        made.append(Room(database, conf_path, path, service, loop))
        begun.set()
        await stop.wait()
        await server.close()
        await loop.run_in_executor(None, service.close)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert begun.wait(60)
    try:
        yield made[0]
    finally:
        made[0].loop.call_soon_threadsafe(stop.set)
        thread.join(20)


@contextlib.contextmanager
def serving_story(directory: Path, story: Iterable[Sequence[ev.AnyEvent]]) -> Iterator[Room]:
    """Serve a new store that has the jobs of a story."""
    with contextlib.closing(Database(sqlite_url(f"{directory}/a.sqlite"))) as database:
        database.open()
        register(database)
        for events in story:
            record(database, *events)
        with serving(database, directory) as room:
            yield room


def utc(patch: pytest.MonkeyPatch) -> None:
    """Print times in UTC."""
    patch.setenv("TZ", "UTC")
    time.tzset()
