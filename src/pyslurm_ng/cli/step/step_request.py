"""From srun's options to a CreateStep and to srun's own settings."""

import os

from pyslurm_ng.base.numbers import (
    INFINITE,
    REQ_MEM_SET,
    REQ_NO_KILL,
    REQ_OVERCOMMIT,
    STEP_BESIDE_ALL,
    STEP_EXACT,
    STEP_MEM_ZERO,
    STEP_NO_KILL,
    STEP_OVERLAP,
    STEP_PTY,
)
from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import option_values as ov
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, ENVIRONMENT
from pyslurm_ng.cli.submit.option_values import NO_HOSTS
from pyslurm_ng.conf.quick import is_yes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options

# Bits of model.job.STEP_*; a test compares the two.

REFUSED = ("slurmd-debug",)


def with_own_cpus(environment: "dict[str, str]") -> "dict[str, str]":
    """Return the variables with SRUN_CPUS_PER_TASK before what the job's say of a task's CPUs."""
    count = environment.get("SRUN_CPUS_PER_TASK")
    if count is None:
        return environment
    words = environment.get("SLURM_TRES_PER_TASK", "").split(",")
    others = [word for word in words if word and not word.lower().startswith(("cpu=", "cpu:"))]
    variables = environment | {"SLURM_CPUS_PER_TASK": count}
    variables.pop("SLURM_TRES_PER_TASK", None)
    return variables | ({"SLURM_TRES_PER_TASK": ",".join(others)} if others else {})


def with_own_gres(environment: "dict[str, str]") -> "dict[str, str]":
    """Return the variables with SLURM_STEP_GRES before what the job's say of devices.

    It is about steps of a job that there is, not about the job of an srun.
    """
    gres = environment.get("SLURM_STEP_GRES")
    if gres is None or "SLURM_JOB_ID" not in environment:
        return environment
    of_job = ("SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK")
    variables = {name: value for name, value in environment.items() if name not in of_job}
    return variables | {"SLURM_GRES": gres}


def check_settings(options: "Options") -> None:
    """Refuse what is not implemented, and values that are wrong.

    Raises:
        OptionError: by name, with the exit code.
    """
    settings = options.settings
    for name in REFUSED:
        # Every job's variables hold the second, and it must not keep srun from running.
        if options.given.get(name, (ENVIRONMENT,))[0] == COMMAND_LINE:
            raise OptionError(f"--{name} is not implemented yet", 1)
    if settings.get("pty") not in (None, ""):
        raise OptionError("--pty with a file descriptor is not implemented yet", 1)
    if "pty" in settings and any(name in options.given for name in ("error", "input", "output")):
        raise OptionError("--error/--input/--output are incompatible with --pty", 1)
    _check_shares(options)
    _need_terminal(options)
    if "bcast" in settings and "multi-prog" in settings:
        raise OptionError("--bcast of several programs (--multi-prog) is not implemented yet", 1)
    for name in ("relative", "wait", "msg-timeout", "threads", "treewidth"):
        if name in settings:
            ov.number(name, settings[name], 1 if name in ("msg-timeout", "threads") else 0)
    _check_relative(options)


def _check_shares(options: "Options") -> None:
    """Refuse options that say opposite things about what a step has of its nodes."""
    typed = {name for name, (source, _) in options.given.items() if source == COMMAND_LINE}
    if "whole" in typed and ("exact" in typed or (_is_exclusive(options) and "exclusive" in typed)):
        raise OptionError("--exact and --whole are mutually exclusive.", 1)
    if {"exclusive", "overlap"} <= typed:
        raise OptionError("--exclusive and --overlap are mutually exclusive", 1)


def _is_exclusive(options: "Options") -> bool:
    """Return whether a step shares no CPUs; `--exclusive=user` and the like are about the job."""
    _, value = options.given.get("exclusive", (0, "user"))
    return (value or "").lower() not in ("user", "mcs", "topo", "oversubscribe")


def _need_terminal(options: "Options") -> None:
    """Leave --pty out where srun itself writes to no terminal, as Slurm does."""
    if "pty" not in options.settings or "test-only" in options.settings:
        return
    try:
        os.get_terminal_size(1)
    except OSError as problem:
        say(f"srun: error: ioctl(TIOCGWINSZ): {problem.strerror}")
        say("srun: error: Not using a pseudo-terminal, disregarding --pty option")
        del options.settings["pty"]


