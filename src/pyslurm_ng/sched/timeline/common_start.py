"""One start for all components of a heterogeneous job, or none.

The search places one component after the other at the same moment, in a trial: each sees what those
before it take, and gets none of their nodes. If one finds no room there, all is given back and a
later moment is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass

from pyslurm_ng._select import NEVER
from pyslurm_ng.sched.demand.het import Part, Placed, choice
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.room_planner import RoomPlanner

# Moments tried one by one; then the search goes on in longer steps.
_CLOSE_TRIES = 64
_MOST_TRIES = 512


@dataclass(slots=True)
class Common:
    """A moment at which all components fit, and how; `start_us` NEVER without one."""

    start_us: int
    placed: list[Placed]
    is_accepted: bool = True


def common_start(
    planner: RoomPlanner,
    parts: Sequence[Part],
    now_us: int,
    *,
    reserves: bool = True,
    is_trial: bool = False,
    accepts: Callable[[list[Placed]], bool] | None = None,
) -> Common:
    """Find the first moment at which all components fit at once, and hold their room there.

    Demanding components are placed first; one that finds no room beside the others is tried before
    them at the same moment.

    Args:
        reserves: hold room for a later start, too; else only for one now, which is chosen exactly.
        is_trial: hold nothing and choose nothing.
        accepts: whether the components may have what they would get now; if not, it is given back
            and nothing is found.
    """
    order = sorted(parts, key=lambda part: (choice(part), part.job.job_id))
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


def _all_apart(planner: RoomPlanner, parts: Sequence[Part], at_us: int) -> int:
    """Return the first moment not before `at_us` at which each component, alone, would fit."""
    while True:
        later_us = at_us
        for part in parts:
            finding = _find(planner, part, later_us)
            if finding is None:
                return NEVER
            later_us = finding.start_us
        if later_us == at_us:
            return at_us
        at_us = later_us


def _find(
    planner: RoomPlanner, part: Part, at_us: int, used: AbstractSet[int] = frozenset()
) -> Finding | None:
    """Return the earliest start of a component in any of its partitions.

    Args:
        used: the nodes of other components.
    """
    best: Finding | None = None
    for demand in part.hopeful:
        if demand.need.required_nodes & used:
            continue
        finding = planner.find_from(demand.without(used, at_us), at_us)
        if finding.start_us == at_us:
            return finding
        if finding.start_us != NEVER and (best is None or finding.start_us < best.start_us):
            best = finding
    return best


def _all_at(
    planner: RoomPlanner,
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
            placed.sort(key=lambda placed_part: placed_part.part.job.job_id)
            return placed, at_us
        planner.roll_back()
        if order[0] is blocked:
            break
        order.remove(blocked)
        order.insert(0, blocked)
    return None, later_us


def _place(
    planner: RoomPlanner, order: Iterable[Part], at_us: int, now_us: int
) -> tuple[list[Placed], Part | None, int]:
    """Place one after the other; return how many were placed, and which found no room."""
    placed: list[Placed] = []
    used: set[int] = set()
    for part in order:
        finding = _find(planner, part, at_us, used)
        if finding is None or finding.start_us != at_us:
            return placed, part, NEVER if finding is None else finding.start_us
        placed_part = Placed(part, finding.demand)
        if at_us == now_us:
            placed_part.nodes = planner.start(finding)
            if placed_part.nodes is None:
                return placed, part, NEVER
            used.update(alloc.node_id for alloc in placed_part.nodes)
        else:
            planner.take(finding)
            used.update(planner.nodes_of(finding))
        placed.append(placed_part)
    return placed, None, at_us
