"""Licences that jobs of several reservations want: the first in line gets what is free."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from tests.world.callers import BOB
from tests.world.examples import drawn
from tests.world.reservations import ReservationSite


def two_places(licenses: str, more: str = "") -> ReservationSite:
    """Return a cluster with so many licences, half of whose nodes each reservation has."""
    here = ReservationSite(
        f"PriorityType=priority/basic\nLicenses={licenses}\n{more}", plan=Planner()
    )
    here.make("first", nodes="n[1-2]", users="alice,bob", duration=600)
    here.make("second", nodes="n[3-4]", users="alice,bob", duration=600)
    here.advance()
    return here


def running(*jobs: Job) -> list[bool]:
    """Return which jobs run."""
    return [job.state == JobState.RUNNING for job in jobs]


def test_the_first_in_line_gets_the_licence_in_any_reservation() -> None:
    """The reservations' own order does not matter."""
    here = two_places("matlab:1")
    low = here.job(reservation="first", nice=1000, licenses="matlab")
    high = here.job(BOB, reservation="second", licenses="matlab")
    plan = here.run_pass()
    assert running(low, high) == [False, True]
    assert plan.waits[low.job_id].reason is Reason.Licenses


def test_a_job_that_names_several_reservations_is_in_line_once() -> None:
    """It is ahead of others in both of them.

    It is set aside where it has room, and behind jobs ahead of it.
    """
    here = two_places("matlab:1")
    low = [here.job(reservation=name, nice=1000, licenses="matlab") for name in ("first", "second")]
    high = here.job(BOB, reservation="first,second", licenses="matlab")
    here.run_pass()
    assert running(*low, high) == [False, False, True]
    here = two_places("matlab:2")
    here.job(BOB, reservation="first", nodes_min=2, flags=REQ_EXCLUSIVE, time_limit_min=60)
    here.run_pass()
    wide = {"nodes_min": 2, "flags": REQ_EXCLUSIVE, "time_limit_min": 60}
    low = [here.job(reservation="second", nice=1000, licenses="matlab") for _ in range(2)]
    high = here.job(BOB, reservation="first,second", licenses="matlab:2", **wide)
    here.run_pass()
    assert running(*low, high) == [False, False, True]
    assert high.reservation == "second"
    here = two_places("matlab:1")
    low = here.job(reservation="first,second", nice=1000, licenses="matlab")
    high = here.job(BOB, reservation="second", licenses="matlab")
    here.run_pass()
    assert running(low, high) == [False, True]


def test_a_job_without_nodes_leaves_the_licence_to_others() -> None:
    """A job that waits for its reservation's nodes stops no job elsewhere."""
    here = two_places("matlab:2")
    here.job(BOB, reservation="second", nodes_min=2, flags=REQ_EXCLUSIVE, time_limit_min=60)
    here.run_pass()
    low = here.job(reservation="first", nice=1000, licenses="matlab:2", time_limit_min=30)
    high = here.job(
        BOB, reservation="second", nodes_min=2, flags=REQ_EXCLUSIVE, licenses="matlab:2",
        time_limit_min=60,
    )  # fmt: skip
    here.run_pass()
    assert running(low, high) == [True, False]


def test_tasks_of_an_array_come_before_what_stands_behind() -> None:
    """As many as there are licences for; the others of the array wait for one."""
    here = two_places("matlab:5")
    low = [here.job(reservation="first", nice=1000, licenses="matlab") for _ in range(4)]
    here.job(BOB, reservation="second", array="0-3", licenses="matlab")
    here.run_pass()
    jobs = [job for job in here.cluster.jobs.values() if job.state == JobState.RUNNING]
    assert len([job for job in jobs if job.reservation == "second"]) == 4
    assert running(*low) == [True, False, False, False]


