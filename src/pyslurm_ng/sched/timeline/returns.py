"""When nodes that are in use come back, counted by running job."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from pyslurm_ng.sched.job_records import Running
from pyslurm_ng.sched.snapshot import Snapshot

# What is overdue, or cleaning up, is expected to be gone by then.
SOON_US = 60_000_000

End = tuple[int, int, int]  # the moment, the pool, how many of its nodes come back


class Returns:
    """Which nodes of pools running jobs give back, kept from pass to pass: a record is read once.

    Every node in use is some record's, so whole records may be counted as long as they hold no
    more nodes than are in use: then no node has two of them.
    """

    def __init__(self, pools: Mapping[int, Sequence[int]] | None = None) -> None:
        """Begin with ids of nodes by pool, of which no node has two."""
        pools = pools or {}
        self._kind_of = {node_id: kind for kind, ids in pools.items() for node_id in ids}
        self._known: dict[int, tuple[Running, Counter[int | None]]] = {}
        self._ends: list[End] = []  # in order
        self._held: list[int] = [0] * (1 + max(pools, default=0))  # by pool

    def ends(self, snapshot: Snapshot, busy: Sequence[int]) -> list[End] | None:
        """Return how many nodes come back when, in order; None: that needs a closer look.

        Args:
            busy: nodes in use of each pool.
        """
        if self._look(snapshot):
            self._add_up()
        if any(self._held[kind] != busy[kind] for kind in range(len(self._held))):
            return None
        ends, now_us = self._ends, snapshot.now_us
        overdue = bisect_right(ends, (now_us, len(self._held), 0))
        if not overdue:
            return ends
        soon_us = now_us + SOON_US
        late = [(soon_us, kind, count) for _, kind, count in ends[:overdue]]
        return sorted([*late, *ends[overdue:]])

    def _look(self, snapshot: Snapshot) -> bool:
        """Read records that are new; return whether anything has changed."""
        known, kind_of = self._known, self._kind_of.get
        has_changed = False
        for record in snapshot.running:
            entry = known.get(record.job_id)
            if entry is None or entry[0] is not record:
                counts = Counter(kind_of(alloc.node_id) for alloc in record.nodes)
                counts.pop(None, None)
                known[record.job_id] = record, counts
                has_changed = True
        if len(known) > len(snapshot.running):
            alive = {record.job_id for record in snapshot.running}
            for job_id in [job_id for job_id in known if job_id not in alive]:
                del known[job_id]
            has_changed = True
        return has_changed

    def _add_up(self) -> None:
        """Make ends and sums of all records."""
        self._ends = []
        self._held = [0] * len(self._held)
        for record, counts in self._known.values():
            for kind, count in counts.items():
                assert kind is not None
                self._ends.append((record.end_us, kind, count))
                self._held[kind] += count
        self._ends.sort()


def expected_end_us(end_us: int, now_us: int) -> int:
    """Return when what a job holds comes back that is to end at a time."""
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
