"""Days that reservations repeat on and usage is reset on.

The core has no time zone; the controller's edge brings it.
"""

from __future__ import annotations

from pyslurm_ng.base.numbers import DAY_US, HOUR_US, MINUTE_US

_SUNDAY = 6
_MONTHS = {"MONTHLY": 1, "QUARTERLY": 3, "YEARLY": 12}
_MONDAY_US = 4 * DAY_US  # 1970-01-05
_ERA_DAYS = 146_097  # of 400 years, after which the Gregorian calendar repeats itself
_MARCH_DAYS = 719_468  # from March of year 0 to 1970


class Calendar:
    """Days without daylight saving; the edge passes one that knows the local time."""

    def after_days(self, when_us: int, days: int) -> int:
        """Return the same time of day that many days later."""
        return when_us + days * DAY_US

    def weekday(self, when_us: int) -> int:
        """Return 0 for Monday to 6 for Sunday."""
        return (when_us - _MONDAY_US) // DAY_US % 7

    def date(self, when_us: int) -> tuple[int, int, int]:
        """Return year, month and day."""
        # Years that begin in March have their leap day last.
        day = when_us // DAY_US + _MARCH_DAYS
        era, day = divmod(day, _ERA_DAYS)
        year = (day - day // 1460 + day // 36524 - day // 146096) // 365
        day -= 365 * year + year // 4 - year // 100
        from_march = (5 * day + 2) // 153
        month = (from_march + 2) % 12 + 1
        return 400 * era + year + (month <= 2), month, day - (153 * from_march + 2) // 5 + 1

    def midnight_us(self, year: int, month: int, day: int) -> int:
        """Return when a day begins; months and days beyond the last run on."""
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        year -= month <= 2
        era, year = divmod(year, 400)
        of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
        days = _ERA_DAYS * era + 365 * year + year // 4 - year // 100 + of_year
        return (days - _MARCH_DAYS) * DAY_US

    def moment_us(self, year: int, month: int, day: int, hour: int, minute: int) -> int:
        """Return a time of a day."""
        return self.midnight_us(year, month, day) + hour * HOUR_US + minute * MINUTE_US


UTC = Calendar()
_LONGEST_US = 400 * DAY_US  # more than a year, the longest period


def last_reset_us(period: str, now_us: int, calendar: Calendar) -> int:
    """Return the last time until now at which PriorityUsageResetPeriod began, or 0."""
    last_us, next_us = 0, next_reset_us(period, max(0, now_us - _LONGEST_US), calendar)
    while 0 < next_us <= now_us:
        last_us, next_us = next_us, next_reset_us(period, next_us, calendar)
    return last_us


def next_reset_us(period: str, last_us: int, calendar: Calendar) -> int:
    """Return the first time after `last_us` at which PriorityUsageResetPeriod begins again, or 0.

    Days begin at midnight, weeks on Sunday, quarters with January, April, July and October.
    """
    year, month, day = calendar.date(last_us)
    if period == "DAILY":
        return calendar.midnight_us(year, month, day + 1)
    if period == "WEEKLY":
        days = (_SUNDAY - calendar.weekday(last_us)) % 7 or 7
        return calendar.midnight_us(year, month, day + days)
    months = _MONTHS.get(period)
    if months is None:
        return 0
    return calendar.midnight_us(year, (month - 1) // months * months + 1 + months, 1)
