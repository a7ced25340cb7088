"""Options of sbatch, salloc and srun: one table for command line, `#SBATCH` and environment.

The first word that is not an option ends the options. Values are checked while they are read, with
Slurm's texts. The result is the map of a `model.job.JobRequest`, and the settings that only the
command needs.
"""

from pyslurm_ng.base.numbers import (
    REQ_CONSOLIDATE_SEGMENTS,
    REQ_CONTIGUOUS,
    REQ_HOLD,
    REQ_OVERCOMMIT,
    REQ_REBOOT,
    REQ_SPREAD,
    REQ_SPREAD_SEGMENTS,
    REQ_STEPMGR,
    REQ_USE_MIN_NODES,
)
from pyslurm_ng.cli.command import hide_errors
from pyslurm_ng.cli.option_words import OPTIONAL, REQUIRED, OptionError, UsageError, split_words
from pyslurm_ng.cli.submit import (
    client_values as cv,
    container_words as cw,
    option_names as on,
    option_values as ov,
    x11_words,
)
from pyslurm_ng.cli.submit.option_state import COMMANDS, ENVIRONMENT, OptionState
from pyslurm_ng.cli.submit.option_table import OPTIONS
from pyslurm_ng.cli.submit.settle import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    Row: TypeAlias = tuple[Any, ...]
    Reader: TypeAlias = Callable[[OptionState, str, Any], None]

TEXTS = {
    "array": "array", "bb": "burst_buffer", "comment": "comment",
    "batch": "batch_features", "cluster-constraint": "cluster_features",
    "constraint": "constraint", "dependency": "dependency",
    "error": "std_err", "extra": "extra",
    "input": "std_in", "job-name": "name", "licenses": "licenses",
    "mail-user": "mail_user", "mcs-label": "mcs_label", "network": "network",
    "output": "std_out",
    "partition": "partition", "prefer": "prefer", "qos": "qos", "reservation": "reservation",
    "wckey": "wckey",
}  # fmt: skip
"""Options whose value goes unchanged into a field of the request."""

NUMBERS = {
    "cpus-per-gpu": ("cpus_per_gpu", 1), "cpus-per-task": ("cpus_per_task", 1),
    "mincpus": ("mincpus", 1), "ntasks-per-core": ("ntasks_per_core", 1),
    "ntasks-per-gpu": ("ntasks_per_gpu", 1), "ntasks-per-node": ("ntasks_per_node", 1),
    "ntasks-per-tres": ("ntasks_per_gpu", 1), "tasks-per-node": ("ntasks_per_node", 1),
    "segment": ("segment", 1), "threads-per-core": ("threads_per_core", 1),
    "sockets-per-node": ("sockets_per_node", 1), "cores-per-socket": ("cores_per_socket", 1),
    "ntasks-per-socket": ("ntasks_per_socket", 1), "core-spec": ("core_spec", 0),
    "thread-spec": ("thread_spec", 1),
}  # fmt: skip
"""Options that are a count: the field and the least value."""

FLAGS = {
    "hold": REQ_HOLD, "overcommit": REQ_OVERCOMMIT,
    "contiguous": REQ_CONTIGUOUS, "reboot": REQ_REBOOT, "spread-job": REQ_SPREAD,
    "use-min-nodes": REQ_USE_MIN_NODES, "stepmgr": REQ_STEPMGR,
    "consolidate-segments": REQ_CONSOLIDATE_SEGMENTS, "spread-segments": REQ_SPREAD_SEGMENTS,
}  # fmt: skip
"""Options that set a bit."""

