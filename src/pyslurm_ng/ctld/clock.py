"""The controller's time: near the wall clock, but never back and never in jumps.

Limits and durations are differences of recorded times, so a clock that somebody sets two hours
ahead must not end jobs. The time runs with the monotonic clock and approaches the wall clock by at
most one part in a hundred; the difference is logged by whoever asks.
"""

from __future__ import annotations

import time

_STEERING = 100  # one microsecond of correction per this many elapsed


class Clock:
    """Microseconds since the epoch, rising."""

    def __init__(self, least_us: int = 0) -> None:
        """Begin at the wall clock's time, or at `least_us` (what is on record) if that is later."""
        self._base_us = max(wall_us(), least_us)
        self._base_monotonic_us = _monotonic_us()

    def now_us(self) -> int:
        """Return the time."""
        return self._base_us + _monotonic_us() - self._base_monotonic_us

    def steer(self) -> int:
        """Approach the wall clock; return how far ahead it is (negative: behind) in microseconds.

        Called about once a second.
        """
        monotonic_us = _monotonic_us()
        elapsed_us = monotonic_us - self._base_monotonic_us
        now_us = self._base_us + elapsed_us
        ahead_us = wall_us() - now_us
        most_us = elapsed_us // _STEERING
        self._base_us = now_us + max(-most_us, min(most_us, ahead_us))
        self._base_monotonic_us = monotonic_us
        return ahead_us


def latency_us(looks: int = 1000) -> int:
    """Return how long so many looks at the wall clock take."""
    begun_us = _monotonic_us()
    for _ in range(looks):
        wall_us()
    return _monotonic_us() - begun_us


def wall_us() -> int:
    """Return the wall clock's time: what credentials carry and what people mean."""
    return time.time_ns() // 1000


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1000
