"""The time that a report of sreport is about."""

from __future__ import annotations

from calendar import timegm

import pytest

from pyslurm_ng.cli.accounting.sreport_amounts import Period

NOW_S = timegm((2026, 11, 28, 14, 55, 0))


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.mark.parametrize(
    ("start", "end", "title"),
    [
        ("", "", "2026-11-27T00:00:00 - 2026-11-27T23:59:59"),
        ("2026-11-28", "2026-11-29", "2026-11-28T00:00:00 - 2026-11-28T14:59:59"),
        ("2026-11-28", "now+3days", "2026-11-28T00:00:00 - 2026-11-28T14:59:59"),
        ("2026-11-30", "", "2026-11-30T00:00:00 - 2026-11-30T00:59:59"),
        ("2026-11-28T14:10:00", "2026-11-28T14:20:00", "2026-11-28T14:00:00 - 2026-11-28T14:59:59"),
    ],
)
def test_a_period_ends_with_the_present_hour(start: str, end: str, title: str) -> None:
    """Hours to come would count as idle; the titles are those of 22.05."""
    assert Period(start, end, NOW_S).title == title
