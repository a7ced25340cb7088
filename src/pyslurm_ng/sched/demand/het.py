"""Heterogeneous jobs: components that may differ in all they ask for, partition included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Wait


@dataclass(slots=True)
class Part:
    """One component: its demands, one for each partition it may use."""

    job: Waiting
    demands: tuple[Demand, ...]

    @property
    def hopeful(self) -> tuple[Demand, ...]:
        """The demands that may start as nodes and partitions are."""
        return tuple(demand for demand in self.demands if demand.verdict is None)


@dataclass(slots=True)
class Placed:
    """Where and when a component is to run; `nodes` once it starts now."""

    part: Part
    demand: Demand
    nodes: tuple[NodeAlloc, ...] | None = None


def choice(part: Part) -> int:
    """Return among how many nodes a component can choose; those with the fewest come first."""
    return max((_choice(demand) for demand in part.hopeful), default=0)


def _choice(demand: Demand) -> int:
    named = len(demand.need.required_nodes)
    return named if named >= demand.need.nodes_max else demand.suitable


def incomplete(parts: Sequence[Waiting]) -> Wait:
    """Return why components wait of which some others may not be considered yet."""
    first = parts[0]
    missing = first.het_size - len(parts)
    text = f"{missing} of {first.het_size} components of job {first.het_job_id} may not start yet"
    return Wait(Reason.Priority, text)


def groups(waiting: Iterable[Waiting]) -> list[list[Waiting]]:
    """Return the components of each heterogeneous job, in the order of the leaders."""
    by_leader: dict[int, list[Waiting]] = {}
    for job in waiting:
        by_leader.setdefault(job.het_job_id, []).append(job)
    return [sorted(by_leader[leader], key=lambda job: job.job_id) for leader in sorted(by_leader)]


def key_of(keys: Sequence[int], how: str) -> int:
    """Return the place in the queue of a job from those of its components; less comes first.

    Args:
        how: bf_hetjob_prio: min, avg or max of the priorities. A job waits for the last of its
            components unless told otherwise.
    """
    if how == "max":
        return min(keys)
    if how == "avg":
        return sum(keys) // len(keys)
    return max(keys)
