"""The controller's recorded time: near the wall clock, but not in jumps.

Limits and durations are differences of recorded times, so a clock that is set two hours ahead must
not end jobs. Recorded time runs with the monotonic clock and approaches the wall clock by at most
one part in a hundred. A larger jump is taken over at once: at a start, and after `PATIENCE_US` of a
wall clock that stays where it is. Code that lets it do so also moves the recorded times
(`rules.clocks`), so that durations stay as they are.

What other hosts compare with their own clocks (credentials, tokens) is wall time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

MOST_STEERED_US = 5_000_000
"""How far recorded time may be from the wall clock and still approach it slowly.

The time limit of a job can be wrong by this much at most.
"""

PATIENCE_US = 300_000_000
"""How long the wall clock must have been further away than that before it is believed."""

_STEERING = 100  # one microsecond of correction per this many elapsed


class Clock:
    """Recorded time, in microseconds since the epoch; it rises, unless `follow` takes one over.

    Attributes:
        gap_us: how far the wall clock was ahead of recorded time when this clock began.
    """

    def __init__(
        self,
        newest_us: int = 0,
        wall: Callable[[], int] | None = None,
        monotonic: Callable[[], int] | None = None,
    ) -> None:
        """Begin at the wall clock's time; behind `newest_us`, what is on record, if it is near."""
        self._wall_us = wall or wall_us
        self._monotonic_us = monotonic or _monotonic_us
        now_us = self._wall_us()
        self.gap_us = now_us - newest_us
        self._base_us = now_us if self.gap_us < -MOST_STEERED_US else max(now_us, newest_us)
        self._base_monotonic_us = self._monotonic_us()
        self._far_since_us = -1  # monotonic; -1 while the wall clock is near

    def now_us(self) -> int:
        """Return the time."""
        return self._base_us + self._monotonic_us() - self._base_monotonic_us

    def steer(self) -> int:
        """Approach the wall clock; return how far ahead it is (negative: behind) in microseconds.

        Called about once a second.
        """
        monotonic_us = self._monotonic_us()
        elapsed_us = monotonic_us - self._base_monotonic_us
        now_us = self._base_us + elapsed_us
        ahead_us = self._wall_us() - now_us
        most_us = elapsed_us // _STEERING
        self._base_us = now_us + max(-most_us, min(most_us, ahead_us))
        self._base_monotonic_us = monotonic_us
        if abs(ahead_us) <= MOST_STEERED_US:
            self._far_since_us = -1
        elif self._far_since_us < 0:
            self._far_since_us = monotonic_us
        return ahead_us

    def follow(self) -> int:
        """Take the wall clock's time over if it has been far away for long enough.

        Returns:
            By how much recorded time has been moved, in microseconds; usually 0.
        """
        monotonic_us = self._monotonic_us()
        if self._far_since_us < 0 or monotonic_us - self._far_since_us < PATIENCE_US:
            return 0
        now_us = self.now_us()
        self._base_us, self._base_monotonic_us = self._wall_us(), monotonic_us
        self._far_since_us = -1
        return self._base_us - now_us


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


class Timers(Protocol):
    """The time, and calls that come later."""

    def now_us(self) -> int:
        """The controller's time."""

    def call_soon(self, function: Callable[[], None], /) -> object:
        """Run at the end of the present turn."""

    def call_later(self, delay_s: float, function: Callable[[], None], /) -> object:
        """Run after a while."""
