"""One accepted connection of a stream server: what comes in, and who sent it."""

from __future__ import annotations

import asyncio
import select
import socket
from collections import Counter
from typing import Protocol

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire import auth, frame, table
from pyslurm_ng.wire.admissions import Admissions
from pyslurm_ng.wire.auth import Admission, Authenticator, AuthError, Peer
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.http import Pages, take_over
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.list_pages import ListPages
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.outbox import Outbox
from pyslurm_ng.wire.pace import Pace, StreamLimits
from pyslurm_ng.wire.replay_store import STORE_FULL
from pyslurm_ng.wire.roles import Roles
from pyslurm_ng.wire.shares import STRANGERS, Holder, Shares, TooMany
from pyslurm_ng.wire.table import MessageRow

RECEIVE_BYTES = 64 << 10
"""The most that is read in one piece; a connection may hold so much beyond its share."""


class Server(Pages, Protocol):
    """What a connection needs of its server, `wire.stream.StreamServer`."""

    audience: str
    authenticator: Authenticator | None
    held_in_lane: dict[int, set[Connection]]
    lanes: Lanes[Call]
    limits: StreamLimits
    refusals: Counter[str]
    roles: Roles
    shares: Shares

    def ended(self, call: Call) -> None:
        """Give back what an answered call held."""

    def enqueue(self, call: Call, row: MessageRow) -> None:
        """Let a request wait for its turn, refuse it or tell it to come back."""

    def fault(self, text: str, error: BaseException) -> None:
        """Report an unexpected error."""

    def forget(self, connection: Connection) -> None:
        """Drop a connection that has ended."""

    def watch(self, connection: Connection) -> None:
        """Take a new connection into the time-out sweep."""


