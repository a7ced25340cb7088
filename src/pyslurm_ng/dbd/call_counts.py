"""How many calls came and how long they took: by kind and by user, for `sacctmgr show stats`."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pyslurm_ng.dbd.rollup.run_counts import RunCounts
from pyslurm_ng.wire.dbd_messages import DbdStats
from pyslurm_ng.wire.stream import Call


class CallCounts:
    """Counts since the start or the last `clear`; threads may count, too.

    Attributes:
        since_us: when counting began.
        roll_ups: how often usage was rolled up.
    """

    def __init__(self) -> None:
        self.since_us = 0
        self.roll_ups = RunCounts()
        self._by_kind: dict[str, list[int]] = {}
        self._by_uid: dict[int, list[int]] = {}
        self.clear()

    def count(self, call: Call, begun_ns: int) -> None:
        """Note that a call that began then (`time.monotonic_ns`) is answered."""
        spent_us = (time.monotonic_ns() - begun_ns) // 1000
        rows = (
            self._by_kind.setdefault(call.kind, [0, 0]),
            self._by_uid.setdefault(call.peer.uid, [0, 0]),
        )
        for row in rows:
            row[0] += 1
            row[1] += spent_us

    def stats(self, records: int, retries: int, faults: Mapping[str, int]) -> DbdStats:
        """Return what commands are told, with what else the daemon has counted."""
        return DbdStats(
            self.since_us,
            time.time_ns() // 1000,
            [(kind, count, total) for kind, (count, total) in list(self._by_kind.items())],
            [(uid, count, total) for uid, (count, total) in list(self._by_uid.items())],
            records,
            retries,
            dict(faults),
            self.roll_ups.rows(),
        )

    def clear(self) -> None:
        """Begin anew."""
        self._by_kind.clear()
        self._by_uid.clear()
        self.roll_ups.clear()
        self.since_us = time.time_ns() // 1000
