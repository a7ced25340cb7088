"""srun's side of a running step, from launch to end.

One loop serves nodes, terminal, signals and the controller. Every node's supervisor connects to our
port and sends streams and ends of tasks (`wire.step_io`).
"""

import select
from time import monotonic

from pyslurm_ng.base.numbers import SIGKILL, SIGPIPE, SIGTERM
from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.cli.step.node_links import NodeLinks, StepOrders
from pyslurm_ng.cli.step.step_input import StepInput
from pyslurm_ng.cli.step.step_output import StepOutput
from pyslurm_ng.cli.step.task_ends import TASK_FAILURE, TaskEnds
from pyslurm_ng.cli.step.terminal import window_size
from pyslurm_ng.cli.step.user_signals import UserSignals
from pyslurm_ng.kernels.records import unpack
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.cli.signals import Signals
    from pyslurm_ng.cli.step.het_exchange import ComponentExchange
    from pyslurm_ng.cli.step.link import Link
    from pyslurm_ng.cli.step.mpi_hub import NodeExchange
    from pyslurm_ng.cli.step.streams import StepIo
    from pyslurm_ng.cli.step.tasks import StepTasks
    from pyslurm_ng.cli.step.x11 import X11Forward

_CONNECT_S = 60.0
_FINISH_GRACE_S = 2.0
_KNOWN_S = 2.0
_FAILED_STATUS = 1 << 8


