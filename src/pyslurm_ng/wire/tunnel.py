"""One end of a connection that goes through the link of a step: X11 clients on the node's side,
the X server on srun's.

Each end may send as many bytes as it has credit for, and gets credit as the other end has written
them. So a slow X server slows only its clients, and not the step's streams.
"""

import os
import select

from pyslurm_ng.base.poll_loop import PollLoop, read_some, write_some
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

MOST_TUNNELS = 256
"""Of one node of a step; a desktop has some dozens of X clients."""


_MOST_UNSENT = step_io.STDIN_WINDOW + step_io.CHUNK_BYTES
"""The last read before the credit is used up may go a little beyond it."""


class Tunnel:
    """One connection.

    Args:
        connection: the local part, connected or connecting.
        number: of the connection on its link.
        send: takes a frame for the other end.
        on_over: is called once when the connection has ended.
    """

    def __init__(
        self,
        loop: PollLoop,
        connection: "socket",
        number: int,
        send: "Callable[[bytes], object]",
        on_over: "Callable[[int], None]",
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._number = number
        self._send = send
        self._on_over = on_over
        self._credit = step_io.STDIN_WINDOW
        self._unsent = bytearray()
        self._ends = False  # the other end has ended
        self._is_over = False
        connection.setblocking(False)
        self._watch()

    def take(self, data: bytes) -> None:
        """Pass bytes of the other end on; no bytes are its end.

        Raises:
            BadStepFrame: more than there was credit for.
        """
        if self._is_over:
            return
        if len(self._unsent) + len(data) > _MOST_UNSENT:
            raise step_io.BadStepFrame("more of an X11 connection than there was credit for")
        self._unsent += data
        self._ends = self._ends or not data
        self._write()

    def take_credit(self, count: int) -> None:
        """Send so many more bytes."""
        self._credit += count
        if not self._is_over:
            self._watch()

    def close(self) -> None:
        """End the connection, and tell the other end unless it has ended first."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.drop(self._connection.fileno())
        self._connection.close()
        if not self._ends:
            self._send(step_io.pack(step_io.X11, self._number))
        self._on_over(self._number)

    def _watch(self) -> None:
        events = select.POLLIN if self._credit > 0 and not self._ends else 0
        events |= select.POLLOUT if self._unsent else 0
        self._loop.watch(self._connection.fileno(), events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & (select.POLLOUT | select.POLLERR):
            self._write()
        if not self._is_over and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read()

    def _read(self) -> None:
        if self._ends or self._credit <= 0:
            self.close()  # it has hung up
            return
        data = read_some(self._connection.fileno())
        if data is None:
            return
        if not data:
            self.close()
            return
        self._credit -= len(data)
        self._send(step_io.pack(step_io.X11, self._number, data))
        self._watch()

    def _write(self) -> None:
        before = len(self._unsent)
        is_there = write_some(self._connection.fileno(), self._unsent)
        written = before - len(self._unsent)
        if not is_there or (self._ends and not self._unsent):
            self.close()
            return
        if written and not self._ends:
            self._send(step_io.pack_number(step_io.X11_CREDIT, self._number, written))
        self._watch()


def random_cookie() -> bytes:
    """Return a key of the kind that X servers ask for."""
    return os.urandom(16)
