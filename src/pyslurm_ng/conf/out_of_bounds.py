"""Values with which Slurm starts though they are out of bounds, and what they mean.

Seen of Slurm 22.05. A site's file that has one starts here, too, and a warning names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyslurm_ng.base.units import whole_number
from pyslurm_ng.conf.cpu_frequency import FREQUENCY
from pyslurm_ng.conf.lexer import ConfText, Entry
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.tables.keys import GRES, PARAMETERS, SLURMDBD
from pyslurm_ng.conf.values import option_problem


class _Meant(NamedTuple):
    """The value that counts, and the end of the warning."""

    value: str
    said: str


def within_bounds(text: ConfText, section: str, entry: Entry) -> Entry:
    """Return an entry with the value that counts; a warning names what stands there, once."""
    rule = _RULES.get((section, entry.key.lower()))
    meant = rule(entry.value.strip()) if rule is not None else None
    if meant is None:
        return entry
    name = f"{entry.key.lower()}={entry.value}"
    if (section, name) not in text.named:
        text.named.add((section, name))
        text.warnings.append(f"{entry.file}:{entry.line}: {entry.key}={entry.value} {meant.said}")
    return entry._replace(value=meant.value)


def _time_slice(value: str) -> _Meant | None:
    number = whole_number(value)
    if number is None or number >= _LEAST_SLICE_S:
        return None
    return _Meant("30", f"is less than {_LEAST_SLICE_S} seconds and means 30")


def _no_more_than(most: int) -> Callable[[str], _Meant | None]:
    def rule(value: str) -> _Meant | None:
        number = whole_number(value)
        if number is None or number <= most:
            return None
        return _Meant(str(most), f"means the most that is allowed: {most}")

    return rule


def _the_most(key: Key) -> Callable[[str], _Meant | None]:
    """Return a rule for numbers above all that count: Slurm takes UNLIMITED for the greatest."""
    most = min(key.high, _MOST_16_BITS - 2) if key.high <= _MOST_16_BITS else key.high

    def rule(value: str) -> _Meant | None:
        number = whole_number(value)
        is_marker = number is not None and most < number <= _MOST_16_BITS
        if value == key.default or (not is_marker and value.lower() not in _UNLIMITED):
            return None
        return _Meant(str(most), f"means the most that is allowed: {most}")

    return rule


def _first_of(*rules: Callable[[str], _Meant | None]) -> Callable[[str], _Meant | None]:
    """Return the first of some rules that has something to say."""
    return lambda value: next(filter(None, (rule(value) for rule in rules)), None)


def _return_to_service(value: str) -> _Meant | None:
    number = whole_number(value)
    if number is None or not _MOST_RETURN < number <= _MOST_16_BITS:
        return None
    return _Meant("0", "is none of 0, 1 and 2, and means 0")


def _srun_ports(value: str) -> _Meant | None:
    first, dash, last = value.partition("-")
    low, high = whole_number(first), whole_number(last if dash else first)
    if low is None or high is None or value in ("0", "0-0"):
        return None
    if dash and 0 < low < high <= _MOST_16_BITS:
        return None
    return _Meant("0", "is no ascending range within 1 to 65535, and means any port")


def _exit_codes(value: str) -> _Meant | None:
    """Leave out codes that no script can end with."""
    kept, left_out = [], []
    for word in filter(None, (word.strip() for word in value.strip("[]").split(","))):
        first, dash, last = word.partition("-")
        low, high = whole_number(first), whole_number(last if dash else first)
        if low is None or high is None or low > high or high <= _MOST_EXIT_CODE:
            kept.append(word)  # if it cannot be read, that is said elsewhere
            continue
        left_out.append(word)
        if low <= _MOST_EXIT_CODE:
            kept.append(f"{low}-{_MOST_EXIT_CODE}")
    if not left_out:
        return None
    said = f"no script ends with more than {_MOST_EXIT_CODE}"
    return _Meant(",".join(kept), f"counts as {','.join(kept) or 'none'}: {said}")


def _at_least_one(value: str) -> _Meant | None:
    return _Meant("1", "means 1") if whole_number(value) == 0 else None


def _known_of(keys: Sequence[Key], name: str) -> Callable[[str], _Meant | None]:
    """Return a rule that leaves out the words that a list does not know."""
    (choices,) = (key.choices for key in keys if key.name == name)
    known = {choice.lower() for choice in choices} | {"none", "(null)"}

    def rule(value: str) -> _Meant | None:
        words = [word.strip() for word in value.split(",") if word.strip()]
        unknown = [word for word in words if word.lower() not in known]
        if not unknown:
            return None
        kept = ",".join(word for word in words if word.lower() in known)
        return _Meant(kept, f"counts as {kept or 'none'}: {','.join(unknown)} is unknown")

    return rule


def _right_words(list_name: str) -> Callable[[str], _Meant | None]:
    """Return a rule that leaves out words of a list that have a value out of bounds."""

    def rule(value: str) -> _Meant | None:
        words = [word.strip() for word in value.split(",") if word.strip()]
        problems = {word: option_problem(list_name, word) for word in words}
        kept = ",".join(word for word in words if not problems[word])
        said = "; ".join(text for text in problems.values() if text)
        return _Meant(kept, f"counts as {kept or 'none'}: {said}") if said else None

    return rule


def _default_frequency(value: str) -> _Meant | None:
    if not value or FREQUENCY.fullmatch(value.lower()):
        return None
    return _Meant("", "is ignored: it is neither a frequency in kHz nor a governor")


def _governors(value: str) -> _Meant | None:
    (key,) = (key for key in PARAMETERS if key.name == "CpuFreqGovernors")
    known = {choice.lower() for choice in key.choices}
    if {word.strip().lower() for word in value.split(",") if word.strip()} <= known:
        return None
    return _Meant(key.default, f"is ignored, and {key.default} count: a governor is unknown")


def _health_states(value: str) -> _Meant | None:
    meant = _known_of(PARAMETERS, "HealthCheckNodeState")(value)
    if meant is None or meant.value:
        return meant
    return _Meant("ANY", meant.said.replace("as none", "as ANY", 1))


def _private_data(value: str) -> _Meant | None:
    """Leave out what slurm.conf alone hides. A misspelt word must not show what is private."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    kept = ",".join(word for word in words if word.lower() not in _HIDDEN_BY_SLURMCTLD)
    if kept == ",".join(words):
        return None
    return _Meant(kept, f"counts as {kept or 'none'}: slurm.conf hides the rest")