def _check_relative(options: "Options") -> None:
    """--relative counts the nodes of a job that there is, and chooses among them alone."""
    if "relative" not in options.settings:
        return
    if _chose_nodes(options):
        text = "-r,--relative not allowed with -w,--nodelist or -x,--exclude."
        raise OptionError(text, 1)
    if not options.settings.get("jobid") and "test-only" not in options.settings:
        text = "--relative option invalid for job allocation request"
        raise OptionError(text, 1, "fatal: ")


def is_on(options: "Options", name: str, default: bool = False) -> bool:
    """Return whether a switch with an optional number is on."""
    value = options.settings.get(name)
    return default if value is None else not value or int(value) != 0


def kills_on_bad_exit(options: "Options", conf: "dict[str, str]") -> bool:
    """Return whether a task that fails ends the step: --kill-on-bad-exit, else KillOnBadExit."""
    return is_on(options, "kill-on-bad-exit", is_yes(conf, "KillOnBadExit"))


def _came_from(options: "Options", name: str) -> int:
    return options.given[name][0] if name in options.given else -1


def step_flags(options: "Options") -> int:
    """Return STEP_* bits."""
    flags = 0
    # Another program's launcher starts the real tasks: its step has all CPUs and keeps none.
    is_external = "external-launcher" in options.settings
    if "overlap" in options.settings or is_external:
        flags |= STEP_OVERLAP
    cpus_given = _came_from(options, "cpus-per-task") == COMMAND_LINE
    is_whole = "whole" in options.settings or is_external
    if not is_whole and ("exact" in options.settings or _is_exclusive(options) or cpus_given):
        flags |= STEP_EXACT
    if options.has_flag(REQ_NO_KILL):
        flags |= STEP_NO_KILL
    if "pty" in options.settings:
        flags |= STEP_PTY
    if "interactive" in options.settings:
        flags |= STEP_BESIDE_ALL
    request = options.request
    memory = ("mem_per_node_mib", "mem_per_cpu_mib", "mem_per_gpu_mib")
    if options.has_flag(REQ_MEM_SET) and not any(request.get(name) for name in memory):
        flags |= STEP_MEM_ZERO
    return flags


def step_fields(options: "Options", argv: "list[str]", program: str) -> "dict[str, Any]":
    """Return the map of a CreateStep in an allocation that exists, without its job."""
    request = options.request
    fields: dict[str, Any] = {
        "name": step_name(options, program),
        "flags": step_flags(options),
        "overcommit": options.has_flag(REQ_OVERCOMMIT),
        "submit_line": " ".join(["srun", *argv])[:65535],
        "srun_host": os.uname().nodename.partition(".")[0],
        "srun_pid": os.getpid(),
        "time_limit_min": request.get("time_limit_min", INFINITE),
    }
    for name in (
        "ntasks", "ntasks_per_node", "ntasks_per_socket", "nodes_min", "nodes_max", "cpus_per_task",
        "threads_per_core", "mem_per_node_mib", "mem_per_cpu_mib", "gpus", "gpus_per_node",
        "gpus_per_task", "tres_per_task", "node_list", "exclude", "distribution", "plane_size",
        "tres_bind", "container",
    ):  # fmt: skip
        if request.get(name):
            fields[name] = request[name]
    for entry in request.get("container_options", []):
        if entry.startswith("id="):
            fields["container_id"] = entry.removeprefix("id=")
    if "resv_ports" in request:
        fields["resv_ports"] = request["resv_ports"]
    _settle_gres(options, fields)
    _settle_sizes(options, fields)
    if options.settings.get("jobid"):
        _check_left(options)
    if "relative" in options.settings:
        fields["relative"] = _relative(options, fields)
    elif "nodes_min" in fields:
        _check_enough(options, fields["nodes_min"])
    if "immediate" in options.settings:
        fields["no_wait"] = True
    if request.get("distribution", "").lower().startswith("arbitrary"):
        _arbitrary(fields)
    return fields


def _settle_gres(options: "Options", fields: "dict[str, Any]") -> None:
    """Devices that this step asks for replace those that the job's variables name."""
    if "gres" in options.given:
        fields["gres"] = options.request.get("gres") or "none"
    names = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "tres-per-task")
    own = {name for name in names if _came_from(options, name) == COMMAND_LINE}
    if "tres-per-task" in own and "gpu" in (options.given["tres-per-task"][1] or "").lower():
        own.add("gpus-per-task")  # said by the other
    if own:
        for name in names:
            if name not in own:
                fields.pop(name.replace("-", "_"), None)
    for name in ("gpus", "gpus_per_node", "gpus_per_task"):
        if fields.get(name) == "0":
            # No devices at all, not even those of the job.
            del fields[name]
            fields["gres"] = fields.get("gres") or "none"


