"""When an entry of a crontab is due next, in the controller's time zone."""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.base.cron import CronTimes
from pyslurm_ng.base.numbers import DAY_US, HOUR_US, MINUTE_US
from pyslurm_ng.ctld.rules.calendar import UTC, Calendar

_MOST_YEARS = 9  # from one 29th of February to the next
_MONTHS = 12
_WEEK = 7


def next_us(times: CronTimes, after_us: int, calendar: Calendar) -> int:
    """Return the first moment after `after_us` at which an entry is due; 0 if there is none.

    Clocks that are put back repeat an hour, and clocks that are put forward leave one out. Entries
    for each hour go on as if nothing had happened. Others are due once in the repeated hour, and a
    moment that is left out comes an hour later.
    """
    for year, month, day in _days(times, calendar.date(after_us)):
        begins_us = calendar.midnight_us(year, month, day)
        ends_us = calendar.midnight_us(year, month, day + 1)
        if times.is_each_hour:
            hours_us = range(begins_us, ends_us, HOUR_US)
            later = [moment_us for hour_us in hours_us for minute in times.minutes
                     if (moment_us := hour_us + minute * MINUTE_US) > after_us]  # fmt: skip
        else:
            later = _later(times, (year, month, day), after_us, calendar)
        if later:
            return min(later)
    return 0


def _days(times: CronTimes, first: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the days from `first` on for which an entry is meant.

    By arithmetic, as days are the same in each time zone: to ask it about each day took 10 ms.
    """
    year, month, day = first
    for offset in range(_MOST_YEARS * _MONTHS):
        years, months = divmod(month - 1 + offset, _MONTHS)
        if not times.has_month(months + 1):
            continue
        begins_us = UTC.midnight_us(year + years, months + 1, 1)
        ends_us = UTC.midnight_us(year + years, months + 2, 1)
        weekday = UTC.weekday(begins_us)
        for number in range(1 if offset else day, (ends_us - begins_us) // DAY_US + 1):
            # Monday is 0 there, Sunday is 0 here.
            if times.has_day(months + 1, number, (weekday + number) % _WEEK):
                yield year + years, months + 1, number


def _later(
    times: CronTimes, date: tuple[int, int, int], after_us: int, calendar: Calendar
) -> list[int]:
    """Return the first later moments of two hours: that of one may be moved behind the next."""
    later: list[int] = []
    hours = 0
    for hour in times.hours:
        if calendar.moment_us(*date, hour, times.minutes[-1]) <= after_us:
            continue
        for minute in times.minutes:
            moment_us = calendar.moment_us(*date, hour, minute)
            if moment_us > after_us:
                later.append(moment_us)
                break
        hours += 1
        if hours == 2:
            break
    return later
