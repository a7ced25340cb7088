"""Hours, days and months of local time, in seconds since the epoch.

Clocks are put forward and back: days have 23 to 25 hours. Where they move by half an hour, an hour
lasts until the clock shows the next whole one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_HOUR_S, _QUARTER_S = 3600, 900


def hour_of(second: int) -> int:
    """Return when the hour of a moment began."""
    while True:
        local = time.localtime(second)
        past_s = local.tm_min * 60 + local.tm_sec
        if not past_s:
            return second
        second -= past_s


def next_hour(second: int) -> int:
    """Return when the hour after that of a moment begins."""
    ahead = second + _HOUR_S
    while hour_of(ahead) <= second:
        ahead += _QUARTER_S
    return hour_of(ahead)


def day_of(second: int) -> int:
    """Return when the day of a moment began."""
    local = time.localtime(second)
    return _first_second(local.tm_year, local.tm_mon, local.tm_mday)


def next_day(second: int) -> int:
    """Return when the day after that of a moment begins."""
    local = time.localtime(second)
    return _first_after(second, lambda more: (local.tm_year, local.tm_mon, local.tm_mday + more))


def month_of(second: int) -> int:
    """Return when the month of a moment began."""
    local = time.localtime(second)
    return _first_second(local.tm_year, local.tm_mon, 1)


def next_month(second: int) -> int:
    """Return when the month after that of a moment begins."""
    local = time.localtime(second)
    return _first_after(second, lambda more: (local.tm_year, local.tm_mon + more, 1))


def _first_after(second: int, date: Callable[[int], tuple[int, int, int]]) -> int:
    """Return the first second of the next date; a date may be left out where zones change."""
    more = 1
    while (begin := _first_second(*date(more))) <= second:
        more += 1
    return begin


def _first_second(year: int, month: int, day: int) -> int:
    """Return the first second of a date; midnight may be left out or come twice."""
    fields = (year, month, day, 0, 0, 0, 0, 0)
    middle = time.localtime(time.mktime((year, month, day, 12, 0, 0, 0, 0, -1)))
    date = (middle.tm_year, middle.tm_mon, middle.tm_mday)
    moments = [int(time.mktime((*fields, is_summer))) for is_summer in (-1, 0, 1)]
    on_date = [at for at in moments if time.localtime(at)[:3] == date]
    return min(on_date, default=moments[0])
