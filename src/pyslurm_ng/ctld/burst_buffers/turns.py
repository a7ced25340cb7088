"""How many functions run at once: no user's jobs take all places."""

from __future__ import annotations

import asyncio
from collections import Counter, deque


class Turns:
    """Places for work, which users take in turn; each has a share of them only.

    A function that hangs keeps its turn until its time is over, so it must not be all of them.
    What a user has waiting beyond that share is never looked at: thousands of jobs may wait.
    """

    def __init__(self, most: int, most_of_each: int) -> None:
        self._most = most
        self._most_of_each = most_of_each
        self._taken: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}  # the next user first

    async def take(self, uid: int) -> None:
        """Wait for a place."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, deque()).append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(uid)
            raise

    def leave(self, uid: int) -> None:
        """Give a place back."""
        self._taken[uid] -= 1
        if not self._taken[uid]:
            del self._taken[uid]
        self._give()

    def waiting(self, uid: int) -> int:
        """Return how much work of a user waits."""
        return len(self._waiting.get(uid, ()))

    def _give(self) -> None:
        while self._taken.total() < self._most:
            uid = self._next()
            if uid is None:
                return
            queue = self._waiting.pop(uid)
            turn = queue.popleft()
            if queue:
                self._waiting[uid] = queue  # behind the other users
            if not turn.done():  # else who waited has gone
                self._taken[uid] += 1
                turn.set_result(None)

    def _next(self) -> int | None:
        """Return whose turn it is; None if nobody who waits has places left."""
        may = (uid for uid in self._waiting if self._taken[uid] < self._most_of_each)
        return next(may, None)
