"""Queries about jobs see what their controllers had on disk when the queries came.

A controller rests between its batches, so its newest records are on their way for a moment. A query
does not read before they are stored: the controller is asked for them by the call that it keeps
open (`dbd.association_calls`), and its next such call says up to which record its journal is on
disk. One question is on its way to a controller at a time; queries that come meanwhile share the
next one.

A query waits for `WAIT_S` until the controller has said up to where its journal goes, and for
`STORED_S` until the database has that: it may be slow, and works. It does not wait at all where no
controller is connected or where it is far behind: then it answers with what there is, and says that
the newest records may be missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

WAIT_S = 2.0
STORED_S = 8.0
MOST_BEHIND = 10_000
"""Records; a controller that lacks more of them catches up with a long absence."""


@dataclass(eq=False, slots=True)
class _Held:
    """A query, and the clusters whose records it waits for.

    `is_behind`: it will not see the newest records of one of them.
    """

    clusters: set[str]
    go_on: Callable[[bool], None]
    timer: asyncio.TimerHandle | None = None
    is_behind: bool = False


@dataclass(slots=True)
class _Journal:
    """What is known of a controller's journal, and the queries that wait for it.

    Attributes:
        stored: the newest record in the database.
        waiting: queries for which the controller has still to be asked.
        asked: queries for which it is being asked.
        due: queries with the record that has to be stored for them.
    """

    stored: int = 0
    waiting: list[_Held] = field(default_factory=list)
    asked: list[_Held] = field(default_factory=list)
    due: list[tuple[int, _Held]] = field(default_factory=list)


class NewestRecords:
    """Holds queries until the records are stored that they are to see; all on the loop.

    Args:
        ask: asks the controller of a cluster for its newest records; False if no call of it is
            open just now.
    """

    def __init__(self, ask: Callable[[str], bool]) -> None:
        self._ask = ask
        self._journals: dict[str, _Journal] = {}
        self._connected: set[str] = set()

    def hold(self, clusters: Iterable[str], go_on: Callable[[bool], None]) -> None:
        """Call `go_on` as soon as what these clusters have on disk is stored.

        It is told whether newest records may be missing all the same.
        """
        wanted_names = set(clusters)
        names = self._connected & wanted_names
        if not names:
            go_on(True)
            return
        query = _Held(names, go_on, is_behind=names != wanted_names)
        loop = asyncio.get_running_loop()
        query.timer = loop.call_later(WAIT_S, self._give_up, query)
        for name in list(names):
            self._journals[name].waiting.append(query)
            self._ask_in_turn(name)

    def registered(self, cluster: str, sequence: int) -> None:
        """A controller's journal is stored up to here; it may be another journal than before."""
        self._journals.setdefault(cluster, _Journal()).stored = sequence

    def stored(self, cluster: str, sequence: int) -> None:
        """A batch is stored."""
        journal = self._journals.setdefault(cluster, _Journal())
        journal.stored = max(journal.stored, sequence)
        ready = [query for due, query in journal.due if due <= journal.stored]
        journal.due = [(due, query) for due, query in journal.due if due > journal.stored]
        self._have_seen(cluster, ready)

    def told(self, cluster: str, durable: int) -> None:
        """A controller has opened its call, and says up to where its journal is on disk."""
        self._connected.add(cluster)
        journal = self._journals.setdefault(cluster, _Journal())
        asked, journal.asked = journal.asked, []
        if 0 < durable - journal.stored <= MOST_BEHIND:
            journal.due += [(durable, query) for query in asked]
        else:
            self._have_seen(cluster, asked, is_behind=durable > journal.stored)
        self._ask_in_turn(cluster)

    def gone(self, cluster: str) -> None:
        """The controller's connection has ended."""
        self._connected.discard(cluster)
        journal = self._journals[cluster]
        queries = [*journal.waiting, *journal.asked, *(query for _, query in journal.due)]
        journal.waiting, journal.asked, journal.due = [], [], []
        self._have_seen(cluster, queries, is_behind=True)

    def _ask_in_turn(self, cluster: str) -> None:
        journal = self._journals[cluster]
        if journal.waiting and not journal.asked and self._ask(cluster):
            journal.asked, journal.waiting = journal.waiting, []

    def _have_seen(self, cluster: str, queries: list[_Held], *, is_behind: bool = False) -> None:
        for query in queries:
            query.clusters.discard(cluster)
            query.is_behind |= is_behind
            if not query.clusters and query.timer is not None:
                query.timer.cancel()
                query.timer = None
                query.go_on(query.is_behind)

    def _give_up(self, query: _Held) -> None:
        """Answer all the same; a silent controller delays no further query until it is heard."""
        for name in list(query.clusters):
            if all(other is not query for _, other in self._journals[name].due):
                self.gone(name)
        if query.clusters:
            loop = asyncio.get_running_loop()
            query.timer = loop.call_later(STORED_S, self._give_up_due, query)

    def _give_up_due(self, query: _Held) -> None:
        """Answer before the database has stored everything; the next query waits all the same."""
        for name in list(query.clusters):
            journal = self._journals[name]
            journal.due = [(due, other) for due, other in journal.due if other is not query]
            self._have_seen(name, [query], is_behind=True)
