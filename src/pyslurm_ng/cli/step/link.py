"""Connections of a step's nodes to srun."""

from _socket import SOCK_CLOEXEC, SOCK_STREAM, socket

from pyslurm_ng.wire import step_io


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


def same_key(left: object, right: bytes) -> bool:
    """Compare keys in constant time."""
    if not isinstance(left, bytes) or len(left) != len(right):
        return False
    difference = 0
    for one, other in zip(left, right, strict=True):
        difference |= one ^ other
    return not difference
