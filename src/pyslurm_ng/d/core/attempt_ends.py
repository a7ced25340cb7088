"""The attempts that have ended on a node, for as long as their credentials might be shown again."""

from __future__ import annotations

from collections import OrderedDict

from msgspec import msgpack

from pyslurm_ng.wire import node_messages as nm

KEPT_MINUTES = 15
"""Longer than any credential is good for, with both clocks as far apart as they may be."""
KEPT_LONGER = 20_000
"""So many are remembered longer: a controller that was restored from a backup asks late."""
MOST = 1 << 18
"""The most attempts that are remembered; some 120 MB."""

_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(nm.BatchEnded)


class EndedAttempts:
    """Attempts by job id and number, and how their scripts ended if that is known.

    It has no clock: `pass_minute` says that a minute has passed.
    """

    def __init__(self) -> None:
        # Reports are kept encoded, in less than half of the memory: hardly one is asked for again.
        self._reports: OrderedDict[tuple[int, int], tuple[int, bytes]] = OrderedDict()
        self._minute = 0

    def __len__(self) -> int:
        return len(self._reports)

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._reports

    @property
    def is_full(self) -> bool:
        """Whether no further attempt may begin here: its end could not be remembered."""
        return len(self._reports) >= MOST

    def add(self, key: tuple[int, int], report: nm.BatchEnded | None) -> None:
        """Remember an attempt, and how its script ended if that is known."""
        if report is not None:
            encoded = _encoder.encode(report)
        else:
            _, encoded = self._reports.get(key, (0, b""))
        self._reports[key] = (self._minute, encoded)
        self._reports.move_to_end(key)

    def report(self, key: tuple[int, int]) -> nm.BatchEnded | None:
        """Return how an attempt's script ended, None if that is not known."""
        _, encoded = self._reports.get(key, (0, b""))
        return _decoder.decode(encoded) if encoded else None

    def pass_minute(self) -> None:
        """Forget those whose credentials are of no use any more, the oldest first."""
        self._minute += 1
        while len(self._reports) > KEPT_LONGER:
            minute, _ = next(iter(self._reports.values()))
            if minute + KEPT_MINUTES >= self._minute:
                return
            self._reports.popitem(last=False)
