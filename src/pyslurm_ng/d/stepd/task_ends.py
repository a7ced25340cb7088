"""Ends of tasks: children that have died, the epilogs of tasks, and reports about them."""

import os
import select
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    set_wakeup_fd,
    signal,
)

from pyslurm_ng.d.stepd.step_result import OOM_STATUS
from pyslurm_ng.d.stepd.task_programs import TaskEpilogs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.srun_session import SrunSession
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_usage import StepUsage
    from pyslurm_ng.d.stepd.step_writer import StepWriter
    from pyslurm_ng.d.stepd.task import Task, Tasks


class TaskEnds:
    """Collects the children of a supervisor, which hears of them by signals as of all else."""

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        tasks: "Tasks",
        processes: "StepProcesses",
        ending: "StepEnding",
        usage: "StepUsage",
        notices: "StepNotices",
        srun: "SrunSession",
        writer: "StepWriter",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._tasks = tasks
        self._processes = processes
        self._ending = ending
        self._usage = usage
        self._writer = writer
        self._epilogs = TaskEpilogs(spec, loop.later, notices.say, srun.task_ended)
        self._wakeup, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        set_wakeup_fd(theirs)
        signal(SIGCHLD, lambda number, frame: None)
        for number in (SIGHUP, SIGINT, SIGPIPE):
            signal(number, SIG_IGN)
        signal(SIGTERM, lambda number, frame: None)
        self.watch()

    def watch(self) -> None:
        """Collect children when they die."""
        self._loop.watch(self._wakeup, select.POLLIN, self._on_signal)

    def wait(self) -> None:
        """Collect none until `watch`: how a task ended is of use once it is known to be one."""
        self._loop.drop(self._wakeup)

    def close(self) -> None:
        """Stop listening for children."""
        signal(SIGCHLD, SIG_DFL)

    def _on_signal(self, events: int = 0) -> None:
        try:
            numbers = os.read(self._wakeup, 4096)
        except BlockingIOError:
            numbers = b""
        self.reap()
        if SIGTERM in numbers:
            self._ending.terminate("", 0.0)

    def reap(self) -> None:
        """Collect every dead child: tasks, processes of our own, orphans that came to us."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._writer.pid:
                self._writer.ended()
                continue
            if self._epilogs.ended(pid, status):
                continue
            task = self._tasks.by_pid.pop(pid, None)
            if task is None:
                continue
            task.status = status
            task.is_over = True
            self._usage.count(task, used)
            self.task_over(task)

    def task_over(self, task: "Task") -> None:
        """A task has ended: run its epilogs, then tell srun."""
        if task.status & 0x7F == SIGKILL and self._processes.oom_kills():
            task.status = OOM_STATUS
            if self._spec["oom_kill_step"]:
                self._ending.kill()
        self._epilogs.begin(task)
