"""bf_smart: short work first, foreseen from each user's own jobs, and nobody waits too long."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import geometric_mean

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.history import History
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import Snapshot, snapshot
from pyslurm_ng.sim.trace_run import Outcome, TraceRun, trace_conf
from pyslurm_ng.sim.workload import TraceJob
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit, submit_het
from tests.sched.demand.het_queues import queues
from tests.sched.whole_nodes import WHOLE_NODES
from tests.world.examples import drawn

MINUTE_US = 60_000_000
SMART = policy(conf_of(WHOLE_NODES + "SchedulerParameters=bf_smart\n"))


def ended(uid: int, limit_min: int, ran_min: int, nodes: int = 1) -> Job:
    """Return a job that has ended."""
    return Job(
        job_id=1,
        request=JobRequest(nodes_min=nodes, ntasks=nodes),
        uid=uid,
        gid=uid,
        user_name="user",
        group_name="users",
        submit_us=START_US,
        account="acct",
        qos="normal",
        assoc_id=1,
        partition="main",
        time_limit_min=limit_min,
        start_us=START_US,
        end_us=START_US + ran_min * MINUTE_US,
    )


def test_a_users_share_is_the_sum_of_time_used_over_the_sum_asked_for() -> None:
    """Two jobs that used a quarter and all of their limits, weighed by the limits."""
    history = History()
    history.ended(ended(7, 400, 100))
    history.ended(ended(7, 100, 100))
    foreseen_min = history.foreseen_us(ended(7, 60, 0)) / MINUTE_US
    assert 0.39 * 60 < foreseen_min < 0.41 * 60


def test_a_user_without_history_is_taken_at_their_word() -> None:
    """And so is everybody before the first job has ended; no limit, no foresight."""
    history = History()
    history.ended(ended(7, 400, 1))
    assert history.foreseen_us(ended(8, 60, 0)) == 60 * MINUTE_US
    assert history.foreseen_us(ended(7, NO_VAL, 0)) == 0


def test_failing_at_once_makes_a_users_jobs_cheap() -> None:
    """Half of the user's jobs end after a minute; another user's like ones do not."""
    history = History()
    for ran_min in (1, 600, 1, 600):
        history.ended(ended(7, 600, ran_min))
        history.ended(ended(8, 600, 600))
    assert history.cost(ended(7, 600, 0)) < history.cost(ended(8, 600, 0)) / 10


def test_cost_is_learned_from_the_users_own_jobs() -> None:
    """Of another user nothing is known but the limit: its square, in seconds."""
    history = History()
    history.ended(ended(7, 600, 1))
    assert history.cost(ended(8, 600, 0)) == 36_000.0**2
    assert history.cost(ended(7, 600, 0)) < 36_000.0**2
    assert history.cost(ended(7, NO_VAL, 0)) == 0


def test_runs_with_the_same_limit_count_more() -> None:
    """The user's short jobs ask for an hour, the long ones for ten."""
    history = History()
    for _ in range(5):
        history.ended(ended(7, 60, 1))
        history.ended(ended(7, 600, 600))
    like, unlike = history.cost(ended(7, 60, 0)), history.cost(ended(7, 61, 0))
    assert like < unlike


def test_runs_of_the_same_size_count_more() -> None:
    """The user's jobs of one node end at once, those of four take all their time."""
    history = History()
    for _ in range(5):
        history.ended(ended(7, 600, 1, nodes=1))
        history.ended(ended(7, 600, 600, nodes=4))
    narrow, wide, other = (history.cost(ended(7, 600, 0, nodes)) for nodes in (1, 4, 2))
    assert narrow < other < wide


