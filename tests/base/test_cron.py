"""When an entry of a crontab is due, as crontab(5) and scrontab's manual say."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.cron import WORDS, CronError, parse, split_spec


@pytest.mark.parametrize(
    ("spec", "field", "numbers"),
    [
        ("*/15 * * * *", "minutes", (0, 15, 30, 45)),
        ("1-5,30 * * * *", "minutes", (1, 2, 3, 4, 5, 30)),
        ("0 8-17/2 * * wed", "hours", (8, 10, 12, 14, 16)),
        ("0 0 1,15 * *", "days", (1, 15)),
        ("0 0 * jan,DEC *", "_months", (1, 12)),
        ("0 0 * * 0,7", "_weekdays", (0,)),
        ("0 0 * * mon-fri", "_weekdays", (1, 2, 3, 4, 5)),
        ("0 20/2 * * *", "hours", (20, 22)),
    ],
)
def test_fields(spec: str, field: str, numbers: tuple[int, ...]) -> None:
    """Lists, ranges, steps and names."""
    assert getattr(parse(spec), field) == numbers


def test_days_of_month_and_of_week() -> None:
    """With both an entry is due on either; with a star before one of them only on both."""
    either, both = parse("0 0 1 * mon"), parse("0 0 1 * *")
    assert either.has_day(11, 2, 1)
    assert either.has_day(11, 1, 0)
    assert both.has_day(11, 1, 0)
    assert not both.has_day(11, 2, 1)


@pytest.mark.parametrize(
    "spec",
    ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "* * * *", "5-1 * * * *",
     "a * * * *", "*/0 * * * *", "1,,2 * * * *", "0 0 30 feb *", "0 0 31 4,6 *", "-1 * * * *",
     "999999999 * * * *", "٣ * * * *", "mon * * * *", f"{'1,' * 600}1 * * * *"],
)  # fmt: skip
def test_what_is_no_time(spec: str) -> None:
    """Numbers out of range, and days that never come: no job would ever be due."""
    with pytest.raises(CronError):
        parse(spec)


@pytest.mark.parametrize("word", WORDS)
def test_words_stand_for_fields(word: str) -> None:
    """Every word is an entry, with its command behind it."""
    spec, command = split_spec(f"{word}  work --all now")
    assert command == "work --all now"
    parse(spec)


def test_the_command_is_kept_as_it_is() -> None:
    """Its blanks belong to it; an unknown word is refused with those that are allowed."""
    assert split_spec("1 2 3 4 5 echo  a   b ") == ("1 2 3 4 5", "echo  a   b")
    with pytest.raises(CronError, match="@reboot: @yearly"):
        split_spec("@reboot work")
    with pytest.raises(CronError, match="five fields"):
        split_spec("1 2 3")
