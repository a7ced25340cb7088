"""Serving commands (and slurmdbd's, slurmd's clients): frames on a Unix socket or TCP.

A plain `asyncio.Protocol` (`wire.connection`): many requests may be outstanding per connection,
each answered when its `Call` is, in any order, so that the writer can release replies after their
batch is durable without a task per request. Replies of one loop turn leave in one write.

`StreamLimits` holds all bounds. Connections, bytes in flight, open calls and unread answers are
shared fairly (`wire.shares`). Requests without an answer are bounded for each connection and for
each uid. The first request and a whole frame have a time limit. A frame that has begun
and a reply that is being read have a least rate.

Requests are decoded and handed over in turn between uids (`wire.lanes`), for some milliseconds in
each turn of the loop. Administrators and daemons have a separate lane. A thread checks and decodes
long bodies, one at a time and again in turn. So they may be answered after shorter requests that
came later over the same connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from time import thread_time

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.process_settings import part_of_files
from pyslurm_ng.wire.accepting import Acceptor
from pyslurm_ng.wire.auth import Authenticator, AuthError, Peer
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.connection import Connection
from pyslurm_ng.wire.http import Responder
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.listening import QUEUE, bind_tcp, bind_unix
from pyslurm_ng.wire.long_bodies import LongBodies
from pyslurm_ng.wire.messages import IssueToken, TokenIssued
from pyslurm_ng.wire.pace import StreamLimits
from pyslurm_ng.wire.rate_limit import RateLimit
from pyslurm_ng.wire.roles import Roles
from pyslurm_ng.wire.shares import PRIVILEGED, Holder, Shares
from pyslurm_ng.wire.table import MessageError, MessageRow
from pyslurm_ng.wire.user_ranges import UserRanges
from pyslurm_ng.wire.waiting_calls import WaitingCalls

__all__ = [
    "Call",
    "Handler",
    "StreamLimits",
    "StreamServer",
    "bind_tcp",
    "bind_unix",
]

PRIVILEGED_WEIGHT = 8
TURN_S = 0.005
TURN_CALLS = 1_024
LOOP_TURNS_APART = 6
"""After a long request others have so many turns of the loop before the next one: a newcomer needs
five from its connection to its first request, and would wait for one long request in each."""
LONG_BODY_BYTES = 256 << 10
"""Longer bodies are decoded in a thread."""


Handler = Callable[[Call], None]


def limits_here() -> StreamLimits:
    """Return the usual bounds, with fewer connections if the limit of open files requires it.

    Two ports together take seven eighths of the files at most, with the places of administrators: a
    daemon without a file left can neither start a job nor write its state.
    """
    usual = StreamLimits()
    return replace(
        usual,
        connections=part_of_files(usual.connections, 2),
        connections_waiting=part_of_files(usual.connections_waiting, 16),
        strangers=part_of_files(usual.strangers, 8),
    )


def call_after(loop: asyncio.AbstractEventLoop, turns: int, function: Callable[[], None]) -> None:
    """Call a function so many turns of the loop later."""
    if turns == 1:
        loop.call_soon(function)
    else:
        loop.call_soon(call_after, loop, turns - 1, function)


class StreamServer:
    """Listens, authenticates, checks and hands requests to `handler`.

    Args:
        handler: called on the loop with each admitted `Call`; it must not block. If it raises, that
            is a bug: the peer gets "internal error", the loop's exception handler the traceback.
        audience: this receiver's name in credentials: slurmctld, slurmdbd, slurmd:NODE.
        host: this host's name.
        service_uid: SlurmUser; with uid 0 the holder of role admin.
        authenticator: for TCP and for issuing tokens; None serves Unix sockets only.
        roles_of: further roles of a user, from accounting; the handler then asks for levels itself.
        limits: bounds.
        faults: counts unexpected errors of one connection; else the loop's handler is told.
        rate_limit: Slurm's limit of requests per user.
        http: answers requests of HTTP; without it they are refused like other nonsense.
        user_ranges: which uids count as one user's; those of /etc/subuid unless given.
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
        faults: Faults | None = None,
        rate_limit: RateLimit | None = None,
        user_ranges: UserRanges | None = None,
        http: Responder | None = None,
    ) -> None:
        self.handler = handler
        self.http = http
        self.audience = audience
        self.host = host
        self.authenticator = authenticator
        self.limits = limits or limits_here()
        self.refusals: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.held_in_lane: dict[int, set[Connection]] = {}
        self.lanes: Lanes[Call] = Lanes({PRIVILEGED: PRIVILEGED_WEIGHT})
        self.shares = Shares(self.limits, self._later)
        self.rate_limit = rate_limit
        self._faults = faults
        self._turn_due = False
        self._waiting = WaitingCalls(are_told=not audience.startswith("slurmd:"))
        self._long = LongBodies(Lanes({PRIVILEGED: PRIVILEGED_WEIGHT}), self._was_read)
        self.roles = Roles(service_uid, roles_of, user_ranges or UserRanges())
        self._acceptors: list[Acceptor] = []
        self._paths: list[tuple[str, int]] = []
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._to_sweep: list[Connection] = []
        bounds = self.limits
        self._sweep_s = min(1.0, bounds.handshake_s / 4, bounds.grace_s / 4, bounds.idle_s / 4)

    async def listen_unix(self, path: str, mode: int = 0o666) -> None:
        """Listen on a Unix socket; its directory is made when missing.

        Raises:
            OSError: the path cannot be bound, or another process answers there.
        """
        listener = bind_unix(path, mode)
        self._paths.append((path, os.stat(path).st_ino))
        self._serve(listener)

    async def listen_tcp(self, address: str | None, port: int) -> int:
        """Listen on TCP, on every address for None; return the port (useful for port 0)."""
        if self.authenticator is None:
            raise ValueError("TCP needs an authenticator")
        listener = bind_tcp(address, port)
        self._serve(listener)
        bound: int = listener.getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening, cut every connection, remove our Unix sockets."""
        for acceptor in self._acceptors:
            acceptor.close()
        # An accepted socket becomes a connection two turns of the loop later.
        for _ in range(6):
            for connection in list(self.connections):
                connection.cut()
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

    def _serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.listen(QUEUE)
        self._acceptors.append(
            Acceptor(
                listener,
                self.limits,
                self.roles.user_ranges.lane_of,
                lambda: Connection(self, loop),
                self._refused_at_door,
            )
        )

    def _refused_at_door(self) -> None:
        self.refusals["too_many_connections"] += 1

    def watch(self, connection: Connection) -> None:
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
            try:
                connection.check_time(now)
            except Exception as error:  # noqa: BLE001 - it costs this connection only
                self.fault(f"a connection of {connection} was closed", error)
                connection.cut()
        del self._to_sweep[-1000:]
        self._waiting.tell()
        self.shares.let_all_go()
        self._sweep_timer = None
        if self.connections:
            pause_s = self._sweep_s / 10 if self._to_sweep else self._sweep_s
            self._sweep_timer = loop.call_later(pause_s, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that has ended."""
        self.connections.discard(connection)
        connections = self.held_in_lane.get(connection.holder.lane)
        if connections is not None:
            connections.discard(connection)

    def fault(self, text: str, error: BaseException) -> None:
        """Report an unexpected error that cost one connection or request."""
        if self._faults is not None:
            self._faults.note("connection", text, error)
        else:
            asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})

    def ended(self, call: Call) -> None:
        """Give back the room of an answered call."""
        holder = call.holder
        self._waiting.leave(call)
        if call.stays_open:
            holder.closed_call(call.held_bytes)
        else:
            self.shares.charge(holder, 0, -call.held_bytes)
            self._is_answered(holder)
            if holder.held:
                self.shares.let_go(holder)

    def _is_answered(self, holder: Holder) -> None:
        """Count a call less, and go on with connections that waited for that."""
        holder.unanswered -= 1
        if holder.lane in self.held_in_lane and (
            holder.unanswered <= self.limits.waiting_per_uid // 2
        ):
            for connection in self.held_in_lane.pop(holder.lane):
                self._later(connection.resume)

    def _later(self, function: Callable[[], None]) -> None:
        # Later, because this may be called while a connection feeds its parser.
        asyncio.get_running_loop().call_soon(function)

    def enqueue(self, call: Call, row: MessageRow) -> None:
        """Let a request wait for its turn, refuse it or tell it to come back."""
        if not self.roles.may_send(row, call.peer):
            self.refusals["role"] += 1
            call.error(Errno.ESLURM_ACCESS_DENIED, "Access/permission denied")
            return
        self.requests[call.kind] += 1
        holder, limit = call.holder, self.rate_limit
        lane = holder.lane
        is_limited = lane != PRIVILEGED and row.struct is not IssueToken
        if limit and is_limited and call.is_over(limit):
            self._send_back(call, "rate_limit", "too many requests; wait and ask again")
            return
        if row.stays_open:
            refusal = self.shares.refusal_of_open(holder, call.held_bytes)
            if refusal:
                self._send_back(call, "open_calls", refusal)
                return
            # Counted among its holder's open calls instead of what is soon answered.
            call.stays_open = True
            self.shares.charge(holder, 0, -call.held_bytes)
            holder.opened_call(call.held_bytes)
            self._is_answered(holder)
        self._waiting.enter(call)
        self.lanes.push(lane, call)
        if not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Hand over requests for a few milliseconds, uid by uid.

        Milliseconds of this thread: time in which other programs have the processor is no fault
        of these requests. Counted as theirs, it made turns short and many on a loaded machine.
        """
        self._turn_due = False
        loop = asyncio.get_running_loop()
        until, begun_s = loop.time() + TURN_S, thread_time()
        lanes = self.lanes
        for _ in range(TURN_CALLS):
            if not lanes:
                break
            lane, call = lanes.pop()
            if not call.is_gone:
                self._begin(lane, call)
            # The clock is cheap to look at, the thread's time is a call of the kernel.
            if loop.time() > until and thread_time() - begun_s > TURN_S:
                break
        if lanes and not self._turn_due:
            self._turn_due = True
            is_long = thread_time() - begun_s > 2 * TURN_S
            call_after(loop, LOOP_TURNS_APART if is_long else 1, self._take_turn)

    def _begin(self, lane: int, call: Call) -> None:
        """Decode and hand over, a long body by way of a thread."""
        refusal = self.shares.refusal_of_answer(call.holder)
        if refusal:
            self._send_back(call, "unread_answers", refusal)
        elif call.body_bytes > LONG_BODY_BYTES:
            self._long.push(lane, call)
        else:
            self._read(call)

    def _read(self, call: Call) -> None:
        try:
            call.read()
        except Exception as error:  # noqa: BLE001 - it costs this request only
            self._was_read(call, error)
        else:
            self._hand_over(call)

    def _was_read(self, call: Call, error: BaseException | None) -> None:
        if isinstance(error, AuthError | MessageError):
            self.refusals[error.cause] += 1
            call.refuse(error)
        elif error is not None:
            self._fail(call, error)
        else:
            self._hand_over(call)

    def _send_back(self, call: Call, cause: str, text: str) -> None:
        """Tell the client to wait and to ask again."""
        self.refusals[cause] += 1
        call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)

    def _fail(self, call: Call, error: BaseException) -> None:
        """Answer a request that met a bug, and report the bug."""
        if not call.is_answered:
            call.error(Errno.ESLURM_INTERNAL, "Slurm internal error, contact system administrator")
        self.fault(f"{call.kind} of {call.holder} was answered with an error", error)

    def _hand_over(self, call: Call) -> None:
        try:
            if isinstance(call.request, IssueToken):
                self.issue_token(call, call.request)
            else:
                self.handler(call)
        except Exception as error:  # noqa: BLE001 - it costs this request only
            self._fail(call, error)

    def counts(self) -> dict[str, int]:
        """Return what is held and what waits now, for `sdiag`."""
        return {**self.shares.counts(), "requests_waiting": len(self.lanes) + len(self._long)}

    def issue_token(self, call: Call, request: IssueToken) -> None:
        """Vouch for the uid that the kernel names, on a Unix socket only."""
        if call.peer.via != "unix" or self.authenticator is None:
            self.refusals["token_not_local"] += 1
            call.error(
                Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR,
                "tokens are issued on the local Unix socket only",
            )
            return
        try:
            token = self.authenticator.issue(
                call.peer, request.audience, request.kind, request.digest, request.cluster
            )
        except AuthError as error:
            self.refusals[error.cause] += 1
            call.error(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, error.text)
            return
        call.reply(TokenIssued(token))
