"""One GET by HTTP on a port that otherwise speaks frames."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pyslurm_ng.wire.http import PIECE_BYTES, HttpAnswer, HttpExchange, HttpRequest
from tests.wire.wire_room import Room

BODY = bytes(range(256)) * 20_000


def respond(request: HttpRequest, answer: Callable[[HttpAnswer], None]) -> None:
    if request.path == "/who":
        uid = -1 if request.peer is None else request.peer.uid
        answer(HttpAnswer(200, f"{uid} {request.headers.get('x-a', '')}".encode()))
    elif request.path == "/large":
        answer(HttpAnswer(200, BODY))
    else:
        answer(HttpAnswer(404))


@pytest.fixture
def http_room(room: Room) -> Room:
    room.server.http = respond
    return room


def asked(connection: socket.socket, *parts: bytes) -> tuple[bytes, bytes]:
    """Send a request in parts; return the first line and the body of the answer."""
    for part in parts:
        connection.sendall(part)
    answer = b""
    while more := connection.recv(1 << 20):
        answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], body


def test_a_request_in_parts(http_room: Room) -> None:
    """The kernel may deliver any number of bytes at a time."""
    parts = (b"G", b"ET /who?x=1 HT", b"TP/1.1\r\nX-A:  b c \r\n", b"\r\n")
    assert asked(http_room.raw_tcp(), *parts) == (b"HTTP/1.1 200 OK", b"-1 b c")


def test_a_unix_socket_tells_who_asks(http_room: Room) -> None:
    answer = asked(http_room.raw_unix(), b"GET /who HTTP/1.1\r\n\r\n")
    assert answer == (b"HTTP/1.1 200 OK", f"{os.getuid()} ".encode())


def test_frames_are_served_on_the_same_port(http_room: Room) -> None:
    assert asked(http_room.raw_tcp(), b"HEAD /large HTTP/1.0\r\n\r\n") == (b"HTTP/1.1 200 OK", b"")
    assert http_room.client().call("Ping", {})["role"] == "unix"


def test_a_long_answer_arrives_whole(http_room: Room) -> None:
    assert asked(http_room.raw_tcp(), b"GET /large HTTP/1.1\r\n\r\n")[1] == BODY


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /who HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET who HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nA: 1\r\na: 2\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/2.0\r\n\r\n", b"400 Bad Request"),
        (b"GET /" + b"a" * 9000, b"431 Request Header Fields Too Large"),
        (b"GET /none HTTP/1.1\r\n\r\nGET /who HTTP/1.1\r\n\r\n", b"404 Not Found"),
    ],
)
def test_what_is_no_request_is_refused(http_room: Room, sent: bytes, status: bytes) -> None:
    assert asked(http_room.raw_tcp(), sent)[0] == b"HTTP/1.1 " + status
    assert not http_room.bugs


def test_a_server_without_pages_refuses_it(room: Room) -> None:
    """slurmd has no pages; what is no frame ends the connection as before."""
    assert b"HTTP" not in asked(room.raw_tcp(), b"GET / HTTP/1.1\r\n\r\n" + b" " * 24)[0]


class Reader:
    """A transport whose peer reads one piece at a time."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False
        self.full: Callable[[], None] = lambda: None

    def write(self, data: bytes | memoryview) -> None:
        self.sent.append(bytes(data))
        self.full()

    def close(self) -> None:
        self.is_closed = True


def test_a_slow_reader_holds_one_piece(tmp_path: Path) -> None:
    """The rest stays in the page that all readers share."""
    reader = Reader()
    exchange = HttpExchange(reader, None)
    reader.full = exchange.pause
    exchange.feed(b"GET /large HTTP/1.1\r\n\r\n", respond)
    assert len(reader.sent) == 1
    for _ in range(3):
        exchange.resume()
    assert [len(piece) for piece in reader.sent[1:]] == [PIECE_BYTES] * 3
    assert not reader.is_closed
    exchange.end()
    exchange.resume()
    assert len(reader.sent) == 4


def test_an_answer_after_the_end_is_dropped() -> None:
    """The reader may have gone while its page was made."""
    late: list[Callable[[HttpAnswer], None]] = []
    reader = Reader()
    exchange = HttpExchange(reader, None)
    exchange.feed(b"GET / HTTP/1.1\r\n\r\n", lambda request, answer: late.append(answer))
    exchange.end()
    late[0](HttpAnswer(200, b"x"))
    assert reader.sent == []
