"""Heterogeneous jobs whose components are in different reservations, or some of them in none.

Such a job is planned last. Each component is planned by itself, as a job of its reservation, on
nodes that no other component has and that no other job is promised. All start now, or none does;
no room is kept for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.demand import het
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.plan import Plan, Start, Wait
from pyslurm_ng.sched.frame.policy import EVERY_JOB, Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.reservation_plans import PlanView, ReservationPlans
from pyslurm_ng.sched.reservation.started import after_starts

NOTE = "its components are in different reservations: all start at once, and no room is kept"


def ids_across(waiting: Iterable[Waiting]) -> frozenset[int]:
    """Return the leaders of the jobs whose components name different reservations."""
    named: dict[int, str] = {}
    across = set()
    for job in waiting:
        if job.het_job_id:
            first = named.setdefault(job.het_job_id, job.request.reservation)
            if first != job.request.reservation:
                across.add(job.het_job_id)
    return frozenset(across)


def add_across(
    plan: Plan,
    snapshot: Snapshot,
    jobs: Sequence[Waiting],
    policy: Policy,
    make: Callable[[], PlanView],
    fairshare: Mapping[int, float] | None = None,
) -> None:
    """Start such jobs, in the order of their priorities, on what all others leave.

    Args:
        plan: of all others; gains starts and reasons.
        snapshot: what of the cluster is left beside the starts in reservations.
        jobs: their components.
        make: returns a planner that no other code uses.
    """
    if not jobs:
        return
    priorities = plan.priorities
    groups = sorted(
        het.groups(jobs),
        key=lambda parts: (-min(priorities.get(job.job_id, 0) for job in parts), parts[0].job_id),
    )
    plain = dataclasses.replace(policy, is_smart=False, preempt_by="")
    started = {start.job_id for start in plan.starts}
    by_id = {job.job_id: job for job in snapshot.waiting if job.job_id in started}
    outside = [start for start in plan.starts if start.job_id in by_id]
    snapshot = after_starts(snapshot, _OUTSIDE, outside, by_id)
    promised = plan.planned_nodes.all_nodes()
    for parts in groups:
        if len(parts) < parts[0].het_size:
            wait = het.incomplete(parts)
            plan.waits |= dict.fromkeys((job.job_id for job in parts), wait)
            continue
        trial = _Trial(snapshot, plain, promised, ReservationPlans(make), make(), fairshare)
        blocked = next((job for job in _in_order(parts) if not trial.start(job)), None)
        plan.tested += len(parts)
        if blocked is None:
            snapshot = trial.seen
            plan.starts += [
                dataclasses.replace(trial.starts[job.job_id], het_job_id=job.het_job_id)
                for job in parts
            ]
            continue
        text = f"component {blocked.job_id} of its job finds no room: {trial.wait.text}"
        other = Wait(trial.wait.reason, text, trial.wait.shown)
        plan.waits |= {job.job_id: trial.wait if job is blocked else other for job in parts}


_OUTSIDE = Reservation("", 0, 0)
_TAKEN = Wait(
    Reason.Resources, "needs nodes that no other component has and no other job is promised"
)


def _in_order(parts: Sequence[Waiting]) -> list[Waiting]:
    """Return components as they look for room: those that name nodes or a reservation first."""
    return sorted(
        parts, key=lambda job: (not job.request.node_list, not job.request.reservation, job.job_id)
    )


def _without(snapshot: Snapshot, node_ids: Iterable[int]) -> Snapshot:
    """Return a snapshot in which some nodes are not in service."""
    usable = bytearray(snapshot.usable)
    for node_id in node_ids:
        usable[node_id] = 0
    return dataclasses.replace(snapshot, usable=usable)


class _Trial:
    """The components of one job, started one after another in a copy of the cluster."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        promised: frozenset[int],
        inside: ReservationPlans,
        outside: PlanView,
        fairshare: Mapping[int, float] | None,
    ) -> None:
        limits = snapshot.limits.fork() if snapshot.limits is not None else None
        self.seen = dataclasses.replace(snapshot, limits=limits)
        self.starts: dict[int, Start] = {}
        self.wait: Wait = _TAKEN
        self._policy = policy
        self._shut = promised  # and the nodes of the components so far
        self._inside = inside
        self._outside = outside
        self._fairshare = fairshare

    def start(self, job: Waiting) -> bool:
        """Start a component; if it finds no room, `wait` says why."""
        alone = dataclasses.replace(job, het_job_id=0, het_size=0)
        reservation, plan = self._plan(self.seen, alone)
        if not plan.starts:
            self.wait = plan.waits[job.job_id]
            return False
        if any(alloc.node_id in self._shut for alloc in plan.starts[0].nodes):
            reservation, plan = self._plan(_without(self.seen, self._shut), alone)
        if not plan.starts:
            self.wait = _TAKEN
            return False
        self.starts[job.job_id] = plan.starts[0]
        self._shut |= {alloc.node_id for alloc in plan.starts[0].nodes}
        cut_us = NO_END_US
        if reservation is not _OUTSIDE:
            cut_us = reserved.cut_us(reservation, self._policy.over_run_us)
        self.seen = after_starts(self.seen, reservation, plan.starts, {job.job_id: alone}, cut_us)
        return True

    def _plan(self, seen: Snapshot, job: Waiting) -> tuple[Reservation, Plan]:
        """Return where a component may be, and the plan of it alone."""
        if not job.request.reservation:
            view = dataclasses.replace(seen, waiting=[job], claims={})
            return _OUTSIDE, self._outside(view, self._policy, EVERY_JOB, self._fairshare)
        names = reserved.reservations_for(seen.reservations, job, job.partitions)
        by_name = {reservation.name: reservation for reservation in seen.reservations}
        plan = Plan(waits={job.job_id: reserved.not_for_it(seen.reservations, job)})
        for name in names:
            if name == reserved.OUTSIDE:
                continue
            reservation = by_name[name]
            plan = self._inside.plan(
                seen, self._policy, reservation, [job], EVERY_JOB, self._fairshare
            )
            if plan.starts:
                return reservation, plan
        return _OUTSIDE, plan
