"""Connections of a step's nodes to srun, and of unknown peers to its port."""

from _socket import IPPROTO_TCP, SOCK_CLOEXEC, SOCK_STREAM, TCP_NODELAY, socket
from errno import EADDRINUSE
from os import set_inheritable
from select import POLLIN
from time import monotonic

from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyslurm_ng.base.poll_loop import PollLoop

MOST_STRANGERS = 64
"""The most connections without a HELLO; a node sends its HELLO when it connects."""
_STRANGER_LIMIT_S = 10.0
_FULL_PAUSE_S = 0.1


class Link:
    """One node's connection; anonymous until its HELLO."""

    __slots__ = ("credit", "frames", "is_done", "node", "socket", "unsent")

    def __init__(self, connection: socket) -> None:
        self.socket: socket | None = connection
        self.frames = step_io.Frames(step_io.STEPD)
        self.node = -1
        self.unsent = bytearray()
        self.credit = step_io.STDIN_WINDOW
        self.is_done = False


def port_range(conf: "Mapping[str, str]") -> "tuple[int, int]":
    """Return the range of SrunPortRange, (0, 0) for any port."""
    low, dash, high = conf.get("SrunPortRange", "").partition("-")
    if dash and low.isdecimal() and high.isdecimal():
        return int(low), int(high)
    return 0, 0


def listen(ports: "tuple[int, int]") -> socket:
    """Return a listening socket, in SrunPortRange if one is configured.

    Raises:
        OSError: no port is free; the text is for users.
    """
    from _socket import AF_INET, SO_REUSEADDR, SOL_SOCKET

    low, high = ports
    for port in range(low, high + 1):
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            if port:
                listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(4096)
            listener.setblocking(False)
        except OSError:
            listener.close()
            continue
        return listener
    text = f"all ports in range ({low}, {high}) exhausted, cannot establish listening port"
    raise OSError(EADDRINUSE, text)


class StepPort:
    """The port for a step's nodes, and its connections that have not sent a HELLO yet.

    Any host on the network may open one, so only a few are kept: the oldest is closed first, and
    each after a while.

    Args:
        begin, end: take a new connection, and end one.

    Raises:
        OSError: no port is free.
    """

    def __init__(
        self,
        loop: "PollLoop",
        ports: "tuple[int, int]",
        begin: "Callable[[Link], None]",
        end: "Callable[[Link], None]",
    ) -> None:
        self._loop = loop
        self._begin, self._end = begin, end
        self._strangers: dict[Link, float] = {}  # until when, the oldest first
        self._listener = listen(ports)
        self.port: int = self._listener.getsockname()[1]
        self._listen()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), POLLIN, self._accept)

    def _accept(self, events: int) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            return
        except OSError:
            # No descriptor is left: one comes back with the oldest stranger, or from elsewhere.
            if not self._end_oldest():
                self._loop.drop(self._listener.fileno())
                self._loop.later(_FULL_PAUSE_S, self._listen, "step port")
            return
        connection = socket(fileno=descriptor)
        set_inheritable(descriptor, False)
        connection.setblocking(False)
        connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        if len(self._strangers) >= MOST_STRANGERS:
            self._end_oldest()
        link = Link(connection)
        self._strangers[link] = monotonic() + _STRANGER_LIMIT_S
        self._loop.later(_STRANGER_LIMIT_S, self._end_overdue, "strangers")
        self._begin(link)

    def known(self, link: Link) -> None:
        """No longer count a connection: it has sent its HELLO, or is gone."""
        self._strangers.pop(link, None)

    def _end_oldest(self) -> bool:
        for link in self._strangers:
            del self._strangers[link]
            self._end(link)
            return True
        return False

    def _end_overdue(self) -> None:
        while self._strangers and next(iter(self._strangers.values())) <= monotonic():
            self._end_oldest()
        if self._strangers:
            self._loop.later(1.0, self._end_overdue, "strangers")

    def close(self) -> None:
        """Stop listening, and end all connections without a HELLO."""
        if self._listener.fileno() >= 0:
            self._loop.drop(self._listener.fileno())
            self._listener.close()
        while self._end_oldest():
            pass
