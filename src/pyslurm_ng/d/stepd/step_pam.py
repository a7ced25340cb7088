"""The supervisor's side of a step's PAM session; loaded only where UsePAM=1.

The session is open in the process that started the tasks. It closes it when its channel closes, and
is killed where a module takes too long for that.
"""

import os
import time
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.daemon.process_tree import descendants, signal_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.stepd.launcher import Launcher
    from pyslurm_ng.d.stepd.step_processes import StepProcesses

_CLOSE_LIMIT_S = 10.0
_PAUSE_S = 0.1


class StepPam:
    """The process that keeps a step's session open.

    Args:
        reap: collects children that have ended.
    """

    def __init__(
        self, loop: "PollLoop", processes: "StepProcesses", reap: "Callable[[], None]"
    ) -> None:
        self._loop = loop
        self._processes = processes
        self._reap = reap
        self._launcher: Launcher | None = None

    def keep(self, launcher: "Launcher") -> None:
        """Keep the process until the step's tasks have ended."""
        self._launcher = launcher
        self._processes.beside.add(launcher.pid)

    def finish(self) -> None:
        """Have the session closed; the tasks have ended."""
        launcher, self._launcher = self._launcher, None
        if launcher is None:
            return
        launcher.close()
        give_up = time.monotonic() + _CLOSE_LIMIT_S
        while self._is_there(launcher.pid) and time.monotonic() < give_up:
            self._loop.turn(_PAUSE_S)
            self._reap()
        if self._is_there(launcher.pid):
            signal_below(os.getpid(), [*descendants(launcher.pid), launcher.pid], SIGKILL)
        self._processes.beside.discard(launcher.pid)

    def _is_there(self, pid: int) -> bool:
        """Return whether a child of ours has not been reaped yet."""
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False
