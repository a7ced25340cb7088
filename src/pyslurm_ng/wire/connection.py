"""One accepted connection of a stream server, and the requests that came over it."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire import auth, frame, table
from pyslurm_ng.wire.auth import Admission, Authenticator, AuthError, Peer
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.shares import STRANGERS, Holder, Shares, TooMany
from pyslurm_ng.wire.stream_limits import StreamLimits
from pyslurm_ng.wire.table import MessageError, MessageRow

RECEIVE_BYTES = 64 << 10
"""The most that is read in one piece; a connection may hold so much beyond its share."""


class Call:
    """One request that waits for its answer.

    It is answered exactly once with `reply` or `error`, after any number of `part`s. Answers to a
    connection that has gone are dropped.

    Attributes:
        holder: the user or group whose share it is charged to.
        request: the decoded request, once the call's turn has come.
        body_bytes: length of the request's body.
        stays_open: it is answered when an allocation or step ends, and counted as such.
    """

    __slots__ = (
        "_admission", "_body", "_connection", "_on_gone", "body_bytes", "holder", "kind", "peer",
        "request", "sequence", "stays_open",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, kind: str, sequence: int, admission: Admission, body: bytes
    ) -> None:
        self._connection = connection
        self._on_gone: Callable[[], None] | None = None
        self._admission = admission
        self._body = body
        self.kind = kind
        self.sequence = sequence
        self.peer = admission.peer
        self.holder = connection.holder
        self.request: msgspec.Struct = _NO_REQUEST
        self.body_bytes = len(body)
        self.stays_open = False

    def keep_open(self) -> None:
        """Count it among its holder's open calls, not among requests that are soon answered."""
        self.stays_open = True
        self._connection.charge_open(self)

    def read(self) -> None:
        """Check the body against its credential and decode it; thread-safe.

        Raises:
            AuthError, MessageError: it does not match its credential or its schema.
        """
        body, self._body = self._body, b""
        auth.check_digest(self._admission, self.kind, body)
        self.request = table.decode_request(self.kind, body)

    @property
    def address(self) -> str:
        """The sender's network address, "" for one that came over a Unix socket."""
        return self._connection.address

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

    def refuse(self, error: AuthError | MessageError) -> None:
        """Answer that the request itself is wrong."""
        code = Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH
        if isinstance(error, AuthError):
            code = Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR
        elif error.cause == "role":
            code = Errno.ESLURM_ACCESS_DENIED
        self.error(code, error.text)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back once if the connection ends before the final answer."""
        self._on_gone = callback

    def gone(self) -> None:
        """Call the function given to `on_gone`: the connection has ended."""
        callback, self._on_gone = self._on_gone, None
        if callback is not None:
            callback()

    def forget(self) -> None:
        """Forget the function that waits for the connection's end."""
        self._on_gone = None

    @property
    def is_answered(self) -> bool:
        """Whether the final answer was given, or the client no longer waits for it."""
        return not self._connection.awaits(self)

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.is_closed

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer has not taken yet; senders of many parts wait while this is large."""
        return self._connection.unsent_bytes


_NO_REQUEST = ErrorReply(0, "")


def _answer(answer: msgspec.Struct | dict[str, Any] | bytes) -> tuple[str, bytes]:
    if isinstance(answer, bytes):
        return "Reply", answer
    if isinstance(answer, dict):
        return "Reply", msgspec.msgpack.encode(answer)
    return table.kind_of(answer), table.encode(answer)


class Server(Protocol):
    """What a connection needs of its server, `wire.stream.StreamServer`."""

    audience: str
    host: str
    authenticator: Authenticator | None
    held_in_lane: dict[int, set[Connection]]
    lanes: Lanes[Call]
    limits: StreamLimits
    refusals: Counter[str]
    requests: Counter[str]
    shares: Shares

    def ended(self, call: Call) -> None:
        """Give back what an answered call held."""

    def enqueue(self, call: Call, row: MessageRow) -> None:
        """Let a request wait for its turn, or tell it to come back."""

    def fault(self, text: str, error: BaseException) -> None:
        """Report an unexpected error."""

    def forget(self, connection: Connection) -> None:
        """Drop a connection that has ended."""

    def lane_of(self, peer: Peer) -> int:
        """Return the queue in which this peer's requests wait for their turn."""

    def may_send(self, row: MessageRow, peer: Peer) -> bool:
        """Whether the peer has one of the roles that the message asks for."""

    def watch(self, connection: Connection) -> None:
        """Take a new connection into the time-out sweep."""


