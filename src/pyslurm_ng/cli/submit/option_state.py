"""The options of sbatch, salloc and srun from all sources."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Filters(Protocol):
        """The site's filters."""

        operands: list[str]

        def setup(self, options: Any, /) -> None:
            """Let them set defaults."""

        def pre_submit(self, options: Any, /) -> None:
            """Let them see what is to be submitted."""

        def post_submit(self, job_id: int, step_id: int = 0, /) -> None:
            """Tell them its number."""

    class Plugins(Protocol):
        """The plugins of plugstack.conf."""

        def rows(self) -> list[tuple[Any, ...]]:
            """Return their options as rows of the options' table."""

        def has(self, name: str, /) -> bool:
            """Return whether an option is a plugin's."""

        def help_lines(self) -> list[str]:
            """Return the lines of --help."""

        def given(self, options: Any, /) -> dict[str, dict[str, str]]:
            """Return the options that were given, by plugin."""

        def begin(self, options: Any, /) -> None:
            """Call what comes after all options are read."""

        def user_init(self, options: Any, job_id: int, step_id: int, argv: list[str], /) -> None:
            """Call what comes before srun's step is launched."""

        def exit(self, options: Any, /) -> None:
            """Call what comes at the end."""


SCRIPT, ENVIRONMENT, COMMAND_LINE = 0, 1, 2
"""Where an option comes from; a later source replaces an earlier one."""
COMMANDS = ("sbatch", "salloc", "srun")


class HelpRequested(Exception):
    """An option asks for a text (`--gres=help`): print it and exit with `code`."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class OptionState:
    """The options of all sources together; a stronger source replaces a weaker one.

    Attributes:
        request: fields of JobRequest.
        settings: long name -> text, for the command itself; "" for a switch that is set.
        given: long name -> (source, value), for `-v` and for options that override others.
        memory: long name -> MiB, of --mem, --mem-per-cpu and --mem-per-gpu; one of them counts.
        resources: names of the generic resources that options ask for.
        task_licenses: name and count of the licences of each task.
        lines: printed on stderr before an error.
        warnings: printed on stderr with their level; the options are valid.
        filters: CliFilterPlugins, None if slurm.conf names none.
        plugins: of plugstack.conf; None if it names none, or is not read yet.
        plugin_changes: variables of the tasks that plugins set, and with None remove.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self.filters: Filters | None = None
        self.plugins: Plugins | None = None
        self.plugin_changes: dict[str, str | None] = {}
        self.request: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.given: dict[str, tuple[int, str | None]] = {}
        self.memory: dict[str, int] = {}
        self.resources: list[str] = []
        self.task_licenses: tuple[tuple[str, int], ...] = ()
        self.verbose = 0
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def flag(self, bits: int, clear: int = 0) -> None:
        """Set and clear bits of the request's flags."""
        self.request["flags"] = self.request.get("flags", 0) & ~clear | bits

    def has_flag(self, bit: int) -> bool:
        """Return whether a bit of the request's flags is set."""
        return bool(self.request.get("flags", 0) & bit)

    def complain(self, text: str) -> None:
        """Keep a line for stderr; it is printed before the error that follows."""
        self.lines.append(text)

    def complain_later(self, text: str) -> None:
        """Keep a warning; it is printed once all options are read."""
        self.warnings.append(text)

    def tell(self, text: str, code: int = 0) -> None:
        """Print a text on stdout and end the command with `code`, by HelpRequested."""
        raise HelpRequested(text, code)

    def task_tres(self) -> str:
        """Return the text of SLURM_TRES_PER_TASK, "" if no option is about each task.

        It is the text of --tres-per-task as typed. Before it come --cpus-per-task and
        --gpus-per-task in the same form, unless the text has CPUs or GPUs itself.
        """
        typed_text = self.given.get("tres-per-task", (0, ""))[1] or ""
        names = [word.replace(":", "=").partition("=")[0].lower() for word in typed_text.split(",")]
        words = []
        cpus, gpus = self.request.get("cpus_per_task", 0), self.request.get("gpus_per_task", "")
        if cpus and "cpu" not in names:
            words.append(f"cpu={cpus}")
        if gpus and "gpu" not in typed_text.lower():
            for word in gpus.split(","):
                kind, _, count = word.rpartition(":")
                words.append(f"gres/gpu:{kind}={count}" if kind else f"gres/gpu={count}")
        return ",".join([*words, typed_text] if typed_text else words)
