"""Queries of many users on a few threads, in fair turns.

A query is an iterator: each step reads one part of the answer in a separate transaction. After each
step another lane has its turn, so a long answer delays others by one part only. A query waits
without a thread while its peer does not read. One lane is one uid. Administrators and daemons share
a lane that goes first and has its own thread.

The lane that has used least lately goes first. One thread takes short steps only, and one those of
middle length: a statement that takes longer there is cut short and begun again on another thread.
So users whose queries read a whole table delay others' shorter queries by that time, however many
they are. Only a statement that was cut short as too long for both has a thread for as long as it
takes, and each lane has one such thread at a time, administrators two.

There are bounds for the waiting, the begun and the running queries of a lane, and for the time of
all steps of a query. A query whose connection has ended is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.stream import Call

LIMITS_S = [1.0, 10.0]
"""The longest statement on each thread that has a limit, by level."""
LONG = len(LIMITS_S)
"""The level of statements that were cut short on each of these threads."""
LONG_THREADS = 3
"""Threads for such statements; they take others, too, but cut them short as the last limit says."""
LONG_PER_LANE = 1
LONG_OF_PRIVILEGED = 2
RUNNING_PER_LANE = 2
BEGUN_PER_LANE = 8
"""Queries in progress hold what they have selected; further ones wait for one of them to end."""
WAITING_PER_LANE = 256
HALF_LIFE_S = 30.0
"""Time after which half of what a lane has used no longer counts."""
LIMIT_S = 60.0
PRIVILEGED_LIMIT_S = 600.0
UNREAD_BYTES = 32 << 20
"""Unread bytes from which a query waits for its peer."""
LOOK_AGAIN_S = 0.05
_PATIENCE_S = 5.0
"""How long the end waits for statements that run."""


class TooLongError(Exception):
    """A query has used up its time."""


@dataclass(eq=False, slots=True)
class Query:
    """One query in progress.

    Attributes:
        steps: reads one part at each `next`; True says that the query is done.
        left_s: the time that it may still run.
        level: the least level of a thread that has the time for its next step.
        is_begun: whether a step has been taken.
        next_level: what follows for its present step if it is cut short; 0 if that ends the query.
    """

    call: Call
    lane: int
    steps: Iterator[bool]
    left_s: float
    ended: Callable[[], None]
    deadline_s: float = field(default=0.0)
    level: int = 0
    is_begun: bool = False
    next_level: int = 0

    @property
    def is_wanted(self) -> bool:
        """Whether the client still waits for the answer and there is time left."""
        return not self.call.is_gone and time.monotonic() < self.deadline_s

    def cut_short(self) -> bool:
        """Return whether a step that was cut short is to be taken again, on another thread."""
        self.level = self.next_level or self.level
        return self.next_level > 0


class RecentUse:
    """Seconds that each lane has used; they count less and less."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._since_s = time.monotonic()

    def add(self, lane: int, seconds: float) -> None:
        """Charge a lane; now and then let all fade."""
        now_s = time.monotonic()
        passed_s = now_s - self._since_s
        if passed_s > HALF_LIFE_S / 30:
            self._since_s = now_s
            share = 0.5 ** (passed_s / HALF_LIFE_S)
            faded = {lane_uid: used * share for lane_uid, used in self._seconds.items()}
            self._seconds = {lane_uid: used for lane_uid, used in faded.items() if used > 0.001}
        self._seconds[lane] = self._seconds.get(lane, 0.0) + seconds

    def of(self, lane: int) -> float:
        """Return what a lane has used lately."""
        return self._seconds.get(lane, 0.0)


