"""The plan of the jobs of one reservation: of one occurrence after another.

A job that asked for a reservation may start in it whenever its time limit ends: it is ended with
the reservation, as in Slurm 22.05. What that leaves of the room of an occurrence ends with it, so
each occurrence is planned by itself, for the jobs that found no room in the ones before. A job that
a magnet draws in did not ask to be ended. It starts only if it is over in time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Protocol

from pyslurm_ng.base.numbers import MINUTE_US, NO_VAL
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan, Start
from pyslurm_ng.sched.frame.policy import EVERY_JOB, Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.reservation_view import (
    Term,
    named_nothing,
    reservation_view,
    terms,
    too_late,
    why_inside,
)
from pyslurm_ng.sched.reservation.started import after_starts, beyond, left_of, with_reservations


class PlanView(Protocol):
    """What plans a view: `backfill.Planner`."""

    def __call__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        fairshare: Mapping[int, float] | None = None,
    ) -> Plan:
        """Return the plan of a snapshot whose jobs name no reservation."""


class ReservationPlans:
    """Plans of reservations, by planners that are kept from pass to pass."""

    def __init__(self, make: Callable[[], PlanView]) -> None:
        self._make = make
        self._planners: dict[tuple[str, int], PlanView] = {}  # by name and begin of the term
        self._policies: tuple[Policy, Policy, Policy] | None = None

    def keep(self, names: Container[str]) -> None:
        """Forget all reservations but these."""
        kept = {key: planner for key, planner in self._planners.items() if key[0] in names}
        self._planners = kept

    def plan(
        self,
        snapshot: Snapshot,
        policy: Policy,
        reservation: Reservation,
        jobs: list[Waiting],
        budget: int,
        fairshare: Mapping[int, float] | None,
    ) -> Plan:
        """Return the plan of one reservation: starts, promises, and why its other jobs wait.

        Jobs that it draws but that cannot start in it get their reason in the plan of all others.
        """
        drawn = {job.job_id for job in jobs if not job.request.reservation}
        has_guests = bool(drawn) and not policy.plans_in_magnets
        rest = _with_open_partitions(reservation, jobs)
        if has_guests:
            rest = [
                dataclasses.replace(job, is_guest=True) if job.job_id in drawn else job
                for job in rest
            ]
        inner = self._policy_inside(policy, has_guests=has_guests)
        plan = Plan()
        ahead: list[Term] = []
        if "FLEX" not in reservation.flags and len(drawn) < len(jobs):
            ahead = terms(reservation, snapshot.now_us, policy)
        if not ahead:
            plan = self._plan_view(snapshot, inner, reservation, rest, None, budget, fairshare)
        self._forget(reservation.name, ahead)
        for term in ahead:
            late = {job.job_id: too_late(snapshot, reservation, job, term) for job in rest}
            on_time = [job for job in rest if late[job.job_id] is None]
            part = self._plan_view(snapshot, inner, reservation, on_time, term, budget, fairshare)
            if not policy.time_min_is_soft:
                by_id = {job.job_id: job for job in on_time}
                part.starts = [_cut(start, by_id, term, snapshot.now_us) for start in part.starts]
            for job in on_time:
                planned_us = part.expected_start_us.get(job.job_id, 0)
                if planned_us and too_late(snapshot, reservation, job, term, planned_us):
                    del part.expected_start_us[job.job_id]
            part.waits |= {job_id: wait for job_id, wait in late.items() if wait is not None}
            budget = max(0, budget - part.tested)
            has_placed = bool(part.starts or part.expected_start_us)
            if len(ahead) > 1:
                snapshot = after_starts(
                    snapshot, reservation, part.starts, {job.job_id: job for job in on_time}
                )
                kept = beyond(snapshot, reservation, part, on_time, term.cut_us)
                snapshot = with_reservations(snapshot, kept)
            plan.add(part)
            rest = _unplaced(rest, plan)
            # If one has no room for any job, those after it are not worth the time.
            if not rest or (term.begin_us > snapshot.now_us and not has_placed):
                break
        self._say_why(snapshot, reservation, jobs, plan, has_guests=has_guests)
        plan.priorities.clear()
        return plan

    def _forget(self, name: str, ahead: Sequence[Term]) -> None:
        """Forget the planners of occurrences that are over."""
        begins_us = {term.begin_us for term in ahead} or {0}
        self._planners = {
            key: planner
            for key, planner in self._planners.items()
            if key[0] != name or key[1] in begins_us
        }

    def _policy_inside(self, policy: Policy, *, has_guests: bool) -> Policy:
        """Return the policy of plans of reservations, the same one as long as nothing changes."""
        if self._policies is None or self._policies[0] is not policy:
            # The plan of a view is not for learning from. Where some jobs are kept no room each
            # has to be looked at.
            plain = dataclasses.replace(policy, is_smart=False)
            depth = min(policy.reserve_depth, EVERY_JOB - 1)
            self._policies = policy, plain, dataclasses.replace(plain, reserve_depth=depth)
        return self._policies[1 + has_guests]

    def _plan_view(
        self,
        snapshot: Snapshot,
        policy: Policy,
        reservation: Reservation,
        jobs: list[Waiting],
        term: Term | None,
        budget: int,
        fairshare: Mapping[int, float] | None,
    ) -> Plan:
        key = reservation.name, term.begin_us if term is not None else 0
        planner = self._planners.get(key)
        if planner is None:
            planner = self._planners[key] = self._make()
        seen = [named_nothing(job) for job in jobs]
        return planner(
            reservation_view(snapshot, reservation, seen, term), policy, budget, fairshare
        )

    def _say_why(
        self,
        snapshot: Snapshot,
        reservation: Reservation,
        jobs: list[Waiting],
        plan: Plan,
        *,
        has_guests: bool,
    ) -> None:
        """Say why jobs wait inside; jobs that are drawn get their reason outside."""
        for job in jobs:
            job_id = job.job_id
            if not job.request.reservation:
                plan.waits.pop(job_id, None)
                if has_guests:
                    plan.expected_start_us.pop(job_id, None)
            elif job_id in plan.waits:
                is_planned = job_id in plan.expected_start_us
                wait = plan.waits[job_id]
                plan.waits[job_id] = why_inside(
                    snapshot, reservation, job, wait, is_planned=is_planned
                )


def _with_open_partitions(reservation: Reservation, jobs: list[Waiting]) -> list[Waiting]:
    """Return jobs as if they had asked only for those partitions that a reservation takes."""
    if not reservation.allowed_partitions:
        return jobs
    return [
        dataclasses.replace(job, partitions=reserved.open_partitions(reservation, job.partitions))
        for job in jobs
    ]


def _unplaced(jobs: list[Waiting], plan: Plan) -> list[Waiting]:
    """Return what of jobs a plan has no place for and a later one may have."""
    tasks: dict[int, list[int]] = {}
    for start in plan.starts:
        tasks.setdefault(start.job_id, []).append(start.task_id)
    unplaced_jobs = (
        left_of(job, tasks.get(job.job_id, []))
        for job in jobs
        if not job.is_guest and job.job_id not in plan.expected_start_us
    )
    return [job for job in unplaced_jobs if job is not None]


def _cut(start: Start, jobs: Mapping[int, Waiting], term: Term, now_us: int) -> Start:
    """Return a start that with --time-min ends, by its limit, when its reservation does."""
    job = jobs[start.job_id]
    limit_min = job.time_limit_min if start.time_limit_min == NO_VAL else start.time_limit_min
    left_min = (term.end_us - now_us) // MINUTE_US
    if not 0 < job.request.time_min_min <= left_min < limit_min:
        return start
    return dataclasses.replace(start, time_limit_min=left_min)
