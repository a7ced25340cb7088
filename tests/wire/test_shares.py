"""Fair shares of a stream server: what one user or stranger can take from the others."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.connection import Connection
from pyslurm_ng.wire.frame import pack_frame
from pyslurm_ng.wire.messages import Ping, Reconfigure
from pyslurm_ng.wire.rate_limit import RateLimit, RateLimitWords, rate_limit_words
from pyslurm_ng.wire.shares import CALL_BYTES
from pyslurm_ng.wire.step_messages import CreateStep
from pyslurm_ng.wire.stream import Call, StreamLimits, limits_here
from tests.wire.wire_room import ALICE, BOB, Room, handle, read_exactly, read_frame

PING = table.encode(Ping())
ID = b"i" * 16
KIB, MIB = 1 << 10, 1 << 20


def ask(room: Room, uid: int) -> dict[str, object]:
    """Return the answer to one Ping of a user."""
    connection = room.raw_tcp()
    connection.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=uid)))
    got = read_frame(connection)
    assert got is not None
    return got[3]


def on_loop(room: Room, is_so: Callable[[], bool]) -> None:
    """Wait until something holds; looked at on the server's own loop."""

    async def look() -> None:
        while not is_so():
            await asyncio.sleep(0.005)

    asyncio.run_coroutine_threadsafe(asyncio.wait_for(look(), 60), room.loop).result(70)


def begun(room: Room, kind: str, uid: int, declared: int, sent: bytes) -> socket.socket:
    """Return a connection with a frame that declares a length and has sent so much of it."""
    connection = room.raw_tcp()
    credential = room.token(kind, b"", uid=uid)
    head = frame.pack_head(kind, 1, 0, len(credential), declared)
    connection.sendall(head + credential + sent)
    return connection


@pytest.mark.parametrize(
    ("kind", "count"),
    [("CreateStep", 4), ("ShowJobs", 70), ("LaunchStep", 16), ("ListJobRecords", 70)],
)
def test_a_declared_length_reserves_nothing(room: Room, kind: str, count: int) -> None:
    """RELIABILITY 41, 46: four sockets that declared 64 MiB each once froze slurmctld."""
    declared = table.row(kind).max_bytes
    kept = [begun(room, kind, ALICE, declared, b"\x80") for _ in range(count)]
    on_loop(
        room,
        lambda: (
            sum(not connection._parser.is_between_frames for connection in room.server.connections)
            == count
        ),
    )
    assert ask(room, BOB)["version"] == str(BOB)
    assert room.client().call("Ping", {})["role"] == "unix"
    assert ask(room, ALICE)["version"] == str(ALICE)
    assert room.server.shares.counts()["bytes_in_flight"] < count * KIB
    assert len(kept) == count


SMALL = StreamLimits(users_bytes=256 * KIB, share_floor=32 * KIB)


def test_bytes_that_have_arrived_are_shared(tmp_path: Path) -> None:
    """Over its share a user's frames come one at a time; they all come, and others are served."""
    with Room(tmp_path, SMALL) as room:
        body = table.encode(CreateStep(request_id=ID, job_id=1, name="n" * 60_000))
        clients = [room.raw_tcp() for _ in range(20)]
        for client in clients:
            credential = room.token("CreateStep", body, uid=ALICE)
            sent = pack_frame("CreateStep", 1, body, 0, credential)
            client.sendall(sent[: len(sent) - 9])
        on_loop(room, lambda: room.server.shares.counts()["connections_held"] > 0)
        # Each connection holds what was taken from the kernel at once, and no more.
        assert room.server.shares.counts()["bytes_in_flight"] <= 20 * 64 * KIB
        assert ask(room, BOB)["version"] == str(BOB)
        assert room.client().call("Ping", {})["role"] == "unix"
        room.server.handler = lambda call: call.reply({})
        for client in clients:
            client.sendall(body[-9:])
        assert all(read_frame(client) for client in clients)
        assert room.server.shares.counts()["bytes_in_flight"] == 0


