"""What a scheduling pass returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import Reason


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


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job does not start: Slurm's reason code and a sentence with numbers."""

    reason: Reason
    text: str = ""


class PlannedNodes(Mapping[int, tuple[int, ...]]):
    """Nodes of reservations by job id, worked out when somebody asks."""

    def __init__(self, compute: Callable[[], dict[int, tuple[int, ...]]]) -> None:
        self._compute = compute
        self._found: dict[int, tuple[int, ...]] | None = None

    def _all(self) -> dict[int, tuple[int, ...]]:
        if self._found is None:
            self._found = self._compute()
            del self._compute
        return self._found

    def __getitem__(self, job_id: int) -> tuple[int, ...]:
        return self._all()[job_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


@dataclass(slots=True)
class Plan:
    """The outcome of one pass over the whole queue.

    `waits` has an entry for each eligible job left waiting; `expected_start_us` and
    `planned_nodes` where the pass found a future place; `priorities` for all jobs looked at.
    """

    starts: list[Start] = field(default_factory=list)
    waits: dict[int, Wait] = field(default_factory=dict)
    priorities: dict[int, int] = field(default_factory=dict)
    expected_start_us: dict[int, int] = field(default_factory=dict)
    planned_nodes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    tested: int = 0  # node tests done: the work that `budget` bounds
