"""RELIABILITY 46: one user's queries of accounting are no more than one user's turn."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd import readers, service as service_module
from pyslurm_ng.dbd.database import Database, is_cut_short
from pyslurm_ng.dbd.options import Options, load_configuration
from pyslurm_ng.dbd.readers import Query, Readers
from pyslurm_ng.dbd.service import TOO_LONG, Service, Settings
from pyslurm_ng.wire import frame
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner, TokenAuthenticator
from pyslurm_ng.wire.dbd_messages import (
    DbdStats,
    JobRecords,
    JobSelector,
    ListJobRecords,
    ShowDbdStats,
)
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.report_messages import ListJobSizes
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.stream import StreamServer
from pyslurm_ng.wire.stream_client import LinkError, StreamLink, connect_link
from tests.dbd.accounting_room import at, configured, record, register, submitted

NOW_US = 1_800_000_000_000_000
KEY = Key.from_secret(b"k" * 64)
ALICE, BOB = 1001, 1002


def identity(uid: int) -> Identity:
    authenticator = TokenAuthenticator(KEY, "demo", "ctl", 0, lambda: NOW_US)
    peer = Peer(uid, uid, 0, "user", "ctl", "ctl", "own")
    return Identity(authenticator, KeyCredentialSigner(KEY), peer)


def play(
    database: Database,
    directory: Path,
    story: Callable[[Service, str], Awaitable[None]],
    most_range_s: int = INFINITE,
) -> None:
    """Run a story of users and a slurmdbd that holds 120 jobs."""
    register(database)
    record(database, configured(at("12:00:00")))
    record(database, *[submitted(at("12:00:00"), job_id) for job_id in range(1, 121)])

    async def main() -> None:
        log = DaemonLog("slurmdbd")
        log.stderr_level = QUIET
        settings = Settings("ctl", 0, frozenset(), (), most_range_s=most_range_s)
        service = Service(
            database, settings, log, on_shutdown=lambda: None, on_reconfigure=lambda: None
        )
        server = StreamServer(
            service.handle, audience="slurmdbd", host="ctl", service_uid=0,
            authenticator=identity(0).authenticator,
        )  # fmt: skip
        path = str(directory / "dbd.sock")
        await server.listen_unix(path)
        try:
            await asyncio.wait_for(story(service, path), 120)
        finally:
            await server.close()
            await asyncio.get_running_loop().run_in_executor(None, service.close)

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def heavy() -> ListJobRecords:
    """What costs most: as many selectors as a message may have."""
    selectors = [JobSelector(number, number) for number in range(1, 10_001)]
    return ListJobRecords(["job_id"], clusters=["demo"], jobs=selectors)


async def ask(link: StreamLink, request: ListJobRecords) -> JobRecords:
    answer = await link.request(request, 120)
    assert isinstance(answer, JobRecords)
    return answer


def test_two_hundred_queries_of_one_user_delay_another_by_one(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """H10: bob's sacct is answered while nearly all of alice's wait. Then hers are dropped."""

    async def story(service: Service, path: str) -> None:
        alice = await connect_link(identity(ALICE), "slurmdbd", path=path)
        bob = await connect_link(identity(BOB), "slurmdbd", path=path)
        flood = [asyncio.ensure_future(ask(alice, heavy())) for _ in range(200)]
        await until(lambda: service._readers.waiting > 60)
        before = sum(request.done() for request in flood)
        answer = await ask(bob, ListJobRecords(["job_id"], clusters=["demo"]))
        assert answer.fields == ["job_id"]
        assert sum(request.done() for request in flood) - before < 20
        alice.close()
        await asyncio.gather(*flood, return_exceptions=True)
        await until(lambda: service._readers.waiting == 0)
        assert "ListJobRecords" in [kind for kind, *_ in service.counts.stats(0, 0, {}).by_kind]
        bob.close()

    play(sqlite_database, tmp_path, story)


def test_operators_alone_see_and_clear_the_counts(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name users; and who attacks must not wipe away what administrators look at."""

    async def story(service: Service, path: str) -> None:
        alice = await connect_link(identity(ALICE), "slurmdbd", path=path)
        await ask(alice, ListJobRecords(["job_id"], clusters=["demo"]))
        monkeypatch.setattr(service_module, "is_service", lambda uid, service_uid: False)
        for clear in (False, True):
            with pytest.raises(LinkError, match="Access/permission denied") as refusal:
                await alice.request(ShowDbdStats(clear=clear), 60)
            assert refusal.value.code == Errno.ESLURM_ACCESS_DENIED
        assert service.counts.stats(0, 0, {}).by_kind
        monkeypatch.setattr(service_module, "is_service", lambda uid, service_uid: True)
        assert isinstance(await alice.request(ShowDbdStats(), 60), DbdStats)
        await alice.request(ShowDbdStats(clear=True), 60)
        alice.close()

    play(sqlite_database, tmp_path, story)