def test_requests_that_wait_fill_a_share_and_hold_back_the_next(tmp_path: Path) -> None:
    """What a daemon has not answered counts. The next frames of that user wait, and of no other."""
    kept: list[Call] = []

    def keep(call: Call) -> None:
        if isinstance(call.request, Reconfigure):
            kept.append(call)
        else:
            handle(call)

    limits = StreamLimits(users_bytes=4 * CALL_BYTES, share_floor=CALL_BYTES)
    with Room(tmp_path, limits, keep) as room:
        body = table.encode(Reconfigure(ID))
        client = room.raw_unix()  # root: the administrators' share is the whole of it
        client.sendall(b"".join(pack_frame("Reconfigure", n, body) for n in range(1, 101)))
        on_loop(room, lambda: room.server.shares.counts()["connections_held"] == 1)
        assert len(kept) <= 5
        assert ask(room, BOB)["version"] == str(BOB)
        answered = 0
        while answered < 100:
            on_loop(room, lambda: bool(kept))
            room.loop.call_soon_threadsafe(lambda: kept.pop().reply({}))
            assert read_frame(client)
            answered += 1


def test_strangers_have_a_bounded_number_of_places(tmp_path: Path) -> None:
    """RELIABILITY 44: the oldest stranger is closed.

    A connection that proves its user is not a stranger.
    """
    with Room(tmp_path, StreamLimits(strangers=4)) as room:
        known = room.raw_tcp()
        known.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING)))
        assert read_frame(known)
        half = frame.pack_head("Ping", 1, 0, frame.MAX_CREDENTIAL_BYTES, 0) + b"x" * 60_000
        strangers = []
        for _ in range(10):
            strangers.append(room.raw_tcp())
            strangers[-1].sendall(half)
        for gone in strangers[:6]:
            got = read_frame(gone)
            assert got is None or got[3]["code"] == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
        on_loop(room, lambda: room.server.shares.counts()["connections_unproved"] == 4)
        assert room.server.shares.counts()["bytes_in_flight"] <= 4 * frame.MAX_UNAUTHENTICATED_BYTES
        known.sendall(pack_frame("Ping", 2, PING, 0, room.token("Ping", PING)))
        assert read_frame(known)
        assert ask(room, BOB)["version"] == str(BOB)


def test_the_user_with_most_connections_makes_room(tmp_path: Path) -> None:
    """RELIABILITY 46: when all places are taken, a user with fewer gets one.

    So does an administrator.
    """
    limits = StreamLimits(connections=6, reserved_for_admins=1)
    with Room(tmp_path, limits) as room:
        for count in range(1, 7):
            crowd = room.raw_tcp()
            crowd.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=ALICE)))
            assert read_frame(crowd)
            assert room.server.shares.counts()["connections_of_one"] == count
        seventh = room.raw_tcp()
        seventh.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=ALICE)))
        got = read_frame(seventh)
        assert got is not None
        assert (got[3]["code"], got[3]["text"]) == (
            Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF,
            "too many connections",
        )
        assert ask(room, BOB)["version"] == str(BOB)
        administrators = [room.raw_unix() for _ in range(4)]
        for connection in administrators:
            connection.sendall(pack_frame("Ping", 1, PING))
            assert read_frame(connection)
        assert room.server.refusals["gave_way"] >= 1


def test_a_connection_with_open_requests_is_the_last_to_make_room(tmp_path: Path) -> None:
    """An idle connection goes before a salloc's."""
    kept: list[Call] = []

    def keep(call: Call) -> None:
        if isinstance(call.request, CreateStep):
            kept.append(call)
        else:
            handle(call)

    with Room(tmp_path, StreamLimits(connections=3), keep) as room:
        body = table.encode(CreateStep(request_id=ID, job_id=1))
        step = room.raw_tcp()
        idle = [room.raw_tcp() for _ in range(2)]
        for client in idle:
            client.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=ALICE)))
            assert read_frame(client)
        credential = room.token("CreateStep", body, uid=ALICE)
        step.sendall(pack_frame("CreateStep", 1, body, 0, credential))
        on_loop(room, lambda: bool(kept))
        assert ask(room, BOB)["version"] == str(BOB)
        room.loop.call_soon_threadsafe(kept[0].reply, {"over": 1})
        got = read_frame(step)
        assert got is not None
        assert got[3] == {"over": 1}


