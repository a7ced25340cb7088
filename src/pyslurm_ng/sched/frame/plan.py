"""What a scheduling pass returns."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeVar

from msgspec import Struct

from pyslurm_ng._select import NumbersKept, first_of_each, places_used
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.request.sharing import NOBODY, Tenant

_Table = TypeVar("_Table", bound=MutableMapping[int, Any])


class NumbersByJob(NumbersKept, MutableMapping[int, int]):
    """Numbers of jobs by id: a dict without an order, at a quarter of the size."""

    __slots__ = ()

    def __init__(self, entries: Mapping[int, int] | None = None) -> None:
        """Begin with some entries, or none."""
        self.update(entries or {})

    def __repr__(self) -> str:
        return f"NumbersByJob({dict(self)})"


@dataclass(frozen=True, slots=True)
class Start:
    """A job, or one task of a waiting array, that can start now.

    `task_id` is -1 for a job that is no array; else the waiting task to split off.
    """

    job_id: int
    task_id: int
    partition: str
    nodes: tuple[NodeAlloc, ...]
    batch_node_id: int
    total_tasks: int
    scheduler: str = "Main"
    time_limit_min: int = NO_VAL  # what its limit is cut to; NO_VAL: it stays
    tenant: Tenant = NOBODY
    licenses: str = ""  # of several alternatives the one it gets; empty: what it asks for
    het_job_id: int = 0  # starts of one heterogeneous job follow one another and stand together


@dataclass(frozen=True, slots=True)
class Preemption:
    """A start that other jobs must make room for: which, and how (CANCEL, REQUEUE or SUSPEND).

    `together` has the starts of the other components of a heterogeneous job.
    """

    start: Start
    victims: tuple[tuple[int, str], ...]
    together: tuple[Start, ...] = ()


class Wait(Struct, frozen=True, gc=False):
    """Why a job does not start: Slurm's reason code and a sentence with numbers.

    `shown` is what Slurm's commands print in place of the code's name, where they do. The garbage
    collector knows nothing of it, and so does not look through tables of a hundred thousand.
    """

    reason: Reason
    text: str = ""
    shown: str = ""


class PlannedNodes(Mapping[int, tuple[int, ...]]):
    """Nodes of reservations by job id, worked out when it is asked for.

    Whatever it is made of belongs to it alone: the next pass may be under way by then.
    """

    def __init__(self, compute: Callable[[], dict[int, tuple[int, ...]]] = dict) -> None:
        self._compute = compute
        self._found: dict[int, tuple[int, ...]] | None = None

    def _all(self) -> dict[int, tuple[int, ...]]:
        if self._found is None:
            self._found = self._compute()
            del self._compute
        return self._found

    def nodes_of(self, job_id: int) -> tuple[int, ...]:
        """Return the nodes promised to a job; none: ()."""
        return self._all().get(job_id, ())

    def __getitem__(self, job_id: int) -> tuple[int, ...]:
        nodes = self.nodes_of(job_id)
        if not nodes:
            raise KeyError(job_id)
        return nodes

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def all_nodes(self) -> frozenset[int]:
        """Return every node that some job has been promised."""
        return frozenset(node_id for nodes in self._all().values() for node_id in nodes)


class PlacedNodes(PlannedNodes):
    """The same out of one array: for each job a count and that many positions of nodes.

    A long queue has a hundred thousand such jobs; this way asking for one of them is cheap.
    """

    def __init__(
        self, jobs: array[int], numbers: array[int], placed: bytes, order: Sequence[int]
    ) -> None:
        """Keep where each job's nodes begin in `placed`; of several placings the first.

        Args:
            jobs, numbers: 64-bit numbers, side by side.
            placed: 32-bit numbers.
            order: node ids by position.
        """
        # Sorted now, in the thread of the pass, because readers are on the loop.
        firsts, begins = first_of_each(jobs, numbers)
        self._jobs, self._begins = memoryview(firsts).cast("q"), memoryview(begins).cast("q")
        self._placed = memoryview(placed).cast("i")
        self._order = order
        self._nodes: frozenset[int] | None = None

    def nodes_of(self, job_id: int) -> tuple[int, ...]:
        index = bisect_left(self._jobs, job_id)
        if index == len(self._jobs) or self._jobs[index] != job_id:
            return ()
        begin = self._begins[index] + 1
        positions = self._placed[begin : begin + self._placed[begin - 1]]
        return tuple(sorted(self._order[position] for position in positions))

    def __iter__(self) -> Iterator[int]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def all_nodes(self) -> frozenset[int]:
        if self._nodes is None:
            used = places_used(self._placed, len(self._order))
            self._nodes = frozenset(compress(self._order, used))
        return self._nodes


class JoinedNodes(PlannedNodes):
    """The nodes of several plans; the first that knows a job has the say."""

    def __init__(self, parts: Sequence[PlannedNodes]) -> None:
        self._parts = parts

    def nodes_of(self, job_id: int) -> tuple[int, ...]:
        for part in self._parts:
            nodes = part.nodes_of(job_id)
            if nodes:
                return nodes
        return ()

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(job_id for part in self._parts for job_id in part))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def all_nodes(self) -> frozenset[int]:
        return frozenset[int]().union(*(part.all_nodes() for part in self._parts))


class PastPromises:
    """Where a pass has promised room; the content is the planner's: see `kept_promises`."""

    __slots__ = ()


