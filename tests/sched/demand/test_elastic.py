"""--time-min and --deadline: a limit may be cut to start now, never below what the job accepts."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.whole_nodes import WHOLE_NODES
from tests.world.passes import run_pass

# The same jobs planned by counts (whole nodes) and node by node.
SHARED_NODES = WHOLE_NODES.replace("OverSubscribe=EXCLUSIVE", "OverSubscribe=NO")
KINDS = pytest.mark.parametrize("conf", [WHOLE_NODES, SHARED_NODES], ids=["counts", "nodes"])


def whole(nodes: int, **fields: object) -> JobRequest:
    """Return a request for all CPUs of some nodes."""
    request = {"nodes_min": nodes, "nodes_max": nodes, "ntasks": 2 * nodes, **fields}
    return JobRequest(**request)  # type: ignore[arg-type]


def gap(conf: str) -> Cluster:
    """Return three nodes busy for an hour and a job before which one node is free for it."""
    cluster = cluster_of(conf_of(conf))
    submit(cluster, whole(3), time_limit_min=60)
    run_pass(cluster, rules=policy(conf_of(conf)))
    submit(cluster, whole(4), time_limit_min=60)
    return cluster


def plan_of(cluster: Cluster, conf: str, now_us: int = START_US) -> Plan:
    """Return a plan of one pass."""
    return Planner()(snapshot(cluster, now_us), policy(conf_of(conf)))


@KINDS
def test_a_limit_is_cut_to_fill_a_gap(conf: str) -> None:
    """The gap lasts an hour; the job asks for three and accepts a half."""
    cluster = gap(conf)
    submit(cluster, whole(1, time_min_min=30), time_limit_min=180)
    plan = plan_of(cluster, conf)
    assert [start.job_id for start in plan.starts] == [3]
    assert 58 <= plan.starts[0].time_limit_min <= 60
    events = dispatch(cluster, plan.starts[0], START_US)
    assert isinstance(events[0], ev.JobAllocated)
    assert events[0].time_limit_min == plan.starts[0].time_limit_min


@KINDS
def test_not_below_the_shortest_time(conf: str) -> None:
    """A job that needs 70 minutes at least waits, with room for its whole limit."""
    cluster = gap(conf)
    submit(cluster, whole(1, time_min_min=70), time_limit_min=180)
    plan = plan_of(cluster, conf)
    assert not plan.starts
    assert plan.expected_start_us[3] >= START_US + 120 * MINUTE_US


@KINDS
def test_a_limit_is_not_cut_without_need(conf: str) -> None:
    """On idle nodes a job keeps what it asked for."""
    cluster = cluster_of(conf_of(conf))
    submit(cluster, whole(1, time_min_min=30), time_limit_min=180)
    assert [start.time_limit_min for start in plan_of(cluster, conf).starts] == [NO_VAL]


@KINDS
def test_no_limit_is_not_cut_without_need(conf: str) -> None:
    """A job without a limit that accepts half an hour has none on idle nodes."""
    cluster = cluster_of(conf_of(conf))
    submit(cluster, whole(1, time_min_min=30), time_limit_min=INFINITE)
    assert [start.time_limit_min for start in plan_of(cluster, conf).starts] == [NO_VAL]


@KINDS
def test_a_deadline_cuts_the_limit_of_a_job_that_accepts_less(conf: str) -> None:
    """Fifty minutes are left; it asked for 180 and accepts 30."""
    cluster = cluster_of(conf_of(conf))
    request = whole(1, time_min_min=30, time_limit_min=180, deadline_us=START_US + 50 * MINUTE_US)
    submit(cluster, request, time_limit_min=180)
    assert [start.time_limit_min for start in plan_of(cluster, conf).starts] == [50]


@KINDS
def test_no_room_is_kept_for_a_start_that_misses_the_deadline(conf: str) -> None:
    """The only room comes too late: others may have it, and the reason says why."""
    cluster = gap(conf)
    late = whole(4, time_limit_min=30, deadline_us=START_US + 80 * MINUTE_US)
    submit(cluster, late, time_limit_min=30)
    submit(cluster, whole(4), time_limit_min=10)
    plan = plan_of(cluster, conf)
    assert plan.waits[3].reason == Reason.DeadLine
    assert plan.expected_start_us[4] == plan.expected_start_us[2] + 60 * MINUTE_US


def test_tasks_of_an_array_are_cut_each() -> None:
    """One task fills the gap, the next one waits."""
    cluster = gap(WHOLE_NODES)
    submit(cluster, whole(1, time_min_min=30), time_limit_min=180, ranges=((0, 1, 1),))
    plan = plan_of(cluster, WHOLE_NODES)
    assert [start.task_id for start in plan.starts] == [0]
    assert plan.starts[0].time_limit_min == 60


def test_a_soft_limit_is_planned_with_and_stays() -> None:
    """time_min_as_soft_limit: planned as if it took the shortest time; the limit is not cut."""
    conf = WHOLE_NODES + "SchedulerParameters=time_min_as_soft_limit\n"
    cluster = gap(WHOLE_NODES)
    submit(cluster, whole(1, time_min_min=30), time_limit_min=180)
    plan = plan_of(cluster, conf)
    assert [start.job_id for start in plan.starts] == [3]
    assert plan.starts[0].time_limit_min == NO_VAL
