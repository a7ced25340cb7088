"""Answers of queries: they wait for the disk, but not for long. ADR 0021.

A query promises nothing, so a slow disk need not slow it down: after a tenth of a second at most it
is answered from memory, although a crash may undo that state. One thing must not be undone after a
user has seen it: a job id must never be given to another job. So before an id that is not durable
is shown, the journal gets a record by which a controller that begins after a crash leaves some ids
out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.appliers.control import MOST_IDS_SEEN
from pyslurm_ng.model.cluster import Cluster

STEP_S = 0.05  # an answer waits for one to two of these
_AHEAD = MOST_IDS_SEEN // 2

CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]


class Recorder(Protocol):
    """Where events are recorded; the Writer."""

    cluster: Cluster
    durable: int

    @property
    def newest(self) -> int:
        """The sequence of the newest batch, the open one included."""

    def record(self, events: list[ev.AnyEvent], /) -> None:
        """Apply events and journal them."""


class _WaitingQuery:
    """One answer that waits."""

    __slots__ = ("has_waited", "ids_below", "release", "sequence")

    def __init__(self, sequence: int, ids_below: int, release: Callable[[], None]) -> None:
        self.sequence = sequence  # of the newest batch that it has seen
        self.ids_below = ids_below  # all job ids that it can have seen are
        self.release = release
        self.has_waited = False


class WaitingQueries:
    """Answers of queries that wait for the disk."""

    def __init__(self, recorder: Recorder, call_later: CallLater) -> None:
        self._recorder = recorder
        self._call_later = call_later
        self._waiting: list[_WaitingQuery] = []
        self._is_timed = False
        self._ids_below = 0  # that such ids may be seen is durable
        self._asked_below = 0  # this is not yet, but will be with `_asked_sequence`
        self._asked_sequence = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, release: Callable[[], None]) -> None:
        """Call when everything that the Cluster contains now is durable, or soon."""
        recorder = self._recorder
        self._waiting.append(_WaitingQuery(recorder.newest, recorder.cluster.next_job_id, release))
        if not self._is_timed:
            self._is_timed = True
            self._call_later(STEP_S, self._tick)

    def safe(self) -> list[Callable[[], None]]:
        """Take out and return the releases of queries that have seen nothing but durable state."""
        durable = self._recorder.durable
        releases = [query.release for query in self._waiting if query.sequence <= durable]
        if releases:
            self._waiting = [query for query in self._waiting if query.sequence > durable]
        return releases

    def _tick(self) -> None:
        """Answer the queries that have waited for a whole step."""
        self._is_timed = False
        waiting = self._waiting
        if not waiting:
            return
        self._reserve_ids()
        over = [query for query in waiting if query.has_waited and self._may_go(query)]
        gone = set(map(id, over))
        self._waiting = [query for query in waiting if id(query) not in gone]
        for query in self._waiting:
            query.has_waited = True
        if self._waiting:
            self._is_timed = True
            self._call_later(STEP_S, self._tick)
        for query in over:
            query.release()

    def _may_go(self, query: _WaitingQuery) -> bool:
        return 0 <= self._ids_below - query.ids_below <= MOST_IDS_SEEN

    def _reserve_ids(self) -> None:
        """See to it that ids may be seen, some more than there are jobs now."""
        recorder = self._recorder
        if self._asked_sequence:
            if self._asked_sequence > recorder.durable:
                return
            self._ids_below, self._asked_sequence = self._asked_below, 0
        next_id = recorder.cluster.next_job_id
        if not _AHEAD <= self._ids_below - next_id <= MOST_IDS_SEEN:
            self._asked_below = next_id + MOST_IDS_SEEN
            recorder.record([ev.JobIdsSeen(recorder.cluster.time_us, self._asked_below)])
            self._asked_sequence = recorder.newest
