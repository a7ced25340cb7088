"""The boundaries of a timeline's slots: minutes soon, hours far away, some moments exactly."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from heapq import nsmallest

_SECOND_US = 1_000_000
_MOST_SLOTS = 4096  # of a grid
_MOST_EXACT_ENDS = 64  # of running jobs; later ones are rounded up to a slot
_FIRST_SLOT_S = 60
_WIDEST_SLOT_S = 3600
_GROWTH = 1.0175  # about 520 slots for 14 days


def slot_times(now_us: int, window_s: int, most: int) -> list[int]:
    """Return the boundaries of slots that widen from a minute to an hour; at most so many."""
    growth, widest = _GROWTH, float(_WIDEST_SLOT_S)
    while True:
        times, width, at_s = [now_us], float(_FIRST_SLOT_S), 0.0
        while at_s + width < window_s:
            at_s += width
            times.append(now_us + int(at_s) * _SECOND_US)
            width = min(widest, width * growth)
        if len(times) <= most:
            return times
        growth, widest = growth * 1.05, widest * 1.25


def boundaries(
    now_us: int, window_s: int, most: int, moments: Iterable[int], ends: Iterable[int]
) -> list[int]:
    """Return the boundaries of slots, some of them at given moments.

    Those take the place of their neighbours: more slots would cost time and memory.

    Args:
        moments: what must be a boundary however late it is.
        ends: of jobs. The next of them become boundaries: what waits for one of them is promised
            that very moment, and nobody slips in whom rounding would let overstay.
    """
    times = slot_times(now_us, window_s, most)
    horizon_us = times[-1]
    coming = nsmallest(_MOST_EXACT_ENDS, {end_us for end_us in ends if end_us > now_us})
    exact = {*moments, *(end_us for end_us in coming if end_us < horizon_us)}
    later = sorted(time_us for time_us in exact if time_us > now_us)
    later = later[: _MOST_SLOTS - len(times)]
    near = {min(bisect_right(times, moment), len(times) - 1) for moment in later}
    kept = [time_us for place, time_us in enumerate(times) if place not in near or not place]
    return sorted({*kept, *later})
