"""Hours, days and months follow the local clock."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.dbd.rollup.periods import day_of, hour_of, month_of, next_day, next_hour, next_month
from tests.world.examples import drawn

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
    "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu",
)  # fmt: skip


@pytest.fixture(autouse=True)
def zone_put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()
    time.tzset()


def live_in(patch: pytest.MonkeyPatch, zone: str) -> None:
    patch.setenv("TZ", zone)
    time.tzset()


def utc(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M"))


@pytest.mark.parametrize(
    ("moment", "hours"),
    [("2026-03-29 12:00", 23), ("2026-10-25 12:00", 25), ("2026-06-01 12:00", 24)],
)
def test_days_have_the_hours_of_the_clock(
    monkeypatch: pytest.MonkeyPatch, moment: str, hours: int
) -> None:
    """When clocks are put forward a day has 23 hours, when they are put back 25."""
    live_in(monkeypatch, "Europe/Berlin")
    begin = day_of(utc(moment))
    assert time.strftime("%H:%M", time.localtime(begin)) == "00:00"
    at, count = begin, 0
    while at < next_day(begin):
        at, count = next_hour(at), count + 1
    assert (at, count) == (next_day(begin), hours)


def test_hours_of_half_hour_zones_begin_at_the_full_local_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live_in(monkeypatch, "Asia/Kolkata")
    assert hour_of(utc("2026-01-01 10:45")) == utc("2026-01-01 10:30")
    assert next_hour(utc("2026-01-01 10:45")) == utc("2026-01-01 11:30")


@pytest.mark.parametrize(
    ("zone", "date"), [("America/Sao_Paulo", "2018-11-04"), ("America/Havana", "2026-11-01")]
)
def test_a_day_may_begin_without_midnight_or_with_two(
    monkeypatch: pytest.MonkeyPatch, zone: str, date: str
) -> None:
    live_in(monkeypatch, zone)
    begin = day_of(utc(f"{date} 16:00"))
    assert time.strftime("%Y-%m-%d", time.localtime(begin)) == date
    assert time.strftime("%Y-%m-%d", time.localtime(begin - 1)) < date


@pytest.mark.parametrize("zone", ZONES)
def test_periods_follow_one_another(zone: str) -> None:
    """Each moment is in one period, which begins and ends with a period of the smaller kind."""

    @settings(max_examples=drawn(60))
    @given(st.integers(utc("2010-01-01 00:00"), utc("2030-01-01 00:00")))
    def check(second: int) -> None:
        for begin_of, after in ((hour_of, next_hour), (day_of, next_day), (month_of, next_month)):
            begin, end = begin_of(second), after(second)
            assert begin <= second < end
            assert begin_of(begin) == begin
            assert after(begin) == end
            assert begin_of(end) == end
        assert hour_of(day_of(second)) == day_of(second)
        assert day_of(month_of(second)) == month_of(second)

    with pytest.MonkeyPatch.context() as patch:
        live_in(patch, zone)
        check()
