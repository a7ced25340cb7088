"""Requests of slurmdbd: one thread writes, a few read, the loop answers.

Nothing here blocks the loop. The writing thread owns the only writing transactions, so they
never wait for each other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Container, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from pyslurm_ng import __version__
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.dbd import queries, registration, show
from pyslurm_ng.dbd.admin.change import (
    Actor,
    DeniedError,
    RefusedError,
    actor_of,
    refuse_denied,
)
from pyslurm_ng.dbd.admin.words import UnknownWordError, unknown_condition_text
from pyslurm_ng.dbd.association_calls import AssociationCalls
from pyslurm_ng.dbd.call_counts import CallCounts
from pyslurm_ng.dbd.changes import Changes, is_service, user_name
from pyslurm_ng.dbd.controllers import Controllers, OfController
from pyslurm_ng.dbd.database import Database, error_text, is_cut_short, with_retries
from pyslurm_ng.dbd.ingest.batches import ingest
from pyslurm_ng.dbd.ingest.frames import Problem, decode_frame
from pyslurm_ng.dbd.purge.calls import ArchiveCalls
from pyslurm_ng.dbd.purge.duty import Purge
from pyslurm_ng.dbd.purge.rules import Policy
from pyslurm_ng.dbd.query_range import refuse_wide_range
from pyslurm_ng.dbd.readers import Query, Readers
from pyslurm_ng.dbd.reports.answers import REQUESTS, report
from pyslurm_ng.dbd.reports.share_usage import share_usage
from pyslurm_ng.dbd.writer import Work, Writer
from pyslurm_ng.wire import dbd_messages as msg
from pyslurm_ng.wire.messages import Done, Ping, Pong, Reconfigure, Shutdown
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.stream import Call

PATIENCE_S = 8
"""How long a request waits for a database that does not answer.

A controller's batch is refused then and sent again: the journal is the queue, and users' changes
must not wait behind it."""
T = TypeVar("T")
TOO_LONG = "the query took too long: name fewer jobs, or a shorter time with -S and -E"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the service needs."""

    host: str
    service_uid: int
    private: frozenset[str]
    config_pairs: tuple[tuple[str, str], ...]
    purge: Policy = field(default_factory=Policy)
    has_coordinators: bool = True
    most_range_s: int = INFINITE


