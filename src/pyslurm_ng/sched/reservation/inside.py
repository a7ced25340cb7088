"""First the jobs inside reservations, then all others on what is left.

Each reservation is a small cluster: a separate planner plans its jobs on its nodes and times. All
other jobs are planned around it afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain

from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.het_reservations import ids_across
from pyslurm_ng.sched.reservation.license_order import LicenseOrder, wants_several
from pyslurm_ng.sched.reservation.limit_order import LimitOrder, Rank
from pyslurm_ng.sched.reservation.named_order import NamedOrder
from pyslurm_ng.sched.reservation.reservation_plans import PlanView, ReservationPlans
from pyslurm_ng.sched.reservation.reservation_view import (
    longest_us,
)
from pyslurm_ng.sched.reservation.started import after_starts, beyond, left_of, with_reservations


class Inside:
    """Planners of reservations, kept from pass to pass."""

    def __init__(self, make: Callable[[], PlanView]) -> None:
        self._plans = ReservationPlans(make)

    def plan(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        fairshare: Mapping[int, float] | None = None,
    ) -> tuple[Plan, Snapshot]:
        """Return a plan for jobs inside reservations and the snapshot that remains for the others.

        A job that a magnetic reservation draws but cannot hold is among the others, too. A job
        with components in different reservations is in neither: see `het_reservations`.
        """
        across = ids_across(snapshot.waiting)
        jobs, homeless = _by_place(snapshot, across)
        self._plans.keep(jobs)
        if not jobs and not homeless and not across:
            return Plan(), snapshot
        ranking = Ranking(snapshot, policy, fairshare)
        rank = _ranks(ranking, snapshot)
        named = NamedOrder(snapshot.reservations, chain.from_iterable(jobs.values()), rank)
        while True:
            outcome, seen, waiting_of = self._rounds(
                snapshot, policy, jobs, budget, fairshare, rank, named
            )
            if named.is_settled(waiting_of):
                break
        snapshot = seen
        for job in homeless:
            outcome.waits[job.job_id] = reserved.not_for_it(snapshot.reservations, job)
        apart = [job for job in snapshot.waiting if job.het_job_id in across] if across else []
        _rank(outcome, ranking, snapshot, [*homeless, *apart, *filter(None, waiting_of.values())])
        others = [
            job
            for job in snapshot.waiting
            if not job.request.reservation and job.het_job_id not in across
        ]
        rest = [waiting_of.get(job.job_id, job) for job in others]
        ids = {job.job_id for job in others}
        claims = {key: claim for key, claim in snapshot.claims.items() if key in ids}
        waiting = [job for job in rest if job is not None]
        return outcome, dataclasses.replace(snapshot, waiting=waiting, claims=claims)

    def _rounds(
        self,
        snapshot: Snapshot,
        policy: Policy,
        jobs: Mapping[str, list[Waiting]],
        budget: int,
        fairshare: Mapping[int, float] | None,
        rank: Callable[[Waiting], Rank],
        named: NamedOrder,
    ) -> tuple[Plan, Snapshot, dict[int, Waiting | None]]:
        """Plan all reservations until limits and licences go to the jobs first in the queue.

        Returns:
            As `_round`.
        """
        order, licenses = None, None
        if len(jobs) > 1 and snapshot.limits is not None:
            order = LimitOrder(snapshot.limits, rank)
        if wants_several(jobs.values()):
            licenses = LicenseOrder(snapshot, rank)
        orders = [turns for turns in (order, licenses) if turns is not None]
        while True:
            outcome, seen, waiting_of = self._round(
                snapshot, policy, jobs, budget, fairshare, order, licenses, named
            )
            settled = [order.is_settled() for order in orders]  # each learns from the round
            if all(settled):
                break
            for claim_order in orders:
                claim_order.begin()
        if order is not None:
            seen = dataclasses.replace(seen, limits=order.limits)
        return outcome, seen, waiting_of

    def _round(
        self,
        snapshot: Snapshot,
        policy: Policy,
        jobs: Mapping[str, list[Waiting]],
        budget: int,
        fairshare: Mapping[int, float] | None,
        order: LimitOrder | None,
        licenses: LicenseOrder | None,
        named: NamedOrder,
    ) -> tuple[Plan, Snapshot, dict[int, Waiting | None]]:
        """Plan all reservations once, one after another.

        Returns:
            The plan, a snapshot in which all of it runs, and by job what of it is left: None where
            all of it has started.
        """
        outcome = Plan()
        waiting_of: dict[int, Waiting | None] = {}
        for reservation in named.reservations:
            here = [
                job
                for job_here in jobs.get(reservation.name, ())
                if (job := waiting_of.setdefault(job_here.job_id, job_here)) is not None
                and named.lets_in(job, reservation)
            ]
            if not here:
                continue
            if order is not None:
                snapshot = dataclasses.replace(snapshot, limits=order.inside(here))
            seen = snapshot if licenses is None else licenses.seen_by(reservation, snapshot)
            plan = self._plans.plan(seen, policy, reservation, here, budget, fairshare)
            if licenses is not None:
                licenses.note(reservation, here, plan, snapshot)
            budget = max(0, budget - plan.tested)
            for job in here:
                started = [start.task_id for start in plan.starts if start.job_id == job.job_id]
                waiting_of[job.job_id] = left_of(job, started)
            cut_us = reserved.cut_us(reservation, policy.over_run_us)
            by_id = {job.job_id: job for job in here}
            snapshot = after_starts(snapshot, reservation, plan.starts, by_id, cut_us)
            waiting = [*filter(None, waiting_of.values())]
            kept = _promised_licenses(snapshot, reservation, plan, waiting, cut_us)
            snapshot = with_reservations(snapshot, kept)
            if "FLEX" not in reservation.flags:
                later = beyond(snapshot, reservation, plan, waiting, cut_us)
                snapshot = with_reservations(snapshot, later)
            outcome.add(plan)
        return outcome, snapshot, waiting_of


def _by_place(
    snapshot: Snapshot, across: Container[int]
) -> tuple[dict[str, list[Waiting]], list[Waiting]]:
    """Return the jobs that each reservation may have, and those that no reservation takes."""
    magnets = [
        reservation for reservation in snapshot.reservations if "MAGNETIC" in reservation.flags
    ]
    jobs_by_name: dict[str, list[Waiting]] = {}
    homeless = []
    for job in snapshot.waiting:
        if job.het_job_id in across:
            continue
        if job.request.reservation:
            names = reserved.reservations_for(snapshot.reservations, job, job.partitions)
            if not names:
                homeless.append(job)
        elif magnets and not job.het_job_id:
            names = reserved.reservations_for(magnets, job, job.partitions)
        else:
            continue
        for name in names:
            if name != reserved.OUTSIDE:
                jobs_by_name.setdefault(name, []).append(job)
    return jobs_by_name, homeless


def _promised_licenses(
    snapshot: Snapshot,
    reservation: Reservation,
    plan: Plan,
    waiting: Iterable[Waiting],
    cut_us: int,
) -> Iterator[Reservation]:
    """Yield what keeps licences for jobs that are to start in a reservation from all others.

    Licences that are the reservation's own are kept already.
    """
    own = dict(license_counts(reservation.licenses))
    for job in waiting:
        start_us = plan.expected_start_us.get(job.job_id, 0)
        words = [
            f"{name}:{count}"
            for name, count in license_counts(job.request.licenses)
            if name not in own
        ]
        if words and snapshot.now_us < start_us < NO_END_US:
            end_us = min(start_us + longest_us(snapshot, job), max(cut_us, start_us + 1))
            yield Reservation(reserved.REST, start_us, end_us, licenses=",".join(words))


def _ranks(ranking: Ranking, snapshot: Snapshot) -> Callable[[Waiting], Rank]:
    """Return what says where a job stands in the queue, by the best of its partitions."""
    known: dict[int, Rank] = {}

    def rank(job: Waiting) -> Rank:
        if job.job_id not in known:
            partitions = (snapshot.partitions.get(name) for name in job.partitions)
            known[job.job_id] = min(
                (
                    (
                        -partition.priority_tier,
                        -ranking.priority(job, partition),
                        job.submit_us,
                        job.job_id,
                    )
                    for partition in partitions
                    if partition is not None
                ),
                default=(0, 0, job.submit_us, job.job_id),
            )
        return known[job.job_id]

    return rank


def _rank(plan: Plan, ranking: Ranking, snapshot: Snapshot, jobs: Iterable[Waiting]) -> None:
    """Note the priorities that jobs have in the whole cluster."""
    for job in jobs:
        partition = snapshot.partitions.get(job.partitions[0])
        if partition is not None:
            plan.priorities[job.job_id] = ranking.priority(job, partition)
