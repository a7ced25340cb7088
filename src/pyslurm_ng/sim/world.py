"""Virtual time: a heap of what happens when, and one seeded generator for all chance."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

Action = Callable[[], None]


class World:
    """The clock of a simulation. What is due at one moment runs in order of request.

    Actions given to `call_soon` run after everything else of the same moment, as the end of an
    event loop's turn: all events of one second are applied before a pass looks at them.
    """

    def __init__(self, seed: int = 0, start_us: int = 0) -> None:
        self.now_us = start_us
        self.random = random.Random(seed)
        self._heap: list[tuple[int, int, int, Action]] = []
        self._sequence = 0
        self.actions_run = 0

    def at(self, time_us: int, action: Action) -> None:
        """Run `action` at a time not in the past."""
        self._push(max(time_us, self.now_us), 0, action)

    def after(self, delay_us: int, action: Action) -> None:
        """Run `action` after a delay."""
        self._push(self.now_us + max(0, delay_us), 0, action)

    def call_soon(self, action: Action) -> None:
        """Run `action` at the end of the present moment."""
        self._push(self.now_us, 1, action)

    def _push(self, time_us: int, place: int, action: Action) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time_us, place, self._sequence, action))

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return not self._heap

    def run(self, until_us: int | None = None, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass until nothing is left, `until_us` is reached, or `stop` says so."""
        heap = self._heap
        while heap:
            if until_us is not None and heap[0][0] > until_us:
                self.now_us = until_us
                return
            time_us, _, _, action = heapq.heappop(heap)
            self.now_us = time_us
            action()
            self.actions_run += 1
            if stop is not None and stop():
                return
