"""Which request is next: round robin between users, so that each has one turn.

A user with 500 connections in a loop delays another user's single request by one request, not by
500 (RELIABILITY 46).
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """Queues by lane (a uid), served in turn; a lane's weight is how many requests a turn has.

    Order within a lane is kept.
    """

    __slots__ = ("_count", "_left", "_order", "_queues", "_weights")

    def __init__(self, weights: dict[int, int] | None = None) -> None:
        self._queues: dict[int, deque[T]] = {}
        self._order: deque[int] = deque()
        self._weights = weights or {}
        self._left = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def waiting(self, lane: int) -> int:
        """Return how many wait in one lane."""
        queue = self._queues.get(lane)
        return 0 if queue is None else len(queue)

    def push(self, lane: int, element: T) -> None:
        """Add to the end of a lane."""
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = deque()
            if not self._order:
                self._left = self._weights.get(lane, 1)
            self._order.append(lane)
        queue.append(element)
        self._count += 1

    def pop(self) -> tuple[int, T]:
        """Take the next item with its lane; there must be one."""
        lane = self._order[0]
        queue = self._queues[lane]
        element = queue.popleft()
        self._count -= 1
        self._left -= 1
        if not queue:
            del self._queues[lane]
            self._order.popleft()
            self._begin_turn()
        elif self._left <= 0:
            self._order.rotate(-1)
            self._begin_turn()
        return lane, element

    def push_first(self, lane: int, element: T) -> None:
        """Add to the beginning of a lane."""
        self.push(lane, element)
        self._queues[lane].rotate(1)

    def take(self, lane: int) -> deque[T]:
        """Take all that waits in one lane."""
        queue = self._queues.pop(lane, None)
        if queue is None:
            return deque()
        is_next = self._order[0] == lane
        self._order.remove(lane)
        self._count -= len(queue)
        if is_next:
            self._begin_turn()
        return queue

    def _begin_turn(self) -> None:
        if self._order:
            self._left = self._weights.get(self._order[0], 1)