class Service:
    """Answers the calls of a stream server.

    Attributes:
        records: journal events stored since the start.
        retries: transactions that were tried again after a database error.
        faults: rows set aside, internal errors and errors of the database, by kind.
        purge: removes old records.
        settings: what the next request goes by.
        counts: calls and roll-ups, and how long they took.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        log: DaemonLog,
        *,
        on_shutdown: Callable[[], None],
        on_reconfigure: Callable[[], None],
    ) -> None:
        self._database = database
        self.settings = settings
        self._log = log
        self._on_shutdown = on_shutdown
        self._on_reconfigure = on_reconfigure
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._readers = Readers(self._loop, self._internal)
        self._operators: set[int] = set()  # uids seen so far: their queries go first
        self._association_calls = AssociationCalls(
            database, self._readers, post=self._post, note_error=self._note_database_error
        )
        self.faults = Faults(log)
        self._cluster_ids: dict[str, int] = {}  # `ingest` refuses those that are deleted
        self.records = self.retries = 0
        self.counts = CallCounts()
        self._controllers = Controllers(self.faults)
        self._changes = Changes(
            database,
            settings.service_uid,
            has_coordinators=settings.has_coordinators,
            patiently=self._patiently,
            tell=lambda: self._post(self._association_calls.tell_all),
        )
        self.writer = Writer(post=self._post, bug=self._internal, faults=self.faults)
        self.purge = Purge(database, self.writer.run, self.faults, settings.purge)
        self._archives = ArchiveCalls(
            database, self.purge, self.faults, actor_of=self._actor, post=self._post
        )

    def handle(self, call: Call) -> None:
        """Take one request; the stream server's handler."""
        begun = time.monotonic_ns()
        request = call.request
        if isinstance(request, OfController) and not self._controllers.admit(call, request):
            return
        match request:
            case msg.JournalBatch():
                self._write(call, lambda: self._journal_batch(request), begun)
            case msg.RegisterCluster():
                self._write(call, lambda: self._register(request), begun)
            case msg.RegisterExternal():
                external = partial(registration.register_external, self._database, request)
                self._write(call, lambda: self._patiently(external), begun)
            case msg.CompareJobs():
                self._write(call, lambda: registration.compare(self._database, request), begun)
            case msg.RewindJournal():
                self._write(call, lambda: self._rewind(request), begun)
            case msg.ChangeEntities() | msg.LoadFile():
                self._write(call, lambda: self._changes.make(call.peer.uid, request), begun)
            case msg.ArchiveDump() | msg.ArchiveLoad():
                self._archives.take(call, request)
            case msg.AwaitAssociations():
                self._association_calls.park(call, request)
            case msg.ReadUsage():
                self._read(call, lambda at: share_usage(at, request), begun)
            case msg.ListJobRecords():
                listing = partial(self._list_jobs, request=request)
                self._association_calls.newest.hold(
                    request.clusters,
                    lambda behind: self._submit(call, partial(listing, is_behind=behind), begun),
                )
            case msg.ListEntities():
                shown_to = partial(show.list_entities, keeps_users=self._database.keeps_users)
                self._read(call, lambda at: self._shown(shown_to, at, call), begun)
            case _ if isinstance(request, REQUESTS):
                self._read(call, lambda at: self._shown(report, at, call), begun)
            case msg.GetJobScript():
                self._read(call, lambda at: self._job_text(at, call, request), begun)
            case msg.ShowDbdStats():
                self._read(call, lambda at: self._stats(at, call, request.clear), begun)
            case msg.ShowDbdConfig():
                call.reply(msg.DbdConfig(list(self.settings.config_pairs)))
            case Ping():
                now_us = time.time_ns() // 1000
                call.reply(Pong(self.settings.host, "accounting", f"slurm {__version__}", now_us))
            case Shutdown():
                call.reply(Done())
                self._loop.call_soon(self._on_shutdown)
            case Reconfigure():
                self._on_reconfigure()
                call.reply(Done())
            case _:
                call.error(Errno.SLURM_UNEXPECTED_MSG_ERROR, f"{call.kind} is not for slurmdbd")

    def close(self) -> None:
        """Finish the current write and drop the rest; nothing that was acknowledged is lost."""
        self._stopping.set()
        self.purge.thread.close()
        self.writer.close()
        self._archives.close()
        self.purge.thread.join()
        self._readers.close()
        self._association_calls.close()

    # Writing ----------------------------------------------------------------------------------

    def _write(self, call: Call, work: Work, begun: int) -> None:
        def timed() -> msgspec.Struct:
            try:
                return work()
            finally:
                self.counts.count(call, begun)

        self.writer.put(call, _lane(call, self._operators), timed)

    def _post(self, function: Callable[..., Any], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _patiently(self, action: Callable[[], Any]) -> Any:
        """Run a transaction until it succeeds, at most for `PATIENCE_S`."""
        began_s = time.monotonic()

        def pause(attempt: int) -> bool:
            self.retries += 1
            wait_s = min(0.05 * 2**attempt, 10.0)
            if time.monotonic() + wait_s - began_s > PATIENCE_S:
                return False
            return not self._stopping.wait(wait_s)

        return with_retries(action, pause, self._note_database_error)

    def _internal(self, call: Call, bug: BaseException) -> None:
        """Record a bug in the answer to one request; only that request fails."""
        self.faults.note("internal", f"{call.kind} of uid {call.peer.uid}: internal error", bug)
        text = "Slurm internal error, contact system administrator"
        self._post(call.error, Errno.ESLURM_INTERNAL, text)

    def _note_database_error(self, error: BaseException) -> None:
        self.faults.note("database", f"accounting database: {error_text(error)}")

    def _journal_batch(self, request: msg.JournalBatch) -> msg.BatchAck:
        frames = [
            decode_frame(frame.epoch, frame.sequence, frame.payload, frame.checksum, frame.fault)
            for frame in request.frames
        ]
        cluster_id = self._cluster_ids.get(request.cluster)
        if cluster_id is None:
            cluster_id = self._patiently(lambda: self._cluster_id(request.cluster))
        self._cluster_ids[request.cluster] = cluster_id
        where = self._database, cluster_id, request.journal_id, request.after
        epoch, sequence, count = self._patiently(lambda: ingest(*where, frames, self._note_problem))
        self.records += count
        self._post(self._association_calls.newest.stored, request.cluster, sequence)
        return msg.BatchAck(epoch, sequence)

    def _note_problem(self, problem: Problem, error: BaseException | None) -> None:
        self.faults.note("row", problem_text(problem), error)

    def _cluster_id(self, name: str) -> int:
        with self._database.read() as connection:
            return registration.known_cluster(connection, name)

    def _register(self, request: msg.RegisterCluster) -> msg.ClusterRegistered:
        is_early = self._controllers.others_may_return
        answer: msg.ClusterRegistered = self._patiently(
            lambda: registration.register(self._database, request, others_may_return=is_early)
        )
        self._log.info(
            f"cluster {request.cluster} registered from {request.control_host}:"
            f"{request.control_port}, journal stored up to {answer.sequence}"
        )
        self._post(self._association_calls.newest.registered, request.cluster, answer.sequence)
        self._post(self._association_calls.tell_all)
        return answer

    def _rewind(self, request: msg.RewindJournal) -> Done:
        self._patiently(lambda: registration.rewind(self._database, request))
        self._post(self._association_calls.newest.registered, request.cluster, request.sequence)
        self._log.error(
            f"cluster {request.cluster} has lost what is stored behind record {request.sequence} "
            "of its journal (a restored backup, or damage); open jobs that it does not know have "
            "ended here"
        )
        return Done()

    # Reading ----------------------------------------------------------------------------------

    def _read(
        self, call: Call, query: Callable[[sa.Connection], msgspec.Struct], begun: int
    ) -> None:
        """Answer with one query."""

        def steps(asked: Query) -> Iterator[bool]:
            answer = yield from read_in_turn(self._database, asked, query)
            self._post(call.reply, answer)

        self._submit(call, steps, begun)

    def _submit(self, call: Call, steps: Callable[[Query], Iterator[bool]], begun: int) -> None:
        self._readers.submit(
            call,
            _lane(call, self._operators),
            lambda asked: self._answering(call, steps(asked)),
            lambda: self.counts.count(call, begun),
        )

    def _answering(self, call: Call, steps: Iterator[bool]) -> Iterator[bool]:
        """Take the steps of a query; if an error stops it, answer with the error."""
        try:
            yield from steps
        except UnknownWordError as error:
            self._post(call.error, int(Errno.ESLURM_BAD_NAME), unknown_condition_text(error.text))
        except RefusedError as error:
            is_denied = isinstance(error, DeniedError)
            number = Errno.ESLURM_ACCESS_DENIED if is_denied else Errno.ESLURM_BAD_NAME
            self._post(call.error, int(number), "\n".join(error.lines))
        except sa.exc.SQLAlchemyError as error:
            text = TOO_LONG if is_cut_short(error) else error_text(error)
            self._post(call.error, int(Errno.ESLURM_DB_CONNECTION), text)
        except Exception as bug:  # noqa: BLE001 - reported; the pool must go on
            self._internal(call, bug)

    def _actor(self, connection: sa.Connection, call: Call) -> Actor:
        uid = call.peer.uid
        settings = self.settings
        is_trusted = is_service(uid, settings.service_uid)
        actor = actor_of(connection, uid, user_name(uid), is_trusted, settings.has_coordinators)
        if actor.is_operator:
            self._operators.add(uid)
        else:
            self._operators.discard(uid)
        return actor

    def _asker(self, connection: sa.Connection, call: Call) -> Actor:
        """Return the caller of a query that is not about too long a time."""
        actor = self._actor(connection, call)
        now_us = time.time_ns() // 1000
        refuse_wide_range(call.request, actor, self.settings.most_range_s, now_us)
        return actor

    def _shown(
        self, shown_to: Callable[..., msgspec.Struct], at: sa.Connection, call: Call
    ) -> msgspec.Struct:
        """Return what an answer shows to the caller."""
        return shown_to(at, call.request, self._asker(at, call), self.settings.private)

    def _job_text(
        self, connection: sa.Connection, call: Call, request: msg.GetJobScript
    ) -> msg.JobScript:
        actor = self._actor(connection, call)
        text = queries.job_text(connection, request, actor)
        return msg.JobScript(text or "", is_known=text is not None)

    def _list_jobs(
        self, asked: Query, request: msg.ListJobRecords, *, is_behind: bool
    ) -> Iterator[bool]:
        """Send one part of the answer at each step."""

        def begin(connection: sa.Connection) -> queries.JobListing:
            actor, now_us = self._asker(connection, asked.call), time.time_ns() // 1000
            is_private = "jobs" in self.settings.private
            return queries.JobListing(connection, request, actor, is_private, now_us, is_behind)

        listing = yield from read_in_turn(self._database, asked, begin)
        while True:
            yield False
            part = yield from read_in_turn(self._database, asked, listing.next_part)
            if listing.is_done:
                self._post(asked.call.reply, part)
                return
            self._post(asked.call.part, part)

    def _stats(self, connection: sa.Connection, call: Call, is_clear: bool) -> msg.DbdStats:
        """Return the counts, which name users, to administrators; begin anew if they ask so."""
        if not self._actor(connection, call).is_administrator:
            raise refuse_denied()
        answer = self.counts.stats(self.records, self.retries, self.faults.counts)
        if is_clear:
            self.counts.clear()
            self.faults.reset()
        return answer


def problem_text(problem: Problem) -> str:
    """Return the line of the log about an event that is set aside."""
    return (
        f"{problem.kind} of job {problem.job_id} (record {problem.sequence} of the journal) "
        f"is set aside, see `sacctmgr show problem`: {problem.error}"
    )


def read_in_turn(
    database: Database, asked: Query, read: Callable[[sa.Connection], T]
) -> Generator[bool, None, T]:
    """Read something at once; or, if it takes long, again on a thread that has the time."""
    while True:
        most_s = max(asked.deadline_s - time.monotonic(), 0.001)
        try:
            with database.read(most_s, lambda: asked.is_wanted) as connection:
                answer = read(connection)
        except sa.exc.SQLAlchemyError as error:
            if not (is_cut_short(error) and asked.cut_short()):
                raise
        else:
            asked.level = 0  # what follows is judged anew
            return answer
        yield False


def _lane(call: Call, operators: Container[int]) -> int:
    """Return whose turn a call takes: its user's, or that of administrators and daemons."""
    peer = call.peer
    return PRIVILEGED if peer.role != "user" or peer.uid in operators else call.holder.lane
