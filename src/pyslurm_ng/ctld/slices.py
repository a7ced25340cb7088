"""Long work on the loop, a slice at a time, so that no message waits long for its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


def at_once(work: Generator[None, None, T]) -> T:
    """Return what a piece of work returns, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            answer: T = end.value
            return answer


class Slices:
    """Runs pieces of work; a piece yields wherever messages may go first.

    Users take turns, slice by slice: a user's works are done one after another, and one that asks
    for a hundred of them delays another's by a slice each time.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._lanes: deque[deque[Iterator[None]]] = deque()
        self._lane_of: dict[int, deque[Iterator[None]]] = {}

    def run(self, work: Iterator[None], uid: int = 0) -> None:
        """Do `work` for a user in later turns, after that user's earlier work."""
        lane = self._lane_of.get(uid)
        if lane is None:
            lane = self._lane_of[uid] = deque()
        if not lane:
            self._lanes.append(lane)
        lane.append(work)
        if len(self._lanes) == 1 and len(lane) == 1:
            self._call_soon(self._take_turn)

    def _take_turn(self) -> None:
        lane = self._lanes[0]
        try:
            next(lane[0])
        except StopIteration:
            lane.popleft()
        except BaseException:
            lane.popleft()
            raise
        finally:
            self._lanes.popleft()
            if lane:
                self._lanes.append(lane)
            if self._lanes:
                self._call_soon(self._take_turn)
            else:
                self._lane_of.clear()
