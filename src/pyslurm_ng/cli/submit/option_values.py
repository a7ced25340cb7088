"""Values of submission options: each function reads one text, and its errors are Slurm's.

They write into an `OptionState`: fields of the job request, bits of its flags, or settings that
only the command itself needs.
"""

import os

from pyslurm_ng.base import units
from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
    REQ_EXPEDITE,
    REQ_GET_USER_ENV,
    REQ_GRES_DISABLE_BIND,
    REQ_GRES_ENFORCE_BIND,
    REQ_GRES_MANY_TASKS_SHARING,
    REQ_GRES_ONE_TASK_SHARING,
    REQ_KEEP_INVALID_DEP,
    REQ_KILL_INVALID_DEP,
    REQ_NICE_SET,
    REQ_NO_KILL,
    REQ_NO_REQUEUE,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
    REQ_OPEN_APPEND,
    REQ_OPEN_TRUNCATE,
    REQ_OVERSUBSCRIBE,
    REQ_REQUEUE,
    REQ_SIGNAL_BATCH,
    REQ_SIGNAL_RESV,
    SECOND_US,
)
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, ENVIRONMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState

SIGNAL_NAMES = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12,
    "PIPE": 13, "ALRM": 14, "TERM": 15, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21,
    "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28,
}  # fmt: skip
RLIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")
_NICE_LIMIT = 2147483645
_COUNT_LIMIT = 2147483647


# What a command says before the controller's reason.
REFUSED = {
    "salloc": "Job submit/allocate failed",
    "sbatch": "Batch job submission failed",
    "srun": "Unable to allocate resources",
}
NO_HOSTS = (
    "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"
)
NO_SOCKETS = (
    "--gpus-per-socket option requires --sockets-per-node specification\n"
    "Invalid generic resource (gres) specification"
)
MIXED_TYPES = "Invalid GRES specification (with and without type identification)"
_NO_TRES = "Invalid Trackable RESource (TRES) specification"


def invalid(name: str) -> OptionError:
    """Return Slurm's error for a value of the wrong form."""
    return OptionError(f"Invalid --{name} specification")


def no_name() -> str:
    """Return what is sent for an empty name, which must not look like one that is not given."""
    from pyslurm_ng.base.request_words import NO_NAME

    return NO_NAME


def number(name: str, value: str, least: int = 1) -> int:
    """Return a count, before which blanks and a plus may stand.

    Numbers of nodes alone may have a suffix k or m.
    """
    digits = value.lstrip().removeprefix("+")
    try:
        count = units.parse_count(digits) if digits.isdecimal() else -1
    except units.UnitError:
        count = -1
    if not least <= count <= _COUNT_LIMIT:
        raise OptionError(f'Invalid numeric value "{value}" for --{name}.', 1)
    return count


# Size -----------------------------------------------------------------------------------------


def nodes(options: "OptionState", name: str, value: str) -> None:
    """Read numbers of nodes: `4`, `2-4`, `1k`, and lists of sizes: `1,2,4`, `2-10:2`."""
    options.request.pop("node_sizes", None)
    if "," in value or ":" in value:
        low, high = _node_sizes(value)
        options.request["node_sizes"] = value
        options.request["nodes_min"], options.request["nodes_max"] = low, high
        options.flag(REQ_NODES_SET)
        return
    low_text, dash, high_text = value.partition("-")
    try:
        low = units.parse_count(low_text.lstrip().removeprefix("+"))
        high = units.parse_count(high_text) if dash else low
    except units.UnitError:
        # Slurm shows the text after the first dash if only that is wrong.
        wrong_text = (
            high_text if "-" in high_text or (low_text.isdecimal() and high_text) else value
        )
        raise OptionError(f'"{wrong_text}" is not a valid node count') from None
    if high > _COUNT_LIMIT:
        raise OptionError(f'"{value}" is not a valid node count')
    if high < low:
        raise OptionError(f"Maximum node count {high} is less than minimum node count {low}")
    options.request["nodes_min"], options.request["nodes_max"] = low, high
    options.flag(REQ_NODES_SET)


def _node_sizes(value: str) -> tuple[int, int]:
    """Return the least and the largest of a list of node counts."""
    bounds: list[int] = []
    for part in value.split(","):
        span, colon, step = part.partition(":")
        low, dash, high = span.partition("-")
        words = [low, *([high] if dash else []), *([step] if colon else [])]
        if not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words):
            raise OptionError(f'"{value}" is not a valid node count')
        first, last = int(low), int(high) if dash else int(low)
        if (colon and (not dash or not int(step))) or not 0 < first <= last <= _COUNT_LIMIT:
            raise OptionError(f'"{value}" is not a valid node count')
        bounds += (first, last - (last - first) % int(step) if colon else last)
    return min(bounds), max(bounds)