def test_tasks_that_find_no_nodes_in_one_reservation_are_in_line_in_the_next() -> None:
    """Two of four start in each, ahead of jobs that ask for one of them only."""
    here = two_places("matlab:4")
    low = [here.job(reservation="second", nice=1000, licenses="matlab") for _ in range(2)]
    here.job(BOB, reservation="first,second", array="0-3", licenses="matlab", flags=REQ_EXCLUSIVE)
    here.run_pass()
    jobs = [job for job in here.cluster.jobs.values() if job.state == JobState.RUNNING]
    assert sorted(job.reservation for job in jobs) == ["first", "first", "second", "second"]
    assert running(*low) == [False, False]


def test_licences_of_a_reservation_stay_its_own() -> None:
    """They are not in line for others, and jobs that have them do not need the free ones."""
    here = ReservationSite("PriorityType=priority/basic\nLicenses=matlab:3", plan=Planner())
    here.make("first", nodes="n[1-2]", licenses="matlab:2", duration=600)
    here.make("second", nodes="n[3-4]", duration=600)
    here.advance()
    low = [here.job(reservation="first", nice=1000, licenses="matlab") for _ in range(2)]
    high = [here.job(reservation="second", licenses="matlab") for _ in range(2)]
    here.run_pass()
    assert running(*low, *high) == [True, True, True, False]


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["first", "second", "first,second", "second,first"]),
            st.integers(0, 5),
            st.integers(1, 4),
        ),
        max_size=8,
    ),
    st.integers(1, 12),
)
def test_all_reservations_together_share_licences_as_one_queue_would(
    jobs: list[tuple[str, int, int]], most: int
) -> None:
    """With room for all, the jobs that run are those that would run from one queue."""
    here = two_places(f"matlab:{most}")
    made = [
        (
            nice,
            count,
            here.job(
                reservation=names, nice=1000 * nice, ntasks=1,
                licenses=f"matlab:{min(count, most)}", time_limit_min=60,
            ),
        )
        for names, nice, count in jobs
    ]  # fmt: skip
    here.run_pass()
    free = most
    for _, count, job in sorted(made, key=lambda row: (row[0], row[2].job_id)):
        fits = min(count, most) <= free
        assert (job.state == JobState.RUNNING) == fits
        free -= min(count, most) * fits


def test_jobs_before_it_leave_one_alternative() -> None:
    """A job that could use either licence does not take the only one that another needs."""
    here = two_places("matlab:1,ansys:1")
    either = here.job(reservation="first", nice=1000, licenses="matlab|ansys")
    high = here.job(BOB, reservation="second", licenses="matlab")
    here.run_pass()
    assert running(either, high) == [True, True]
    assert (either.licenses_alloc, high.licenses_alloc) == ("ansys:1", "matlab")


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["first", "second"]),
            st.integers(0, 5),
            st.lists(
                st.tuples(st.sampled_from(["matlab", "ansys"]), st.integers(1, 3)),
                min_size=1, max_size=2,
            ),
        ),
        max_size=6,
    ),
    st.integers(3, 6),
)  # fmt: skip
def test_alternatives_are_taken_as_one_queue_would(
    jobs: list[tuple[str, int, list[tuple[str, int]]]], most: int
) -> None:
    """With room for everybody, each job takes the first of its ways that those before it left."""
    here = two_places(f"matlab:{most},ansys:{most}")
    made = [
        (
            nice,
            here.job(
                reservation=name, nice=1000 * nice, ntasks=1, time_limit_min=60,
                licenses="|".join(f"{kind}:{count}" for kind, count in ways),
            ),
            ways,
        )
        for name, nice, ways in jobs
    ]  # fmt: skip
    here.run_pass()
    free = {"matlab": most, "ansys": most}
    for _, job, ways in sorted(made, key=lambda row: (row[0], row[1].job_id)):
        way = next(((kind, count) for kind, count in ways if count <= free[kind]), None)
        assert (job.state == JobState.RUNNING) == (way is not None)
        if way is not None:
            free[way[0]] -= way[1]
