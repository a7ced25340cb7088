"""The supervisor's side of the plugins of plugstack.conf; loaded only for steps that have some.

The plugins run in the process that starts the tasks (`plugin_host`). Here its lines are passed on,
it is told which tasks have ended, and it is killed when it takes too long.
"""

import os
import select
import time
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.daemon.process_tree import descendants, signal_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import PluginsSpec, StepSpec
    from pyslurm_ng.d.stepd.launcher import Launcher
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.task import Task

_CALLS_AT_START = 6  # loading, init, options, init_post_opt, user_init, and one to spare
_PAUSE_S = 0.5
_SPARE_S = 10.0
_MOST_WAITING = 4096


class StepPlugins:
    """The process in which the plugins of a step run.

    Args:
        tell: sends a map to slurmd; returns whether it could.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        plugins: "PluginsSpec",
        processes: "StepProcesses",
        notices: "StepNotices",
        tell: "Callable[[dict[str, Any]], bool]",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._processes = processes
        self._notices = notices
        self._tell = tell
        self._limit_s: float = plugins["limit_s"] * len(plugins["lines"])
        self._late_at = time.monotonic() + _CALLS_AT_START * self._limit_s + _SPARE_S
        self._launcher: Launcher | None = None
        self._waiting: list[dict[str, Any]] = []  # for the process, which may read slowly
        self._unanswered = 0

    # The start ----------------------------------------------------------------------------------

    @property
    def are_late(self) -> bool:
        """Whether they keep the step from its start for too long."""
        return bool(self._late_at and time.monotonic() > self._late_at)

    def take(self, message: "dict[str, Any]") -> bool:
        """Take a message of the process; return whether it is about plugins."""
        if "log" not in message:
            return False
        for text in message["log"]:
            self._tell({"did": "plugin", "text": text})
        self._notices.say_all(message["notes"])
        if "set" in message:
            self._late_at = 0.0
            gone = {entry.partition(b"=")[0] for entry in message["set"]} | set(message["unset"])
            kept = [entry for entry in self._spec["env"] if entry.partition(b"=")[0] not in gone]
            self._spec["env"] = kept + message["set"]
        return True

    def keep(self, launcher: "Launcher") -> None:
        """Serve the process from now on: the tasks run, or cannot be started."""
        self._launcher = launcher
        self._processes.beside.add(launcher.pid)
        self._loop.watch(launcher.fileno(), select.POLLIN, lambda events: self._read())

    # Afterwards ---------------------------------------------------------------------------------

    def task_ended(self, task: "Task") -> None:
        """Have `task_exit` called; a task that did not begin has none."""
        if task.pid:
            self._ask({"over": task.task, "pid": task.pid, "status": task.status})

    def settle(self) -> None:
        """Wait until all `task_exit` have been called, or take too long."""
        self._wait(self._limit_s * self._unanswered)

    def finish(self) -> None:
        """Have `exit` called, once nothing of the step runs; then end the process."""
        self._ask({"exit": True})
        self._wait(self._limit_s)
        launcher = self._launcher
        if launcher is None:
            return
        if self._unanswered:
            text = "spank: plugins did not come to their end in time; their process was killed"
            self._tell({"did": "plugin", "text": text})
        signal_below(os.getpid(), [*descendants(launcher.pid), launcher.pid], SIGKILL)
        self._gone()

    def _wait(self, limit_s: float) -> None:
        give_up = time.monotonic() + limit_s + _SPARE_S
        while self._launcher is not None and self._unanswered and time.monotonic() < give_up:
            self._loop.turn(_PAUSE_S)

    def _ask(self, words: "dict[str, Any]") -> None:
        if self._launcher is None or len(self._waiting) >= _MOST_WAITING:
            return
        self._unanswered += 1
        self._waiting.append(words)
        self._send()

    def _send(self) -> None:
        """Send what waits, as much as the process takes; each answer makes room."""
        while (
            self._waiting and self._launcher is not None and self._launcher.send(self._waiting[0])
        ):
            self._waiting.pop(0)

    def _read(self) -> None:
        while self._launcher is not None:
            message, _ = self._launcher.take()
            if message is None:
                return
            if not message:
                self._gone()
                return
            self._unanswered -= 1
            self.take(message)
            self._send()

    def _gone(self) -> None:
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            self._loop.drop(launcher.fileno())
            self._processes.beside.discard(launcher.pid)
            launcher.close()
