"""Jobs in a reservation that it outlives, or that outlive it."""

from __future__ import annotations

from random import Random

import pytest

from pyslurm_ng.base.numbers import DAY_US, HOUR_US, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.ctld.rules.timers import limit_moments_us, over_at_us
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.node_messages import JobTerminated
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.reservations import ReservationSite


@pytest.mark.parametrize("limit_min", [121, 1440])
@pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "builtin"])
def test_a_job_that_would_outlive_it_starts_and_is_ended(
    plan: PlanFunction, limit_min: int
) -> None:
    """Whatever else is to be on its nodes then."""
    here = ReservationSite(plan=plan)
    here.make(nodes="n4", duration=120)
    here.make("after", nodes="n4", starttime=START_US + 2 * HOUR_US, flags="MAINT")
    here.advance()
    job = here.job(reservation="r", time_limit_min=limit_min)
    here.run_pass()
    assert (here.places(job), job.reservation) == (["n4"], "r")
    here.advance(2 * HOUR_US)
    assert (job.state, job.reason) == (JobState.TIMEOUT, Reason.TimeLimit)


@pytest.mark.parametrize("over_run", ["0", "5", "UNLIMITED"])
def test_jobs_outside_have_its_nodes_when_it_is_ended(over_run: str) -> None:
    """And not when its limit would end it, unless that is all that does."""
    here = ReservationSite(f"ResvOverRun={over_run}", plan=Planner())
    here.make(nodes="ALL", duration=120)
    here.advance()
    here.job(reservation="r", nodes_min=4, time_limit_min=300, flags=REQ_EXCLUSIVE)
    here.run_pass()
    behind = here.job(BOB, time_limit_min=60)
    views = Views()
    views.heed_over_run(policy(here.conf).over_run_us)
    plan = here.plan(snapshot(here.cluster, here.now_us, views), policy(here.conf))
    expected_min = {"0": 120, "5": 125, "UNLIMITED": 300}[over_run]
    assert plan.expected_start_us[behind.job_id] == here.now_us + expected_min * MINUTE_US


def test_jobs_that_start_together_are_planned_together() -> None:
    """A job outside is planned behind one that starts inside in the same pass."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="ALL", duration=120)
    here.advance()
    here.job(reservation="r", nodes_min=4, time_limit_min=600, flags=REQ_EXCLUSIVE)
    behind = here.job(BOB, time_limit_min=60)
    plan = here.run_pass()
    assert plan.expected_start_us[behind.job_id] == here.now_us + 2 * HOUR_US


def test_a_wide_job_keeps_its_turn_though_it_would_outlive_it() -> None:
    """Only what is over before it starts slips in before it."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n[3-4]", duration=120)
    here.advance()
    here.job(reservation="r", time_limit_min=60, flags=REQ_EXCLUSIVE)
    here.run_pass()
    wide = here.job(reservation="r", nodes_min=2, time_limit_min=600, flags=REQ_EXCLUSIVE)
    long = here.job(reservation="r", time_limit_min=600, flags=REQ_EXCLUSIVE)
    short = here.job(reservation="r", time_limit_min=60, flags=REQ_EXCLUSIVE)
    plan = here.run_pass()
    assert plan.expected_start_us == {wide.job_id: here.now_us + HOUR_US}
    assert (long.state, short.state) == (JobState.PENDING, JobState.RUNNING)


def test_a_repeating_reservation_ends_no_job() -> None:
    """As in Slurm 22.05: its jobs run to their limits, and what would be in their way keeps them.

    A job that finds no room today is planned for tomorrow.
    """
    here = ReservationSite(plan=Planner())
    here.make(nodes="n4", duration=120, flags="DAILY")
    here.advance()
    job = here.job(reservation="r", time_limit_min=300, flags=REQ_EXCLUSIVE)
    here.run_pass()
    behind = here.job(reservation="r", time_limit_min=60, flags=REQ_EXCLUSIVE)
    last = here.job(reservation="r", time_limit_min=300, flags=REQ_EXCLUSIVE)
    plan = here.run_pass()
    assert plan.expected_start_us[behind.job_id] == START_US + DAY_US
    later_us = plan.expected_start_us[last.job_id] - START_US - DAY_US
    assert HOUR_US <= later_us < 2 * HOUR_US  # slots widen with time
    here.advance(2 * HOUR_US)
    assert job.state == JobState.RUNNING
    here.advance(3 * HOUR_US)
    assert job.state == JobState.TIMEOUT


