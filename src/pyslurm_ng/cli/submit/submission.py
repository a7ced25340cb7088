"""What sbatch, salloc and srun send about a job's origin: directory, host, limits, variables."""

import os
import sys

from pyslurm_ng.base.numbers import (
    REQ_EXPORT_NONE,
    REQ_GET_USER_ENV,
    REQ_NO_SPECIAL_CORES,
    REQ_OPEN_APPEND,
    REQ_OPEN_TRUNCATE,
    RPC_VERSION,
)
from pyslurm_ng.cli.command import say, version_line
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.cli.option_words import OptionError, suggestions
from pyslurm_ng.cli.session_id import session_id
from pyslurm_ng.cli.submit import option_values as ov
from pyslurm_ng.cli.submit.option_state import HelpRequested
from pyslurm_ng.wire.daemon_link import HOME_PORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyslurm_ng.cli.submit.options import Options
    from pyslurm_ng.wire.client import SlurmError

CONF_KEYS = (
    "AllowSpecResourcesUsage",
    "BurstBufferType",
    "CliFilterParameters",
    "CliFilterPlugins",
    "CpuFreqGovernors",
    "GresTypes",
    "PlugStackConfig",
    "PropagateResourceLimits",
    "PropagateResourceLimitsExcept",
)
"""Keys of slurm.conf that these commands read, beside those of every command."""

_WITH_PLUGINS = ("help", "usage", "autocomplete")
_OUTER_JOB = frozenset(
    "SLURM_JOBID SLURM_NODELIST SLURM_NNODES SLURM_NTASKS SLURM_NPROCS SLURM_NODEID SLURM_PROCID "
    "SLURM_LOCALID SLURM_GTIDS SLURM_TASK_PID SLURM_TASKS_PER_NODE SLURM_CPUS_ON_NODE "
    "SLURM_CPUS_PER_TASK SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_GPUS "
    "SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_NODE "
    "SLURM_PRIO_PROCESS SLURM_RESTART_COUNT SLURM_SCRIPT_CONTEXT SLURM_STEPID SLURM_UMASK "
    "SLURM_TRES_PER_TASK SLURM_THREADS_PER_CORE SLURM_OOM_KILL_STEP SLURM_DISTRIBUTION "
    "SLURM_EXPORT_ENV SLURM_GET_USER_ENV SLURM_OPEN_MODE SLURM_OVERCOMMIT SLURMD_NODENAME "
    "SLURM_SHARDS_ON_NODE SLURM_CLUSTER_NAME SLURM_WORKING_CLUSTER".split()
)
_OUTER_JOB_STARTS = (
    "SLURM_JOB_", "SLURM_STEP_", "SLURM_ARRAY_", "SLURM_HET_", "SLURM_SRUN_", "SLURM_LAUNCH_",
    "SLURM_CPU_BIND_", "SLURM_MEM_BIND_", "SLURM_TOPOLOGY_", "SLURM_RLIMIT_", "SLURM_SUBMIT_",
)  # fmt: skip


def is_of_outer_job(name: str) -> bool:
    """Return whether a variable describes the job in which a command runs, not the new job."""
    return name in _OUTER_JOB or name.startswith(_OUTER_JOB_STARTS)


def describe_origin(options: "Options", argv: "list[str]") -> None:
    """Add directory, host, session, umask and command line to the request."""
    request = options.request
    request.setdefault("work_dir", current_directory())
    request["alloc_node"] = os.uname().nodename.partition(".")[0]
    request["alloc_sid"] = session_id()
    request["umask"] = files_umask()
    request["origin"] = options.command
    request["submit_line"] = " ".join([options.command, *argv])
    for name in list(request):
        # The text of a request must be UTF-8 without NUL; a file name need not be.
        value = request[name]
        if isinstance(value, str):
            request[name] = plain_text(value)


def plain_text(text: str) -> str:
    """Return a text that can be sent: bytes that are not UTF-8 become question marks."""
    return text.encode("utf-8", "replace").decode()


_LIMIT_ROWS = {
    "AS": "Max address space", "CORE": "Max core file size", "CPU": "Max cpu time",
    "DATA": "Max data size", "FSIZE": "Max file size", "MEMLOCK": "Max locked memory",
    "NOFILE": "Max open files", "NPROC": "Max processes", "RSS": "Max resident set",
    "STACK": "Max stack size",
}  # fmt: skip
"""The kernel's names of the limits in /proc."""
_PRINT_ORDER = "CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS".split()