class Connection(asyncio.Protocol):
    """One accepted connection.

    Attributes:
        address: the peer's IP address, "" on a Unix socket.
        holder: the share that it counts against; the strangers' until a credential is accepted.
        is_closed: nothing is received or sent after this.
    """

    __slots__ = (
        "_calls", "_drained_mark", "_flush_due", "_frame_s", "_held_s", "_is_held", "_loop",
        "_mark_s", "_out", "_parser", "_partial", "_peer", "_received", "_received_mark",
        "_server", "_since_s", "_ticket", "_transport", "_unread", "_was_authenticated",
        "_written", "address", "holder", "is_closed",
    )  # fmt: skip

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._parser = frame.Parser(self._admit, self._take)
        self._transport: asyncio.Transport | None = None
        self._peer: Peer | None = None
        self._ticket: Admission | None = None
        self._calls: dict[int, Call] = {}
        self._partial = 0
        self._unread = 0
        self._out: list[bytes] = []
        self._flush_due = False
        self._is_held = False
        self._received = 0
        self._written = 0
        self._received_mark = 0
        self._drained_mark = 0
        self._frame_s = self._held_s = 0.0
        self._since_s = self._mark_s = loop.time()
        self._was_authenticated = False
        self.address = ""
        self.holder = _NOBODY
        self.is_closed = False

    def __str__(self) -> str:
        return f"{self.holder} at {self.address}" if self.address else str(self.holder)

    # -- life ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # asyncio reads so much in one piece.
        transport.max_size = RECEIVE_BYTES  # type: ignore[attr-defined]
        server = self._server
        connection = transport.get_extra_info("socket")
        lane = STRANGERS
        if connection.family == socket.AF_UNIX:
            self._peer = auth.socket_peer(connection, server.host)
            lane = server.lane_of(self._peer)
        else:
            # asyncio sets it only where the listener was made with IPPROTO_TCP, which the
            # standard library's `create_server` does not; without it answers wait 40 ms.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            name = transport.get_extra_info("peername")
            self.address = name[0] if name else "unknown"
        server.watch(self)
        try:
            self.holder = server.shares.enter(self, lane)
        except TooMany as error:
            self.refuse(
                BadFrame("too_many_connections", str(error)), Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        server, holder = self._server, self.holder
        server.forget(self)
        calls = list(self._calls.values())
        self._calls.clear()
        self._out.clear()
        server.shares.charge(holder, -self._partial, 0)
        holder.unread_bytes -= self._unread
        self._partial = self._unread = 0
        for call in calls:
            server.ended(call)
        server.shares.leave(self, holder)
        for call in calls:
            call.gone()
        self._parser.close()
        self._transport = None

    def cut(self) -> None:
        """End the connection without sending what is buffered."""
        if self._transport is not None:
            self._transport.abort()

    def give_way(self) -> None:
        """Close because others need the place; a known peer is told so."""
        if self.holder.lane == STRANGERS:
            self.is_closed = True
            self._cut_for("gave_way")
            return
        self.refuse(
            BadFrame("gave_way", f"too many connections of {self}: others need the room"),
            Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF,
        )

    @property
    def is_idle(self) -> bool:
        """Whether all requests are answered."""
        return not self._calls

    def _belong(self, peer: Peer) -> None:
        """Move to the share of the user whose credential was accepted."""
        server, before = self._server, self.holder
        lane = server.lane_of(peer)
        if lane == before.lane:
            return
        try:
            after = server.shares.enter(self, lane)
        except TooMany as error:
            raise BadFrame("too_many_connections", str(error)) from None
        server.shares.charge(before, -self._partial, 0)
        server.shares.charge(after, self._partial, 0)
        before.unread_bytes -= self._unread
        after.unread_bytes += self._unread
        server.shares.leave(self, before)
        self.holder = after

    # -- time ------------------------------------------------------------------------------

    def check_time(self, now: float) -> None:
        """Cut a connection that is too slow, never spoke or has long been idle."""
        limits = self._server.limits
        if self.is_closed:
            # Refused, and the reason is not being read.
            if self._transport is not None and now - self._mark_s > limits.grace_s:
                self._transport.abort()
            return
        is_new = not self._was_authenticated and not self._is_held
        if is_new and now - self._since_s > limits.handshake_s:
            self._cut_for("handshake_timeout")
            return
        if self._unread:
            self._count_unread()
        drained = self._written - self.unsent_bytes
        is_sending = self.unsent_bytes > 0
        is_receiving = not self._parser.is_between_frames and not self._is_held
        if not is_sending and not is_receiving:
            has_moved = self._received != self._received_mark or drained != self._drained_mark
            if has_moved or self._calls or self._is_held:
                self._mark(now, drained)
            elif now - self._mark_s > limits.idle_s:
                self._cut_for("idle")
            return
        if is_receiving and self._frame_s and now - self._frame_s > limits.frame_s:
            self._cut_for("frame_timeout")
            return
        waited_s = now - self._mark_s
        if waited_s <= limits.grace_s:
            return
        # Both directions have a least rate: a peer may not trickle a request or its reading.
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
        # The client has gone: no client half-closes here, and a dead srun must be noticed.
        return False

    def pause_writing(self) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._count_unread()
        if self._transport is not None and not self.is_closed and not self._is_held:
            self._transport.resume_reading()

    def resume(self) -> None:
        """Go on with the frame that had to wait for room."""
        if self.is_closed or self._transport is None:
            return
        if not self._is_held:
            self._server.shares.has_received(self.holder, self)
            return
        now = self._loop.time()
        if self._frame_s:
            self._frame_s += now - self._held_s
        self._mark(now, self._written - self.unsent_bytes)
        self._is_held = False
        self._feed(b"")
        if not self._is_held and not self.is_closed:
            self._transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        parser = self._parser
        try:
            parser.feed(data)
        except BadFrame as error:
            is_auth = isinstance(error.__cause__, AuthError)
            self.refuse(
                error,
                Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR if is_auth else _code_of(error.cause),
            )
            return
        except Exception as error:  # noqa: BLE001 - it costs this connection only
            self._server.fault(f"a connection of {self} was closed", error)
            self.cut()
            return
        partial = parser.pending_bytes
        if partial != self._partial:
            self._server.shares.charge(self.holder, partial - self._partial, 0)
            self._partial = partial
        if not partial or self.is_closed:
            return
        if not self._frame_s:
            self._frame_s = self._loop.time()
        if parser.is_held or not self._server.shares.may_receive(self.holder, self):
            self._hold()

    def _hold(self) -> None:
        """Receive nothing until there is room; the rest waits in the sender's kernel."""
        if not self._is_held and self._transport is not None:
            self._is_held = True
            self._held_s = self._loop.time()
            self._transport.pause_reading()

    def _admit(
        self, kind: str, flags: int, sequence: int, credential: bytes, body_bytes: int
    ) -> Admission | None:
        """Judge a frame by its head; see `frame.Parser`."""
        row = table.find_row(kind)
        if flags or row is None or row.is_reply:
            raise BadFrame("unknown_kind", f"unknown message type {kind}", sequence)
        if body_bytes > row.max_bytes:
            raise BadFrame(
                "too_long",
                f"{kind}: {body_bytes} bytes, at most {row.max_bytes} are allowed",
                sequence,
            )
        admission = self._ticket
        if admission is None:
            admission = self._prove(kind, sequence, credential)
            self._was_authenticated = True
            self._belong(admission.peer)
        if self._has_room():
            self._ticket = None
            return admission
        # Kept for the next call, because a credential is accepted only once.
        self._ticket = admission
        return None

    def _prove(self, kind: str, sequence: int, credential: bytes) -> Admission:
        """Return the sender of a frame."""
        server = self._server
        if not credential and self._peer is not None:
            return Admission(self._peer, None)
        if server.authenticator is None:
            raise BadFrame("missing", "credentials are not accepted here", sequence)
        try:
            return server.authenticator.admit(credential, kind, server.audience)
        except AuthError as error:
            raise BadFrame(error.cause, error.text, sequence) from error

    def _has_room(self) -> bool:
        """Whether one more request may come in; if not, `resume` is called later."""
        server, limits, lane = self._server, self._server.limits, self.holder.lane
        if len(self._calls) >= limits.outstanding:
            return False
        if server.lanes.waiting(lane) >= limits.waiting_per_uid:
            server.held_in_lane.setdefault(lane, set()).add(self)
            return False
        return server.shares.may_receive(self.holder, self)

    def _take(self, kind: str, _: int, sequence: int, ticket: object, body: bytes) -> None:
        """Let a whole request wait for its turn; it is decoded then."""
        self._frame_s = 0.0
        if self.is_closed:
            return
        server = self._server
        assert isinstance(ticket, Admission)
        if sequence in self._calls:
            self.refuse(
                BadFrame("sequence_in_use", "sequence in use", sequence),
                Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH,
            )
            return
        call = Call(self, kind, sequence, ticket, body)
        self._calls[sequence] = call
        row = table.row(kind)
        server.shares.charge(self.holder, 0, len(body))
        server.shares.has_received(self.holder, self)
        if not server.may_send(row, call.peer):
            server.refusals["role"] += 1
            call.error(Errno.ESLURM_ACCESS_DENIED, "Access/permission denied")
            return
        server.requests[kind] += 1
        server.enqueue(call, row)

    # -- sending ---------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """Bytes buffered here and in the transport."""
        waiting = sum(map(len, self._out))
        if self._transport is not None and not self.is_closed:
            waiting += self._transport.get_write_buffer_size()
        return waiting

    def charge_open(self, call: Call) -> None:
        """Move a call from the waiting to the open ones."""
        self._server.shares.charge(call.holder, 0, -call.body_bytes)
        call.holder.open_calls += 1
        call.holder.open_bytes += call.body_bytes

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
        # The function may refer to the call: without this both stay until the next collection.
        call.forget()
        server = self._server
        server.ended(call)
        if self._is_held and len(self._calls) == server.limits.outstanding // 2:
            self._loop.call_soon(self.resume)

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
        if self._transport.get_write_buffer_size() or self._unread:
            self._count_unread()
            if self._unread > self._server.limits.write_buffer_bytes:
                self._cut_for("too_slow")

    def _count_unread(self) -> None:
        """Charge what the peer has not taken to its holder."""
        unread = 0 if self._transport is None else self._transport.get_write_buffer_size()
        self.holder.unread_bytes += unread - self._unread
        self._unread = unread

    def refuse(self, error: BadFrame, code: int) -> None:
        """Say why, and close."""
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


_NOBODY = Holder(STRANGERS)


def _code_of(cause: str) -> int:
    if cause == "bad_version":
        return Errno.SLURM_PROTOCOL_VERSION_ERROR
    if cause == "too_many_connections":
        return Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    return (
        Errno.SLURM_UNEXPECTED_MSG_ERROR
        if cause in ("unknown_kind", "bad_magic")
        else Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH
    )
