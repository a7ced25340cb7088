"""Events of burst buffers; `events` has them among the others."""

from __future__ import annotations

from .buffer import Buffer
from .event import Event


class BufferChanged(Event, tag=88, frozen=True, array_like=True, gc=False):
    """A job has a burst buffer, its burst buffer is in another state, or it has none any longer."""

    job_id: int
    buffer: Buffer | None