READERS: "dict[str, Reader]" = {
    "account": on.account, "acctg-freq": ov.sampling, "bbf": on.burst_buffer_file,
    "begin": ov.moment, "chdir": on.directory, "cluster": on.cluster,
    **dict.fromkeys(cw.WORDS, cw.word), "container": cw.bundle,
    "clusters": on.cluster, "compress": cv.compress, "cpu-bind": ov.binding, "cpu_bind": ov.binding,
    "cpu-freq": on.cpu_frequency, "deadline": ov.moment, "delay-boot": on.delay_boot,
    "distribution": ov.distribution,
    "exclude": on.node_list, "exclusive": ov.exclusive, "get-user-env": ov.get_user_env,
    "gid": on.group, "gpus": ov.gpus,
    "gpu-bind": ov.gpu_bind, "gpu-freq": on.gpu_frequency,
    "gpus-per-node": ov.gpus, "gpus-per-socket": ov.gpus, "gpus-per-task": ov.gpus,
    "gres": ov.gres, "gres-flags": ov.gres_flags, "hint": ov.hint,
    "ignore-signals": cv.signals, "immediate": cv.immediate, "kill-on-bad-exit": cv.count_or_none,
    "extra-node-info": ov.extra_node_info,
    "kill-command": cv.kill_command,
    "kill-on-invalid-dep": ov.kill_on_invalid_dep, "mail-type": ov.mail_type, "mem": ov.memory,
    "mem-bind": ov.binding,
    "mem-per-cpu": ov.memory, "mem-per-gpu": ov.memory, "nice": ov.nice, "no-kill": ov.no_kill,
    "no-requeue": ov.no_requeue, "nodefile": on.node_file, "nodelist": on.node_list,
    "nodes": ov.nodes, "ntasks": ov.ntasks, "oom-kill-step": ov.oom_kill_step,
    "open-mode": ov.open_mode,
    "oversubscribe": ov.oversubscribe, "priority": ov.priority, "profile": on.profile,
    "propagate": ov.propagate,
    "requeue": ov.requeue, "resv-ports": ov.resv_ports, "send-libs": cv.send_libs,
    "signal": ov.signal,
    "switches": ov.switches, "time": ov.time_limit,
    "time-min": ov.time_limit, "tmp": ov.mebibytes, "tres-bind": ov.gpu_bind,
    "tres-per-task": ov.tres_per_task,
    "uid": on.user, "wait-all-nodes": ov.wait_all_nodes,
    "x11": x11_words.read,
}  # fmt: skip
"""Options whose value has a grammar of its own."""

SETTINGS = frozenset(
    "async autocomplete export export-file help ignore-pbs parsable quiet "
    "test-only usage verbose "
    "version wait wrap "
    # Options of salloc and srun only; these commands read them.
    "bcast bcast-exclude external-launcher wait-for-children "
    "bell no-bell no-shell disable-status epilog exact "
    "het-group interactive jobid label mpi msg-timeout multi-prog overlap "
    "preserve-env prolog "
    "pty quit-on-interrupt relative slurmd-debug task-epilog task-prolog threads unbuffered "
    "pack-group treewidth whole".split()
)
"""Options for the command itself: kept as text in `Options.settings`."""

RECORDED = frozenset(("cluster-constraint", "delay-boot", "network"))
"""Options that are kept with the job and shown, but have no effect yet, or not all of it.

In Slurm they have none, either, without what acts by them: siblings of a job in other clusters,
RebootProgram, NodeFeaturesPlugins and SwitchType.
"""

NAMED = frozenset(("cluster-constraint",))
"""The options of RECORDED for which a line on stderr says that they have no effect."""

NAMES = frozenset(("batch", "partition", "qos"))
"""Texts that name something of the cluster: the empty one is a name that does not exist."""

AS_TYPED = frozenset(("exclusive", "no-kill", "resv-ports"))
"""Options with an optional argument whose variables are read as the argument would be."""


def is_implemented(name: str) -> bool:
    """Return whether an option has an effect; all others are refused by name."""
    return any(name in names for names in (TEXTS, NUMBERS, FLAGS, READERS, SETTINGS))


