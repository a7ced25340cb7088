from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.frame import pack_frame
from pyslurm_ng.wire.messages import IssueToken, Ping, Reconfigure, Shutdown
from pyslurm_ng.wire.shares import CALL_BYTES
from pyslurm_ng.wire.stream import Call, StreamLimits
from tests.wire.wire_room import (
    ALICE,
    BOB,
    CAROL,
    NOW_US,
    Room,
    handle,
    read_exactly,
    read_frame,
)
from tests.world.examples import drawn

PING = table.encode(Ping())
ID = b"i" * 16


def refusal(connection: socket.socket) -> tuple[int, str]:
    """Return code and text of the error, and make sure that the connection ends after it."""
    got = read_frame(connection)
    assert got is not None
    kind, flags, _, body = got
    assert (kind, flags) == ("ErrorReply", frame.FLAG_REPLY | frame.FLAG_ERROR)
    assert read_exactly(connection, 1) == b""
    code, text = body["code"], body["text"]
    assert isinstance(code, int)
    assert isinstance(text, str)
    assert "\n" not in text
    return code, text


def wait_for(room: Room, cause: str) -> None:
    """Wait, on the server's own loop, until a refusal was counted."""
    import asyncio

    async def seen() -> None:
        while not room.server.refusals[cause]:
            await asyncio.sleep(0.005)

    asyncio.run_coroutine_threadsafe(seen(), room.loop).result(60)


def test_the_kernel_names_the_user_on_a_unix_socket(room: Room) -> None:
    """No credential, no uid in the body: SO_PEERCRED."""
    connection = room.raw_unix()
    connection.sendall(pack_frame("Ping", 9, PING))
    got = read_frame(connection)
    assert got is not None
    import os

    assert got[:3] == ("Pong", frame.FLAG_REPLY, 9)
    assert got[3]["role"] == "unix"
    assert got[3]["version"] == str(os.getuid())


def test_tcp_needs_a_credential(room: Room) -> None:
    """RELIABILITY 55: without one, no identity is believed."""
    connection = room.raw_tcp()
    connection.sendall(pack_frame("Ping", 1, PING))
    assert refusal(connection)[0] == 1007


def test_a_token_opens_tcp_once(room: Room) -> None:
    """Accepted, then refused as a replay on another connection."""
    token = room.token("Ping", PING)
    first = room.raw_tcp()
    first.sendall(pack_frame("Ping", 1, PING, 0, token))
    got = read_frame(first)
    assert got is not None
    assert got[3]["version"] == str(ALICE)
    second = room.raw_tcp()
    second.sendall(pack_frame("Ping", 1, PING, 0, token))
    assert refusal(second) == (1007, "credential was used before")
    assert room.server.refusals["replayed"] == 1


def test_a_token_does_not_open_another_message(room: Room) -> None:
    """Kind and body are bound (RELIABILITY 40, 55)."""
    token = room.token("Ping", PING)
    connection = room.raw_tcp()
    body = table.encode(Reconfigure(ID))
    connection.sendall(pack_frame("Reconfigure", 1, body, 0, token))
    assert refusal(connection)[0] == 1007
    token = room.token("Reconfigure", body, uid=0)
    connection = room.raw_tcp()
    other = table.encode(Reconfigure(b"j" * 16))
    connection.sendall(pack_frame("Reconfigure", 1, other, 0, token))
    got = read_frame(connection)
    assert got is not None
    assert got[3]["code"] == 1007
    assert room.server.refusals["altered"] == 1


def test_a_user_cannot_send_what_is_for_administrators(room: Room) -> None:
    """The row's roles are checked before the body is decoded; default is refuse."""
    body = table.encode(Shutdown(ID))
    connection = room.raw_tcp()
    connection.sendall(pack_frame("Shutdown", 1, body, 0, room.token("Shutdown", body)))
    got = read_frame(connection)
    assert got is not None
    assert got[3] == {"code": 2002, "text": "Access/permission denied"}


def test_tokens_are_issued_on_the_unix_socket_only(room: Room) -> None:
    """A token cannot buy another token from afar."""
    body = table.encode(IssueToken("slurmctld", "Ping", b"d" * 32))
    connection = room.raw_tcp()
    connection.sendall(pack_frame("IssueToken", 1, body, 0, room.token("IssueToken", body)))
    got = read_frame(connection)
    assert got is not None
    assert got[3]["code"] == 1007
    assert room.server.refusals["token_not_local"] == 1


