"""Long work on the loop, a slice at a time, so that no message waits long for its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator


class Slices:
    """Runs pieces of work one after another; a piece yields wherever messages may go first."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._work: deque[Iterator[None]] = deque()

    def run(self, work: Iterator[None]) -> None:
        """Do `work` in the turns to come, after what is already there."""
        self._work.append(work)
        if len(self._work) == 1:
            self._call_soon(self._take_turn)

    def _take_turn(self) -> None:
        work = self._work.popleft()
        try:
            next(work)
        except StopIteration:
            pass
        else:
            self._work.appendleft(work)
        finally:
            if self._work:
                self._call_soon(self._take_turn)
