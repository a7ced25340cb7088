"""Jobs on nodes of a reservation that is not theirs, which leave within its MaxStartDelay.

Such a job says by `--signal=R:` how long it takes to leave; of a heterogeneous one each component
does. It is planned last, gets the nodes of the reservation that are free now and promised to no
other job, and ends by the reservation's end at the latest. Jobs in the reservation preempt it: see
`preempt`. Source: Slurm's manuals of scontrol (MaxStartDelay) and sbatch (--signal).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pyslurm_ng.model.reservation import Reservation, changed_reservation
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import EVERY_JOB, Policy
from pyslurm_ng.sched.frame.reserved import gives_way
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.reservation_plans import PlanView
from pyslurm_ng.sched.reservation.reservation_view import reservation_view
from pyslurm_ng.sched.reservation.started import after_starts, left_of

_OPEN = "room in "  # before a reservation's name: what of it others may have for now


def add_overlapping(
    plan: Plan,
    snapshot: Snapshot,
    policy: Policy,
    make: Callable[[], PlanView],
    fairshare: Mapping[int, float] | None = None,
) -> None:
    """Start jobs on nodes of reservations to whose jobs they give way.

    Args:
        plan: of all jobs outside of reservations; gains starts.
        snapshot: what that plan was made of.
        make: returns a planner that no other code uses.
    """
    if not policy.preempt_by:
        return  # nothing would make them leave
    for reservation in snapshot.reservations:
        if not reservation.max_start_delay_s or not reservation.node_ids:
            continue
        # What has preempted others waits for their room, not for this.
        served = {start.job_id for start in plan.starts} | snapshot.claims.keys()
        served |= {preemption.start.job_id for preemption in plan.preemptions}
        guests = _with_all_components(
            dataclasses.replace(job, is_guest=True)
            for job in snapshot.waiting
            if job.job_id in plan.waits
            and job.job_id not in served
            and gives_way(reservation, job.request)
        )
        if guests:
            _add(plan, snapshot, policy, reservation, guests, make(), fairshare)


def _with_all_components(jobs: Iterable[Waiting]) -> list[Waiting]:
    """Return jobs but for components of heterogeneous ones of which some are missing."""
    together = [*jobs]
    counts = Counter(job.het_job_id for job in together)
    return [job for job in together if not job.het_job_id or counts[job.het_job_id] == job.het_size]


def _add(
    plan: Plan,
    snapshot: Snapshot,
    policy: Policy,
    joined: Reservation,
    guests: list[Waiting],
    planner: PlanView,
    fairshare: Mapping[int, float] | None,
) -> None:
    jobs = {job.job_id: job for job in snapshot.waiting}
    room = _room(plan, snapshot, joined)
    if not room.node_ids:
        return
    bare = changed_reservation(joined, node_ids=(), core_masks=(), gres=())
    others = (
        bare if reservation.name == joined.name else reservation
        for reservation in snapshot.reservations
    )
    seen = after_starts(snapshot, room, plan.starts, jobs)
    seen = dataclasses.replace(seen, reservations=(*others, room))
    depth = min(policy.reserve_depth, EVERY_JOB - 1)
    plain = dataclasses.replace(policy, is_smart=False, reserve_depth=depth, preempt_by="")
    plan_there = planner(reservation_view(seen, room, guests), plain, EVERY_JOB, fairshare)
    plan.starts += plan_there.starts
    plan.tested += plan_there.tested
    for job in guests:
        tasks = [start.task_id for start in plan_there.starts if start.job_id == job.job_id]
        if tasks and left_of(job, tasks) is None:
            del plan.waits[job.job_id]
            plan.expected_start_us.pop(job.job_id, None)


def _room(plan: Plan, snapshot: Snapshot, reservation: Reservation) -> Reservation:
    """Return a reservation from now of those nodes that no other job is promised before its end."""
    promised: set[int] = set()
    for job_id, node_ids in plan.planned_nodes.items():
        if plan.expected_start_us.get(job_id, reservation.end_us) < reservation.end_us:
            promised.update(node_ids)
    kept = [at for at, node_id in enumerate(reservation.node_ids) if node_id not in promised]
    return changed_reservation(
        reservation,
        name=_OPEN + reservation.name,
        start_us=snapshot.now_us,
        later=(),
        flags=(),
        licenses="",
        node_ids=tuple(reservation.node_ids[at] for at in kept),
        core_masks=tuple(reservation.core_masks[at] for at in kept)
        if reservation.core_masks
        else (),
        gres=tuple(reservation.gres[at] for at in kept) if reservation.gres else (),
    )