def test_open_calls_have_a_share(tmp_path: Path) -> None:
    """One user's waiting steps and allocations are counted; the next one has to come again."""
    kept: list[Call] = []
    with Room(tmp_path, StreamLimits(open_calls_per_uid=2), kept.append) as room:
        body = table.encode(CreateStep(request_id=ID, job_id=1))

        def create(uid: int, number: int) -> bytes:
            return pack_frame(
                "CreateStep", number, body, 0, room.token("CreateStep", body, uid=uid)
            )

        client = room.raw_tcp()
        client.sendall(b"".join(create(ALICE, number) for number in (1, 2, 3)))
        got = read_frame(client)
        assert got is not None
        assert (got[2], got[3]["code"]) == (3, Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF)
        assert f"uid {ALICE}" in str(got[3]["text"])
        other = room.raw_tcp()
        other.sendall(create(BOB, 1))
        on_loop(room, lambda: len(kept) == 3)
        counts = room.server.shares.counts()
        assert (counts["open_calls"], counts["bytes_in_flight"]) == (3, 0)
        room.loop.call_soon_threadsafe(kept[0].reply, {})
        assert read_frame(client)
        client.sendall(create(ALICE, 4))
        on_loop(room, lambda: len(kept) == 4)
        client.close()
        other.close()
        on_loop(room, lambda: room.server.shares.counts()["open_calls"] == 0)


def test_answers_that_are_not_read_stop_their_user(tmp_path: Path) -> None:
    """A user that asks for much and reads nothing cannot fill the daemon's memory."""

    def answer(call: Call) -> None:
        if call.peer.uid == BOB:
            handle(call)
        else:
            call.reply({"blob": b"x" * (8 * MIB)})

    limits = StreamLimits(unread_bytes_per_uid=MIB)
    with Room(tmp_path, limits, answer) as room:
        lazy = [room.raw_tcp() for _ in range(10)]
        for client in lazy:
            client.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=ALICE)))
            on_loop(room, lambda: sum(room.server.requests.values()) > 0)
        on_loop(room, lambda: room.server.refusals["unread_answers"] > 0)
        on_loop(room, lambda: sum(room.server.requests.values()) == 10)
        # One turn of the loop may answer what came with it.
        assert room.server.shares.counts()["bytes_unread"] <= 10 * 8 * MIB
        assert ask(room, BOB)["version"] == str(BOB)
        for client in lazy:
            client.close()
        on_loop(room, lambda: room.server.shares.counts()["bytes_unread"] == 0)


def test_answers_that_wait_for_the_disk_count_as_unread(tmp_path: Path) -> None:
    """A hundred connections that asked for listings and read nothing held 600 MiB in this way."""
    waiting: list[Callable[[], None]] = []

    def answer(call: Call) -> None:
        if call.peer.uid == BOB:
            handle(call)
        else:
            waiting.append(call.prepared(msgspec.msgpack.encode({"blob": b"x" * MIB})))

    limits = StreamLimits(unread_bytes_per_uid=MIB)
    with Room(tmp_path, limits, answer) as room:
        clients = [room.raw_tcp() for _ in range(6)]
        for client in clients:
            client.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=ALICE)))
        on_loop(room, lambda: room.server.refusals["unread_answers"] == 5)
        assert len(waiting) == 1
        assert room.server.shares.counts()["bytes_unread"] > MIB
        assert ask(room, BOB)["version"] == str(BOB)
        # One whose connection has gone is given back as well.
        for client in clients:
            client.close()
        on_loop(room, lambda: room.server.shares.counts()["connections"] == 1)
        assert room.server.shares.counts()["bytes_unread"] > MIB
        room.loop.call_soon_threadsafe(waiting[0])
        on_loop(room, lambda: room.server.shares.counts()["bytes_unread"] == 0)


def test_a_frame_has_a_time_for_the_whole_of_it(tmp_path: Path) -> None:
    """The least rate alone would let 64 MiB trickle for eighteen hours."""
    limits = StreamLimits(grace_s=0.1, frame_s=0.3, least_rate=0)
    with Room(tmp_path, limits) as room:
        slow = begun(room, "CreateStep", ALICE, MIB, b"\x80")
        assert read_exactly(slow, 1) == b""
        assert room.server.refusals["frame_timeout"] == 1


