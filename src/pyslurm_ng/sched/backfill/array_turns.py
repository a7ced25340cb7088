"""When a task has its turn in an array with a limit on how many run at once, and its room then."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from pyslurm_ng._select import NEVER
from pyslurm_ng.model import task_ranges
from pyslurm_ng.sched.backfill.walk_result import WalkResult
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.timeline.freed_nodes import SOON_US

_MOST_PLANNED = 1000  # tasks of one pass beyond their arrays' limits


class ArrayTurns:
    """The turns of one walk: each task that is over lets the next one of its array start."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._ends_us: dict[int, list[int]] | None = None  # heaps, by array
        self._left = _MOST_PLANNED
        self._demands: dict[int, Demand] = {}  # with which tasks have been planned, by job

    def take(self, job: Waiting, ends_us: Iterable[int]) -> None:
        """Note when tasks end that have been given room in this walk."""
        if job.throttled_by:
            heap = self._ends_of(job)
            for end_us in ends_us:
                heappush(heap, end_us)

    def next_us(self, job: Waiting, demand: Demand) -> int:
        """Return when one more task of an array may start and count it in; NO_END_US: never.

        Of several partitions the first one in which turns are asked for has them all.
        """
        heap = self._ends_of(job)
        is_first = self._demands.setdefault(job.job_id, demand) is demand
        if not heap or not self._left or not is_first:
            return NO_END_US
        self._left -= 1
        return heappop(heap)

    def _ends_of(self, job: Waiting) -> list[int]:
        """Return when those tasks of an array end after which no other has been planned."""
        if self._ends_us is None:
            self._ends_us = {}
            arrays = {other.throttled_by for other in self._snapshot.waiting}
            soon_us = self._snapshot.now_us + SOON_US
            for task in self._snapshot.running:
                if task.array_job_id and task.array_job_id in arrays:
                    ends_us = self._ends_us.setdefault(task.array_job_id, [])
                    ends_us.append(max(task.end_us, soon_us))
            for ends_us in self._ends_us.values():
                heapify(ends_us)
        return self._ends_us.setdefault(job.throttled_by, [])


def plan_turns(
    walk: WalkResult, turns: ArrayTurns, job: Waiting, demand: Demand, reserved: int
) -> None:
    """Keep room for tasks that come to their turns as others of their array end.

    Args:
        reserved: tasks of the array that room is kept for already.
    """
    if walk.strict is not None:
        return
    task_count = task_ranges.count(job.array_pending) - job.tasks_left
    for _ in range(min(task_count, walk.policy.array_depth - reserved)):
        if walk.gate.over_least(job, demand) is not None:
            return
        turn_us = turns.next_us(job, demand)
        end_us = walk.room.keep_from(job, demand, turn_us) if turn_us < NO_END_US else NEVER
        if end_us == NEVER:
            return
        turns.take(job, [end_us])
