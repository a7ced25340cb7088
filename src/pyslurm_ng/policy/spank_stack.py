"""The plugins of plugstack.conf, loaded, and their functions called one plugin after another.

An exception, a result other than None and 0, or a call that takes too long is the plugin's failure:
of a required one it is raised, of an optional one it is logged and the next plugin is called.
"""

import os
import stat
import sys
import types

from pyslurm_ng.policy.spank import (
    OPTION_PREFIX,
    Spank,
    SpankError,
    option_variable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyslurm_ng.conf.plugstack import PlugLine

GROUP = "pyslurm_ng.spank"
"""Entry points of this group are plugins, too."""
_MOST_SOURCE = 4 << 20
_NEVER_CALLED = ("job_prolog", "job_epilog")
"""Calls of SPANK that are not built: a plugin that has one would wait for it in vain."""


class PluginFailed(Exception):
    """A required plugin failed, or cannot be loaded; one line."""


class _TooLong(BaseException):
    """A call took too long; plugins catch Exception."""


class _Plugin:
    def __init__(self, line: "PlugLine", functions: object) -> None:
        self.line = line
        self.functions = functions

    def __getitem__(self, call: str) -> "Callable[..., object] | None":
        function = getattr(self.functions, call, None)
        return function if callable(function) else None


class Stack:
    """All plugins of a plugstack.conf.

    Args:
        spank: what the plugins are given.
        owners: users that a plugin's file may belong to.
        limit_s: seconds that one call may take; 0: any time.
    """

    def __init__(
        self,
        lines: "Sequence[PlugLine]",
        spank: Spank,
        owners: "Collection[int]",
        limit_s: float = 0,
    ) -> None:
        """Load the plugins. Raises PluginFailed."""
        self.spank = spank
        self._limit_s = limit_s
        self._plugins: list[_Plugin] = []
        for line in lines:
            try:
                functions = self._limited(lambda line=line: _load(line, owners))  # type: ignore[misc]
                for call in _NEVER_CALLED:
                    if callable(getattr(functions, call, None)):
                        raise SpankError(f"{call} is never called; use Prolog or Epilog")
            except BaseException as error:  # noqa: BLE001 - also what the plugin itself raises
                self._failed(line, "cannot be loaded", error)
            else:
                self._plugins.append(_Plugin(line, functions))

    def has(self, call: str) -> bool:
        """Return whether a plugin has this function."""
        return any(plugin[call] is not None for plugin in self._plugins)

    def call(self, name: str) -> None:
        """Call one function of each plugin that has it. Raises PluginFailed."""
        for plugin in self._plugins:
            function = plugin[name]
            if function is not None:
                arguments = plugin.line.arguments if name == "init" else []
                self.spank.enter(plugin.line.name, may_register=name == "init")
                self._call(plugin.line, f"{name}() failed", function, self.spank, *arguments)

    def take_options(self) -> None:
        """Call the callbacks of options that were given.

        Raises:
            PluginFailed: one refuses its value, even if the plugin is optional: the user asked for
                it, and the plugin would act by a value that it does not allow.
        """
        is_remote = self.spank.is_remote
        lines = {plugin.line.name: plugin.line for plugin in self._plugins}
        for plugin, option in self.spank.options:
            value = self.spank.environ.get(option_variable(plugin, option.name))
            if value is not None and option.callback is not None and plugin in lines:
                self.spank.enter(plugin, may_register=False)
                text = f"--{option.name}={value}" if value else f"--{option.name}"
                self._call(lines[plugin], text, option.callback, value, is_remote, is_fatal=True)

    def begin(self) -> None:
        """Call `init`, take options, call `init_post_opt`. Raises PluginFailed."""
        self.call("init")
        self.take_options()
        self.call("init_post_opt")

    def _call(
        self,
        line: "PlugLine",
        what: str,
        function: "Callable[..., object]",
        *arguments: object,
        is_fatal: bool = False,
    ) -> None:
        try:
            result = self._limited(lambda: function(*arguments))
            if result not in (None, 0):
                raise SpankError(f"it returned {result!r:.80}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a plugin's failure, whatever it raises
            self._failed(line, what, error, is_fatal=is_fatal)

    def _failed(
        self, line: "PlugLine", what: str, error: BaseException, *, is_fatal: bool = False
    ) -> None:
        kind = "required" if line.is_required else "optional"
        text = f"spank: {kind} plugin {line.name}: {what}: {self._reason(line, error)}"
        if line.is_required or is_fatal:
            raise PluginFailed(text) from None
        self.spank.log(text)

    def _reason(self, line: "PlugLine", error: BaseException) -> str:
        if isinstance(error, _TooLong):
            return f"it took longer than {self._limit_s:g} seconds"
        text = " ".join(str(error).split())[:200]
        if isinstance(error, SpankError):
            return text
        where = ""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == line.plugin:
                where = f" ({os.path.basename(line.plugin)}:{trace.tb_lineno})"
            trace = trace.tb_next
        return (
            f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
        )

    def _limited(self, work: "Callable[[], object]") -> object:
        """Do something within the time limit. Raises _TooLong."""
        if not self._limit_s:
            return work()
        import signal

        def too_long(number: int, frame: object) -> None:
            raise _TooLong

        old = signal.signal(signal.SIGALRM, too_long)
        try:
            # Again and again: the first may come where Python cannot raise it.
            signal.setitimer(signal.ITIMER_REAL, self._limit_s, 1.0)
            try:
                return work()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, old)


def forget_options(environ: "dict[str, str]") -> None:
    """Remove the options of an outer job from the variables of a new one."""
    for name in [name for name in environ if name.startswith(OPTION_PREFIX)]:
        del environ[name]


def unusable(line: "PlugLine", owners: "Collection[int]") -> str:
    """Return why a plugin's file cannot be used on this host, "" if it can."""
    if not line.is_file:
        return ""
    try:
        compile(_source(line.plugin, owners), line.plugin, "exec")
    except SpankError as problem:
        return str(problem)
    except OSError as problem:
        return f"{line.plugin} cannot be read: {problem.strerror}"
    except (SyntaxError, ValueError) as problem:
        return f"{line.plugin} is no Python: {' '.join(str(problem).split())}"
    return ""


def _load(line: "PlugLine", owners: "Collection[int]") -> object:
    """Return a plugin's module, or the object of its entry point."""
    if not line.is_file:
        return _entry_point(line.plugin)
    source = _source(line.plugin, owners)
    module = types.ModuleType(f"spank_{line.name}")
    module.__file__ = line.plugin
    exec(compile(source, line.plugin, "exec"), module.__dict__)
    return module


def _source(path: str, owners: "Collection[int]") -> bytes:
    """Return a plugin's source, which no one else can have written. Raises OSError, SpankError."""
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SpankError(f"{path} is no file")
        for name, at in ((path, status), (os.path.dirname(path), os.stat(os.path.dirname(path)))):
            if at.st_uid not in owners:
                raise SpankError(
                    f"{name} belongs to user {at.st_uid}; root or SlurmUser is allowed"
                )
            is_sticky = stat.S_ISDIR(at.st_mode) and at.st_mode & stat.S_ISVTX
            if at.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
                raise SpankError(f"{name} can be written by others than its owner")
        source = file.read(_MOST_SOURCE + 1)
    if len(source) > _MOST_SOURCE:
        raise SpankError(f"{path} is longer than {_MOST_SOURCE} bytes")
    return source


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _entry_point(name: str) -> object:
    if sys.flags.no_site:
        import site

        site.main()
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    raise SpankError(f"no installed package has an entry point {name} in the group {GROUP}")
