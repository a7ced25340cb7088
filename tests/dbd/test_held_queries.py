"""Queries about jobs wait for the newest records, also where the database is slow."""

from __future__ import annotations

import asyncio

import pytest

from pyslurm_ng.dbd import held_queries
from pyslurm_ng.dbd.held_queries import NewestRecords


def test_a_slow_database_ends_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine one slow batch once let every sacct of the next minute miss its job: the
    controller had answered, but counted as silent until its next call."""
    monkeypatch.setattr(held_queries, "WAIT_S", 0.01)
    monkeypatch.setattr(held_queries, "STORED_S", 0.05)

    async def story() -> None:
        answers: list[bool] = []
        records = NewestRecords(lambda _: True)
        records.registered("c", 5)
        records.told("c", 5)
        records.hold(["c"], answers.append)
        records.told("c", 7)
        while not answers:
            await asyncio.sleep(0.005)
        assert answers == [True]
        # The next one is held, and sees what the first had to wait for in vain.
        records.hold(["c"], answers.append)
        records.told("c", 8)
        records.stored("c", 8)
        assert answers == [True, False]

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_silent_controller_delays_only_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_queries, "WAIT_S", 0.01)

    async def story() -> None:
        answers: list[bool] = []
        records = NewestRecords(lambda _: True)
        records.told("c", 5)
        records.hold(["c"], answers.append)
        while not answers:
            await asyncio.sleep(0.005)
        records.hold(["c"], answers.append)
        assert answers == [True, True]

    asyncio.run(asyncio.wait_for(story(), 60))
