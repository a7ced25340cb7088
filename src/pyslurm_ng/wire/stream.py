"""Serving commands (and slurmdbd's, slurmd's clients): frames on a Unix socket or TCP.

A plain `asyncio.Protocol`: many requests may be outstanding per connection, each answered when
its `Call` is, in any order, so that the writer can release replies after their batch is durable
without a task per request. Replies of one loop turn leave in one write.

Bounds, all of them in `StreamLimits`: connections in all, per uid and per address; requests
outstanding per connection; bytes of bodies admitted and not answered yet, over all connections
(a body that finds no room waits in the kernel's buffer); requests waiting per uid; time for the
first request; a least rate for a frame that has begun and for a reply that is being read.

Requests are handed over in turn between uids (`wire.lanes`), some milliseconds' worth per turn of
the loop; administrators and daemons have a lane of their own.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from pyslurm_ng.wire import auth, frame, table
from pyslurm_ng.wire.auth import Authenticator, AuthError, Peer
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.messages import ErrorReply, IssueToken, TokenIssued
from pyslurm_ng.wire.table import MessageError, MessageRow

PRIVILEGED_LANE = -1
PRIVILEGED_WEIGHT = 8
TURN_S = 0.005
TURN_CALLS = 1_024

# Slurm's numbers: SLURM_UNEXPECTED_MSG_ERROR, _PROTOCOL_VERSION_ERROR,
# _PROTOCOL_AUTHENTICATION_ERROR, _PROTOCOL_INSANE_MSG_LENGTH, ESLURM_ACCESS_DENIED,
# ESLURM_INTERNAL.
UNEXPECTED_MESSAGE = 1000
BAD_VERSION = 1005
BAD_AUTHENTICATION = 1007
BAD_LENGTH = 1008
ACCESS_DENIED = 2002
INTERNAL = 2090


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Bounds of one server; rates in bytes per second."""

    connections: int = 16_384
    connections_per_uid: int = 4_096
    connections_per_address: int = 4_096
    reserved_for_admins: int = 64
    outstanding: int = 1_024
    waiting_per_uid: int = 4_096
    admitted_bytes: int = 256 << 20
    write_buffer_bytes: int = 1 << 30
    handshake_s: float = 10.0
    idle_s: float = 600.0
    grace_s: float = 10.0
    least_rate: int = 1_024


class Call:
    """One request that waits for its answer.

    Answer exactly once with `reply` or `error`; any number of `part`s may come before. Answers
    to a connection that has gone are dropped.
    """

    __slots__ = ("_connection", "_on_gone", "body_bytes", "kind", "peer", "request", "sequence")

    def __init__(
        self,
        connection: _Connection,
        kind: str,
        sequence: int,
        peer: Peer,
        request: msgspec.Struct,
        body_bytes: int,
    ) -> None:
        self._connection = connection
        self._on_gone: Callable[[], None] | None = None
        self.kind = kind
        self.sequence = sequence
        self.peer = peer
        self.request = request
        self.body_bytes = body_bytes

    def reply(self, answer: msgspec.Struct | dict[str, Any] | bytes) -> None:
        """Send the final answer; bytes are a ready msgpack map."""
        kind, body = _answer(answer)
        self._connection.answer(self, kind, body, frame.FLAG_REPLY)

    def part(self, answer: msgspec.Struct | dict[str, Any] | bytes) -> None:
        """Send an answer that others follow (allocation notices, followers)."""
        kind, body = _answer(answer)
        self._connection.send(self, kind, body, frame.FLAG_REPLY | frame.FLAG_MORE)

    def error(self, code: int, text: str) -> None:
        """Send the final answer: refused, with Slurm's number and one line of text."""
        body = table.encode(ErrorReply(code, text))
        self._connection.answer(self, "ErrorReply", body, frame.FLAG_REPLY | frame.FLAG_ERROR)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back once if the connection ends before the final answer."""
        self._on_gone = callback

    @property
    def is_answered(self) -> bool:
        """Whether the final answer was given, or nobody waits for it any more."""
        return not self._connection.awaits(self)

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.is_closed

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet; senders of many parts wait while this is large."""
        return self._connection.unsent_bytes