def waiting_world(*jobs: tuple[int, int, int, int]) -> Snapshot:
    """Return four idle nodes and jobs: nodes, limit, foreseen, submitted (all minutes, ago)."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    for nodes, limit_min, _, _ in jobs:
        request = JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=nodes)
        submit(cluster, request, time_limit_min=limit_min)
    view = snapshot(cluster, START_US)
    waiting = [
        replace(
            record,
            foreseen_us=foreseen * MINUTE_US,
            submit_us=START_US - ago * MINUTE_US,
            accrue_us=START_US - ago * MINUTE_US,
        )
        for record, (_, _, foreseen, ago) in zip(view.waiting, jobs, strict=True)
    ]
    return replace(view, waiting=waiting)


def after_a_long_wait() -> Planner:
    """Return a planner whose shadow has seen a job wait for ten hours."""
    planner = Planner()
    world = waiting_world((4, 60, 60, 10), (4, 60, 60, 610))
    planner(replace(world, now_us=START_US - 10 * MINUTE_US), SMART)
    return planner


def test_the_cheapest_job_comes_first_while_no_job_is_late() -> None:
    """Both want all nodes. The later one asked for more, but will be short."""
    plan = after_a_long_wait()(waiting_world((4, 60, 60, 10), (4, 120, 2, 5)), SMART)
    assert [start.job_id for start in plan.starts] == [2]


def test_late_jobs_come_in_order_of_due_dates() -> None:
    """The two hour-long ones have waited for seven of ten hours: the short one passes neither."""
    world = waiting_world((4, 60, 60, 420), (4, 60, 60, 410), (4, 60, 1, 300))
    planner = after_a_long_wait()
    assert [start.job_id for start in planner(world, SMART).starts] == [1]
    expected = planner(world, SMART).expected_start_us
    assert expected[2] < expected[3]


def test_a_short_late_job_passes_a_long_one_that_came_little_earlier() -> None:
    """Ten hours after one minute keep the longest wait shorter than the other way round."""
    world = waiting_world((4, 600, 600, 420), (4, 60, 1, 419))
    plan = after_a_long_wait()(world, SMART)
    assert [start.job_id for start in plan.starts] == [2]


def test_a_job_is_late_as_soon_as_those_before_it_will_keep_it_waiting_too_long() -> None:
    """One has waited for forty minutes of ten hours, but needs five and a half hours more."""
    four, late, cheap = [(1, 330, 330, 350)] * 4, (1, 60, 60, 40), (1, 60, 1, 0)
    plan = after_a_long_wait()(waiting_world(*four, late, cheap), SMART)
    assert {start.job_id for start in plan.starts} == {1, 2, 3, 4}
    plan = after_a_long_wait()(waiting_world(*four, cheap), SMART)
    assert 5 in {start.job_id for start in plan.starts}


def test_the_oldest_wide_job_is_promised_room_early() -> None:
    """After three of ten hours the wide one has its promise, a narrow one would not yet."""
    world = waiting_world((3, 60, 60, 180), (1, 600, 600, 1), (1, 10, 1, 1), (1, 10, 1, 1))
    plan = after_a_long_wait()(world, SMART)
    assert 1 in {start.job_id for start in plan.starts}
    world = waiting_world((1, 60, 60, 180), *[(1, 10, 1, 1)] * 4)
    plan = after_a_long_wait()(world, SMART)
    assert 1 not in {start.job_id for start in plan.starts}


def test_a_restart_keeps_the_order_of_due_dates_until_waits_are_known() -> None:
    """Nothing has been seen yet, so no job may wait longer because of another."""
    plan = Planner()(waiting_world((4, 60, 60, 80), (4, 120, 2, 5)), SMART)
    assert [start.job_id for start in plan.starts] == [1]


def test_priority_by_hand_comes_first() -> None:
    """What an operator set comes before any order of ours."""
    world = waiting_world((4, 60, 60, 10), (4, 120, 2, 5))
    first = replace(world.waiting[0], priority=4_294_901_761)
    plan = Planner()(replace(world, waiting=[first, world.waiting[1]]), SMART)
    assert [start.job_id for start in plan.starts] == [1]


def test_an_old_job_is_not_passed_for_ever() -> None:
    """A wide job meets a stream of short ones: it starts within the wait foreseen at its start."""
    chance = random.Random(1)
    jobs = [TraceJob(1, 0, 3600, 4, 3600, 1), TraceJob(2, 1, 7200, 4, 7200, 2)]
    jobs += [
        TraceJob(number, 2 + number * 60, 120, chance.choice((1, 2)), 600, 3)
        for number in range(3, 600)
    ]
    outcome = run(jobs, 4, "bf_smart")
    assert outcome.max_wait_s < 24 * 3600
    assert outcome.jobs == len(jobs)


def run(jobs: list[TraceJob], processors: int, parameters: str) -> Outcome:
    """Simulate a workload."""
    conf = trace_conf(processors, [f"SchedulerParameters={parameters}"])
    return TraceRun(jobs, conf, Planner()).run()


def sessions(seed: int, count: int, processors: int) -> list[TraceJob]:
    """Return users who submit alike jobs in a row and ask for more than they need."""
    chance = random.Random(seed)
    users = [(chance.lognormvariate(7, 1.5), chance.randint(0, 4), chance.uniform(1, 6))
             for _ in range(12)]  # fmt: skip
    jobs: list[TraceJob] = []
    time_s = 0.0
    while len(jobs) < count:
        user = chance.randrange(len(users))
        run_s, width, over = users[user]
        for _ in range(chance.randint(1, 6)):
            ran_s = max(1, int(min(run_s, 20_000) * chance.lognormvariate(0, 0.5)))
            jobs.append(
                TraceJob(len(jobs) + 1, int(time_s), ran_s, min(processors, 2**width),
                         max(60, int(ran_s * over)), user)
            )  # fmt: skip
            time_s += chance.expovariate(1 / 400)
    return jobs


def test_slowdown_falls_and_the_longest_wait_stays() -> None:
    """Against EASY on a few made-up workloads, busy to overloaded.

    In the geometric mean: in a workload so short the longest wait is the luck of one job.
    """
    slower, longer = [], []
    for seed in range(8):
        jobs = sessions(seed, 300, 16)
        easy, smart = run(jobs, 16, "bf_reserve_depth=1"), run(jobs, 16, "bf_smart")
        assert smart.jobs == easy.jobs
        slower.append(smart.mean_bounded_slowdown / easy.mean_bounded_slowdown)
        longer.append(smart.max_wait_s / easy.max_wait_s)
    assert geometric_mean(slower) < 0.75
    assert geometric_mean(longer) < 1.25
    assert max(longer) < 1.5


def test_the_same_workload_gives_the_same_outcome() -> None:
    """Twice: nothing depends on anything but the workload."""
    jobs = sessions(5, 200, 16)
    first, second = run(jobs, 16, "bf_smart"), run(jobs, 16, "bf_smart")
    assert replace(first, seconds=0) == replace(second, seconds=0)


@settings(deadline=None, max_examples=drawn(60))
@given(first=queues, second=queues, arrays=st.integers(0, 2))
def test_every_start_can_be_made_and_every_job_has_a_reason(
    first: list[tuple[list[JobRequest], int]],
    second: list[tuple[list[JobRequest], int]],
    arrays: int,
) -> None:
    """Mixed requests, two partitions, arrays and heterogeneous jobs on shared nodes."""
    conf = conf_of(FOUR_NODES + "Licenses=matlab:3\nSchedulerParameters=bf_smart\n")
    cluster, rules, planner = cluster_of(conf), policy(conf), Planner()
    history = History()
    history.ended(ended(1001, 600, 10))
    for queue in (first, second):
        for parts, limit in queue:
            if len(parts) == 1:
                submit(cluster, parts[0], time_limit_min=limit)
            else:
                submit_het(cluster, *parts, time_limit_min=limit)
        for _ in range(arrays):
            submit(cluster, JobRequest(ntasks=8), ranges=((0, 5, 1),))
        views = Views()
        views.foresee(history)
        pending = set(cluster.job_index.pending)
        plan = planner(snapshot(cluster, START_US, views), rules)
        assert {start.job_id for start in plan.starts} | set(plan.waits) == pending
        for start in plan.starts:
            if start.het_job_id:
                continue  # all of them at once, see test_het
            events = dispatch(cluster, start, START_US)
            assert events, start
            apply_all(cluster, events)
        assert check(cluster) == []
