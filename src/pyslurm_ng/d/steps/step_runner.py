"""slurmd's hold on supervisors: starts them through the template, commands them, sees them end.

A supervisor's channel ends with it, and its file then says how it ended; that is the only way an
end is learned, so a slurmd that was away learns it the same way.
"""

from __future__ import annotations

import array
import asyncio
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.stepd.stepd_command import stepd_command
from pyslurm_ng.d.stepd.template import READY, RECEIVE_FILE, TITLE_ROOM
from pyslurm_ng.d.steps.spool_shares import SpoolShares
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.model.ids import step_text

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import AdoptOrder, Order, Route, StepSpec

StepKey: TypeAlias = tuple[int, int, int]
"""Job, step, attempt: as in a step's file name."""

_START_LIMIT_S = 30.0
_ATTACH_TRIES = 40
_ATTACH_PAUSE_S = 0.05
_ANSWER_BYTES = 1 << 20


class CannotSupervise(Exception):
    """The template does not start; one line."""


class StepRunner:
    """All supervisors of one node daemon. Methods belong to the loop's thread.

    Args:
        spool: directory of the node daemon.
        on_started: called with the key when a step's tasks run.
        on_ended: called with the key and the file's records when a supervisor has gone.
        on_report: called with the key and a map when a supervisor says something unasked: `did` is
            slow, unkillable, fault or plugin; see d.stepd.supervisor.
    """

    def __init__(
        self,
        spool: str,
        *,
        on_started: Callable[[StepKey, Mapping[int, int]], None],
        on_ended: Callable[[StepKey, Mapping[str, Any]], None],
        on_report: Callable[[StepKey, Mapping[str, Any]], None] = lambda key, words: None,
    ) -> None:
        self._spool = spool
        self._cpus = os.sched_getaffinity(0)  # before slurmd keeps to some of them
        self._on_started = on_started
        self._on_ended = on_ended
        self._on_report = on_report
        self._loop = asyncio.get_running_loop()
        self._control: socket.socket | None = None
        self._template: subprocess.Popen[bytes] | None = None
        self._queue: deque[tuple[str, socket.socket]] = deque()
        self._channels: dict[StepKey, socket.socket] = {}
        self._paths: dict[StepKey, str] = {}
        self._shares = SpoolShares(spool)
        self._expected: dict[StepKey, list[Order]] = {}  # messages for those being prepared
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tag = 0

    # The template -----------------------------------------------------------------------------

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
            self._template = subprocess.Popen(
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
            self._template.kill()
            self._template.wait()
            ours.close()
            raise CannotSupervise("slurmstepd did not start; see the lines above")
        self._control = ours
        self._loop.add_reader(ours.fileno(), self._template_gone)

    def _template_gone(self) -> None:
        """The template died, which nothing but a kill brings about: start another."""
        self._drop_template()
        self._loop.create_task(self._begin_again())

    async def _begin_again(self) -> None:
        try:
            await self.begin()
        except CannotSupervise:
            self._loop.call_later(1.0, lambda: self._loop.create_task(self._begin_again()))
            return
        self._send_queue()

    def _drop_template(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        if self._template is not None:
            self._template.poll()

    def close(self) -> None:
        """Let the template end, with its last supervisor; supervisors go on by themselves."""
        self._drop_template()
        if self._template is not None:
            try:
                self._template.wait(0 if self._paths else 5)
            except subprocess.TimeoutExpired:
                self._template.returncode = 0  # this process no longer deals with it
        for channel in self._channels.values():
            self._loop.remove_reader(channel.fileno())
            channel.close()
        self._channels.clear()

    # Steps ------------------------------------------------------------------------------------

    def expect(self, key: StepKey) -> None:
        """Keep commands for a step until it is started, or `release` is called."""
        self._expected.setdefault(key, [])

    def release(self, key: StepKey) -> None:
        """Pass on what was kept for a step; drop it if the step is not started after all."""
        for words in self._expected.pop(key, ()):
            self.command(key, words)

    def start(self, key: StepKey, path: str, spec: StepSpec) -> None:
        """Begin a step; what becomes of it is told by the callbacks.

        Raises:
            FileExistsError: this attempt of the step was begun before.
            SpecError: its user's steps have taken enough of the spool.
            OSError: the spool is full or out of order.
        """
        self._shares.check(spec["uid"])
        step_record.create(path, spec)
        self._shares.take(key, spec["uid"], path)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._paths[key] = path
        self._attach(key, ours)
        self._queue.append((path, theirs))
        self._send_queue()
        self.release(key)

    def fork_receiver(self, theirs: socket.socket) -> None:
        """Begin a process that writes a file (see `file_receiver`), on its end of a channel."""
        self._queue.append((RECEIVE_FILE, theirs))
        self._send_queue()

    def _send_queue(self) -> None:
        while self._queue and self._control is not None:
            path, theirs = self._queue[0]
            rights = array.array("i", [theirs.fileno()])
            try:
                self._control.sendmsg(
                    [os.fsencode(path)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
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

    def adopt(self, key: StepKey, path: str, uid: int) -> None:
        """Take up a supervisor that a predecessor started and that still runs."""
        self._paths[key] = path
        self._shares.take(key, uid, path)
        self._loop.create_task(self._connect(key, path))

    async def _connect(self, key: StepKey, path: str) -> None:
        """Connect to a supervisor's own socket, which it makes when it misses slurmd."""
        for _ in range(_ATTACH_TRIES):
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            channel.setblocking(False)
            try:
                _connect_long(channel, path + ".sock")
            except OSError:
                channel.close()
            else:
                self._attach(key, channel)
                return
            await asyncio.sleep(_ATTACH_PAUSE_S)
            records = step_record.read(path)
            if "end" in records or not step_record.is_alive(records.get("pid")):
                break
        self._ended(key)

    def _attach(self, key: StepKey, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channels[key] = channel
        self._loop.add_reader(channel.fileno(), self._on_channel, key)

    def _on_channel(self, key: StepKey) -> None:
        channel = self._channels.get(key)
        if channel is None:
            return
        try:
            body = channel.recv(_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            body = b""
        if not body:
            self._loop.remove_reader(channel.fileno())
            channel.close()
            del self._channels[key]
            self._ended(key)
            return
        answer = unpack(body)
        if answer.get("did") in ("start", "attach"):
            self._on_started(key, answer["pids"])
            return
        if answer.get("did") in ("slow", "unkillable", "fault", "plugin"):
            self._on_report(key, answer)
            return
        future = self._asked.pop(answer.get("tag", 0), None)
        if future is not None and not future.done():
            future.set_result(answer)

    def _ended(self, key: StepKey) -> None:
        path = self._paths.pop(key, "")
        if not path:
            return
        self._shares.give_back(key)
        try:
            records: Mapping[str, Any] = step_record.read_end(path)
        except (OSError, step_record.StepRecordError):
            records = {}
        self._on_ended(key, records)

    def kill(self, key: StepKey) -> None:
        """Kill a supervisor that does not answer; `on_ended` is called when it has gone."""
        path = self._paths.get(key, "")
        try:
            record = step_record.read(path).get("pid")
            pidfd = os.pidfd_open(record["pid"]) if record else -1
        except (OSError, step_record.StepRecordError):
            return
        if pidfd < 0:
            return
        try:
            if step_record.is_alive(record):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except OSError:
            return
        finally:
            os.close(pidfd)

    def abandon(self, key: StepKey) -> None:
        """Take a supervisor for gone that outlives SIGKILL."""
        channel = self._channels.pop(key, None)
        if channel is not None:
            self._loop.remove_reader(channel.fileno())
            channel.close()
        self._ended(key)

    def has(self, key: StepKey) -> bool:
        """Return whether a step's supervisor is known to run."""
        return key in self._paths

    def running(self) -> list[StepKey]:
        """Return all steps that run."""
        return list(self._paths)

    def command(self, key: StepKey, words: Order) -> bool:
        """Tell a supervisor something; return whether it could be told, or will be."""
        if key in self._expected:
            self._expected[key].append(words)
            return True
        channel = self._channels.get(key)
        if channel is None:
            return False
        try:
            channel.send(pack(dict(words)))
        except OSError:
            return False
        return True

    async def ask(
        self,
        key: StepKey,
        what: Literal["ping", "pids", "usage", "reader"] | AdoptOrder,
        limit_s: float = 5.0,
        route: Route | None = None,
    ) -> dict[str, Any]:
        """Ask a supervisor for its `pids` or `usage`; {} when it does not answer.

        `reader` asks for its tasks, and with a route it connects to a sattach.
        """
        self._tag = tag = self._tag + 1
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._asked[tag] = future
        order: Order = {"do": "reader", "tag": tag, "route": route}
        if isinstance(what, dict):
            order = {**what, "tag": tag}
        elif what != "reader":
            order = {"do": what, "tag": tag}
        try:
            if not self.command(key, order):
                return {}
            return await asyncio.wait_for(future, limit_s)
        except asyncio.TimeoutError:
            return {}
        finally:
            self._asked.pop(tag, None)


def step_name(key: StepKey) -> str:
    """Return how log lines call a step."""
    return f"StepId={key[0]}.{step_text(key[1])}"


def _connect_long(channel: socket.socket, path: str) -> None:
    """Connect although a path may be longer than a socket address: by its directory's number."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        channel.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
