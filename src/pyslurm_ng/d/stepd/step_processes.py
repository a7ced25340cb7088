"""The processes of a step: which they are, and signals to them."""

import os
from _signal import (  # type: ignore[import-not-found]
    SIGCONT,
    SIGKILL,
    SIGSTOP,
    SIGTSTP,
)

from pyslurm_ng.d.spool.step_record import start_ticks
from pyslurm_ng.daemon.process_tree import is_zombie, name_of, own_descendants, signal_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.host.cgroup import GroupUsage
    from pyslurm_ng.d.stepd.extern_processes import Outside
    from pyslurm_ng.d.stepd.launcher import Launcher
    from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
    from pyslurm_ng.d.stepd.step_tasks import TaskStarter
    from pyslurm_ng.d.stepd.step_writer import StepWriter

COMMAND_SERVER = b"pyslurm-command"
"""The name of pyslurm-command-server in /proc, which cuts it."""


class StepProcesses:
    """The descendants of the supervisor and the processes in the step's control groups.

    The processes that the supervisor forks for itself are not among them.

    Attributes:
        launch: what starts the tasks; None before and after that.
        beside: processes that serve the tasks and end after them.
        outside: processes of an extern step; None in other steps.
    """

    def __init__(self, cgroup: "StepCgroup | None", writer: "StepWriter") -> None:
        self.launch: Launcher | TaskStarter | None = None
        self.beside: set[int] = set()
        self.outside: Outside | None = None
        self._cgroup = cgroup
        self._writer = writer
        self._is_frozen = False

    def living(self) -> "list[int]":
        """Return the ids of the processes that have not ended."""
        pids = own_descendants()
        if self._cgroup is not None:
            known = set(pids)
            pids += [pid for pid in self._cgroup.pids() if pid not in known]
        if self.outside is not None:
            known = set(pids)
            pids += [pid for pid in self.outside.pids() if pid not in known]
        own = {self._writer.pid, *self.beside}
        if self.launch is not None:
            own.add(self.launch.pid)
        return [pid for pid in pids if pid not in own and not is_zombie(pid)]

    def with_work(self) -> "list[int]":
        """Return the living processes that are no command servers.

        A Slurm command that a script runs when it hears SIGTERM may start such a server, which has
        missed the signal and would stay. While it runs a command, the command's launcher lives.
        """
        return [pid for pid in self.living() if name_of(pid) != COMMAND_SERVER]

    def _belongs(self, pid: int) -> bool:
        """Return whether a process is in the step's control group now, or from outside."""
        if self.outside is not None and self.outside.has(pid):
            return True
        return self._cgroup is not None and pid in self._cgroup.pids()

    def adopt(self, pid: int, start: int) -> str:
        """Take in a process from outside; return why that is impossible, "" if it is done.

        Between the look at it and its entry another process may have got its number, which is
        looked at again then.
        """
        if self.outside is None:
            return "it is not an extern step"
        if start_ticks(pid) != start or not start:
            return "the process has ended"
        try:
            if self._cgroup is not None:
                self._cgroup.add(pid)
        except OSError as error:
            return f"control group: {error.strerror}"
        if start_ticks(pid) != start:
            return "the process has ended"
        self.outside.add(pid, start)
        return ""

    def group_usage(self) -> "GroupUsage | None":
        """Return what the kernel has counted for the step's control group, None without one."""
        return self._cgroup.usage() if self._cgroup is not None else None

    def signal(self, pids: "list[int]", number: int) -> None:
        """Send a signal to some of the processes."""
        signal_below(os.getpid(), pids, number, self._belongs)

    def signal_all(self, number: int) -> None:
        """Send a signal to all of the processes."""
        self.signal(self.living(), number)

    def kill(self, pids: "list[int] | None" = None) -> None:
        """Send SIGKILL to all of the processes; `pids` are they, if the caller has them."""
        if self._cgroup is not None:
            self._cgroup.kill()
        self.signal(self.living() if pids is None else pids, SIGKILL)

    def suspend(self) -> None:
        """Stop all of the processes: those of the control group at once, others by SIGSTOP.

        Between two signals a process could start another one that nobody stops. A frozen one is not
        woken by its user's SIGCONT, either. Before, all hear SIGTSTP, as in Slurm.
        """
        self.signal(self.living(), SIGTSTP)
        self._is_frozen = self._cgroup is not None and self._cgroup.freeze(frozen=True)
        stopped = set(self._cgroup.pids()) if self._cgroup is not None and self._is_frozen else ()
        self.signal([pid for pid in self.living() if pid not in stopped], SIGSTOP)

    def resume(self) -> None:
        """Let all of the processes continue."""
        self.thaw()
        self.signal_all(SIGCONT)

    def thaw(self) -> None:
        """Let the control group go on, so that its processes see signals again."""
        if self._is_frozen and self._cgroup is not None:
            self._is_frozen = False
            self._cgroup.freeze(frozen=False)

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed for the step's memory limit."""
        return self._cgroup.oom_kills() if self._cgroup is not None else 0
