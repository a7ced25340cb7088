"""What a supervisor and its srun say to each other: input, signals, window size, ends of tasks."""

import os
import time
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import OOM_STATUS
from pyslurm_ng.d.stepd.step_streams import SrunLink
from pyslurm_ng.d.stepd.step_tasks import CannotStart
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import Route, StepSpec
    from pyslurm_ng.d.stepd.pmi_server import PmiServer
    from pyslurm_ng.d.stepd.pmix_relay import PmixRelay
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_orders import StepOrders
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_readers import StepReaders
    from pyslurm_ng.d.stepd.task import Task, Tasks
    from pyslurm_ng.d.stepd.x11_display import X11Display

_CONNECT_S = 30.0
_LINGER_S = 10.0


class SrunSession:
    """The session with one srun, for a step that has one.

    Attributes:
        link: the connection; None before `connect`, and for a step without srun.
        mpi: what serves the MPI libraries of the tasks, if they have any.
        x11: the display of the tasks, if they have one.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        tasks: "Tasks",
        processes: "StepProcesses",
        ending: "StepEnding",
        orders: "StepOrders",
        notices: "StepNotices",
        readers: "StepReaders",
    ) -> None:
        self.link: SrunLink | None = None
        self.mpi: PmiServer | PmixRelay | None = None
        self.x11: X11Display | None = None
        self._loop = loop
        self._spec = spec
        self._tasks = tasks
        self._processes = processes
        self._ending = ending
        self._orders = orders
        self._notices = notices
        self._readers = readers
        self._early_stdin: list[tuple[int, bytes]] | None = []  # None once all tasks have begun
        self._stdin_taken = 0

    def connect(self, route: "Route") -> None:
        """Connect, and serve everything else meanwhile. Raises CannotStart."""
        spec = self._spec
        try:
            self.link = link = SrunLink(
                self._loop, route, self._on_frame, self._on_bad_frame, self._on_lost
            )
        except OSError as error:
            raise CannotStart(SIGKILL, f"cannot connect to srun: {error}") from None
        self._notices.link = link
        link.hello({"node": spec["node"], "node_index": spec["node_index"], "pid": os.getpid()})
        give_up = time.monotonic() + _CONNECT_S
        while link.is_connecting and not self._ending.is_dying and time.monotonic() < give_up:
            self._loop.turn(1.0)
        if link.problem or link.is_connecting:
            link.close()
            problem = link.problem or "no answer"
            raise CannotStart(SIGKILL, f"cannot connect to srun: {problem}")

    def linger(self) -> None:
        """Wait until srun has read all and hung up, for a moment: the step's end is on record."""
        give_up = time.monotonic() + _LINGER_S
        while self.link is not None and self.link.is_open and time.monotonic() < give_up:
            self._loop.turn(1.0)
        if self.link is not None:
            self.link.close()

    # Messages to srun ----------------------------------------------------------------------------

    def started(self) -> None:
        """Pass on input that came before all tasks had begun, and tell srun that they have."""
        early, self._early_stdin = self._early_stdin, None
        for task_id, body in early or ():
            self._stdin(task_id, body)
        if self.link is not None:
            self.link.tell(step_io.STARTED, {"pids": self._tasks.pids()})
        self._readers.begin()

    def failed(self, status: int, text: str) -> None:
        """Tell srun that the step could not start."""
        if self.link is not None:
            self.link.tell(step_io.FAILED, {"code": status, "text": text})

    def task_ended(self, task: "Task") -> None:
        """Tell srun and others that a task and its epilogs have ended."""
        flags = 0
        if task.status == OOM_STATUS:
            ends_step = step_io.EXIT_ENDS_STEP * self._spec["oom_kill_step"]
            flags = step_io.EXIT_OUT_OF_MEMORY | ends_step
        self._readers.task_ended(task, flags)
        if self.link is not None:
            self.link.send(step_io.pack_number(step_io.EXIT, task.task, task.status, flags))

    # Messages of srun ---------------------------------------------------------------------------

    def _on_frame(self, kind: int, task_id: int, body: bytes) -> None:
        """Do what srun asks. Raises BadStepFrame."""
        if kind == step_io.STDIN:
            self._stdin(task_id, body)
        elif kind == step_io.SIGNAL:
            self._signal(task_id, step_io.numbers(body)[0])
        elif kind == step_io.TERMINATE:
            self._terminate(body.decode("utf-8", "replace"))
        elif kind == step_io.WINDOW:
            self._resize(*step_io.window(body))
        elif kind == step_io.MPI and self.mpi is not None:
            self.mpi.on_frame(body)
        elif kind in (step_io.X11, step_io.X11_CREDIT) and self.x11 is not None:
            self.x11.on_frame(kind, task_id, body)
        elif kind == step_io.PING and self.link is not None:
            self.link.send(step_io.pack(step_io.PONG))

    def _terminate(self, text: str) -> None:
        reason = "".join(char if char.isprintable() else "?" for char in text)
        if reason.startswith("SIGNAL "):
            reason = f"DUE to {reason}"  # so Slurm writes it
        elif reason:
            reason = f"DUE TO {reason}"
        wait_s = 0.0 if text == step_io.FORCED else float(self._spec["kill_wait"])
        self._ending.terminate(reason, wait_s)

    def _on_bad_frame(self, problem: str) -> None:
        self._notices.say(f"malformed message of srun: {problem}")

    def _on_lost(self) -> None:
        is_running = self._tasks.by_pid or self._processes.launch is not None
        if not self._spec["no_kill"] and is_running:
            self._ending.terminate("", float(self._spec["kill_wait"]))

    def _signal(self, task_id: int, number: int) -> None:
        if task_id == step_io.ALL:
            self._orders.signal(number, "all")
        else:
            self._orders.signal_task(task_id, number)

    def _resize(self, rows: int, columns: int) -> None:
        import fcntl
        import struct
        import termios

        first = self._tasks.all[0]
        if self._spec["pty"] and first.inlet is not None and not first.inlet.is_over:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(first.inlet.descriptor, termios.TIOCSWINSZ, size)

    # Input --------------------------------------------------------------------------------------

    def _stdin(self, task_id: int, body: bytes) -> None:
        """Pass on input, or keep it until all tasks have begun. Raises BadStepFrame."""
        if self._early_stdin is not None:
            self._early_stdin.append((task_id, body))
            if (
                sum(len(early_body) + 64 for _, early_body in self._early_stdin)
                > 4 * step_io.STDIN_WINDOW
            ):
                raise step_io.BadStepFrame("more standard input than there was credit for")
            return
        for task in self._tasks.all:
            if task.inlet is not None and task_id in (step_io.ALL, task.task):
                task.inlet.put(body)
        self.input_taken()

    def input_taken(self) -> None:
        """Let srun and readers send more input, after a task has read some."""
        self._give_credit()
        self._readers.feed()

    def _give_credit(self) -> None:
        """Give srun credit for the input that the slowest task has read."""
        inlets = [task.inlet for task in self._tasks.all if task.inlet is not None]
        open_inlets = [inlet for inlet in inlets if not inlet.is_over]
        if self.link is None:
            return
        if not open_inlets:
            # No task reads: let srun send all that it still has.
            taken_bytes = self._stdin_taken + step_io.STDIN_WINDOW // 2
        else:
            taken_bytes = min(inlet.taken for inlet in open_inlets)
        if taken_bytes - self._stdin_taken >= step_io.STDIN_WINDOW // 4:
            credit = taken_bytes - self._stdin_taken
            self._stdin_taken = taken_bytes
            self.link.send(step_io.pack_number(step_io.CREDIT, step_io.ALL, credit))
