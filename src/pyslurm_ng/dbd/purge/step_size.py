"""How many rows one transaction of a purge takes."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_S = 0.05
"""How long one transaction may hold the writing thread: a controller's journal waits for it."""
_FIRST = 50
_LEAST = 5
_GROWTH = 2


class StepSize:
    """As many rows as the last transactions show that the database removes in `MOST_S`.

    A row costs what its indexes and the disk make it cost: with a million jobs ten times what it
    does with a few thousand, and more where other programs use the disk.

    Args:
        most: rows that a transaction may take however fast it is.
    """

    def __init__(self, most: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._monotonic = monotonic
        self.rows = min(_FIRST, most)

    def measured(self, step: Callable[[int], int]) -> int:
        """Take a step with so many rows; return what it returns."""
        begun_s = self._monotonic()
        count = step(self.rows)
        took_s = max(self._monotonic() - begun_s, 1e-6)
        fitting = int(self.rows * min(MOST_S / took_s, _GROWTH))
        self.rows = min(max(fitting, _LEAST), self._most)
        return count