Handler = Callable[[Call], None]


def _answer(answer: msgspec.Struct | dict[str, Any] | bytes) -> tuple[str, bytes]:
    if isinstance(answer, bytes):
        return "Reply", answer
    if isinstance(answer, dict):
        return "Reply", msgspec.msgpack.encode(answer)
    return table.kind_of(answer), table.encode(answer)


class StreamServer:
    """Listens, authenticates, checks and hands requests to `handler`.

    Args:
        handler: called on the loop with each admitted `Call`; it must not block. What it raises
            is a bug: the peer gets "internal error", and the loop's exception handler the rest.
        audience: this receiver's name in credentials: slurmctld, slurmdbd, slurmd:NODE.
        host: this host's name.
        service_uid: SlurmUser; with uid 0 the holder of role admin.
        authenticator: for TCP and for issuing tokens; None serves Unix sockets only.
        roles_of: further roles of a user (operator, admin) by accounting records.
        limits: bounds.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        audience: str,
        host: str,
        service_uid: int,
        authenticator: Authenticator | None,
        roles_of: Callable[[Peer], frozenset[str]] | None = None,
        limits: StreamLimits | None = None,
    ) -> None:
        self.handler = handler
        self.audience = audience
        self.host = host
        self.authenticator = authenticator
        self.limits = limits or StreamLimits()
        self.refusals: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.connections: set[_Connection] = set()
        self.held: set[_Connection] = set()
        self.held_in_lane: dict[int, set[_Connection]] = {}
        self.lanes: Lanes[Call] = Lanes({PRIVILEGED_LANE: PRIVILEGED_WEIGHT})
        self._turn_due = False
        self.admitted_bytes = 0
        self.by_origin: Counter[str] = Counter()
        self.privileged = frozenset((0, service_uid))
        self._roles_of = roles_of
        self._servers: list[asyncio.Server] = []
        self._listeners: list[socket.socket] = []
        self._paths: list[tuple[str, int]] = []
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._to_sweep: list[_Connection] = []
        bounds = self.limits
        self._sweep_s = min(1.0, bounds.handshake_s / 4, bounds.grace_s / 4, bounds.idle_s / 4)

    async def listen_unix(self, path: str, mode: int = 0o666) -> None:
        """Listen on a Unix socket; its directory is made when missing.

        Raises:
            OSError: the path cannot be bound, or another process answers there.
        """
        listener = bind_unix(path, mode)
        self._paths.append((path, os.stat(path).st_ino))
        await self._serve(listener)

    async def listen_tcp(self, address: str | None, port: int) -> int:
        """Listen on TCP, on every address for None; return the port (useful for port 0)."""
        if self.authenticator is None:
            raise ValueError("TCP needs an authenticator")
        listener = bind_tcp(address, port)
        await self._serve(listener)
        bound: int = listener.getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening, cut every connection, remove our Unix sockets."""
        loop = asyncio.get_running_loop()
        # A socket that was accepted just now becomes a connection two turns of the loop later,
        # and asyncio loses it if its server is closed by then.
        for listener in self._listeners:
            loop.remove_reader(listener)
        for turn in range(6):
            for connection in list(self.connections):
                connection.cut()
            if turn == 3:
                for server in self._servers:
                    server.close()
            await asyncio.sleep(0)
        for path, inode in self._paths:
            try:
                if os.stat(path).st_ino == inode:
                    os.unlink(path)
            except FileNotFoundError:
                pass
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    async def _serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        is_unix = listener.family == socket.AF_UNIX
        backlog = 4096
        if is_unix:
            server = await loop.create_unix_server(
                lambda: _Connection(self, loop), sock=listener, backlog=backlog
            )
        else:
            server = await loop.create_server(
                lambda: _Connection(self, loop), sock=listener, backlog=backlog
            )
        self._servers.append(server)
        self._listeners.append(listener)

    def watch(self, connection: _Connection) -> None:
        """Take a new connection into the time-out sweep."""
        self.connections.add(connection)
        if self._sweep_timer is None:
            loop = asyncio.get_running_loop()
            self._sweep_timer = loop.call_later(self._sweep_s, self._sweep)

    def _sweep(self) -> None:
        """Check time-outs of at most 1,000 connections, so that a turn of the loop stays short."""
        loop = asyncio.get_running_loop()
        if not self._to_sweep:
            self._to_sweep = list(self.connections)
        now = loop.time()
        for connection in self._to_sweep[-1000:]:
            connection.check_time(now)
        del self._to_sweep[-1000:]
        self._sweep_timer = None
        if self.connections:
            pause_s = self._sweep_s / 10 if self._to_sweep else self._sweep_s
            self._sweep_timer = loop.call_later(pause_s, self._sweep)

    def release(self, body_bytes: int) -> None:
        """Give back room of an answered body and let connections go on that waited for it."""
        self.admitted_bytes -= body_bytes
        if self.held and self.admitted_bytes <= self.limits.admitted_bytes * 3 // 4:
            waiting, self.held = self.held, set()
            self._unhold(waiting)

    def _unhold(self, connections: set[_Connection]) -> None:
        # Later, because this may be called while one of them feeds its parser.
        loop = asyncio.get_running_loop()
        for connection in connections:
            loop.call_soon(connection.unhold)

    def lane_of(self, peer: Peer) -> int:
        """Return the queue in which this peer's requests wait for their turn."""
        is_first = peer.role != "user" or peer.uid in self.privileged
        return PRIVILEGED_LANE if is_first else peer.uid

    def enqueue(self, call: Call) -> None:
        """Let a checked request wait for its turn."""
        self.lanes.push(self.lane_of(call.peer), call)
        if not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Hand over a few milliseconds' worth of requests, uid by uid."""
        self._turn_due = False
        loop = asyncio.get_running_loop()
        until = loop.time() + TURN_S
        lanes, few = self.lanes, self.limits.waiting_per_uid // 2
        for count in range(1, TURN_CALLS + 1):
            if not lanes:
                break
            lane, call = lanes.pop()
            if not call.is_gone:
                self._hand_over(call)
            if lane in self.held_in_lane and lanes.waiting(lane) <= few:
                self._unhold(self.held_in_lane.pop(lane))
            if count % 8 == 0 and loop.time() > until:
                break
        if lanes and not self._turn_due:
            self._turn_due = True
            loop.call_soon(self._take_turn)

    def _hand_over(self, call: Call) -> None:
        if isinstance(call.request, IssueToken):
            self.issue_token(call, call.request)
            return
        try:
            self.handler(call)
        except Exception as bug:  # noqa: BLE001 - reported below, and the daemon decides
            if not call.is_answered:
                call.error(INTERNAL, "Slurm internal error, contact system administrator")
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"bug while handling {call.kind}", "exception": bug}
            )

    def may_send(self, row: MessageRow, peer: Peer) -> bool:
        """Whether the peer has one of the roles that the message asks for."""
        if peer.role != "user":
            return peer.role in row.roles
        if "user" in row.roles:
            return True
        if peer.uid in self.privileged:
            return not row.roles.isdisjoint(("admin", "operator"))
        if self._roles_of is None or row.roles.isdisjoint(("admin", "operator")):
            return False
        return not row.roles.isdisjoint(self._roles_of(peer))

    def issue_token(self, call: Call, request: IssueToken) -> None:
        """Vouch for the uid that the kernel names, on a Unix socket only."""
        if call.peer.via != "unix" or self.authenticator is None:
            self.refusals["token_not_local"] += 1
            call.error(BAD_AUTHENTICATION, "tokens are issued on the local Unix socket only")
            return
        try:
            token = self.authenticator.issue(
                call.peer, request.audience, request.kind, request.digest
            )
        except AuthError as error:
            self.refusals[error.cause] += 1
            call.error(BAD_AUTHENTICATION, error.text)
            return
        call.reply(TokenIssued(token))