def test_long_bodies_are_decoded_aside_and_one_at_a_time(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty steps of a million names once delayed all users' squeue."""
    began, go = threading.Semaphore(0), threading.Semaphore(0)
    decode = table.decode_request

    def slow(kind: str, body: bytes) -> object:
        if kind == "CreateStep":
            began.release()
            assert go.acquire(timeout=60)
        return decode(kind, body)

    monkeypatch.setattr(table, "decode_request", slow)
    room.server.handler = lambda call: call.reply({"uid": call.peer.uid})
    body = table.encode(CreateStep(request_id=ID, job_id=1, task_nodes=["n" * 8] * 60_000))
    flood = [room.raw_tcp() for _ in range(4)]
    for client in flood:
        sent = pack_frame("CreateStep", 1, body, 0, room.token("CreateStep", body, uid=ALICE))
        threading.Thread(target=client.sendall, args=(sent,), daemon=True).start()
    on_loop(room, lambda: room.server.requests["CreateStep"] == 4)
    assert began.acquire(timeout=60)
    assert ask(room, BOB) == {"uid": BOB}
    assert not began.acquire(blocking=False)
    go.release(4)
    for client in flood:
        got = read_frame(client)
        assert got is not None
        assert got[3] == {"uid": ALICE}


def test_a_bug_on_one_connection_ends_that_one(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted; the others go on."""
    good, bad = room.raw_unix(), room.raw_unix()
    good.sendall(pack_frame("Ping", 1, PING))
    assert read_frame(good)

    def broken(row: table.MessageRow, peer: object) -> bool:
        if row.kind == "Shutdown":
            raise ZeroDivisionError
        return True

    monkeypatch.setattr(room.server.roles, "may_send", broken)
    bad.sendall(pack_frame("Shutdown", 1, b"\x80"))
    assert read_exactly(bad, 1) == b""
    good.sendall(pack_frame("Ping", 2, PING))
    assert read_frame(good)
    assert isinstance(room.bugs[0]["exception"], ZeroDivisionError)


def test_nothing_of_a_connection_is_left_for_the_garbage_collector(room: Room) -> None:
    """slurmctld collects hardly ever: circles once kept every step's request for days."""

    def left() -> int:
        return sum(isinstance(kept, Call | Connection) for kept in gc.get_objects())

    def note(call: Call) -> None:
        call.on_gone(lambda: str(call))  # as a step that waits: it holds its call
        most.append(left())
        call.reply({})

    most: list[int] = []
    room.server.handler = note
    body = table.encode(CreateStep(request_id=ID, job_id=1))
    gc.collect()
    gc.disable()
    try:
        before = left()
        for connect in (room.raw_unix, room.raw_tcp):
            for _ in range(2):
                client = connect()
                token = room.token("CreateStep", body)
                client.sendall(pack_frame("CreateStep", 1, body, 0, token))
                assert read_frame(client)
                client.close()
        on_loop(room, lambda: left() == before)
        assert max(most) > before
    finally:
        gc.enable()


# --- the rate limit -----------------------------------------------------------------------


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_is_emptied_and_refilled() -> None:
    """A burst of the bucket's size, then so many a period."""
    clock, said = Seconds(), list[str]()
    words = RateLimitWords(rl_bucket_size=3, rl_refill_rate=2, rl_refill_period=10)
    limit = RateLimit(words, clock, said.append)
    assert [limit.may_ask(ALICE, "ShowJobs") for _ in range(5)] == [True] * 3 + [False] * 2
    assert limit.may_ask(BOB, "ShowJobs")
    clock.now += 9
    assert not limit.may_ask(ALICE, "ShowJobs")
    clock.now += 1
    assert [limit.may_ask(ALICE, "ShowJobs") for _ in range(3)] == [True, True, False]
    clock.now += 1000
    assert [limit.may_ask(ALICE, "ShowJobs") for _ in range(4)] == [True] * 3 + [False]
    assert limit.refused == {ALICE: 5}
    assert said[0] == f"uid {ALICE} is over its limit of requests (rl_enable) with ShowJobs"


def test_log_frequency_and_table_are_bounded() -> None:
    """rl_log_freq and rl_table_size."""
    clock, said = Seconds(), list[str]()
    words = RateLimitWords(rl_bucket_size=1, rl_log_freq=10, rl_table_size=2)
    limit = RateLimit(words, clock, said.append)
    for _ in range(4):
        limit.may_ask(ALICE, "Ping")
    assert len(said) == 1
    clock.now += 10
    for _ in range(4):
        limit.may_ask(ALICE, "Ping")
    assert len(said) == 2
    assert said[1].endswith("(2 more since the last line)")
    for uid in range(100):
        limit.may_ask(uid, "Ping")
        limit.may_ask(uid, "Ping")
    assert len(limit.refused) <= 2
    assert len(limit._marks) <= 2


def test_a_limited_user_waits_and_loses_nothing(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands wait and ask again. Administrators are not limited."""
    import pyslurm_ng.wire.client as client_module

    clock, waits = Seconds(), list[int]()
    room.server.rate_limit = RateLimit(RateLimitWords(rl_bucket_size=2), clock, lambda _: None)

    def wait() -> None:
        waits.append(1)
        clock.now += 1

    monkeypatch.setattr(client_module, "_back_off", wait)
    # The test's own uid is root's, which is not limited.
    for _ in range(10):
        assert room.client().call("Ping", {})
    room.server.roles.privileged = frozenset((600,))
    client = room.client()
    assert [client.call("Ping", {})["role"] for _ in range(10)] == ["unix"] * 10
    assert waits
    before = len(waits)
    sequences = [client.begin("Ping", {}) for _ in range(5)]
    assert sorted(client.receive(10)[0] for _ in range(5)) == sequences
    assert len(waits) > before
    with pytest.raises(SlurmError) as refused:
        client.call("Nope", {})
    assert refused.value.code == 1000


def test_the_words_of_slurm_conf_make_the_limit() -> None:
    """`rl_enable` alone has Slurm's defaults. The other words without it limit no user."""
    assert rate_limit_words(["rl_bucket_size=5"]) is None
    assert rate_limit_words(["RL_Enable"]) == RateLimitWords(30, 0, 1, 2, 8192)
    words = rate_limit_words(["zmq_port=7", "rl_enable", "rl_bucket_size=5", " rl_log_freq=9"])
    assert words == RateLimitWords(rl_bucket_size=5, rl_log_freq=9)
    nobody = RateLimit(None, Seconds(), lambda _: None)
    assert all(nobody.may_ask(ALICE, "Ping") for _ in range(1000))


def pings(room: Room, count: int) -> bytes:
    """Return requests of Alice."""
    return b"".join(
        pack_frame("Ping", number, PING, 0, room.token("Ping", PING, uid=ALICE))
        for number in range(1, count + 1)
    )


def test_requests_without_an_answer_are_bounded_for_a_user(tmp_path: Path) -> None:
    """RELIABILITY 46: one user's 150,000 listings waited inside slurmctld, in 800 MiB."""
    kept: list[Call] = []

    def keep(call: Call) -> None:
        if call.peer.uid == ALICE:
            kept.append(call)
        else:
            handle(call)

    with Room(tmp_path, StreamLimits(waiting_per_uid=10), keep) as room:
        clients = [room.raw_tcp() for _ in range(5)]
        for client in clients:
            client.sendall(pings(room, 20))
        on_loop(room, lambda: len(kept) >= 10)
        assert ask(room, BOB)["version"] == str(BOB)
        assert len(kept) <= 10
        answered = 0
        while answered < 100:
            on_loop(room, lambda: bool(kept))
            room.loop.call_soon_threadsafe(lambda: kept.pop().reply({}))
            answered += 1
            on_loop(room, lambda: room.server.shares.counts()["bytes_in_flight"] <= 40 * KIB)
        for client in clients:
            assert all(read_frame(client) for _ in range(20))


def test_a_peer_that_leaves_while_nothing_is_received_is_noticed(tmp_path: Path) -> None:
    """Its requests end with it; before, slurmctld answered them all for half an hour."""
    kept: list[Call] = []
    limits = StreamLimits(waiting_per_uid=10, handshake_s=0.2, grace_s=0.2)
    with Room(tmp_path, limits, kept.append) as room:
        client = room.raw_tcp()
        client.sendall(pings(room, 100))
        on_loop(room, lambda: len(kept) == 10)
        client.close()
        on_loop(room, lambda: not room.server.shares.counts()["connections"])
        assert room.server.shares.counts()["bytes_in_flight"] == 0
        assert all(call.is_gone for call in kept)


@pytest.mark.parametrize("files", [1_024, 4_096, 20_000, 65_536])
def test_connections_leave_files_for_the_daemons_own_work(
    files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slurmd with 1,024 files that users may all take starts nobody's job."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    limits = limits_here()
    ports = 2
    taken = limits.connections + limits.strangers + ports * limits.connections_waiting
    assert taken + limits.reserved_for_admins <= files * 7 // 8
    assert min(limits.connections, limits.strangers, limits.connections_waiting) >= 16
