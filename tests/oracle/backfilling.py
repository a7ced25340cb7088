"""Textbook backfilling on a machine that is a number of processors, first come first served.

All events of one second happen before one pass; a pass plans anew. Nothing of the scheduler is
used. Sources: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995 (EASY); Mu'alem and Feitelson,
IEEE TPDS 12(6), 2001 (conservative).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from pyslurm_ng.sim.workload import TraceJob

Running = list[tuple[int, int]]  # when the requested time ends, processors
Pass = Callable[[int, int, Running, list[TraceJob]], list[TraceJob]]


def waits_s(jobs: Sequence[TraceJob], processors: int, choose: Pass) -> list[int]:
    """Return how long each job waits; `choose` returns who starts in a pass."""
    starts: dict[int, int] = {}
    waiting: list[TraceJob] = []
    ends: list[tuple[int, int]] = []
    running: dict[int, TraceJob] = {}
    arriving, free = 0, processors
    while arriving < len(jobs) or ends:
        now = min(
            jobs[arriving].submit_s if arriving < len(jobs) else 1 << 62,
            ends[0][0] if ends else 1 << 62,
        )
        while ends and ends[0][0] <= now:
            free += running.pop(heapq.heappop(ends)[1]).processors
        while arriving < len(jobs) and jobs[arriving].submit_s <= now:
            waiting.append(jobs[arriving])
            arriving += 1
        until = [
            (max(starts[job.number] + job.requested_s, now + 1), job.processors)
            for job in running.values()
        ]
        for job in choose(now, free, until, waiting) if waiting else ():
            starts[job.number] = now
            free -= job.processors
            running[job.number] = job
            heapq.heappush(ends, (now + job.run_s, job.number))
            waiting.remove(job)
    return [starts[job.number] - job.submit_s for job in jobs]


def easy(now: int, free: int, running: Running, waiting: list[TraceJob]) -> list[TraceJob]:
    """Start in order; behind the first that does not fit, whoever does not delay it."""
    chosen: list[TraceJob] = []
    first: TraceJob | None = None
    shadow = spare = 0
    for job in waiting:
        is_in_time = now + job.requested_s <= shadow
        if first is None and job.processors > free:
            first = job
            ends = running + [(now + job.requested_s, job.processors) for job in chosen]
            shadow, spare = _shadow(job.processors, now, free, ends)
        elif job.processors <= free and (first is None or is_in_time or job.processors <= spare):
            if first is not None and not is_in_time:
                spare -= job.processors
            free -= job.processors
            chosen.append(job)
    return chosen


def _shadow(processors: int, now: int, free: int, running: Running) -> tuple[int, int]:
    """Return when the first in the queue can start, and what is free beside it then."""
    shadow = now
    for end, given_back in sorted(running):
        if free >= processors and end > shadow:
            break
        free += given_back
        shadow = end
    return shadow, free - processors


def conservative(now: int, free: int, running: Running, waiting: list[TraceJob]) -> list[TraceJob]:
    """Give each in order the earliest room that is left."""
    steps: list[tuple[int, int]] = [(now, free)]  # from when on, free processors
    for end, given_back in sorted(running):
        free += given_back
        if steps[-1][0] == end:
            steps.pop()
        steps.append((end, free))
    chosen: list[TraceJob] = []
    for job in waiting:
        start = _earliest(steps, job)
        if start == now:
            chosen.append(job)
        _take(steps, job.processors, start, start + job.requested_s)
    return chosen


def _earliest(steps: Sequence[tuple[int, int]], job: TraceJob) -> int:
    begin = None
    for at, free in steps:
        if begin is not None and at >= begin + job.requested_s:
            break
        if free < job.processors:
            begin = None
        elif begin is None:
            begin = at
    assert begin is not None
    return begin


def _take(steps: list[tuple[int, int]], processors: int, begin: int, end: int) -> None:
    for cut in (begin, end):
        index = max(at for at, step in enumerate(steps) if step[0] <= cut)
        if steps[index][0] != cut:
            steps.insert(index + 1, (cut, steps[index][1]))
    steps[:] = [(at, free - processors if begin <= at < end else free) for at, free in steps]
