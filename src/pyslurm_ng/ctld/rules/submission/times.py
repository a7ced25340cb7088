"""When a submitted job may run: its time limit, begin and deadline."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition


def time_limit(request: JobRequest, partitions: Sequence[Partition], now_us: int) -> int | Reject:
    """Return the time limit in minutes; refuse moments that contradict one another.

    As in Slurm 22.05 a default is that of the first partition named, and where that has none, the
    limit is the most that the partition of the highest tier allows.
    """
    partition = partitions[0]
    limit = request.time_limit_min
    is_given = limit != NO_VAL
    if not is_given:
        limit = partition.default_time_min
        if limit == NO_VAL:
            limit = max(partitions, key=lambda each: each.priority_tier).max_time_min
    if request.deadline_us:
        if request.deadline_us <= now_us:
            return Reject(Errno.ESLURM_INVALID_TIME_LIMIT)
        begin_us = max(now_us, request.begin_us)
        if begin_us > request.deadline_us:
            return Reject(
                Errno.ESLURM_INVALID_TIME_LIMIT,
                "Incompatible begin and deadline time specification",
            )
        left_min = (request.deadline_us - begin_us) // MINUTE_US
        least = request.time_min_min if request.time_min_min != NO_VAL else limit
        if not is_given:
            limit = min(max(1, left_min), partition.max_time_min)
        elif least > left_min:
            return Reject(Errno.ESLURM_INVALID_TIME_LIMIT)
    is_endless = request.time_min_min == INFINITE and not is_given  # --time-min=0 alone
    if is_endless or (request.time_min_min != NO_VAL and request.time_min_min > limit):
        return Reject(Errno.ESLURM_INVALID_TIME_MIN_LIMIT)
    return limit