_HIDDEN_BY_SLURMCTLD = ("cloud", "nodes", "partitions")
_LEAST_SLICE_S = 5
_MOST_ARRAY_SIZE = 4_000_001
_MOST_PERCENT = 100
_MOST_RETURN = 2
_MOST_16_BITS = 65_535
_MOST_EXIT_CODE = 255
_SIZES_OF_NODES = (
    "boards", "corespersocket", "cpus", "procs", "sockets", "socketsperboard", "threadspercore",
)  # fmt: skip
_UNLIMITED = ("unlimited", "infinite")
_NUMBERS = ("int", "seconds", "minutes", "rate", "microseconds")
# Numbers in which UNLIMITED says nothing, and those with a meaning for each.
_COUNTED = ("DefCpuPerGPU", "FirstJobId", "MaxNodeCount", "PropagatePrioProcess",
            "ReturnToService", "SlurmSchedLogLevel")  # fmt: skip
_MOST = {
    key.name.lower(): _the_most(key)
    for key in PARAMETERS
    if key.kind in _NUMBERS
    and not key.infinite
    and not key.name.endswith("Port")
    and key.name not in _COUNTED
}
_RULES = {
    **{("slurm.conf", name): rule for name, rule in _MOST.items()},
    **{
        ("slurm.conf", name.lower()): _right_words(name)
        for name in (
            "BcastParameters",
            "CommunicationParameters",
            "DependencyParameters",
            "PreemptParameters",
            "SchedulerParameters",
            "SlurmctldParameters",
        )
    },
    ("slurm.conf", "cpufreqdef"): _default_frequency,
    ("slurm.conf", "cpufreqgovernors"): _governors,
    ("slurm.conf", "healthchecknodestate"): _health_states,
    ("slurm.conf", "maxarraysize"): _first_of(
        _no_more_than(_MOST_ARRAY_SIZE), _MOST["maxarraysize"]
    ),
    ("slurm.conf", "requeueexit"): _exit_codes,
    ("slurm.conf", "requeueexithold"): _exit_codes,
    ("slurm.conf", "returntoservice"): _return_to_service,
    ("slurm.conf", "schedulertimeslice"): _first_of(_time_slice, _MOST["schedulertimeslice"]),
    ("slurm.conf", "srunportrange"): _srun_ports,
    ("slurm.conf", "logtimeformat"): _known_of(PARAMETERS, "LogTimeFormat"),
    ("slurmdbd.conf", "logtimeformat"): _known_of(SLURMDBD, "LogTimeFormat"),
    ("slurmdbd.conf", "parameters"): _known_of(SLURMDBD, "Parameters"),
    ("slurmdbd.conf", "privatedata"): _private_data,
    ("cgroup.conf", "memoryswappiness"): _no_more_than(_MOST_PERCENT),
    ("gres.conf", "flags"): _known_of(GRES, "Flags"),
    **{("NodeName", name): _at_least_one for name in _SIZES_OF_NODES},
}
