"""CliFilterPlugins: scripts of the site, and the user's defaults, in sbatch, salloc and srun.

Nothing of this is imported where slurm.conf names no filter. What Slurm's options table holds, and
what the commands say, are what Slurm 22.05 was seen to do.
"""

import os

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.option_words import OPTIONAL, REQUIRED, OptionError
from pyslurm_ng.cli.submit.option_state import SCRIPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options

NO_STEP = NO_VAL
_NO_LIMIT = "2982616-04:14:00"
_LUA_PATH = "cli_filter_lua_path="
_FAILED = "cli_filter plugin terminated with error"
# What options read as that were not given; those that are not here read as nothing.
_UNSET = {
    "begin": "Unknown", "core-spec": "unset", "contiguous": "unset", "cores-per-socket": "-2",
    "cpus-per-gpu": "0", "cpus-per-task": "0", "deadline": "Unknown", "delay-boot": _NO_LIMIT,
    "exclusive": "unset", "extra-node-info": "unset", "gres-flags": "unset", "hold": "unset",
    "immediate": "0", "kill-command": "0", "label": "unset", "mail-type": "NONE",
    "mem-bind": "unset", "mincpus": "-1", "multi-prog": "unset", "nice": "-2", "no-kill": "unset",
    "no-requeue": "unset", "nodes": "1-0", "ntasks": "1", "ntasks-per-core": "-2",
    "ntasks-per-gpu": "-2", "ntasks-per-node": "-2", "ntasks-per-socket": "-2",
    "overcommit": "unset", "oversubscribe": "unset", "overlap": "unset", "priority": "0",
    "profile": "NotSet", "pty": "unset", "quiet": "0", "reboot": "unset", "requeue": "unset",
    "signal": "0@0", "sockets-per-node": "-2", "spread-job": "unset", "switches": "unset",
    "test-only": "unset", "thread-spec": "unset", "threads-per-core": "-2", "time": _NO_LIMIT,
    "time-min": _NO_LIMIT, "unbuffered": "unset", "use-min-nodes": "unset", "verbose": "0",
    "wait": "unset", "wait-all-nodes": "65534", "x11": "unset",
}  # fmt: skip
_FOREIGN = frozenset(
    "array batch bell label mpi multi-prog no-requeue overlap pty requeue unbuffered wait wrap "
    "cpu-bind export propagate test-only wait-all-nodes".split()
)
"""Options that one of the commands lacks: they read as `invalid-context` there."""


