"""X11 forwarding: X clients of a step's nodes, passed on to the user's X server.

The nodes never learn the cookie of the X server. Their clients show one that srun has made up for
the step, and srun puts the real one in its place, as ssh does.
"""

import os
from _socket import AF_INET, AF_INET6, AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, gethostname, socket

from pyslurm_ng.base.loopback_user import UNKNOWN, is_of_this_host, user_of_server
from pyslurm_ng.wire import step_io, xauthority
from pyslurm_ng.wire.tunnel import MOST_TUNNELS, Tunnel, random_cookie

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyslurm_ng.base.poll_loop import PollLoop

_FIRST_PORT = 6000
_MOST_DISPLAY = 65535 - _FIRST_PORT
_SETUP_HEAD = 12
_MOST_AUTH = 1024
_EINPROGRESS = 115
_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1", "[::1]")
"""X servers on these have the name of their host in a file of cookies."""


class NoX11(Exception):
    """X11 cannot be forwarded; the text is for the user."""


class XServer:
    """The X server of DISPLAY and its cookie."""

    def __init__(self, variables: "Mapping[str, str]") -> None:
        """Find both. Raises NoX11."""
        display = variables.get("DISPLAY", "")
        if not display:
            raise NoX11("No DISPLAY variable set, cannot setup x11 forwarding.")
        host, _, number = display.rpartition(":")
        number = number.partition(".")[0]
        if not number.isdecimal() or len(number) > 5 or int(number) > _MOST_DISPLAY:
            raise NoX11(f"Cannot parse DISPLAY={display}, cannot use X11 forwarding.")
        self._host = "" if host in ("", "unix") else host
        self._number = int(number)
        is_local = self._host in _LOCAL_HOSTS or self._host.startswith("/")
        names = [gethostname(), self._host] if is_local else [self._host]
        home = variables.get("HOME", "/")
        path = variables.get("XAUTHORITY") or f"{home}/.Xauthority"
        try:
            with open(path, "rb") as file:
                content = file.read(1 << 20)
        except OSError:
            content = b""
        cookies = (xauthority.cookie_of(content, os.fsencode(name), number.encode())
                   for name in names)  # fmt: skip
        self.cookie = next(filter(None, cookies), b"")
        if not self.cookie:
            raise NoX11("Could not retrieve magic cookie. Cannot use X11 forwarding.")

    def connect(self) -> socket:
        """Begin to connect. Raises OSError."""
        if not self._host or self._host.startswith("/"):
            path = f"/tmp/.X11-unix/X{self._number}"
            if self._host:  # as of macOS: the socket is the name itself
                path = f"{self._host}:{self._number}"
            connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
            connection.setblocking(False)
            number = connection.connect_ex(path)
        else:
            family, kind, address = self._address()
            connection = socket(family, kind | SOCK_CLOEXEC)
            connection.setblocking(False)
            number = connection.connect_ex(address)
        if number not in (0, _EINPROGRESS):
            connection.close()
            raise OSError(number, os.strerror(number))
        return connection

    def _address(self) -> "tuple[int, int, tuple[str, int]]":
        """Return family, kind and address of the X server. Raises OSError.

        The cookie opens the user's screen. So on this host only a process of the user's or of
        root's is shown it: another user may listen at ::1 where sshd has 127.0.0.1 alone.
        """
        from socket import getaddrinfo

        port = _FIRST_PORT + self._number
        for family, kind, _, _, where in getaddrinfo(self._host.strip("[]"), port, 0, SOCK_STREAM):
            if family not in (AF_INET, AF_INET6):
                continue
            host = str(where[0])
            users = (UNKNOWN, 0, os.geteuid())
            if not is_of_this_host(host) or user_of_server((host, 0), (host, port)) in users:
                return family, kind, where  # type: ignore[return-value]
        raise OSError(111, "Connection refused")


