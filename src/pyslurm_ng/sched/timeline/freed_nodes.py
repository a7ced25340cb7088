"""When nodes that are in use come back, counted by running job."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.sched.frame.job_records import Running
from pyslurm_ng.sched.frame.snapshot import Snapshot

_MOST_ONE_BY_ONE = 100  # changes; for more the whole list is made again
_Known = tuple[Running, Counter[int | None]]
_node_id = attrgetter("node_id")
# What is overdue, or cleaning up, is expected to be gone by then.
SOON_US = MINUTE_US

End = tuple[int, int, int]  # the moment, the pool, how many of its nodes come back


class FreedNodes:
    """Which nodes of pools running jobs give back, kept from pass to pass: a record is read once.

    Every node in use is some record's, so whole records may be counted as long as they hold no
    more nodes than are in use: then no node has two of them.
    """

    def __init__(self, pools: Mapping[int, Sequence[int]] | None = None) -> None:
        """Begin with ids of nodes by pool, of which no node has two."""
        pools = pools or {}
        self._kind_of = {node_id: kind for kind, ids in pools.items() for node_id in ids}
        self._known: dict[int, _Known] = {}
        self._ends: list[End] = []  # in order
        self._held: list[int] = [0] * (1 + max(pools, default=0))  # by pool

    def ends(self, snapshot: Snapshot, busy: Sequence[int]) -> list[End] | None:
        """Return how many nodes come back when, in order; None: that needs a closer look.

        Args:
            busy: nodes in use of each pool.
        """
        self._look(snapshot)
        if any(self._held[kind] != busy[kind] for kind in range(len(self._held))):
            return None
        ends, now_us = self._ends, snapshot.now_us
        overdue = bisect_right(ends, (now_us, len(self._held), 0))
        if not overdue:
            return ends
        soon_us = now_us + SOON_US
        late = [(soon_us, kind, count) for _, kind, count in ends[:overdue]]
        return sorted([*late, *ends[overdue:]])

    def _look(self, snapshot: Snapshot) -> None:
        """Take in records that are new, and let go those that are gone."""
        known, kind_of = self._known, self._kind_of.get
        fresh: list[_Known] = []
        gone: list[_Known] = []
        for record in snapshot.running:
            entry = known.get(record.job_id)
            if entry is None or entry[0] is not record:
                if entry is not None:
                    gone.append(entry)
                counts = Counter(map(kind_of, map(_node_id, record.nodes)))
                counts.pop(None, None)
                known[record.job_id] = entry = record, counts
                fresh.append(entry)
        if len(known) > len(snapshot.running):
            alive = {record.job_id for record in snapshot.running}
            gone += [known.pop(job_id) for job_id in [*known] if job_id not in alive]
        if len(fresh) + len(gone) > _MOST_ONE_BY_ONE:
            self._add_up()
            return
        ends, sums = self._ends, self._held
        for end in _ends_of(gone):
            del ends[bisect_left(ends, end)]
            sums[end[1]] -= end[2]
        for end in _ends_of(fresh):
            insort(ends, end)
            sums[end[1]] += end[2]

    def _add_up(self) -> None:
        """Make ends and sums of all records."""
        self._ends = sorted(_ends_of(self._known.values()))
        self._held = [0] * len(self._held)
        for _, kind, count in self._ends:
            self._held[kind] += count


def _ends_of(entries: Iterable[_Known]) -> Iterator[End]:
    for record, counts in entries:
        for kind, count in counts.items():
            assert kind is not None
            yield record.end_us, kind, count


def expected_end_us(end_us: int, now_us: int) -> int:
    """Return when a job that is to end at `end_us` is expected to give back what it holds."""
    return end_us if end_us > now_us else now_us + SOON_US


def busy_until_us(snapshot: Snapshot) -> dict[int, int]:
    """Return until when nodes are busy."""
    now_us = snapshot.now_us
    busy: dict[int, int] = {}
    for record in snapshot.running:
        end_us = expected_end_us(record.end_us, now_us)
        for alloc in record.nodes:
            if end_us > busy.get(alloc.node_id, 0):
                busy[alloc.node_id] = end_us
    return busy
