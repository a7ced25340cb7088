"""Periods of time, in seconds since the epoch; the end is the first second that is outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A period. One that ends before it begins is empty."""

    start_s: int
    end_s: int

    @property
    def seconds(self) -> int:
        """How long it is."""
        return max(0, self.end_s - self.start_s)

    def within(self, other: Span) -> Span:
        """Return the part of this period that lies in another."""
        return Span(max(self.start_s, other.start_s), min(self.end_s, other.end_s))


def covered(spans: Iterable[Span]) -> int:
    """Return the seconds that are in at least one of some periods."""
    total, reached_s = 0, 0
    for span in sorted(span for span in spans if span.seconds):
        start_s = max(span.start_s, reached_s)
        if span.end_s > start_s:
            total += span.end_s - start_s
            reached_s = span.end_s
    return total
