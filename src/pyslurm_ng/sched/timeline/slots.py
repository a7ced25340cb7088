"""The boundaries of a timeline's slots: minutes soon, hours far away, some moments exactly.

They are at whole minutes of the clock, and those of wide slots are among those of narrow ones. A
boundary of one pass is one for all later passes, so a promised start still exists.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from heapq import nsmallest
from math import ceil

from pyslurm_ng.base.numbers import SECOND_US

_MOST_SLOTS = 4096  # of a grid
_MOST_EXACT_ENDS = 64  # of running jobs; later ones are rounded up to a slot
_FIRST_SLOT_S = 60
_FAR = 4  # slots grow no wider in the last three quarters of the window
_GROWTH = 0.0255  # of the time until then: a slot that is wider than this is too wide


def slot_times(now_us: int, window_s: int, most: int) -> list[int]:
    """Return the boundaries of slots that widen from a minute to two hours; at most so many.

    Each width is twice the one before, and boundaries are multiples of their slot's width.
    """
    growth = _GROWTH
    # Not by what it takes now: all passes must come to the same widths.
    while _slots_at_most(window_s, growth) > most:
        growth *= 1.1
    widest_us = _widest_s(window_s, growth) * SECOND_US
    times, width_us = [now_us], _FIRST_SLOT_S * SECOND_US
    end_us, at_us = now_us + window_s * SECOND_US, (now_us // width_us + 1) * width_us
    while at_us < end_us:
        times.append(at_us)
        wider_us = 2 * width_us
        is_far = (at_us - now_us) * growth >= wider_us and wider_us <= widest_us
        if is_far and at_us % wider_us == 0:
            width_us = wider_us
        at_us += width_us
    return times


def _widest_s(window_s: int, growth: float) -> int:
    """Return the width of the last slots."""
    width_s = _FIRST_SLOT_S
    while 2 * width_s / growth <= window_s / _FAR:
        width_s *= 2
    return width_s


def _slots_at_most(window_s: int, growth: float) -> int:
    """Return how many slots there may be, at any time of the clock."""
    widest_s = _widest_s(window_s, growth)
    count, width_s, begin_s = 1.0, _FIRST_SLOT_S, 0.0
    while begin_s < window_s:
        end_s = window_s if width_s >= widest_s else min(window_s, 2 * width_s / growth)
        count += (end_s - begin_s) / width_s + 2
        width_s, begin_s = 2 * width_s, end_s
    return ceil(count)


def boundaries(
    now_us: int, window_s: int, most: int, moments: Iterable[int], ends: Iterable[int]
) -> list[int]:
    """Return the boundaries of slots, with some moments among them.

    Args:
        moments: what must be a boundary however late it is. Known long before, each takes the place
            of the next boundary: more slots would cost time and memory.
        ends: of jobs. The next of them become boundaries: a job that waits for one is promised
            exactly that moment, and rounding lets no other job stay too long. They take the place
            of none, for something may be promised there.
    """
    times = slot_times(now_us, window_s, most)
    coming = {end_us for end_us in ends if now_us < end_us < times[-1]}
    exact = sorted({time_us for time_us in moments if time_us > now_us})
    exact = exact[: _MOST_SLOTS - len(times) - _MOST_EXACT_ENDS]
    near = {min(bisect_right(times, moment), len(times) - 1) for moment in exact}
    kept = [time_us for index, time_us in enumerate(times) if index not in near or not index]
    return sorted({*kept, *exact, *nsmallest(_MOST_EXACT_ENDS, coming)})
