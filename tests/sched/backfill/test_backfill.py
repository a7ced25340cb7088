"""Backfill scenarios on four nodes that jobs take whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.whole_nodes import RULES, WHOLE_NODES, end_due, job
from tests.world.passes import run_pass


def running(cluster: Cluster) -> set[int]:
    """Return the ids of running jobs."""
    return {job.job_id for job in cluster.jobs.values() if job.state == JobState.RUNNING}


def test_short_job_fills_the_hole_before_a_reservation() -> None:
    """It ends before the blocked job starts; the long one would be in the way and waits."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    first = job(cluster, 3, 60)
    wide = job(cluster, 4, 60)
    long = job(cluster, 1, 61)
    short = job(cluster, 1, 60)
    plan = run_pass(cluster, rules=RULES)
    assert running(cluster) == {first, short}
    assert plan.expected_start_us == {
        wide: START_US + 60 * MINUTE_US,
        long: START_US + 120 * MINUTE_US,
    }
    assert plan.waits[wide].reason == Reason.Resources
    assert plan.waits[long].reason == Reason.Priority
    assert plan.planned_nodes[wide] == (0, 1, 2, 3)
    assert [start.scheduler for start in plan.starts] == ["Main", "Backfill"]


def test_reserve_depth_protects_the_first_waiting_job_only() -> None:
    """With bf_reserve_depth=1 a job may delay any but the first of those before it."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    job(cluster, 3, 60)
    first = job(cluster, 2, 60)
    wide = job(cluster, 4, 60)
    late = job(cluster, 1, 600)
    rules = policy(conf_of(WHOLE_NODES + "SchedulerParameters=bf_reserve_depth=1\n"))
    deep, shallow = Planner()(snapshot(cluster, START_US), policy(conf_of(WHOLE_NODES))), None
    assert late not in {start.job_id for start in deep.starts}
    shallow = run_pass(cluster, rules=rules)
    assert late in running(cluster)
    assert shallow.expected_start_us[first] == START_US + 60 * MINUTE_US
    assert shallow.expected_start_us[wide] == START_US + 120 * MINUTE_US


def test_licences_are_planned_in_time() -> None:
    """A job that must wait for licences is promised them for when they come back."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    first = job(cluster, 1, 30, "matlab:2")
    second = job(cluster, 1, 30, "matlab:1")
    other = job(cluster, 1, 30)
    plan = run_pass(cluster, rules=RULES)
    assert running(cluster) == {first, other}
    assert plan.expected_start_us[second] == START_US + 30 * MINUTE_US
    assert plan.waits[second].reason == Reason.Licenses


def test_array_tasks_start_and_reserve_in_place() -> None:
    """Four tasks start, the others are promised what comes free."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    head = submit(cluster, JobRequest(), ranges=((0, 9, 1),), time_limit_min=10)
    plan = run_pass(cluster, rules=RULES)
    assert len(plan.starts) == 4
    assert plan.expected_start_us[head] == START_US + 10 * MINUTE_US
    assert plan.waits[head].reason == Reason.Resources


@settings(deadline=None)
@given(
    jobs=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 5, 7, 60])), max_size=30),
    steps=st.integers(1, 12),
)
def test_no_job_waits_longer_than_first_promised(jobs: list[tuple[int, int]], steps: int) -> None:
    """If jobs end on time, each pass keeps the promises of the pass before."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    for nodes, minutes in jobs:
        job(cluster, nodes, minutes)
    now_us = START_US
    promised: dict[int, int] = {}
    for _ in range(steps):
        plan = run_pass(cluster, now_us, RULES)
        for job_id, start_us in plan.expected_start_us.items():
            assert start_us <= promised.get(job_id, start_us)
        promised = dict(plan.expected_start_us)
        ends = {
            waiting_job.start_us + waiting_job.time_limit_min * MINUTE_US: None
            for waiting_job in cluster.jobs.values()
            if waiting_job.state == JobState.RUNNING
        }
        if not ends:
            break
        now_us = min(ends)
        end_due(cluster, now_us)


def test_same_snapshot_same_plan() -> None:
    """A pass is a function of its snapshot."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    for nodes in (3, 2, 4, 1, 1, 2):
        job(cluster, nodes, 10 * nodes)
    view, rules = snapshot(cluster, START_US), policy(conf_of(WHOLE_NODES))
    first, second = Planner()(view, rules), Planner()(view, rules)
    assert (first.starts, first.expected_start_us, first.waits) == (
        second.starts,
        second.expected_start_us,
        second.waits,
    )


def test_jobs_alike_without_room_say_the_same() -> None:
    """Behind jobs without a limit there is no room in the window; another sort still has some."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    endless = [submit(cluster, JobRequest(nodes_min=3, nodes_max=3)) for _ in range(1)]
    for job_id in endless:
        cluster.jobs[job_id].time_limit_min = 4294967295
    run_pass(cluster, rules=RULES)
    wide = [job(cluster, 2, 60) for _ in range(3)]
    narrow = job(cluster, 1, 60)
    plan = run_pass(cluster, START_US + MINUTE_US, RULES)
    assert len({plan.waits[job_id] for job_id in wide}) == 1
    assert not set(wide) & set(plan.expected_start_us)
    assert [start.job_id for start in plan.starts] == [narrow]


def test_a_partition_without_the_named_node_is_not_the_reason_where_another_has_it() -> None:
    """n4 is busy and not in gpu, which comes first in the queue; in main the job has its turn."""
    cluster = cluster_of(conf_of())
    submit(cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE))
    run_pass(cluster, rules=RULES)
    request = JobRequest(partition="gpu,main", node_list="n4", nodes_min=1, nodes_max=1)
    job_id = submit(cluster, request)
    plan = Planner()(snapshot(cluster, START_US), policy(conf_of()))
    assert plan.expected_start_us[job_id] == START_US + 60 * MINUTE_US
    assert plan.waits[job_id].reason == Reason.Resources
    assert "of main" in plan.waits[job_id].text


TWO_PARTITIONS = WHOLE_NODES + "PartitionName=first Nodes=n[1-3] PriorityTier=2\n"


@pytest.mark.parametrize("option", ["", "SchedulerParameters=bf_one_resv_per_job\n"])
def test_room_is_kept_in_the_partition_where_a_job_starts_soonest(option: str) -> None:
    """It is looked for in `first` first, but n4 is free long before two of the nodes there."""
    conf = conf_of(TWO_PARTITIONS + option)
    cluster = cluster_of(conf)
    for nodes, minutes in (("n[1-2]", 120), ("n3", 30), ("n4", 40)):
        request = JobRequest(node_list=nodes, nodes_min=1)
        submit(cluster, request, time_limit_min=minutes)
    run_pass(cluster, rules=policy(conf))
    request = JobRequest(partition="first,main", nodes_min=2, nodes_max=2)
    both = submit(cluster, request, time_limit_min=10)
    plan = run_pass(cluster, rules=policy(conf))
    is_one = bool(option)
    assert plan.expected_start_us[both] == START_US + (120 if is_one else 40) * MINUTE_US
    assert (3 in plan.planned_nodes[both]) is not is_one
    # Nobody of lower priority may have that room.
    other = submit(cluster, JobRequest(node_list="n4", nodes_min=1), time_limit_min=10)
    plan = run_pass(cluster, rules=policy(conf))
    is_behind = plan.expected_start_us[other] >= START_US + 50 * MINUTE_US
    assert is_behind is not is_one
