"""A program that the supervisor runs beside the step: it may hang, so each wait has a deadline.

Its process takes a line on stdin, and what it has to say are lines on stdout.
"""

import os
import select
import time
from _signal import SIGKILL, pidfd_send_signal  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.stepd.step_processes import StepProcesses

_MOST_BYTES = 65536


class BesideProcess:
    """One process; the loop goes on while it runs.

    Args:
        stdin: what it reads first, fewer bytes than a pipe holds.
    """

    def __init__(
        self,
        loop: "PollLoop",
        processes: "StepProcesses",
        argv: "list[str]",
        stdin: bytes = b"",
    ) -> None:
        """Start it. Raises OSError."""
        self._loop = loop
        self._processes = processes
        self._pipe, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        read_end, self._stdin = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.set_blocking(self._stdin, False)
            os.write(self._stdin, stdin)
            self._pid = os.posix_spawn(
                argv[0], argv, os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, read_end, 0), (os.POSIX_SPAWN_DUP2, theirs, 1),
                              (os.POSIX_SPAWN_DUP2, null, 2)],
            )  # fmt: skip
        except OSError:
            os.close(self._pipe)
            os.close(self._stdin)
            raise
        finally:
            for descriptor in (read_end, theirs, null):
                os.close(descriptor)
        self._pidfd = _opened(self._pid)
        processes.beside.add(self._pid)

    def finish(
        self, limit_s: float, gives_up: "Callable[[], bool]" = lambda: False
    ) -> "str | None":
        """End its stdin, serve the step until it has ended, and return what it said.

        Returns:
            None if it has not ended after `limit_s`, or once `gives_up` is true; it is killed then.
        """
        os.close(self._stdin)
        try:
            return self._heard(limit_s, gives_up)
        finally:
            os.close(self._pipe)
            self._processes.beside.discard(self._pid)
            self._kill()

    def _heard(self, limit_s: float, gives_up: "Callable[[], bool]") -> "str | None":
        parts: list[bytes] = []
        is_over: list[bool] = []

        def take(events: int) -> None:
            try:
                part = os.read(self._pipe, _MOST_BYTES)
            except BlockingIOError:
                return
            parts.append(part)
            if not part or sum(map(len, parts)) > _MOST_BYTES:
                is_over.append(True)

        self._loop.watch(self._pipe, select.POLLIN, take)
        give_up_s = time.monotonic() + limit_s
        try:
            while not is_over:
                left_s = give_up_s - time.monotonic()
                if left_s <= 0 or gives_up():
                    return None
                self._loop.turn(left_s)
        finally:
            self._loop.drop(self._pipe)
        return b"".join(parts).decode("utf-8", "replace")

    def _kill(self) -> None:
        """End the process, which may be reaped already; one that hangs is left behind."""
        try:
            if self._pidfd >= 0:
                pidfd_send_signal(self._pidfd, SIGKILL)
                os.waitpid(self._pid, os.WNOHANG)
        except (ProcessLookupError, ChildProcessError):
            return
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)


def _opened(pid: int) -> int:
    """Return a descriptor of our child, which nobody has reaped yet; -1 on an old kernel."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
