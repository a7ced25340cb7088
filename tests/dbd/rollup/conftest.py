"""What tests of the roll-up share."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.dbd.accounting_room import utc


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Days begin at midnight UTC, wherever the test runs."""
    utc(monkeypatch)
    yield
    monkeypatch.undo()
    time.tzset()
