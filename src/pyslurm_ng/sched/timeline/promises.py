"""Starts that a pass has promised: reservations in time, of jobs and not of administrators."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from pyslurm_ng._select import untracked
from pyslurm_ng.sched.demand.demand import Demand


class Promises:
    """What a pass has promised: job ids, demands and starts side by side, in order of promise.

    A job that may start sooner in another of its partitions has a promise there, too; the former
    one stays, under the negative of its id, should that room be gone when the time comes.
    """

    __slots__ = ("_superseded", "demands", "job_ids", "starts_us")

    def __init__(self) -> None:
        self.job_ids: array[int] = array("q")
        self.demands: list[Demand] = untracked([])
        self.starts_us: array[int] = array("q")
        self._superseded: dict[int, int] = {}  # by job id: the promises before this one

    def append(self, job_id: int, demand: Demand, start_us: int) -> None:
        """Add one promise."""
        self.job_ids.append(job_id)
        self.demands.append(demand)
        self.starts_us.append(start_us)

    def extend(self, job_ids: list[int], demands: list[Demand], starts_us: list[int]) -> None:
        """Add many."""
        self.job_ids.fromlist(job_ids)
        self.demands += demands
        self.starts_us.fromlist(starts_us)

    def last_ends_us(self, count: int) -> list[int]:
        """Return until when the last ones hold their room."""
        first = len(self) - count
        pairs = zip(self.starts_us[first:], self.demands[first:], strict=True)
        return [demand.end_us(start_us) for start_us, demand in pairs]

    def pop(self) -> None:
        """Take the last promise back."""
        self.job_ids.pop()
        self.demands.pop()
        self.starts_us.pop()

    def supersede(self, job_id: int) -> None:
        """Let the next promise of a job be the one that counts, once `settle` is called."""
        self._superseded[job_id] = len(self.job_ids)

    def settle(self) -> None:
        """Name former promises by the negative of their jobs' ids."""
        if not self._superseded:
            return
        for at, job_id in enumerate(self.job_ids):
            if at < self._superseded.get(job_id, 0):
                self.job_ids[at] = -job_id
        self._superseded.clear()

    def __iter__(self) -> Iterator[tuple[int, Demand, int]]:
        return zip(self.job_ids, self.demands, self.starts_us, strict=True)

    def __len__(self) -> int:
        return len(self.job_ids)