def ntasks(options: "OptionState", name: str, value: str) -> None:
    """Read `-n 8`."""
    options.request["ntasks"] = number(name, value)
    options.flag(REQ_NTASKS_SET)


def memory(options: "OptionState", name: str, value: str) -> None:
    """Read one of the three memory options; `settle` decides which of them counts."""
    try:
        options.memory[name] = units.parse_mem_mib(value)
    except units.UnitError:
        raise invalid(name) from None


def mebibytes(options: "OptionState", name: str, value: str) -> None:
    """Read `--tmp`."""
    try:
        options.request["tmp_mib"] = units.parse_mem_mib(value)
    except units.UnitError:
        raise invalid(name) from None


def gpus(options: "OptionState", name: str, value: str) -> None:
    """Read `2`, `a100:2`, `a100:1,v100:3`: a type without a count is one, an empty text none."""
    field = name.replace("-", "_")
    if not value:
        options.request.pop(field, None)
        return
    words = []
    for word in value.split(","):
        kind, _, count = word.rpartition(":")
        if not (count.isascii() and count.isdigit()):
            # Types may begin with a digit, but then they need a count: 2x is no type.
            if (
                kind
                or not count
                or count[0].isdecimal()
                or not count.replace("_", "").replace("-", "").isalnum()
            ):
                raise OptionError(_NO_TRES, 1)
            kind, count = count, "1"
        words.append(f"{kind}:{int(count)}" if kind else str(int(count)))
    options.request[field] = ",".join(words)
    if any(word.rpartition(":")[2] != "0" for word in words):
        options.resources.append("gpu")  # none of them may be asked for anywhere


def gres_flags(options: "OptionState", name: str, value: str) -> None:
    """Read `--gres-flags`: which cores go with which devices, and how tasks share them."""
    words = value.lower().split(",")
    if {"enforce-binding", "disable-binding"} <= set(words):
        raise invalid(name)
    for word in words:
        if word == "enforce-binding":
            options.flag(REQ_GRES_ENFORCE_BIND, REQ_GRES_DISABLE_BIND)
        elif word == "disable-binding":
            options.flag(REQ_GRES_DISABLE_BIND, REQ_GRES_ENFORCE_BIND)
        elif word == "one-task-per-sharing":
            options.flag(REQ_GRES_ONE_TASK_SHARING, REQ_GRES_MANY_TASKS_SHARING)
        elif word == "multiple-tasks-per-sharing":
            options.flag(REQ_GRES_MANY_TASKS_SHARING, REQ_GRES_ONE_TASK_SHARING)
        elif word == "allow-task-sharing" and options.command == "srun":
            options.request.setdefault("gpu_bind", "none")
        else:
            raise invalid(name)


def extra_node_info(options: "OptionState", name: str, value: str) -> None:
    """Read `-B sockets[:cores[:threads]]`: least counts, `*` for any.

    None may be 0. Of a range the lower end counts, and what follows the third number is not read,
    as in Slurm.
    """
    fields = ("sockets_per_node", "cores_per_socket", "threads_per_core")
    ordinals = ("first", "second", "third")
    for part, field, ordinal in zip(value.split(":"), fields, ordinals, strict=False):
        word, dash, most = part.partition("-")
        if word in ("", "*") and not dash:
            continue
        if not all(_is_small(text) for text in (word, *([most] if dash else []))):
            raise OptionError(f'Invalid numeric value "{part}" for {ordinal} arg of -B.', 1)
        if not int(word):
            raise OptionError(f"{REFUSED[options.command]}: Node count specification invalid", 1)
        options.request[field] = int(word)