class StepClient:
    """Follows one step from launch to end.

    Attributes:
        tasks: their states.
        links: the connections of its nodes.
        orders: the orders to its nodes.
    """

    def __init__(
        self,
        tasks: "StepTasks",
        streams: "StepIo",
        signals: "Signals",
        *,
        verbose: int = 0,
        quiet: bool = False,
        kill_on_bad_exit: bool = False,
        wait_s: int = 0,
        kill_wait_s: int = 30,
        show_status: bool = True,
        quit_on_interrupt: bool = False,
        ports: "tuple[int, int]" = (0, 0),
        abort_window_s: float = 1.0,
        exchange: "ComponentExchange | NodeExchange | None" = None,
    ) -> None:
        """Listen for the nodes; raises OSError when no port is free."""
        self.tasks = tasks
        self._has_terminal = streams.pty
        self._is_verbose = verbose > 0
        self._kill_wait_s = kill_wait_s
        self._is_over = False
        self._is_known = False  # to the controller, that the step is over
        self._sources: set[int] = set()  # descriptors of those that tell
        self._was_aborted = False
        self._lost_code = 0
        self._loop = loop = PollLoop()
        self._output = output = StepOutput(loop, streams, quiet=quiet)
        self.links = NodeLinks(
            loop, ports, len(tasks.nodes), on_frame=self._on_frame, on_lost=self._lost,
            on_all_here=self._all_here,
        )  # fmt: skip
        self.orders = orders = StepOrders(self.links)
        self._input = StepInput(
            loop, self.links, streams.in_descriptor, streams.in_task,
            tasks.node_of.get(streams.in_task, -1),
        )  # fmt: skip
        self._ends = TaskEnds(
            loop, tasks, orders, output, verbose=verbose, kill_on_bad_exit=kill_on_bad_exit,
            wait_s=wait_s, on_bad_exit=self._end_others,
        )  # fmt: skip
        self._signals = UserSignals(
            loop, signals, tasks, orders, output, show_status=show_status,
            quit_on_interrupt=quit_on_interrupt, abort_window_s=abort_window_s,
            on_resize=self._tell_window_size, on_forced=self._forced, on_give_up=self._give_up,
        )  # fmt: skip
        self._out_path, self._err_path = streams.out.path, streams.err.path
        streams.err.on_broken = self._errors_broke
        streams.out.on_broken = self._output_broke  # which may be the same
        self._x11: X11Forward | None = None
        self._exchange = exchange
        if exchange is not None:
            exchange.begin(loop, self._send_to, self._exchange_ends)

    def forward_x11(self, forward: "X11Forward") -> None:
        """Pass the X clients of the nodes on."""
        self._x11 = forward
        forward.begin(self._loop, self._send_to)

    def also_watch(self, descriptor: int, callback: "Callable[[], None]") -> None:
        """Call back when a descriptor (the controller's) can be read."""
        self._sources.add(descriptor)
        self._loop.watch(descriptor, select.POLLIN, lambda events: callback())

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor."""
        self._sources.discard(descriptor)
        self._loop.drop(descriptor)

    # The loop -----------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until every task has ended and all output is written; return the exit code."""
        self._loop.later(_CONNECT_S, self._connect_timed_out, "connect")
        while not (self._is_over or (self.links.all_done and self.tasks.all_exited)):
            self._output.turn(self.links)
        self._ends.tell()
        self._output.finish()
        self.links.close()
        self._wait_until_known()
        if self._ended_by_signal() and not self._was_aborted:
            self._output.info(f"Force Terminated {self.tasks.step_name}")
        return max(self.tasks.code, self._lost_code)

    def _wait_until_known(self) -> None:
        """Wait a little until the controller knows the end of the step, as Slurm's srun does.

        Then what comes after srun finds the step's CPUs free and its record in accounting.
        """
        give_up_s = monotonic() + _KNOWN_S
        while self._sources and not self._is_known and (left_s := give_up_s - monotonic()) > 0:
            self._loop.turn(left_s)

    def _ended_by_signal(self) -> bool:
        """Return whether the worst task was ended: other signals are the program's own faults."""
        return self.tasks.worst_status & 0x7F in (SIGKILL, SIGTERM) and self.tasks.code > 128

    # Nodes --------------------------------------------------------------------------------------

    def leave_out(self, node: int) -> None:
        """Leave out a node on which the launch failed."""
        self.links.leave_out(node)
        self._ends.lost(self.tasks.of_node[node], _FAILED_STATUS)
        self.tasks.end_lines(0)

    def _all_here(self) -> None:
        self._loop.cancel("connect")
        self._input.go_on()

    def _connect_timed_out(self) -> None:
        for node in self.links.missing():
            self._output.log(f"error: timeout waiting for task launch on {self.tasks.nodes[node]}")
            self.leave_out(node)
            self._lost_code = 1
        self.links.wait_no_longer()
        self.orders.terminate("TASK LAUNCH FAILURE")

    def _lost(self, link: "Link") -> None:
        """Handle a connection that ended before the step did on that node."""
        if self._x11 is not None:
            self._x11.node_lost(link.node)
        tasks = self.tasks.running_on(link.node)
        if not tasks:
            return
        self._output.log(f"error: Node failure on {self.tasks.nodes[link.node]}")
        self._ends.lost(tasks, _FAILED_STATUS)
        self._lost_code = max(self._lost_code, 1)
        self._ends.tell()
        self.orders.terminate("NODE FAILURE")

    def _on_frame(self, link: "Link", kind: int, task: int, body: bytes) -> None:
        if kind in (step_io.STDOUT, step_io.STDERR):
            self._output.write(kind, task, body)
        elif kind == step_io.EXIT:
            numbers = step_io.numbers(body)
            if len(numbers) == 2:
                self._ends.exited(task, *numbers)
                if self._exchange is not None:
                    self._exchange.rank_ended(link.node, self.tasks.first_rank + task)
        elif kind == step_io.CREDIT:
            link.credit += sum(step_io.numbers(body))
            self._input.go_on()
        elif kind == step_io.STARTED:
            self._started(link.node)
        elif kind == step_io.NOTICE:
            self._notice(body.decode("utf-8", "replace"))
        elif kind == step_io.MPI and self._exchange is not None:
            self._exchange.take(link.node, body)
        elif kind == step_io.FAILED:
            self._failed(link.node, body)
        elif kind in (step_io.X11, step_io.X11_CREDIT) and self._x11 is not None:
            self._x11.take(link.node, kind, task, body)

    def _send_to(self, node: int, frame: bytes) -> bool:
        link = self.links.link_of(node)
        if link is None or link.is_done:
            return False
        self.links.send(link, frame)
        return True

    def _end_others(self) -> None:
        """End the other components: a task here has failed."""
        if self._exchange is not None:
            self._exchange.end_others()

    def _exchange_ends(self, text: str) -> None:
        """End the step: its ranks cannot go on, or one of them or another component says so."""
        if text == TASK_FAILURE:
            if not self.orders.is_ending:
                self._ends.end_for_failure()
            return
        if text:
            self._output.log(f"error: MPI: {text}")
        if not self.orders.is_ending:
            self.aborted()
            self.orders.terminate("")

    def _started(self, node: int) -> None:
        self.tasks.started(node)
        if self._is_verbose:
            count = len(self.tasks.of_node[node])
            self._output.log(f"Node {self.tasks.nodes[node]}, {count} tasks started")

    def _notice(self, text: str) -> None:
        if not self.orders.is_ending and "***" in text:
            self.aborted()
        self._output.plain(text.rstrip("\n"))

    def _failed(self, node: int, body: bytes) -> None:
        try:
            text = str(unpack(body)["text"])
        except (ValueError, KeyError, TypeError):
            text = "Unspecified error"
        if text:  # without one the step was ended before its tasks began
            self._output.log(
                f"error: task launch for {self.tasks.step_name} failed on node "
                f"{self.tasks.nodes[node]}: {text}"
            )

    # The end ------------------------------------------------------------------------------------

    def aborted(self) -> None:
        """Print that another process is ending this step."""
        if not self._was_aborted:
            self._was_aborted = True
            self._output.info(
                f"Job step aborted: Waiting up to {self._kill_wait_s + 2} seconds "
                "for job step to finish."
            )

    def _forced(self) -> None:
        """The user ends the step: which signals end its tasks is no news from now on."""
        self.tasks.expects_signals = True
        self.aborted()

    def step_is_over(self, text: str = "") -> None:
        """The controller says that the step has ended: wait a little for its last output."""
        self._is_known = True
        if text:
            self._output.log(text)
        self._loop.later(_FINISH_GRACE_S, self._give_up)

    def _give_up(self) -> None:
        self._is_known = True
        for node in range(len(self.tasks.nodes)):
            self._ends.lost(self.tasks.running_on(node), SIGKILL)
        self._is_over = True

    # The user's side ----------------------------------------------------------------------------

    def _output_broke(self, problem: OSError) -> None:
        """The reader of our stdout is gone: let the tasks notice it as they would in a pipe.

        So they do where a file takes no more, of which a line says why.
        """
        if not isinstance(problem, BrokenPipeError):
            path = self._out_path or "standard output"
            self._output.log(f"error: Could not write {path}: {problem.strerror}")
        self.orders.signal(SIGPIPE)

    def _errors_broke(self, problem: OSError) -> None:
        """Say why the file of -e cannot be written. As in Slurm, the tasks go on."""
        if self._err_path:
            self._output.log(f"error: Could not write {self._err_path}: {problem.strerror}")

    def _tell_window_size(self) -> None:
        link = self.links.link_of(self.tasks.node_of[0]) if self._has_terminal else None
        if link is not None:
            self.links.send(link, step_io.pack_window(*window_size()))
