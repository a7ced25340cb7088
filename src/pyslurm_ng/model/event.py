"""What all events have in common."""

from __future__ import annotations

from msgspec import Struct


class Event(Struct, array_like=True, frozen=True, gc=False):
    """The field that all events share: the time, in microseconds since the epoch."""

    time_us: int
