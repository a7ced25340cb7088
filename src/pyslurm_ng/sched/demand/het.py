"""Heterogeneous jobs: one start for all components, or none.

A job's components may differ in all they ask for, partition included. A common start is looked for
by placing one component after the other at the same moment, in a trial: who comes next sees what
those before it take. If one finds no room there, all is given back and a later moment is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyslurm_ng._select import NEVER
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Wait

# Moments tried one by one; then the search goes on in longer steps.
_CLOSE_TRIES = 64
_MOST_TRIES = 512


class TrialPlanner(Protocol):
    """A planner that can hold room on trial."""

    def find_from(self, demand: Demand, at_us: int, /) -> int:
        """Return the earliest start not before a moment, or NEVER."""

    def take(self, demand: Demand, start_us: int, /) -> None:
        """Keep the room found last."""

    def start(self, demand: Demand, /) -> tuple[NodeAlloc, ...] | None:
        """Return exactly what is to be used from now on."""

    def begin_trial(self) -> None:
        """Let all that follows be given back at once."""

    def keep(self) -> None:
        """End the trial."""

    def roll_back(self) -> None:
        """End the trial as if it had not been."""


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


@dataclass(slots=True)
class Common:
    """A moment at which all components fit, and how; `start_us` NEVER without one."""

    start_us: int
    placed: list[Placed]
    is_accepted: bool = True


def common_start(
    planner: TrialPlanner,
    parts: Sequence[Part],
    now_us: int,
    *,
    reserves: bool = True,
    is_trial: bool = False,
    accepts: Callable[[list[Placed]], bool] | None = None,
) -> Common:
    """Find the first moment at which all components fit at once, and hold their room there.

    Without `reserves` only what starts now is held; that is chosen exactly. With `is_trial` nothing
    is held and nothing chosen. Demanding components
    are placed first; one that finds no room beside the others is tried before them at the same
    moment. What `accepts` does not like, of a start now, is given back and nothing is found.
    """
    order = sorted(parts, key=lambda part: (_room(part), part.job.job_id))
    at_us, tries = now_us, 0
    while tries < _MOST_TRIES:
        earliest_us = _all_apart(planner, order, at_us)
        if earliest_us == NEVER:
            break
        if earliest_us > at_us:
            at_us = earliest_us
        is_kept = not is_trial and (reserves or at_us == now_us)
        exact_us = NEVER if is_trial else now_us
        judge = accepts if at_us == exact_us else None
        placed, later_us = _all_at(planner, order, at_us, exact_us, is_kept, judge)
        if placed is not None:
            return Common(at_us, placed) if placed else Common(NEVER, [], is_accepted=False)
        tries += 1
        # Something may change at the next moment the planner knows; far away larger steps will do.
        at_us = at_us + 1 if tries < _CLOSE_TRIES or later_us == NEVER else later_us
    return Common(NEVER, [])


def _room(part: Part) -> int:
    return max((demand.suitable for demand in part.hopeful), default=0)


def _all_apart(planner: TrialPlanner, parts: Sequence[Part], at_us: int) -> int:
    """Return the first moment not before `at_us` at which each component, alone, would fit."""
    while True:
        later_us = at_us
        for part in parts:
            found_us = _find(planner, part, later_us)[0]
            if found_us == NEVER:
                return NEVER
            later_us = found_us
        if later_us == at_us:
            return at_us
        at_us = later_us


def _find(planner: TrialPlanner, part: Part, at_us: int) -> tuple[int, Demand | None]:
    """Return the earliest start of a component in any of its partitions, and that demand.

    The planner has found it last.
    """
    best_us, best = NEVER, None
    for demand in part.hopeful:
        found_us = planner.find_from(demand, at_us)
        if found_us == at_us:
            return found_us, demand
        if found_us != NEVER and (best_us == NEVER or found_us < best_us):
            best_us, best = found_us, demand
    return best_us, best


def _all_at(
    planner: TrialPlanner,
    order: list[Part],
    at_us: int,
    now_us: int,
    is_kept: bool,
    accepts: Callable[[list[Placed]], bool] | None,
) -> tuple[list[Placed] | None, int]:
    """Place all at one moment, for good if `is_kept`, or none.

    Returns what was placed, None if not all were, empty if not accepted, and when the one without
    room would have some. `order` is changed: that one comes first.
    """
    later_us = NEVER
    for _ in order:
        planner.begin_trial()
        placed, blocked, later_us = _place(planner, order, at_us, now_us)
        if blocked is None:
            if accepts is not None and not accepts(placed):
                planner.roll_back()
                return [], NEVER
            if is_kept:
                planner.keep()
            else:
                planner.roll_back()
            placed.sort(key=lambda item: item.part.job.job_id)
            return placed, at_us
        planner.roll_back()
        if order[0] is blocked:
            break
        order.remove(blocked)
        order.insert(0, blocked)
    return None, later_us


def _place(
    planner: TrialPlanner, order: Iterable[Part], at_us: int, now_us: int
) -> tuple[list[Placed], Part | None, int]:
    """Place one after the other; return how far that went, and who found no room."""
    placed: list[Placed] = []
    for part in order:
        found_us, demand = _find(planner, part, at_us)
        if demand is None or found_us != at_us:
            return placed, part, found_us
        item = Placed(part, demand)
        if at_us == now_us:
            item.nodes = planner.start(demand)
            if item.nodes is None:
                return placed, part, NEVER
        else:
            planner.take(demand, at_us)
        placed.append(item)
    return placed, None, at_us


def incomplete(parts: Sequence[Waiting]) -> Wait:
    """Return why components wait of which some others may not be considered yet."""
    first = parts[0]
    missing = first.het_size - len(parts)
    text = f"{missing} of {first.het_size} components of job {first.het_job_id} may not start yet"
    return Wait(Reason.Priority, text)


def groups(waiting: Iterable[Waiting]) -> list[list[Waiting]]:
    """Return the components of each heterogeneous job, in the order of the leaders."""
    found: dict[int, list[Waiting]] = {}
    for job in waiting:
        found.setdefault(job.het_job_id, []).append(job)
    return [sorted(found[leader], key=lambda job: job.job_id) for leader in sorted(found)]


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
