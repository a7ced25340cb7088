"""Times in UTC, as recorded, and the users of the reference cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pyslurm_ng.cli import command
from tests.cli.reference_cluster import USERS


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
    monkeypatch.setattr(command, "uid_of", lambda text: {"root": 0, **USERS}.get(text, -1))
    names = {uid: name for name, uid in USERS.items()} | {0: "root"}
    monkeypatch.setattr(command, "user_name", lambda uid: names.get(uid, str(uid)))
    yield
    monkeypatch.undo()
    time.tzset()