def limits(option: str, conf: "dict[str, str]") -> "list[tuple[str, int, int]]":
    """Return (name, soft, hard) of the limits to send; -1 means no limit.

    Args:
        option: the value of --propagate, "" without it.
    """
    names = _limit_names(option, conf)
    if not names:
        return []
    # Python's module for limits takes 0.35 ms to find and load.
    fd = os.open("/proc/self/limits", os.O_RDONLY | os.O_CLOEXEC)
    try:
        lines = os.read(fd, 65536).decode().splitlines()
    finally:
        os.close(fd)
    columns = {line[:26].strip(): line[26:].split() for line in lines}
    rows = []
    for name in names:
        soft, hard = columns[_LIMIT_ROWS[name]][:2]
        rows.append((name, _limit(soft), _limit(hard)))
    return rows


def say_propagated(options: "Options", limit_rows: "list[tuple[str, int, int]]") -> None:
    """Print, with -vv, what the job inherits from this process, in Slurm's order and words."""
    if options.verbose < 2 or "quiet" in options.settings:
        return
    soft = {name: value for name, value, _ in limit_rows}
    lines = [f"RLIMIT_{name}={soft[name] % (1 << 64)}" for name in _PRINT_ORDER if name in soft]
    lines.append(f"SLURM_PRIO_PROCESS={os.getpriority(os.PRIO_PROCESS, 0)}")
    lines.append(f"UMASK={current_umask():04o}")
    for line in lines:
        say(f"{options.command}: debug:  propagating {line}")


def current_umask() -> int:
    """Return the umask; it can only be read by setting it."""
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def files_umask() -> int:
    """Return the umask of a job or step: SLURM_UMASK, in octal, or this process's."""
    text = os.environ.get("SLURM_UMASK", "")
    is_octal = 0 < len(text) < 8 and not text.strip("01234567")
    return int(text, 8) & 0o777 if is_octal else current_umask()


def _limit(word: str) -> int:
    return -1 if word == "unlimited" else int(word)


def _limit_names(option: str, conf: "dict[str, str]") -> "list[str]":
    """Return the limits of --propagate, else those of PropagateResourceLimits, else all."""
    exceptions: list[str] = []
    if not option:
        option = conf.get("PropagateResourceLimits", "")
        if not option:
            exceptions = _limit_words(conf.get("PropagateResourceLimitsExcept", ""))
            option = "ALL"
    words = _limit_words(option)
    if "NONE" in words or "ALL" in exceptions:
        return []
    return [
        name for name in ov.RLIMITS if ("ALL" in words or name in words) and name not in exceptions
    ]


def _limit_words(text: str) -> "list[str]":
    return [word.strip().upper().removeprefix("RLIMIT_") for word in text.split(",") if word]


def job_environment(options: "Options", variables: "Mapping[bytes, bytes]") -> bytes:
    """Return the variables that --export passes on, each with a NUL at its end.

    Raises:
        OptionError: --export-file cannot be read.
    """
    export = options.settings.get("export")
    mode, names, new_values = export_words(export)
    variables = with_plugins(options, variables)
    job_variables = (
        _export_file(options.settings["export-file"]) if "export-file" in options.settings else {}
    )
    for name, value in variables.items():
        is_ours = name.startswith((b"SLURM_", b"SPANK_", b"SLUID", b"_SLURM_SPANK_"))
        if mode != "ALL" and not is_ours and name not in names:
            continue
        if name.startswith(b"SLURM") and is_of_outer_job(name.decode("utf-8", "replace")):
            continue
        job_variables[name] = value
    job_variables.update(new_values)
    if export is not None:
        job_variables[b"SLURM_EXPORT_ENV"] = export.encode("utf-8", "surrogateescape")
        if export.upper() not in ("ALL", "NIL"):
            options.flag(REQ_GET_USER_ENV)
        if mode in ("NONE", "NIL"):
            options.flag(REQ_EXPORT_NONE)
    if options.has_flag(REQ_GET_USER_ENV):
        job_variables[b"SLURM_GET_USER_ENV"] = b"1"
    if options.has_flag(REQ_OPEN_APPEND | REQ_OPEN_TRUNCATE):
        job_variables[b"SLURM_OPEN_MODE"] = b"a" if options.has_flag(REQ_OPEN_APPEND) else b"t"
    if "mem-bind" in options.settings:
        from pyslurm_ng.cli.submit.binding_options import mem_bind_variables

        words = mem_bind_variables(options).items()
        job_variables.update({name.encode(): value.encode() for name, value in words})
    if "cpu-freq" in options.settings:
        job_variables[b"SLURM_CPU_FREQ_REQ"] = options.settings["cpu-freq"].encode()
    if "gpu-freq" in options.given:
        job_variables[b"SLURM_GPU_FREQ"] = os.fsencode(options.given["gpu-freq"][1] or "")
    if options.request.get("acctg_freq"):
        job_variables[b"SLURM_ACCTG_FREQ"] = options.request["acctg_freq"].encode()
    if "tres-per-task" in options.given:
        job_variables[b"SLURM_TRES_PER_TASK"] = options.task_tres().encode()
    job_variables[b"SLURM_SUBMIT_DIR"] = os.fsencode(current_directory())
    job_variables[b"SLURM_SUBMIT_HOST"] = os.fsencode(os.uname().nodename.partition(".")[0])
    job_variables[b"SLURM_PRIO_PROCESS"] = b"%d" % os.getpriority(os.PRIO_PROCESS, 0)
    return b"".join(b"%b=%b\0" % pair for pair in job_variables.items())