class Options(OptionState):
    """Reads a command's options from its words, its variables and a script's directives."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        bit = 1 << COMMANDS.index(command)
        self._variables = 4 + COMMANDS.index(command)
        self.by_name: dict[str, Row] = {row[0]: row for row in OPTIONS if row[3] & bit}
        self.by_letter: dict[str, Row] = {row[1]: row for row in OPTIONS if row[1] and row[3] & bit}

    # One option ---------------------------------------------------------------------------------

    def apply(self, name: str, value: "str | None", source: int) -> None:
        """Read one option; the value is None if the option has none.

        Raises:
            OptionError: the value is wrong, or the option is not implemented.
        """
        self.given[name] = (source, value)
        if name in TEXTS:
            text = value.lower() if value and name == "qos" else value  # as they are everywhere
            self.request[TEXTS[name]] = text or (ov.no_name() if name in NAMES else "")
        elif name in NUMBERS:
            field, least = NUMBERS[name]
            self.request[field] = ov.number(name, value or "", least)
        elif name in READERS:
            READERS[name](self, name, value)
        elif name in FLAGS:
            self.flag(FLAGS[name])
        elif name == "verbose":
            # A variable holds the level, and none without a number.
            self.verbose += 1 if value is None else int(value) if value.isdecimal() else 0
        elif name == "quiet":
            self.settings[name] = self.settings.get(name, "") + "Q"
        elif name in SETTINGS:
            self.settings[name] = value or ""
        elif self.plugins is not None and self.plugins.has(name):
            return  # `given` has it
        else:
            raise OptionError(f"--{name} is not implemented yet", 1)

    # Words --------------------------------------------------------------------------------------

    def split_words(self, words: "list[str]") -> "tuple[list[tuple[str, str | None]], list[str]]":
        """Return (name, value) pairs in order, and the operands after them.

        Raises:
            OptionError: an unknown or ambiguous name, or a missing argument, in getopt's words.
        """
        try:
            return split_words(words, self.by_name, self.by_letter)
        except UsageError as problem:
            if self.plugins is None and self.use_plugins():
                return self.split_words(words)
            text = f'{problem}\nTry "{self.command} --help" for more information'
            raise OptionError(text, 255, "") from None

    def use_plugins(self) -> bool:
        """Know the options of plugstack.conf's plugins, too; return whether it names any.

        Raises:
            OptionError: a required plugin fails, or brings an option that there is already.
        """
        if self.plugins is not None:
            return True
        from pyslurm_ng.cli.submit.plugins import load_plugins

        self.plugins = plugins = load_plugins(self.command)
        for row in plugins.rows() if plugins is not None else ():
            if row[0] in self.by_name:
                raise OptionError(f"spank: --{row[0]} is an option of {self.command} already", 1)
            self.by_name[row[0]] = row
        return plugins is not None

    def apply_all(self, pairs: "Iterable[tuple[str, str | None]]", source: int) -> None:
        """Read options of one source in order."""
        for name, value in pairs:
            self.apply(name, value, source)

    # The environment ----------------------------------------------------------------------------

    def apply_environment(self, environment: "dict[str, str]") -> None:
        """Read the command's input variables.

        A variable sets a switch unless its value says no. For an option with an optional argument
        `set`, `yes` and the empty text mean no argument.
        """
        for name, row in self.by_name.items():
            for variable in row[self._variables]:
                value = environment.get(variable)
                if value is None:
                    continue
                # The time of --switches has a separate variable.
                text = "@" + value if variable.endswith("_WAIT4SWITCH") else value
                self._apply_variable(name, row[2], text)

    def _apply_variable(self, name: str, argument: int, value: str) -> None:
        if argument == REQUIRED or name == "verbose" or name in AS_TYPED:
            self.apply(name, value, ENVIRONMENT)
        elif value.lower() in ("no", "0", "false"):
            return
        elif argument == OPTIONAL and value.lower() not in ("", "set", "yes", "1", "true"):
            self.apply(name, value, ENVIRONMENT)
        else:
            self.apply(name, None, ENVIRONMENT)

    # All together -------------------------------------------------------------------------------

    def finish(self) -> "list[str]":
        """Settle what the options mean together; return warnings with their level.

        Raises:
            OptionError: options exclude one another, or a filter or plugin of the site refuses
                them.
        """
        if self.filters is not None:
            self.filters.pre_submit(self)
        if self.plugins is not None:
            self.plugins.begin(self)
        warnings = [*self.warnings, *settle(self)]
        self.keep_quiet()
        return warnings

    def keep_quiet(self) -> None:
        """Hide errors from now on if there is more than one -Q, as Slurm does."""
        if len(self.settings.get("quiet", "")) > 1:
            hide_errors()

    def check_resources(self, gres_types: str) -> None:
        """Refuse generic resources that slurm.conf's GresTypes does not name."""
        known = [word.strip() for word in gres_types.split(",")]
        of_gpus = ["gpu"] if self.request.get("cpus_per_gpu") else []
        if any(name not in known for name in (*self.resources, *of_gpus)):
            raise OptionError("Invalid generic resource (gres) specification", 1)
