"""Passes honour reservations: scenarios with rules, pass and dispatch together."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.reservations import ReservationSite


def test_others_get_reserved_nodes_only_before() -> None:
    """A job that ends before the start may run there; a longer one goes elsewhere."""
    room = ReservationSite()
    room.make(nodes="n[3-4]", starttime=START_US + HOUR_US)
    short, long = room.job(BOB, time_limit_min=60), room.job(BOB, time_limit_min=61)
    room.run_pass()
    assert (room.places(short), room.places(long)) == (["n3"], ["n1"])


def test_later_occurrences_count_too() -> None:
    """A long job does not start between two occurrences."""
    room = ReservationSite()
    room.make(nodes="n[1-4]", starttime=START_US + 6 * HOUR_US, duration=60, flags="DAILY")
    room.advance(8 * HOUR_US)
    night, day = room.job(BOB, time_limit_min=23 * 60), room.job(BOB, time_limit_min=20 * 60)
    plan = room.run_pass()
    assert (night.state, day.state) == (JobState.PENDING, JobState.RUNNING)
    assert plan.waits[night.job_id].reason == Reason.ReqNodeNotAvail


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("MAINT,IGNORE_JOBS", "ReqNodeNotAvail, Reserved for maintenance"),
        ("IGNORE_JOBS", "ReqNodeNotAvail, May be reserved for other job"),
    ],
)
def test_the_reason_names_it(flags: str, text: str) -> None:
    """And no job waits behind a job that only a reservation keeps from running."""
    room = ReservationSite()
    room.make(nodes="ALL", starttime=START_US + HOUR_US, flags=flags)
    long, short = room.job(BOB, time_limit_min=90), room.job(BOB, time_limit_min=30)
    plan = room.run_pass()
    assert plan.waits[long.job_id].shown == text
    assert short.state == JobState.RUNNING


def test_its_jobs_run_inside_and_in_time() -> None:
    """Not before it is active, not after its end, and not on other nodes."""
    room = ReservationSite()
    room.make(nodes="n[2-3]", starttime=START_US + HOUR_US, duration=60)
    fits, too_long, third = (
        room.job(reservation="r", time_limit_min=limit, flags=REQ_EXCLUSIVE)
        for limit in (60, 61, 30)
    )
    plan = room.run_pass()
    assert plan.waits[fits.job_id].reason == Reason.Reservation
    room.advance(HOUR_US)
    room.run_pass()
    assert sorted(room.places(fits) + room.places(too_long)) == ["n2", "n3"]
    assert fits.reservation == too_long.reservation == "r"
    room.advance(HOUR_US)
    assert JobState.TIMEOUT in (fits.state, too_long.state)
    plan = room.run_pass()
    assert third.state == JobState.PENDING


def test_jobs_of_a_full_reservation_stop_no_jobs_outside() -> None:
    """Each reservation has a queue of its own, before all others."""
    room = ReservationSite()
    room.make(nodes="n3")
    room.advance()
    outside = room.job(BOB, time_limit_min=60)
    inside = [room.job(reservation="r", ntasks=16, time_limit_min=60) for _ in range(2)]
    later = room.job(BOB, time_limit_min=60)
    plan = room.run_pass()
    assert room.places(inside[0]) == ["n3"]
    assert plan.waits[inside[1].job_id].reason == Reason.Resources
    assert (room.places(outside), room.places(later)) == (["n4"], ["n4"])


def test_flex_reaches_beyond() -> None:
    """Before the start, after the end, and on other nodes."""
    room = ReservationSite()
    room.make(nodes="n4", starttime=START_US + HOUR_US, duration=60, flags="FLEX")
    job = room.job(reservation="r", nodes_min=2, nodes_max=2, time_limit_min=600)
    room.run_pass()
    assert room.places(job) == ["n3", "n4"]
    room.advance(3 * HOUR_US)
    assert job.state == JobState.RUNNING and not room.cluster.reservations


def test_magnetic_draws_jobs_that_named_none() -> None:
    """Those it is for, if they fit; the others stay outside."""
    room = ReservationSite()
    room.make(nodes="n2", flags="MAGNETIC")
    room.advance()
    drawn, long = room.job(time_limit_min=60), room.job(time_limit_min=600)
    other = room.job(BOB, time_limit_min=60)
    room.run_pass()
    assert (room.places(drawn), drawn.reservation) == (["n2"], "r")
    assert (room.places(long), long.reservation) == (["n3"], "")
    assert room.places(other) == ["n3"]


PASSES = pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "builtin"])


@PASSES
def test_the_first_reservation_with_room_is_taken(plan: PlanFunction) -> None:
    """--reservation=b,a is tried in that order, whatever order they were made in."""
    room = ReservationSite(plan=plan)
    room.make("a", nodes="n1")
    room.make("b", nodes="n2")
    room.advance()
    jobs = [room.job(reservation="b,a", ntasks=16, time_limit_min=60) for _ in range(2)]
    room.run_pass()
    assert [job.reservation for job in jobs] == ["b", "a"]


@PASSES
@pytest.mark.parametrize("first", ["a,b", "b,a"])
def test_jobs_may_name_reservations_in_opposite_orders(plan: PlanFunction, first: str) -> None:
    """Each starts in the one that it names first; a third takes what they leave."""
    room = ReservationSite(plan=plan)
    room.make("a", nodes="n[1,3]")
    room.make("b", nodes="n[2,4]")
    room.advance()
    orders = [first, first[::-1], first[::-1], first[::-1]]
    jobs = [room.job(reservation=names, ntasks=16, time_limit_min=60) for names in orders]
    room.run_pass()
    taken = [job.reservation for job in jobs]
    assert taken == [orders[0][0], orders[1][0], orders[2][0], orders[3][-1]]


@PASSES
def test_the_third_reservation_named_is_tried_last(plan: PlanFunction) -> None:
    """A job that is kept out of two gets its turn in each, one after the other."""
    room = ReservationSite(plan=plan)
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "n3")):
        room.make(name, nodes=node)
    room.advance()
    orders = ["a,b,c", "c,b,a", "c,b,a"]
    jobs = [room.job(reservation=names, ntasks=16, time_limit_min=60) for names in orders]
    room.run_pass()
    assert [job.reservation for job in jobs] == ["a", "c", "b"]


def test_maintenance_keeps_other_reservations_jobs_out() -> None:
    """What overlaps by OVERLAP shares its nodes, maintenance does not."""
    room = ReservationSite()
    room.make("mine", nodes="n[1-2]")
    room.make("shared", nodes="n1", flags="OVERLAP", users="bob")
    room.make("maint", nodes="n2", flags="MAINT", users="root")
    room.advance()
    room.job(reservation="mine", ntasks=8, time_limit_min=60)
    blocked = room.job(reservation="mine", node_list="n2", time_limit_min=60)
    both = room.job(BOB, reservation="shared", ntasks=8, time_limit_min=60)
    room.run_pass()
    assert blocked.state == JobState.PENDING
    assert room.places(both) == ["n1"]


def test_a_start_planned_before_a_reservation_is_not_made() -> None:
    """Dispatch looks again: the reservation was made during the pass."""
    room = ReservationSite()
    room.job(BOB, time_limit_min=60)
    plan = Planner()(snapshot(room.cluster, room.now_us), policy(room.conf))
    room.make(nodes="ALL", starttime=START_US + MINUTE_US)
    assert dispatch(room.cluster, plan.starts[0], room.now_us) == []


def test_an_updated_one_lets_jobs_in() -> None:
    """A job may be moved into a reservation while it waits, and its owner's name decides."""
    room = ReservationSite()
    room.make(nodes="n1", users="bob")
    room.advance()
    assert room.submit(ALICE, reservation="r") != 0
    job = room.job(BOB, reservation="r", time_limit_min=60)
    room.change(users="alice")
    plan = room.run_pass()
    assert plan.waits[job.job_id].reason == Reason.Reservation
    room.change(users_="bob")
    room.run_pass()
    assert room.places(job) == ["n1"]


@pytest.mark.parametrize("flag", ["MAINT", "OVERLAP"])
def test_reserved_nodes_are_only_used_by_name(flag: str) -> None:
    """Slurm 22.05: jobs that name nodes under maintenance get them.

    Jobs that ask for a number get others.
    """
    room = ReservationSite()
    room.make("work", nodes="n[1-3]", flags=flag)
    room.make("named", nodes="n1")
    assert room.names(room.make("counted", nodecnt=1)) == ["n4"]
    assert room.not_made("more", nodecnt=1) == Errno.ESLURM_NODES_BUSY
