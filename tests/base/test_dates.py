"""Dates of --begin, --deadline and sacct, in several time zones."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pyslurm_ng.base.dates import DateError, format_date, parse_date

NOW = 1795175884  # 2026-11-20T11:58:04 UTC, a Friday


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


AHEAD = [
    ("now", "2026-11-20T11:58:04"),
    ("now+1hour", "2026-11-20T12:58:04"),
    ("now + 2days", "2026-11-22T11:58:04"),
    ("now+60", "2026-11-20T11:59:04"),
    ("now+5minutes", "2026-11-20T12:03:04"),
    ("now-1weeks", "2026-11-13T11:58:04"),
    ("midnight", "2026-11-21T00:00:00"),
    ("noon", "2026-11-20T12:00:00"),
    ("fika", "2026-11-20T15:00:00"),
    ("teatime", "2026-11-20T16:00:00"),
    ("today", "2026-11-20T00:00:00"),
    ("tomorrow", "2026-11-21T00:00:00"),
    ("noon-tomorrow", "2026-11-21T12:00:00"),
    ("tomorrowT08:30", "2026-11-21T08:30:00"),
    ("09:30", "2026-11-21T09:30:00"),
    ("16:00", "2026-11-20T16:00:00"),
    ("1:05pm", "2026-11-20T13:05:00"),
    ("12:30 AM", "2026-11-21T00:30:00"),
    ("010134", "2034-01-01T00:00:00"),
    ("0101", "2027-01-01T00:00:00"),
    ("12/31", "2026-12-31T00:00:00"),
    ("12.31.27", "2027-12-31T00:00:00"),
    ("1/2/2028", "2028-01-02T00:00:00"),
    ("1/2-14:00", "2027-01-02T14:00:00"),
    ("2027-01-20", "2027-01-20T00:00:00"),
    ("2027-01-20T12:34", "2027-01-20T12:34:00"),
    ("2027-01-20T12:34:56", "2027-01-20T12:34:56"),
    ("uts1795175884", "2026-11-20T11:58:04"),
    ("2027-01-20T12:34:56-08:00", "2027-01-20T08:00:00"),
    ("2027-01-20T12:34:56T08:00", "2027-01-20T08:00:00"),
    ("2027-01-20 2027-01-21", "2027-01-21T00:00:00"),
    ("12:00 16:00", "2026-11-20T16:00:00"),
    ("teatime-18:00", "2026-11-20T18:00:00"),
]


@pytest.mark.parametrize(("text", "shown"), AHEAD)
def test_a_date_lies_ahead(text: str, shown: str) -> None:
    assert format_date(parse_date(text, NOW)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("09:30", "2026-11-20T09:30:00"),
        ("midnight", "2026-11-20T00:00:00"),
        ("12/31", "2025-12-31T00:00:00"),
        ("11/01", "2026-11-01T00:00:00"),
    ],
)
def test_accounting_looks_back(text: str, shown: str) -> None:
    """sacct -S 09:30 means this morning, not tomorrow."""
    assert format_date(parse_date(text, NOW, past=True)) == shown


@pytest.mark.parametrize(
    "text",
    ["whenever", "", "2027-13-01", "2027-02-30", "25:00", "12:60", "now+", "now+5x", "13:00pm",
     "2027-01-20T", "1234567", "now~5"],
)  # fmt: skip
def test_nonsense_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(DateError) as caught:
        parse_date(text, NOW)
    assert str(caught.value).startswith("Invalid time specification (pos=")
    assert str(caught.value).endswith(f"): {text}")


@pytest.mark.parametrize("text", ["now+9999999999hours", "now-9999999999hours", f"uts{10**12}"])
def test_a_moment_of_no_calendar_is_refused(text: str) -> None:
    """It would not fit into a message, either."""
    with pytest.raises(DateError):
        parse_date(text, NOW)


def test_summer_time_is_the_days_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 15: tomorrow's midnight across the change is 23 or 25 hours ahead, not 24."""
    monkeypatch.setenv("TZ", "Europe/Stockholm")
    time.tzset()
    before = parse_date("2026-10-24T00:00:00", NOW)
    assert format_date(parse_date("2026-10-26", before)) == "2026-10-26T00:00:00"
    assert parse_date("2026-10-26", before) - before == 49 * 3600


def test_time_formats_follow_slurm_time_format() -> None:
    assert format_date(NOW, "%s") == str(NOW)
    assert format_date(NOW, "standard") == "2026-11-20T11:58:04"
    assert format_date(0) == "Unknown"
    assert format_date(0, empty="None") == "None"
    assert format_date(NOW, "relative", NOW) == "11:58:04"
    assert format_date(NOW + 86400, "relative", NOW) == "Tomorr 11:58"
    assert format_date(NOW - 86400, "relative", NOW) == "Ystday 11:58"
    assert format_date(NOW + 3 * 86400, "relative", NOW) == "Mon 11:58"
    assert format_date(NOW + 30 * 86400, "relative", NOW) == "20 Dec 11:58"
    assert format_date(NOW + 200 * 86400, "relative", NOW) == "8 Jun 2027"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("now+1fortnight", 4), ("now+", 3), ("2030-13-01", 5), ("2030-01-45", 8), ("12:60", 3),
        ("2030-01-01T12:60", 14), ("2030-01-01T12:00:61", 17), ("12:00:99", 6), ("13:00pm", 5),
        ("01/32", 3), ("01/01/2", 7), ("12", 2), ("todayx", 5), ("1301", 0), ("25:00", 0),
        ("2030-01-01T25:00", 11), ("whenever", 0), ("now+1d", 4), ("now+5min", 4), ("yesterday", 0),
        ("elevenses", 0), ("²²:00", 0), ("12:0²", 4), ("uts²", 3), ("2030-01-01T٣:00", 11),
        ("uts" + "9" * 5000, 256), ("00:00 " * 20_000, 256),
    ],
)  # fmt: skip
def test_the_place_of_the_mistake_is_slurms(text: str, position: int) -> None:
    """As 22.05 prints it: where the field begins that cannot be, or the reading stopped.

    Python takes more letters for digits than it makes numbers of, and endless texts take long.
    """
    with pytest.raises(DateError, match=rf"\(pos={position}\)"):
        parse_date(text, 1_700_000_000)
