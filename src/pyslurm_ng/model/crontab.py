"""Crontabs: what scrontab keeps for each user."""

from msgspec import Struct


class CronEntry(Struct, array_like=True, frozen=True, gc=False):
    """The lines of one entry, counted from 1, with its #SCRON lines, and the job that recurs."""

    first_line: int
    last_line: int
    job_id: int


class Crontab(Struct, array_like=True, frozen=True, gc=False):
    """The crontab of one user, as it was typed, and the jobs of its entries."""

    uid: int
    text: str
    entries: tuple[CronEntry, ...] = ()
