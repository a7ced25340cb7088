"""The tasks of a step, as its supervisor keeps them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import StepSpec, TaskSpec
    from pyslurm_ng.d.stepd.step_streams import Inlet, Outlet


class Task:
    """One task of the step on this node."""

    __slots__ = ("epilog", "inlet", "is_over", "outlets", "pid", "spec", "status", "stderr", "task")

    def __init__(self, spec: "TaskSpec") -> None:
        self.spec = spec
        self.task: int = spec["task"]
        self.pid = 0
        self.status = 0
        self.is_over = False
        self.epilog = 0  # the process id of the epilog that runs, 0 if there is none
        self.stderr = -1  # a copy for the task's epilogs, -1 if there are none
        self.inlet: Inlet | None = None
        self.outlets: list[Outlet] = []


class Tasks:
    """All tasks of the step on this node.

    Attributes:
        all: the tasks in the order of the step's file.
        by_pid: the tasks that have begun and are not reaped yet, by process id.
    """

    def __init__(self, spec: "StepSpec") -> None:
        self.all = [Task(task) for task in spec["tasks"]]
        self.by_pid: dict[int, Task] = {}

    def pids(self) -> "dict[int, int]":
        """Return the process ids of the tasks that have begun, by task."""
        return {task.task: task.pid for task in self.all if task.pid}

    def running_pids(self) -> "dict[int, int]":
        """Return the process ids of the tasks that have not ended, by task."""
        return {task.task: task.pid for task in self.all if not task.is_over}

    @property
    def are_running(self) -> bool:
        """Whether some task or epilog has not ended yet."""
        return any((task.pid and not task.is_over) or task.epilog for task in self.all)
