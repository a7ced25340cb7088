"""Limits that jobs of several reservations share: the first in line gets what is left."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.limits.quotas import Quotas
from tests.world.callers import BOB
from tests.world.examples import drawn
from tests.world.reservations import ReservationSite


def limited(**limits: object) -> ReservationSite:
    """Return a cluster where all jobs are of one QOS with these limits."""

    def plan(view: Snapshot, rules: Policy) -> Plan:
        waiting = [replace(job, qos="normal", assoc_id=1) for job in view.waiting]
        quality = Qos(1, "normal", limits=Limits(**limits))  # type: ignore[arg-type]
        quotas = Quotas({1: Association(1, "physics")}, {"normal": quality})
        return Planner()(replace(view, waiting=waiting, limits=quotas), rules)

    return ReservationSite("PriorityType=priority/basic", plan=plan)


def two_places(here: ReservationSite) -> None:
    """Reserve half of the nodes to each of two reservations."""
    here.make("first", nodes="n[1-2]", users="alice,bob", duration=600)
    here.make("second", nodes="n[3-4]", users="alice,bob", duration=600)
    here.advance()


def running(*jobs: Job) -> list[bool]:
    """Return which jobs run."""
    return [job.state == JobState.RUNNING for job in jobs]


def test_the_first_in_line_gets_the_limit_in_any_reservation() -> None:
    """The reservations' own order does not matter."""
    here = limited(grp_jobs=1)
    two_places(here)
    low = here.job(reservation="first", nice=1000)
    high = here.job(BOB, reservation="second")
    plan = here.run_pass()
    assert running(low, high) == [False, True]
    assert plan.waits[low.job_id].reason is Reason.QOSGrpJobsLimit


def test_a_job_without_nodes_leaves_the_limit_to_others() -> None:
    """A job that waits for its reservation's nodes stops no job elsewhere."""
    here = limited(grp_jobs=2)
    two_places(here)
    here.job(BOB, reservation="second", nodes_min=2, flags=REQ_EXCLUSIVE, time_limit_min=60)
    here.run_pass()
    low = here.job(reservation="first", nice=1000)
    high = here.job(BOB, reservation="second", nodes_min=2, flags=REQ_EXCLUSIVE, time_limit_min=60)
    plan = here.run_pass()
    assert running(low, high) == [True, False]
    assert plan.waits[high.job_id].reason is not Reason.Priority


def test_tasks_of_an_array_come_before_what_stands_behind() -> None:
    """As many as the limit lets start; the others of the array wait for it."""
    here = limited(grp_jobs=5)
    two_places(here)
    low = [here.job(reservation="first", nice=1000) for _ in range(4)]
    here.job(BOB, reservation="second", array="0-3")
    here.run_pass()
    jobs = [job for job in here.cluster.jobs.values() if job.state == JobState.RUNNING]
    assert len([job for job in jobs if job.reservation == "second"]) == 4
    assert running(*low) == [True, False, False, False]


def test_jobs_outside_get_what_those_inside_have_left() -> None:
    """Jobs that ask for a reservation go first, as in Slurm."""
    here = limited(grp_jobs=2)
    two_places(here)
    outside = here.job(BOB)
    inside = [here.job(reservation="first", nice=1000), here.job(reservation="second", nice=1000)]
    plan = here.run_pass()
    assert running(outside, *inside) == [False, True, True]
    assert plan.waits[outside.job_id].reason is Reason.QOSGrpJobsLimit


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 4)), max_size=8),
    st.integers(1, 12),
)
def test_all_reservations_together_share_a_limit_as_one_queue_would(
    jobs: list[tuple[bool, int, int]], limit: int
) -> None:
    """With room for all, the jobs that run are those that would run from one queue."""
    here = limited(grp_tres={"cpu": limit})
    two_places(here)
    made = [
        (nice, here.job(reservation="second" if later else "first", nice=1000 * nice, ntasks=cpus))
        for later, nice, cpus in jobs
    ]
    here.run_pass()
    free = limit
    for _, job in sorted(made, key=lambda row: (row[0], row[1].job_id)):
        fits = job.request.ntasks <= free
        assert (job.state == JobState.RUNNING) == fits
        free -= job.request.ntasks * fits


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 32)), max_size=8),
    st.integers(1, 64),
)
@example(
    [(False, 0, 1), (False, 1, 1), (True, 0, 18), (True, 0, 15), (True, 0, 15)], 34
)  # one after another has no nodes
def test_limits_hold_and_no_job_waits_for_a_limit_that_has_room(
    jobs: list[tuple[bool, int, int]], limit: int
) -> None:
    """Also where reservations are full.

    A job that waits for the limit does not fit into the rest.
    """
    here = limited(grp_tres={"cpu": limit})
    two_places(here)
    made = [
        here.job(reservation="second" if later else "first", nice=1000 * nice, ntasks=cpus)
        for later, nice, cpus in jobs
    ]
    plan = here.run_pass()
    free = limit - sum(alloc.cpus for job in made for alloc in job.nodes)
    assert free >= 0
    for job in made:
        wait = plan.waits.get(job.job_id)
        if wait is not None and wait.reason is Reason.QOSGrpCpuLimit:
            assert job.request.ntasks > free
