"""How a walk deals with a heterogeneous job: all components start, or all keep room, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyslurm_ng._select import NEVER
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.backfill.walk_result import WalkResult
from pyslurm_ng.sched.demand import het, reason
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.preemption.preempt import Preempting
from pyslurm_ng.sched.preemption.preempt_together import VacatedTogether
from pyslurm_ng.sched.timeline.common_start import common_start
from pyslurm_ng.sched.timeline.finding import left_by_others


def consider(walk: WalkResult, parts: list[het.Part]) -> Wait | None:
    """Start all components, or keep room for all at one later moment; return why they wait."""
    waits = {part.job.job_id: _verdict(walk, part) for part in parts}
    if any(waits.values()):
        return _note_waits(walk, parts, waits)
    walk.plan.tested += len(parts)
    late = _late(parts, walk.snapshot.now_us, walk.snapshot.now_us)
    if late is not None:
        return _note_waits(walk, parts, dict.fromkeys(waits, late))
    wait = _claimed(walk, parts)
    if wait is not None or all(part.job.job_id in walk.snapshot.claims for part in parts):
        return wait
    now_us, room, gate = walk.snapshot.now_us, walk.room, walk.gate
    reserves = room.has_depth({demand.partition.name for part in parts for demand in part.hopeful})
    over: list[Wait] = []

    def accepts(placed: list[het.Placed]) -> bool:
        over[:] = [wait for wait in [gate.over_together(placed)] if wait is not None]
        return not over

    judge = None if gate.is_open else accepts
    if walk.preempting is None:
        finding = common_start(walk.planner, parts, now_us, reserves=reserves, accepts=judge)
    else:
        # A job that cannot start at once may preempt others, before it is promised room.
        finding = common_start(walk.planner, parts, now_us, reserves=False, accepts=judge)
        if finding.is_accepted and finding.start_us != now_us:
            leaving = _preempt(walk, walk.preempting, parts)
            if leaving is not None:
                return _note_waits(walk, parts, dict.fromkeys(waits, leaving))
            vacated = room.vacated_together(in_order(parts), finding.start_us)
            if vacated is not None:
                return _promise_vacated(walk, parts, vacated, reserves=reserves)
            finding = common_start(walk.planner, parts, now_us, reserves=reserves, accepts=judge)
    if not finding.is_accepted:
        return _note_waits(walk, parts, dict.fromkeys(waits, over[0]))
    late = None if finding.start_us == NEVER else _late(parts, finding.start_us, now_us)
    if late is not None:
        return _note_waits(walk, parts, dict.fromkeys(waits, late))
    for placed_part in finding.placed:
        job_id = placed_part.part.job.job_id
        if placed_part.nodes is not None:
            walk.start_on(placed_part.part.job, placed_part.demand, -1, placed_part.nodes)
            continue
        if reserves:
            room.promise(job_id, placed_part.demand, finding.start_us)
        walk.plan.expected_start_us[job_id] = finding.start_us
    if finding.start_us == now_us:
        return None
    if finding.start_us == NEVER and walk.strict is not None:
        wait = walk.strict.wait_together(parts)
        return _note_waits(walk, parts, dict.fromkeys(waits, wait))
    if finding.start_us == NEVER:
        return _note_waits(walk, parts, room.never_together(parts))
    for part in parts:
        waits[part.job.job_id] = _why(walk, part)
    return _note_waits(walk, parts, waits)


def in_order(parts: Sequence[het.Part]) -> list[tuple[Waiting, Demand]]:
    """Return components as they look for others to leave.

    The component that can choose among the fewest nodes comes first, as without preemption. Among
    equals the one that wants most comes first, since small ones find room in the rest.
    """

    def rank(part: het.Part) -> tuple[int, int, int]:
        demand = part.hopeful[0]
        cpus = demand.need.tasks * demand.need.cpus_per_task
        return het.choice(part), -cpus, part.job.job_id

    order = sorted(parts, key=rank)
    return [(part.job, part.hopeful[0]) for part in order]


def _promise_vacated(
    walk: WalkResult, parts: list[het.Part], vacated: VacatedTogether, *, reserves: bool
) -> Wait:
    """Keep what others are to leave for all components; return why they wait."""
    start_us, now_us = vacated.start_us, walk.snapshot.now_us
    waits: dict[int, Wait | None] = {}
    late = _late(parts, start_us, now_us)
    for part in parts:
        job_id, demand = part.job.job_id, part.hopeful[0]
        waits[job_id] = late or _why(walk, part)
        if late is None:
            walk.plan.expected_start_us[job_id] = start_us
        if reserves and late is None:
            walk.planner.take(left_by_others(demand, start_us, vacated.nodes[job_id]))
            walk.room.promise(job_id, demand, start_us)
    return _note_waits(walk, parts, waits)


def _late(parts: list[het.Part], start_us: int, now_us: int) -> Wait | None:
    """Return that a component could not be over by its deadline if all started then."""
    for part in parts:
        request, duration_us = part.job.request, part.hopeful[0].duration_us
        if request.deadline_us and start_us + duration_us > request.deadline_us:
            return reason.deadline(request.deadline_us, now_us)
    return None


def _claimed(walk: WalkResult, parts: list[het.Part]) -> Wait | None:
    """Start components on what they have preempted others for, once all of it is free.

    Returns whom they wait for. Claims that no longer hold together are given up.
    """
    claims = walk.snapshot.claims
    own = [claims[part.job.job_id] for part in parts if part.job.job_id in claims]
    if not own:
        return None
    held_ids = [alloc.node_id for claim in own for alloc in claim.nodes]
    # In journals of older releases two components may have preempted for one node.
    is_whole = len(own) == len(parts) and len(set(held_ids)) == len(held_ids)
    if is_whole:
        pairs = zip(parts, own, strict=True)
        placed = [het.Placed(part, part.hopeful[0], claim.nodes) for part, claim in pairs]
        over = walk.gate.over_together(placed)
        if over is not None:
            walk.give_up(own)
            return _note_waits(
                walk, parts, dict.fromkeys((part.job.job_id for part in parts), over)
            )
    if is_whole and all(claim.is_free for claim in own):
        for part, claim in zip(parts, own, strict=True):
            walk.start_claimed(part.job, part.hopeful[0], claim)
        return None
    leaving = dict.fromkeys(job_id for claim in own for job_id in claim.leaving)
    if not is_whole or not leaving:
        walk.give_up(own)
    else:
        for part, claim in zip(parts, own, strict=True):
            walk.gate.took(part.job, part.hopeful[0], claim.nodes)
    wait = reason.preempting(tuple(leaving))
    for part in parts:
        walk.plan.expected_start_us.setdefault(part.job.job_id, walk.snapshot.now_us)
    return _note_waits(walk, parts, dict.fromkeys((part.job.job_id for part in parts), wait))


def _preempt(walk: WalkResult, preempting: Preempting, parts: list[het.Part]) -> Wait | None:
    """Make others leave, if that lets all components start; return that they wait for them."""
    components = in_order(parts)

    def accepts(nodes: Mapping[int, tuple[NodeAlloc, ...]]) -> bool:
        placed = [het.Placed(part, part.hopeful[0], nodes[part.job.job_id]) for part in parts]
        return walk.gate.is_open or walk.gate.over_together(placed) is None

    preemption = preempting.together.find(
        components, walk.room.licenses, walk.room.promised_nodes, accepts
    )
    if preemption is None:
        return None
    starts = {start.job_id: start for start in (preemption.start, *preemption.together)}
    for job, demand in components:
        walk.give(demand, job, starts[job.job_id].nodes)
        walk.plan.expected_start_us.setdefault(job.job_id, walk.snapshot.now_us)
    return reason.preempting([job_id for job_id, _ in preemption.victims])


def _verdict(walk: WalkResult, part: het.Part) -> Wait | None:
    """Return why a component cannot start however long it waits, if so."""
    if walk.plan.tested >= walk.budget:
        return reason.PASS_ENDED
    if not part.hopeful:
        return part.demands[0].verdict
    return walk.gate.over_least(part.job, part.hopeful[0])


def _why(walk: WalkResult, part: het.Part) -> Wait:
    """Return why a component waits that could start later.

    Slurm looks at these in backfill only, which calls it room even behind other jobs.
    """
    demand = part.hopeful[0]
    if walk.room.lacks_licenses(demand):
        return reason.licenses(demand, walk.room.licenses)
    name = demand.partition.name
    before = walk.room.behind.get(name)
    if before is None:
        walk.room.behind[name] = reason.behind(part.job.job_id, name)
        return reason.resources(demand)
    room = reason.resources(demand)
    return Wait(room.reason, f"{room.text}; {before.text}")


def _note_waits(walk: WalkResult, parts: list[het.Part], waits: Mapping[int, Wait | None]) -> Wait:
    """Note why each component waits; return the reason of the leader."""
    first = next(wait for wait in waits.values() if wait is not None)
    for part in parts:
        walk.plan.waits.setdefault(part.job.job_id, waits[part.job.job_id] or first)
    return waits[parts[0].job.job_id] or first