def export_words(
    export: "str | None",
) -> "tuple[str, frozenset[bytes], dict[bytes, bytes]]":
    """Return the mode (ALL, NONE, NIL or SOME), the names to pass on, and variables with values."""
    if export is None:
        return "ALL", frozenset(), {}
    if export.upper() in ("ALL", "NONE", "NIL"):
        return export.upper(), frozenset(), {}
    mode = "SOME"
    names: list[bytes] = []
    new_values: dict[bytes, bytes] = {}
    for word in _split_outside_quotes(export):
        name, equals, value = os.fsencode(word).partition(b"=")
        if word.upper() == "ALL":
            mode = "ALL"
        elif equals:
            new_values[name] = value
        else:
            names.append(name)
    return mode, frozenset(names), new_values


def _split_outside_quotes(text: str) -> "list[str]":
    """Return the words of a comma list; a comma in single quotes belongs to its word."""
    words = [""]
    in_quotes = False
    for letter in text:
        if letter == "'":
            in_quotes = not in_quotes
        elif letter == "," and not in_quotes:
            words.append("")
        else:
            words[-1] += letter
    return [word for word in words if word]


def _export_file(name: str) -> "dict[bytes, bytes]":
    from pyslurm_ng.base.input_files import TooLong, read_whole

    try:
        if name.isdecimal():
            with os.fdopen(int(name), "rb") as stream:
                content = read_whole(stream)
        else:
            with open(name, "rb") as stream:
                content = read_whole(stream)
    except OSError as problem:
        text = f"Could not open user environment file {name}"
        if isinstance(problem, TooLong):
            text = f"--export-file: {name}: {problem.strerror}"
        raise OptionError(text, 1) from None
    entries = (entry.partition(b"=") for entry in content.split(b"\0") if b"=" in entry)
    return {variable: value for variable, _, value in entries if variable}


def become(options: "Options") -> None:
    """Become the user and group of --uid and --gid, so that the request is signed as theirs."""
    uid, gid = options.settings.get("uid"), options.settings.get("gid")
    if gid is not None:
        os.setgroups([int(gid)])
        os.setgid(int(gid))
    if uid is not None:
        from pwd import getpwuid

        person = getpwuid(int(uid))
        if gid is None:
            os.initgroups(person.pw_name, person.pw_gid)
            os.setgid(person.pw_gid)
        os.setuid(person.pw_uid)


def begin(
    options: "Options",
    operands: "list[str]",
    read: "Callable[..., dict[str, str]]",
    keys: "tuple[str, ...]",
) -> "dict[str, str]":
    """Read slurm.conf, and let the filters that it names set defaults before options are read.

    Returns:
        The keys; none if the file cannot be read: wrong options are told first.
    """
    from pyslurm_ng.conf.quick import find_conf

    path = find_conf()
    if not os.access(path, os.R_OK):
        return {}
    conf = read(options.command, *keys)
    stack = conf.get("PlugStackConfig") or "plugstack.conf"
    if os.access(os.path.join(os.path.dirname(path), stack), os.F_OK):
        options.use_plugins()
    if conf.get("CliFilterPlugins", "none").lower() not in ("", "none", "cli_filter/none"):
        from pyslurm_ng.cli.submit.filters import Filters

        options.filters = Filters(options.command, conf, path)
        options.filters.operands = operands
        options.filters.setup(options)
    return conf


