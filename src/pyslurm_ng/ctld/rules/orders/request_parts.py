"""A change of many jobs, some at a time: slurmctld hears other users between two requests.

A request changes no more than `RECORDS_AT_ONCE` job records. Its reply says where it stopped, and
the command asks again from there. Records that the change itself split off an array are newer than
the first request, so the later ones leave them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyslurm_ng.ctld.job_filter import Part
    from pyslurm_ng.model.cluster import Cluster

RECORDS_AT_ONCE = 1_024
"""12 to 45 us each, including applying and recording."""


class Asked(Protocol):
    """The fields of a request that say where to go on."""

    @property
    def from_job(self) -> int:
        """The job id at which the first id named, or the filter, goes on."""

    @property
    def below_job(self) -> int:
        """No job from this id on is meant; 0 in a first request."""


class Stopped(NamedTuple):
    """Where a request stopped: at the id of that index, with the records from `next_job` on."""

    is_partial: bool = False
    next_id: int = 0
    next_job: int = 0
    below_job: int = 0


class RequestPart:
    """Hands out the records that one request may change, in order of their job ids.

    Attributes:
        stopped: where to go on, if there was no room for all.
    """

    def __init__(self, cluster: Cluster, asked: Asked, most: int = RECORDS_AT_ONCE) -> None:
        self.stopped = Stopped()
        self._cluster = cluster
        self._from_job = asked.from_job
        self._below_job = asked.below_job
        self._left = most

    def goes_on(self, index: int) -> bool:
        """Return whether an earlier request has begun with the id of this index."""
        return index == 0 and self._from_job > 0

    def records(self, index: int, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield those of the records that an id, or a filter, names which are this request's."""
        return self.in_order(index, sorted(parts, key=lambda part: part[0].job_id))

    def in_order(self, index: int, parts: Iterable[Part]) -> Iterator[Part]:
        """Do so for records that come in order of their job ids.

        No more of them are asked for than there is room for.
        """
        first = self._from_job if index == 0 else 0
        for job, tasks in parts:
            if job.job_id < first or (self._below_job and job.job_id >= self._below_job):
                continue
            if self._left <= 0:
                self._stop(index, job.job_id)
                return
            self._left -= 1
            yield job, tasks

    def spend(self, records: int) -> None:
        """Count a change that took as long as so many more records."""
        self._left -= records

    def is_over(self, index: int) -> bool:
        """Return whether the request goes no further than the id of this index."""
        if not self.stopped.is_partial and self._left <= 0:
            self._stop(index + 1, 0)
        return self.stopped.is_partial

    def _stop(self, index: int, job_id: int) -> None:
        if not self._below_job:
            # When job ids have begun again at the lowest, a record that is split off may be changed
            # twice, as by two commands; no job is left out.
            newest = max(self._cluster.jobs, default=0) + 1
            self._below_job = max(self._cluster.next_job_id, newest)
        self.stopped = Stopped(True, index, job_id, self._below_job)