def test_every_kind_of_the_table_refuses_a_stranger(room: Room) -> None:
    """RELIABILITY 55, generated from the table: no credential, or one for another kind."""
    token = room.token("Ping", PING)
    for row in table.rows():
        for credential in (b"", token, b"x" * 64):
            if row.kind == "Ping" and credential == token:
                continue
            connection = room.raw_tcp()
            connection.sendall(pack_frame(row.kind, 1, b"\x80", 0, credential))
            assert refusal(connection)[0] in (1000, 1007)
            connection.close()


def test_no_kind_of_the_table_is_taken_twice(room: Room) -> None:
    """RELIABILITY 39, generated from the table: a credential is of no use again."""
    requests = [row.kind for row in table.rows() if not row.is_reply]
    for kind in requests:
        frames = pack_frame(kind, 1, b"\x80", 0, room.token(kind, b"\x80", uid=0))
        first = room.raw_tcp()
        first.sendall(frames)
        assert read_frame(first) is not None
        again = room.raw_tcp()
        again.sendall(frames)
        assert refusal(again) == (1007, "credential was used before"), kind
        first.close()
        again.close()
    assert room.server.refusals["replayed"] == len(requests) > 80


def test_answers_come_in_parts_and_to_their_request(room: Room) -> None:
    """Long-lived requests share a connection with short ones."""
    connection = room.raw_unix()
    connection.sendall(
        pack_frame("Reconfigure", 5, table.encode(Reconfigure(ID))) + pack_frame("Ping", 6, PING)
    )
    got = [read_frame(connection) for _ in range(4)]
    assert [(frame[2], frame[1], frame[3].get("part")) for frame in got if frame] == [
        (5, 3, 1), (5, 3, 2), (5, 1, 3), (6, 1, None),
    ]  # fmt: skip


def test_a_thousand_requests_may_be_outstanding(room: Room) -> None:
    """Pipelining keeps order and loses nothing."""
    connection = room.raw_unix()
    connection.sendall(b"".join(pack_frame("Ping", n, PING) for n in range(1, 1001)))
    assert [frame[2] for frame in (read_frame(connection) for _ in range(1000)) if frame] == list(
        range(1, 1001)
    )
    assert room.server.shares.users_bytes == 0


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.0\r\n\r\n" + b" " * 24, 1000),
        (frame.HEAD.pack(b"psng", 9, 0, 4, 0, 0, 0, 1), 1005),
        (frame.HEAD.pack(b"psng", 1, 0, 4, 0, 0, 2**32 - 1, 1), 1008),
        (frame.HEAD.pack(b"psng", 1, 0, 4, 0, 2**32 - 1, 0, 1), 1008),
        (frame.HEAD.pack(b"psng", 1, 0, 4, 0, 0, 1025, 1) + b"Ping", 1008),
        (frame.HEAD.pack(b"psng", 1, 0, 4, 0, 0, 0, 1) + b"\0\0\0\0", 1008),
        (pack_frame("Pong", 1, b"\x80"), 1000),
        (pack_frame("Nope", 1, b"\x80"), 1000),
        (pack_frame("Ping", 1, b"\x80", frame.FLAG_REPLY), 1000),
        (pack_frame("Ping", 1, b"\x80", 0, b"junk credential"), 1007),
    ],
)
def test_bad_frames_get_one_line_and_the_door(room: Room, sent: bytes, code: int) -> None:
    """RELIABILITY 41: judged by the head, closed, the server goes on."""
    connection = room.raw_unix()
    connection.sendall(sent)
    assert refusal(connection)[0] == code
    assert room.client().call("Ping", {})["name"]


def test_a_bad_body_is_an_answer_not_the_end(room: Room) -> None:
    """Frames stay in step, so the connection can go on."""
    connection = room.raw_unix()
    connection.sendall(pack_frame("Ping", 1, b"\x81\xa1x\x01") + pack_frame("Ping", 2, PING))
    first, second = read_frame(connection), read_frame(connection)
    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == ("ErrorReply", "Pong")


def test_a_sequence_in_use_is_refused(room: Room) -> None:
    """Two answers to one number could not be told apart."""
    calls: list[Call] = []
    room.server.handler = calls.append
    connection = room.raw_unix()
    connection.sendall(pack_frame("Ping", 1, PING) * 2)
    assert refusal(connection)[1] == "sequence in use"


def test_a_bug_in_a_handler_is_not_shown_to_the_user(room: Room) -> None:
    """RELIABILITY K8: no traceback leaves the daemon; the daemon's own handler gets it."""
    connection = room.raw_unix()
    connection.sendall(pack_frame("Shutdown", 1, table.encode(Shutdown(ID))))
    got = read_frame(connection)
    assert got is not None
    assert got[3] == {
        "code": 2090,
        "text": "Slurm internal error, contact system administrator",
    }
    assert isinstance(room.bugs[0]["exception"], RuntimeError)


