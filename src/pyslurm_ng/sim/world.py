"""Virtual time: a heap of what happens when, and one seeded generator for all chance."""

from __future__ import annotations

import gc
import heapq
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Action = Callable[[], None]
_YOUNG = 50_000  # new objects that are looked through for garbage at a time


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage seldom: a simulation makes many records, and they form no cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(_YOUNG, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


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

    def _push(self, time_us: int, position: int, action: Action) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time_us, position, self._sequence, action))

    @property
    def is_over(self) -> bool:
        """Whether everything that was to happen by itself has happened."""
        return not self._heap

    def run(self, until_us: int | None = None, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass until nothing is left, `until_us` is reached, or `stop` says so."""
        with _seldom_collecting():
            self._run(until_us, stop)

    def _run(self, until_us: int | None, stop: Callable[[], bool] | None) -> None:
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