class _Connection(asyncio.Protocol):
    """One accepted connection."""

    __slots__ = (
        "_address", "_calls", "_drained_mark", "_flush_due", "_last_lane", "_loop", "_mark_s",
        "_origin", "_out", "_parser", "_peer", "_received", "_received_mark", "_reserved",
        "_server", "_since_s", "_transport", "_was_authenticated", "_written", "is_closed",
    )  # fmt: skip

    def __init__(self, server: StreamServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._parser = frame.Parser(self._admit, self._take)
        self._transport: asyncio.Transport | None = None
        self._peer: Peer | None = None
        self._address = ""
        self._origin = ""
        self._calls: dict[int, Call] = {}
        self._reserved = 0
        self._out: list[bytes] = []
        self._flush_due = False
        self._received = 0
        self._written = 0
        self._received_mark = 0
        self._drained_mark = 0
        self._since_s = self._mark_s = loop.time()
        self._was_authenticated = False
        self._last_lane: int | None = None
        self.is_closed = False

    # -- life ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        server = self._server
        connection = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            self._peer = auth.socket_peer(connection, server.host)
            self._origin = f"uid {self._peer.uid}"
            self._last_lane = server.lane_of(self._peer)
            most = server.limits.connections_per_uid
        else:
            # asyncio sets it only where the listener was made with IPPROTO_TCP, which the
            # standard library's `create_server` does not; without it answers wait 40 ms.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            name = transport.get_extra_info("peername")
            self._address = name[0] if name else "unknown"
            self._origin = f"address {self._address}"
            most = server.limits.connections_per_address
        server.watch(self)
        server.by_origin[self._origin] += 1
        most_here = server.limits.connections
        if self._peer is not None and self._peer.uid in server.privileged:
            most = most_here = most_here + server.limits.reserved_for_admins
        if server.by_origin[self._origin] > most:
            self._refuse(
                BadFrame("too_many_connections", f"too many connections of {self._origin}"),
                BAD_LENGTH,
            )
        elif len(server.connections) > most_here:
            self._refuse(BadFrame("too_many_connections", "too many connections"), BAD_LENGTH)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        server = self._server
        server.connections.discard(self)
        server.held.discard(self)
        if self._last_lane in server.held_in_lane:
            server.held_in_lane[self._last_lane].discard(self)
        server.by_origin[self._origin] -= 1
        if server.by_origin[self._origin] <= 0:
            del server.by_origin[self._origin]
        calls = list(self._calls.values())
        self._calls.clear()
        self._out.clear()
        server.release(self._reserved)
        self._reserved = 0
        for call in calls:
            if call._on_gone is not None:
                call._on_gone()

    def cut(self) -> None:
        """End the connection without sending what is buffered."""
        if self._transport is not None:
            self._transport.abort()

    def check_time(self, now: float) -> None:
        """Cut what is too slow, never spoke or has been idle for long."""
        limits = self._server.limits
        if self.is_closed:
            # Refused, and the reason is not being read.
            if self._transport is not None and now - self._mark_s > limits.grace_s:
                self._transport.abort()
            return
        is_new = not self._was_authenticated and not self._parser.is_held
        if is_new and now - self._since_s > limits.handshake_s:
            self._cut_for("handshake_timeout")
            return
        drained = self._written - self.unsent_bytes
        is_sending = self.unsent_bytes > 0
        is_receiving = not self._parser.is_between_frames and not self._parser.is_held
        if not is_sending and not is_receiving:
            has_moved = self._received != self._received_mark or drained != self._drained_mark
            if has_moved or self._calls or self._parser.is_held:
                self._mark(now, drained)
            elif now - self._mark_s > limits.idle_s:
                self._cut_for("idle")
            return
        waited_s = now - self._mark_s
        if waited_s <= limits.grace_s:
            return
        # The slower direction decides: a peer may neither trickle its request nor its reading.
        least = limits.least_rate * waited_s
        if (is_sending and drained - self._drained_mark < least) or (
            is_receiving and self._received - self._received_mark < least
        ):
            self._cut_for("too_slow")
            return
        self._mark(now, drained)

    def _mark(self, now: float, drained: int) -> None:
        self._mark_s = now
        self._received_mark = self._received
        self._drained_mark = drained

    def _cut_for(self, cause: str) -> None:
        self._server.refusals[cause] += 1
        self.cut()

    # -- receiving -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.is_closed:
            return
        if self._parser.is_between_frames:
            # A frame begins: its time is counted from here, not from the last answer.
            self._mark(self._loop.time(), self._written - self.unsent_bytes)
        self._received += len(data)
        self._feed(data)

    def eof_received(self) -> bool:
        # The client has gone: nobody half-closes here, and a dead srun must be noticed.
        return False

    def pause_writing(self) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self.is_closed and not self._parser.is_held:
            self._transport.resume_reading()

    def unhold(self) -> None:
        """Try again to admit the frame that found no room."""
        if self.is_closed or self._transport is None:
            return
        self._mark(self._loop.time(), self._written - self.unsent_bytes)
        self._feed(b"")
        if not self._parser.is_held and not self.is_closed:
            self._transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except BadFrame as error:
            is_auth = isinstance(error.__cause__, AuthError)
            self._refuse(error, BAD_AUTHENTICATION if is_auth else _code_of(error.cause))
            return
        if self._parser.is_held and self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def _admit(
        self, kind: str, flags: int, sequence: int, credential: bytes, body_bytes: int
    ) -> auth.Admission | None:
        """Judge a frame by its head; see `frame.Parser`."""
        server = self._server
        row = table.find_row(kind)
        if flags or row is None or row.is_reply:
            raise BadFrame("unknown_kind", f"unknown message type {kind}", sequence)
        if body_bytes > row.max_bytes:
            raise BadFrame(
                "too_long",
                f"{kind}: {body_bytes} bytes, at most {row.max_bytes} are allowed",
                sequence,
            )
        if not self._has_room(body_bytes):
            return None
        if credential or self._peer is None:
            if server.authenticator is None:
                raise BadFrame("missing", "credentials are not accepted here", sequence)
            try:
                admission = server.authenticator.admit(credential, kind, server.audience)
            except AuthError as error:
                raise BadFrame(error.cause, error.text, sequence) from error
        else:
            admission = auth.Admission(self._peer, None)
        self._was_authenticated = True
        self._last_lane = server.lane_of(admission.peer)
        server.admitted_bytes += body_bytes
        self._reserved += body_bytes
        return admission

    def _has_room(self, body_bytes: int) -> bool:
        """Whether one more request may come in; if not, somebody will call `unhold`."""
        server, limits = self._server, self._server.limits
        if len(self._calls) >= limits.outstanding:
            return False
        # One body is always admitted when none is, so that the largest cannot wait for ever.
        if server.admitted_bytes and server.admitted_bytes + body_bytes > limits.admitted_bytes:
            server.held.add(self)
            return False
        if self._last_lane is not None:
            lane = self._last_lane
            if server.lanes.waiting(lane) >= limits.waiting_per_uid:
                server.held_in_lane.setdefault(lane, set()).add(self)
                return False
        return True

    def _take(self, kind: str, _: int, sequence: int, ticket: object, body: bytes) -> None:
        """Check a whole request and let it wait for its turn."""
        if self.is_closed:
            return
        server = self._server
        assert isinstance(ticket, auth.Admission)
        row = table.row(kind)
        call = Call(self, kind, sequence, ticket.peer, _NO_REQUEST, len(body))
        if sequence in self._calls:
            self._refuse(BadFrame("sequence_in_use", "sequence in use", sequence), BAD_LENGTH)
            return
        self._calls[sequence] = call
        try:
            auth.check_digest(ticket, kind, body)
            if not server.may_send(row, ticket.peer):
                raise MessageError("role", "Access/permission denied")
            call.request = table.decode_request(kind, body)
        except AuthError as error:
            server.refusals[error.cause] += 1
            call.error(BAD_AUTHENTICATION, error.text)
            return
        except MessageError as error:
            server.refusals[error.cause] += 1
            call.error(ACCESS_DENIED if error.cause == "role" else BAD_LENGTH, error.text)
            return
        server.requests[kind] += 1
        server.enqueue(call)

    # -- sending ---------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """Bytes buffered here and in the transport."""
        waiting = sum(map(len, self._out))
        if self._transport is not None and not self.is_closed:
            waiting += self._transport.get_write_buffer_size()
        return waiting

    def awaits(self, call: Call) -> bool:
        """Whether this call is open."""
        return self._calls.get(call.sequence) is call

    def answer(self, call: Call, kind: str, body: bytes, flags: int) -> None:
        """Send the last answer of a call and give its room back."""
        if self._calls.get(call.sequence) is not call:
            assert self.is_closed, f"{call.kind} was answered twice"
            return
        self.send(call, kind, body, flags)
        del self._calls[call.sequence]
        self._reserved -= call.body_bytes
        server = self._server
        server.release(call.body_bytes)
        if self._parser.is_held and len(self._calls) == server.limits.outstanding // 2:
            self._loop.call_soon(self.unhold)

    def send(self, call: Call, kind: str, body: bytes, flags: int) -> None:
        """Queue a frame; everything queued in one turn of the loop leaves in one write."""
        if self.is_closed or self._calls.get(call.sequence) is not call:
            return
        self._out.append(frame.pack_head(kind, call.sequence, flags, 0, len(body)))
        self._out.append(body)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self.is_closed or self._transport is None or not self._out:
            return
        queued = b"".join(self._out)
        self._out.clear()
        if not self._transport.get_write_buffer_size():
            self._mark(self._loop.time(), self._written)
        self._written += len(queued)
        self._transport.write(queued)
        if self._transport.get_write_buffer_size() > self._server.limits.write_buffer_bytes:
            self._cut_for("too_slow")

    def _refuse(self, error: BadFrame, code: int) -> None:
        """Say why, once, and close."""
        self._server.refusals[error.cause] += 1
        if self._transport is None or self.is_closed:
            return
        body = table.encode(ErrorReply(code, error.text))
        flags = frame.FLAG_REPLY | frame.FLAG_ERROR
        self._flush()
        self._transport.write(frame.pack_frame("ErrorReply", error.sequence, body, flags))
        self._transport.close()
        # Nothing more is read; calls still open end through connection_lost.
        self.is_closed = True
        self._mark_s = self._loop.time()


_NO_REQUEST = ErrorReply(0, "")


def _code_of(cause: str) -> int:
    if cause == "bad_version":
        return BAD_VERSION
    return UNEXPECTED_MESSAGE if cause in ("unknown_kind", "bad_magic") else BAD_LENGTH


# --- listening sockets --------------------------------------------------------------------


def bind_unix(path: str, mode: int) -> socket.socket:
    """Return a bound Unix socket; a dead predecessor's is replaced, a living one's is not.

    Raises:
        OSError: EADDRINUSE when another process answers there, or as bind and mkdir do.
    """
    directory, name = os.path.split(path)
    os.makedirs(directory or ".", mode=0o755, exist_ok=True)
    folder = os.open(directory or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Addresses are limited to 107 bytes; through the descriptor only the name counts.
        short = f"/proc/self/fd/{folder}/{name}"
        if os.path.lexists(path):
            _unlink_dead(short, path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(short)
            os.chmod(path, mode)
        except OSError:
            listener.close()
            raise
    finally:
        os.close(folder)
    listener.setblocking(False)
    return listener


def _unlink_dead(short: str, path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(short)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(98, f"{path}: another daemon answers there")


def bind_tcp(address: str | None, port: int) -> socket.socket:
    """Return a bound TCP socket, on IPv6 and IPv4 for no address; raise OSError as bind does."""
    if address is None:
        if socket.has_dualstack_ipv6():
            listener = socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4096
            )
        else:
            listener = socket.create_server(("", port), backlog=4096)
    else:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(where[:2], family=family, backlog=4096)
    listener.setblocking(False)
    return listener
