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
