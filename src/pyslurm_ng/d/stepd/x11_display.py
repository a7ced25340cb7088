"""A display on this node whose X clients reach the user's X server through srun (--x11).

It listens on the loopback address only, and takes connections of the step's user only: others of
the node could use up the tunnels. Besides, srun passes a connection on only if it begins with the
cookie that we leave in a file of the user.
"""

import os
import select
import time
from _socket import AF_INET, SOCK_CLOEXEC, SOCK_STREAM, gethostname, socket

from pyslurm_ng.base.loopback_user import user_of_peer
from pyslurm_ng.d.stepd.own_process import become, fork_own, identity_of
from pyslurm_ng.d.stepd.step_tasks import FILES_STATUS, CannotStart
from pyslurm_ng.wire import step_io, xauthority
from pyslurm_ng.wire.tunnel import MOST_TUNNELS, Tunnel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec, X11Spec
    from pyslurm_ng.d.stepd.step_streams import SrunLink

_FIRST, _END = 20, 1020
_FIRST_PORT = 6000
_HERE = b"127.0.0.1"
_XAUTH_S = 10.0
_XAUTH_PAUSE_S = 0.05
_XAUTH = ("/usr/bin/xauth", "/usr/X11/bin/xauth", "/usr/local/bin/xauth")


class X11Display:
    """The display of one step on this node; `environment` is for its tasks."""

    def __init__(
        self, loop: "PollLoop", spec: "StepSpec", x11: "X11Spec", link: "SrunLink"
    ) -> None:
        """Listen, and leave the cookie in a file. Raises CannotStart."""
        self._loop = loop
        self._spec = spec
        self._x11 = x11
        self._link = link
        self._tunnels: dict[int, Tunnel] = {}
        self._last = 0
        self._path = ""
        self._listener, self._number = _listen()
        try:
            if x11["directory"]:
                self._path = self._write_file()
            else:
                self._run_xauth(f"add {self._name} . {x11['cookie'].hex()}\n")
        except (OSError, CannotStart) as error:
            self._listener.close()
            if isinstance(error, CannotStart):
                raise
            raise CannotStart(FILES_STATUS, f"X11: {error.strerror}") from None
        self._listener.setblocking(False)
        loop.watch(self._listener.fileno(), select.POLLIN, self._accept)

    @property
    def _name(self) -> str:
        return f"{gethostname()}/unix:{self._number}"

    @property
    def environment(self) -> "list[bytes]":
        """Return the variables by which tasks find the display.

        By its address: `localhost` may be ::1 first, where another user may listen at this port.
        """
        path = [b"XAUTHORITY=" + os.fsencode(self._path)] if self._path else []
        return [b"DISPLAY=%s:%d.0" % (_HERE, self._number), *path]

    def _write_file(self) -> str:
        """Write a file of the user's that nobody else can read. Raises OSError."""
        name = f"{self._x11['directory']}/.Xauthority-{os.urandom(6).hex()}"
        entry = xauthority.Entry(
            xauthority.FAMILY_WILD, b"", b"%d" % self._number, xauthority.COOKIE,
            self._x11["cookie"],
        )  # fmt: skip
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600)
        try:
            os.write(descriptor, xauthority.pack_entry(entry))
            if identity_of(self._spec):
                os.fchown(descriptor, self._spec["uid"], self._spec["gid"])
        finally:
            os.close(descriptor)
        return name

    def _run_xauth(self, line: str) -> None:
        """Let xauth change the file in the user's home directory. Raises OSError, CannotStart.

        The cookie goes through a pipe: all users of a node see the arguments of a process.
        """
        program = next((path for path in _XAUTH if os.access(path, os.X_OK)), "")
        if not program:
            raise CannotStart(FILES_STATUS, "X11: home_xauthority needs xauth on the node")
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        os.write(write_end, line.encode())
        os.close(write_end)
        identity, home = identity_of(self._spec), self._x11["home"]

        def work() -> None:
            become(identity)
            os.dup2(read_end, 0)
            os.execve(program, ["xauth", "-q"], {"HOME": home, "PATH": "/usr/bin:/bin"})

        pid = fork_own(work, [read_end])
        os.close(read_end)
        give_up = time.monotonic() + _XAUTH_S
        while True:
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                break
            if time.monotonic() > give_up:
                os.kill(pid, 9)
                give_up += _XAUTH_S
            self._loop.turn(_XAUTH_PAUSE_S)
        if status:
            raise CannotStart(FILES_STATUS, f"X11: xauth failed with status {status}")

    # Connections --------------------------------------------------------------------------------

    def _accept(self, events: int) -> None:
        try:
            descriptor, peer = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        connection = socket(fileno=descriptor)
        if user_of_peer(self._listener.getsockname(), peer) != self._spec["uid"]:
            connection.close()
            return
        if len(self._tunnels) >= MOST_TUNNELS or not self._link.is_known:
            connection.close()
            return
        os.set_inheritable(descriptor, False)
        self._last += 1
        self._tunnels[self._last] = Tunnel(
            self._loop, connection, self._last, self._link.send, self._over
        )

    def _over(self, number: int) -> None:
        self._tunnels.pop(number, None)

    def on_frame(self, kind: int, number: int, body: bytes) -> None:
        """Take what srun sends of a connection. Raises BadStepFrame."""
        tunnel = self._tunnels.get(number)
        if tunnel is None:
            return  # it has ended meanwhile
        if kind == step_io.X11_CREDIT:
            tunnel.take_credit(step_io.numbers(body)[0])
        else:
            tunnel.take(body)

    def close(self) -> None:
        """End all connections, and remove the cookie."""
        self._loop.drop(self._listener.fileno())
        self._listener.close()
        for tunnel in list(self._tunnels.values()):
            tunnel.close()
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                pass
        elif not self._x11["directory"]:
            try:
                self._run_xauth(f"remove {self._name}\n")
            except (OSError, CannotStart):
                pass


def _listen() -> "tuple[socket, int]":
    """Return a listening socket and the number of its display. Raises CannotStart."""
    offset = int.from_bytes(os.urandom(2), "big")
    for turn in range(_END - _FIRST):
        number = _FIRST + (offset + turn) % (_END - _FIRST)
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            listener.bind((_HERE.decode(), _FIRST_PORT + number))
            listener.listen(64)
        except OSError:
            listener.close()
            continue
        return listener, number
    raise CannotStart(FILES_STATUS, "X11: no display is free on this node")
