"""The process of the site's scripts: started, asked, ended if it hangs, started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct

from pyslurm_ng.daemon.process_tree import descendants, signal_below
from pyslurm_ng.policy.messages import (
    HEADER,
    MOST_BYTES,
    AskRows,
    Begin,
    FromProcess,
    Loaded,
    Question,
    Rows,
    Verdict,
    packed,
)

MEMORY_BYTES = 1 << 30
"""Of address space; Lua itself may have a quarter of it."""
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "from pyslurm_ng.policy.worker import main; main()"
)
PATIENCE_S = 0.5
"""After which others no longer wait behind a question."""
_EXIT_S = 0.1
"""From the end of its channel to the end of a process that ends by itself; the loop waits."""
_READ_BYTES = 1 << 18
_READS_AT_ONCE = 16


class Timer(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Do not call."""


class Loop(Protocol):
    """The parts of the event loop that are needed here."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> None:
        """Call when the descriptor can be read."""

    def remove_reader(self, fd: int, /) -> bool:
        """Call no longer."""

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> None:
        """Call when the descriptor can be written."""

    def remove_writer(self, fd: int, /) -> bool:
        """Call no longer."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call after some seconds."""

    def time(self) -> float:
        """Return seconds that never run back."""


class ScriptProcess:
    """One process, which answers its questions in their order.

    It is given several at once, so that it need not wait for us between them, and so that many
    decisions share a turn of our loop and a sync of the journal.
    """

    def __init__(
        self,
        loop: Loop,
        begin: Begin,
        *,
        limit_s: float,
        rows: Callable[[AskRows], Rows],
        loaded: Callable[[list[str]], None],
        slow: Callable[[], None],
        ended: Callable[[str], None],
    ) -> None:
        """Start the process.

        Args:
            rows: looks up what a script asks for.
            loaded: is told when the plugins are loaded, or why they are not.
            slow: is told when the first question was asked `PATIENCE_S` ago; once for each.
            ended: is told that the process has ended, and why, unless `close` ended it.

        Raises:
            OSError: no process can be had.
        """
        self._loop = loop
        self._limit_s = limit_s
        self._rows = rows
        self._loaded = loaded
        self._slow = slow
        self._ended = ended
        self._open: deque[tuple[Callable[[Verdict], None], float]] = deque()
        self._timer: Timer | None = None
        self._decoder = msgspec.msgpack.Decoder(FromProcess)
        self._incoming = bytearray()
        self._outgoing: deque[memoryview] = deque()
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, ":".join(sys.path)],
                stdin=theirs.fileno(),
                start_new_session=True,
            )
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()
        loop.add_reader(self._channel.fileno(), self._readable)
        self._timer = loop.call_later(limit_s, partial(self._too_long, "loading"))
        self.send(begin)

    def ask(self, question: Question, done: Callable[[Verdict], None]) -> None:
        """Let the plugins decide, after those before; they must be loaded."""
        self._open.append((done, self._loop.time()))
        if len(self._open) == 1:
            self._watch()
        self.send(question)

    def send(self, message: Struct) -> None:
        """Send a message, now or when the socket takes it."""
        was_empty = not self._outgoing
        self._outgoing.append(memoryview(packed(message)))
        if was_empty:
            self._write()

    def close(self) -> None:
        """Kill the process and all that it has started; nobody is told, and nobody waits for it.

        A process whose file system hangs ends when the kernel lets it: see `is_gone`.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._channel.fileno() < 0:
            return
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        pid = self._process.pid
        if self._process.poll() is None:
            signal_below(pid, descendants(pid)[::-1], signal.SIGKILL)
            try:
                os.killpg(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    # Time -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Begin to measure the first question: how long ago it was asked, and how long it takes."""
        begun_s = self._loop.time()
        patience_s = max(0.0, self._open[0][1] + PATIENCE_S - begun_s)
        self._timer = self._loop.call_later(patience_s, partial(self._tell_slow, begun_s))

    def _tell_slow(self, begun_s: float) -> None:
        left_s = max(0.0, begun_s + self._limit_s - self._loop.time())
        self._timer = self._loop.call_later(left_s, partial(self._too_long, "the script"))
        self._slow()

    def _too_long(self, what: str) -> None:
        self._end(f"{what} took longer than {self._limit_s:g} seconds")

    def _end(self, why: str) -> None:
        """End the process, and tell the requests that wait for it."""
        self.close()
        self._open.clear()
        self._ended(why)

    # The socket -----------------------------------------------------------------------------------

    def _write(self) -> None:
        fd = self._channel.fileno()
        while self._outgoing:
            try:
                sent = self._channel.send(self._outgoing[0])
            except BlockingIOError:
                self._loop.add_writer(fd, self._write)
                return
            except OSError:
                break  # it has ended: reading says so
            rest = self._outgoing.popleft()[sent:]
            if rest:
                self._outgoing.appendleft(rest)
        self._outgoing.clear()
        self._loop.remove_writer(fd)

    def _readable(self) -> None:
        for _ in range(_READS_AT_ONCE):
            if self._channel.fileno() < 0:
                return
            try:
                data = self._channel.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._end(self._why_ended())
                return
            self._incoming += data
            if not self._take():
                return

    def _why_ended(self) -> str:
        """Return how the process ended by itself."""
        try:
            code = self._process.wait(timeout=_EXIT_S)
        except subprocess.TimeoutExpired:
            return "the process of the script closed its channel"
        if code < 0:
            return f"the process of the script was ended by signal {-code}"
        return f"the script ended its process with exit code {code}"

    def _take(self) -> bool:
        """Take each whole message; return whether the process is still there."""
        while len(self._incoming) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._incoming)
            if length > MOST_BYTES:
                self._end("the process of the script sent what is no message")
                return False
            if len(self._incoming) < HEADER.size + length:
                return True
            body = bytes(self._incoming[HEADER.size : HEADER.size + length])
            del self._incoming[: HEADER.size + length]
            try:
                message = self._decoder.decode(body)
            except msgspec.MsgspecError as error:
                self._end(f"the process of the script sent what is no message: {error}")
                return False
            self._received(message)
            if self._channel.fileno() < 0:
                return False
        return True

    def _received(self, message: FromProcess) -> None:
        if isinstance(message, AskRows):
            self.send(self._rows(message))
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if isinstance(message, Loaded):
            self._loaded(message.errors)
            return
        if self._open:
            done, _ = self._open.popleft()
            if self._open:
                self._watch()  # the next one has begun
            done(message)
