"""A step's standard streams: pipes of tasks on one side, srun's connection or files on the other.

srun is the user's program: its messages are checked, and the data kept for it is bounded. Nothing
here waits: the supervisor's poll loop calls `on_ready`. A task's output is read only while little
is unsent, so a slow reader makes the task wait and no byte is lost. A task's input is written as
fast as the task reads it, and srun gets credit for the bytes that were written.
"""

import os
import select
from _socket import (
    AF_UNSPEC,
    AI_NUMERICHOST,
    IPPROTO_TCP,
    SHUT_WR,
    SO_ERROR,
    SO_KEEPALIVE,
    SOCK_CLOEXEC,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    getaddrinfo,
    socket,
)

from pyslurm_ng.kernels.records import pack as pack_map
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import Route
    from pyslurm_ng.d.stepd.step_writer import StepWriter

_EINPROGRESS = 115
_UNSENT_LIMIT = 1 << 20
_MOST_UNSENT = 8 << 20
_MOST_UNREAD = 4 * step_io.STDIN_WINDOW
_MOST_DRAINED = 4 << 20


class SrunLink:
    """The connection to srun, which sends frames from a bounded buffer and reads frames.

    `is_connecting` is true until it is known whether a process listens at the address. That process
    may not be srun: until it has shown its half of the key, it hears only which node this is, and
    nothing that it sends is obeyed.

    Args:
        route: `host`, an IP address, `port`, and the step's `key`.
        on_frame: called with each frame; BadStepFrame ends the connection.
        on_bad: called with the error of a frame, before the connection ends.
    """

    def __init__(
        self,
        loop: "PollLoop",
        route: "Route",
        on_frame: "Callable[[int, int, bytes], None]",
        on_bad: "Callable[[str], None]",
        on_lost: "Callable[[], None]",
    ) -> None:
        """Begin to connect. Raises OSError."""
        self._loop = loop
        self._on_frame = on_frame
        self._on_bad = on_bad
        self._on_lost = on_lost
        self._frames = step_io.Frames(step_io.SRUN)
        self._own_key, self._srun_key = step_io.halves(route["key"])
        self._is_srun = False
        self._hello = bytearray()
        self._unsent = bytearray()  # sent after that, once the peer is known to be srun
        self._waiting: list[Callable[[], None]] = []
        self._is_paused = self._is_finished = False
        self.problem = ""
        """Why there is no connection; the user sees this text."""
        self.is_connecting = True
        # As bytes: for a string Python loads its codec of host names, which takes milliseconds.
        host = route["host"].encode("ascii", "replace")
        addresses = getaddrinfo(host, route["port"], AF_UNSPEC, SOCK_STREAM, 0, AI_NUMERICHOST)
        family, kind, protocol, _, address = addresses[0]
        connection = socket(family, kind | SOCK_CLOEXEC, protocol)
        self._socket: socket | None = connection
        connection.setblocking(False)
        connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        connection.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
        number = connection.connect_ex(address)
        if number not in (0, _EINPROGRESS):
            connection.close()
            raise OSError(number, os.strerror(number))
        loop.watch(connection.fileno(), select.POLLOUT, self._connected)

    def _connected(self, events: int) -> None:
        assert self._socket is not None
        number = self._socket.getsockopt(SOL_SOCKET, SO_ERROR)
        self.is_connecting = False
        if number:
            self.problem = os.strerror(number)
            self.close()
            return
        self._write()

    @property
    def is_open(self) -> bool:
        """Whether the connection exists."""
        return self._socket is not None

    @property
    def is_known(self) -> bool:
        """Whether the peer has shown its half of the key."""
        return self._is_srun

    @property
    def has_room(self) -> bool:
        """Whether more output may be read from tasks."""
        return len(self._unsent) < _UNSENT_LIMIT

    @property
    def is_flushed(self) -> bool:
        """Whether everything was sent, or the connection is closed."""
        return not self._unsent or self._socket is None

    def hello(self, fields: "dict[str, Any]") -> None:
        """Send the first frame, which says which node and process this is."""
        body = pack_map({"key": self._own_key, **fields})
        self._hello += step_io.pack(step_io.HELLO, 0, body)
        if not self.is_connecting:
            self._write()

    def tell(self, kind: int, fields: "dict[str, Any]", task: int = step_io.ALL) -> None:
        """Send a frame with a map."""
        self.send(step_io.pack(kind, task, pack_map(fields)))

    def send(self, frame: bytes) -> None:
        """Queue a frame; frames are sent as fast as srun reads them."""
        if self._socket is None or self._is_finished:
            return
        self._unsent += frame
        if not self.is_connecting:
            self._write()

    def when_room(self, callback: "Callable[[], None]") -> None:
        """Call back once when `has_room` is true again."""
        self._waiting.append(callback)

    def pause(self, *, is_paused: bool) -> None:
        """Stop reading from srun while what it has sent cannot be passed on, or go on."""
        if self._is_paused != is_paused:
            self._is_paused = is_paused
            if self._socket is not None and not self.is_connecting and not self._is_finished:
                self._watch()

    def close(self) -> None:
        """End the connection; unsent data is lost."""
        if self._socket is not None:
            self._loop.drop(self._socket.fileno())
            self._socket.close()
            self._socket = None
            self._unsent.clear()
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()

    def finish(self) -> None:
        """Tell srun that nothing more comes, so that it closes the connection.

        Until it does, what it still sends is dropped: the kernel would answer a connection that is
        closed with something unread by a reset, and srun would lose what it has not read yet.
        """
        if self._socket is None or self._is_finished:
            return
        self._is_finished, self._is_paused = True, False
        self._unsent.clear()
        try:
            self._socket.shutdown(SHUT_WR)
        except OSError:
            self.close()
        else:
            self._loop.watch(self._socket.fileno(), select.POLLIN, self._on_ready)

    def _watch(self) -> None:
        assert self._socket is not None
        queue = self._unsent if self._is_srun else self._hello
        events = 0 if self._is_paused else select.POLLIN
        events |= select.POLLOUT if queue else 0
        self._loop.watch(self._socket.fileno(), events, self._on_ready)

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
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if self._is_finished:
            if not data:
                self.close()
            return
        is_good = False
        try:
            frames = self._frames.feed(data)
            while frames:
                for kind, task, body in frames:
                    if self._is_srun:
                        self._on_frame(kind, task, body)
                    else:
                        self._welcomed(kind, body)
                frames = self._frames.feed(b"")
            is_good = bool(data)
        except step_io.BadStepFrame as error:
            self._on_bad(str(error))
        finally:
            if not is_good:
                self._lose()

    def _welcomed(self, kind: int, body: bytes) -> None:
        """Check the key in srun's first frame. Raises BadStepFrame."""
        if kind != step_io.WELCOME or not step_io.same_key(body, self._srun_key):
            raise step_io.BadStepFrame("it does not know the key of its step")
        self._is_srun = True
        self._write()

    def _lose(self) -> None:
        if self._socket is not None:
            self.close()
            self._on_lost()

    def _write(self) -> None:
        connection = self._socket
        if connection is None:
            return
        queue = self._unsent if self._is_srun else self._hello
        try:
            while queue:
                with memoryview(queue) as view:
                    sent = connection.send(view[:262144])
                del queue[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._lose()
            return
        if len(self._unsent) > _MOST_UNSENT:
            self._lose()  # the peer sends requests and reads no answers
            return
        self._watch()
        if self._waiting and self.has_room:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()


class Outlet:
    """One output stream of one task on its way to srun or, with labels, into a file.

    `copy` is called with each frame, for those who read beside srun.
    """

    def __init__(
        self,
        loop: "PollLoop",
        descriptor: int,
        *,
        task: int,
        kind: int,
        link: "SrunLink | None",
        copy: "Callable[[bytes], None]",
        writer: "StepWriter | None" = None,
        file: int = -1,
        label: bytes = b"",
    ) -> None:
        """Copy from `descriptor`, which is closed here, to `link`, or to `writer` for a file."""
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor = descriptor
        self._task = task
        self._kind = kind
        self._link = link
        self._copy = copy
        self._writer = writer
        self._file = file
        self._label = label
        self._at_line_start = True
        self.is_over = False
        loop.watch(descriptor, select.POLLIN, self._on_ready)

    def _on_ready(self, events: int) -> None:
        sink = self._link or self._writer
        if sink is not None and not sink.has_room:
            self._loop.drop(self._descriptor)
            sink.when_room(self._resume)
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
            self._loop.watch(self._descriptor, select.POLLIN, self._on_ready)

    def _put(self, data: bytes) -> None:
        frame = step_io.pack(self._kind, self._task, data)
        self._copy(frame)
        if self._link is not None:
            self._link.send(frame)
        elif self._writer is not None:
            self._writer.put(self._file, self._labelled(data) if self._label else data)

    def _labelled(self, data: bytes) -> bytes:
        text = bytearray()
        for line in data.splitlines(keepends=True):
            if self._at_line_start:
                text += self._label
            text += line
            self._at_line_start = line.endswith(b"\n")
        return bytes(text)

    def drain(self) -> None:
        """Read the data that is in the pipe now; other processes may still have it open."""
        drained_bytes = 0
        while not self.is_over and drained_bytes < _MOST_DRAINED:
            try:
                data = os.read(self._descriptor, step_io.CHUNK_BYTES)
            except OSError:
                return
            if not data:
                return
            drained_bytes += len(data)
            self._put(data)

    def close(self) -> None:
        """End the stream, and tell srun."""
        if self.is_over:
            return
        self.is_over = True
        self._loop.drop(self._descriptor)
        os.close(self._descriptor)
        frame = step_io.pack(self._kind, self._task)
        self._copy(frame)
        if self._link is not None:
            self._link.send(frame)


class Inlet:
    """One task's standard input: bytes of srun, written as fast as the task reads them.

    Attributes:
        taken: how many of srun's bytes the task has read at least; those of others do not count.
    """

    def __init__(
        self,
        loop: "PollLoop",
        descriptor: int,
        on_taken: "Callable[[], None]",
        *,
        is_terminal: bool,
    ) -> None:
        """Write to `descriptor`, which is closed here unless it is a terminal."""
        os.set_blocking(descriptor, False)
        self._loop = loop
        self.descriptor = descriptor
        self._on_taken = on_taken
        self.is_terminal = is_terminal
        self._buffer = bytearray()
        self._given = 0  # by srun
        self._ends = self._has_begun_line = False
        self.taken = 0
        self.is_over = False

    @property
    def is_busy(self) -> bool:
        """Whether the task has not read all that it was given."""
        return bool(self._buffer) and not self.is_over

    def put_more(self, data: bytes) -> None:
        """Queue bytes that are not srun's; wait while the task `is_busy`."""
        if not self.is_over:
            self._buffer += data
            self._has_begun_line = not data.endswith((b"\n", b"\r"))
            self._write(0)

    def put(self, data: bytes) -> None:
        """Queue bytes; no bytes mean the end of input.

        A terminal's end-of-file character works only at the start of a line. So a last line without
        a newline gets one, as shells read the last line of a file.

        Raises:
            BadStepFrame: srun sends far more than it has credit for.
        """
        if self.is_over:
            return
        if len(self._buffer) + len(data) > _MOST_UNREAD:
            raise step_io.BadStepFrame("more standard input than there was credit for")
        if data:
            self._buffer += data
            self._given += len(data)
            self._has_begun_line = not data.endswith((b"\n", b"\r"))
        else:
            self._ends = True
            if self.is_terminal and self._has_begun_line:
                self._buffer += b"\n"
        self._write(0)

    def _write(self, events: int) -> None:
        try:
            while self._buffer:
                with memoryview(self._buffer) as view:
                    sent = os.write(self.descriptor, view[: step_io.CHUNK_BYTES])
                del self._buffer[:sent]
                self.taken = max(self.taken, self._given - len(self._buffer))
        except (BlockingIOError, InterruptedError):
            self._loop.watch(self.descriptor, select.POLLOUT, self._write)
            self._on_taken()
            return
        except OSError:
            self.close()  # the task has closed its input and does not want more
            return
        if not self.is_terminal:
            self._loop.drop(self.descriptor)
        if self._ends:
            self.close()
        else:
            self._on_taken()

    def close(self) -> None:
        """End the input; a terminal gets its end-of-file character instead."""
        if self.is_over:
            return
        self.is_over = True
        if self.is_terminal:
            try:
                os.write(self.descriptor, b"\x04")
            except OSError:
                pass
        else:
            self._loop.drop(self.descriptor)
            os.close(self.descriptor)
        self._on_taken()
