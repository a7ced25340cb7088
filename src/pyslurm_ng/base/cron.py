"""When an entry of a crontab is due: five fields of cron, or a word such as `@hourly`.

Source: the manuals of crontab(5) and of scrontab.
"""

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()
_MOST_CHARACTERS = 1024


class Field:
    """One field: its name in errors, its least and greatest number, and names of the first ones."""

    __slots__ = ("high", "low", "name", "names")

    def __init__(self, name: str, low: int, high: int, names: "list[str]") -> None:
        self.name, self.low, self.high, self.names = name, low, high, names


FIELDS = (
    Field("minute", 0, 59, []),
    Field("hour", 0, 23, []),
    Field("day of month", 1, 31, []),
    Field("month", 1, 12, MONTHS),
    Field("day of week", 0, 7, WEEKDAYS),
)
WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@elevenses": "0 11 * * *",
    "@fika": "0 15 * * *",
    "@teatime": "0 16 * * *",
}
_DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class CronError(ValueError):
    """A text that says no times; the text of the error is for users."""


class CronTimes:
    """The numbers that each field allows, ascending; `weekdays` has 0 for Sunday.

    As in cron an entry is due on days that either of its fields for days allows, unless one of
    them begins with `*`: then on days that both allow.
    """

    __slots__ = ("_is_either_day", "_months", "_weekdays", "days", "hours", "minutes")

    def __init__(self, words: "list[str]") -> None:
        """Read five fields. Raises CronError."""
        self.minutes, self.hours, self.days, self._months, weekdays = map(_numbers, FIELDS, words)
        self._weekdays = tuple(sorted({day % 7 for day in weekdays}))
        self._is_either_day = not words[2].startswith("*") and not words[4].startswith("*")

    @property
    def ever_comes(self) -> bool:
        """Whether some month is long enough."""
        longest = max(_DAYS_OF_MONTHS[month - 1] for month in self._months)
        return self._is_either_day or self.days[0] <= longest

    @property
    def is_each_hour(self) -> bool:
        """Whether no hour is left out."""
        return len(self.hours) == FIELDS[1].high + 1

    def has_month(self, month: int) -> bool:
        """Return whether the entry may be due in a month."""
        return month in self._months

    def has_day(self, month: int, day: int, weekday: int) -> bool:
        """Return whether the entry is due on a day; `weekday` 0 is Sunday."""
        if month not in self._months:
            return False
        in_month, in_week = day in self.days, weekday in self._weekdays
        return in_month or in_week if self._is_either_day else in_month and in_week


def split_spec(line: str) -> "tuple[str, str]":
    """Return the times of an entry as five fields, and what is behind them.

    Raises:
        CronError: there are fewer fields, or an unknown word.
    """
    words = line.split(None, 1)
    if words and words[0].startswith("@"):
        times = WORDS.get(words[0].lower())
        if times is None:
            raise CronError(f"{words[0]}: {', '.join(WORDS)} are allowed")
        return times, words[1].strip() if len(words) > 1 else ""
    words = line.split(None, len(FIELDS))
    if len(words) < len(FIELDS):
        raise CronError("five fields for the time and a command are needed")
    return " ".join(words[: len(FIELDS)]), words[-1].strip() if len(words) > len(FIELDS) else ""


def parse(spec: str) -> CronTimes:
    """Return when an entry is due whose times are five fields.

    Raises:
        CronError: a field is wrong, or no day is ever meant.
    """
    words = spec.split()
    if len(words) != len(FIELDS) or len(spec) > _MOST_CHARACTERS:
        raise CronError("five fields for the time are needed")
    times = CronTimes(words)
    if not times.ever_comes:
        raise CronError(f"day of month: {words[2]} never comes in month {words[3]}")
    return times


def _numbers(field: Field, word: str) -> "tuple[int, ...]":
    """Return the numbers that a field allows: lists of numbers, ranges and steps."""
    numbers: set[int] = set()
    for part in word.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(Field(field.name, 1, field.high, []), step_text) if slash else 1
        low_text, dash, high_text = span.partition("-")
        if span == "*":
            low, high = field.low, field.high
        else:
            low = _number(field, low_text)
            high = _number(field, high_text) if dash else field.high if slash else low
        if high < low:
            raise CronError(f"{field.name}: {part}: the second number must be greater")
        numbers.update(range(low, high + 1, step))
    return tuple(sorted(numbers))


def _number(field: Field, text: str) -> int:
    name = text.lower()[:3]
    if name in field.names and text.isalpha():
        return field.names.index(name) + field.low
    digits = text.isascii() and text.isdigit() and len(text) <= 2
    if not digits or not field.low <= int(text) <= field.high:
        names = f" and {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise CronError(f"{field.name}: {text}: {field.low} to {field.high}{names} are allowed")
    return int(text)
