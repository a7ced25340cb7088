"""When usage is set to zero, and the dates that this needs."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.rules.calendar import UTC, last_reset_us, next_reset_us


def at_us(text: str) -> int:
    """Return a UTC time in microseconds."""
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("period", "last", "expected"),
    [
        ("DAILY", "2026-11-21T14:30:00", "2026-11-22T00:00:00"),
        ("DAILY", "2026-12-31T00:00:00", "2027-01-01T00:00:00"),
        ("WEEKLY", "2026-11-21T23:59:59", "2026-11-22T00:00:00"),  # a Saturday
        ("WEEKLY", "2026-11-22T00:00:00", "2026-11-29T00:00:00"),
        ("MONTHLY", "2028-02-29T12:00:00", "2028-03-01T00:00:00"),
        ("MONTHLY", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        ("QUARTERLY", "2026-05-05T00:00:00", "2026-07-01T00:00:00"),
        ("QUARTERLY", "2026-10-01T00:00:00", "2027-01-01T00:00:00"),
        ("YEARLY", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_next_boundary(period: str, last: str, expected: str) -> None:
    """Midnight, Sunday, the first of a month, quarter or year."""
    assert next_reset_us(period, at_us(last), UTC) == at_us(expected)


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("DAILY", "2026-11-21T00:00:00"),
        ("WEEKLY", "2026-11-15T00:00:00"),
        ("MONTHLY", "2026-11-01T00:00:00"),
        ("QUARTERLY", "2026-10-01T00:00:00"),
        ("YEARLY", "2026-01-01T00:00:00"),
    ],
)
def test_the_last_boundary(period: str, expected: str) -> None:
    """What was used before it does not come back from the database."""
    assert last_reset_us(period, at_us("2026-11-21T14:30:00"), UTC) == at_us(expected)
    assert last_reset_us(period, at_us(expected), UTC) == at_us(expected)
    assert last_reset_us("NONE", at_us(expected), UTC) == 0


@pytest.mark.parametrize("period", ["NONE", "NOW", ""])
def test_no_boundary(period: str) -> None:
    """Nothing is reset by the calendar."""
    assert next_reset_us(period, at_us("2026-11-21T14:30:00"), UTC) == 0


@given(st.datetimes(datetime(1971, 1, 1), datetime(2400, 1, 1)))
def test_dates_are_those_of_the_library(moment: datetime) -> None:
    """Dates there and back, leap years included."""
    when_us = int(moment.replace(tzinfo=timezone.utc).timestamp()) * 1_000_000
    assert UTC.date(when_us) == (moment.year, moment.month, moment.day)
    day = datetime(moment.year, moment.month, moment.day, tzinfo=timezone.utc)
    assert UTC.midnight_us(*UTC.date(when_us)) == int(day.timestamp()) * 1_000_000


@given(st.integers(0, 4_000_000_000))
def test_local_midnight_is_at_most_a_day_and_an_hour_ago(when_s: int) -> None:
    """In every time zone."""
    when_us = when_s * 1_000_000
    date = LOCAL.date(when_us)
    begin_us = LOCAL.midnight_us(*date)
    assert 0 <= when_us - begin_us < 25 * 3600 * 1_000_000
    year, month, day = date
    assert LOCAL.midnight_us(year, month, day + 1) > when_us
