"""What a walk through the queue asks of a planner of room, by counts or node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.plan import PastPromises, PlannedNodes, Wait
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.promises import Promises

Settled: TypeAlias = Callable[[], dict[str, Wait]]
"""Returns the partitions in which some job waits, when it is called."""


class RoomPlanner(Protocol):
    """Room on nodes over time: found for one job after another, and taken.

    A search changes nothing for those that follow. What it returns is good until something is
    taken or started.
    """

    learns: bool
    """Whether `place_next` stops at demands that were not shown to `learn`."""

    @property
    def slots(self) -> int:
        """How many stretches of time it tells apart by now."""

    @property
    def past_promises(self) -> PastPromises | None:
        """Where this pass, which is over, has promised room; None: on no certain nodes."""

    def find(self, demand: Demand) -> Finding:
        """Return the earliest start of one more job."""

    def find_from(self, demand: Demand, at_us: int) -> Finding:
        """Return the earliest start not before a moment."""

    def recall(self, job_id: int, finding: Finding, first_us: int) -> Finding:
        """Return what a job was promised in the last pass, unless it was found room sooner.

        Args:
            first_us: no start before this.
        """

    def promised_as(self, job_id: int, demand: Demand) -> Demand | None:
        """Return as what a job was promised room with a limit shorter than its own, if so."""

    def take(self, finding: Finding, job_id: int = 0) -> None:
        """Keep room for a job that starts later.

        Args:
            job_id: the job that shall be found there again in the next pass; 0: none.
        """

    def nodes_of(self, finding: Finding) -> Iterable[int]:
        """Return the nodes that were found; none where nodes given whole are only counted."""

    def start(self, finding: Finding) -> tuple[NodeAlloc, ...] | None:
        """Return exactly what a job gets now, and hold it; None: there is too little after all."""

    def place(self, demand: Demand, job_id: int) -> int:
        """Find the earliest start and keep room there at once, if it is not now."""

    def place_next(
        self,
        queue: list[Entry],
        first: int,
        settled: Settled,
        keeps: bytes | None,
    ) -> list[int]:
        """Keep room for the next jobs of a queue at once; return when they start.

        It ends before the first job that may start now or that asks for more than room.

        Args:
            settled: see `Settled`.
            keeps: a byte for each job of the queue, 0 for jobs without kept room; None: room for
                all.
        """

    def learn(self, demand: Demand) -> None:
        """Let `place_next` take jobs of a demand that waits, if a search is all they need."""

    def planned_nodes(self, promises: Promises) -> PlannedNodes:
        """Return the nodes of every promise, by job id; of an array's first."""

    def begin_trial(self) -> None:
        """From here on all that is taken or started can be given back."""

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
