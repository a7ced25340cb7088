"""sattach's connections to a running step: copies of its output, and further standard input.

The step never waits for them. Output that a reader does not take is left out, and the reader is
told how much. Its input goes to a task only while the task has read all that it was given before,
so that srun's credit holds.
"""

from collections import deque

from pyslurm_ng.d.stepd.step_streams import SrunLink
from pyslurm_ng.d.stepd.step_tasks import notice
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import Route, StepSpec
    from pyslurm_ng.d.stepd.step_streams import Inlet
    from pyslurm_ng.d.stepd.task import Task, Tasks

MOST_READERS = 8
"""The most connections of sattach to one step on one node; each may keep a megabyte unsent."""
_MOST_WAITING = 1024
"""Pieces of input that wait for a task; what goes to the same tasks is one piece."""
_CONNECT_S = 10.0
_LINGER_S = 2.0


class StepReader:
    """One connection of sattach.

    Args:
        tasks: of the step on this node.
        feed_all: called when there is input to pass on.
    """

    def __init__(
        self,
        loop: "PollLoop",
        route: "Route",
        tasks: "Tasks",
        feed_all: "Callable[[], None]",
    ) -> None:
        """Begin to connect. Raises OSError."""
        self._tasks = tasks
        self._feed_all = feed_all
        self._input: deque[tuple[int, bytearray]] = deque()
        self._input_bytes = 0
        self._left_out = 0
        self.link = SrunLink(loop, route, self._on_frame, lambda problem: None, lambda: None)

    def pass_on(self, frame: bytes) -> None:
        """Send a frame of output, or leave it out if too much is unsent."""
        if not self.link.has_room:
            self._left_out += len(frame) - step_io.HEAD_BYTES
            return
        self.tell_left_out()
        self.link.send(frame)

    def tell_left_out(self) -> None:
        """Say how much output was left out since this was said last."""
        if self._left_out:
            text = f"sattach reads too slowly: {self._left_out} bytes of output were left out"
            self._left_out = 0
            self.link.send(step_io.pack(step_io.NOTICE, step_io.ALL, notice(text)))

    def _on_frame(self, kind: int, task_id: int, body: bytes) -> None:
        """Take input; a reader may not signal, end or resize the step. Raises BadStepFrame."""
        if kind == step_io.PING:
            self.link.send(step_io.pack(step_io.PONG))
        if kind != step_io.STDIN:
            return
        self._input_bytes += len(body)
        if self._input_bytes > step_io.STDIN_WINDOW or len(self._input) > _MOST_WAITING:
            raise step_io.BadStepFrame("more standard input than there was credit for")
        if body and self._input and self._input[-1][0] == task_id and self._input[-1][1]:
            self._input[-1][1].extend(body)
        else:
            self._input.append((task_id, bytearray(body)))
        self._feed_all()

    def feed(self) -> None:
        """Pass on input as far as the tasks have read what they were given."""
        while self._input and self.link.is_open:
            task_id, body = self._input[0]
            inlets = [
                task.inlet
                for task in self._tasks.all
                if task.inlet is not None and task_id in (step_io.ALL, task.task)
            ]
            if any(inlet.is_busy for inlet in inlets):
                return
            self._input.popleft()
            self._input_bytes -= len(body)
            self._give(inlets, bytes(body))

    def _give(self, inlets: "list[Inlet]", body: bytes) -> None:
        for inlet in inlets:
            if body:
                inlet.put_more(body)
            elif not inlet.is_terminal:
                inlet.close()
        if body:
            self.link.send(step_io.pack_number(step_io.CREDIT, step_io.ALL, len(body)))


class StepReaders:
    """All connections of sattach to one step."""

    def __init__(self, loop: "PollLoop", spec: "StepSpec", tasks: "Tasks") -> None:
        self._loop = loop
        self._spec = spec
        self._tasks = tasks
        self._readers: list[StepReader] = []
        self._has_begun = self._is_over = self._feeds = False

    def add(self, route: "Route", pid: int) -> str:
        """Connect to a sattach; return why it cannot be served, or nothing."""
        self._forget_closed()
        if self._is_over:
            return "Job/step already completing or completed"
        if len(self._readers) >= MOST_READERS:
            return f"{MOST_READERS} readers are attached to this step already"
        try:
            reader = StepReader(self._loop, route, self._tasks, self.feed)
        except OSError as error:
            return f"cannot connect to sattach: {error.strerror}"
        spec = self._spec
        reader.link.hello({"node": spec["node"], "node_index": spec["node_index"], "pid": pid})
        self._readers.append(reader)
        self._loop.later(_CONNECT_S, lambda: self._end_unknown(reader))
        if self._has_begun:
            reader.link.tell(step_io.STARTED, {"pids": self._tasks.pids()})
        return ""

    def _end_unknown(self, reader: StepReader) -> None:
        """Close a connection whose peer has not shown the key."""
        if not reader.link.is_known:
            reader.link.close()

    def _forget_closed(self) -> None:
        self._readers = [reader for reader in self._readers if reader.link.is_open]

    def begin(self) -> None:
        """All tasks have begun: their input may come."""
        self._has_begun = True
        for reader in self._readers:
            reader.link.tell(step_io.STARTED, {"pids": self._tasks.pids()})
        self.feed()

    def pass_on(self, frame: bytes) -> None:
        """Send a frame of output to those that have room for it."""
        for reader in self._readers:
            reader.pass_on(frame)

    def task_ended(self, task: "Task", flags: int) -> None:
        """Tell of a task's end."""
        self._tell(step_io.pack_number(step_io.EXIT, task.task, task.status, flags))

    def notice(self, line: bytes) -> None:
        """Pass on a line that the supervisor writes."""
        self._tell(step_io.pack(step_io.NOTICE, step_io.ALL, line))

    def _tell(self, frame: bytes) -> None:
        """Send a small frame that is never left out."""
        for reader in self._readers:
            reader.link.send(frame)

    def feed(self) -> None:
        """Pass on input once all tasks have begun; nothing while this is being done already."""
        if self._feeds or not self._has_begun:
            return
        self._feeds = True
        try:
            for reader in self._readers:
                reader.feed()
        finally:
            self._feeds = False

    def finish(self) -> None:
        """Say that all output was sent; nothing more comes."""
        self._is_over = True
        for reader in self._readers:
            reader.tell_left_out()
        self._tell(step_io.pack(step_io.DONE))

    def linger(self) -> None:
        """Send the rest, for a moment: the step has ended, and its end is on record."""
        self._loop.later(_LINGER_S, self._close, "readers")
        while any(not reader.link.is_flushed for reader in self._readers):
            self._loop.turn(_LINGER_S)
        for reader in self._readers:
            reader.link.finish()
        while any(reader.link.is_open for reader in self._readers):
            self._loop.turn(_LINGER_S)
        self._close()

    def _close(self) -> None:
        for reader in self._readers:
            reader.link.close()
        self._readers.clear()
