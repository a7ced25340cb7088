"""Jobs that share cores: what OverSubscribe= of a partition allows."""

from __future__ import annotations

from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
    REQ_OVERSUBSCRIBE,
)

from .job import JobRequest
from .partition import Partition

_EXCLUSIVE = REQ_EXCLUSIVE | REQ_EXCLUSIVE_USER | REQ_EXCLUSIVE_MCS | REQ_EXCLUSIVE_TOPO


def row_count(partition: Partition) -> int:
    """Return how many jobs may have one core in a partition: n of YES:n and FORCE:n, else 1."""
    word, _, count = partition.oversubscribe.partition(":")
    return max(1, int(count or 4)) if word in ("YES", "FORCE") else 1


def rows_of(partition: Partition | None, request: JobRequest) -> int:
    """Return how many jobs may share a core of this job; 1: it does not share. FORCE leaves users
    no choice; with YES they ask for it. Whole nodes are never shared.
    """
    if partition is None or request.flags & _EXCLUSIVE or partition.exclusive != "NO":
        return 1
    if partition.oversubscribe.startswith("YES") and not request.flags & REQ_OVERSUBSCRIBE:
        return 1
    return row_count(partition)


class Load:
    """How many jobs each core of a node has, as one mask for each number."""

    __slots__ = ("at_least",)

    def __init__(self) -> None:
        self.at_least: list[int] = []  # cores with one job or more, with two or more ...

    def add(self, cores: int) -> None:
        """Count one more job on these cores."""
        carry = cores
        for number, mask in enumerate(self.at_least):
            self.at_least[number], carry = mask | carry, mask & carry
        if carry:
            self.at_least.append(carry)

    def with_jobs(self, count: int) -> int:
        """Return the cores that have so many jobs or more."""
        return self.at_least[count - 1] if count <= len(self.at_least) else 0