def _settle_sizes(options: "Options", fields: "dict[str, Any]") -> None:
    """Options of this step replace the job's variables."""
    from_job = ENVIRONMENT
    nodes_from, tasks_from = _came_from(options, "nodes"), _came_from(options, "ntasks")
    chosen_place = int(options.settings.get("relative", 0)) > 0 or _chose_nodes(options)
    # A packed step does not want all nodes of the job, unless it asks for them.
    is_packed = fields.get("distribution", "").lower().endswith(",pack")
    is_packed = is_packed and _came_from(options, "distribution") == COMMAND_LINE
    if nodes_from == from_job and (chosen_place or is_packed):
        fields.pop("nodes_min", None)
        fields.pop("nodes_max", None)
    per_node = _came_from(options, "ntasks-per-node")
    if tasks_from == COMMAND_LINE and per_node == from_job:
        fields.pop("ntasks_per_node", None)
    if nodes_from == COMMAND_LINE and tasks_from == from_job and "ntasks_per_node" in fields:
        most = fields["ntasks_per_node"] * max(fields["nodes_min"], fields.get("nodes_max", 0))
        fields["ntasks"] = min(fields["ntasks"], most)
    if _came_from(options, "nodelist") == from_job:
        fields.pop("node_list", None)


def _chose_nodes(options: "Options") -> bool:
    """Return whether the command line chooses among the job's nodes."""
    options_of_nodes = ("nodelist", "nodefile", "exclude")
    return any(_came_from(options, name) == COMMAND_LINE for name in options_of_nodes)


def _relative(options: "Options", fields: "dict[str, Any]") -> int:
    """Return the number of the first node; from there on there must be enough."""
    first, node_count = int(options.settings["relative"]), max(1, fields.get("nodes_min", 1))
    count = os.environ.get("SLURM_JOB_NUM_NODES", "")
    if count.isdecimal() and first + node_count > int(count):
        option = "--nodes"
        if "nodes_min" not in fields:
            option, node_count = "SLURM_JOB_NUM_NODES", options.request.get("nodes_min", 1)
        raise OptionError(
            f"--relative and {option} option incompatible with count of allocated nodes "
            f"({first}+{node_count}>{count})",
            1,
        )
    return first


def _check_left(options: "Options") -> None:
    """Refuse a step without a node: all of its job's are excluded, or -w names none."""
    if _came_from(options, "nodelist") == COMMAND_LINE and not options.request["node_list"]:
        raise OptionError("Hostlist is empty!  Can not run job.", 1)
    own = os.environ.get("SLURM_JOB_NODELIST", "")
    if not own or _came_from(options, "exclude") != COMMAND_LINE:
        return
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        node_names = set(expand(own)).difference(expand(options.request["exclude"]))
    except HostlistError:
        return  # refused later
    if not node_names:
        raise OptionError("Hostlist is empty!  Can't run job.", 1)


def _check_enough(options: "Options", node_count: int) -> None:
    """Refuse a step of more nodes than its job has, without those that are excluded."""
    count = os.environ.get("SLURM_JOB_NUM_NODES", "")
    if not count.isdecimal():
        return
    usable_count, excluded = int(count), 0
    if _came_from(options, "exclude") == COMMAND_LINE:
        from pyslurm_ng.base.hostlist import HostlistError, expand

        try:
            own = set(expand(os.environ.get("SLURM_JOB_NODELIST", "")))
            excluded = len(own.intersection(expand(options.request["exclude"])))
        except HostlistError:
            return  # refused later
    if node_count > usable_count - excluded:
        text = f"Only allocated {usable_count - excluded} nodes asked for {node_count}"
        why = "Are required nodes explicitly excluded?\n" if excluded else ""
        raise OptionError(why + text, 1)


def _arbitrary(fields: "dict[str, Any]") -> None:
    """Read the node of each task from -w, where the file of SLURM_HOSTFILE is by now."""
    names: list[str] = []
    if fields.get("node_list"):
        from pyslurm_ng.base.hostlist import expand

        names = expand(fields["node_list"])
    if not names:
        raise OptionError(NO_HOSTS, 1)
    ntasks = fields.get("ntasks", len(names))
    if ntasks > len(names):
        raise OptionError(f"hostfile names {len(names)} tasks' nodes, {ntasks} are wanted", 1)
    fields["task_nodes"] = names[:ntasks]
    for name in ("nodes_min", "nodes_max", "node_list"):
        fields.pop(name, None)


def step_name(options: "Options", program: str) -> str:
    """Return -J, else the program's name; the job's own name does not count."""
    if _came_from(options, "job-name") == COMMAND_LINE:
        return str(options.request["name"])
    return program.rpartition("/")[2]
