"""plugstack.conf in sbatch, salloc and srun: options that plugins bring, and their calls here.

Loaded only where there is a plugstack.conf. Options travel to the node as variables, as in Slurm:
`_SLURM_SPANK_OPTION_plugin_option`.
"""

import os
import pwd

from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.option_lists import entry
from pyslurm_ng.cli.option_words import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.cli.submit.option_state import OptionState
    from pyslurm_ng.conf.plugstack import PlugLine
    from pyslurm_ng.policy.spank import Option

_EVERY_COMMAND = 7


class Plugins:
    """The plugins of one command.

    Args:
        command: sbatch, salloc or srun.
        lines: of plugstack.conf.
        slurm_user: whose files plugins may be, beside root's and the user's own.
    """

    def __init__(self, command: str, lines: "list[PlugLine]", slurm_user: str) -> None:
        """Load them and call `init`.

        Raises:
            OptionError: a required one cannot be loaded, or fails.
        """
        from pyslurm_ng.policy.spank import ALLOCATOR, LOCAL, Spank
        from pyslurm_ng.policy.spank_stack import PluginFailed, Stack, forget_options

        self._command = command
        self._before = dict(os.environ)
        environ = dict(os.environ)
        if command != "srun" or "SLURM_JOB_ID" not in environ:
            forget_options(environ)  # they were of the job around the new one
        context = LOCAL if command == "srun" else ALLOCATOR
        self._spank = spank = Spank(context, environ)
        spank.uid, spank.gid = os.getuid(), os.getgid()
        spank.groups = os.getgroups()
        owners = {0, os.geteuid(), _uid_of(slurm_user)}
        try:
            self._stack = Stack(lines, spank, owners)
            self._stack.call("init")
        except PluginFailed as problem:
            raise OptionError(str(problem), 1) from None
        self._after_init = dict(spank.environ)
        self._options: dict[str, tuple[str, Option]] = {
            option.name: (plugin, option) for plugin, option in spank.options
        }

    # Options ------------------------------------------------------------------------------------

    def rows(self) -> "list[tuple[Any, ...]]":
        """Return the options as rows of the options' table."""
        return [
            (option.name, "", option.takes, _EVERY_COMMAND, (), (), ())
            for _, option in self._options.values()
        ]

    def has(self, name: str) -> bool:
        """Return whether an option is a plugin's."""
        return name in self._options

    def help_lines(self) -> "list[str]":
        """Return the lines of --help."""
        return [
            line
            for row, (_, option) in zip(self.rows(), self._options.values(), strict=True)
            for line in entry(row, option.argument or "value", option.purpose)
        ]

    def given(self, options: "OptionState") -> "dict[str, dict[str, str]]":
        """Return the options that were given, by plugin: with "" for those without a value."""
        values: dict[str, dict[str, str]] = {}
        for plugin, option in self._options.values():
            if option.name in options.given:
                values.setdefault(plugin, {})[option.name] = options.given[option.name][1] or ""
        return values

    # Calls --------------------------------------------------------------------------------------

    def begin(self, options: "OptionState") -> None:
        """Call what comes after all options are read. Raises OptionError."""
        from pyslurm_ng.policy.spank import option_variable

        environ = dict(self._after_init)
        for plugin, values in self.given(options).items():
            for name, value in values.items():
                if "\0" in value:
                    raise OptionError(f"--{name}: a NUL is not allowed", 1)
                environ[option_variable(plugin, name)] = value
        self._spank.environ = environ
        self._call(options, self._stack.take_options)
        self._call(options, lambda: self._stack.call("init_post_opt"))

    def user_init(
        self, options: "OptionState", job_id: int, step_id: int, argv: "list[str]"
    ) -> None:
        """Call what comes before srun's step is launched. Raises OptionError."""
        self._spank.job_id, self._spank.step_id, self._spank.argv = job_id, step_id, argv
        self._call(options, lambda: self._stack.call("local_user_init"))

    def exit(self, options: "OptionState") -> None:
        """Call `exit`; a failure is only told."""
        try:
            self._call(options, lambda: self._stack.call("exit"))
        except OptionError as problem:
            say(f"{self._command}: error: {problem}")

    def _call(self, options: "OptionState", work: "Callable[[], None]") -> None:
        """Call plugins, and keep what they change of the tasks' variables. Raises OptionError."""
        from pyslurm_ng.policy.spank_stack import PluginFailed

        try:
            work()
        except PluginFailed as problem:
            raise OptionError(str(problem), 1) from None
        finally:
            self._say(options.verbose)
        after = self._spank.environ
        changes: dict[str, str | None] = {
            name: value for name, value in after.items() if self._before.get(name) != value
        }
        changes.update(dict.fromkeys(self._before.keys() - after.keys()))
        options.plugin_changes = changes

    def _say(self, verbose: int) -> None:
        spank = self._spank
        for text in spank.told + (spank.logged if verbose else []):
            say(f"{self._command}: {text}")
        spank.told.clear()
        spank.logged.clear()


def _uid_of(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name or "root").pw_uid
    except KeyError:
        return 0


def load_plugins(command: str) -> "Plugins | None":
    """Return the plugins that plugstack.conf names, loaded once; None without any.

    Raises:
        OptionError: plugstack.conf is wrong, or a required plugin fails.
    """
    if command not in _known:
        _known[command] = _load_plugins(command)
    return _known[command]


def _load_plugins(command: str) -> "Plugins | None":
    from pyslurm_ng.conf.plugstack import read_plugstack, stack_path
    from pyslurm_ng.conf.quick import find_conf, quick

    path = find_conf()
    try:
        conf = quick(path, ("PlugStackConfig", "SlurmUser"))
    except OSError:
        return None  # which the command itself says
    stack = read_plugstack(stack_path(path, conf.get("PlugStackConfig", "")))
    for file, number, word, text in stack.problems:
        raise OptionError(f"{file}:{number}: {word}: {text}", 1)
    return Plugins(command, stack.lines, conf.get("SlurmUser", "")) if stack.lines else None


_known: "dict[str, Plugins | None]" = {}


def has_plugins() -> bool:
    """Forget what plugstack.conf said; return whether plugins were loaded, which may keep a state.

    A command server asks: the next command of a process may have another slurm.conf.
    """
    plugins = [*_known.values()]
    _known.clear()
    return any(plugins)
