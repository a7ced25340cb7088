"""Ends of tasks: children that have ended, the epilogs of tasks, and reports about both."""

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

from pyslurm_ng.base.numbers import OOM_STATUS
from pyslurm_ng.d.stepd.task_programs import TaskEpilogs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.srun_session import SrunSession
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_plugins import StepPlugins
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_usage import StepUsage
    from pyslurm_ng.d.stepd.step_writer import StepWriter
    from pyslurm_ng.d.stepd.task import Task, Tasks


class TaskEnds:
    """Reaps the children of a supervisor when signals come.

    Attributes:
        plugins: of plugstack.conf, None without any.
    """

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
        self._srun = srun
        self.plugins: StepPlugins | None = None
        self._epilogs = TaskEpilogs(spec, loop.later, notices.say, srun.task_ended)
        self._wakeup, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        set_wakeup_fd(write_fd)
        signal(SIGCHLD, lambda number, frame: None)
        for number in (SIGHUP, SIGINT, SIGPIPE):
            signal(number, SIG_IGN)
        signal(SIGTERM, lambda number, frame: None)
        self.watch()

    def watch(self) -> None:
        """Reap children from now on."""
        self._loop.watch(self._wakeup, select.POLLIN, self._on_signal)

    def wait(self) -> None:
        """Reap none until `watch`, because a task's end must not come before its start is known."""
        self._loop.drop(self._wakeup)

    def close(self) -> None:
        """Ignore children from now on."""
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
        """Reap every child that has ended: tasks, own processes, and orphans of tasks."""
        while True:
            try:
                pid, status, rusage = os.wait4(-1, os.WNOHANG)
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
            self._usage.count(task, rusage)
            self.task_over(task)

    def task_over(self, task: "Task") -> None:
        """Run the epilogs of a task that has ended, then tell srun."""
        if task.status & 0x7F == SIGKILL and self._processes.oom_kills():
            task.status = OOM_STATUS
            if self._spec["oom_kill_step"]:
                self._ending.kill()
        if self._srun.mpi is not None:
            self._srun.mpi.task_ended(task)
        if self.plugins is not None:
            self.plugins.task_ended(task)
        self._epilogs.begin(task)
