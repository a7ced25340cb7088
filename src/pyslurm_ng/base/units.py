"""Amounts as Slurm writes them: memory, counts with suffixes, time limits, elapsed times.

Pure integer arithmetic without imports, for the core and for commands. Dates, which need a clock
and a time zone, are in `dates`.
"""

from pyslurm_ng.base.numbers import INFINITE, NO_VAL

# Slurm's markers in 32-bit fields; the model uses the same numbers.

_SUFFIXES = "KMGTP"
# A count beyond this fits no field of Slurm's records.
_MAX_AMOUNT = 2**63


class UnitError(ValueError):
    """An amount or time that cannot be read."""


_MAX_DIGITS = 18


def whole_number(text: str) -> int | None:
    """Return the number that up to 18 digits spell, None for anything else."""
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    return None


def parse_mem_mib(text: str, suffixes: str = "KMGT") -> int:
    """Return MiB for ``4000``, ``64G``, ``1GB``, ``512K`` (rounded up): the default unit is MiB.

    A unit may have a B after it and means the same. As with Slurm, blanks may stand before the
    number and not behind it. Of TRES alone an amount may be in P.

    Raises:
        UnitError: not an unsigned integer with one of `suffixes`, or that and a B, after it.
    """
    word = text.lstrip()
    if word != word.rstrip() or word.upper().rstrip("B")[-1:] in set(_SUFFIXES) - set(suffixes):
        raise UnitError(f"not an amount of memory: {text}")
    if word[-1:] in ("B", "b") and word[-2:-1].upper() in tuple(_SUFFIXES):
        word = word[:-1]
    number, shift = _number_and_shift(word, default_shift=20)
    mib = -(-(number << shift) >> 20)
    if mib >= _MAX_AMOUNT:
        raise UnitError(f"memory too large: {text}")
    return mib


def parse_count(text: str) -> int:
    """Return a node or task count, where ``k`` means 1,024 and ``m`` 1,048,576 as in Slurm.

    Raises:
        UnitError: not an unsigned integer with an optional suffix.
    """
    number, shift = _number_and_shift(text, default_shift=0)
    amount = number << shift
    if amount >= _MAX_AMOUNT:
        raise UnitError(f"number too large: {text}")
    return amount


def _number_and_shift(text: str, default_shift: int) -> tuple[int, int]:
    word = text.strip()
    shift = default_shift
    if word and word[-1].upper() in _SUFFIXES:
        shift = 10 * (_SUFFIXES.index(word[-1].upper()) + 1)
        word = word[:-1]
    if not (word.isascii() and word.isdigit()) or len(word) > 19:
        raise UnitError(f"not a number with an optional suffix K, M, G, T or P: {text}")
    return int(word), shift


def format_mem_mib(mib: int, exact: bool = True) -> str:
    """Return memory as Slurm shows it: ``4000M``, ``62.50G``, ``250G``.

    With `exact`, as in TRES strings, a larger unit is used only if at most a half of it is lost.
    Otherwise the largest unit that leaves at least one is used.
    """
    return scale(mib, "MGTPEZ", exact)


def scale(number: int, unit_names: str | list[str], exact: bool) -> str:
    """Return a number divided by 1,024 as often as it goes, with the name of the unit reached.

    With `exact`, a division happens only if the quotient has no other fraction than one half.
    A quotient that is not whole prints two decimals.
    """
    divisor = 1
    unit = 0
    while number >= divisor * 1024 and unit + 1 < len(unit_names):
        if exact and (number // divisor) % 512:
            break
        divisor *= 1024
        unit += 1
    if number % divisor == 0:
        return f"{number // divisor}{unit_names[unit]}"
    hundredths = (number * 200 + divisor) // (2 * divisor)
    return f"{hundredths // 100}.{hundredths % 100:02d}{unit_names[unit]}"


def parse_time_limit_s(text: str) -> int:
    """Return seconds for Slurm's time limit forms, or INFINITE.

    Forms: ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours``,
    ``days-hours:minutes``, ``days-hours:minutes:seconds``, ``-1``, ``INFINITE``, ``UNLIMITED``.
    Blanks are refused.

    Raises:
        UnitError: any other text, or a time beyond 32 bits of minutes.
    """
    word = text
    if word == "-1" or word.upper() in ("INFINITE", "UNLIMITED"):
        return INFINITE
    days_text, dash, rest = word.partition("-")
    if not dash:
        days_text, rest = "0", word
    parts = (rest or "0" * bool(dash)).split(":")
    if not (1 <= len(parts) <= 3) or not all(_is_number(part) for part in [days_text, *parts]):
        raise UnitError(f"invalid time: {text}")
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (numbers + [0, 0])[:3]
    elif len(numbers) == 1:
        hours, minutes, seconds = 0, numbers[0], 0
    elif len(numbers) == 2:
        hours, minutes, seconds = 0, numbers[0], numbers[1]
    else:
        hours, minutes, seconds = numbers
    total_s = ((int(days_text) * 24 + hours) * 60 + minutes) * 60 + seconds
    if total_s // 60 >= NO_VAL:
        raise UnitError(f"time too large: {text}")
    return total_s


def parse_time_limit_min(text: str) -> int:
    """Return minutes, rounded up, for Slurm's time limit forms, or INFINITE.

    Raises:
        UnitError: see `parse_time_limit_s`.
    """
    seconds = parse_time_limit_s(text)
    return INFINITE if seconds == INFINITE else (seconds + 59) // 60


def changed_time_limit_min(text: str, old_min: int) -> int:
    """Return a limit in minutes; a text with `+` or `-` before it changes the old limit.

    Raises:
        UnitError: no time limit, or nothing is left of the old one.
    """
    sign = text[:1] if text[:1] in ("+", "-") else ""
    limit_min = parse_time_limit_min(text[len(sign) :])
    if not sign or old_min == INFINITE:
        return limit_min
    changed_min = old_min + limit_min if sign == "+" else old_min - limit_min
    if changed_min <= 0:
        raise UnitError(text)
    return changed_min


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def format_seconds(seconds: int) -> str:
    """Return ``[D-]HH:MM:SS`` as scontrol and sacct print times; INFINITE is ``UNLIMITED``."""
    text = format_seconds_short(seconds)
    missing = len("00:00:00") - len(text)
    return "00:00:00"[:missing] + text if missing > 0 and seconds >= 0 else text


def format_seconds_short(seconds: int) -> str:
    """Return ``[D-]HH:MM:SS`` without leading zero fields, as squeue and sinfo print: ``0:39``."""
    if seconds == INFINITE:
        return "UNLIMITED"
    if seconds < 0:
        return "INVALID"
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}-{hours % 24:02d}:{minute:02d}:{second:02d}"
    if hours:
        return f"{hours}:{minute:02d}:{second:02d}"
    return f"{minute}:{second:02d}"


def format_minutes_short(minutes: int) -> str:
    """Return a limit in minutes as squeue prints it: ``30:00``, ``1-00:00:00``, ``UNLIMITED``."""
    if minutes == NO_VAL:
        return "NOT_SET"
    return format_seconds_short(minutes if minutes == INFINITE else minutes * 60)


def plural(count: int, word: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' * (count != 1)}"
