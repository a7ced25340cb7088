"""Both sides of the link to slurmdbd: a journal with what sends it, and a slurmdbd."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.ctld.followers.dbd_link import DbdLink, PastUsage
from pyslurm_ng.ctld.history import History
from pyslurm_ng.ctld.recover import recover_cluster
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.log import ERROR, QUIET, DaemonLog
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.service import Service, Settings
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner, TokenAuthenticator
from pyslurm_ng.wire.dbd_messages import (
    AssociationUpdate,
    RegisterCluster,
)
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.stream import StreamServer
from tests.dbd.accounting_room import at, configured, on, started, submitted
from tests.journal.journal_room import Room as JournalRoom

T = at("12:00:00")

NOW_US = 1_800_000_000_000_000


def identity(role: str, cluster: str = "demo", secret: bytes = b"k" * 64) -> Identity:
    """Return how a daemon of a cluster proves itself; slurmdbd serves every cluster."""
    key = Key.from_secret(secret)
    authenticator = TokenAuthenticator(
        key, cluster, "ctl", 0, lambda: NOW_US, serves_all=role == "slurmdbd"
    )
    return Identity(
        authenticator, KeyCredentialSigner(key), Peer(0, 0, 0, role, "ctl", "ctl", "own")
    )


class Accounting:
    """A slurmdbd on the test's own loop that can be stopped and started."""

    def __init__(self, directory: Path, database: Database | None = None) -> None:
        self.path = str(directory / "dbd.sock")
        self.database = database or Database(sqlite_url(f"{directory}/acct.sqlite"))
        self.database.open()
        self._is_running = False
        self._log = DaemonLog("slurmdbd")
        self._log.stderr_level = QUIET

    async def start(self) -> None:
        self._is_running = True
        self._service = Service(
            self.database,
            Settings("ctl", 0, frozenset(), ()),
            self._log,
            on_shutdown=lambda: None,
            on_reconfigure=lambda: None,
        )
        self._server = StreamServer(
            self._service.handle,
            audience="slurmdbd",
            host="ctl",
            service_uid=0,
            authenticator=identity("slurmdbd").authenticator,
        )
        await self._server.listen_unix(self.path)

    async def stop(self) -> None:
        await self._server.close()
        await asyncio.get_running_loop().run_in_executor(None, self._service.close)
        self.database.close()
        self._is_running = False

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Look at what is stored; also after the end, when no connection may stay open."""
        try:
            with self.database.read() as connection:
                yield connection
        finally:
            if not self._is_running:
                self.database.close()

    def job_ids(self) -> list[int]:
        with self.read() as connection:
            query = sa.select(schema.jobs.c.job_id).order_by(schema.jobs.c.job_index)
            return list(connection.execute(query).scalars())


class SendingController:
    """A journal and the link that sends it."""

    def __init__(
        self,
        directory: Path,
        accounting: Accounting,
        segment_bytes: int = 64 << 20,
        past: PastUsage | None = None,
    ) -> None:
        log = DaemonLog("slurmctld")
        log.stderr_level = QUIET
        (directory / "state").mkdir()
        self.room = JournalRoom(directory / "state")
        self.writer = self.room.start(segment_bytes=segment_bytes)
        self.updates: list[AssociationUpdate] = []
        self.faults = Faults(log)
        cluster = Cluster()
        apply_all(cluster, [ev.EpochStarted(T, 1, "ctl")])
        cluster.next_job_id = 1_000_000  # the tests write jobs past this cluster
        soon = asyncio.get_running_loop().call_soon
        books = Writer(cluster, self.writer, call_soon=soon, on_bug=lambda text, error: None)
        self.link = DbdLink(
            identity=identity("slurmctld"),
            places=[(accounting.path, 0), ("127.0.0.1", 1)],
            registration=RegisterCluster("demo", "ctl", 6817, "journal-1"),
            journal=self.room.layout.journal,
            durable=lambda: self.writer.durable,
            on_update=self.updates.append,
            log=log,
            faults=self.faults,
            history=History(books, lambda: T, "ctl", log, self.faults),
            past=past,
        )
        self.task = asyncio.get_running_loop().create_task(self.link.run())

    async def write(self, *events: ev.AnyEvent) -> int:
        sequence = self.writer.append(encode_batch(list(events)))
        await until(lambda: self.writer.durable >= sequence)
        self.link.wake()
        return sequence

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.writer.close()


def start_of(cluster: Cluster, job_id: int) -> list[ev.AnyEvent]:
    """Return the events of a job's start on n1."""
    allocated, step = started(T, job_id, on(1))
    assert isinstance(allocated, ev.JobAllocated)
    duty_id = cluster.next_duty_id
    begun = ev.DutiesDone(T, ((0, duty_id),))
    return [msgspec.structs.replace(allocated, first_duty_id=duty_id), step, begun]