def finish(options: "Options", conf: "dict[str, str]") -> None:
    """Settle one component's options; print warnings, and with -v all options.

    Raises:
        OptionError: options exclude one another, or do not suit this cluster.
    """
    try:
        lines = options.finish()
        if "quiet" not in options.settings:
            for line in lines:
                say(f"{options.command}: {line}")
            say_options(options)
        check_configured(options, conf)
    except OptionError as problem:
        if problem.code == 1 and not problem.level.startswith("fatal"):
            problem.code = error_code(options.command)
        raise


def say_options(options: "Options") -> None:
    """Print the options in force with -v."""
    if options.verbose:
        from pyslurm_ng.cli.submit.option_lines import verbose_lines

        for line in verbose_lines(options):
            say(f"{options.command}: {line}")


def choose_cluster(options: "Options", conf: "dict[str, str]") -> "dict[str, str]":
    """Return how to reach the cluster of -M that would start the job first; else this one."""
    names = options.settings.get("clusters")
    if names is None:
        return conf
    from pyslurm_ng.cli.clusters import confs_of, first_to_start

    confs = confs_of(options.command, names, conf)
    return confs[0] if len(confs) == 1 else first_to_start(options.command, confs, options.request)


def working_cluster(conf: "dict[str, str]") -> "dict[str, str]":
    """Return the variable that leads steps of an allocation to another cluster's controller."""
    if HOME_PORT not in conf:
        return {}
    address = f"{conf['SlurmctldHost']}:{conf['SlurmctldPort']}"
    return {"SLURM_WORKING_CLUSTER": f"{conf['ClusterName']}:{address}:{RPC_VERSION}"}


def _check_cpu_frequency(options: "Options", conf: "dict[str, str]") -> None:
    """Refuse governors that slurm.conf leaves out."""
    from pyslurm_ng.cli.submit.option_checks import governor_error

    wrong = governor_error(options.settings["cpu-freq"], conf.get("CpuFreqGovernors", ""))
    if wrong:
        raise OptionError(wrong)


def _name_without_effect(options: "Options", *, has_buffers: bool) -> None:
    if options.request.get("burst_buffer") and not has_buffers:
        option = "--bb" if "bb" in options.given else "--bbf"
        say(f"{options.command}: {option} has no effect: there are no burst buffers")
    if options.request.get("cluster_features"):
        say(
            f"{options.command}: --cluster-constraint has no effect: "
            "a job has no siblings in other clusters"
        )


def check_configured(options: "Options", conf: "dict[str, str]") -> None:
    """Refuse unknown GRES, and ignore -S and --thread-spec if slurm.conf does not allow them."""
    options.check_resources(conf.get("GresTypes", ""))
    if "cpu-freq" in options.settings:
        _check_cpu_frequency(options, conf)
    if "quiet" not in options.settings:
        _name_without_effect(options, has_buffers=bool(conf.get("BurstBufferType")))
    if conf.get("AllowSpecResourcesUsage", "").lower() in ("yes", "1", "true", "y"):
        return
    for field, option in (("core_spec", "-S"), ("thread_spec", "--thread-spec")):
        if options.request.pop(field, None) is not None:
            options.flag(0, REQ_NO_SPECIAL_CORES)
            say(
                f"{options.command}: error: Ignoring {option} since it's not allowed by "
                "configuration (AllowSpecResourcesUsage = No)"
            )


def with_plugins(options: "Options", variables: "Mapping[bytes, bytes]") -> "Mapping[bytes, bytes]":
    """Return the variables as the plugins of plugstack.conf have changed them."""
    if not options.plugin_changes:
        return variables
    changed = dict(variables)
    for name, value in options.plugin_changes.items():
        if value is None:
            changed.pop(os.fsencode(name), None)
        else:
            changed[os.fsencode(name)] = os.fsencode(value)
    return changed