def test_more_selectors_than_allowed_are_refused_by_name(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """60,000 made a statement of megabytes; the refusal names the field and the bound."""

    async def story(_: Service, path: str) -> None:
        alice = await connect_link(identity(ALICE), "slurmdbd", path=path)
        many = [JobSelector(number) for number in range(10_001)]
        with pytest.raises(LinkError, match="jobs: at most 10000 items are allowed"):
            await alice.request(ListJobRecords(["job_id"], clusters=["demo"], jobs=many), 60)
        alice.close()

    play(sqlite_database, tmp_path, story)


def test_a_query_that_takes_too_long_is_ended(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user reads what to ask for instead, and the thread is free again."""
    monkeypatch.setattr(readers, "LIMIT_S", 0.0)

    async def story(_: Service, path: str) -> None:
        alice = await connect_link(identity(ALICE), "slurmdbd", path=path)
        with pytest.raises(LinkError, match="took too long"):
            await ask(alice, heavy())
        monkeypatch.setattr(readers, "LIMIT_S", 60.0)
        assert (await ask(alice, heavy())).fields == ["job_id"]
        alice.close()

    assert "-S" in TOO_LONG
    play(sqlite_database, tmp_path, story)


def test_the_database_ends_long_statements(database: Database) -> None:
    """In both dialects; the connection is as good as before, and others have no limit."""
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
        if database.is_sqlite
        else "SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b,"
        " information_schema.columns c"
    )
    asked = threading.Event()

    def is_wanted() -> bool:
        asked.set()
        return not database.is_sqlite

    with pytest.raises(sa.exc.DBAPIError) as caught, database.read(0.2, is_wanted) as connection:
        connection.exec_driver_sql(endless)
    assert is_cut_short(caught.value)
    assert asked.is_set() == database.is_sqlite
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        if not database.is_sqlite:
            limit = connection.exec_driver_sql("SELECT @@max_statement_time").scalar()
            assert limit == 0


class Peerless:
    """What Readers know of a call, without a connection."""

    def __init__(self) -> None:
        self.is_gone = False
        self.unsent_bytes = 0
        self.refused: list[int] = []

    def error(self, code: int, text: str) -> None:
        self.refused.append(code)


@contextlib.contextmanager
def room(loop: asyncio.AbstractEventLoop) -> Iterator[Readers]:
    bugs: list[BaseException] = []
    pool = Readers(loop, lambda _, bug: bugs.append(bug))
    yield pool
    pool.close()
    assert bugs == []


def blocked(gate: threading.Event, begun: list[int], lane: int
            ) -> Callable[[Query], Iterator[bool]]:  # fmt: skip
    """A query that holds its thread until the gate opens."""

    def steps(_: Query) -> Iterator[bool]:
        begun.append(lane)
        gate.wait(60)
        yield True

    return steps


def submit(pool: Readers, lane: int, steps: Callable[[Query], Iterator[bool]], call: Peerless
           ) -> None:  # fmt: skip
    pool.submit(call, lane, steps, lambda: None)  # type: ignore[arg-type]


def reading(
    gate: threading.Event, begun: list[int], taken: list[tuple[int, int]]
) -> Callable[[Query], Iterator[bool]]:
    """A statement that reads a whole table: cut short on threads with a limit, as is due."""

    def steps(asked: Query) -> Iterator[bool]:
        while True:
            taken.append((asked.lane, asked.level))
            if not asked.next_level:
                break
            while asked.is_wanted:
                gate.wait(0.001)
            assert asked.cut_short()
            yield False
        yield from blocked(gate, begun, asked.lane)(asked)

    return steps


@pytest.fixture
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LIMITS_S", [0.01, 0.02])


def test_administrators_have_a_thread_of_their_own() -> None:
    """However many users ask. No user can have all other threads."""

    async def story() -> None:
        gate, begun = threading.Event(), []  # type: ignore[var-annotated]
        others = range(3001, 3001 + readers.LONG_THREADS)
        with room(asyncio.get_running_loop()) as pool:
            for _ in range(10):
                submit(pool, ALICE, blocked(gate, begun, ALICE), Peerless())
            await until(lambda: begun == [ALICE, ALICE])
            for lane in others:
                submit(pool, lane, blocked(gate, begun, lane), Peerless())
            await until(lambda: sorted(begun[2:]) == [*others])
            submit(pool, BOB, blocked(gate, begun, BOB), Peerless())
            submit(pool, PRIVILEGED, blocked(gate, begun, PRIVILEGED), Peerless())
            await until(lambda: begun[5:] == [PRIVILEGED])
            gate.set()
            await until(lambda: pool.waiting == 0 and len(begun) == 15)
            assert (begun.count(ALICE), begun.count(BOB), begun.count(PRIVILEGED)) == (10, 1, 1)

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.usefixtures("_short_limits")
def test_long_statements_of_many_users_delay_no_short_one() -> None:
    """Eight users whose statements read the whole table; the ninth's is answered meanwhile.

    Two users were enough for minutes: all threads waited for the database.
    """

    async def story() -> None:
        gate, begun, taken = threading.Event(), [], []  # type: ignore[var-annotated]
        with room(asyncio.get_running_loop()) as pool:
            for lane in range(2001, 2009):
                for _ in range(20):
                    submit(pool, lane, reading(gate, begun, taken), Peerless())
            await until(lambda: len(begun) == readers.LONG_THREADS and len(taken) > 20)
            done: list[bool] = []
            for _ in range(5):
                pool.submit(
                    Peerless(), BOB, lambda _: iter([False, True]), lambda: done.append(True)
                )  # type: ignore[arg-type]
            await until(lambda: len(done) == 5)
            assert len(begun) == len(set(begun)) == readers.LONG_THREADS
            gate.set()

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.usefixtures("_short_limits")
def test_two_users_with_long_statements_leave_room_for_a_third() -> None:
    """Each has one such thread at a time, though nobody else asks; then the third has one."""

    async def story() -> None:
        gate, begun, taken = threading.Event(), [], []  # type: ignore[var-annotated]
        with room(asyncio.get_running_loop()) as pool:
            for lane in (ALICE, 2001):
                for _ in range(20):
                    submit(pool, lane, reading(gate, begun, taken), Peerless())
            await until(lambda: len(begun) == 2 and len(taken) > 12)
            assert sorted(begun) == [ALICE, 2001]
            submit(pool, BOB, reading(gate, begun, taken), Peerless())
            await until(lambda: len(begun) == 3)
            assert begun[2] == BOB
            gate.set()
            await until(lambda: pool.waiting == 0)

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.usefixtures("_short_limits")
def test_administrators_leave_daemons_and_users_room() -> None:
    """Their long statements have two threads, so daemons' short ones wait for none of them."""

    async def story() -> None:
        gate, begun, taken = threading.Event(), [], []  # type: ignore[var-annotated]
        done: list[int] = []
        with room(asyncio.get_running_loop()) as pool:
            for _ in range(20):
                submit(pool, PRIVILEGED, reading(gate, begun, taken), Peerless())
            await until(lambda: len(begun) == readers.LONG_OF_PRIVILEGED and len(taken) > 20)
            for lane in (PRIVILEGED, BOB):
                pool.submit(Peerless(), lane, lambda _: iter([True]), lambda: done.append(1))  # type: ignore[arg-type]
            await until(lambda: len(done) == 2)
            submit(pool, BOB, reading(gate, begun, taken), Peerless())
            await until(lambda: BOB in begun)
            assert begun.count(PRIVILEGED) == readers.LONG_OF_PRIVILEGED
            gate.set()
            await until(lambda: pool.waiting == 0)

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.usefixtures("_short_limits")
def test_what_was_cut_short_costs_a_query_none_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A statement that needs all of its minute has all of it."""
    monkeypatch.setattr(readers, "LIMIT_S", 50.0)

    async def story() -> None:
        gate, begun, taken = threading.Event(), [], []  # type: ignore[var-annotated]
        seconds: list[float] = []

        def steps(asked: Query) -> Iterator[bool]:
            for step in reading(gate, begun, taken)(asked):
                seconds.append(asked.left_s)
                yield step

        gate.set()
        with room(asyncio.get_running_loop()) as pool:
            submit(pool, ALICE, steps, Peerless())
            await until(lambda: begun == [ALICE])
            await until(lambda: pool.waiting == 0)
        assert set(seconds) == {50.0}
        assert [lane for lane, _ in taken] == [ALICE] * len(taken)
        assert len(taken) > 1

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_users_queries_in_progress_are_few() -> None:
    """Each holds what it has selected, and its peer may never read. RELIABILITY 46."""

    async def story() -> None:
        begun: list[int] = []

        def steps(_: Query) -> Iterator[bool]:
            begun.append(ALICE)
            yield False
            yield True

        with room(asyncio.get_running_loop()) as pool:
            calls = [Peerless() for _ in range(50)]
            for call in calls:
                call.unsent_bytes = readers.UNREAD_BYTES + 1
                submit(pool, ALICE, steps, call)
            await until(lambda: len(pool._unread) == readers.BEGUN_PER_LANE)
            assert len(begun) == readers.BEGUN_PER_LANE
            for call in calls:
                call.unsent_bytes = 0
            await until(lambda: pool.waiting == 0 and len(begun) == 50)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_user_has_a_bounded_number_of_waiting_requests() -> None:
    """Memory is bounded per user; the command waits a second and asks again."""

    async def story() -> None:
        gate, begun = threading.Event(), []  # type: ignore[var-annotated]
        with room(asyncio.get_running_loop()) as pool:
            call = Peerless()
            for _ in range(readers.RUNNING_PER_LANE):
                submit(pool, ALICE, blocked(gate, begun, ALICE), call)
            await until(lambda: len(begun) == readers.RUNNING_PER_LANE)
            for _ in range(readers.WAITING_PER_LANE + 1):
                submit(pool, ALICE, blocked(gate, begun, ALICE), call)
            assert call.refused == [Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF]
            other = Peerless()
            submit(pool, BOB, blocked(gate, begun, BOB), other)
            assert other.refused == []
            gate.set()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_peer_that_does_not_read_holds_no_thread() -> None:
    """A sacct piped into a stopped pager; more of them than there are threads."""

    async def story() -> None:
        parts: list[int] = []

        def steps(_: Query) -> Iterator[bool]:
            for part in range(3):
                parts.append(part)
                yield part == 2

        with room(asyncio.get_running_loop()) as pool:
            slow = [Peerless() for _ in range(8)]
            for call in slow:
                call.unsent_bytes = readers.UNREAD_BYTES + 1
                submit(pool, ALICE, steps, call)
            await until(lambda: len(parts) == 8 and pool.waiting == 8)
            quick = Peerless()
            submit(pool, BOB, steps, quick)
            await until(lambda: len(parts) == 11)
            slow[0].unsent_bytes = 0
            await until(lambda: len(parts) == 13)
            for call in slow:
                call.is_gone = True
            await until(lambda: pool.waiting == 0)
            assert len(parts) == 13

    asyncio.run(asyncio.wait_for(story(), 60))


def test_no_connection_is_in_use_after_the_end(sqlite_database: Database) -> None:
    """No one closes a connection that returns to a pool after its end."""

    async def story() -> None:
        begun = threading.Event()

        def steps(_: Query) -> Iterator[bool]:
            with sqlite_database.engine.connect():
                begun.set()
                with pool._changed:
                    pool._changed.wait_for(lambda: pool._is_stopping)
            yield True

        pool = Readers(asyncio.get_running_loop(), lambda _, bug: None)
        submit(pool, ALICE, steps, Peerless())
        await until(begun.is_set)
        await asyncio.get_running_loop().run_in_executor(None, pool.close)
        assert sqlite_database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]

    asyncio.run(asyncio.wait_for(story(), 60))


def test_messages_of_sacct_are_bounded_in_every_list() -> None:
    """Each name of these costs a comparison for each row of the table."""
    for field in ("constraints", "flags", "partitions", "states"):
        with pytest.raises(msgspec.ValidationError, match=field):
            msgspec.convert({"columns": [], field: ["x"] * 201}, ListJobRecords)


def test_announced_bodies_hold_up_no_other_user(sqlite_database: Database, tmp_path: Path) -> None:
    """C4: 70 heads that declare 4 MiB each; they took the room of all bodies together."""

    async def story(service: Service, path: str) -> None:
        head = frame.pack_head("ListJobRecords", 1, 0, 0, 4 << 20) + b"x"
        ends = []
        for _ in range(70):
            _, end = await asyncio.open_unix_connection(path)
            end.write(head)
            ends.append(end)
            await end.drain()
        bob = await connect_link(identity(BOB), "slurmdbd", path=path)
        answer = await ask(bob, ListJobRecords(["job_id"], clusters=["demo"]))
        assert answer.fields == ["job_id"]
        bob.close()
        for end in ends:
            end.close()

    play(sqlite_database, tmp_path, story)


def test_ordinary_users_ask_about_a_bounded_time(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MaxQueryTimeRange, in Slurm's words; named jobs may have run at any time."""
    path = tmp_path / "slurmdbd.conf"
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    path.write_text(
        f"StorageType=accounting_storage/sqlite\nStorageLoc={tmp_path}/x\nDbdHost=localhost\n"
        "MaxQueryTimeRange=1-00:00:00\n"
    )
    path.chmod(0o600)
    conf = load_configuration(Options(conf_path=str(path)))
    assert ("MaxQueryTimeRange", "1-00:00:00") in conf.pairs
    begin_s = at("12:00:00") // 1_000_000

    async def story(service: Service, socket_path: str) -> None:
        monkeypatch.setattr(service_module, "is_service", lambda uid, service_uid: uid == BOB)
        alice = await connect_link(identity(ALICE), "slurmdbd", path=socket_path)
        operator = await connect_link(identity(BOB), "slurmdbd", path=socket_path)
        for days, is_wide in ((1, False), (2, True)):
            end_s = begin_s + days * 86_400
            questions = (
                ListJobRecords(
                    ["job_id"], clusters=["demo"], start_us=begin_s * 10**6, end_us=end_s * 10**6
                ),
                ListJobSizes(begin_s, end_s),
            )
            for question in questions:
                assert await operator.request(question, 60)
                if is_wide:
                    with pytest.raises(LinkError, match="Too wide of a date range in query"):
                        await alice.request(question, 60)
                else:
                    assert await alice.request(question, 60)
        request = ListJobRecords(["job_id"], clusters=["demo"], jobs=[JobSelector(1)])
        assert (await ask(alice, request)).records
        alice.close()
        operator.close()

    play(sqlite_database, tmp_path, story, conf.most_range_s)
