"""What a plugin of plugstack.conf is given: the job, step and task, their environment, options.

A plugin is a Python file with functions of Slurm's names (docs/how-to/extend-job-launch.md):

    from pyslurm_ng.policy.spank import Option, Spank

    def init(spank: Spank, *arguments: str) -> None:
        spank.register(Option("renice", "PRIORITY", "nice value of the tasks"))

    def task_post_fork(spank: Spank) -> None:
        if spank.option("renice"):
            os.setpriority(os.PRIO_PROCESS, spank.task_pid, int(spank.option("renice")))
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL, ALLOCATOR, REMOTE = "local", "allocator", "remote"
"""Where a plugin runs: in srun; in sbatch or salloc; beside a step's tasks."""

OPTION_PREFIX = "_SLURM_SPANK_OPTION_"
NONE, REQUIRED, OPTIONAL = 0, 1, 2
"""Whether an option takes an argument."""


_MOST_LINES = 20  # all lines of a task fit into a pipe
_MOST_LETTERS = 300


class SpankError(Exception):
    """A plugin refuses: the text is for the user."""


class Option:
    """An option of srun, sbatch and salloc that a plugin brings.

    Args:
        name: without dashes; small letters, digits, `-` and `_`.
        argument: what --help shows for its value.
        purpose: what it is for, in one line.
        takes: NONE, REQUIRED or OPTIONAL.
        callback: called with the value, and whether this is on the node, where the option was
            given. What it raises refuses the option.
    """

    def __init__(
        self,
        name: str,
        argument: str = "",
        purpose: str = "",
        takes: int = REQUIRED,
        callback: "Callable[[str, bool], object] | None" = None,
    ) -> None:
        if not name or not all(char.islower() or char.isdecimal() or char in "-_" for char in name):
            raise ValueError(f"{name!r}: small letters, digits, - and _ are allowed")
        if takes not in (NONE, REQUIRED, OPTIONAL):
            raise ValueError(f"{name}: takes is NONE, REQUIRED or OPTIONAL")
        self.name = name
        self.argument = argument
        self.purpose = purpose
        self.takes = takes
        self.callback = callback


class Spank:
    """One step, task or job script, as a plugin sees it. What a context has not is None or -1.

    Attributes:
        context: LOCAL, ALLOCATOR or REMOTE.
        environ: variables of the tasks, or of the command; a change reaches the tasks. In srun,
            sbatch and salloc it is the command's own environment.
        job_id, step_id, array_job_id, array_task_id, restart_count: numbers.
        uid, gid, groups: of the job's user.
        node_name, node_id: this node, and its number in the step.
        node_count, total_task_count: of the step.
        local_task_count: tasks on this node.
        task_id, local_task_id, task_pid: the task a call is about.
        exit_status: how that task ended, as wait(2) says it; for `task_exit`.
        argv: the program and its arguments.
    """

    def __init__(self, context: str, environ: "dict[str, str]") -> None:
        self.context = context
        self.environ = environ
        self.job_id = self.step_id = self.array_job_id = self.array_task_id = -1
        self.restart_count = 0
        self.uid = self.gid = self.node_id = -1
        self.groups: list[int] = []
        self.node_name = ""
        self.node_count = self.total_task_count = self.local_task_count = -1
        self.task_id = self.local_task_id = self.task_pid = self.exit_status = -1
        self.argv: list[str] = []
        self.options: list[tuple[str, Option]] = []  # the plugin's name, and the option
        self.told: list[str] = []
        self.logged: list[str] = []
        self._plugin = ""
        self._may_register = False

    def enter(self, plugin: str, *, may_register: bool) -> None:
        """Begin a call of a plugin; the stack does this."""
        self._plugin = plugin
        self._may_register = may_register

    @property
    def is_remote(self) -> bool:
        """Whether this is beside the tasks."""
        return self.context == REMOTE

    def getenv(self, name: str) -> "str | None":
        """Return a variable of the tasks, None without one."""
        return self.environ.get(name)

    def setenv(self, name: str, value: str, *, overwrite: bool = True) -> None:
        """Set a variable of the tasks."""
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} is no name of a variable, or its value has a NUL")
        if overwrite or name not in self.environ:
            self.environ[name] = value

    def unsetenv(self, name: str) -> None:
        """Remove a variable of the tasks."""
        self.environ.pop(name, None)

    def register(self, option: Option) -> None:
        """Bring an option; only in `init`.

        Raises:
            SpankError: another plugin has an option of this name, or it is not `init`.
        """
        if not self._may_register:
            raise SpankError(f"--{option.name}: options are registered by init()")
        for other, known in self.options:
            if known.name == option.name:
                raise SpankError(f"--{option.name} is an option of plugin {other} already")
        self.options.append((self._plugin, option))

    def option(self, name: str) -> "str | None":
        """Return the value of an option of this plugin: None if not given, "" without a value."""
        return self.environ.get(option_variable(self._plugin, name))

    def tell(self, text: str) -> None:
        """Write a line to the user: on stderr of the command, or of the step.

        Lines are cut, and there are at most 20 for one call.
        """
        _add(self.told, text)

    def log(self, text: str) -> None:
        """Write a line to the log of slurmd; commands print it with -v. Bounds are as of `tell`."""
        _add(self.logged, text)


def _add(lines: list[str], text: str) -> None:
    """Keep a line that is about to travel: short, printable, and not too many."""
    if len(lines) < _MOST_LINES:
        clean = " ".join(str(text).split())[:_MOST_LETTERS]
        lines.append(clean.encode("utf-8", "replace").decode())


def option_variable(plugin: str, option: str) -> str:
    """Return the variable in which an option's value reaches the node; Slurm has the same."""
    words = f"{plugin}_{option}"
    return OPTION_PREFIX + "".join(char if char.isalnum() else "_" for char in words)
