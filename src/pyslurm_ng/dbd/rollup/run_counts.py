"""How often usage was rolled up and how long it took, for `sacctmgr show stats`."""

from __future__ import annotations

import time

CYCLE = "cycle"
"""One look at all clusters that stored something; the other kinds are hour, day and month."""


class RunCounts:
    """Counts since the start or the last `clear`; one thread counts, others read."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}

    def count(self, kind: str, begun_ns: int) -> None:
        """Note that something of a kind is done that began then (`time.monotonic_ns`)."""
        spent_us = (time.monotonic_ns() - begun_ns) // 1000
        last = self._rows.get(kind, [0, 0, 0, 0, 0])
        self._rows[kind] = [
            last[0] + 1, time.time_ns() // 1000, spent_us, max(last[3], spent_us),
            last[4] + spent_us,
        ]  # fmt: skip

    @property
    def stored(self) -> int:
        """Return how many periods were stored."""
        return sum(row[0] for kind, row in self._rows.items() if kind != CYCLE)

    def rows(self) -> list[tuple[str, int, int, int, int, int]]:
        """Return (kind, count, time of the last one, its microseconds, the most, the sum)."""
        return [(kind, row[0], row[1], row[2], row[3], row[4])
                for kind, row in list(self._rows.items())]  # fmt: skip

    def clear(self) -> None:
        """Begin anew."""
        self._rows = {}
