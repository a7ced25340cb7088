"""Who may come to the library's port: processes of the step's user, and no one else.

libpmix listens on the loopback address, takes whatever connects, and waits for what each has to
say. So any user of the node could keep the ranks waiting. Here we take its port over, and give it a
socket in our own directory instead, to which we pass on what the user's processes connect.
"""

from __future__ import annotations

import os
import select
import socket
from functools import partial
from typing import TYPE_CHECKING

from pyslurm_ng.base.loopback_user import user_of_peer
from pyslurm_ng.base.poll_loop import read_some, write_some

if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop

_WAITING = 128
_MOST_UNSENT = 256 << 10


class Door:
    """Stands between the library's port and the library. Raises OSError."""

    def __init__(self, loop: PollLoop, directory: str) -> None:
        self._loop = loop
        inner = socket.socket(socket.AF_UNIX)
        inner.setblocking(False)
        path = f"{directory}/door"
        inner.bind(path)
        inner.listen(_WAITING)
        self._path = f"/proc/self/fd/{os.open(path, os.O_PATH | os.O_CLOEXEC)}"
        os.unlink(path)  # a server that is killed leaves nothing
        self._ports = []
        for descriptor, port in _listening():
            os.dup2(inner.fileno(), descriptor, inheritable=False)
            port.setblocking(False)
            self._ports.append(port)
            loop.watch(port.fileno(), select.POLLIN, partial(self._accept, port))
        inner.close()
        if not self._ports:
            raise OSError("libpmix listens nowhere")

    def close(self) -> None:
        """Accept no further connections."""
        for port in self._ports:
            self._loop.drop(port.fileno())
            port.close()

    def _accept(self, port: socket.socket, _events: int) -> None:
        try:
            outer, peer = port.accept()
        except OSError:
            return
        if user_of_peer(port.getsockname(), peer) != os.getuid():
            outer.close()
            return
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.connect(self._path)
        except OSError:
            outer.close()
            inner.close()
            return
        outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Passage(self._loop, outer, inner)


class _Passage:
    """One connection: what comes at one end goes out at the other, until one end is closed."""

    def __init__(self, loop: PollLoop, outer: socket.socket, inner: socket.socket) -> None:
        self._loop = loop
        self._ends = (outer, inner)
        self._unsent = (bytearray(), bytearray())
        self._is_over = False
        for end in self._ends:
            end.setblocking(False)
        self._watch()

    def _watch(self) -> None:
        for index, end in enumerate(self._ends):
            events = select.POLLOUT if self._unsent[index] else 0
            if len(self._unsent[1 - index]) < _MOST_UNSENT:
                events |= select.POLLIN
            self._loop.watch(end.fileno(), events, partial(self._on_ready, index))

    def _on_ready(self, index: int, events: int) -> None:
        if self._is_over:
            return
        if events & select.POLLOUT:
            self._send(index)
        if not self._is_over and events & ~select.POLLOUT:
            data = read_some(self._ends[index].fileno())
            if data:
                self._unsent[1 - index].extend(data)
                self._send(1 - index)
            elif data is not None:
                self._end()
        if not self._is_over:
            self._watch()

    def _send(self, index: int) -> None:
        if not write_some(self._ends[index].fileno(), self._unsent[index]):
            self._end()

    def _end(self) -> None:
        """Close both ends, after what is left to send was tried once."""
        self._is_over = True
        for index, end in enumerate(self._ends):
            self._loop.drop(end.fileno())
            write_some(end.fileno(), self._unsent[index])
            end.close()


def _listening() -> list[tuple[int, socket.socket]]:
    """Return the descriptors on which this process listens for TCP, each with a copy."""
    ports = []
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # the descriptor by which the list was read, or no socket
        is_tcp = copy.family == socket.AF_INET
        if is_tcp and copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            ports.append((int(name), copy))
        else:
            copy.close()
    return ports
