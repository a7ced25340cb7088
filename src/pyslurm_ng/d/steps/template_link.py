"""slurmd's hold on the template of supervisors: starts it, asks it, starts another when it dies."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import subprocess
from collections import deque

from pyslurm_ng.d.stepd.stepd_command import stepd_command
from pyslurm_ng.d.stepd.template import READY, TITLE_ROOM

_START_LIMIT_S = 30.0


class CannotSupervise(Exception):
    """The template does not start; one line."""


class TemplateLink:
    """One template after the other. Methods belong to the loop's thread.

    Args:
        spool: directory of the node daemon.
    """

    def __init__(self, spool: str) -> None:
        self._spool = spool
        self._cpus = os.sched_getaffinity(0)  # before slurmd keeps to some of them
        self._loop = asyncio.get_running_loop()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._queue: deque[tuple[str, socket.socket]] = deque()

    async def begin(self) -> None:
        """Start the template and wait until it can fork.

        Raises:
            CannotSupervise: it did not come up.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [str(theirs.fileno()), self._spool, " " * TITLE_ROOM]
        own_cpus = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, self._cpus)
            self._process = subprocess.Popen(
                [*stepd_command(), *words], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise CannotSupervise(f"slurmstepd: {error.strerror}") from None
        finally:
            os.sched_setaffinity(0, own_cpus)
            theirs.close()
        ours.setblocking(False)
        try:
            answer = await asyncio.wait_for(self._loop.sock_recv(ours, 64), _START_LIMIT_S)
        except asyncio.TimeoutError:
            answer = b""
        if answer != READY:
            self._process.kill()
            self._process.wait()
            ours.close()
            raise CannotSupervise("slurmstepd did not start; see the lines above")
        self._control = ours
        self._loop.add_reader(ours.fileno(), self._gone)

    def _gone(self) -> None:
        """The template died, which nothing but a kill brings about: start another."""
        self._drop()
        self._loop.create_task(self._begin_again())

    async def _begin_again(self) -> None:
        try:
            await self.begin()
        except CannotSupervise:
            self._loop.call_later(1.0, lambda: self._loop.create_task(self._begin_again()))
            return
        self._send_queue()

    def _drop(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.poll()

    def is_there(self) -> bool:
        """Return whether the template lives, as its channel tells before anybody is called."""
        if self._control is None:
            return False
        try:
            return bool(self._control.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def request(self, words: str, theirs: socket.socket) -> None:
        """Ask for a process that has this end of a channel, now or as soon as there is one."""
        self._queue.append((words, theirs))
        self._send_queue()

    def _send_queue(self) -> None:
        while self._queue and self._control is not None:
            words, theirs = self._queue[0]
            rights = array.array("i", [theirs.fileno()])
            try:
                self._control.sendmsg(
                    [os.fsencode(words)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                )
            except BlockingIOError:
                self._loop.add_writer(self._control.fileno(), self._writable)
                return
            except OSError:
                return  # it has died; the next one gets the rest
            theirs.close()
            self._queue.popleft()

    def _writable(self) -> None:
        if self._control is not None:
            self._loop.remove_writer(self._control.fileno())
        self._send_queue()

    def close(self, limit_s: float) -> None:
        """Let the template end, and wait for that for some time."""
        self._drop()
        if self._process is not None:
            try:
                self._process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self._process.returncode = 0  # this process no longer deals with it