class X11Forward:
    """Forwards the X clients of one step.

    Attributes:
        cookie: what they have to show.
        nodes: the word of --x11.
    """

    def __init__(self, server: XServer, nodes: str) -> None:
        self.cookie = random_cookie()
        self.nodes = nodes
        self._server = server
        self._loop: PollLoop | None = None
        self._send_to: Callable[[int, bytes], bool] | None = None
        self._open: dict[tuple[int, int], Tunnel] = {}
        self._beginning: dict[tuple[int, int], bytearray] = {}
        self._last: dict[int, int] = {}  # by node: connections up to this number have begun

    def begin(self, loop: "PollLoop", send_to: "Callable[[int, bytes], bool]") -> None:
        """Serve from now on; `send_to` sends a frame to a node."""
        self._loop, self._send_to = loop, send_to

    def take(self, node: int, kind: int, number: int, body: bytes) -> None:
        """Take what a node sends of a connection; one that sends too much is ended."""
        key = node, number
        tunnel = self._open.get(key)
        if tunnel is None:
            self._take_first(key, kind, body)
        elif kind == step_io.X11_CREDIT:
            tunnel.take_credit(step_io.numbers(body)[0])
        else:
            try:
                tunnel.take(body)
            except step_io.BadStepFrame:
                tunnel.close()

    def _take_first(self, key: "tuple[int, int]", kind: int, body: bytes) -> None:
        """Take the first bytes of a connection, until they show the cookie."""
        if kind == step_io.X11_CREDIT or (key not in self._beginning and not self._begins(key)):
            return
        head = self._beginning[key]
        head += body
        try:
            first = self._checked(bytes(head))
        except PermissionError:
            body, first = b"", b""
            self._refuse(key)
        if not body:
            self._beginning.pop(key, None)
        elif first:
            del self._beginning[key]
            self._connect(key, first)

    def _begins(self, key: "tuple[int, int]") -> bool:
        """Return whether this is a new connection, and not what is left of one that has ended."""
        node, number = key
        if number <= self._last.get(node, 0) or number == step_io.ALL:
            return False
        self._last[node] = number
        if len(self._open) + len(self._beginning) >= MOST_TUNNELS:
            self._refuse(key)
            return False
        self._beginning[key] = bytearray()
        return True

    def _refuse(self, key: "tuple[int, int]") -> None:
        assert self._send_to is not None
        self._send_to(key[0], step_io.pack(step_io.X11, key[1]))

    def _checked(self, head: bytes) -> bytes:
        """Return a client's first bytes with the server's cookie; b"" while some are missing.

        Raises:
            PermissionError: it does not show the cookie of the step.
        """
        if len(head) < _SETUP_HEAD:
            return b""
        if head[:1] not in (b"l", b"B"):
            raise PermissionError
        order = "little" if head[:1] == b"l" else "big"
        name_length = int.from_bytes(head[6:8], order)  # type: ignore[arg-type]
        data_length = int.from_bytes(head[8:10], order)  # type: ignore[arg-type]
        data_at = _SETUP_HEAD + _padded(name_length)
        end = data_at + _padded(data_length)
        if name_length != len(xauthority.COOKIE) or not 0 < data_length <= _MOST_AUTH:
            raise PermissionError
        if len(head) < end:
            return b""
        name = head[_SETUP_HEAD : _SETUP_HEAD + name_length]
        data = head[data_at : data_at + data_length]
        if name != xauthority.COOKIE or not step_io.same_key(data, self.cookie):
            raise PermissionError
        cookie = self._server.cookie
        length = len(cookie).to_bytes(2, order)  # type: ignore[arg-type]
        real = cookie + b"\0" * (_padded(len(cookie)) - len(cookie))
        return head[:8] + length + head[10:data_at] + real + head[end:]

    def _connect(self, key: "tuple[int, int]", first: bytes) -> None:
        assert self._loop is not None and self._send_to is not None
        send_to, node = self._send_to, key[0]
        try:
            connection = self._server.connect()
        except OSError:
            self._refuse(key)
            return
        tunnel = self._open[key] = Tunnel(
            self._loop,
            connection,
            key[1],
            lambda frame: send_to(node, frame),
            lambda number: self._over(node, number),
        )
        tunnel.take(first)

    def _over(self, node: int, number: int) -> None:
        self._open.pop((node, number), None)

    def node_lost(self, node: int) -> None:
        """End the connections of a node that is gone."""
        for key, tunnel in list(self._open.items()):
            if key[0] == node:
                tunnel.close()


def _padded(length: int) -> int:
    return -(-length // 4) * 4
