"""RELIABILITY 15: dates around changes of the clocks, by a table of sixty.

What is stored is UTC. A time that the clocks leave out is as much later, and of one that comes
twice the second is meant east of Greenwich and the first west of it. That is what the C library
makes of it in a command of Slurm, which asks once. The right column was made with Python's
zoneinfo, which shares no code with it.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.base.dates import format_date, parse_date

pytestmark = pytest.mark.skipif(
    not Path("/usr/share/zoneinfo/Pacific/Auckland").exists(), reason="tzdata is not installed"
)

# Time zone, what a user writes, and the moment in UTC.
DATES = """
Europe/Berlin 2026-03-29T01:30 2026-03-29T00:30
Europe/Berlin 2026-03-29T02:30 2026-03-29T01:30
Europe/Berlin 2026-03-29T03:30 2026-03-29T01:30
Europe/Berlin 2026-03-30T02:30 2026-03-30T00:30
Europe/Berlin 2026-10-25T00:30 2026-10-24T22:30
Europe/Berlin 2026-10-25T02:30 2026-10-25T01:30
Europe/Berlin 2026-10-25T04:30 2026-10-25T03:30
Europe/Berlin 2026-10-26T00:00 2026-10-25T23:00
America/New_York 2026-03-08T01:30 2026-03-08T06:30
America/New_York 2026-03-08T02:30 2026-03-08T07:30
America/New_York 2026-03-08T03:30 2026-03-08T07:30
America/New_York 2026-03-09T02:30 2026-03-09T06:30
America/New_York 2026-10-31T23:30 2026-11-01T03:30
America/New_York 2026-11-01T01:30 2026-11-01T05:30
America/New_York 2026-11-01T03:30 2026-11-01T08:30
America/New_York 2026-11-02T00:00 2026-11-02T05:00
Australia/Lord_Howe 2026-10-04T01:15 2026-10-03T14:45
Australia/Lord_Howe 2026-10-04T02:15 2026-10-03T15:45
Australia/Lord_Howe 2026-10-04T03:15 2026-10-03T16:15
Australia/Lord_Howe 2026-10-05T02:15 2026-10-04T15:15
Australia/Lord_Howe 2026-04-04T23:45 2026-04-04T12:45
Australia/Lord_Howe 2026-04-05T01:45 2026-04-04T15:15
Australia/Lord_Howe 2026-04-05T03:45 2026-04-04T17:15
Australia/Lord_Howe 2026-04-06T00:00 2026-04-05T13:30
America/St_Johns 2026-03-08T01:30 2026-03-08T05:00
America/St_Johns 2026-03-08T02:30 2026-03-08T06:00
America/St_Johns 2026-03-08T03:30 2026-03-08T06:00
America/St_Johns 2026-03-09T02:30 2026-03-09T05:00
America/St_Johns 2026-10-31T23:30 2026-11-01T02:00
America/St_Johns 2026-11-01T01:30 2026-11-01T04:00
America/St_Johns 2026-11-01T03:30 2026-11-01T07:00
America/St_Johns 2026-11-02T00:00 2026-11-02T03:30
Pacific/Auckland 2026-09-27T01:30 2026-09-26T13:30
Pacific/Auckland 2026-09-27T02:30 2026-09-26T14:30
Pacific/Auckland 2026-09-27T03:30 2026-09-26T14:30
Pacific/Auckland 2026-09-28T02:30 2026-09-27T13:30
Pacific/Auckland 2026-04-05T00:30 2026-04-04T11:30
Pacific/Auckland 2026-04-05T02:30 2026-04-04T14:30
Pacific/Auckland 2026-04-05T04:30 2026-04-04T16:30
Pacific/Auckland 2026-04-06T00:00 2026-04-05T12:00
Asia/Kolkata 2026-03-29T02:30 2026-03-28T21:00
Asia/Kolkata 2026-10-25T02:30 2026-10-24T21:00
Asia/Kolkata 2026-12-31T23:59 2026-12-31T18:29
UTC 2026-03-29T02:30 2026-03-29T02:30
UTC 2024-02-29T23:59 2024-02-29T23:59
America/Sao_Paulo 2026-10-18T00:30 2026-10-18T03:30
"""

# Time zone, now in UTC, words, whether sacct asks, and the moment in UTC.
WORDS = """
Europe/Berlin     2026-03-28T11:00 now+1day              ahead 2026-03-29T11:00
Europe/Berlin     2026-03-28T11:00 tomorrow              ahead 2026-03-28T23:00
Europe/Berlin     2026-03-29T11:00 tomorrow              ahead 2026-03-29T22:00
Europe/Berlin     2026-03-28T11:00 tomorrowT02:30        ahead 2026-03-29T01:30
Europe/Berlin     2026-03-29T00:59 02:30                 ahead 2026-03-29T01:30
Europe/Berlin     2026-10-24T23:00 02:30                 ahead 2026-10-25T01:30
Europe/Berlin     2026-10-25T00:15 now+1hour             ahead 2026-10-25T01:15
Europe/Berlin     2026-10-25T00:15 now+60                ahead 2026-10-25T00:16
Europe/Berlin     2026-10-24T22:30 noon                  ahead 2026-10-25T11:00
Europe/Berlin     2026-03-29T11:00 midnight              past  2026-03-28T23:00
Europe/Berlin     2026-03-29T11:00 02:30                 past  2026-03-29T01:30
Europe/Berlin     2026-10-25T11:00 midnight              past  2026-10-24T22:00
Europe/Berlin     2026-10-25T11:00 02:30                 past  2026-10-25T01:30
America/New_York  2026-03-08T12:00 midnight              past  2026-03-08T05:00
"""


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def utc(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M"))


def zone(name: str, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("TZ", name)
    time.tzset()


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()
    time.tzset()


def test_there_are_sixty() -> None:
    assert len(rows(DATES)) + len(rows(WORDS)) == 60


@pytest.mark.parametrize(("zone_name", "text", "moment"), rows(DATES))
def test_a_date_is_one_moment(
    zone_name: str, text: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same from anywhere in the year, and shown again as it was written where that exists."""
    zone(zone_name, monkeypatch)
    for now in ("2026-01-05T12:00", "2026-07-05T12:00", "2027-12-05T12:00"):
        for past in (False, True):
            assert parse_date(text, utc(now), past=past) == utc(moment)
    shown = format_date(utc(moment))
    assert shown == f"{text}:00" or (shown > text and parse_date(shown, 0) == utc(moment))


@pytest.mark.parametrize(("zone_name", "now", "words", "way", "moment"), rows(WORDS))
def test_words_mean_the_days_own_time(
    zone_name: str, now: str, words: str, way: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day has 23, 24 or 25 hours. `now+1day` is 24 hours."""
    zone(zone_name, monkeypatch)
    assert parse_date(words, utc(now), past=way == "past") == utc(moment)


def test_what_is_stored_does_not_depend_on_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One moment is shown in three time zones.

    A date that is written as it is shown means the same moment.
    """
    moment = utc("2026-10-25T01:30")
    shown = set()
    for zone_name in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"):
        zone(zone_name, monkeypatch)
        shown.add(format_date(moment))
        assert parse_date(format_date(moment), 0) == moment
    assert shown == {"2026-10-25T02:30:00", "2026-10-24T21:30:00", "2026-10-25T07:00:00"}
