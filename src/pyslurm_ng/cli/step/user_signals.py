"""Signals that srun gets itself, and what they mean for its step."""

import select
from time import monotonic

from pyslurm_ng.base.numbers import SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.cli.signals import Signals
    from pyslurm_ng.cli.step.node_links import StepOrders
    from pyslurm_ng.cli.step.step_output import StepOutput
    from pyslurm_ng.cli.step.tasks import StepTasks


class UserSignals:
    """Serves signals from now on.

    Args:
        show_status: whether the first Ctrl-C only shows the state of the tasks.
        quit_on_interrupt: whether the first Ctrl-C ends the step.
        abort_window_s: how long a second Ctrl-C belongs to the first.
        on_resize: called when the terminal's size has changed.
        on_give_up: called when the user does not want to wait for the end.
    """

    def __init__(
        self,
        loop: "PollLoop",
        signals: "Signals",
        tasks: "StepTasks",
        orders: "StepOrders",
        output: "StepOutput",
        *,
        show_status: bool,
        quit_on_interrupt: bool,
        abort_window_s: float,
        on_resize: "Callable[[], None]",
        on_give_up: "Callable[[], None]",
    ) -> None:
        self._loop = loop
        self._signals = signals
        self._tasks = tasks
        self._orders = orders
        self._output = output
        self._asks_first = show_status and not quit_on_interrupt
        self._abort_window_s = abort_window_s
        self._on_resize = on_resize
        self._on_give_up = on_give_up
        self._interrupt_s = -1e9
        self._interrupts = 0
        self._terms = 0
        loop.watch(signals.descriptor, select.POLLIN, self._on_signal)

    def _on_signal(self, events: int) -> None:
        for number in self._signals.take():
            if number == SIGINT:
                self._interrupt()
            elif number == SIGWINCH:
                self._on_resize()
            elif number in (SIGTERM, SIGQUIT, SIGHUP):
                self._asked_to_end(number)
            else:
                if number == SIGCONT:
                    self._output.info("got SIGCONT")
                self._orders.signal(number)

    def _interrupt(self) -> None:
        """Ctrl-C: the first shows the state, the second goes to the tasks, the third ends."""
        now_s = monotonic()
        is_quick = now_s - self._interrupt_s <= self._abort_window_s
        self._interrupt_s = now_s
        if self._asks_first and not is_quick and not self._interrupts:
            self._output.log("interrupt (one more within 1 sec to abort)")
            for line in self._tasks.state_lines():
                self._output.log(line)
            return
        self._interrupts += 1
        if self._interrupts == 1:
            self._output.log(f"sending Ctrl-C to {self._tasks.step_name}")
            self._orders.end_by(SIGINT)
            if not self._asks_first:
                self._loop.later(self._abort_window_s, self._force)
        elif self._interrupts == 2:
            self._force()
        else:
            self._on_give_up()

    def _force(self) -> None:
        if not self._tasks.all_exited:
            self._output.log("forcing job termination")
            self._orders.terminate("SIGNAL Killed")

    def _asked_to_end(self, number: int) -> None:
        """TERM, QUIT, HUP: the tasks get the first one; the second ends them."""
        self._terms += 1
        if self._terms == 1:
            self._output.info("forcing job termination")
            self._orders.end_by(SIGTERM if number == SIGHUP else number)
        else:
            self._orders.terminate("SIGNAL Terminated")
