"""The value of a key from its text, or a sentence that says what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyslurm_ng.base.hostlist import HostlistError, count
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.base.tres import TresError, parse_node_gres, parse_weights
from pyslurm_ng.base.units import UnitError, parse_time_limit_s, whole_number
from pyslurm_ng.base.word_values import FALSE_WORDS, TRUE_WORDS
from pyslurm_ng.conf.tables.key import ControllerHost, Key
from pyslurm_ng.conf.tables.options import OPTIONS

_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_UNLIMITED = ("infinite", "unlimited")
# Lists in which Slurm refuses unknown words, and PrivateData, where a misspelt word would show what
# is private. In other lists it ignores them, so that sites can keep words of newer, older and
# patched releases.
_STRICT_OPTIONS = {
    "AccountingStorageEnforce",
    "PrivateData",
    "PrologFlags",
    "TaskPluginParam",
}
# As the manual of slurm.conf has it. Most other numbers from 0 on take -1, too, but not counts and
# times of jobs: less than none would refuse every job.
_OFF_BY_MINUS_ONE = ("bf_interval",)
_NEVER_MINUS_ONE = (
    "bb_",
    "bf_",
    "max_array",
    "max_rpc",
    "max_script",
    "max_submit",
    "max_switch",
    "requeue_",
)
_PURGE_UNITS = ("hours", "days", "months")


class BadValue(ValueError):
    """A value that a key does not take; the text says which values it takes."""


def convert(key: Key, text: str) -> Any:
    """Return the typed value of a key.

    Raises:
        BadValue: with a text that completes ``file:line: Key: ...``.
    """
    return _CONVERTERS[key.kind](key, text.strip())


def unknown_options(key: Key, text: str) -> list[str]:
    """Return the unknown words of a list parameter that ignores them."""
    if key.name == "MCSParameters":
        text = text.partition(":")[0]  # names of groups follow
    elif key.kind != "options" or key.name in _STRICT_OPTIONS or key.name not in OPTIONS:
        return []
    if _is_none(text):
        return []
    known = {name.lower() for name, *_ in OPTIONS[key.name]}
    patterns = [name.split("*")[0].split("<")[0] for name in known if "*" in name or "<" in name]
    unknown = []
    for word in _words(text):
        name = word.partition("=")[0].lower()
        if name not in known and not any(name.startswith(pattern) for pattern in patterns):
            unknown.append(word)
    return unknown


def option_problem(list_name: str, word: str) -> str:
    """Return what is wrong with the value of a known word of a list parameter; "" for nothing."""
    name, equals, value = (part.strip() for part in word.partition("="))
    for proper, kind, low, high in OPTIONS[list_name]:
        if proper.lower() != name.lower() or kind == "flag":
            continue
        if (
            value == "-1"
            and proper.startswith(_NEVER_MINUS_ONE)
            and proper not in _OFF_BY_MINUS_ONE
        ):
            return f"{proper}=-1 is out of range; allowed: {low} to {high}"
        try:
            _check_option(proper, kind, low, high, value, bool(equals))
        except BadValue as error:
            return str(error)
    return ""


def near_option(key: Key, word: str) -> str:
    """Return a hint for an unknown word of an options list: the nearest known one, if any is."""
    # Imported here because only a faulty configuration needs it.
    from difflib import get_close_matches

    names = {name.lower(): name for name, *_ in OPTIONS[key.name]}
    near = get_close_matches(word.partition("=")[0].lower(), names, n=1, cutoff=0.75)
    if near:
        return f"; did you mean {names[near[0]]}"
    return "; names of groups stand behind a colon" if key.name == "MCSParameters" else ""


def option_text(words: tuple[str, ...], name: str) -> str | None:
    """Return the value of ``name=value`` in a list parameter; None if the word is not there.

    A flag without value gives the empty text. Words compare without regard to case.
    """
    lower_name = name.lower()
    for word in words:
        word_name, _, value = word.partition("=")
        if word_name.lower() == lower_name:
            return value
    return None


def option_int(words: tuple[str, ...], name: str, default: int) -> int:
    """Return the number of ``name=number`` in a list parameter (already checked when read).

    A number of bytes may end in k, m or g.
    """
    value = option_text(words, name)
    if not value:
        return default
    unit = _BYTES.get(value[-1].lower())
    return int(value[:-1]) * unit if unit else int(value)


def has_option(words: tuple[str, ...], name: str) -> bool:
    """Return whether a list parameter holds a word, with or without a value."""
    return option_text(words, name) is not None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _is_none(text: str) -> bool:
    return text.lower() in ("", "none", "(null)")


def _allowed(choices: tuple[str, ...]) -> str:
    return f"allowed: {', '.join(choices)}"


def _text(key: Key, text: str) -> str:
    return text


def _path(key: Key, text: str) -> str:
    if text and not text.startswith("/") and key.name in _ABSOLUTE_PATHS:
        raise BadValue(f"'{text}' is not an absolute path")
    return "" if text.lower() == "none" else text


_ABSOLUTE_PATHS = {
    "StateSaveLocation",
    "SlurmctldPidFile",
    "SlurmdPidFile",
    "SlurmdSpoolDir",
    "SlurmctldLogFile",
    "SlurmdLogFile",
    "SlurmSchedLogFile",
    "CgroupMountpoint",
    "LogFile",
    "PidFile",
}


def _user(key: Key, text: str) -> str:
    if not text or any(c.isspace() or c in ":,/" for c in text):
        raise BadValue("expected a user name or uid")
    return text


def _cluster_name(key: Key, text: str) -> str:
    if not text or len(text) > 40 or not all(c.isalnum() or c in "_-." for c in text):
        raise BadValue("expected 1 to 40 letters, digits, dots, dashes and underscores")
    return text.lower()


def _bool(key: Key, text: str) -> bool:
    lowered = text.lower()
    if lowered in TRUE_WORDS:
        return True
    if lowered in FALSE_WORDS:
        return False
    raise BadValue(f"'{text}' is neither YES nor NO")


def _enum(key: Key, text: str) -> str:
    # Debug levels were numbers in the past, and sites still write them.
    if text.isdecimal() and key.choices[:2] == ("quiet", "fatal"):
        return key.choices[min(int(text), len(key.choices) - 1)]
    if key.name == "CpuBind":  # scontrol shows `cores`
        text = text.lower().removesuffix("s")
    for choice in key.choices:
        if text.lower() == choice.lower():
            return choice
    if not key.choices:
        return text
    raise BadValue(f"'{text}' is unknown; {_allowed(key.choices)}")


# A cluster without a plugin of these kinds does not work, so Slurm has no plugin called none.
_NEEDED_PLUGINS = ("AuthType", "CredType", "ProctrackType", "SchedulerType", "SelectType")


def _plugin(key: Key, text: str) -> str:
    text = _PLUGIN_ALIASES.get((key.name, text.lower()), text)
    is_needed = key.name in _NEEDED_PLUGINS
    if not is_needed and (_is_none(text) or text.lower().endswith("/none")):
        return ""
    if not key.choices:
        return text
    word = text.removeprefix(_PLUGIN_TYPES.get(key.name, ""))
    for choice in key.choices:
        if word.lower() in (choice.lower(), choice.partition("/")[2].lower()):
            return choice
    none = "" if is_needed else ", none"
    problem = _REMOVED_PLUGINS.get((key.name, text.lower()), "is unknown")
    raise BadValue(f"'{text}' {problem}; {_allowed(key.choices)}{none}")


# Slurm stops, too: the site would go without what it relies on.
_REMOVED_PLUGINS = {
    ("AccountingStorageType", f"accounting_storage/{name}"): "no longer exists, and only slurmdbd "
    "writes to a database"
    for name in ("filetxt", "mysql", "pgsql")
} | {("AuthType", "auth/none"): "no longer exists", ("CredType", "cred/none"): "no longer exists"}


_PLUGIN_ALIASES = {
    ("TopologyPlugin", "none"): "topology/flat",
    ("TopologyPlugin", "topology/default"): "topology/flat",
    ("TopologyPlugin", "topology/none"): "topology/flat",
    ("SelectType", "select/cons_res"): "select/cons_tres",
    ("JobContainerType", "job_container/tmpfs"): "namespace/tmpfs",
    ("NamespaceType", "job_container/tmpfs"): "namespace/tmpfs",
}
# Plugins are named without their type here, but sites write the type before them.
_PLUGIN_TYPES = {"JobSubmitPlugins": "job_submit/"}


def _plugins(key: Key, text: str) -> tuple[str, ...]:
    names = [_plugin(key, word) for word in _words(text)]
    return tuple(name for name in names if name)


def _mpi(key: Key, text: str) -> str:
    word = text.lower().removeprefix("mpi/")
    if word in ("", "none"):
        return ""
    if word in ("pmi2", "cray_shasta") or word == "pmix" or word.startswith("pmix_v"):
        return word
    raise BadValue(f"'{text}' is unknown; allowed: none, pmi2, pmix, cray_shasta")


def _integer(key: Key, text: str, unit: str) -> int:
    if key.name == "SuspendTime" and text.lower() in ("none", "-1"):
        return INFINITE
    if key.infinite and text.lower() in _UNLIMITED:
        return INFINITE
    if not key.infinite and key.default == text == "-1":
        return NO_VAL
    # Sites copy what scontrol shows: "10 sec".
    word = text.partition(" ")[0]
    if not (word.isascii() and word.isdigit()) or len(word) > 19:
        raise BadValue(f"'{text}' is not a number{unit}; {_bounds(key)}")
    number = int(word)
    if str(number) != key.default and not key.low <= number <= key.high:
        raise BadValue(f"{number} is out of range; {_bounds(key)}")
    return number


def _bounds(key: Key) -> str:
    tail = " or UNLIMITED" if key.infinite else ""
    return f"allowed: {key.low} to {key.high}{tail}"


def _int(key: Key, text: str) -> int:
    return _integer(key, text, "")


def _seconds(key: Key, text: str) -> int:
    return _integer(key, text, " of seconds")


def _minutes(key: Key, text: str) -> int:
    if ":" in text or (text.count("-") == 1 and not text.startswith("-")):
        seconds = _duration(key, text)
        return seconds if seconds == INFINITE else seconds // 60
    return _integer(key, text, " of minutes")


def _duration(key: Key, text: str) -> int:
    if key.default == "-1" and text.lower() in ("-1", *_UNLIMITED):
        return NO_VAL
    try:
        return parse_time_limit_s(text)
    except UnitError:
        raise BadValue(
            f"'{text}' is not a time; allowed: minutes, minutes:seconds, hours:minutes:seconds, "
            "days-hours, days-hours:minutes, days-hours:minutes:seconds, UNLIMITED"
        ) from None


def _duration_s(key: Key, text: str) -> int:
    """Return seconds."""
    if text.lower() in _UNLIMITED:
        return INFINITE
    seconds = whole_number(text)
    if seconds is None:
        raise BadValue(f"'{text}' is not a number of seconds; allowed: seconds or UNLIMITED")
    return seconds


def _limit_min(key: Key, text: str) -> int:
    if text == str(NO_VAL) or text.lower() == "none":
        return NO_VAL
    seconds = _duration(key, text)
    return seconds if seconds == INFINITE else -(-seconds // 60)


def _mem_mib(key: Key, text: str) -> int:
    """Return MiB; Slurm takes no unit here."""
    if text.lower() in _UNLIMITED and key.name not in _OF_A_NODE:
        return 0
    mib = whole_number(text)
    if mib is None:
        raise BadValue(f"'{text}' is not a number of megabytes")
    return mib


# What a node has is never without limit: it could not register.
_OF_A_NODE = ("MemSpecLimit", "RealMemory", "TmpDisk")


def _percent(key: Key, text: str) -> float:
    """Return a number of percent; Slurm takes no sign behind it."""
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()):
        raise BadValue(f"'{text}' is not a number of percent, such as 98.5")
    return float(text) if "." in text else int(text)


def _list(key: Key, text: str) -> tuple[str, ...]:
    words = _words(text)
    if not key.choices:
        return () if _is_none(text) else words
    if _is_none(text) and "none" not in (choice.lower() for choice in key.choices):
        return ()
    known = {choice.lower(): choice for choice in key.choices}
    if key.name.startswith("PropagateResourceLimits"):
        words = tuple(word.upper().removeprefix("RLIMIT_") for word in words)
    chosen = []
    for word in words:
        choice = known.get(word.lower())
        if choice is None:
            raise BadValue(f"'{word}' is unknown; {_allowed(key.choices)}")
        chosen.append(choice)
    return tuple(chosen)


def _options(key: Key, text: str) -> tuple[str, ...]:
    if _is_none(text) and key.name != "TaskPluginParam":
        return ()
    known = {name.lower(): (name, kind, low, high) for name, kind, low, high in OPTIONS[key.name]}
    if key.name == "PrivateData" and "all" in map(str.lower, _words(text)):
        return tuple(name for name, *_ in OPTIONS[key.name])
    words = []
    for word in _words(text):
        name, equals, value = word.partition("=")
        value_kind = known.get(name.strip().lower())
        if value_kind is None:
            if key.name in _STRICT_OPTIONS:
                names = tuple(option[0] for option in OPTIONS[key.name])
                raise BadValue(f"'{word}' is unknown; {_allowed(names)}")
            words.append(word)
            continue
        proper, kind, low, high = value_kind
        if kind == "flag":
            words.append(proper if not equals else f"{proper}={value}")
            continue
        _check_option(proper, kind, low, high, value.strip(), bool(equals))
        words.append(f"{proper}={value.strip()}")
    return tuple(words)


def _check_option(name: str, kind: str, low: int, high: int, value: str, is_given: bool) -> None:
    if not is_given or (not value and kind != "text"):
        raise BadValue(f"{name} needs a value ({name}={kind})")
    if "/" in kind:
        if value.lower() not in kind.split("/"):
            raise BadValue(f"{name}={value} is unknown; {_allowed(tuple(kind.split('/')))}")
    elif kind in ("int", "seconds", "minutes", "microseconds", "percent", "bytes", "ms"):
        digits = value[:-1] if kind == "bytes" and value[-1:].lower() in "kmg" else value
        if kind == "percent":
            digits = digits.partition(".")[0] if value.replace(".", "", 1).isdecimal() else value
        takes_minus_one = low == 0 or name in _OFF_BY_MINUS_ONE
        digits = digits.removeprefix("-") if takes_minus_one and value == "-1" else digits
        if not (digits.isascii() and digits.isdigit()):
            raise BadValue(f"{name}={value} is not a number; allowed: {low} to {high}")
        if value != "-1" and not low <= int(digits) <= high:
            raise BadValue(f"{name}={value} is out of range; allowed: {low} to {high}")
    elif kind == "range":
        ends = value.split("-")
        if len(ends) != 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise BadValue(f"{name}={value} is not a range a-b within 1 to 65535")
        if not 1 <= int(ends[0]) <= int(ends[1]) <= 65535:
            raise BadValue(f"{name}={value} is not a range a-b within 1 to 65535")
    elif kind == "time":
        try:
            parse_time_limit_s(value)
        except UnitError:
            raise BadValue(f"{name}={value} is not a time") from None


def _lower_words(key: Key, text: str) -> tuple[str, ...]:
    """Return names in lower case; ALL means no restriction."""
    return () if text.upper() == "ALL" else tuple(word.lower() for word in _words(text))


def _plain_words(key: Key, text: str) -> tuple[str, ...]:
    if key.name == "AllowGroups" and text.upper() == "ALL":
        return ()
    return () if _is_none(text) else _words(text)


def _frequencies(key: Key, text: str) -> tuple[str, ...]:
    words = []
    for word in _words(text):
        name, equals, value = word.partition("=")
        if not equals:
            name, value = "task", word
        if name.lower() not in ("task", "energy", "network", "filesystem") or not value.isdecimal():
            raise BadValue(
                f"'{word}' is unknown; allowed: seconds, or task=, energy=, network=, "
                "filesystem= and seconds"
            )
        words.append(f"{name.lower()}={int(value)}")
    return tuple(words)


def _hosts(key: Key, text: str) -> tuple[ControllerHost, ...]:
    hosts = []
    for word in _words(text):
        name, parenthesis, rest = word.partition("(")
        if not name or (parenthesis and (not rest.endswith(")") or rest == ")")):
            raise BadValue(f"'{word}' is not host or host(address)")
        hosts.append(ControllerHost(name, rest[:-1] if parenthesis else ""))
    return tuple(hosts)


def _ports(key: Key, text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise BadValue(f"'{text}' is not a port or range of ports a-b")
    low, high = int(first), int(last)
    if not low <= high <= 65535 or (low == 0 and high != 0) or (low == 0 and key.default != "0"):
        raise BadValue(f"'{text}' is not within 1 to 65535")
    return low, high


def _codes(key: Key, text: str) -> tuple[int, ...]:
    """Return numbers, each range as its numbers: exit codes, core numbers, sizes."""
    numbers: list[int] = []
    highest = 255 if key.name.startswith("RequeueExit") else 1_000_000
    for word in _words("" if _is_none(text) else text.strip("[]")):
        first, dash, last = word.partition("-")
        last = last if dash else first
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            raise BadValue(f"'{word}' is not a number or range a-b")
        if int(first) > int(last) or int(last) > highest:
            raise BadValue(f"'{word}' is not an ascending range within 0 to {highest}")
        numbers.extend(range(int(first), int(last) + 1))
    return tuple(numbers)


def _licenses(key: Key, text: str) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for word in _words("" if _is_none(text) else text):
        name, _, amount = word.replace("*", ":").partition(":")
        if not name or (amount and not amount.isdecimal()):
            raise BadValue(f"'{word}' is not name or name:count")
        if name in counts:
            raise BadValue(f"'{name}' given twice")
        counts[name] = int(amount or 1)
    return tuple(counts.items())


def _weights(key: Key, text: str) -> str:
    if text.lower() in ("", "none", "0"):
        return ""
    try:
        parse_weights(text)
    except TresError as error:
        raise BadValue(f"{error}; allowed: TRES=weight, as CPU=1.0,Mem=0.25G,GRES/gpu=2") from None
    return text


def _hostlist(key: Key, text: str) -> str:
    try:
        count(text)
    except HostlistError as error:
        raise BadValue(str(error)) from None
    return text


def _gres(key: Key, text: str) -> Any:
    if _is_none(text):
        return ()
    try:
        return parse_node_gres(text)
    except TresError as error:
        raise BadValue(str(error)) from None


def _oversubscribe(key: Key, text: str) -> str:
    word, colon, amount = text.upper().partition(":")
    if word in ("NO", "EXCLUSIVE") and not colon:
        return word
    if word in ("YES", "FORCE") and (
        not colon or (amount.isdecimal() and 1 <= int(amount) < 2**15)
    ):
        return f"{word}:{int(amount) if colon else 4}"
    raise BadValue(f"'{text}' is unknown; allowed: NO, EXCLUSIVE, YES[:count], FORCE[:count]")


def _count(key: Key, text: str) -> int:
    shifts = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
    shift = shifts.get(text[-1:].upper(), 0)
    digits = text[:-1] if shift else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise BadValue(f"'{text}' is not a count; allowed: a number with K, M, G, T or P")
    return int(digits) << shift


def _purge(key: Key, text: str) -> tuple[int, str]:
    if text.lower() in ("", "never", "0"):
        return 0, ""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(digits) :].strip().lower() or "months"
    names = [name for name in _PURGE_UNITS if name.startswith(unit)]
    if not digits.isdecimal() or len(names) != 1:
        raise BadValue(f"'{text}' is not a number with hours, days or months")
    return int(digits), names[0]


_CONVERTERS: dict[str, Callable[[Key, str], Any]] = {
    "string": _text,
    "path": _path,
    "paths": _plain_words,
    "user": _user,
    "cluster_name": _cluster_name,
    "bool": _bool,
    "enum": _enum,
    "plugin": _plugin,
    "plugins": _plugins,
    "mpi": _mpi,
    "int": _int,
    "seconds": _seconds,
    "microseconds": _int,
    "minutes": _minutes,
    "duration": _duration,
    "duration_s": _duration_s,
    "limit_min": _limit_min,
    "mem_mib": _mem_mib,
    "percent": _percent,
    "rate": _int,
    "list": _list,
    "options": _options,
    "words": _plain_words,
    "lower_words": _lower_words,
    "frequencies": _frequencies,
    "hosts": _hosts,
    "ports": _ports,
    "codes": _codes,
    "licenses": _licenses,
    "weights": _weights,
    "hostlist": _hostlist,
    "gres": _gres,
    "oversubscribe": _oversubscribe,
    "count": _count,
    "purge": _purge,
}
