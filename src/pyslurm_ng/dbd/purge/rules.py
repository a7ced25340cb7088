"""When records are old: the Purge and Archive keys of slurmdbd.conf."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurmdbd_conf import SlurmdbdConf
from pyslurm_ng.dbd.rollup.periods import day_of, hour_of, month_of

KINDS = ("event", "job", "job_script", "job_env", "resv", "step", "suspend", "txn", "usage")
"""Kinds of records, in the order in which they are purged."""
ARCHIVE_KEYS = {
    "event": "archive_events",
    "job": "archive_jobs",
    "job_script": "archive_job_script",
    "job_env": "archive_job_env",
    "resv": "archive_resvs",
    "step": "archive_steps",
    "suspend": "archive_suspend",
    "txn": "archive_txn",
    "usage": "archive_usage",
}
_MOST_ROWS = 500
"""Rows of one transaction: calls wait for no longer."""
_MOST_MONTHS = 12 * 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """How long records of a kind stay; an amount of 0: for ever."""

    amount: int = 0
    unit: str = "months"
    is_archived: bool = False

    def before_us(self, now_s: int) -> int:
        """Return the moment before which records are old, 0 if none is.

        As in Slurm, that is so many hours, days or months before the present one began.
        """
        if not self.amount:
            return 0
        if self.unit == "hours":
            before_s = hour_of(now_s) - self.amount * 3600
        elif self.unit == "days":
            # From noon: days have 23 to 25 hours.
            before_s = day_of(day_of(now_s) + 12 * 3600 - self.amount * 86400)
        else:
            before_s = _months_before(now_s, self.amount)
        return max(before_s, 0) * SECOND_US


def _months_before(now_s: int, months: int) -> int:
    local = time.localtime(month_of(now_s))
    month = local.tm_year * 12 + local.tm_mon - 1 - min(months, _MOST_MONTHS)
    if month < 1970 * 12:
        return 0
    return int(time.mktime((month // 12, month % 12 + 1, 1, 0, 0, 0, 0, 0, -1)))


@dataclass(frozen=True, slots=True)
class Policy:
    """What is purged, and what becomes of it.

    Attributes:
        script: a program that archives instead of this one, or empty.
        most_rows: rows that one transaction may take.
        is_for_users: whether `sacctmgr archive` may be used.
    """

    rules: Mapping[str, Rule] = field(default_factory=dict)
    directory: str = "/tmp"
    script: str = ""
    most_rows: int = _MOST_ROWS
    is_for_users: bool = True

    def rule(self, kind: str) -> Rule:
        """Return how long records of a kind stay."""
        return self.rules.get(kind, Rule())

    @property
    def is_needed(self) -> bool:
        """Return whether anything is ever purged."""
        return any(rule.amount for rule in self.rules.values())


def policy_of(conf: SlurmdbdConf) -> Policy:
    """Return what slurmdbd.conf says."""
    rules = {}
    for kind in KINDS:
        amount, unit = getattr(conf, f"purge_{kind}_after")
        rules[kind] = Rule(amount, unit, bool(getattr(conf, ARCHIVE_KEYS[kind])))
    return Policy(
        rules,
        conf.archive_dir,
        conf.archive_script,
        min(conf.max_purge_limit, _MOST_ROWS),
        not conf.disable_archive_commands,
    )
