"""What the supervisor itself has to write into a user's files: notices, and output with labels.

One process of the supervisor's own does it, as the user, once there is something to write. A file
that takes nothing (a full FIFO, a hanging file system) stops that process only. Then notices are
dropped, and tasks with labelled output wait, as they would for the file itself.
"""

import os
import select
import struct
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.d.stepd.own_process import become, fork_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop

_HEAD = struct.Struct(">II")
_UNSENT_LIMIT = 1 << 20
_NOTICE_LIMIT = 1 << 16


class StepWriter:
    """Passes bytes to the process that writes them; nothing here waits.

    Args:
        identity: the files' user, as `own_process.identity_of` returns it.
    """

    def __init__(self, loop: "PollLoop", identity: "dict[str, Any]") -> None:
        self._loop = loop
        self._identity = identity
        self._files: list[int] = []
        self._unsent = bytearray()
        self._waiting: list[Callable[[], None]] = []
        self._pipe = -1
        self._is_ending = False
        self.pid = 0
        """The process, 0 before there is one and after its end."""

    def add(self, descriptor: int) -> int:
        """Take over a file and return its number; all have to be added before the first write."""
        self._files.append(descriptor)
        return len(self._files) - 1

    @property
    def has_room(self) -> bool:
        """Whether more output may be read from tasks."""
        return len(self._unsent) < _UNSENT_LIMIT

    def when_room(self, callback: "Callable[[], None]") -> None:
        """Call back once when `has_room` is true again."""
        self._waiting.append(callback)

    def say(self, file: int, line: bytes) -> None:
        """Write a notice, unless others are stuck already."""
        if len(self._unsent) < _NOTICE_LIMIT:
            self.put(file, line)

    def put(self, file: int, data: bytes) -> None:
        """Write into a file, as soon as it takes it."""
        if self._is_ending or not 0 <= file < len(self._files):
            return
        self._unsent += _HEAD.pack(file, len(data)) + data
        if self._pipe < 0:
            self._begin()
        self._send(0)

    def _begin(self) -> None:
        theirs, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        files = self._files

        def work() -> None:
            become(self._identity)
            _write_all(theirs, files)

        self.pid = fork_own(work, [theirs, *files])
        os.close(theirs)

    def _send(self, events: int) -> None:
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = os.write(self._pipe, view[:65536])
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            self._loop.watch(self._pipe, select.POLLOUT, self._send)
            return
        except OSError:
            self._drop()  # the user has killed it
            return
        self._loop.drop(self._pipe)
        if self._is_ending:
            self._drop()
        self._call_back()

    def _call_back(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def _drop(self) -> None:
        """Close the pipe: lines that were passed on are still written."""
        self._is_ending = True
        self._unsent.clear()
        if self._pipe >= 0:
            self._loop.drop(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def finish(self) -> None:
        """Nothing more comes; `pid` becomes 0 when all is written and `ended` was called."""
        self._is_ending = True
        if not self._unsent:
            self._drop()

    def ended(self) -> None:
        """The process has ended, and was reaped."""
        self.pid = 0
        self._drop()
        self._call_back()

    def kill(self) -> None:
        """Give up lines that are not written by now."""
        if self.pid:
            os.kill(self.pid, SIGKILL)  # not reaped yet, so it is this process
        self._drop()


def _write_all(pipe: int, files: "list[int]") -> None:
    """In the process: write what comes, one message after another, until the sender is gone."""
    while True:
        head = _exactly(pipe, _HEAD.size)
        if not head:
            return
        file, length = _HEAD.unpack(head)
        rest = memoryview(_exactly(pipe, length))
        try:
            while rest:
                rest = rest[os.write(files[file], rest) :]
        except OSError:
            continue  # the file system is full: what a program would see too; it goes on


def _exactly(pipe: int, length: int) -> bytes:
    """Return so many bytes; nothing at the end."""
    parts = bytearray()
    while len(parts) < length:
        data = os.read(pipe, min(65536, length - len(parts)))
        if not data:
            return b""
        parts += data
    return bytes(parts)
