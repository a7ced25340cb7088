"""Dates as users write them for ``--begin`` or ``sacct -S``, and as Slurm prints them.

The only part of base that knows the local time zone (``TZ``, through ``time.localtime``); the core
never imports it. The present is always an argument.

Source: the date forms of the sbatch manual (``--begin``) and of ``SLURM_TIME_FORMAT``.
"""

from __future__ import annotations

import time

from pyslurm_ng.base.numbers import INFINITE

_NAMED_DAYS = {"today": 0, "tomorrow": 1}
_NAMED_TIMES = {
    "midnight": 0,
    "noon": 12,
    "fika": 15,
    "teatime": 16,
}
_UNITS_S = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
}
_LAST_S = 253_402_300_799  # the end of the year 9999
_MOST_CHARACTERS = 256
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class DateError(ValueError):
    """A date that cannot be read; `position` is where reading stopped, as Slurm reports it."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(f"Invalid time specification (pos={position}): {text}")
        self.position = position


def parse_date(text: str, now_s: int, past: bool = False) -> int:
    """Return the moment that a text names, in seconds since the epoch.

    Missing parts are chosen so that the moment lies ahead: a time of day that has passed means
    tomorrow, a date that has passed means next year. With `past`, as in accounting queries, a time
    of day means today, and a date without a year means its last occurrence.

    Raises:
        DateError: a text of no known form or endless, or a year of more than four digits.
    """
    moment_s = _Reader(text, now_s, past).read()
    if abs(moment_s) > _LAST_S:
        raise DateError(text, len(text))
    return moment_s


class _Reader:
    """One pass over a date text, collecting day and time of day in either order.

    Of two days or two times of day the last counts, as in Slurm: 12:53:45-08:00 is eight o'clock.
    """

    def __init__(self, text: str, now_s: int, past: bool) -> None:
        self.text = text
        self.now_s = now_s
        self.past = past
        self.position = 0
        self.day: tuple[int, int, int] | None = None  # year (0: not given), month, day
        self.clock: tuple[int, int, int] | None = None

    def fail(self, position: int | None = None) -> DateError:
        return DateError(self.text, self.position if position is None else position)

    def read(self) -> int:
        lowered = self.text.strip().lower()
        self.position = len(self.text) - len(self.text.lstrip())
        self.lowered = self.text.lower()
        if not lowered:
            raise self.fail()
        for position, letter in enumerate(self.text):
            # Letters such as a small 2 above the line are digits for Python, but no numbers.
            if position == _MOST_CHARACTERS or not letter.isascii():
                raise self.fail(position)
        if lowered.startswith("uts") and lowered[3:].isdecimal():
            return int(lowered[3:])
        if lowered.startswith("now"):
            return self._now(lowered[3:].replace(" ", ""))
        end = len(self.text.rstrip())
        while self.position < end:
            if self.lowered[self.position] in " \t" or (
                self.lowered[self.position] in "t-" and self._is_separator()
            ):
                self.position += 1
                continue
            self._part()
        return self._moment()

    def _is_separator(self) -> bool:
        """Tell whether the letter T or a dash here stands between a day and a time of day."""
        if self.day is None and self.clock is None:
            return False
        following = self.lowered[self.position + 1 : self.position + 2]
        if self.lowered[self.position] == "-":
            return following.isalnum()
        return following.isdecimal()

    def _now(self, tail: str) -> int:
        if not tail:
            return self.now_s
        if tail[0] not in "+-":
            raise self.fail(3)
        digits = tail[1:]
        unit = digits.lstrip("0123456789")
        digits = digits[: len(digits) - len(unit)]
        if not digits or len(digits) > 12:
            raise self.fail(3)
        scale = 1
        if unit:
            scale = _UNITS_S.get(unit.removesuffix("s"), 0)
            if not scale:
                raise self.fail(3 + len(digits))
        offset = int(digits) * scale
        return self.now_s + (offset if tail[0] == "+" else -offset)

    def _part(self) -> None:
        start = self.position
        end = start
        while end < len(self.text) and self.lowered[end].isalpha():
            end += 1
        word = self.lowered[start:end]
        if word.endswith(("yt", "wt")):
            word, end = word[:-1], end - 1  # the separator of "todayT12:00"
        if word:
            if word in _NAMED_TIMES:
                self.clock = (_NAMED_TIMES[word], 0, 0)
            elif word in _NAMED_DAYS:
                self.day = _day_after(self.now_s, _NAMED_DAYS[word])
            else:
                known = (name for name in (*_NAMED_DAYS, *_NAMED_TIMES) if word.startswith(name))
                raise self.fail(start + max(map(len, known), default=0))
            self.position = end
            return
        end = start
        while end < len(self.text) and (
            self.lowered[end].isdecimal() or self.lowered[end] in ":/.-"
        ):
            if self.lowered[end] == "-" and not self._dash_in_date(start, end):
                break
            end += 1
        token = self.lowered[start:end]
        if not token or not token[0].isdecimal():
            raise self.fail(start)
        self.position = end
        if ":" in token:
            self.clock = self._clock(token, start)
        else:
            self.day = self._date(token, start)

    def _dash_in_date(self, start: int, position: int) -> bool:
        """Tell whether a dash at `position` belongs to a YYYY-MM-DD that begins at `start`."""
        before = self.lowered[start:position]
        if "/" in before or "." in before or ":" in before:
            return False
        return (
            before.count("-") < 2
            and len(before.split("-")[0]) == 4
            and ("-" in before or self.lowered[position + 3 : position + 4] == "-")
        )

    def _clock(self, token: str, start: int) -> tuple[int, int, int]:
        fields = token.split(":")
        if not 2 <= len(fields) <= 3 or not all(f.isdecimal() and len(f) <= 2 for f in fields):
            raise self.fail(start)
        hour, minute, second = ([int(field) for field in fields] + [0])[:3]
        half = self.lowered[self.position :].lstrip()[:2]
        if half in ("am", "pm"):
            if not 1 <= hour <= 12:
                raise self.fail(self.lowered.index(half, self.position))
            hour = hour % 12 + (12 if half == "pm" else 0)
            self.position = self.lowered.index(half, self.position) + 2
        for field, most in enumerate((23, 59, 59)):
            if (hour, minute, second)[field] > most:
                raise self.fail(_field_start(token, start, field))
        return hour, minute, second

    def _date(self, token: str, start: int) -> tuple[int, int, int]:
        for separator in "-/.":
            if separator in token:
                fields = token.split(separator)
                break
        else:
            if len(token) not in (4, 6):
                raise self.fail(self.position)
            fields = [token[index : index + 2] for index in range(0, len(token), 2)]
        numbers = [int(field) for field in fields if field.isdecimal()]
        if len(numbers) < len(fields):
            raise self.fail(start)
        if "-" in token:
            if len(numbers) != 3 or len(fields[0]) != 4:
                raise self.fail(start)
            year, month, day = numbers
        elif len(numbers) == 2:
            year, (month, day) = 0, numbers
        elif len(numbers) == 3 and len(fields[2]) in (2, 4):
            month, day, year = numbers
            if year < 100:
                year += 2000
        else:
            raise self.fail(self.position)
        in_order = 1 if "-" in token else 0
        if not 1 <= month <= 12:
            raise self.fail(_field_start(token, start, in_order))
        if not 1 <= day <= _MONTH_DAYS[month - 1]:
            raise self.fail(_field_start(token, start, in_order + 1))
        return year, month, day

    def _moment(self) -> int:
        today = time.localtime(self.now_s)
        clock = self.clock or (0, 0, 0)
        if self.day is None:
            year, month, day = today.tm_year, today.tm_mon, today.tm_mday
            has_passed = clock < (today.tm_hour, today.tm_min, today.tm_sec)
            if has_passed and not self.past:
                year, month, day = _day_after(self.now_s, 1)
        else:
            year, month, day = self.day
            if year == 0:
                year = today.tm_year
                if self.past and (month, day) > (today.tm_mon, today.tm_mday):
                    year -= 1
                elif not self.past and (month, day) < (today.tm_mon, today.tm_mday):
                    year += 1
        try:
            return _moment_of((year, month, day, *clock))
        except (OverflowError, ValueError):
            raise self.fail(0) from None


def _field_start(token: str, start: int, number: int) -> int:
    """Return where the field `number` of a day or time of day begins that begins at `start`."""
    ends = [index for index, letter in enumerate(token) if not letter.isdecimal()]
    if not ends:  # MMDD or MMDDYY
        return start + 2 * number
    return start + (ends[number - 1] + 1 if number else 0)


def _moment_of(fields: tuple[int, int, int, int, int, int]) -> int:
    """Return the moment of a local time, in seconds since the epoch.

    When the clocks change, a local time may not exist or may occur twice. What the C library
    answers then depends on earlier calls. This follows the first call, as a Slurm command makes it:
    a time that does not exist is moved forward; of two, the second is taken east of Greenwich and
    the first west of it.
    """
    # -1: the C library decides about daylight saving on that day.
    moment = int(time.mktime((*fields, 0, 0, -1)))
    shown = time.localtime(moment)
    if shown[:6] < fields:
        moment += time.localtime(moment + 10_800).tm_gmtoff - shown.tm_gmtoff
    for change in (1800, 3600):  # by half an hour on Lord Howe Island
        for other in (moment - change, moment + change):
            if time.localtime(other)[:6] == fields == shown[:6]:
                return max(moment, other) if shown.tm_gmtoff > 0 else min(moment, other)
    return moment


def _day_after(now_s: int, days: int) -> tuple[int, int, int]:
    """Return the local day `days` after that of `now_s`; mktime carries over month ends and DST."""
    today = time.localtime(now_s)
    noon_s = time.mktime((today.tm_year, today.tm_mon, today.tm_mday + days, 12, 0, 0, 0, 0, -1))
    shifted = time.localtime(noon_s)
    return shifted.tm_year, shifted.tm_mon, shifted.tm_mday


def format_date(when_s: int, time_format: str = "", now_s: int = 0, empty: str = "Unknown") -> str:
    """Return a moment as Slurm prints it, in local time: ``2026-11-20T12:08:04``.

    Args:
        when_s: seconds since the epoch; 0 or INFINITE print as `empty`.
        time_format: the value of SLURM_TIME_FORMAT: empty or ``standard``, ``relative``, or a
            strftime pattern that holds a ``%``; anything else counts as standard.
        now_s: the present, needed for ``relative`` only.
    """
    if when_s in (0, INFINITE):
        return empty
    local = time.localtime(when_s)
    if time_format == "relative":
        return _relative(local, time.localtime(now_s), now_s)
    if "%" in time_format:
        return time.strftime(time_format, local)
    # Three times faster than strftime, and a listing prints one in most of its lines.
    return (
        f"{local.tm_year:04d}-{local.tm_mon:02d}-{local.tm_mday:02d}"
        f"T{local.tm_hour:02d}:{local.tm_min:02d}:{local.tm_sec:02d}"
    )


def _relative(local: time.struct_time, today: time.struct_time, now_s: int) -> str:
    """Return a time in short: ``12:00:59``, ``Tomorr 12:00``, ``Mon 08:15``, ``6 Jun 2012``."""
    clock = f"{local.tm_hour:02d}:{local.tm_min:02d}"
    day = (local.tm_year, local.tm_mon, local.tm_mday)
    if day == (today.tm_year, today.tm_mon, today.tm_mday):
        return f"{clock}:{local.tm_sec:02d}"
    if day == _day_after(now_s, -1):
        return f"Ystday {clock}"
    if day == _day_after(now_s, 1):
        return f"Tomorr {clock}"
    for ahead in range(2, 7):
        if day == _day_after(now_s, ahead):
            return time.strftime("%a ", local) + clock
    if local.tm_year == today.tm_year:
        return f"{local.tm_mday} {time.strftime('%b', local)} {clock}"
    return f"{local.tm_mday} {time.strftime('%b %Y', local)}"
