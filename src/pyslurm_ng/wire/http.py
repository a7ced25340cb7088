"""One GET by HTTP on a port that otherwise speaks frames: health and metrics of a daemon.

Frames begin with `psng`, requests of HTTP with a capital letter. A request has a bounded head and
no body. It is answered once, and the connection ends: as with Slurm's controller there is no
keep-alive. A long answer is handed to the kernel piece by piece, so that many slow readers of one
page hold that page once.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyslurm_ng.wire import auth
from pyslurm_ng.wire.auth import Peer

MOST_HEAD_BYTES = 8 << 10
PIECE_BYTES = 64 << 10
_BEGINS = re.compile(rb"[A-Z]")
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,2047}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([ -~\t]*?)[ \t]*")
_REASONS = {
    200: "OK", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
    404: "Not Found", 405: "Method Not Allowed", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What was asked: `path` has no query, names of `headers` are in lower case.

    `peer` is the asking process on a Unix socket, None on TCP.
    """

    method: str
    path: str
    headers: dict[str, str]
    peer: Peer | None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status and body; `headers` are further lines without their ends."""

    status: int
    body: bytes = b""
    headers: tuple[str, ...] = ()


Responder: TypeAlias = Callable[[HttpRequest, Callable[[HttpAnswer], None]], None]
"""Answers a request by calling its second argument once, now or later, on the same loop."""


class Transport(Protocol):
    """What is needed of asyncio's transport."""

    def write(self, data: bytes | memoryview) -> None:
        """Send."""

    def close(self) -> None:
        """Send what is buffered and close."""


class Pages(Protocol):
    """A server that may have pages.

    Attributes:
        host: this host's name.
        http: answers requests; None without pages.
    """

    host: str
    http: Responder | None


def take_over(
    server: Pages, former: asyncio.Protocol, transport: asyncio.Transport | None, data: bytes
) -> bool:
    """Go on by HTTP if that is how a connection begins; return whether it is.

    Args:
        former: the connection's protocol, which is told of its end.
        data: the first bytes.
    """
    respond = server.http
    if respond is None or transport is None or _BEGINS.match(data) is None:
        return False
    connection = transport.get_extra_info("socket")
    is_unix = connection.family == socket.AF_UNIX
    peer = auth.socket_peer(connection, server.host) if is_unix else None
    protocol = HttpProtocol(former, HttpExchange(transport, peer), respond)
    transport.set_protocol(protocol)
    protocol.data_received(data)
    return True


class HttpProtocol(asyncio.Protocol):
    """Hands what comes to an exchange, and the end to the protocol before it."""

    def __init__(
        self, former: asyncio.Protocol, exchange: HttpExchange, respond: Responder
    ) -> None:
        self._former = former
        self._exchange = exchange
        self._respond = respond

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self._exchange.feed(data, self._respond)

    def eof_received(self) -> bool:
        """Keep the connection: a client may close its sending side and wait for the answer."""
        return True

    def pause_writing(self) -> None:
        """Wait for the reader."""
        self._exchange.pause()

    def resume_writing(self) -> None:
        """Go on sending."""
        self._exchange.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._exchange.end()
        self._former.connection_lost(exc)


class HttpExchange:
    """Reads one request and writes its answer.

    Attributes:
        is_answered: the answer is on its way; nothing more is read.
    """

    __slots__ = ("_head", "_is_asked", "_is_full", "_peer", "_rest", "_transport", "is_answered")

    def __init__(self, transport: Transport, peer: Peer | None) -> None:
        self._transport = transport
        self._head = b""
        self._rest = memoryview(b"")
        self._is_asked = self._is_full = False
        self.is_answered = False
        self._peer = peer

    def feed(self, data: bytes, respond: Responder) -> None:
        """Take bytes; ask `respond` once the head is whole."""
        if self._is_asked:
            return  # a body, or further requests: the connection ends with the first answer
        self._head += data
        head, end, _ = self._head.partition(b"\r\n\r\n")
        if len(head) > MOST_HEAD_BYTES:
            self._is_asked = True
            self.answer(HttpAnswer(431))
        elif end:
            self._is_asked = True
            self._head = b""
            request = _parsed(head, self._peer)
            if request is None:
                self.answer(HttpAnswer(400))
            elif request.method not in ("GET", "HEAD"):
                self.answer(HttpAnswer(405, headers=("Allow: GET, HEAD",)))
            else:
                respond(request, self._answerer(request.method == "HEAD"))

    def answer(self, answer: HttpAnswer, *, is_head: bool = False) -> None:
        """Send an answer and end the connection."""
        if self.is_answered:
            return
        self.is_answered = True
        lines = [
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
            "Connection: Close",
            *([f"Content-Length: {len(answer.body)}"] if answer.status != 204 else ()),
            *(["Content-Type: text/plain"] if answer.body else ()),
            *answer.headers,
        ]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        self._rest = memoryview(b"" if is_head else answer.body)
        self._send()

    def pause(self) -> None:
        """Send nothing until `resume`: the peer does not read."""
        self._is_full = True

    def resume(self) -> None:
        """Go on sending."""
        self._is_full = False
        if self._rest:
            self._send()

    def end(self) -> None:
        """Send nothing more: the connection has ended."""
        self._is_asked = self.is_answered = True
        self._rest = memoryview(b"")

    def _answerer(self, is_head: bool) -> Callable[[HttpAnswer], None]:
        return lambda answer: self.answer(answer, is_head=is_head)

    def _send(self) -> None:
        while self._rest and not self._is_full:
            piece, self._rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
            self._transport.write(piece)
        if not self._rest:
            self._transport.close()


def _parsed(head: bytes, peer: Peer | None) -> HttpRequest | None:
    """Return the request of a head without its empty line; None for what is no request."""
    first, *lines = head.split(b"\r\n")
    words = _REQUEST.fullmatch(first)
    if words is None:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        name = header[1].decode("ascii").lower() if header else ""
        if header is None or name in headers:
            return None
        headers[name] = header[2].decode("ascii")
    path = words[2].decode("ascii").partition("?")[0]
    return HttpRequest(words[1].decode("ascii"), path, headers, peer)
