"""What questions about starts are answered from, and the thread that works the answers out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Protocol, TypeVar

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.scheduling.scheduler import Scheduler
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.sched.backfill.planner import Planner

T = TypeVar("T")

MOST_AT_ONCE = 16
_LONGEST_NS = 1_800_000_000  # then the answer holds what is known so far


class Thread(Protocol):
    """Does work in a thread, then calls `done`, or `failed`, on the loop."""

    def __call__(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
        /,
    ) -> None:
        """Begin the work."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The parts of the controller that an answer needs; the thread works on one at a time.

    `planner` is the thread's own, so that questions never disturb a pass.
    """

    writer: Writer
    soft: Soft
    scheduler: Scheduler
    context: Callable[[Caller], Context]
    run: Thread
    faults: Faults
    planner: Planner = field(default_factory=Planner)


def time_limit() -> Callable[[], bool]:
    """Return what says whether the time of a question that is asked now is over."""
    due_ns = monotonic_ns() + _LONGEST_NS
    return lambda: monotonic_ns() > due_ns
