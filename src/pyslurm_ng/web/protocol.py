"""HTTP/1.1 connections with bounds: how many, how slow, and who is at the other end."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pyslurm_ng.web.requester import SocketPeer
from pyslurm_ng.web.sending import ANSWERED

HEAD_S = 10.0
"""Within this time the head of a request has to be there."""
MOST_CONNECTIONS = 1024
_REQUEST, _BODY, _READER, _DAEMON = range(4)
"""What a connection waits for; the last is no fault of its client."""
_RESTING: WeakKeyDictionary[ServerState, dict[RestProtocol, None]] = WeakKeyDictionary()
"""Of each server, connections at rest: the one at rest for longest first."""
_OPEN: WeakSet[RestProtocol] = WeakSet()
_BUSY = (
    b"HTTP/1.1 503 SERVICE UNAVAILABLE\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class RestProtocol(H11Protocol):
    """One connection. Of a Unix socket the kernel says who is there: `state["peer"]`."""

    most_connections = MOST_CONNECTIONS

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._head_timer: asyncio.TimerHandle | None = None
        self._resting = _RESTING.setdefault(self.server_state, {})
        self._since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        _OPEN.add(self)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            self._take_peer(connection)
        self._since = self.loop.time()
        if len(self.connections) > self.most_connections and not self._make_room():
            ANSWERED[503] += 1
            transport.write(_BUSY)
            transport.close()
            return
        self._resting[self] = None
        self._await_head()

    def _make_room(self) -> bool:
        """End the connection that has waited longest for its client; return whether one does.

        Those at rest go first, then those whose body does not come, then those that do not read.
        """
        while self._resting:
            first = next(iter(self._resting))
            del self._resting[first]
            if not first.transport.is_closing():
                first.transport.abort()
                return True
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, RestProtocol)
            and connection is not self
            and connection._waits_for() < _DAEMON
            and not connection.transport.is_closing()
        ]
        if not others:
            return False
        slowest = min(others, key=lambda connection: (connection._waits_for(), connection._since))
        slowest.transport.abort()
        return True

    def _waits_for(self) -> int:
        if self._is_at_rest():
            return _REQUEST
        if self.cycle.more_body:
            return _BODY
        return _READER if self.flow.write_paused else _DAEMON

    def _take_peer(self, connection: socket.socket) -> None:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, uid, gid = struct.unpack("iII", raw)
        self.app_state = {**self.app_state, "peer": SocketPeer(uid, gid, pid)}
        name = connection.getsockname()
        path = name if isinstance(name, str) else ""
        self.client = (f"unix:{path}(fd:{connection.fileno()})", 0)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that comes in drops has only so long."""
        self._since = self.loop.time()
        if self._is_at_rest() and self._head_timer is None:
            self._await_head()
        super().data_received(data)
        if self._is_at_rest():
            self._rest()
        else:
            self._head_came()
            self._resting.pop(self, None)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        ANSWERED[400] += 1
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Rest until the next request."""
        super().on_response_complete()
        if self._is_at_rest() and not self.transport.is_closing():
            self._rest()

    def _rest(self) -> None:
        """Be the last of those at rest to give way."""
        self._resting.pop(self, None)
        self._resting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._head_came()
        self._resting.pop(self, None)
        _OPEN.discard(self)
        super().connection_lost(exc)

    def _is_at_rest(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self._is_late)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _is_late(self) -> None:
        self._head_timer = None
        if self._is_at_rest() and not self.transport.is_closing():
            self.transport.abort()


def open_connections() -> int:
    """Return how many connections there are."""
    return len(_OPEN)
