"""Times in UTC, as recorded, and the users of the reference cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.world.people import know_people


@pytest.fixture(autouse=True)
def recorded_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make this process look like the one that recorded the outputs."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for name in (
        "SQUEUE_FORMAT",
        "SQUEUE_SORT",
        "SINFO_FORMAT",
        "SLURM_TIME_FORMAT",
        "SLURM_BITSTR_LEN",
        "SLURM_CLUSTERS",
        "SLURM_JOB_NODELIST",
    ):
        monkeypatch.delenv(name, raising=False)
    know_people(monkeypatch)
    yield
    monkeypatch.undo()
    time.tzset()
