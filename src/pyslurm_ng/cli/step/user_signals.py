"""Signals that srun gets itself, and what they mean for its step."""

import select
from time import monotonic

from pyslurm_ng.base.numbers import SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.cli.signals import Signals
    from pyslurm_ng.cli.step.node_links import StepOrders
    from pyslurm_ng.cli.step.step_output import StepOutput
    from pyslurm_ng.cli.step.tasks import StepTasks

_TO_END_S = 0.15
"""From SIGINT to SIGKILL, as long as it takes in Slurm, where slurmctld is asked to kill."""


class UserSignals:
    """Serves signals from now on.

    Args:
        show_status: whether a single Ctrl-C only shows the state of the tasks.
        quit_on_interrupt: whether the first Ctrl-C ends the step.
        abort_window_s: how long a second Ctrl-C belongs to the first.
        on_resize: called when the terminal's size has changed.
        on_forced: called when the step is made to end.
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
        on_forced: "Callable[[], None]",
        on_give_up: "Callable[[], None]",
    ) -> None:
        self._loop = loop
        self._signals = signals
        self._tasks = tasks
        self._orders = orders
        self._output = output
        self._asks_first = show_status
        self._quits_at_once = quit_on_interrupt
        self._abort_window_s = abort_window_s
        self._on_resize = on_resize
        self._on_forced = on_forced
        self._on_give_up = on_give_up
        self._interrupt_s = -1e9
        self._is_forced = False
        self._is_killed = False
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
        """Ctrl-C: one shows the state, a second soon after it ends the step, a third only srun."""
        now_s = monotonic()
        is_quick = now_s - self._interrupt_s <= self._abort_window_s
        self._interrupt_s = now_s
        if self._is_forced:
            self._kill()
            self._on_give_up()
        elif is_quick or self._quits_at_once:
            self._send_interrupt()
            self._force()
        elif self._asks_first:
            self._output.info("interrupt (one more within 1 sec to abort)")
            for line in self._tasks.state_lines():
                self._output.info(line)
        else:
            self._send_interrupt()

    def _send_interrupt(self) -> None:
        self._output.info(f"sending Ctrl-C to {self._tasks.step_name}")
        self._orders.end_by(SIGINT)

    def _force(self) -> None:
        """Kill the tasks: those that end by SIGINT, or have little to do then, end before."""
        self._is_forced = True
        self._output.info("forcing job termination")
        self._on_forced()
        self._loop.later(_TO_END_S, self._kill)

    def _kill(self) -> None:
        if not self._is_killed:
            self._is_killed = True
            self._orders.terminate(step_io.FORCED)

    def _asked_to_end(self, number: int) -> None:
        """TERM, QUIT, HUP: the tasks get the first one; the second ends them."""
        self._terms += 1
        if self._terms == 1:
            self._output.info("forcing job termination")
            self._orders.end_by(SIGTERM if number == SIGHUP else number)
        else:
            self._orders.terminate("SIGNAL Terminated")
