"""The end of a step's processes: because of an order, or after the tasks have ended."""

import time
from _signal import SIGCONT, SIGKILL, SIGTERM  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import END_CLEAN, END_KILLED
from pyslurm_ng.daemon.process_tree import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_result import StepResult
    from pyslurm_ng.d.stepd.task import Tasks

_KILL_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
_KILL_AGAIN_S = 0.5


class StepEnding:
    """Ends processes, with SIGTERM first if they have time, and waits until they have ended.

    Attributes:
        is_dying: whether the step was told to end, or cannot go on.
        is_unkillable: whether a process still runs UnkillableStepTimeout after SIGKILL.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        tasks: "Tasks",
        processes: "StepProcesses",
        notices: "StepNotices",
        result: "StepResult",
    ) -> None:
        self.is_dying = False
        self.is_unkillable = False
        self._loop = loop
        self._spec = spec
        self._tasks = tasks
        self._processes = processes
        self._notices = notices
        self._result = result
        self._kill_at = 0.0  # when processes that had SIGTERM get SIGKILL
        self._kill_began = 0.0

    def terminate(self, why: str, wait_s: float) -> None:
        """End every process: SIGCONT and SIGTERM now, SIGKILL after the wait.

        The signals are sent before the line for the user, which may never be written.

        Args:
            why: the reason for the job's stderr; a second line may explain it.
            wait_s: KillWait or less; 0 means SIGKILL at once.
        """
        self._result.flags |= END_KILLED
        if not self.is_dying:
            self.is_dying = True
            self._processes.thaw()
            pids = self._processes.living()
            self._processes.signal(pids, SIGCONT)
            if wait_s > 0:
                self._kill_at = time.monotonic() + wait_s
                self._processes.signal(pids, SIGTERM)
        if wait_s > 0:
            self._loop.later(wait_s, self.kill)
        else:
            self._kill_at = 0.0
            self.kill()
        if why:
            self._say_cancelled(why)

    def _say_cancelled(self, why: str) -> None:
        spec = self._spec
        why, _, more = why.partition("\n")
        subject = f"JOB {spec['job']}" if spec["is_batch"] else f"STEP {spec['name']}"
        when = stamp()[:19]
        self._notices.say(f"*** {subject} ON {spec['node']} CANCELLED AT {when} {why} ***")
        if more:
            self._notices.say(f"*** {more} ***")

    def give_up(self) -> None:
        """End the step because of a fault of the supervisor."""
        self.is_dying = True
        self._loop.later(0.0, self.kill)

    def reach_new_tasks(self) -> None:
        """End tasks that were started at the moment when the step was told to end."""
        if self.is_dying:
            self._processes.signal_all(SIGTERM)
            if self._kill_at <= time.monotonic():
                self.kill()

    def kill(self) -> None:
        """Send SIGKILL now, and again while tasks run."""
        self._kill_began = self._kill_began or time.monotonic()
        self._processes.kill()
        if self._is_hopeless():
            for task in self._tasks.all:
                if not task.is_over:
                    task.status, task.is_over = SIGKILL, True
                task.epilog = 0
        elif self._tasks.are_running:
            self._loop.later(_KILL_AGAIN_S, self.kill)

    def end_rest(self, reap: "Callable[[], None]", on_unkillable: "Callable[[], None]") -> None:
        """End the processes that the tasks have left, with SIGKILL, until there are none.

        After SIGTERM every process has until the same time to end by itself. So even if the batch
        script ends at once, an srun in it can hear how its tasks ended. While a process runs in
        spite of SIGKILL, the step is not over and its resources are not free, but srun does not
        wait for that.

        Args:
            reap: collects children that have ended.
            on_unkillable: called once, when a process has run too long in spite of SIGKILL.
        """
        while time.monotonic() < self._kill_at and self._processes.with_work():
            self._loop.turn(_KILL_PAUSE_S)
            reap()
        self._kill_began = self._kill_began or time.monotonic()
        pause_s = _KILL_PAUSE_S
        while True:
            reap()
            pids = self._processes.living()
            if not pids:
                break
            if not self.is_unkillable and self._is_hopeless():
                self.is_unkillable = True
                on_unkillable()
            self._processes.kill(pids)
            self._loop.turn(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        if not self.is_unkillable:
            self._result.flags |= END_CLEAN

    def _is_hopeless(self) -> bool:
        return bool(time.monotonic() - self._kill_began > self._spec["unkillable_s"])
