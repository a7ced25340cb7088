"""What options of sbatch, salloc and srun ask for, from every source."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCRIPT, ENVIRONMENT, COMMAND_LINE = 0, 1, 2
"""Where an option comes from, weakest first."""
COMMANDS = ("sbatch", "salloc", "srun")


class HelpRequested(Exception):
    """An option asks for a text (`--gres=help`): print it and exit with 0."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class OptionState:
    """The options of all sources together; a stronger source replaces a weaker one.

    request: fields of JobRequest.
    settings: long name -> text, for the command itself; "" for a switch that is set.
    given: long name -> (source, value), for `-v` and for options that override others.
    memory: long name -> MiB, of --mem, --mem-per-cpu and --mem-per-gpu; one of them counts.
    resources: names of generic resources asked for.
    task_licenses: name and count of licences of each task.
    lines: for stderr, before an error.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self.request: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.given: dict[str, tuple[int, str | None]] = {}
        self.memory: dict[str, int] = {}
        self.resources: list[str] = []
        self.task_licenses: tuple[tuple[str, int], ...] = ()
        self.verbose = 0
        self.lines: list[str] = []

    def flag(self, bits: int, clear: int = 0) -> None:
        """Set and clear bits of the request's flags."""
        self.request["flags"] = self.request.get("flags", 0) & ~clear | bits

    def has_flag(self, bit: int) -> bool:
        """Return whether a bit of the request's flags is set."""
        return bool(self.request.get("flags", 0) & bit)

    def complain(self, text: str) -> None:
        """Keep a line for stderr; it is printed before the error that follows."""
        self.lines.append(text)

    def tell(self, text: str) -> None:
        """End the command with a text for stdout."""
        raise HelpRequested(text)

    def task_tres(self) -> str:
        """Return the text of SLURM_TRES_PER_TASK, "" if nothing is said of each task.

        It is that of --tres-per-task as typed. --cpus-per-task and --gpus-per-task stand before it
        as if they were written in it, where it names neither.
        """
        typed = self.given.get("tres-per-task", (0, ""))[1] or ""
        names = [word.replace(":", "=").partition("=")[0].lower() for word in typed.split(",")]
        words = []
        cpus, gpus = self.request.get("cpus_per_task", 0), self.request.get("gpus_per_task", "")
        if cpus and "cpu" not in names:
            words.append(f"cpu={cpus}")
        if gpus and "gpu" not in typed.lower():
            for word in gpus.split(","):
                kind, _, count = word.rpartition(":")
                words.append(f"gres/gpu:{kind}={count}" if kind else f"gres/gpu={count}")
        return ",".join([*words, typed] if typed else words)
