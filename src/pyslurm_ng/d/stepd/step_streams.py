"""A step's standard streams: pipes of tasks on one side, srun's connection or files on the other.

Nothing here waits: the supervisor's poll loop calls `on_ready`. A task's output is read only while
little is unsent, so a slow reader makes the task wait and no byte is lost; a task's input is
written as it takes it, and srun gets credit for what was taken.
"""

import os
import select
from _socket import (
    AF_UNSPEC,
    IPPROTO_TCP,
    SHUT_WR,
    SO_KEEPALIVE,
    SOCK_CLOEXEC,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    getaddrinfo,
    socket,
)

from pyslurm_ng._records import pack as pack_map
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_UNSENT_LIMIT = 1 << 20
_CONNECT_S = 30.0


class Poller:
    """`select.poll` with a callback for each descriptor."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[int], None]] = {}

    def watch(self, descriptor: int, events: int, callback: "Callable[[int], None]") -> None:
        """Call back when one of `events` is there; again to change events."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, events)

    def drop(self, descriptor: int) -> None:
        """Forget a descriptor; nothing if it is not watched."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def run(self, timeout_ms: int) -> None:
        """Wait at most so long (-1: for ever) and call back for what is ready."""
        for descriptor, events in self._poll.poll(timeout_ms):
            callback = self._callbacks.get(descriptor)
            if callback is not None:
                callback(events)


class SrunLink:
    """The connection to srun: frames out with a bounded buffer, frames in."""

    def __init__(
        self,
        poller: Poller,
        route: "dict[str, Any]",
        on_frame: "Callable[[int, int, bytes], None]",
        on_lost: "Callable[[], None]",
    ) -> None:
        """Connect; raises OSError when nobody listens there."""
        self._poller = poller
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._frames = step_io.Frames(step_io.SRUN)
        self._unsent = bytearray()
        self._waiting: list[Callable[[], None]] = []
        self._socket: socket | None = self._connect(route["host"], route["port"])
        self._watch()

    @staticmethod
    def _connect(host: str, port: int) -> socket:
        failure: OSError | None = None
        for family, kind, protocol, _, where in getaddrinfo(host, port, AF_UNSPEC, SOCK_STREAM):
            connection = socket(family, kind | SOCK_CLOEXEC, protocol)
            try:
                connection.settimeout(_CONNECT_S)
                connection.connect(where)
                connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
                connection.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
                connection.setblocking(False)
            except OSError as error:
                failure = error
                connection.close()
                continue
            return connection
        raise failure or OSError(113, "No address found")

    @property
    def is_open(self) -> bool:
        """Whether srun is still there."""
        return self._socket is not None

    @property
    def has_room(self) -> bool:
        """Whether more output may be read from tasks."""
        return len(self._unsent) < _UNSENT_LIMIT

    @property
    def is_flushed(self) -> bool:
        """Whether everything was sent, or can never be."""
        return not self._unsent or self._socket is None

    def hello(self, fields: "dict[str, Any]") -> None:
        """Say who we are; the first frame."""
        self.send(step_io.pack(step_io.HELLO, 0, pack_map(fields)))

    def tell(self, kind: int, fields: "dict[str, Any]", task: int = step_io.ALL) -> None:
        """Send a frame with a map."""
        self.send(step_io.pack(kind, task, pack_map(fields)))

    def send(self, frame: bytes) -> None:
        """Queue a frame; it goes out as fast as srun takes it."""
        if self._socket is None:
            return
        self._unsent += frame
        self._write()

    def when_room(self, callback: "Callable[[], None]") -> None:
        """Call back once when `has_room` is true again."""
        self._waiting.append(callback)

    def close(self) -> None:
        """End the connection; what was not sent is lost."""
        if self._socket is not None:
            self._poller.drop(self._socket.fileno())
            self._socket.close()
            self._socket = None
            self._unsent.clear()
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()

    def finish(self) -> None:
        """Say that nothing more comes; srun closes."""
        if self._socket is not None:
            try:
                self._socket.shutdown(SHUT_WR)
            except OSError:
                return

    def _watch(self) -> None:
        assert self._socket is not None
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._poller.watch(self._socket.fileno(), events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._write()
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read()

    def _read(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(step_io.CHUNK_BYTES)
            frames = self._frames.feed(data)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, step_io.BadStepFrame):
            data, frames = b"", []
        for kind, task, body in frames:
            self._on_frame(kind, task, body)
        if not data:
            self.close()
            self._on_lost()

    def _write(self) -> None:
        connection = self._socket
        if connection is None:
            return
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = connection.send(view[:262144])
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()
            self._on_lost()
            return
        self._watch()
        if self._waiting and self.has_room:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()


class Outlet:
    """One output stream of one task on its way to srun or, with labels, into a file."""

    def __init__(
        self,
        poller: Poller,
        descriptor: int,
        *,
        task: int,
        kind: int,
        link: "SrunLink | None",
        file: int = -1,
        label: bytes = b"",
    ) -> None:
        """Pump from `descriptor` (ours from now on) to `link` or `file`."""
        os.set_blocking(descriptor, False)
        self._poller = poller
        self._descriptor = descriptor
        self._task = task
        self._kind = kind
        self._link = link
        self._file = file
        self._label = label
        self._at_line_start = True
        self.is_over = False
        poller.watch(descriptor, select.POLLIN, self._on_ready)

    def _on_ready(self, events: int) -> None:
        link = self._link
        if link is not None and not link.has_room:
            self._poller.drop(self._descriptor)
            link.when_room(self._resume)
            return
        try:
            data = os.read(self._descriptor, step_io.CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # EIO: the last process closed the terminal
        if data:
            self._put(data)
        else:
            self.close()

    def _resume(self) -> None:
        if not self.is_over:
            self._poller.watch(self._descriptor, select.POLLIN, self._on_ready)

    def _put(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(step_io.pack(self._kind, self._task, data))
        if self._file >= 0:
            data = self._labelled(data) if self._label else data
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError:
                # The file system is full: what a program would see too; it goes on without us.
                self._file = -1

    def _labelled(self, data: bytes) -> bytes:
        out = bytearray()
        for line in data.splitlines(keepends=True):
            if self._at_line_start:
                out += self._label
            out += line
            self._at_line_start = line.endswith(b"\n")
        return bytes(out)

    def drain(self) -> None:
        """Take what is in the pipe now, whoever else may still hold it open."""
        while not self.is_over:
            try:
                data = os.read(self._descriptor, step_io.CHUNK_BYTES)
            except OSError:
                return
            if not data:
                return
            self._put(data)

    def close(self) -> None:
        """End the stream; srun is told."""
        if self.is_over:
            return
        self.is_over = True
        self._poller.drop(self._descriptor)
        os.close(self._descriptor)
        if self._link is not None:
            self._link.send(step_io.pack(self._kind, self._task))


class Inlet:
    """One task's standard input: bytes of srun, written as the task takes them."""

    def __init__(
        self, poller: Poller, descriptor: int, on_taken: "Callable[[], None]", *, is_terminal: bool
    ) -> None:
        """Write to `descriptor`, ours from now on unless it is the terminal's."""
        os.set_blocking(descriptor, False)
        self._poller = poller
        self.descriptor = descriptor
        self._on_taken = on_taken
        self._is_terminal = is_terminal
        self._buffer = bytearray()
        self._ends = False
        self.taken = 0
        self.is_over = False

    def put(self, data: bytes) -> None:
        """Queue bytes; none means the end of input."""
        if self.is_over:
            return
        if data:
            self._buffer += data
        else:
            self._ends = True
        self._write(0)

    def _write(self, events: int) -> None:
        try:
            while self._buffer:
                with memoryview(self._buffer) as view:
                    sent = os.write(self.descriptor, view[: step_io.CHUNK_BYTES])
                del self._buffer[:sent]
                self.taken += sent
        except (BlockingIOError, InterruptedError):
            self._poller.watch(self.descriptor, select.POLLOUT, self._write)
            self._on_taken()
            return
        except OSError:
            self.close()  # the task has closed its input and does not want more
            return
        if not self._is_terminal:
            self._poller.drop(self.descriptor)
        if self._ends:
            self.close()
        else:
            self._on_taken()

    def close(self) -> None:
        """End the input; a terminal gets its end-of-file character instead."""
        if self.is_over:
            return
        self.is_over = True
        if self._is_terminal:
            try:
                os.write(self.descriptor, b"\x04")
            except OSError:
                pass
        else:
            self._poller.drop(self.descriptor)
            os.close(self.descriptor)
        self._on_taken()
