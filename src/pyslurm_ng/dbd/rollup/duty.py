"""The thread that stores usage: of each hour when it is over, then of days and months.

It reads on a connection of its own. What it has added up is stored by the writing thread, a period
at a time and behind the calls that wait, so neither journals nor queries wait for more than one
small transaction. A period is replaced as a whole together with the note that it is done, so
nothing is lost or counted twice, whenever the process is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TypeVar

import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.repeat import RepeatedWork
from pyslurm_ng.dbd.rollup import tables
from pyslurm_ng.dbd.rollup.hour import roll_up
from pyslurm_ng.dbd.rollup.rows import HourRows
from pyslurm_ng.dbd.rollup.run_counts import CYCLE, RunCounts
from pyslurm_ng.dbd.rollup.spans import Span

_ATTEMPTS = 10
"""How often in one look hours are begun again that changed while they were read."""

T = TypeVar("T")
Run = Callable[[Callable[[], T]], T]


class RollUp:
    """Stores what is due, for one cluster after the other.

    Args:
        run: does work in the writing thread, and returns what it returns.
        clock_s: the time in seconds.
        counts: where each period that is stored is counted.

    Attributes:
        thread: catches up now and then.
    """

    def __init__(
        self,
        database: Database,
        run: Callable[[Callable[[], object]], object],
        faults: Faults,
        clock_s: Callable[[], int],
        counts: RunCounts | None = None,
    ) -> None:
        self._database = database
        self._run = run
        self._clock_s = clock_s
        self._counts = counts or RunCounts()
        self.thread = RepeatedWork("usage", self.catch_up, faults)

    def catch_up(self) -> None:
        """Store what is due now, for all clusters.

        Raises:
            SQLAlchemyError: the database cannot be used; what is stored stays.
        """
        before, begun_ns = self._counts.stored, time.monotonic_ns()
        with self._database.read() as connection:
            ids = list(connection.execute(sa.select(schema.clusters.c.id)).scalars())
        for cluster_id in ids:
            for _ in range(_ATTEMPTS):
                if self.thread.is_stopping or self._catch_up(cluster_id):
                    break
        if self._counts.stored > before:
            self._counts.count(CYCLE, begun_ns)

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        def transaction() -> T:
            with self._database.write() as connection:
                return work(connection)

        return self._run(transaction)  # type: ignore[return-value]

    def _catch_up(self, cluster_id: int) -> bool:
        """Store what is due for a cluster; return False if it changed meanwhile."""
        now_s = self._clock_s()
        last = self._write(lambda connection: tables.claim(
            connection, self._database, cluster_id, now_s))  # fmt: skip
        if last is None:
            return True
        return (
            self._hours(cluster_id, last.hour, last.claimed_s)
            and self._sums(cluster_id, "day", last.day, last.claimed_s)
            and self._sums(cluster_id, "month", last.month, last.claimed_s)
        )

    def _hours(self, cluster_id: int, first_s: int, until_s: int) -> bool:
        """Store the hours from `first_s` to `until_s`."""
        reader = HourRows(cluster_id)
        for hour in _spans("hour", first_s, until_s):
            begun_ns = time.monotonic_ns()
            with self._database.read() as connection:
                if hour.start_s == first_s:
                    reader.begin(connection)
                parts = reader.read(connection, hour)
                ids = tables.tres_ids(connection)
            rows = tables.hour_rows(roll_up(hour, *parts), ids)
            if not self._replace(cluster_id, "hour", hour, rows):
                return False
            self._counts.count("hour", begun_ns)
        return True

    def _sums(self, cluster_id: int, period: str, first_s: int, until_s: int) -> bool:
        """Store the days or months that are over."""
        for span in _spans(period, first_s, until_s):
            begun_ns = time.monotonic_ns()
            with self._database.read() as connection:
                rows = tables.sum_rows(connection, cluster_id, period, span)
            if not self._replace(cluster_id, period, span, rows):
                return False
            self._counts.count(period, begun_ns)
        return True

    def _replace(self, cluster_id: int, period: str, span: Span, rows: tables.Rows) -> bool:
        if self.thread.is_stopping:
            raise CancelledError
        return self._write(
            lambda connection: tables.replace(connection, cluster_id, period, span, rows)
        )


def _spans(period: str, first_s: int, until_s: int) -> list[Span]:
    """Return the whole periods from a time to another."""
    spans = []
    while (end_s := tables.NEXT[period](first_s)) <= until_s:
        spans.append(Span(first_s, end_s))
        first_s = end_s
    return spans
