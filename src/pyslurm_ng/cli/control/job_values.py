"""Which values the keys of `scontrol update job` take, and Slurm's words for the others."""

from pyslurm_ng.base.numbers import INFINITE, NO_VAL

MOST_NICE = 2147483645
_MOST_16 = 65533  # Slurm keeps some counts in 16 bits; the last values mean something else
_MOST_32 = NO_VAL - 1
_MOST_RANGE = 2147483646
_MOST = {
    **dict.fromkeys(
        ("cpuspertask", "mincpusnode", "taskspernode", "reqcores", "reqsockets", "reqthreads")
        + ("corespec", "threadspec"),
        _MOST_16,
    ),
    **dict.fromkeys(("mintmpdisknode", "numtasks", "priority", "wait-for-switch"), _MOST_32),
}
_RANGES = {"numcpus": "NumCPUs", "numnodes": "requested node count"}
_FLAGS = ("contiguous", "oversubscribe", "reboot", "requeue")
_SHOWN = {"reboot": "reboot"}  # as Slurm writes it


def complaint(name: str, shown: str, value: str) -> str:
    """Return Slurm's words for a value that a key does not take, or "".

    Args:
        name: the key in lower case; `shown` is the same as messages write it.
    """
    if name == "arraytaskthrottle":
        is_count = _is_count(value, MOST_NICE + 1)
        return "" if is_count else "scontrol: error: Invalid ArrayTaskThrottle value"
    if name in _RANGES:
        return _of_range(name, shown, value)
    if name in ("nice", "sitefactor"):
        return _of_signed(name, shown, value)
    if name == "mailtype":
        return "" if _is_mail_type(value) else f"Invalid MailType: {value}"
    if name in ("timelimit", "timemin", "delayboot"):
        return "" if _is_time_limit(value) else f"scontrol: error: Invalid {shown} value"
    if _is_taken(name, value):
        return ""
    return f"scontrol: error: Invalid {_SHOWN.get(name, shown)} value: {value}"


def _is_taken(name: str, value: str) -> bool:
    if name in _MOST:
        return _is_count(value, _MOST[name])
    if name in ("minmemorycpu", "minmemorynode"):
        return _is_memory(value)
    if name in _FLAGS:
        return value.lower() in ("yes", "no", "y", "n", "1", "0")
    return name != "switches" or _are_switches(value)


def _is_count(value: str, most: int) -> bool:
    return value.isascii() and value.isdigit() and int(value) <= most


def _of_range(name: str, shown: str, value: str) -> str:
    """Return what is wrong with `N` or `N-M`; of nodes each may be in K or M."""
    ends = value.split("-", 1)
    if name == "numnodes":
        ends = [end.rstrip("kKmM") if end[:-1].isdecimal() else end for end in ends]
    text = ""
    for end in ends:
        if not (end.isascii() and end.isdigit()):
            text = f'scontrol: error: Invalid numeric value "{value}" for {_RANGES[name]}.'
        elif int(end) > _MOST_RANGE:
            text = f"scontrol: error: Numeric argument ({end}) to big for {_RANGES[name]}."
        if text:
            break
    if name == "numnodes":
        return text
    line = f"scontrol: error: Invalid {shown} value: {value}"
    if text:
        return f"{text}\n{line}"
    return line if int(ends[0]) > int(ends[-1]) or not int(ends[0]) else ""


def _of_signed(name: str, shown: str, value: str) -> str:
    digits = value[1:] if value[:1] in ("+", "-") else value
    if not value and name == "nice":
        return ""  # 100
    if not (digits.isascii() and digits.isdigit()):
        return f"scontrol: error: Invalid {shown} value: {value}"
    if int(digits) > MOST_NICE:
        return f"scontrol: error: {shown} value out of range (+/- {MOST_NICE}). Value ignored"
    return ""


def _is_mail_type(value: str) -> bool:
    from pyslurm_ng.base.request_words import MAIL_WORDS

    return all(word.strip().upper() in MAIL_WORDS for word in value.split(","))


def _is_time_limit(value: str) -> bool:
    from pyslurm_ng.base.units import UnitError, parse_time_limit_min

    try:
        parse_time_limit_min(value[value[:1] in ("+", "-") :])
    except UnitError:
        return False
    return True


def _is_memory(value: str) -> bool:
    from pyslurm_ng.base.units import UnitError, parse_mem_mib

    try:
        parse_mem_mib(value)
    except UnitError:
        return False
    return True


def _are_switches(value: str) -> bool:
    """Return whether a text is `COUNT[@TIME]`."""
    from pyslurm_ng.base.units import UnitError, parse_time_limit_s

    count, at, wait = value.partition("@")
    try:
        if at:
            parse_time_limit_s(wait)
    except UnitError:
        return False
    return _is_count(count, INFINITE) if count or at else True
