"""HTTP/1.1 connections with bounds: how many, how slow, and who is at the other end."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from pyslurm_ng.web.requester import SocketPeer

HEAD_S = 10.0
"""Within this time the head of a request has to be there."""
MOST_CONNECTIONS = 1024
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
        self._since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            self._take_peer(connection)
        self._since = self.loop.time()
        if len(self.connections) > self.most_connections and not self._make_room():
            transport.write(_BUSY)
            transport.close()
            return
        self._await_head()

    def _make_room(self) -> bool:
        """End the connection that has been at rest for longest; return whether there was one."""
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, RestProtocol)
            and connection is not self
            and connection._is_at_rest()
            and not connection.transport.is_closing()
        ]
        if not others:
            return False
        min(others, key=lambda connection: connection._since).transport.abort()
        return True

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
        if not self._is_at_rest():
            self._head_came()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._head_came()
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
