"""Where jobs were promised room, kept from one pass to the next.

Every pass plans from the beginning. Where several choices are equally good, the one of the last
pass stays, so that the jobs that were given the rest of those nodes still get it. A job that can
start sooner than it was promised does so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.plan import PastPromises
from pyslurm_ng.sched.timeline.shapes import Amounts, Shares, Variant

# Promises of one pass that are kept; later promises are searched again. Each costs its pass some
# microseconds of Python, for which a freed core waits twice.
MOST_KEPT = 100
_MOST_NODES = 20_000  # of all of them together; jobs with more are searched again, too


class KeptPromise(NamedTuple):
    """What a job was promised, and from when.

    `shares` are the tasks of each position, `amounts` what each gives. `variant` is None where the
    tasks are spread unevenly; `most_gpus` is by position, of a job that asks for GPUs in all.
    `allocs` are the very cores and devices, in passes with jobs that mind which those are.
    """

    demand: Demand
    start_us: int
    variant: Variant | None
    shares: Shares
    amounts: list[tuple[int, Amounts]]
    most_gpus: Mapping[int, int]
    allocs: tuple[NodeAlloc, ...] = ()


class PromisesByJob(PastPromises):
    """The promises of a pass that is over."""

    __slots__ = ("by_job",)

    def __init__(self, by_job: Mapping[int, Sequence[KeptPromise]]) -> None:
        self.by_job = by_job


class KeptPromises:
    """The promises of the last pass and of the present one, by job; of arrays task by task."""

    def __init__(self) -> None:
        self._last: dict[int, list[KeptPromise]] = {}
        self._present: dict[int, list[KeptPromise]] = {}
        self._count = self._nodes = 0

    def begin(self) -> None:
        """Begin a pass: the promises of the present one become those of the last one."""
        self._last, self._present = self._present, {}
        self._count = self._nodes = 0

    def adopt(self, past: PromisesByJob) -> None:
        """Take what another planner promised for the promises of the last pass."""
        self._last = {job_id: [*kept] for job_id, kept in past.by_job.items()}

    def past(self) -> PromisesByJob:
        """Return the promises of this pass, which is over."""
        return PromisesByJob({job_id: (*kept,) for job_id, kept in self._present.items()})

    @property
    def is_full(self) -> bool:
        """Whether this pass has kept as many promises as it may."""
        return self._count >= MOST_KEPT

    @property
    def last(self) -> dict[int, list[KeptPromise]]:
        """What jobs were promised in the last pass, as far as that is not used or void."""
        return self._last

    def takes(self, nodes: int) -> bool:
        """Return whether a promise of so many nodes would be kept."""
        return not self.is_full and self._nodes + nodes <= _MOST_NODES

    def add(self, job_id: int, kept: KeptPromise) -> None:
        """Note a promise."""
        self._present.setdefault(job_id, []).append(kept)
        self._count += 1
        self._nodes += len(kept.shares)

    def pass_over(self) -> None:
        """Count a promise that is not kept."""
        self._count += 1

    def of(self, job_id: int, demand: Demand, first_us: int) -> KeptPromise | None:
        """Return what a job, or the next task of an array, was promised not before a time."""
        for kept in self._last.get(job_id, ()):
            # Few switches will do for a job that is content with any by now.
            loose = kept.demand.loose
            is_same = _is_same(kept.demand, demand) or (loose and _is_same(loose, demand))
            if is_same and kept.start_us >= first_us:
                return kept
        return None

    def shorter(self, job_id: int, demand: Demand, now_us: int) -> Demand | None:
        """Return as what a job was promised room that may run shorter than its limit, if so."""
        for kept in self._last.get(job_id, ()):
            limit_min = kept.demand.limit_min
            if kept.demand.duration_us < demand.duration_us and limit_min < NO_VAL:
                shorter_demand = demand.shorter.get(limit_min) or demand.lasting(limit_min, now_us)
                if _is_same(kept.demand, shorter_demand):
                    return shorter_demand
        return None

    def drop(self, job_id: int, kept: KeptPromise) -> None:
        """Forget a promise of the last pass, once it is used or void."""
        self._last[job_id].remove(kept)


def _is_same(demand: Demand, other: Demand) -> bool:
    """Return whether two demands are one, though they may be of two planners."""
    return demand is other or (
        demand.need == other.need
        and demand.duration_us == other.duration_us
        and demand.licenses == other.licenses
        and demand.tenant == other.tenant
        and demand.partition.name == other.partition.name
        and demand.mask == other.mask
    )