def announce(options: "Options", pairs: "list[tuple[str, str | None]]") -> bool:
    """Print the text of --help or a similar option; return whether there was one."""
    if options.plugins is None and any(name in _WITH_PLUGINS for name, _ in pairs):
        options.use_plugins()
    for name, value in pairs:
        if name == "version":
            print(version_line())
        elif name == "autocomplete":
            sys.stdout.write(suggestions(value or "", options.by_name))
        elif name == "help":
            from pyslurm_ng.cli.submit.option_texts import help_text

            sys.stdout.write(help_text(options))
        elif name == "usage":
            from pyslurm_ng.cli.submit.option_texts import usage_text

            sys.stdout.write(usage_text(options))
        else:
            continue
        return True
    return False


def option_failure(options: "Options", problem: OptionError) -> int:
    """Print what is wrong with an option as Slurm does; return the exit code."""
    for line in options.lines:
        say(line)
    if problem.level:
        lines = problem.text.split("\n")
        say("\n".join(f"{options.command}: {problem.level}{line}" for line in lines))
    else:
        say(f"{options.command}: {problem.text}")
    return problem.code


def show_help(problem: HelpRequested) -> int:
    """Print the text of an option such as --gres=help; return its exit code."""
    sys.stdout.write(problem.text)
    return problem.code


def attended(options: "Options", work: "Callable[[], int]") -> int:
    """Do a command's work, then let plugins of plugstack.conf end."""
    try:
        return work()
    finally:
        if options.plugins is not None:
            options.plugins.exit(options)


def outcome(options: "Options", work: "Callable[[], int]") -> int:
    """Do a command's work and return its exit code; print errors of its options."""
    try:
        return attended(options, work)
    except OptionError as problem:
        return option_failure(options, problem)
    except HelpRequested as problem:
        return show_help(problem)


_OPTIONS = {
    "begin_us": "begin", "deadline_us": "deadline", "mem_per_cpu_mib": "mem-per-cpu",
    "mem_per_gpu_mib": "mem-per-gpu", "mem_per_node_mib": "mem", "node_list": "nodelist",
    "node_sizes": "nodes", "nodes_max": "nodes", "nodes_min": "nodes", "plane_size": "distribution",
    "rlimits": "propagate", "signal_before_s": "signal", "switches_wait_s": "switches",
    "time_limit_min": "time", "time_min_min": "time-min", "tmp_mib": "tmp", "work_dir": "chdir",
}  # fmt: skip
"""The option of a field of the request, where neither TEXTS nor the field's name says it."""


def by_option(line: str) -> str:
    """Return `--output: at most ...` for a refusal of the field, `std_out: at most ...`.

    Other lines are returned as they are.
    """
    from pyslurm_ng.cli.submit.option_table import OPTIONS
    from pyslurm_ng.cli.submit.options import TEXTS

    field, colon, rest = line.partition(": ")
    if not colon or not rest.endswith("allowed"):
        return line
    names = _OPTIONS | {field: option for option, field in TEXTS.items()}
    option = names.get(field, field.replace("_", "-"))
    return f"--{option}: {rest}" if any(row[0] == option for row in OPTIONS) else line


def error_code(command: str) -> int:
    """Return the exit code of a request that was refused: SLURM_EXIT_ERROR, by default 1."""
    value = os.environ.get("SLURM_EXIT_ERROR")
    if value is None:
        return 1
    code = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
    if not code:
        say(f"{command}: error: SLURM_EXIT_ERROR has zero value")
    return code & 0xFF if code else 1


def immediate_code() -> int:
    """Return the exit code of --immediate without room: SLURM_EXIT_IMMEDIATE, by default 1."""
    value = os.environ.get("SLURM_EXIT_IMMEDIATE", "")
    return int(value) & 0xFF if value.isascii() and value.isdigit() and len(value) < 10 else 1


def refusal(command: str, problem: "SlurmError", lead: str, *, is_plain: bool = False) -> int:
    """Print why the controller refused: its details, then the error after `lead`.

    Args:
        is_plain: the last line has no command name, as tests of requests print it.
    """
    code = 1 if is_plain else error_code(command)
    *details, last = map(by_option, problem.text.split("\n"))
    for line in details:
        say(f"{command}: error: {line}")
    say(f"{lead}: {last}" if is_plain else f"{command}: error: {lead}: {last}")
    return code