def test_jobs_of_a_repeating_reservation_end_before_maintenance() -> None:
    """Nothing else would end them."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n4", duration=120, flags="DAILY")
    here.make("maint", nodes="n4", starttime=START_US + 3 * HOUR_US, flags="MAINT")
    here.advance()
    long = here.job(reservation="r", time_limit_min=300)
    short = here.job(reservation="r", time_limit_min=180)
    here.run_pass()
    assert (long.state, short.state) == (JobState.PENDING, JobState.RUNNING)


def test_a_magnet_draws_no_job_that_it_would_end() -> None:
    """Such jobs did not ask for it; others in the same reservation did."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n[1-4]", duration=120, flags="MAGNETIC", users="alice")
    here.advance()
    asked = here.job(reservation="r", time_limit_min=300)
    long, short = here.job(time_limit_min=300), here.job(time_limit_min=120)
    plan = here.run_pass()
    assert (asked.reservation, short.reservation) == ("r", "r")
    assert long.state == JobState.PENDING
    assert plan.expected_start_us[long.job_id] == START_US + 2 * HOUR_US


def test_a_limit_that_may_be_cut_ends_with_it() -> None:
    """--time-min: what scripts and users see of the limit is true then."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n4", duration=120)
    here.advance(HOUR_US)
    job = here.job(reservation="r", time_limit_min=300, time_min_min=30)
    here.run_pass()
    assert (job.state, job.time_limit_min) == (JobState.RUNNING, 60)


@pytest.mark.parametrize("over_min", [0, 10])
def test_a_warning_comes_before_its_end(over_min: int) -> None:
    """--signal counts back from when the job is ended, however far away its own limit is."""
    here = ReservationSite(f"ResvOverRun={over_min}", plan=Planner())
    here.make(nodes="n4", duration=120)
    here.advance()
    job = here.job(reservation="r", time_limit_min=600, signal=10, signal_before_s=300)
    here.run_pass()
    end_us = START_US + 2 * HOUR_US + over_min * MINUTE_US
    assert over_at_us(here.cluster, here.conf, job) == end_us
    assert end_us - 5 * MINUTE_US in limit_moments_us(here.cluster, here.conf, job)
    here.advance(end_us - here.now_us - 5 * MINUTE_US - 1)
    assert not job.time_signalled
    here.advance(1)
    assert job.time_signalled


@pytest.mark.parametrize("seed", [11, 13, 25, 40, 41])
def test_starts_are_kept_that_were_planned_beside_jobs_that_outlive_it(seed: int) -> None:
    """Inside and outside, today and tomorrow: no job starts later than the first pass said."""
    random = Random(seed)
    here = ReservationSite("PriorityType=priority/basic", plan=Planner())
    flags = random.choice(("", "", "DAILY", "HOURLY"))
    here.make(
        nodes=random.choice(("n[1-2]", "n[1-4]")),
        duration=random.choice((30, 50)) if flags == "HOURLY" else random.choice((60, 120, 180)),
        flags=flags,
        starttime=here.now_us + random.choice((0, 0, 10)) * MINUTE_US,
    )
    here.advance()
    for _ in range(random.randint(3, 9)):
        name = "r" if random.random() < 0.7 else ""
        minutes, nodes = random.choice((10, 20, 30, 60, 100, 300)), random.randint(1, 2)
        here.job(
            ALICE if name else BOB, reservation=name, time_limit_min=minutes, nodes_min=nodes,
            nodes_max=nodes, ntasks=nodes, flags=REQ_EXCLUSIVE,
        )  # fmt: skip
    promised = dict(here.run_pass().expected_start_us)
    for _ in range(200):
        here.advance(MINUTE_US)
        clean_up(here)
        here.run_pass()
        for job_id, start_us in promised.items():
            job = here.cluster.jobs.get(job_id)
            begun_us = (job.start_us or here.now_us) if job is not None else 0
            assert begun_us <= start_us + MINUTE_US, job_id  # passes are a minute apart


def clean_up(here: ReservationSite) -> None:
    """Let all nodes report that they have cleaned up."""
    for node_id in [*here.cluster.duties]:
        for duty in [*here.cluster.duties.get(node_id, {}).values()]:
            if duty.kind == DutyKind.TERMINATE:
                report = JobTerminated(duty.job_id, duty.attempt, duty.duty_id)
                here.apply(judge(here.cluster, node_id, report, here.conf, here.now_us))


def test_a_job_that_needs_more_than_is_left_is_planned_for_the_next_day() -> None:
    """--time-min: it does not start in the last hour of today, whatever jobs end then."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n4", duration=120, flags="DAILY")
    here.advance()
    here.job(reservation="r", time_limit_min=60, flags=REQ_EXCLUSIVE)
    here.run_pass()
    job = here.job(reservation="r", time_limit_min=300, time_min_min=90, flags=REQ_EXCLUSIVE)
    plan = here.run_pass()
    assert plan.expected_start_us[job.job_id] == START_US + DAY_US
