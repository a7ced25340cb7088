"""What a search for room has found: all that taking it, or starting on it, needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.timeline.exact_amounts import Dealt
from pyslurm_ng.sched.timeline.kept_promises import KeptPromise
from pyslurm_ng.sched.timeline.shapes import Shares, Variant

_EVEN: Shares = []
_ANY: Mapping[int, int] = {}


class Recalled(NamedTuple):
    """A promise of the last pass that holds for a job again."""

    job_id: int
    promise: KeptPromise


class Finding(NamedTuple):
    """When and where a job may start; good until anything else is taken.

    `demand` is what the job starts as, `start_us` NEVER if there is no room. If single nodes are
    planned, `positions` has theirs, and each gives what `variant` says to a job of `kind` on the
    grid. If tasks are spread unevenly, `shares` has the tasks of each position instead.

    Attributes:
        most_gpus: by position, of a job that asks for GPUs in all.
        dealt: what each node gives, if that was worked out by the search.
        allocs: the exact cores and devices, where it matters which these are.
        recalled: the job's promise of the last pass, if the search found just that.
        is_left: `allocs` are what other jobs are to leave: no search has found them free.
        lies_badly: there are enough nodes now, but not near one another.
    """

    demand: Demand
    start_us: int
    kind: int = -1
    variant: Variant | None = None
    positions: Sequence[int] = ()
    shares: Shares = _EVEN
    most_gpus: Mapping[int, int] = _ANY
    dealt: Dealt | None = None
    allocs: tuple[NodeAlloc, ...] = ()
    recalled: Recalled | None = None
    is_left: bool = False
    lies_badly: bool = False

    @property
    def width(self) -> int:
        """How many nodes it has."""
        return len(self.shares or self.positions)


def left_by_others(demand: Demand, start_us: int, allocs: tuple[NodeAlloc, ...]) -> Finding:
    """Return what other jobs are to leave for a job."""
    return Finding(demand, start_us, allocs=allocs, is_left=True)
