"""The real edges of the scheduler: the controller's clock, its loop, and a thread for passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.scheduler import Outcome


class LoopEdges:
    """The controller's time and threads, as `Scheduler` wants them."""

    def __init__(self, clock: Clock, failed: Callable[[BaseException], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._failed = failed
        self._thread = ThreadPoolExecutor(1, "scheduler")

    def now_us(self) -> int:
        """The controller's time."""
        return self._clock.now_us()

    def monotonic_us(self) -> int:
        """For durations."""
        return time.monotonic_ns() // 1000

    def call_soon(self, function: Callable[[], None], /) -> object:
        """Run at the end of the present turn."""
        return self._loop.call_soon(function)

    def call_later(self, delay_s: float, function: Callable[[], None], /) -> object:
        """Run after a while."""
        return self._loop.call_later(delay_s, function)

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None], /) -> None:
        """Run in the scheduler's thread, then `done` on the loop."""
        future = self._loop.run_in_executor(self._thread, work)

        def finished(ended: asyncio.Future[Outcome]) -> None:
            if ended.cancelled():
                return
            error = ended.exception()
            if error is not None:
                self._failed(error)
            else:
                done(ended.result())

        future.add_done_callback(finished)

    def close(self) -> None:
        """Forget the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
