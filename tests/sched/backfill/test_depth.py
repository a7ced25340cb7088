"""The bf_* options that bound how much of the queue a pass looks at, and who is promised room."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.whole_nodes import RULES, WHOLE_NODES
from tests.world.passes import run_pass


def whole(nodes: int) -> JobRequest:
    """Return a request for some nodes."""
    return JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=nodes)


def gap() -> Cluster:
    """Return two nodes busy for an hour and job 2, which waits for all four."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    submit(cluster, whole(2), time_limit_min=60)
    run_pass(cluster, rules=RULES)
    submit(cluster, whole(4), time_limit_min=60, uid=1000)
    return cluster


def plan_of(cluster: Cluster, options: str, now_us: int = START_US) -> Plan:
    """Return a plan under these SchedulerParameters."""
    rules = policy(conf_of(WHOLE_NODES + f'SchedulerParameters="{options}"\n'))
    return Planner()(snapshot(cluster, now_us), rules)


def started(plan: Plan) -> list[int]:
    """Return the jobs that start."""
    return [start.job_id for start in plan.starts]


def test_so_many_jobs_of_a_user() -> None:
    """Alice's second job is not looked at, Bob's first is."""
    cluster = gap()
    for uid in (1001, 1001, 1002):
        submit(cluster, whole(1), time_limit_min=30, uid=uid)
    assert started(plan_of(cluster, "bf_max_job_user=2")) == [3, 4]
    plan = plan_of(cluster, "bf_max_job_user=1")
    assert started(plan) == [3, 5]
    assert plan.waits[4].reason == Reason.Priority
    assert started(plan_of(cluster, "bf_max_job_user_part=1")) == [3, 5]


def test_so_many_jobs_of_a_partition_and_of_an_association() -> None:
    """All jobs are in one partition, and of association 1."""
    cluster = gap()
    for uid in (1001, 1002, 1003):
        submit(cluster, whole(1), time_limit_min=30, uid=uid)
    assert started(plan_of(cluster, "bf_max_job_part=1")) == [3]
    assert started(plan_of(cluster, "bf_max_job_assoc=1")) == [3]


def test_limits_of_backfill_do_not_bind_jobs_that_have_room() -> None:
    """On idle nodes jobs start in the order of the queue."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    for _ in range(4):
        submit(cluster, whole(1))
    plan = plan_of(cluster, "bf_max_job_user=1,bf_max_job_start=1,bf_max_job_part=1")
    assert started(plan) == [1, 2, 3, 4]


def test_so_many_starts_of_a_pass() -> None:
    """Tasks of an array count one by one."""
    cluster = gap()
    submit(cluster, whole(1), time_limit_min=30, ranges=((0, 1, 1),))
    plan = plan_of(cluster, "bf_max_job_start=1")
    assert [(start.job_id, start.task_id) for start in plan.starts] == [(3, 0)]


def test_young_or_unimportant_jobs_are_promised_nothing() -> None:
    """Then a long job may take the nodes that the wide one waits for."""
    cluster = gap()
    submit(cluster, whole(2), time_limit_min=600)
    assert started(plan_of(cluster, "bf_max_job_array_resv=20")) == []
    assert started(plan_of(cluster, "bf_min_age_reserve=600")) == [3]
    later_us = START_US + 11 * MINUTE_US
    assert started(plan_of(cluster, "bf_min_age_reserve=600", later_us)) == []
    assert started(plan_of(cluster, "bf_min_prio_reserve=4294967290")) == [3]


def test_a_count_of_reservations_by_partition() -> None:
    """bf_job_part_count_reserve is Slurm's name of bf_reserve_depth."""
    cluster = gap()
    submit(cluster, whole(4), time_limit_min=60)
    submit(cluster, whole(2), time_limit_min=60)
    submit(cluster, whole(2), time_limit_min=600)
    assert plan_of(cluster, "bf_job_part_count_reserve=1").expected_start_us.keys() == {2, 3, 5}


def test_the_depth_and_the_window_bound_what_is_planned() -> None:
    """Jobs beyond bf_max_job_test are not looked at; starts beyond bf_window are not foreseen."""
    cluster = gap()
    for _ in range(2):
        submit(cluster, whole(4), time_limit_min=600)
    plan = plan_of(cluster, "bf_max_job_test=2")
    assert plan.expected_start_us.keys() == {2, 3}
    assert plan.waits[4].reason == Reason.Priority
    assert plan_of(cluster, "bf_window=1440").expected_start_us.keys() == {2, 3, 4}
    assert plan_of(cluster, "bf_window=180").expected_start_us.keys() == {2, 3}


def test_a_pass_says_which_option_cut_it_short() -> None:
    """As sdiag counts it. A pass to the end of the queue names none."""
    cluster = gap()
    for _ in range(2):
        submit(cluster, whole(1), time_limit_min=30)
    assert plan_of(cluster, "bf_window=1440").cut_by == ""
    assert plan_of(cluster, "bf_max_job_test=2").cut_by == "bf_max_job_test"
    assert plan_of(cluster, "bf_max_job_start=1").cut_by == "bf_max_job_start"


@pytest.mark.parametrize("node_list", ["", "n1"])
def test_the_size_of_the_timeline_is_reported(node_list: str) -> None:
    """As sdiag's table size, whether nodes are counted or planned one by one."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    assert plan_of(cluster, "").slots == 0
    request = JobRequest(nodes_min=4, nodes_max=4, ntasks=4, node_list=node_list)
    for _ in range(2):
        submit(cluster, request, time_limit_min=60)
    plan = plan_of(cluster, "")
    assert len(plan.starts) == 1
    assert plan.slots > 1
