"""The real edges of the scheduler: the controller's clock, its loop, and a thread for passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.scheduling.scheduler import Outcome

T = TypeVar("T")


class LoopEdges:
    """The controller's time and threads, as `Scheduler` wants them."""

    def __init__(self, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "scheduler")
        self._questions = ThreadPoolExecutor(1, "questions")

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
        """Run in the scheduler's thread, then `done` on the loop; `work` raises nothing."""
        self._run(self._thread, work, done, _never)

    def answer(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
        /,
    ) -> None:
        """Run in the thread for long questions, then `done` or `failed` on the loop."""
        self._run(self._questions, work, done, failed)

    def _run(
        self,
        thread: ThreadPoolExecutor,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        future = self._loop.run_in_executor(thread, work)

        def finished(ended: asyncio.Future[T]) -> None:
            if ended.cancelled():
                return
            error = ended.exception()
            if error is not None:
                failed(error)
            else:
                done(ended.result())

        future.add_done_callback(finished)

    def close(self) -> None:
        """Forget the threads."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._questions.shutdown(wait=False, cancel_futures=True)


def _never(error: BaseException) -> None:
    raise error
