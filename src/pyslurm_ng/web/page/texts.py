"""Times as the pages show them."""

from __future__ import annotations

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US


def moment(time_us: int) -> str:
    """Return a time as Slurm writes it, "" for none."""
    return format_date(time_us // SECOND_US) if time_us else ""


def duration(seconds: int) -> str:
    """Return a time span as squeue writes it, "" for none."""
    if not seconds:
        return ""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def limit(minutes: int) -> str:
    """Return a time limit."""
    if minutes == INFINITE:
        return "UNLIMITED"
    return duration(minutes * 60) if minutes < NO_VAL - 1 else ""
