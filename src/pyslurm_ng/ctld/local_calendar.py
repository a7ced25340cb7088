"""The controller's days: local time, where a day may have 23 or 25 hours."""

from __future__ import annotations

import time

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.rules.calendar import Calendar

_NEAR_S = 3 * 3600  # more than clocks are ever put forward by


class LocalCalendar(Calendar):
    """Days of the time zone that the controller runs in."""

    def after_days(self, when_us: int, days: int) -> int:
        """Return the same time of day that many days later; in place of one that the clocks leave
        out, the moment at which they are put forward.
        """
        seconds, rest_us = divmod(when_us, SECOND_US)
        day = time.localtime(seconds)
        clock = (day.tm_hour, day.tm_min, day.tm_sec)
        moved = int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday + days, *clock, 0, 0, -1)))
        local = time.localtime(moved)
        if (local.tm_hour, local.tm_min, local.tm_sec) != clock:
            return _forward_near(moved) * SECOND_US
        return moved * SECOND_US + rest_us

    def weekday(self, when_us: int) -> int:
        """Return 0 for Monday to 6 for Sunday."""
        return time.localtime(when_us // SECOND_US).tm_wday

    def date(self, when_us: int) -> tuple[int, int, int]:
        """Return year, month and day."""
        day = time.localtime(when_us // SECOND_US)
        return day.tm_year, day.tm_mon, day.tm_mday

    def midnight_us(self, year: int, month: int, day: int) -> int:
        """Return when a day begins; months and days beyond the last run on."""
        return self.moment_us(year, month, day, 0, 0)

    def moment_us(self, year: int, month: int, day: int, hour: int, minute: int) -> int:
        """Return a time of a day; one that the clocks leave out comes as much later."""
        return int(time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))) * SECOND_US


def _forward_near(seconds: int) -> int:
    """Return when, within a few hours of a moment, clocks are put forward."""
    before, after = seconds - _NEAR_S, seconds + _NEAR_S
    offset = time.localtime(before).tm_gmtoff
    while after - before > 1:
        middle = (before + after) // 2
        if time.localtime(middle).tm_gmtoff == offset:
            before = middle
        else:
            after = middle
    return after


LOCAL = LocalCalendar()
