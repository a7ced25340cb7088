"""How many rows one transaction of a purge takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MOST_S = 0.05
"""How long the rows of one transaction may hold the writing thread: a controller's journal waits
for it."""
_FIRST = 50
_LEAST = 5
_GROWTH = 2
_PROBE_EVERY = 20
"""One transaction of so many takes one row, to learn what a transaction costs by itself."""
_FIRST_PROBES = 3
_PROBES = 5
"""So many of them are looked at, and the first ones come one after the other."""
_MOST_OF_SLOW_S = 0.2


class StepSize:
    """As many rows as the last transactions show that the database removes in `MOST_S`.

    A row costs what its indexes and the disk make it cost: with a million jobs ten times what it
    does with a few thousand, and more where other programs use the disk. What a transaction of one
    row costs (queries, a sync of the archive and one of the database) is left out: fewer rows make
    that no shorter, but a purge that never ends. Rows may take as long again, within bounds.

    Args:
        most: rows that a transaction may take however fast it is.
    """

    def __init__(self, most: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._monotonic = monotonic
        self._steps = 0
        self._of_one_s: deque[float] = deque(maxlen=_PROBES)
        self.rows = min(_FIRST, most)

    def measured(self, step: Callable[[int], int]) -> int:
        """Take a step with so many rows; return what it returns."""
        is_probe = self._steps < _FIRST_PROBES or self._steps % _PROBE_EVERY == 0
        self._steps += 1
        rows = 1 if is_probe else self.rows
        begun_s = self._monotonic()
        count = step(rows)
        took_s = self._monotonic() - begun_s
        if is_probe:
            self._of_one_s.append(took_s)
        else:
            # The least of several: the host may have stood still during one.
            of_one_s = min(self._of_one_s)
            of_others_s = max(took_s - of_one_s, 1e-6)
            allowed_s = max(MOST_S, min(of_one_s, _MOST_OF_SLOW_S))
            fitting = int(rows * min(allowed_s / of_others_s, _GROWTH))
            self.rows = min(max(fitting, _LEAST), self._most)
        return count
