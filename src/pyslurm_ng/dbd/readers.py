"""Queries of many users on a few threads, in fair turns.

A query is an iterator: each step reads one part of the answer in a separate transaction. After each
step the next lane has its turn, so a long answer delays others by one part only. A query waits
without a thread while its peer does not read. One lane is one uid. Administrators and daemons share
a lane that goes first and has its own thread.

There are bounds for the waiting and the running queries of a lane, and for the time of all steps of
a query. A query whose connection has ended is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.stream import Call

THREADS = 3
"""Threads for all lanes; one more is kept for administrators and daemons."""
RUNNING_PER_LANE = 2
WAITING_PER_LANE = 256
LIMIT_S = 60.0
PRIVILEGED_LIMIT_S = 600.0
UNREAD_BYTES = 32 << 20
"""Unread bytes from which a query waits for its peer."""
LOOK_AGAIN_S = 0.05


class TooLongError(Exception):
    """A query has used up its time."""


@dataclass(eq=False, slots=True)
class Query:
    """One query in progress.

    Attributes:
        steps: reads one part at each `next`; True says that the query is done.
        left_s: the time that it may still run.
    """

    call: Call
    lane: int
    steps: Iterator[bool]
    left_s: float
    ended: Callable[[], None]
    deadline_s: float = field(default=0.0)

    @property
    def is_wanted(self) -> bool:
        """Whether the client still waits for the answer and there is time left."""
        return not self.call.is_gone and time.monotonic() < self.deadline_s


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
        self._lanes: OrderedDict[int, deque[Query]] = OrderedDict()
        self._running: Counter[int] = Counter()
        self._unread: list[Query] = []
        self._is_stopping = False
        for number in range(THREADS + 1):
            name = f"reader-{number}"
            threading.Thread(
                target=self._work, args=(number == THREADS,), name=name, daemon=True
            ).start()

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
            waiting = len(self._lanes.get(lane, ())) + sum(one.lane == lane for one in self._unread)
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
        """Begin no further steps; running ones end by themselves."""
        with self._changed:
            self._is_stopping = True
            self._lanes.clear()
            self._unread.clear()
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """How many queries wait for a thread or for their peer."""
        with self._changed:
            return sum(map(len, self._lanes.values())) + len(self._unread)

    # In threads -------------------------------------------------------------------------------

    def _work(self, is_kept: bool) -> None:
        """Take steps until told to stop; the kept thread takes only the privileged lane's."""
        while (query := self._next(is_kept)) is not None:
            is_over, is_unread = True, False
            began_s = time.monotonic()
            try:
                is_over = self._step(query, began_s)
                is_unread = query.call.unsent_bytes > UNREAD_BYTES
            except Exception as bug:  # noqa: BLE001 - noted; the thread must go on
                self._bug(query.call, bug)
            query.left_s -= time.monotonic() - began_s
            with self._changed:
                self._running[query.lane] -= 1
                if not is_over and not self._is_stopping:
                    self._go_on(query, is_unread)
                self._changed.notify_all()
            if is_over:
                query.ended()

    def _step(self, query: Query, began_s: float) -> bool:
        """Take one step; return whether it was the last."""
        if query.call.is_gone:
            query.steps.close()  # type: ignore[attr-defined]
            return True
        query.deadline_s = began_s + max(query.left_s, 0.0)
        return next(query.steps, True)

    def _next(self, is_kept: bool) -> Query | None:
        """Wait for a query that may run now; None to stop."""
        with self._changed:
            while not self._is_stopping:
                lane = self._lane_in_turn(is_kept)
                if lane is not None:
                    queue = self._lanes[lane]
                    query = queue.popleft()
                    self._lanes.move_to_end(lane)
                    if not queue:
                        del self._lanes[lane]
                    self._running[lane] += 1
                    return query
                self._changed.wait()
        return None

    def _lane_in_turn(self, is_kept: bool) -> int | None:
        if PRIVILEGED in self._lanes:
            return PRIVILEGED
        if is_kept:
            return None
        return next((lane for lane in self._lanes if self._running[lane] < RUNNING_PER_LANE), None)

    def _go_on(self, query: Query, is_unread: bool) -> None:
        """Queue the next step, or wait until the peer has read more."""
        if not is_unread:
            self._queue(query)
            return
        self._unread.append(query)
        if len(self._unread) == 1:
            self._loop.call_soon_threadsafe(self._look_again)

    def _queue(self, query: Query) -> None:
        self._lanes.setdefault(query.lane, deque()).append(query)
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
