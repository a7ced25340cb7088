"""One task of a step, as its supervisor keeps it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.step_contract import TaskSpec
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
        self.epilog = 0  # the process id of the one that runs for it
        self.stderr = -1  # a copy for its epilogs, if there are any
        self.inlet: Inlet | None = None
        self.outlets: list[Outlet] = []
