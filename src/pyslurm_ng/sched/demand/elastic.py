"""Jobs whose limit may be cut to start now: `--time-min`, and `--deadline` with either.

A job that may run shorter than its limit starts as soon as the shortest time it accepts fits into
a gap; it then gets the longest that fits. Room later is kept for the whole limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US

_Room = TypeVar("_Room")
_MOST_MIN = NO_END_US // MINUTE_US


def bounds_min(request: JobRequest, duration_us: int, now_us: int) -> tuple[int, int]:
    """Return the shortest and the longest limit in minutes that a job may start with now.

    The shortest is larger than the longest where the job can no longer be over by its deadline.
    """
    most = limit = duration_us // MINUTE_US
    least = request.time_min_min
    if least in (0, INFINITE, NO_VAL):
        is_open = request.deadline_us and request.time_limit_min == NO_VAL
        least = 1 if is_open else limit
    if request.deadline_us:
        most = min(limit, max(0, request.deadline_us - now_us) // MINUTE_US)
    return min(least, limit), most


def misses_deadline(request: JobRequest, duration_us: int, start_us: int) -> bool:
    """Return whether a job that starts at `start_us` cannot be over by its deadline."""
    if not request.deadline_us:
        return False
    least, most = bounds_min(request, duration_us, start_us)
    return most < least


def in_time(demand: Demand, request: JobRequest, now_us: int) -> Demand | None:
    """Return the demand of a job that starts now, cut to its deadline; None if it cannot be over.

    For starts on what others have: there are no gaps to fit the limit to.
    """
    if not request.deadline_us:
        return demand
    least, most = bounds_min(request, demand.duration_us, now_us)
    return demand.lasting(min(most, _MOST_MIN), now_us) if least <= most else None


def longest(
    demand: Demand, least: int, most: int, now_us: int, room: Callable[[Demand], _Room | None]
) -> _Room | None:
    """Return room for the demand with the longest limit that fits, None if the shortest does not.

    Args:
        least, most: limits in minutes.
        room: returns where a demand fits, or None.
    """
    most = min(most, _MOST_MIN)
    if most < least:
        return None
    longest_room = room(demand.lasting(most, now_us))
    if longest_room is not None:
        return longest_room
    best = demand.lasting(least, now_us)
    if room(best) is None:
        return None
    while most - least > max(1, least >> 6):
        middle = (least + most) // 2
        trial = demand.lasting(middle, now_us)
        if room(trial) is not None:
            least, best = middle, trial
        else:
            most = middle
    # The same room once more: some searches have budgets, which decide what others find.
    return room(best)
