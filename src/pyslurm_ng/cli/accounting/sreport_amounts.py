"""How sreport shows amounts of time: the units of -t, and the period of a report."""

from time import localtime, strftime

from pyslurm_ng.base.dates import DateError, parse_date
from pyslurm_ng.cli.command import say

UNITS = (
    ("seconds", 1, False),
    ("secper", 1, True),
    ("minutes", 60, False),
    ("minper", 60, True),
    ("hours", 3600, False),
    ("hourper", 3600, True),
    ("percent", 0, True),
)
"""Word, seconds in the unit, whether percent are shown; without seconds they are shown alone."""
_NAMES = {1: "Seconds", 60: "Minutes", 3600: "Hours"}
_OF_TOTAL = "Percentage of Total"
PERCENT_CHARACTERS = 9
"""The width of `(100.00%)`."""


class Unit:
    """How amounts are shown; a word may be shortened, and unknown ones mean minutes."""

    def __init__(self, word: str = "minutes") -> None:
        lowered = word.lower()
        meant = [row for row in UNITS if row[0].startswith(lowered)] if word else []
        if not meant:
            say(f"unknown time format {word}")
        _, self._seconds, self.has_percent = meant[0] if meant else UNITS[2]

    @property
    def is_percent(self) -> bool:
        """Whether percent are all that is shown."""
        return not self._seconds

    def title(self, of: str = "") -> str:
        """Return the unit as headings name it; `of` is what it counts, as `CPU`."""
        if self.is_percent:
            return _OF_TOTAL
        name = f"{of} {_NAMES[self._seconds]}".strip()
        return f"{name}/{_OF_TOTAL}" if self.has_percent else name

    def shown(self, seconds: int, total: int) -> str:
        """Return an amount, with its part of a total where it is wanted."""
        percent = f"{seconds * 100 / total if total else 0:.2f}%"
        if self.is_percent:
            return percent
        return self.plain(seconds) + (f"({percent})" if self.has_percent else "")

    def plain(self, seconds: int) -> str:
        """Return an amount that is the whole."""
        return f"{seconds / self._seconds:.0f}" if self._seconds else "100.00%"


class Period:
    """The time that a report is about; it begins and ends at a whole hour."""

    def __init__(self, start: str, end: str, now_s: int) -> None:
        today_s = _day(now_s)
        yesterday_s = _day(today_s - 1)
        self.start_s = _hour(_moment(start, now_s, yesterday_s))
        self.end_s = _hour(min(now_s, _moment(end, now_s, today_s)))  # later hours are not over
        if self.end_s <= self.start_s:
            self.end_s = self.start_s + 3600

    @property
    def title(self) -> str:
        """The period as headings show it."""
        return f"{date(self.start_s)} - {date(self.end_s - 1)}"

    @property
    def seconds(self) -> int:
        """The length of the period."""
        return self.end_s - self.start_s


def date(second: int) -> str:
    """Return a moment as reports show it."""
    return strftime("%Y-%m-%dT%H:%M:%S", localtime(second))


def _day(second: int) -> int:
    """Return when the day of a moment begins."""
    return parse_date(strftime("%Y-%m-%d", localtime(second)), second)


def _moment(text: str, now_s: int, default_s: int) -> int:
    if not text:
        return default_s
    try:
        return max(0, parse_date(text, now_s, past=True))
    except DateError as problem:
        say(str(problem))
        return default_s


def _hour(second: int) -> int:
    """Return the nearest whole hour of the clock: Slurm rounds to minutes first."""
    local = localtime(second)
    is_up = local.tm_min * 60 + local.tm_sec >= 29 * 60 + 30
    return second - local.tm_min * 60 - local.tm_sec + (3600 if is_up else 0)
