"""Requests with a long body, which a thread decodes so that the loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.lanes import Lanes


class LongBodies:
    """A queue of calls: one is decoded at a time, uid by uid.

    Args:
        lanes: an empty queue.
        was_read: called on the loop with each call and the exception that reading raised, if any.
            Calls that are already answered or lost their connection are left out.
    """

    def __init__(
        self, lanes: Lanes[Call], was_read: Callable[[Call, BaseException | None], None]
    ) -> None:
        self._lanes = lanes
        self._was_read = was_read
        self._is_reading = False

    def __len__(self) -> int:
        return len(self._lanes)

    def push(self, lane: int, call: Call) -> None:
        """Let a call wait for the thread."""
        self._lanes.push(lane, call)
        if not self._is_reading:
            self._read_next()

    def _read_next(self) -> None:
        self._is_reading = False
        while self._lanes:
            _, call = self._lanes.pop()
            if not call.is_gone:
                self._is_reading = True
                reading = asyncio.get_running_loop().run_in_executor(None, call.read)
                reading.add_done_callback(partial(self._ended, call))
                return

    def _ended(self, call: Call, reading: asyncio.Future[None]) -> None:
        # Always asked for: otherwise asyncio logs that the exception was never retrieved.
        error = None if reading.cancelled() else reading.exception()
        if not reading.cancelled() and not call.is_answered:
            self._was_read(call, error)
        self._read_next()