def test_a_gone_client_is_noticed(room: Room) -> None:
    """srun's allocation is given back when srun dies."""
    import asyncio

    gone: asyncio.Future[None] = asyncio.run_coroutine_threadsafe(_future(), room.loop).result(60)

    def keep(call: Call) -> None:
        call.on_gone(lambda: gone.set_result(None))

    room.server.handler = keep
    connection = room.raw_unix()
    connection.sendall(pack_frame("Ping", 1, PING))
    connection.close()
    asyncio.run_coroutine_threadsafe(_wait(gone), room.loop).result(60)
    assert room.server.shares.users_bytes == 0


async def _future() -> object:
    import asyncio

    return asyncio.get_running_loop().create_future()


async def _wait(future: object) -> None:
    await future  # type: ignore[misc]


QUICK = StreamLimits(
    handshake_s=0.2, idle_s=0.3, grace_s=0.2, unread_s=0.3, least_rate=1_000_000,
    connections_per_uid=3, connections_per_address=2, reserved_for_admins=0, connections=3,
    outstanding=4, users_bytes=2_248, share_floor=2_248,
)  # fmt: skip


def test_a_connection_that_never_speaks_is_closed(tmp_path: Path) -> None:
    """RELIABILITY 44: idle strangers do not hold places."""
    with Room(tmp_path, QUICK) as room:
        silent = room.raw_tcp()
        assert read_exactly(silent, 1) == b""
        assert room.server.refusals["handshake_timeout"] == 1


def test_a_byte_per_second_is_cut(tmp_path: Path) -> None:
    """A frame that has begun must arrive at the least rate."""
    with Room(tmp_path, QUICK) as room:
        slow = room.raw_unix()
        slow.sendall(pack_frame("Ping", 1, PING))
        assert read_frame(slow)
        slow.sendall(pack_frame("Ping", 2, PING)[:10])
        assert read_exactly(slow, 1) == b""
        assert room.server.refusals["too_slow"] == 1


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    """But not while it waits for an answer."""
    calls: list[Call] = []

    def hold(call: Call) -> None:
        if isinstance(call.request, Reconfigure):
            calls.append(call)
        else:
            handle(call)

    with Room(tmp_path, QUICK, hold) as room:
        waiting = room.raw_unix()
        waiting.sendall(pack_frame("Reconfigure", 1, table.encode(Reconfigure(ID))))
        for count in (1, 2):
            idle = room.raw_unix()
            idle.sendall(pack_frame("Ping", 1, PING))
            assert read_frame(idle)
            assert read_exactly(idle, 1) == b""
            assert room.server.refusals["idle"] == count
        room.loop.call_soon_threadsafe(calls[0].reply, {"late": 1})
        got = read_frame(waiting)
        assert got is not None
        assert got[3] == {"late": 1}


def test_a_connection_that_does_not_read_is_closed(tmp_path: Path) -> None:
    """Answers are not kept for ever for a client that sleeps."""

    def flood(call: Call) -> None:
        call.reply({"blob": b"x" * (32 << 20)})

    with Room(tmp_path, QUICK, flood) as room:
        lazy = room.raw_unix()
        lazy.sendall(pack_frame("Ping", 1, PING))
        wait_for(room, "too_slow")
        assert room.server.refusals["too_slow"] == 1


def test_one_address_cannot_take_every_place(tmp_path: Path) -> None:
    """The third connection of an address that proves its user gets that answer."""
    limits = StreamLimits(connections_per_address=2)
    with Room(tmp_path, limits) as room:
        kept = [room.raw_tcp(), room.raw_tcp()]
        for connection in kept:
            connection.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING)))
            assert read_frame(connection)
        third = room.raw_tcp()
        third.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING)))
        assert "too many connections of address" in refusal(third)[1]


def test_bodies_beyond_the_room_wait_and_all_are_answered(tmp_path: Path) -> None:
    """Bounded bytes and requests in flight slow a client down; they lose nothing."""
    limits = StreamLimits(outstanding=4, users_bytes=3 * CALL_BYTES, share_floor=CALL_BYTES)
    calls: list[Call] = []
    most = 0

    def later(call: Call) -> None:
        nonlocal most
        calls.append(call)
        most = max(most, len(calls))
        room.loop.call_later(0.002, answer)

    def answer() -> None:
        calls.pop(0).reply({})

    with Room(tmp_path, limits, later) as room:
        body = table.encode(Reconfigure(ID))
        clients = [room.raw_unix() for _ in range(3)]
        for client in clients:
            client.sendall(b"".join(pack_frame("Reconfigure", n, body) for n in range(1, 31)))
        for client in clients:
            got = [read_frame(client) for _ in range(30)]
            assert [frame[2] for frame in got if frame] == list(range(1, 31))
        assert most <= 4
        assert room.server.shares.counts()["bytes_in_flight"] == 0
        assert room.server.shares.counts()["connections_held"] == 0


