"""When an entry of a crontab is due next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.cron import parse
from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.rules.calendar import UTC, Calendar
from pyslurm_ng.ctld.rules.crontabs.times import next_us


def at_us(text: str) -> int:
    """Return a UTC time in microseconds."""
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1_000_000


def shown(when_us: int) -> str:
    return datetime.fromtimestamp(when_us // 1_000_000, timezone.utc).isoformat()[:16]


@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        ("* * * * *", "2026-11-28T11:03:52", "2026-11-28T11:04"),
        ("* * * * *", "2026-11-28T11:04:00", "2026-11-28T11:05"),
        ("0 * * * *", "2026-12-31T23:00:00", "2027-01-01T00:00"),
        ("30 6 * * mon-fri", "2026-11-27T06:30:00", "2026-11-30T06:30"),
        ("0 0 29 feb *", "2096-02-29T00:00:00", "2104-02-29T00:00"),
        ("0 0 13 * fri", "2026-11-28T00:00:00", "2026-12-04T00:00"),
        ("59 23 31 * *", "2026-11-28T00:00:00", "2026-12-31T23:59"),
    ],
)
def test_next_moment(spec: str, after: str, expected: str) -> None:
    """It is always later than the moment it counts from."""
    assert shown(next_us(parse(spec), at_us(after), UTC)) == expected


@given(st.integers(0, 4 * 10**15), st.sampled_from(["7 */5 * * *", "0 12 * * 3", "*/7 1-3 5 * *"]))
def test_it_is_the_first_one(after_us: int, spec: str) -> None:
    """Between a moment and the next due one there is none: it stays the same for both."""
    due_us = next_us(parse(spec), after_us, UTC)
    assert due_us > after_us
    assert next_us(parse(spec), (after_us + due_us) // 2, UTC) == due_us
    assert next_us(parse(spec), due_us - 1, UTC) == due_us


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks go forward on 2026-03-29 at 2:00 and back on 2026-10-25 at 3:00."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_summer_time() -> None:
    """A moment that clocks leave out comes later on that day; a repeated one comes once."""
    night = parse("30 2 * * *")
    assert shown(next_us(night, at_us("2026-03-28T12:00:00"), LOCAL)) == "2026-03-29T01:30"
    assert shown(next_us(night, at_us("2026-03-29T01:30:00"), LOCAL)) == "2026-03-30T00:30"
    first_us = next_us(night, at_us("2026-10-24T12:00:00"), LOCAL)
    assert shown(first_us)[:10] == "2026-10-25"
    assert shown(next_us(night, first_us, LOCAL)) == "2026-10-26T01:30"


@pytest.mark.usefixtures("berlin")
def test_entries_for_each_hour_go_on_in_a_repeated_hour() -> None:
    """A check every ten minutes must not pause for an hour."""
    often, when_us = parse("*/10 * * * *"), at_us("2026-10-25T00:00:00")
    for _ in range(12):
        due_us = next_us(often, when_us, LOCAL)
        assert due_us - when_us == 600_000_000
        when_us = due_us


class _Counting(Calendar):
    """A calendar that counts how often it is asked: a time zone takes some microseconds."""

    asked = 0

    def midnight_us(self, year: int, month: int, day: int) -> int:
        self.asked += 1
        return super().midnight_us(year, month, day)


@pytest.mark.parametrize("spec", ["0 0 29 2 */7", "59 23 31 12 */7", "* 0-22 * * *", "* * * * *"])
def test_a_rare_day_is_no_work(spec: str) -> None:
    """200 entries for a Sunday the 29th of February held slurmctld for ten seconds."""
    calendar, now_us = _Counting(), at_us("2026-11-28T12:00:00")
    moment_us = next_us(parse(spec), now_us, calendar)
    assert moment_us > now_us
    assert calendar.asked < 200
