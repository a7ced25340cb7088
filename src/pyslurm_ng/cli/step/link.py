"""Connections of a step's nodes to srun, and of strangers to its port."""

from _socket import SOCK_CLOEXEC, SOCK_STREAM, socket

from pyslurm_ng.wire import step_io

MOST_STRANGERS = 64
"""Connections without a HELLO at a time; a node's comes with its connection."""
STRANGER_LIMIT_S = 10.0


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


def listen(ports: "tuple[int, int]") -> socket:
    """Return a listening socket, in SrunPortRange if one is configured."""
    from _socket import AF_INET, SO_REUSEADDR, SOL_SOCKET

    low, high = ports
    failure: OSError | None = None
    for port in range(low, high + 1):
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            if port:
                listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(4096)
            listener.setblocking(False)
        except OSError as problem:
            listener.close()
            failure = problem
            continue
        return listener
    raise failure or OSError(98, "no port is free")


class Door:
    """The port that a step's nodes connect to, and who has come in without saying who he is.

    Anybody on the network may: there are few of those, the oldest goes first, and none stays.

    Raises:
        OSError: no port is free.
    """

    def __init__(self, ports: "tuple[int, int]") -> None:
        self.listener = listen(ports)
        self._strangers: dict[Link, float] = {}  # until when, the oldest first

    def accept(self, now_s: float) -> "tuple[Link | None, Link | None]":
        """Return a new connection if there is one, and one that has to go for it."""
        try:
            descriptor, _ = self.listener._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            return None, None
        except OSError:
            return None, self._oldest()  # no descriptor is left
        link = Link(socket(fileno=descriptor))
        gone = self._oldest() if len(self._strangers) >= MOST_STRANGERS else None
        self._strangers[link] = now_s + STRANGER_LIMIT_S
        return link, gone

    def _oldest(self) -> "Link | None":
        link = next(iter(self._strangers), None)
        if link is not None:
            del self._strangers[link]
        return link

    def known(self, link: Link) -> None:
        """Count a connection no longer: it has said who it is, or is gone."""
        self._strangers.pop(link, None)

    def overdue(self, now_s: float) -> "list[Link]":
        """Return connections that have had their time, which are counted no longer."""
        found = [link for link, until_s in self._strangers.items() if until_s <= now_s]
        for link in found:
            del self._strangers[link]
        return found

    def close(self) -> "list[Link]":
        """Listen no longer; return the connections that have to go."""
        self.listener.close()
        return self.overdue(float("inf"))