class Readers:
    """The threads, and which query is next.

    Args:
        loop: calls are answered on it.
        bug: called with the exception of a query; queries handle their errors, so this is a bug.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, bug: Callable[[Call, BaseException], None]
    ) -> None:
        self._loop = loop
        self._bug = bug
        self._changed = threading.Condition()
        self._lanes: dict[int, deque[Query]] = {}
        self._running: Counter[int] = Counter()
        self._long: Counter[int] = Counter()  # of them those of the level LONG
        self._begun: Counter[int] = Counter()
        self._used = RecentUse()
        self._unread: list[Query] = []
        self._is_stopping = False
        shared = [(level, False) for level in (*range(LONG), *[LONG] * LONG_THREADS)]
        self._threads = [
            threading.Thread(target=self._work, args=kind, name=f"reader-{number}", daemon=True)
            for number, kind in enumerate([*shared, (LONG - 1, True)])
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self, call: Call, lane: int, steps: Callable[[Query], Iterator[bool]],
        ended: Callable[[], None],
    ) -> None:  # fmt: skip
        """Let a query wait for its turn; on the loop.

        Args:
            steps: returns the iterator, given the query.
            ended: called once, when the query has ended.
        """
        query = Query(call, lane, iter(()), self.limit_s(lane), ended)
        query.steps = steps(query)
        with self._changed:
            waiting = len(self._lanes.get(lane, ())) + sum(
                query.lane == lane for query in self._unread
            )
            if lane != PRIVILEGED and waiting >= WAITING_PER_LANE:
                call.error(
                    Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF,
                    f"{waiting} queries of this user wait; ask again later",
                )
                ended()
                return
            self._queue(query)

    def limit_s(self, lane: int) -> float:
        """Return how long a query of a lane may run."""
        return PRIVILEGED_LIMIT_S if lane == PRIVILEGED else LIMIT_S

    def close(self) -> None:
        """Begin no further steps and wait a while for running ones; not on the loop.

        A step holds a connection of the database, which its owner closes after this.
        """
        with self._changed:
            self._is_stopping = True
            self._lanes.clear()
            self._unread.clear()
            self._changed.notify_all()
        deadline_s = time.monotonic() + _PATIENCE_S
        for thread in self._threads:
            thread.join(max(deadline_s - time.monotonic(), 0.0))

    @property
    def waiting(self) -> int:
        """How many queries wait for a thread or for their peer."""
        with self._changed:
            return sum(map(len, self._lanes.values())) + len(self._unread)

    # In threads -------------------------------------------------------------------------------

    def _work(self, level: int, is_kept: bool) -> None:
        """Take steps until told to stop.

        Args:
            level: which steps.
            is_kept: whether only those of administrators and daemons.
        """
        while (query := self._next(level, is_kept)) is not None:
            is_over, is_unread = True, False
            before, began_s = query.level, time.monotonic()
            try:
                is_over = self._step(query, began_s)
                is_unread = query.call.unsent_bytes > UNREAD_BYTES
            except Exception as bug:  # noqa: BLE001 - noted; the thread must go on
                self._bug(query.call, bug)
            took_s = time.monotonic() - began_s
            if query.level <= before:
                query.left_s -= took_s  # what was cut short was so for the sake of others
            with self._changed:
                self._used.add(query.lane, took_s)
                self._running[query.lane] -= 1
                self._long[query.lane] -= before == LONG
                if not is_over and not self._is_stopping:
                    self._go_on(query, is_unread)
                else:
                    self._begun[query.lane] -= 1
                self._changed.notify_all()
            if is_over:
                query.ended()

    def _step(self, query: Query, began_s: float) -> bool:
        """Take one step; return whether it was the last."""
        if query.call.is_gone:
            query.steps.close()  # type: ignore[attr-defined]
            return True
        most_s = max(query.left_s, 0.0)
        if query.next_level:
            most_s = min(most_s, LIMITS_S[query.next_level - 1])
        query.deadline_s = began_s + most_s
        return next(query.steps, True)

    def _next(self, level: int, is_kept: bool) -> Query | None:
        """Wait for a query that may run now; None to stop."""
        with self._changed:
            while not self._is_stopping:
                query = self._query_in_turn(level, is_kept)
                if query is not None:
                    lane = query.lane
                    queue = self._lanes[lane]
                    queue.remove(query)
                    if not queue:
                        del self._lanes[lane]
                    self._running[lane] += 1
                    self._long[lane] += query.level == LONG
                    self._begun[lane] += not query.is_begun
                    query.is_begun = True
                    query.next_level = 0 if query.level == LONG else min(level + 1, LONG)
                    return query
                self._changed.wait()
        return None

    def _query_in_turn(self, level: int, is_kept: bool) -> Query | None:
        """Return the query that a thread takes next, of the lane that has used least lately."""
        query = self._query_of(PRIVILEGED, level)
        if query is not None or is_kept:
            return query
        by_lane = {
            lane: first
            for lane in self._lanes
            if self._running[lane] < RUNNING_PER_LANE
            and (first := self._query_of(lane, level)) is not None
        }
        return by_lane[min(by_lane, key=self._used.of)] if by_lane else None

    def _query_of(self, lane: int, level: int) -> Query | None:
        """Return the first query of a lane that a thread of this level may take."""
        most_long = LONG_OF_PRIVILEGED if lane == PRIVILEGED else LONG_PER_LANE
        highest = min(level, LONG if self._long[lane] < most_long else LONG - 1)
        may_begin = lane == PRIVILEGED or self._begun[lane] < BEGUN_PER_LANE
        for query in self._lanes.get(lane, ()):
            if (may_begin or query.is_begun) and query.level <= highest:
                return query
        return None

    def _go_on(self, query: Query, is_unread: bool) -> None:
        """Queue the next step, or wait until the peer has read more."""
        if not is_unread:
            self._queue(query)
            return
        self._unread.append(query)
        if len(self._unread) == 1:
            self._loop.call_soon_threadsafe(self._look_again)

    def _queue(self, query: Query) -> None:
        """Let a query wait for a thread, before those that have not begun if it has."""
        queue = self._lanes.setdefault(query.lane, deque())
        if query.is_begun:
            queue.appendleft(query)
        else:
            queue.append(query)
        self._changed.notify_all()

    # On the loop ------------------------------------------------------------------------------

    def _look_again(self) -> None:
        """Let queries go on whose peers have read or are gone."""
        with self._changed:
            unread, self._unread = self._unread, []
            for query in unread:
                if query.call.is_gone or query.call.unsent_bytes <= UNREAD_BYTES:
                    self._queue(query)
                else:
                    self._unread.append(query)
            if self._unread:
                self._loop.call_later(LOOK_AGAIN_S, self._look_again)
