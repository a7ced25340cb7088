"""The obvious twin of `_select.starts_in_us`: when jobs start that are served in a given order.

A partition is one number of CPUs, and jobs run as long as is foreseen. As under EASY backfilling
those behind the first that does not fit start before it if they do not delay it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

_DEPTH = 200  # jobs looked at behind the first that does not fit
_LONGEST = 1000  # jobs of the queue whose starts are worked out


def starts_in_us(
    free: int, running: Iterable[tuple[int, int]], queue: Sequence[tuple[int, int]]
) -> list[int]:
    """Return how long each of the first jobs of a queue would still wait, in microseconds.

    Args:
        free: CPUs that are idle now.
        running: when each running job ends from now, in microseconds, and its CPUs.
        queue: CPUs and run time in microseconds of the waiting ones, in order.
    """
    queue = queue[:_LONGEST]
    starts = [0] * len(queue)
    waiting = list(range(len(queue)))
    ends = list(running)
    heapq.heapify(ends)
    most = free + sum(cpus for _, cpus in ends)
    at_us = 0
    while waiting:
        if queue[waiting[0]][0] > most:  # nodes are down
            del waiting[0]
            continue
        free = _start(at_us, free, ends, queue, waiting, starts)
        at_us = ends[0][0]
        while ends and ends[0][0] <= at_us:
            free += heapq.heappop(ends)[1]
    return starts


def _start(
    at_us: int,
    free: int,
    ends: list[tuple[int, int]],
    queue: Sequence[tuple[int, int]],
    waiting: list[int],
    starts: list[int],
) -> int:
    """Start whom there is room for, and return how many CPUs are left."""

    def begin(index: int) -> None:
        starts[index] = at_us
        heapq.heappush(ends, (at_us + queue[index][1], queue[index][0]))

    fitting = 0
    while fitting < len(waiting) and queue[waiting[fitting]][0] <= free:
        free -= queue[waiting[fitting]][0]
        begin(waiting[fitting])
        fitting += 1
    del waiting[:fitting]
    if not waiting or not free:
        return free
    until_us, spare = _room_for(queue[waiting[0]][0], free, ends)
    still_waiting = [waiting[0]]
    for position in range(1, len(waiting)):
        index = waiting[position]
        cpus, run_us = queue[index]
        is_in_time = at_us + run_us <= until_us
        if position > _DEPTH or cpus > free or not (is_in_time or cpus <= spare):
            still_waiting.append(index)
            continue
        free -= cpus
        spare -= 0 if is_in_time else cpus
        begin(index)
    waiting[:] = still_waiting
    return free


def _room_for(cpus: int, free: int, ends: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return when so many CPUs are free, and how many more then."""
    until_us = 0
    for end_us, given_back in sorted(ends):
        if free >= cpus:
            break
        free += given_back
        until_us = end_us
    return until_us, free - cpus
