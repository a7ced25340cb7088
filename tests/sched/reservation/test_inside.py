"""Backfill with reservations: inside first, the others around the reserved times."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import DAY_US, HOUR_US, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Wait
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.reservations import ReservationSite


def room() -> ReservationSite:
    """Return a cluster planned by backfill."""
    return ReservationSite(plan=Planner())


def test_a_waiting_job_is_planned_behind_the_reservation() -> None:
    """A long job waits for its end; a short one fills the time before."""
    here = room()
    here.make(nodes="ALL", starttime=START_US + HOUR_US, duration=60)
    long = here.job(BOB, time_limit_min=90, nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE)
    short = here.job(BOB, time_limit_min=60, ntasks=2)
    plan = here.run_pass()
    assert plan.expected_start_us[long.job_id] == START_US + 2 * HOUR_US
    assert short.state == JobState.RUNNING


def test_reservations_beyond_the_window_count() -> None:
    """A job that would still run then takes other nodes; one that ends before does not."""
    here = room()
    here.make(nodes="n[3-4]", starttime=START_US + 20 * HOUR_US, duration=60)
    here.make("far", nodes="n2", starttime=START_US + 400 * DAY_US, duration=60)
    long = here.job(BOB, time_limit_min=21 * 60, nodes_min=2, nodes_max=2)
    short = here.job(BOB, time_limit_min=20 * 60)
    here.run_pass()
    assert here.places(long) == ["n1", "n2"]
    assert here.places(short) == ["n3"]


def test_jobs_inside_come_first_and_are_held() -> None:
    """Those behind them see what is left; the named start of a later reservation is expected."""
    here = room()
    here.make("now", nodes="n3", flags="FLEX")
    here.make("later", nodes="n2", starttime=START_US + HOUR_US)
    here.advance()
    outside = here.job(BOB, ntasks=16, time_limit_min=60)
    flex = here.job(reservation="now", nodes_min=2, nodes_max=2, flags=REQ_EXCLUSIVE)
    waits = here.job(reservation="later", time_limit_min=30)
    plan = here.run_pass()
    assert (here.places(flex), flex.reservation) == (["n3", "n4"], "now")
    assert here.places(outside) == ["n1"]
    assert plan.expected_start_us[waits.job_id] == START_US + HOUR_US


def test_an_array_drawn_by_a_magnet_goes_on_outside() -> None:
    """What does not fit inside is not kept waiting."""
    here = room()
    here.make(nodes="n4", flags="MAGNETIC")
    here.advance()
    here.job(array="0-19", ntasks=8, time_limit_min=60)
    here.run_pass()
    jobs = [job for job in here.cluster.jobs.values() if job.state == JobState.RUNNING]
    inside = [job for job in jobs if job.reservation == "r"]
    assert (len(inside), len(jobs)) == (2, 8)
    assert all(here.places(job) == ["n4"] for job in inside)


def test_jobs_inside_are_backfilled_too() -> None:
    """Behind a wide job only what ends before it starts; each knows when it is to start."""
    here = room()
    here.make(nodes="n[3-4]", duration=600)
    here.advance()
    first = here.job(reservation="r", time_limit_min=60, flags=REQ_EXCLUSIVE)
    here.run_pass()
    wide = here.job(reservation="r", nodes_min=2, time_limit_min=60, flags=REQ_EXCLUSIVE)
    long = here.job(reservation="r", time_limit_min=90, flags=REQ_EXCLUSIVE)
    short = here.job(reservation="r", time_limit_min=30, flags=REQ_EXCLUSIVE)
    plan = here.run_pass()
    assert short.state == JobState.RUNNING
    assert plan.expected_start_us[wide.job_id] == first.start_us + HOUR_US
    behind_us = plan.expected_start_us[long.job_id] - first.start_us - 2 * HOUR_US
    assert 0 <= behind_us < 5 * MINUTE_US  # slots widen with time
    assert plan.planned_nodes[wide.job_id] == (2, 3)
    assert plan.waits[wide.job_id].reason == Reason.Resources
    assert plan.waits[long.job_id].reason == Reason.Priority


def test_jobs_of_a_reservation_to_come_are_planned_in_it() -> None:
    """One after the other from its begin on.

    A job that would begin after its end is not planned.
    """
    here = room()
    here.make(nodes="n4", starttime=START_US + HOUR_US, duration=120)
    jobs = [
        here.job(reservation="r", time_limit_min=limit, flags=REQ_EXCLUSIVE)
        for limit in (60, 90, 60)
    ]
    plan = here.run_pass()
    begin_us = START_US + HOUR_US
    first, second, third = (plan.expected_start_us.get(job.job_id, 0) for job in jobs)
    assert (first, third) == (begin_us, 0)
    assert 0 <= second - first - HOUR_US < 5 * MINUTE_US  # slots widen with time
    assert {plan.waits[job.job_id].text for job in jobs} == {"reservation r begins in 1 h"}


def test_the_end_of_a_reservation_is_a_reason() -> None:
    """OptionState with numbers: of who has to run longer, and where there is no room before it."""
    here = room()
    here.make(nodes="n[3-4]", duration=120)
    here.advance(HOUR_US)
    late = here.job(reservation="r", time_limit_min=180, time_min_min=90)
    wide = here.job(reservation="r", time_limit_min=30, nodes_min=2, nodes_max=2)
    here.change("r", nodes="n4")
    plan = here.run_pass()
    assert plan.waits[late.job_id] == Wait(
        Reason.Reservation, "reservation r ends in 1 h; the job has to run for 1 h 30 min"
    )
    text = "; reservation r of 1 node has no room for that in the 1 h left of it"
    assert plan.waits[wide.job_id].text.endswith(text)
    assert not plan.expected_start_us


def test_jobs_that_a_magnet_draws_are_kept_room_there_where_the_site_says_so() -> None:
    """bf_allow_magnetic_slot; else they take what is free, and are planned outside only."""
    for option, at_us in (("bf_window=1440", 4 * HOUR_US), ("bf_allow_magnetic_slot", HOUR_US)):
        here = ReservationSite(f"SchedulerParameters={option}\n", plan=Planner())
        here.make(nodes="n4", flags="MAGNETIC", duration=600)
        here.advance()
        inside = here.job(time_limit_min=60, flags=REQ_EXCLUSIVE)
        here.run_pass()
        assert inside.reservation == "r"
        here.job(BOB, nodes_min=3, time_limit_min=240, flags=REQ_EXCLUSIVE)
        here.run_pass()
        waiting = here.job(time_limit_min=60, flags=REQ_EXCLUSIVE)
        plan = here.run_pass()
        assert plan.expected_start_us[waiting.job_id] == inside.start_us + at_us, option


_JOB = st.tuples(
    st.sampled_from(["", "", "", "a", "b", "b,a"]),
    st.integers(1, 20),  # tasks
    st.integers(1, 3),  # nodes
    st.integers(5, 300),  # minutes
    st.sampled_from([ALICE, BOB]),
)
_RESERVATION = st.tuples(
    st.sampled_from(["n1", "n[2-3]", "n4", "n[1-4]"]),
    st.integers(0, 240),  # minutes from now
    st.integers(10, 240),
    st.sampled_from(["", "DAILY", "FLEX", "MAGNETIC", "MAINT", "IGNORE_JOBS,OVERLAP"]),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(_RESERVATION, min_size=2, max_size=2), st.lists(_JOB, max_size=12))
def test_every_planned_start_is_allowed(
    reservations: list[tuple[str, int, int, str]],
    jobs: list[tuple[str, int, int, int, Caller]],
) -> None:
    """What the pass starts dispatch starts, whatever reservations begin and end meanwhile."""
    here = room()
    for name, (nodes, after_min, minutes, flags) in zip("ab", reservations, strict=True):
        start_us = START_US + after_min * MINUTE_US
        here.reserve(
            name, create=True, starttime=start_us, duration=minutes, nodes=nodes, users="alice",
            flags=flags,
        )  # fmt: skip
    for reservation, tasks, nodes, minutes, who in jobs:
        here.submit(
            who, reservation=reservation, ntasks=max(tasks, nodes), nodes_min=nodes,
            nodes_max=4, time_limit_min=minutes,
        )  # fmt: skip
    for _ in range(12):
        here.advance(15 * MINUTE_US)
        here.run_pass()


@pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "builtin"])
def test_only_jobs_of_allowed_partitions_run_inside(plan: PlanFunction) -> None:
    """Of several partitions that a job names only those count there; outside all do."""
    here = ReservationSite("PartitionName=late Nodes=ALL\nPartitionName=early Nodes=ALL", plan=plan)
    here.make(nodes="n[3-4]", allowedpartitions="late")
    here.advance()
    both = here.job(partition="early,late", reservation="r", time_limit_min=60)
    assert here.submit(partition="early", reservation="r") == Errno.ESLURM_RESERVATION_ACCESS
    outside = here.job(partition="early,late", nodes_min=2, flags=REQ_EXCLUSIVE)
    here.run_pass()
    assert (both.partition, both.reservation) == ("late", "r")
    assert (outside.partition, here.places(outside)) == ("early", ["n1", "n2"])


def test_partitions_may_be_denied_and_edited() -> None:
    """Names with a minus are not allowed, all others are; + adds."""
    here = ReservationSite(
        "PartitionName=late Nodes=ALL\nPartitionName=early Nodes=ALL", plan=Planner()
    )
    here.make(nodes="n[3-4]", allowedpartitions="-early,-late", flags="MAGNETIC")
    here.advance()
    kept_out, drawn = here.job(partition="early"), here.job(partition="main")
    here.run_pass()
    assert (kept_out.reservation, drawn.reservation) == ("", "r")
    assert here.change(allowedpartitions="late").allowed_partitions == ("late",)
    assert here.not_made("s", nodes="n1", allowedpartitions="no") == (
        Errno.ESLURM_INVALID_PARTITION_NAME
    )
    by_partition = here.make("t", nodes="n2", users="", allowedpartitions="late")
    assert by_partition.users == ()


@pytest.mark.parametrize("flags", ["", "OVERLAP"])
def test_parts_of_a_node_that_several_reservations_keep_count_once(flags: str) -> None:
    """Inside one of them the other is hidden with all the rest; outside, what both have is one."""
    here = ReservationSite(plan=Planner())
    begin_us = here.now_us + HOUR_US
    here.make("r", nodes="n1", corecnt=8, starttime=begin_us, duration=120, flags="OVERLAP")
    here.make("s", nodes="n1", corecnt=8, starttime=begin_us, duration=120, flags=flags)
    alone = {"nodes_min": 1, "nodes_max": 1, "node_list": "n1", "time_limit_min": 100}
    inside = here.job(reservation="r", ntasks=8, **alone)
    full = here.job(reservation="s", ntasks=8, **alone)
    plan = here.run_pass()
    assert plan.expected_start_us[inside.job_id] == begin_us
    assert plan.expected_start_us[full.job_id] == begin_us
