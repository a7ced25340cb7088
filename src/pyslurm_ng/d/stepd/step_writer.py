"""What the supervisor itself writes into a user's files: notices, and output with labels.

The supervisor forks a process for that, which runs as the user, once there is something to write
and all files are known: the process has those that were open at the fork. A file that cannot be
written to (a full FIFO, a file system that does not answer) stops only that process. Then notices
are dropped, and tasks with labelled output wait, as they would for the file.
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
        identity: the user that owns the files, from `own_process.identity_of`.
    """

    def __init__(self, loop: "PollLoop", identity: "dict[str, Any]") -> None:
        self._loop = loop
        self._identity = identity
        self._files: list[int] = []
        self._unsent = bytearray()
        self._waiting: list[Callable[[], None]] = []
        self._pipe = -1
        self._has_all_files = False
        self._is_ending = False
        self.pid = 0
        """The id of the process, 0 before its start and after its end."""

    def add(self, descriptor: int) -> int:
        """Keep a descriptor and return the file's number."""
        self._files.append(descriptor)
        return len(self._files) - 1

    def begin(self) -> None:
        """Write what has come by now, and from now on at once: all files have been added."""
        self._has_all_files = True
        if self._unsent:
            self._pass_on()

    @property
    def has_room(self) -> bool:
        """Whether more output may be read from tasks."""
        return len(self._unsent) < _UNSENT_LIMIT

    def when_room(self, callback: "Callable[[], None]") -> None:
        """Call back once when `has_room` is true again."""
        self._waiting.append(callback)

    def say(self, file: int, line: bytes) -> None:
        """Write a notice, unless many others wait already."""
        if len(self._unsent) < _NOTICE_LIMIT:
            self.put(file, line)

    def put(self, file: int, data: bytes) -> None:
        """Write into a file, as soon as that is possible."""
        if self._is_ending or not 0 <= file < len(self._files):
            return
        self._unsent += _HEAD.pack(file, len(data)) + data
        if self._has_all_files:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._pipe < 0:
            self._fork()
        self._send(0)

    def _fork(self) -> None:
        read_fd, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        files = self._files

        def work() -> None:
            become(self._identity)
            _write_all(read_fd, files)

        self.pid = fork_own(work, [read_fd, *files])
        os.close(read_fd)

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
        """Close the pipe; the process still writes what is in it."""
        self._is_ending = True
        self._unsent.clear()
        if self._pipe >= 0:
            self._loop.drop(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def finish(self) -> None:
        """Take nothing from now on; `pid` becomes 0 when all is written and `ended` was called."""
        if not self._is_ending:
            self.begin()
        self._is_ending = True
        if not self._unsent:
            self._drop()

    def ended(self) -> None:
        """Note that the process has ended and was reaped."""
        self.pid = 0
        self._drop()
        self._call_back()

    def kill(self) -> None:
        """Kill the process; lines that are not written yet are lost."""
        if self.pid:
            os.kill(self.pid, SIGKILL)  # not reaped yet, so it is this process
        self._drop()


def _write_all(pipe: int, files: "list[int]") -> None:
    """Write one message after the other until the pipe ends; this runs in the forked process."""
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
            continue  # the file system is full; other files may have room


def _exactly(pipe: int, length: int) -> bytes:
    """Return so many bytes of a pipe; b"" at its end."""
    parts = bytearray()
    while len(parts) < length:
        data = os.read(pipe, min(65536, length - len(parts)))
        if not data:
            return b""
        parts += data
    return bytes(parts)