@dataclass(slots=True)
class Plan:
    """The outcome of one pass over the whole queue.

    `waits` has an entry for each eligible job left waiting; `expected_start_us` and
    `planned_nodes` where the pass found a future place; `priorities` for all jobs looked at.
    """

    starts: list[Start] = field(default_factory=list)
    waits: dict[int, Wait] = field(default_factory=dict)
    priorities: NumbersByJob = field(default_factory=NumbersByJob)
    expected_start_us: NumbersByJob = field(default_factory=NumbersByJob)
    planned_nodes: PlannedNodes = field(default_factory=PlannedNodes)
    preemptions: list[Preemption] = field(default_factory=list)
    lost_claims: list[int] = field(default_factory=list)  # jobs whose claim is no longer of use
    retry_us: int = 0  # when some job may preempt that may not yet; 0 for none
    tested: int = 0  # node tests done: the work that `budget` bounds
    cut_by: str = ""  # the option because of which not every job was looked at, or started
    slots: int = 0  # of the timeline that jobs were given room on; 0 without one
    past_promises: PastPromises | None = (
        None  # of jobs outside of reservations, for planning them once more
    )

    def add(self, other: Plan) -> None:
        """Take over what another plan says of other jobs, or of the same ones second.

        The other one must no longer be used: the larger of two tables is kept, not copied.
        """
        self.starts += other.starts
        self.waits = _joined(self.waits, other.waits)
        self.priorities = _joined(self.priorities, other.priorities)
        few, many = sorted((self.expected_start_us, other.expected_start_us), key=len)
        for job_id, start_us in few.items():
            many[job_id] = min(many.get(job_id, start_us), start_us)
        self.expected_start_us = many
        self.planned_nodes = JoinedNodes((self.planned_nodes, other.planned_nodes))
        self.preemptions += other.preemptions
        self.lost_claims += other.lost_claims
        self.retry_us = min(filter(None, (self.retry_us, other.retry_us)), default=0)
        self.tested += other.tested
        self.cut_by = self.cut_by or other.cut_by
        self.slots += other.slots


def _joined(first: _Table, second: _Table) -> _Table:
    """Return the items of both; if both have one, the first's."""
    if len(first) < len(second):
        second.update(first)
        return second
    for key, value in second.items():
        first.setdefault(key, value)
    return first


class JobFaults(Exception):
    """A pass cannot go on: planning these jobs raised unexpected exceptions.

    Attributes:
        errors: exceptions, by job id.
    """

    def __init__(self, errors: Mapping[int, Exception]) -> None:
        super().__init__(f"planning failed for {len(errors)} job{'s' * (len(errors) != 1)}")
        self.errors = errors


HandOver = Callable[[Plan], None]
"""Is shown a plan in the making: its starts are final, and its priorities."""
