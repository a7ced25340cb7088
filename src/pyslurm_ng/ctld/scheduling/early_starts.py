"""Starts of a pass, given to the loop while the pass goes on.

A pass decides in the order of the queue, so the next jobs are known when most of its work is still
to be done: when the others may start, and why they wait. Free nodes need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyslurm_ng.sched.frame.plan import Plan, Start

# A lone start goes at once; of many that follow one another, so many as this time brings together.
_PAUSE_US = 2_000

Take = Callable[[Plan, Sequence[Start]], None]


class EarlyStarts:
    """The starts of one pass that have been given away; called in the scheduler's thread."""

    def __init__(
        self,
        monotonic_us: Callable[[], int],
        from_thread: Callable[[Callable[[], None]], object],
        take: Take,
    ) -> None:
        """Give nothing yet.

        Args:
            from_thread: runs a function on the loop.
            take: gets the unfinished plan and starts of it that it has not got before.
        """
        self._monotonic_us = monotonic_us
        self._from_thread = from_thread
        self._take = take
        self._given: list[Start] = []
        self._last_us = 0

    def __call__(self, plan: Plan) -> None:
        """Look at a plan that has got more starts; always the same one."""
        now_us = self._monotonic_us()
        if now_us - self._last_us < _PAUSE_US:
            return
        self._last_us = now_us
        fresh = plan.starts[len(self._given) :]
        self._given += fresh
        self._from_thread(partial(self._take, plan, fresh))

    def left(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return those that have not been given away, of the whole pass."""
        start_ids = {id(start) for start in self._given}
        return [start for start in starts if id(start) not in start_ids] if start_ids else starts
