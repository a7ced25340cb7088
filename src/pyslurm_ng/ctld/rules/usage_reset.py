"""When usage is set to zero: PriorityUsageResetPeriod."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.calendar import Calendar

_SUNDAY = 6
_MONTHS = {"MONTHLY": 1, "QUARTERLY": 3, "YEARLY": 12}


def next_us(period: str, last_us: int, calendar: Calendar) -> int:
    """Return the first boundary of a period after `last_us`; 0 where there is none.

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
