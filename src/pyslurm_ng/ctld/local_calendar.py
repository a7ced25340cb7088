"""The controller's days: local time, where a day may have 23 or 25 hours."""

from __future__ import annotations

import time

from pyslurm_ng.ctld.rules.calendar import Calendar

_SECOND_US = 1_000_000


class LocalCalendar(Calendar):
    """Days of the time zone that the controller runs in."""

    def after_days(self, when_us: int, days: int) -> int:
        """Return the same time of day that many days later; one that does not exist moves on."""
        seconds, rest_us = divmod(when_us, _SECOND_US)
        day = time.localtime(seconds)
        clock = (day.tm_hour, day.tm_min, day.tm_sec)
        moved = time.mktime((day.tm_year, day.tm_mon, day.tm_mday + days, *clock, 0, 0, -1))
        return int(moved) * _SECOND_US + rest_us

    def weekday(self, when_us: int) -> int:
        """Return 0 for Monday to 6 for Sunday."""
        return time.localtime(when_us // _SECOND_US).tm_wday

    def date(self, when_us: int) -> tuple[int, int, int]:
        """Return year, month and day."""
        day = time.localtime(when_us // _SECOND_US)
        return day.tm_year, day.tm_mon, day.tm_mday

    def midnight_us(self, year: int, month: int, day: int) -> int:
        """Return when a day begins; months and days beyond the last run on."""
        return int(time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))) * _SECOND_US


LOCAL = LocalCalendar()
