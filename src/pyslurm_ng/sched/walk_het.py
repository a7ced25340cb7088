"""How a walk deals with a heterogeneous job: all components start, or all keep room, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyslurm_ng._select import NEVER
from pyslurm_ng.sched import het, reason
from pyslurm_ng.sched.plan import Wait

if TYPE_CHECKING:
    from pyslurm_ng.sched.walk import Walk


def consider(walk: Walk, parts: list[het.Part]) -> Wait | None:
    """Start all components, or keep room for all at one later moment; return why they wait."""
    waits = {part.job.job_id: _verdict(walk, part) for part in parts}
    if any(waits.values()):
        return _note_waits(walk, parts, waits)
    walk.plan.tested += len(parts)
    now_us, room, gate = walk.snapshot.now_us, walk.room, walk.gate
    reserves = room.has_depth({demand.partition.name for part in parts for demand in part.hopeful})
    over: list[Wait] = []

    def accepts(placed: list[het.Placed]) -> bool:
        over[:] = [wait for wait in [gate.over_together(placed)] if wait is not None]
        return not over

    judge = None if gate.is_open else accepts
    found = het.common_start(walk.planner, parts, now_us, reserves=reserves, accepts=judge)
    if not found.is_accepted:
        return _note_waits(walk, parts, dict.fromkeys(waits, over[0]))
    for item in found.placed:
        job_id = item.part.job.job_id
        if item.nodes is not None:
            walk.start_on(item.part.job, item.demand, -1, item.nodes)
            continue
        if reserves:
            room.promise(job_id, item.demand, found.start_us)
        walk.plan.expected_start_us[job_id] = found.start_us
    if found.start_us == now_us:
        return None
    for part in parts:
        waits[part.job.job_id] = _why(walk, part, found.start_us)
    return _note_waits(walk, parts, waits)


def _verdict(walk: Walk, part: het.Part) -> Wait | None:
    """Return why a component cannot start however long it waits, if so."""
    if walk.plan.tested >= walk.budget:
        return reason.PASS_ENDED
    if not part.hopeful:
        return part.demands[0].verdict
    return walk.gate.over_least(part.job, part.hopeful[0])


def _why(walk: Walk, part: het.Part, start_us: int) -> Wait:
    """Return why a component waits that could start later."""
    demand = part.hopeful[0]
    if start_us == NEVER:
        return reason.never(demand)
    if walk.room.lacks_licenses(demand):
        return reason.licenses(demand, walk.room.licenses)
    name = demand.partition.name
    wait = walk.room.behind.get(name)
    if wait is None:
        walk.room.behind[name] = reason.behind(part.job.job_id, name)
        return reason.resources(demand)
    return wait


def _note_waits(walk: Walk, parts: list[het.Part], waits: Mapping[int, Wait | None]) -> Wait:
    """Note why each component waits; return the reason of the leader."""
    first = next(wait for wait in waits.values() if wait is not None)
    for part in parts:
        walk.plan.waits.setdefault(part.job.job_id, waits[part.job.job_id] or first)
    return waits[parts[0].job.job_id] or first
