"""When an entry of a crontab is due next, in the controller's time zone."""

from __future__ import annotations

from pyslurm_ng.base.cron import CronTimes
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US
from pyslurm_ng.ctld.rules.calendar import Calendar

_MOST_DAYS = 9 * 366  # from one 29th of February to the next
_SUNDAY = 6


def next_us(times: CronTimes, after_us: int, calendar: Calendar) -> int:
    """Return the first moment after `after_us` at which an entry is due; 0 if there is none.

    Clocks that are put back repeat an hour, and clocks that are put forward leave one out. Entries
    for each hour go on as if nothing had happened. Others are due once in the repeated hour, and a
    moment that is left out comes an hour later.
    """
    year, month, day = calendar.date(after_us)
    for offset in range(_MOST_DAYS):
        begins_us = calendar.midnight_us(year, month, day + offset)
        date, weekday = calendar.date(begins_us), (calendar.weekday(begins_us) - _SUNDAY) % 7
        if not times.has_day(date[1], date[2], weekday):
            continue
        ends_us = calendar.midnight_us(year, month, day + offset + 1)
        if times.is_each_hour:
            hours_us = range(begins_us, ends_us, HOUR_US)
            moments = [hour_us + minute * MINUTE_US for hour_us in hours_us
                       for minute in times.minutes]  # fmt: skip
        else:
            moments = [calendar.moment_us(*date, hour, minute) for hour in times.hours
                       for minute in times.minutes]  # fmt: skip
        later = [moment_us for moment_us in moments if moment_us > after_us]
        if later:
            return min(later)
    return 0