class Connection(asyncio.Protocol):
    """One accepted connection.

    Attributes:
        address: the peer's IP address, "" on a Unix socket.
        holder: the share that it counts against; the strangers' until a credential is accepted.
        is_closed: nothing is received or sent after this.
        pages: where the list goes on that was answered last.
    """

    __slots__ = (
        "_admissions", "_calls", "_is_held", "_loop", "_outbox", "_pace", "_parser", "_partial",
        "_server", "_transport", "address", "holder", "is_closed", "pages",
    )  # fmt: skip

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._parser = frame.Parser(self._admit, self._take)
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Call] = {}
        self._partial = 0
        self._is_held = False
        self._admissions = Admissions(server.authenticator, server.audience, None)
        self._outbox = Outbox(_NOBODY)
        self._pace = Pace(server.limits, loop.time())
        self.address, self.holder, self.is_closed = "", _NOBODY, False
        self.pages = ListPages()

    def __str__(self) -> str:
        return f"{self.holder} at {self.address}" if self.address else str(self.holder)

    # -- life ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._outbox.open(transport)
        transport.max_size = RECEIVE_BYTES  # type: ignore[attr-defined]
        server = self._server
        connection = transport.get_extra_info("socket")
        lane = STRANGERS
        if connection.family == socket.AF_UNIX:
            peer = auth.socket_peer(connection, server.host)
            self._admissions = Admissions(server.authenticator, server.audience, peer)
            lane = server.roles.lane_of(peer)
        else:
            _be_prompt(connection)
            name = transport.get_extra_info("peername")
            self.address = name[0] if name else "unknown"
        server.watch(self)
        try:
            self.holder = self._outbox.holder = server.shares.enter(self, lane)
        except TooMany as error:
            self.refuse(BadFrame("too_many_connections", str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        server, holder = self._server, self.holder
        server.forget(self)
        calls, self._calls = list(self._calls.values()), {}
        self._outbox.close()
        server.shares.charge(holder, -self._partial, 0)
        self._partial = 0
        for call in calls:
            server.ended(call)
        server.shares.leave(self, holder)
        for call in calls:
            call.gone()
        self._parser.close()
        self._transport = None

    def cut(self, cause: str = "") -> None:
        """End the connection without sending what is buffered; count it as refused for a cause."""
        if cause:
            self._server.refusals[cause] += 1
        if self._transport is not None:
            self._transport.abort()

    def give_way(self) -> None:
        """Close because others need the place; a known peer is told so."""
        if self.holder.lane == STRANGERS:
            self.is_closed = True
            self.cut("gave_way")
            return
        self.refuse(BadFrame("gave_way", f"too many connections of {self}: others need the room"))

    @property
    def is_idle(self) -> bool:
        """Whether all requests are answered."""
        return not self._calls

    def _belong(self, peer: Peer) -> None:
        """Move to the share of the user whose credential was accepted."""
        server, before = self._server, self.holder
        lane = server.roles.lane_of(peer)
        if lane == before.lane:
            return
        try:
            after = server.shares.enter(self, lane)
        except TooMany as error:
            raise BadFrame("too_many_connections", str(error)) from None
        server.shares.charge(before, -self._partial, 0)
        server.shares.charge(after, self._partial, 0)
        self._outbox.move(after)
        server.shares.leave(self, before)
        self.holder = after

    # -- time ------------------------------------------------------------------------------

    def check_time(self, now: float) -> None:
        """Cut a connection that is too slow, never spoke or has long been idle."""
        pace, outbox = self._pace, self._outbox
        if self.is_closed:
            # Refused, and the reason is not being read.
            if self._transport is not None and pace.is_past_grace(now):
                self._transport.abort()
            return
        if pace.is_late_to_speak(now) and not (self._admissions.has_proof or self._is_held):
            self.cut("handshake_timeout")
            return
        if self._is_held and _has_left(self._transport):
            self.cut()
            return
        if outbox.unread:
            outbox.count_unread()
        is_sending = outbox.unsent_bytes > 0
        is_receiving = not self._parser.is_between_frames and not self._is_held
        if is_sending or is_receiving:
            fault = pace.fault_in_motion(
                now, outbox.drained, is_sending=is_sending, is_receiving=is_receiving,
                is_known=self._admissions.has_proof,
            )  # fmt: skip
        else:
            awaited = bool(self._calls) or self._is_held
            fault = pace.fault_at_rest(now, outbox.drained, is_awaited=awaited)
        if fault:
            self.cut(fault)

    # -- receiving -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        is_new = self._pace.is_silent
        if self.is_closed or (is_new and take_over(self._server, self, self._transport, data)):
            return
        if self._parser.is_between_frames:
            # A frame begins: its time is counted from here, not from the last answer.
            self._pace.mark(self._loop.time(), self._outbox.drained)
        self._pace.received(len(data))
        self._feed(data)

    def eof_received(self) -> bool:
        # The client has gone: no client half-closes here, and a dead srun must be noticed.
        return False

    def pause_writing(self) -> None:
        self._outbox.is_full = True
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._outbox.resume()
        self._loop.call_soon(self._flush)
        if self._transport is not None and not self.is_closed and not self._is_held:
            self._transport.resume_reading()

    def resume(self) -> None:
        """Go on with the frame that had to wait for room."""
        if self.is_closed or self._transport is None:
            return
        if not self._is_held:
            self._server.shares.has_received(self.holder, self)
            return
        self._pace.let_go(self._loop.time(), self._outbox.drained)
        self._is_held = False
        self._feed(b"")
        if not self._is_held and not self.is_closed:
            self._transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        parser = self._parser
        try:
            parser.feed(data)
        except BadFrame as error:
            self.refuse(error)
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
        self._pace.frame_begun(self._loop.time())
        if parser.is_held or not self._server.shares.may_receive(self.holder, self):
            self._hold()

    def _hold(self) -> None:
        """Receive nothing until there is room; the rest waits in the sender's kernel."""
        if not self._is_held and self._transport is not None:
            self._is_held = True
            self._pace.held(self._loop.time())
            self._transport.pause_reading()

    def _admit(
        self, kind: str, flags: int, sequence: int, credential: bytes, body_bytes: int
    ) -> Admission | None:
        """Judge a frame by its head; see `frame.Parser`."""
        judge = self._admissions.judge
        if (admission := judge(kind, flags, sequence, credential, body_bytes, self.resume)) is None:
            return None
        self._belong(admission.peer)
        if not self._has_room():
            return None
        self._admissions.let_in()
        return admission

    def _has_room(self) -> bool:
        """Whether one more request may come in; if not, `resume` is called later."""
        server, limits = self._server, self._server.limits
        if len(self._calls) >= limits.outstanding:
            return False
        if self.holder.unanswered >= limits.waiting_per_uid:
            server.held_in_lane.setdefault(self.holder.lane, set()).add(self)
            return False
        return server.shares.may_receive(self.holder, self)

    def _take(self, kind: str, _: int, sequence: int, ticket: object, body: bytes) -> None:
        """Let a whole request wait for its turn; it is decoded then."""
        self._pace.frame_ended()
        if self.is_closed:
            return
        server = self._server
        assert isinstance(ticket, Admission)
        if sequence in self._calls:
            self.refuse(BadFrame("sequence_in_use", "sequence in use", sequence))
            return
        call = self._calls[sequence] = Call(self, kind, sequence, ticket, body)
        server.shares.received_call(self.holder, call.held_bytes)
        server.shares.has_received(self.holder, self)
        server.enqueue(call, table.row(kind))

    # -- sending ---------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer has not taken yet; none once the connection is closed."""
        return 0 if self.is_closed else self._outbox.unsent_bytes

    def awaits(self, call: Call) -> bool:
        """Whether this call is open."""
        return self._calls.get(call.sequence) is call

    def answer(self, call: Call, kind: str, body: bytes, flags: int) -> None:
        """Send the last answer of a call and give its room back."""
        if self._calls.get(call.sequence) is not call:
            assert self.is_closed, f"{call.kind} was answered twice"
            return
        self.send(call, call.head(kind, body, flags), body)
        del self._calls[call.sequence]
        # The function may refer to the call: without this both stay until the next collection.
        call.forget()
        server = self._server
        server.ended(call)
        if self._is_held and len(self._calls) == server.limits.outstanding // 2:
            self._loop.call_soon(self.resume)

    def send(self, call: Call, head: bytes, body: bytes) -> None:
        """Queue a frame; everything queued in one turn of the loop leaves in one write."""
        if self.is_closed or self._calls.get(call.sequence) is not call:
            return
        if self._outbox.put(head, body):
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        outbox = self._outbox
        if self.is_closed:
            return
        if outbox.is_read:
            # The time for reading begins with what is written now.
            self._pace.mark(self._loop.time(), outbox.written)
        if outbox.write():
            self._loop.call_soon(self._flush)
        if outbox.unread > self._server.limits.write_buffer_bytes:
            self.cut("too_slow")

    def refuse(self, error: BadFrame) -> None:
        """Say why, and close."""
        self._server.refusals[error.cause] += 1
        if self._transport is None or self.is_closed:
            return
        self._outbox.write_all()
        self._transport.write(_refusal(error))
        self._transport.close()
        # Nothing more is read; calls still open end through connection_lost.
        self.is_closed = True
        self._pace.mark(self._loop.time(), self._outbox.drained)


_NOBODY = Holder(STRANGERS)


def _refusal(error: BadFrame) -> bytes:
    body = table.encode(ErrorReply(code_of(error), error.text))
    flags = frame.FLAG_REPLY | frame.FLAG_ERROR
    return frame.pack_frame("ErrorReply", error.sequence, body, flags)


def _has_left(transport: asyncio.Transport | None) -> bool:
    """Whether the peer has gone, which asyncio does not notice while nothing is received."""
    if transport is None:
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def _be_prompt(connection: socket.socket) -> None:
    # asyncio sets it only where the listener was made with IPPROTO_TCP, which the standard
    # library's `create_server` does not; without it answers wait 40 ms.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def code_of(error: BadFrame) -> int:
    """Return Slurm's number for a frame that cannot be taken."""
    if isinstance(error.__cause__, AuthError):
        if error.__cause__.cause == STORE_FULL:
            return Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF  # it will be taken in some minutes
        return Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR
    if error.cause == "bad_version":
        return Errno.SLURM_PROTOCOL_VERSION_ERROR
    if error.cause in ("too_many_connections", "gave_way"):
        return Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    return (
        Errno.SLURM_UNEXPECTED_MSG_ERROR
        if error.cause in ("unknown_kind", "bad_magic")
        else Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH
    )
