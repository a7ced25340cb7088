"""Subordinate uids: all that one user may take for its containers share one lane.

subuid(5) gives users ranges of uids, usually 65,536 each. The kernel shows a process in a user
namespace by such a uid. If each had a share of its own, one user could take all of them.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from time import monotonic

PATH = "/etc/subuid"
_LOOK_S = 10.0


class UserRanges:
    """The ranges of a file like /etc/subuid; it is looked at again every ten seconds."""

    def __init__(self, path: str = PATH) -> None:
        self._path = path
        self._looked_s = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._lanes: list[int] = []

    def lane_of(self, uid: int) -> int:
        """Return the uid, or the first one of its owner's ranges if it is a subordinate uid."""
        if monotonic() - self._looked_s > _LOOK_S:
            self._look()
        at = bisect_right(self._firsts, uid) - 1
        return self._lanes[at] if at >= 0 and uid < self._ends[at] else uid

    def _look(self) -> None:
        """Read the file if it has changed. A file that cannot be read gives no user a range."""
        self._looked_s = monotonic()
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_mtime_ns, state.st_size)
            if seen == self._seen:
                return
            with open(self._path, encoding="utf-8", errors="replace") as file:
                lines = file.readlines()
        except OSError:
            seen, lines = None, []
        self._seen = seen
        self._firsts, self._ends, self._lanes = [], [], []
        lanes: dict[str, int] = {}
        for first, end, owner in sorted(_ranges(lines)):
            if self._ends and first < self._ends[-1]:
                # Ranges that overlap are one: nobody gains a lane by them.
                self._ends[-1] = max(end, self._ends[-1])
                continue
            self._firsts.append(first)
            self._ends.append(end)
            self._lanes.append(lanes.setdefault(owner, first))


def _ranges(lines: list[str]) -> list[tuple[int, int, str]]:
    """Return (first uid, end, owner) of each line `owner:first:count`; odd lines are passed over,
    as by newuidmap."""
    ranges = []
    for line in lines:
        owner, _, numbers = line.strip().partition(":")
        first, _, count = numbers.partition(":")
        if owner and first.isdecimal() and count.isdecimal():
            ranges.append((int(first), int(first) + int(count), owner))
    return ranges
