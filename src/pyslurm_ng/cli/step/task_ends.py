"""Ends of a step's tasks: lines for the user, and the effect on tasks that still run."""

from pyslurm_ng.base.numbers import SIGKILL
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.cli.step.node_links import StepOrders
    from pyslurm_ng.cli.step.step_output import StepOutput
    from pyslurm_ng.cli.step.tasks import StepTasks

TASK_FAILURE = "TASK FAILURE"
"""Why --kill-on-bad-exit ends a step."""

_FOLD_S = 0.05
"""How long ends of tasks are gathered, so that equal ends share a line."""


class TaskEnds:
    """Takes the ends of tasks.

    Args:
        verbose: how often -v was given.
        kill_on_bad_exit: whether the first task that fails ends the step.
        wait_s: how long the others may go on after the first end; 0 for ever.
        on_bad_exit: called when a task has failed and so ends the step.
    """

    def __init__(
        self,
        loop: "PollLoop",
        tasks: "StepTasks",
        orders: "StepOrders",
        output: "StepOutput",
        *,
        verbose: int,
        kill_on_bad_exit: bool,
        wait_s: int,
        on_bad_exit: "Callable[[], None]",
    ) -> None:
        self._loop = loop
        self._tasks = tasks
        self._orders = orders
        self._output = output
        self._verbose = verbose
        self._kill_on_bad_exit = kill_on_bad_exit
        self._wait_s = wait_s
        self._on_bad_exit = on_bad_exit
        self._has_one = False

    def exited(self, task: int, status: int, flags: int) -> None:
        """Take a node's report of a task's end."""
        if not self._tasks.exited(task, status, flags & step_io.EXIT_OUT_OF_MEMORY):
            return
        self._loop.later(_FOLD_S, self.tell, "tell")
        if not self._has_one:
            self._has_one = True
            if self._wait_s and not self._tasks.all_exited:
                self._loop.later(self._wait_s, self._waited)
        if flags & step_io.EXIT_ENDS_STEP and not self._orders.is_ending:
            self._orders.terminate("OUT OF MEMORY")
        is_bad = bool(status or flags)
        if is_bad and self._kill_on_bad_exit and not self._orders.is_ending:
            self.tell()
            self._on_bad_exit()
            if not self._tasks.all_exited:
                self.end_for_failure()

    def end_for_failure(self) -> None:
        """End the step because a task has failed, here or in another component."""
        self._output.info(f"Terminating {self._tasks.step_name}")
        self._orders.terminate(TASK_FAILURE)

    def lost(self, tasks: "Iterable[int]", status: int) -> None:
        """Record the end of tasks that no node reports."""
        for task in tasks:
            self._tasks.exited(task, status, 0)

    def tell(self) -> None:
        """Print the ends that have not been printed yet."""
        self._loop.cancel("tell")
        for line in self._tasks.end_lines(self._verbose):
            self._output.log(line)

    def _waited(self) -> None:
        """--wait: the first task ended so long ago that the others must end."""
        if self._tasks.all_exited:
            return
        self.tell()
        self._output.log(f"First task exited {self._wait_s}s ago")
        for line in self._tasks.state_lines():
            self._output.log(line)
        self._output.log(f"Terminating {self._tasks.step_name}")
        self._orders.end_by(SIGKILL)