def _is_small(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535


def gres(options: "OptionState", name: str, value: str) -> None:
    """Read `--gres`, generic resources per node; `none` and `help` are special words."""
    from pyslurm_ng.base.tres import MixedTypesError, TresError, parse_gres

    if value == "help":
        options.tell(_gres_help())
    if not value or value.endswith(","):
        options.request["gres"] = value or no_name()  # the controller refuses it
        return
    try:
        resources = parse_gres(value)
    except MixedTypesError:
        raise OptionError(MIXED_TYPES, 1) from None
    except TresError:
        raise OptionError(_NO_TRES, 1) from None
    options.resources += [resource.name for resource in resources]
    options.request["gres"] = value if resources else ""


def _gres_help() -> str:
    """Return what --gres=help prints: the forms of each resource that slurm.conf names."""
    from pyslurm_ng.cli.command import read_conf, split_list

    names = split_list(read_conf("sbatch", "GresTypes").get("GresTypes", ""))
    return "".join(["Valid gres options are:\n", *(f"{name}[[:type]:count]\n" for name in names)])


def tres_per_task(options: "OptionState", name: str, value: str) -> None:
    """Read `cpu=2,gres/gpu:a100=1`; its CPUs and GPUs count as those of the plain options."""
    from pyslurm_ng.base.tres import TresError, parse_gres, parse_tres_per_task

    try:
        tres = parse_tres_per_task(value)
        others = parse_gres(tres.gres)
    except TresError as error:
        if "implemented" in str(error):
            raise OptionError(f"--tres-per-task={error}", 1) from None
        raise OptionError(_NO_TRES, 1) from None
    if tres.cpus:
        options.request["cpus_per_task"] = number(name, str(tres.cpus))
    if tres.gpus:
        options.request["gpus_per_task"] = tres.gpus
        options.resources.append("gpu")
    if tres.gres:
        options.request["tres_per_task"] = tres.gres
    options.resources += [resource.name for resource in others]
    options.task_licenses = tres.licenses


# Time -----------------------------------------------------------------------------------------


def time_limit(options: "OptionState", name: str, value: str) -> None:
    """Read `--time` and `--time-min`; 0 means no limit."""
    try:
        minutes = units.parse_time_limit_min(value)
    except units.UnitError:
        raise invalid(name) from None
    field = "time_limit_min" if name == "time" else "time_min_min"
    options.request[field] = minutes or INFINITE


def moment(options: "OptionState", name: str, value: str) -> None:
    """Read `--begin` and `--deadline`; all moments before 1970 are past alike."""
    from time import time

    from pyslurm_ng.base.dates import DateError, parse_date

    try:
        options.request[f"{name}_us"] = max(1, parse_date(value, int(time()))) * SECOND_US
    except DateError as problem:
        if value:
            options.complain(str(problem))
        raise invalid(name) from None


def nice(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--nice`: 100 without a value; as in Slurm, a text that is no number counts as 0."""
    adjustment = 100
    if value:
        sign = value[:1] if value[:1] in ("+", "-") else ""
        rest = value[len(sign) :]
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        adjustment = int(digits or "0") * (-1 if sign == "-" else 1)
    if abs(adjustment) > _NICE_LIMIT:
        raise OptionError(f"Invalid --nice value, out of range (+/- {_NICE_LIMIT})")
    options.request["nice"] = adjustment
    options.flag(REQ_NICE_SET)


def priority(options: "OptionState", name: str, value: str) -> None:
    """Read `--priority`, a fixed priority for operators; TOP is the highest, and 0 is no priority.

    As in Slurm 22.05, 0 does not hold the job: that is what --hold is for.
    """
    if value.lower() == "top":
        options.request["priority"] = NO_VAL - 1  # the highest that a job can have
        return
    if value[:1] == "-" and value[1:].isdecimal():
        raise OptionError("Priority must be >= 0")
    fixed = number(name, value, 0) if len(value) < 10 or not value.isdecimal() else int(value)
    if fixed >= NO_VAL:
        raise OptionError(f"Priority must be < {NO_VAL}")
    if fixed:
        options.request["priority"] = fixed
    else:
        options.request.pop("priority", None)


def signal(options: "OptionState", name: str, value: str) -> None:
    """Read `--signal=[R][B]:signal[@seconds]`."""
    head, colon, rest = value.partition(":")
    bits = 0
    if colon:
        if not head or head.strip("RBrb"):
            raise invalid(name)
        bits = REQ_SIGNAL_BATCH * ("B" in head.upper()) | REQ_SIGNAL_RESV * ("R" in head.upper())
    else:
        rest = head
    if bits & REQ_SIGNAL_BATCH and options.command != "sbatch":
        raise invalid(name)  # there is no batch shell
    word, _, seconds = rest.partition("@")
    if seconds and not _is_small(seconds):
        raise invalid(name)
    number = signal_number(word)
    if not number:
        raise invalid(name)
    options.flag(bits, REQ_SIGNAL_BATCH | REQ_SIGNAL_RESV)
    options.request["signal"] = number
    options.request["signal_before_s"] = int(seconds) if seconds else 60


def signal_number(word: str) -> int:
    """Return the number of a signal by name (with or without SIG) or number; 0 if unknown."""
    if word.isdecimal():
        return int(word) if 0 < int(word) < 65 else 0
    return SIGNAL_NAMES.get(word.upper().removeprefix("SIG"), 0)


# Switches and choices -------------------------------------------------------------------------


def switches(options: "OptionState", name: str, value: str) -> None:
    """Read `--switches=count[@time]`: the most leaf switches, and how long to wait for so few."""
    count, at, wait = value.partition("@")
    is_wait_alone = options.given[name][0] == ENVIRONMENT  # a variable has the time alone
    if count or not is_wait_alone or not at:
        options.request["switches"] = number(name, count, 1)
        options.request.setdefault("switches_wait_s", INFINITE)  # SchedulerParameters bound it
    if at and wait:
        try:
            wait_s = units.parse_time_limit_s(wait)
        except units.UnitError:
            raise invalid(name) from None
        options.request["switches_wait_s"] = wait_s


def exclusive(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--exclusive`: whole nodes, or nodes that only jobs of one user or segment share.

    Of several the last holds.
    """
    kinds = {"user": REQ_EXCLUSIVE_USER, "mcs": REQ_EXCLUSIVE_MCS, "topo": REQ_EXCLUSIVE_TOPO}
    others = REQ_OVERSUBSCRIBE | REQ_EXCLUSIVE | sum(kinds.values())
    if not value or value.lower() in ("exclusive", "node"):
        options.flag(REQ_EXCLUSIVE, others & ~REQ_EXCLUSIVE)
    elif value.lower() == "oversubscribe":
        oversubscribe(options, name, None)
    elif value.lower() in kinds:
        options.flag(kinds[value.lower()], others & ~kinds[value.lower()])
    else:
        raise invalid(name)


def oversubscribe(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--oversubscribe`: shared nodes, if the partition lets the job choose."""
    options.flag(REQ_OVERSUBSCRIBE, REQ_EXCLUSIVE)


def requeue(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--requeue[=expedite]`."""
    if value and value.lower() != "expedite":
        raise invalid(name)
    options.flag(REQ_REQUEUE | (REQ_EXPEDITE if value else 0), REQ_NO_REQUEUE | REQ_EXPEDITE)


def no_requeue(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--no-requeue`."""
    options.flag(REQ_NO_REQUEUE, REQ_REQUEUE | REQ_EXPEDITE)


def no_kill(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--no-kill[=off]`."""
    if not value or value == "set":
        options.flag(REQ_NO_KILL)
    elif value.lower() in ("off", "no"):
        options.flag(0, REQ_NO_KILL)
    else:
        raise invalid(name)


def open_mode(options: "OptionState", name: str, value: str) -> None:
    """Read `--open-mode`: `append` or `truncate`, of which the first letter counts."""
    if value[:1].lower() not in ("a", "t"):
        raise invalid(name)
    appends = value[0].lower() == "a"
    options.flag(
        REQ_OPEN_APPEND if appends else REQ_OPEN_TRUNCATE,
        REQ_OPEN_TRUNCATE if appends else REQ_OPEN_APPEND,
    )


def kill_on_invalid_dep(options: "OptionState", name: str, value: str) -> None:
    """Read `--kill-on-invalid-dep`: `yes` or `no`."""
    if value.lower() not in ("yes", "no"):
        raise invalid(name)
    kills = value.lower() == "yes"
    options.flag(
        REQ_KILL_INVALID_DEP if kills else REQ_KEEP_INVALID_DEP,
        REQ_KEEP_INVALID_DEP if kills else REQ_KILL_INVALID_DEP,
    )


def get_user_env(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--get-user-env`; the `[timeout][mode]` of Slurm 22.05 has no effect."""
    seconds = (value or "").removeprefix("-")
    if seconds[-1:] in ("s", "S", "l", "L"):
        seconds = seconds[:-1]
    if seconds and not (seconds.isascii() and seconds.isdigit()):
        raise invalid(name)
    options.flag(REQ_GET_USER_ENV)


def wait_all_nodes(options: "OptionState", name: str, value: str) -> None:
    """Read `--wait-all-nodes`, 0 or 1; either way jobs start when all their nodes are ready."""
    answer = number(name, value or "0", 0)
    if answer > 1:
        raise invalid(name)
    options.request["wait_all_nodes"] = answer


def mail_type(options: "OptionState", name: str, value: str) -> None:
    """Read `--mail-type`, a list of events."""
    from pyslurm_ng.base.request_words import MAIL_WORDS

    words = [word.strip().upper() for word in value.split(",") if word]
    if not words or not MAIL_WORDS.keys() >= set(words):
        raise invalid(name)
    bits = 0
    for word in () if "NONE" in words else words:  # NONE counts wherever it stands
        bits |= MAIL_WORDS[word]
    options.request["mail_type"] = bits


def distribution(options: "OptionState", name: str, value: str) -> None:
    """Read `block|cyclic|plane=n|arbitrary|*[:block|cyclic|fcyclic|*[:...]][,Pack|NoPack]`.

    Pack or NoPack may be the whole text. A colon or comma at its end is allowed.
    """
    if value.lower() in ("pack", "nopack"):
        value = f"*,{value}"
    value = value.rstrip(",").rstrip(":") or value
    layout, comma, pack = value.partition(",")
    if comma and pack.lower() not in ("pack", "nopack"):
        raise invalid(name)
    levels = layout.lower().split(":")
    first = levels[0]
    if first.startswith("plane"):
        size = first.removeprefix("plane").lstrip("=")
        if not size and options.given.get(name, (COMMAND_LINE,))[0] == ENVIRONMENT:
            size = os.environ.get("SLURM_DIST_PLANESIZE", "")  # as a job's variables have it
            value = f"{value}={size}"
        if not size.isdecimal() or not int(size) or len(levels) > 1:
            error = invalid(name)
            text = f"Invalid plane size or size not specified\n{error.text}"
            raise OptionError(text, error.code)
        options.request["plane_size"] = number(name, size)
    elif first not in ("block", "cyclic", "arbitrary", "*"):
        raise invalid(name)
    if len(levels) > 3 or any(
        level not in ("block", "cyclic", "fcyclic", "*") for level in levels[1:]
    ):
        raise invalid(name)
    options.request["distribution"] = value


_HINT_HELP = """\
Application hint options:
    --hint=             Bind tasks by what limits the program
        compute_bound   all cores of each socket, one thread of each
        memory_bound    one core of each socket
        [no]multithread several threads of a core, or only one
        help            show this
"""


def hint(options: "OptionState", name: str, value: str) -> None:
    """Read `--hint`, a preset for threads and cores."""
    if value == "help":
        options.tell(_HINT_HELP, 1)  # as in Slurm, which takes it for an option that failed
    if value.lower() not in HINTS:
        raise OptionError(f'unrecognized --hint argument "{value}", see --hint=help', 1)
    options.request["hint"] = value.lower()


def binding(options: "OptionState", name: str, value: str) -> None:
    """Read `--cpu-bind` and `--mem-bind`: the resources that tasks are bound to."""
    from pyslurm_ng.cli.submit.binding_options import read

    read(options, name, value)


def gpu_bind(options: "OptionState", name: str, value: str) -> None:
    """Read `--gpu-bind` and `--tres-bind`: how tasks share GPUs."""
    from pyslurm_ng.base.gpu_bind import GpuBindError, gpu_part, parse_gpu_bind

    try:
        if name == "gpu-bind":
            parse_gpu_bind(value)
        else:
            gpu_part(value)
    except GpuBindError as problem:
        raise OptionError(str(problem)) from None
    options.request[name.replace("-", "_")] = value


def oom_kill_step(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--oom-kill-step`: whether a task that runs out of memory ends its step."""
    if value not in (None, "", "0", "1"):
        raise OptionError(f"Invalid --{name} specification: {value}; 0 or 1 is allowed", 1)
    options.request["oom_kill_step"] = int(value or 1)


def resv_ports(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--resv-ports`: how many ports a step gets; by default as many as its tasks need."""
    options.request["resv_ports"] = number(name, value, 0) if value else 0


def sampling(options: "OptionState", name: str, value: str) -> None:
    """Read `--acctg-freq=30` or `task=30,energy=60`: seconds between samples."""
    for word in filter(None, value.split(",")):
        kind, equals, seconds = word.rpartition("=")
        is_known = kind in ("task", "energy", "network", "filesystem") if equals else not kind
        if not is_known or not (seconds.isascii() and seconds.isdigit()):
            raise OptionError(f"{invalid(name).text}: {value}")
    options.request["acctg_freq"] = value


def propagate(options: "OptionState", name: str, value: "str | None") -> None:
    """Read `--propagate`, the limits that are sent with the job: ALL, NONE or a list."""
    words = [word.upper().removeprefix("RLIMIT_") for word in (value or "ALL").split(",")]
    for word, value_text in zip(words, (value or "ALL").split(","), strict=True):
        is_known = word in RLIMITS or (len(words) == 1 and word in ("ALL", "NONE"))
        if not is_known or word not in value_text:
            raise OptionError(f"Bad rlimit name: {value_text}\n--{name}={value} is not valid.", 1)
    options.settings["propagate"] = ",".join(words)
