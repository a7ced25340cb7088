"""slurmd's hold on supervisors: starts them through the template, commands them, sees them end.

A supervisor's channel ends with it, and its file then says how it ended; that is the only way an
end is learned, so a slurmd that was away learns it the same way.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.stepd.template import RECEIVE_FILE
from pyslurm_ng.d.steps.step_shares import StepShares
from pyslurm_ng.d.steps.template_link import TemplateLink
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.model.ids import step_text

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import AdoptOrder, Order, Route, StepSpec

StepKey: TypeAlias = tuple[int, int, int]
"""Job, step, attempt: as in a step's file name."""

_END_LIMIT_S = 5.0
_ATTACH_PAUSE_S = 0.05
_LONGEST_ATTACH_PAUSE_S = 2.0
_ANSWER_BYTES = 1 << 20


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
        self._on_started = on_started
        self._on_ended = on_ended
        self._on_report = on_report
        self._loop = asyncio.get_running_loop()
        self._template = TemplateLink(spool)
        self._channels: dict[StepKey, socket.socket] = {}
        self._paths: dict[StepKey, str] = {}
        self._shares = StepShares(spool)
        self._expected: dict[StepKey, list[Order]] = {}  # messages for those being prepared
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._told: set[StepKey] = set()  # those that were told anything
        self._tag = 0
        self._boot = step_record.boot_id()

    async def begin(self) -> None:
        """Start the template and wait until it can fork.

        Raises:
            CannotSupervise: it did not come up.
        """
        await self._template.begin()

    def close(self) -> None:
        """Let the template end, with its last supervisor; supervisors go on by themselves."""
        self._template.close(0 if self._paths else _END_LIMIT_S)
        for channel in self._channels.values():
            self._loop.remove_reader(channel.fileno())
            channel.close()
        self._channels.clear()

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
            SpecError: its user's steps have taken enough of the spool, or of the displays.
            OSError: the spool is full or out of order.
        """
        self._shares.check(spec)
        step_record.create(path, {**spec, "boot": self._boot})
        self._begin(key, path, spec)
        self.release(key)

    def take_up(self, key: StepKey, path: str, records: Mapping[str, Any]) -> bool:
        """Begin a step whose file a predecessor wrote, but then died; return whether it was so.

        The template has waited for the one before: each step that was asked for has a process id.
        An srun has seen its request fail by now, so that its step must not begin.
        """
        spec = records["spec"]
        is_known = records.keys() != {"spec"} or spec.get("boot") != self._boot
        if is_known or spec.get("route") is not None:
            return False
        self._begin(key, path, spec)
        return True

    def _begin(self, key: StepKey, path: str, spec: StepSpec) -> None:
        self._shares.take(key, spec, path)
        self._paths[key] = path
        self._request(key, f"{spec['uid']} {path}")

    def _request(self, key: StepKey, words: str) -> None:
        """Ask the template for a step's supervisor."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._attach(key, ours)
        self._template.request(words, theirs)

    def _request_again(self, key: StepKey) -> bool:
        """Ask the next template for a step that the last one has died with; return whether so.

        A supervisor has the step's channel before its process id is in the file, so with the
        channel closed and no process id there was none. What the step was told went with the
        channel, so one that was told anything, which may be to end, is taken for lost.
        """
        if key in self._told or self._template.is_there():
            return False
        path = self._paths.get(key, "")
        try:
            records = step_record.read(path)
        except (OSError, step_record.StepRecordError):
            return False
        if records.keys() != {"spec"}:
            return False
        self._request(key, f"{records['spec']['uid']} {path}")
        return True

    def fork_receiver(self, theirs: socket.socket) -> None:
        """Begin a process that writes a file (see `file_receiver`), on its end of a channel."""
        self._template.request(RECEIVE_FILE, theirs)

    def adopt(self, key: StepKey, path: str, spec: StepSpec) -> None:
        """Take up a supervisor that a predecessor started and that still runs."""
        self._paths[key] = path
        self._shares.take(key, spec, path)
        self._loop.create_task(self._connect(key, path))

    async def _connect(self, key: StepKey, path: str) -> None:
        """Connect to a supervisor's own socket, which it makes when it misses slurmd.

        However long it takes: one that is slow, or has no room for a socket, has a healthy step.
        """
        pause_s = _ATTACH_PAUSE_S
        while key in self._paths:
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            channel.setblocking(False)
            try:
                _connect_long(channel, path + ".sock")
            except OSError:
                channel.close()
            else:
                self._attach(key, channel)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_ATTACH_PAUSE_S)
            try:
                records = step_record.read(path)
            except (OSError, step_record.StepRecordError):
                break
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
            if not self._request_again(key):
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
        self._told.discard(key)
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
            record = _present(step_record.read(path))
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
        self._told.add(key)
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


def _present(records: dict[str, Any]) -> dict[str, Any] | None:
    """Return a supervisor's process; None once it may serve another step."""
    return None if "end" in records else records.get("pid")


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