class ControllerLife:
    """One controller process over a state directory; `lines` has what it logged as errors."""

    def __init__(
        self,
        state: Path,
        accounting: Accounting,
        *,
        ignore_errors: bool = False,
        cluster: str = "demo",
        host: str = "ctl",
        secret: bytes = b"k" * 64,
    ) -> None:
        loop = asyncio.get_running_loop()
        layout = Layout(state)
        layout.create()
        recovery = Recovery(layout, ignore_errors=ignore_errors)
        self.cluster, _ = recover_cluster(recovery, ScriptStore(state / "scripts"))
        self.lines: list[str] = []
        log = DaemonLog("slurmctld", lambda _, text: self.lines.append(text))
        log.stderr_level, log.syslog_level = QUIET, ERROR
        epoch = max(recovery.next_epoch, self.cluster.epoch + 1)
        self.journal = JournalWriter(
            layout.journal,
            recovery.journal_id,
            recovery.position._replace(epoch=epoch),
            first_sequence=recovery.next_sequence,
            on_durable=lambda batch: loop.call_soon_threadsafe(self.writer.on_durable, batch),
            on_fatal=lambda why: None,
            reserve=Reserve(layout.reserve),
        )
        self.writer = Writer(
            self.cluster, self.journal, call_soon=loop.call_soon, on_bug=lambda text, error: None
        )
        self.writer.record([ev.EpochStarted(T, epoch, "ctl")])
        if not self.cluster.nodes:
            self.writer.record([configured(T)])
        faults = Faults(log)
        self.history = History(self.writer, lambda: T, "ctl", log, faults)
        self.link = DbdLink(
            identity=identity("slurmctld", cluster, secret),
            places=[(accounting.path, 0), ("127.0.0.1", 1)],
            registration=RegisterCluster(cluster, host, 6817, recovery.journal_id.hex()),
            journal=layout.journal,
            durable=lambda: self.writer.durable,
            on_update=lambda update: None,
            log=log,
            faults=faults,
            history=self.history,
            start=recovery.position.sequence,
        )
        self.writer.follow(self.link.wake)
        self.task = loop.create_task(self.link.run())

    def submit(self, count: int) -> list[int]:
        """Accept some jobs; return their ids."""
        job_ids = []
        for _ in range(count):
            job_ids.append(free_job_id(self.cluster))
            self.writer.record([submitted(T, job_ids[-1])])
        return job_ids

    def start(self, job_id: int) -> None:
        """Start a job on n1."""
        self.writer.record(start_of(self.cluster, job_id))

    def end(self, job_id: int, state: JobState = JobState.COMPLETED, status: int = 0) -> None:
        """End a job's run; its node is clean."""
        job, end = self.cluster.jobs[job_id], job_end.End(state, status)
        clean = frozenset((0,))
        self.writer.record(job_end.complete(self.cluster, job, end, T, clean_nodes=clean))

    async def stored(self) -> None:
        """Wait until slurmdbd has everything."""
        self.writer.flush()
        await until(lambda: self.link.acknowledged >= self.journal.appended)

    async def close(self) -> None:
        self.writer.flush()
        await until(lambda: self.writer.durable >= self.journal.appended)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.writer.close()
        self.journal.close()
        assert check(self.cluster) == []


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so; a test that waits for ever is cut from outside."""
    while not condition():
        await asyncio.sleep(0.001)


def play(directory: Path, story: Callable[[Accounting, SendingController], Awaitable[None]],
         segment_bytes: int = 64 << 20, database: Database | None = None,
         past: PastUsage | None = None) -> Accounting:  # fmt: skip
    """Run a story of a slurmdbd and a controller."""
    accounting = Accounting(directory, database)

    async def main() -> None:
        await accounting.start()
        controller = SendingController(directory, accounting, segment_bytes, past)
        try:
            await asyncio.wait_for(story(accounting, controller), 60)
        finally:
            await controller.close()
            await accounting.stop()

    asyncio.run(main())
    return accounting
