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
from pyslurm_ng.sched.reservation.place_view import (
    Term,
    named_nothing,
    place_view,
    terms,
    too_late,
    why_inside,
)
from pyslurm_ng.sched.reservation.started import beyond, held, left_of, with_reservations


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


class PlacePlans:
    """Plans of reservations, by planners that are kept from pass to pass."""

    def __init__(self, make: Callable[[], PlanView]) -> None:
        self._make = make
        self._planners: dict[tuple[str, int], PlanView] = {}  # by name and begin of the term
        self._policies: tuple[Policy, Policy, Policy] | None = None

    def keep(self, names: Container[str]) -> None:
        """Forget all reservations but these."""
        kept = {key: one for key, one in self._planners.items() if key[0] in names}
        self._planners = kept

    def plan(
        self,
        snapshot: Snapshot,
        policy: Policy,
        place: Reservation,
        jobs: list[Waiting],
        budget: int,
        fairshare: Mapping[int, float] | None,
    ) -> Plan:
        """Return the plan of one reservation; of jobs that it draws only what is worth a word."""
        drawn = {job.job_id for job in jobs if not job.request.reservation}
        has_guests = bool(drawn) and not policy.plans_in_magnets
        rest = _with_open_partitions(place, jobs)
        if has_guests:
            rest = [
                dataclasses.replace(job, is_guest=True) if job.job_id in drawn else job
                for job in rest
            ]
        inner = self._policy_inside(policy, has_guests=has_guests)
        found = Plan()
        ahead: list[Term] = []
        if "FLEX" not in place.flags and len(drawn) < len(jobs):
            ahead = terms(place, snapshot.now_us, policy)
        if not ahead:
            found = self._plan_view(snapshot, inner, place, rest, None, budget, fairshare)
        self._forget(place.name, ahead)
        for term in ahead:
            late = {job.job_id: too_late(snapshot, place, job, term) for job in rest}
            here = [job for job in rest if late[job.job_id] is None]
            one = self._plan_view(snapshot, inner, place, here, term, budget, fairshare)
            if not policy.time_min_is_soft:
                by_id = {job.job_id: job for job in here}
                one.starts = [_cut(start, by_id, term, snapshot.now_us) for start in one.starts]
            for job in here:
                planned_us = one.expected_start_us.get(job.job_id, 0)
                if planned_us and too_late(snapshot, place, job, term, planned_us):
                    del one.expected_start_us[job.job_id]
            one.waits |= {job_id: wait for job_id, wait in late.items() if wait is not None}
            budget = max(0, budget - one.tested)
            has_placed = bool(one.starts or one.expected_start_us)
            if len(ahead) > 1:
                snapshot = held(snapshot, place, one.starts, {job.job_id: job for job in here})
                kept = beyond(snapshot, place, one, here, term.cut_us)
                snapshot = with_reservations(snapshot, kept)
            found.add(one)
            rest = _unplaced(rest, found)
            # If one has no room for any job, those after it are not worth the time.
            if not rest or (term.begin_us > snapshot.now_us and not has_placed):
                break
        self._say_why(snapshot, place, jobs, found, has_guests=has_guests)
        found.priorities.clear()
        return found

    def _forget(self, name: str, ahead: Sequence[Term]) -> None:
        """Forget the planners of occurrences that are over."""
        begins_us = {term.begin_us for term in ahead} or {0}
        self._planners = {
            key: one for key, one in self._planners.items() if key[0] != name or key[1] in begins_us
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
        place: Reservation,
        jobs: list[Waiting],
        term: Term | None,
        budget: int,
        fairshare: Mapping[int, float] | None,
    ) -> Plan:
        key = place.name, term.begin_us if term is not None else 0
        planner = self._planners.get(key)
        if planner is None:
            planner = self._planners[key] = self._make()
        seen = [named_nothing(job) for job in jobs]
        return planner(place_view(snapshot, place, seen, term), policy, budget, fairshare)

    def _say_why(
        self,
        snapshot: Snapshot,
        place: Reservation,
        jobs: list[Waiting],
        found: Plan,
        *,
        has_guests: bool,
    ) -> None:
        """Say why jobs wait inside; jobs that are drawn get their reason outside."""
        for job in jobs:
            job_id = job.job_id
            if not job.request.reservation:
                found.waits.pop(job_id, None)
                if has_guests:
                    found.expected_start_us.pop(job_id, None)
            elif job_id in found.waits:
                is_planned = job_id in found.expected_start_us
                wait = found.waits[job_id]
                found.waits[job_id] = why_inside(snapshot, place, job, wait, is_planned=is_planned)


def _with_open_partitions(place: Reservation, jobs: list[Waiting]) -> list[Waiting]:
    """Return jobs as if they had asked only for those partitions that a reservation takes."""
    if not place.allowed_partitions:
        return jobs
    return [
        dataclasses.replace(job, partitions=reserved.open_partitions(place, job.partitions))
        for job in jobs
    ]


def _unplaced(jobs: list[Waiting], found: Plan) -> list[Waiting]:
    """Return what of jobs a plan has no place for and a later one may have."""
    tasks: dict[int, list[int]] = {}
    for start in found.starts:
        tasks.setdefault(start.job_id, []).append(start.task_id)
    left = (
        left_of(job, tasks.get(job.job_id, []))
        for job in jobs
        if not job.is_guest and job.job_id not in found.expected_start_us
    )
    return [job for job in left if job is not None]


def _cut(start: Start, jobs: Mapping[int, Waiting], term: Term, now_us: int) -> Start:
    """Return a start that with --time-min ends, by its limit, when its reservation does."""
    job = jobs[start.job_id]
    limit_min = job.time_limit_min if start.time_limit_min == NO_VAL else start.time_limit_min
    left_min = (term.end_us - now_us) // MINUTE_US
    if not 0 < job.request.time_min_min <= left_min < limit_min:
        return start
    return dataclasses.replace(start, time_limit_min=left_min)