class View:
    """The options of one component, by their long names, as filters read and set them."""

    def __init__(self, options: "Options", operands: "list[str]") -> None:
        self._options = options
        self._operands = operands

    def get(self, name: str) -> "Any":
        """Return an option's value as text; None for one without a value."""
        options = self._options
        if name == "type":
            return options.command
        if name == "argv":
            return dict(enumerate(self._operands, 1))
        if name == "spank":
            return options.plugins.given(options) if options.plugins is not None else {}
        if name not in options.by_name:
            return "invalid-context" if name in _FOREIGN else None
        if name not in options.given:
            return _UNSET.get(name)
        value = options.given[name][1]
        if name in ("time", "time-min"):
            field = "time_limit_min" if name == "time" else "time_min_min"
            return _duration(options.request.get(field))
        if name in ("begin", "deadline") and options.request.get(f"{name}_us"):
            return format_date(options.request[f"{name}_us"] // SECOND_US)
        if name == "gres" and value:
            return ",".join(_with_kind(word) for word in value.split(","))
        if value is None:
            return name if name in ("exclusive", "no-requeue", "requeue") else "set"
        return value

    def set(self, name: str, value: "Any") -> None:
        """Set an option as the command line would; a wrong value is told and changes nothing."""
        options = self._options
        row = options.by_name.get(name)
        if row is None or value is None:
            return
        text: str | None = str(value)
        if row[2] not in (OPTIONAL, REQUIRED) or (
            row[2] == OPTIONAL and text in ("", "set", "yes")
        ):
            text = None  # it takes no argument, or its argument may be missing
        try:
            options.apply(name, text, SCRIPT)
        except OptionError:
            options.given.pop(name, None)
            say(f"{options.command}: error: Invalid --{name} specification")

    def given(self) -> "dict[str, Any]":
        """Return what was given, for `json_cli_options`."""
        return {name: self.get(name) for name in self._options.given}


def _with_kind(gres: str) -> str:
    return gres if gres.startswith(("gres/", "gres:")) or gres == "none" else f"gres/{gres}"


def _duration(minutes: "int | None") -> str:
    if minutes is None:
        return _NO_LIMIT
    if minutes == INFINITE:
        return "UNLIMITED"
    days, rest = divmod(minutes, 1440)
    text = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{text}" if days else text


class Filters:
    """All filters of a command, in the order of CliFilterPlugins."""

    def __init__(self, command: str, conf: "dict[str, str]", path: str) -> None:
        """Load them.

        Raises:
            OptionError: one cannot be loaded; the command ends.
        """
        self._command = command
        self._conf = conf
        self._folder = os.path.dirname(path) or "."
        self.operands: list[str] = []
        self._count = 0
        names = conf.get("CliFilterPlugins", "").split(",")
        self._filters = [self._load(name.strip().removeprefix("cli_filter/")) for name in names]

    def _load(self, name: str) -> "Any":
        if name == "user_defaults":
            return _UserDefaults(self._conf.get("ClusterName", ""))
        from pyslurm_ng.policy.cli_filters import LuaFilter, PythonFilter, ScriptError

        try:
            if name == "lua":
                parameters = self._conf.get("CliFilterParameters", "").split(",")
                paths = [
                    word[len(_LUA_PATH) :] for word in parameters if word.startswith(_LUA_PATH)
                ]
                path = paths[0] if paths else f"{self._folder}/cli_filter.lua"
                return LuaFilter(path, self._conf.get("ClusterName", ""), self._tell)
            if name == "python":
                return PythonFilter(f"{self._folder}/cli_filter.py", self._tell)
        except ScriptError as problem:
            say(f"{self._command}: error: cli_filter/{name}: {problem}")
            raise OptionError(_FAILED, 1) from None
        return None  # none, and syslog: slurmctld logs submissions

    def setup(self, options: "Options") -> None:
        """Let filters set defaults, before any option of a component is read."""
        for site_filter in self._filters:
            if site_filter is not None:
                self._check(site_filter.setup(View(options, [])))

    def pre_submit(self, options: "Options") -> None:
        """Let filters see and change the options of a component before it is submitted."""
        offset, self._count = self._count, self._count + 1
        for site_filter in self._filters:
            if site_filter is not None:
                view = View(options, self.operands)
                self._check(site_filter.pre_submit(view, offset))

    def post_submit(self, job_id: int, step_id: int = NO_STEP) -> None:
        """Tell filters the number that each component got."""
        for offset in range(max(1, self._count)):
            for site_filter in self._filters:
                if site_filter is not None:
                    site_filter.post_submit(offset, job_id, step_id)

    def _check(self, code: int) -> None:
        if code:
            raise OptionError(_FAILED, 1)

    def _tell(self, level: int, text: str) -> None:
        """Print a line of a script; debugging is only for those who ask for it."""
        if level <= 3:
            say(f"{self._command}: error: {text}" if level == 2 else f"{self._command}: {text}")


class _UserDefaults:
    """CliFilterPlugins=user_defaults: `[[command:]cluster:]option=value` in ~/.slurm/defaults."""

    def __init__(self, cluster: str) -> None:
        import pwd

        self._cluster = cluster.lower()
        try:
            self._path = f"{pwd.getpwuid(os.getuid()).pw_dir}/.slurm/defaults"
        except KeyError:
            self._path = ""

    def setup(self, view: View) -> int:
        """Set each default that is for this command and cluster."""
        try:
            with open(self._path, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read(1 << 20).split("\n")
        except (OSError, ValueError):
            return 0
        for line in lines:
            head, _, value = line.partition("#")[0].partition("=")
            *places, name = [word.strip() for word in head.split(":")]
            cluster = places[-1] if places else "*"
            command = places[-2] if len(places) > 1 else "*"
            is_ours = cluster.lower() in ("*", self._cluster)
            if name and is_ours and command in ("*", view.get("type")):
                view.set(name, value.strip())
        return 0

    def pre_submit(self, view: View, offset: int) -> int:
        """Decide nothing."""
        return 0

    def post_submit(self, offset: int, job_id: int, step_id: int) -> None:
        """Do nothing."""
