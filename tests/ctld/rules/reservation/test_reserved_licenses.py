"""Licences of reservations: kept for their jobs while they are in force, and before."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from tests.world.callers import BOB
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.reservations import ReservationSite

LICENSES = "Licenses=matlab:5,ansys:2"
PLANS = [Planner(), in_strict_order]


def room() -> ReservationSite:
    """Return a room whose passes backfill."""
    return ReservationSite(LICENSES, plan=Planner())


def test_others_get_only_what_is_not_kept() -> None:
    """Four of five are reserved for alice. bob can have the fifth."""
    scene = room()
    scene.make(nodes="n1", licenses="matlab:4")
    first, two = scene.job(BOB, licenses="matlab:1"), scene.job(BOB, licenses="matlab:1")
    inside = scene.job(reservation="r", licenses="matlab:4", time_limit_min=60)
    plan = scene.run_pass()
    assert (first.state, two.state) == (JobState.RUNNING, JobState.PENDING)
    assert plan.waits[two.job_id].reason is Reason.Licenses
    assert inside.state == JobState.RUNNING
    assert scene.cluster.job_counts.licenses_used["matlab"] == 5


def test_what_a_job_inside_gives_back_stays_the_reservations() -> None:
    """Bob waits for the end of the reservation, not for that of alice's job."""
    scene = room()
    scene.make(nodes="n1", licenses="matlab:5")
    scene.job(reservation="r", licenses="matlab:5", time_limit_min=10)
    scene.run_pass()
    job = scene.job(BOB, licenses="matlab:1")
    for _ in range(2):
        plan = scene.run_pass()
        assert job.state == JobState.PENDING
        assert plan.expected_start_us[job.job_id] == scene.cluster.reservations["r"].end_us
        scene.advance(5 * MINUTE_US)


def test_a_job_that_would_reach_into_the_reservation_waits() -> None:
    """A short one starts before; a long one only afterwards."""
    scene = room()
    scene.make(nodes="n1", licenses="matlab:5", starttime=scene.now_us + HOUR_US)
    short = scene.job(BOB, licenses="matlab:1", time_limit_min=30)
    long = scene.job(BOB, licenses="matlab:1", time_limit_min=90)
    plan = scene.run_pass()
    assert (short.state, long.state) == (JobState.RUNNING, JobState.PENDING)
    assert plan.expected_start_us[long.job_id] == scene.cluster.reservations["r"].end_us


def test_licences_without_nodes() -> None:
    """Its jobs run on any nodes."""
    scene = room()
    made = scene.make(licenses="matlab:5", flags="LICENSE_ONLY", nodecnt=0)
    assert (made.node_ids, made.licenses) == ((), "matlab:5")
    outside = scene.job(BOB, licenses="matlab:1")
    inside = scene.job(reservation="r", licenses="matlab:2", time_limit_min=60)
    scene.run_pass()
    assert (inside.state, outside.state) == (JobState.RUNNING, JobState.PENDING)


def test_what_cannot_be_kept_is_refused() -> None:
    """Unknown ones, more than there are, and more together with others at the same time."""
    scene = room()
    for text in ("mathematica:1", "matlab:6", "matlab:-1", "matlab:x"):
        assert scene.not_made(nodes="n1", licenses=text) == Errno.ESLURM_INVALID_LICENSES
    assert scene.not_made(licenses="matlab:1") == Errno.ESLURM_INVALID_NODE_COUNT
    assert scene.make("none", nodes="n3", licenses="matlab:0").licenses == "matlab:0"
    scene.make(nodes="n1", licenses="matlab:3")
    assert scene.not_made("s", nodes="n2", licenses="matlab:3") == Errno.ESLURM_INVALID_LICENSES
    scene.make("s", nodes="n2", licenses="matlab:2")
    assert scene.not_changed("s", licenses="matlab:3") == Errno.ESLURM_INVALID_LICENSES
    later = scene.now_us + 3 * HOUR_US
    scene.make("t", nodes="n2", licenses="matlab:5", starttime=later)


@pytest.mark.parametrize("plan", PLANS, ids=["backfill", "builtin"])
def test_one_of_several_licences(plan: PlanFunction) -> None:
    """The first that is free in the order given; it alone is taken, and given back."""
    scene = ReservationSite(LICENSES, plan=plan)
    jobs = [scene.job(BOB, licenses="matlab:3|ansys:2") for _ in range(3)]
    plan_made = scene.run_pass()
    assert [job.licenses_alloc for job in jobs[:2]] == ["matlab:3", "ansys:2"]
    assert jobs[2].state == JobState.PENDING
    assert plan_made.waits[jobs[2].job_id].reason is Reason.Licenses
    assert scene.cluster.job_counts.licenses_used == {"matlab": 3, "ansys": 2}
    assert jobs[0].request.licenses == "matlab:3|ansys:2"


def test_alternatives_that_cannot_be() -> None:
    """Each must exist, and , and | do not mix."""
    scene = room()
    for text in ("matlab|nastran", "matlab:6|ansys", "matlab,ansys|matlab:2"):
        assert scene.submit(BOB, licenses=text) == Errno.ESLURM_INVALID_LICENSES