def test_a_users_flood_waits_behind_another_users_request(room: Room) -> None:
    """RELIABILITY 46: turns go by uid, not by connection or arrival."""
    order: list[int] = []

    def note(call: Call) -> None:
        order.append(call.peer.uid)
        call.reply({})

    room.server.handler = note
    flood = [room.raw_tcp() for _ in range(10)]
    alone = room.raw_tcp()
    for client in (*flood, alone):
        # Connections are accepted before the loop is stopped.
        client.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=CAROL)))
        assert read_frame(client)
    order.clear()
    stopped, go = threading.Event(), threading.Event()
    room.loop.call_soon_threadsafe(lambda: (stopped.set(), go.wait(60)))
    assert stopped.wait(60)
    for client in flood:
        tokens = [room.token("Ping", PING) for _ in range(20)]
        client.sendall(
            b"".join(pack_frame("Ping", n, PING, 0, token) for n, token in enumerate(tokens, 1))
        )
    alone.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=BOB)))
    go.set()
    assert read_frame(alone)
    assert order.index(BOB) <= 1


def test_a_full_lane_slows_its_user_and_loses_nothing(tmp_path: Path) -> None:
    """What waits per uid is bounded; the rest waits in the sender's kernel."""
    most = 0

    def slow(call: Call) -> None:
        nonlocal most
        most = max(most, len(room.server.lanes))
        call.reply({})

    with Room(tmp_path, StreamLimits(waiting_per_uid=10), slow) as room:
        clients = [room.raw_unix() for _ in range(3)]
        for client in clients:
            client.sendall(b"".join(pack_frame("Ping", n, PING) for n in range(1, 501)))
        for client in clients:
            got = [read_frame(client) for _ in range(500)]
            assert [frame[2] for frame in got if frame] == list(range(1, 501))
        assert most <= 10
        assert not room.server.held_in_lane


def test_a_clock_far_off_is_named(tmp_path: Path) -> None:
    """RELIABILITY 14: both times in the answer."""
    with Room(tmp_path, clock_us=lambda: NOW_US) as room:
        room.authenticator._clock_us = lambda: NOW_US - 3600 * 1_000_000
        token = room.token("Ping", PING)
        room.authenticator._clock_us = lambda: NOW_US
        connection = room.raw_tcp()
        connection.sendall(pack_frame("Ping", 1, PING, 0, token))
        text = refusal(connection)[1]
        assert "13:13:20Z" in text
        assert "14:13:20Z" in text


def test_two_daemons_cannot_share_a_socket(room: Room) -> None:
    """A living daemon keeps its address; a dead one's is taken over."""
    from pyslurm_ng.wire.stream import bind_unix

    with pytest.raises(OSError, match="another daemon"):
        bind_unix(room.path, 0o666)
    dead = room.path + ".dead"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(dead)
    bind_unix(dead, 0o600).close()


def test_long_directories_are_fine(tmp_path: Path) -> None:
    """A Unix address holds 107 bytes; a path may be longer."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with Room(deep) as room:
        assert room.client().call("Ping", {})["role"] == "unix"


@settings(
    max_examples=drawn(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.binary(max_size=300)
    | st.builds(
        lambda kind, body, flags, credential: pack_frame(kind, 1, body, flags, credential),
        st.sampled_from([row.kind for row in table.rows()]),
        st.binary(max_size=100),
        st.integers(0, 7),
        st.sampled_from([b"", b"pT1", b"x" * 60]),
    )
)
def test_no_bytes_break_the_server(room: Room, sent: bytes) -> None:
    """RELIABILITY 42: an error reply or a closed connection, and the next client is served."""
    connection = room.raw_unix()
    connection.sendall(sent)
    connection.shutdown(socket.SHUT_WR)
    while read_frame(connection) is not None:
        pass
    connection.close()
    room.bugs.clear()
    assert room.client().call("Ping", {})["role"] == "unix"


def test_a_frame_that_never_ends_costs_what_was_sent(room: Room) -> None:
    """RELIABILITY 41: nothing of the declared size is allocated."""
    connection = room.raw_unix()
    row = table.row("JournalBatch")
    head = frame.HEAD.pack(b"psng", 1, 0, len(row.kind), 0, 0, row.max_bytes, 1)
    connection.sendall(head + row.kind.encode() + struct.pack(">I", 0))
    assert room.client().call("Ping", {})
    (slow,) = [
        connection
        for connection in room.server.connections
        if not connection._parser.is_between_frames
    ]
    assert slow._parser.pending_bytes < 100
