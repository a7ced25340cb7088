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


def is_forced(partition: Partition | None) -> bool:
    """Return whether OverSubscribe=FORCE leaves users no choice, not even --exclusive."""
    return partition is not None and partition.oversubscribe.upper().startswith("FORCE")


def exclusive_flags(request: JobRequest, partition: Partition | None) -> int:
    """Return what a request's --exclusive means in a partition, as REQ_EXCLUSIVE* bits."""
    return 0 if is_forced(partition) else request.flags & _EXCLUSIVE


def rows_of(partition: Partition | None, request: JobRequest) -> int:
    """Return how many jobs may share a core of this job; 1: it does not share. FORCE leaves users
    no choice; with YES they ask for it. Whole nodes are never shared.
    """
    if partition is None or partition.exclusive != "NO" or exclusive_flags(request, partition):
        return 1
    if partition.oversubscribe.startswith("YES") and not request.flags & REQ_OVERSUBSCRIBE:
        return 1
    return row_count(partition)


def may_mix(partition: Partition | None, other: Partition | None) -> bool:
    """Return whether jobs of two partitions that share cores may share them with each other.

    Each partition counts its own jobs. A higher tier is not let in among the jobs of a lower one:
    it preempts them, or they wait.
    """
    return (
        partition is not None
        and other is not None
        and partition.priority_tier == other.priority_tier
    )


def oversubscribe_shown(request: JobRequest, partition: Partition | None) -> str:
    """Return the OverSubscribe of a job: YES, OK where it might have asked for it, or NO."""
    if is_forced(partition):
        return "YES"
    if request.flags & _EXCLUSIVE:
        return "NO"
    if request.flags & REQ_OVERSUBSCRIBE:
        return "YES"
    return "OK" if partition is not None and partition.oversubscribe.startswith("YES") else "NO"


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
