"""Backfill where nodes are shared and differ: invariants of plans, and scenarios."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_GRES_ENFORCE_BIND
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.model.states import NodeState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy, policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.timeline.slots import slot_times
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.examples import drawn
from tests.world.passes import in_strict_order, run_pass

MINUTE_US = 60_000_000
RULES = policy(conf_of())
SOCKETS = policy(conf_of(FOUR_NODES.replace("CR_Core_Memory", "CR_Socket_Memory")))

requests = st.builds(
    JobRequest,
    ntasks=st.sampled_from([0, 1, 3, 8, 20, 33]),
    cpus_per_task=st.sampled_from([0, 0, 2, 5]),
    nodes_min=st.sampled_from([0, 0, 1, 2, 3]),
    gpus_per_node=st.sampled_from(["", "", "", "1", "a100:2"]),
    gpus=st.sampled_from(["", "", "", "1", "5"]),
    constraint=st.sampled_from(["", "", "ib", "cpunode"]),
    flags=st.sampled_from([0, 0, 0, REQ_EXCLUSIVE, REQ_GRES_ENFORCE_BIND]),
    ntasks_per_socket=st.sampled_from([0, 0, 0, 1, 4]),
    sockets_per_node=st.sampled_from([0, 0, 2]),
    mem_per_node_mib=st.sampled_from([0, 0, 20_000, 50_000]),
    node_list=st.sampled_from(["", "", "", "", "n2"]),
    partition=st.sampled_from(["main", "main", "gpu", "debug"]),
).filter(lambda request: not (request.gpus and request.gpus_per_node))
queues = st.lists(st.tuples(requests, st.sampled_from([1, 5, 30])), min_size=1, max_size=14)


def with_near_gpus() -> Cluster:
    """Return four nodes; two have four GPUs each, two of them near either socket."""
    cluster = cluster_of()
    halves = (b"\xff", b"\xff", b"\x00\xff", b"\x00\xff")
    facts = NodeFacts(gres=(NodeGres("gpu", "a100", 4, cores=halves),))
    for node_id in (0, 1):
        apply_all(cluster, [ev.NodeRegistered(START_US, node_id, facts, NodeState.IDLE)])
    return cluster


@settings(deadline=None, max_examples=drawn(60))
@given(first=queues, second=queues, rules=st.sampled_from([RULES, SOCKETS]))
def test_starts_stand_and_every_job_has_a_start_or_a_reason(
    first: list[tuple[JobRequest, int]], second: list[tuple[JobRequest, int]], rules: Policy
) -> None:
    """Two passes: on an empty cluster, and on what the first one left of it."""
    cluster = with_near_gpus()
    for queue in (first, second):
        for request, limit in queue:
            submit(cluster, request, time_limit_min=limit)
        pending = set(cluster.job_index.pending)
        plan = run_pass(cluster, rules=rules)
        started = {start.job_id for start in plan.starts}
        assert started | set(plan.waits) == pending
        assert not started & set(plan.waits)
        assert not started & set(plan.expected_start_us)


@settings(deadline=None, max_examples=drawn(60))
@given(running=queues, waiting=queues)
def test_jobs_behind_change_nothing_for_those_before(
    running: list[tuple[JobRequest, int]], waiting: list[tuple[JobRequest, int]]
) -> None:
    """The plan of the first jobs is the same whether the others exist or not."""
    cluster = cluster_of()
    for request, limit in running:
        submit(cluster, request, time_limit_min=limit)
    run_pass(cluster)
    later_us = START_US + MINUTE_US
    for job_id in list(cluster.job_index.pending):
        cluster.jobs[job_id].priority = 0
        cluster.jobs[job_id].reason = Reason.JobHeldUser
    for request, limit in waiting:
        submit(cluster, request, time_limit_min=limit)
    # Without a job that takes part of a node, the few may be planned by counts, to the second.
    small = submit(cluster, JobRequest(), time_limit_min=1)
    view = snapshot(cluster, later_us)
    whole = Planner()(view, RULES)
    order = sorted(
        (job for job in view.waiting if job.job_id != small),
        key=lambda job: (job.partitions != ("debug",), -whole.priorities[job.job_id]),
    )
    half = {job.job_id for job in order[: len(order) // 2]}
    view.waiting[:] = [job for job in view.waiting if job.job_id in half or job.job_id == small]
    part = Planner()(view, RULES)
    assert [start for start in whole.starts if start.job_id in half] == [
        start for start in part.starts if start.job_id in half
    ]
    for job_id in half:
        assert whole.expected_start_us.get(job_id) == part.expected_start_us.get(job_id)


@pytest.mark.parametrize("others", [0, 1])
def test_whole_nodes_have_even_tasks(others: int) -> None:
    """--exclusive -n20 on nodes of 16: 10 each, whether nodes are counted or looked at."""
    cluster = cluster_of()
    for _ in range(others):
        submit(cluster, JobRequest(node_list="n4", cpus_per_task=3), time_limit_min=60)
    whole = submit(cluster, JobRequest(ntasks=20, flags=REQ_EXCLUSIVE), time_limit_min=60)
    for plan in (Planner(), in_strict_order):
        starts = plan(snapshot(cluster, START_US), RULES).starts
        nodes = next(start.nodes for start in starts if start.job_id == whole)
        assert sorted(alloc.tasks for alloc in nodes) == [10, 10]


def test_small_job_runs_beside_a_reservation_of_cores() -> None:
    """A node promised in part is still of use."""
    cluster = cluster_of()
    exclusive = submit(cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE), time_limit_min=60)
    run_pass(cluster)
    half = submit(cluster, JobRequest(node_list="n4", cpus_per_task=12), time_limit_min=60)
    plan = run_pass(cluster)
    assert plan.expected_start_us[half] >= START_US + 60 * MINUTE_US
    assert plan.planned_nodes[half] == (3,)
    beside = submit(cluster, JobRequest(node_list="n4", cpus_per_task=4), time_limit_min=600)
    behind = submit(cluster, JobRequest(node_list="n4", cpus_per_task=5), time_limit_min=600)
    plan = run_pass(cluster)
    assert plan.expected_start_us[beside] == plan.expected_start_us[half]
    assert plan.expected_start_us[behind] > plan.expected_start_us[half]
    assert cluster.jobs[exclusive].nodes
    assert plan.waits[half].reason == Reason.Resources
    assert plan.waits[beside].reason == Reason.Priority


def test_gpu_jobs_wait_for_gpus_and_cpu_jobs_pass_them() -> None:
    """All GPUs are busy for an hour: the next GPU job is planned then, a CPU job starts."""
    cluster = cluster_of()
    for _ in range(2):
        submit(cluster, JobRequest(gpus_per_node="a100:4"), time_limit_min=60)
    run_pass(cluster)
    wants = submit(cluster, JobRequest(gpus="1"), time_limit_min=10)
    small = submit(cluster, JobRequest(), time_limit_min=600)
    plan = run_pass(cluster)
    wait_us = plan.expected_start_us[wants] - START_US
    assert 60 * MINUTE_US <= wait_us <= 63 * MINUTE_US
    assert cluster.jobs[small].nodes
    assert "1 x gpu" in plan.waits[wants].text


def test_licences_are_planned_with_nodes() -> None:
    """A job starts when both its cores and its licences are free."""
    conf = conf_of(FOUR_NODES + "Licenses=matlab:4\n")
    cluster = cluster_of(conf)
    submit(cluster, JobRequest(licenses="matlab:3"), time_limit_min=30)
    second = submit(cluster, JobRequest(licenses="matlab:2"), time_limit_min=30)
    third = submit(cluster, JobRequest(licenses="matlab:1"), time_limit_min=30)
    plan = run_pass(cluster)
    assert [start.job_id for start in plan.starts] == [1, third]
    assert plan.waits[second].reason == Reason.Licenses
    assert plan.expected_start_us[second] >= START_US + 30 * MINUTE_US


def test_slots_widen_from_a_minute_to_two_hours() -> None:
    """About 450 slots for two weeks; fewer when there is room for fewer."""
    times = slot_times(0, 14 * 86400, 4000)
    widths = [later - first for first, later in pairwise(times)]
    assert widths == sorted(widths)
    assert (widths[0], widths[-1]) == (MINUTE_US, 120 * MINUTE_US + 8 * MINUTE_US)
    assert 400 <= len(times) <= 500
    assert len(slot_times(0, 14 * 86400, 100)) <= 100


@given(first_us=st.integers(0, 10**12), later_us=st.integers(1, 10**12), most=st.integers(60, 1000))
def test_a_boundary_stays_one_until_it_has_passed(first_us: int, later_us: int, most: int) -> None:
    """What was promised for it can be promised for it again."""
    before = slot_times(first_us, 14 * 86400, most)
    now = slot_times(first_us + later_us, 14 * 86400, most)
    assert {time_us for time_us in before if time_us > first_us + later_us} <= {*now}


def test_the_next_pass_leaves_promised_nodes_of_the_last_alone() -> None:
    """Queries read the last plan while a thread makes the next one with the same planner."""
    cluster, planner = cluster_of(), Planner()
    submit(cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE), time_limit_min=60)
    for start in planner(snapshot(cluster, START_US), RULES).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    half = submit(cluster, JobRequest(node_list="n4", cpus_per_task=12), time_limit_min=60)
    last = planner(snapshot(cluster, START_US), RULES)
    for _ in range(3):
        submit(cluster, JobRequest(node_list="n4", cpus_per_task=16), time_limit_min=60)
    following = planner(snapshot(cluster, START_US), RULES)
    assert dict(last.planned_nodes) == {half: (3,)}
    assert len(following.planned_nodes) == 4
    assert following.planned_nodes.all_nodes() == {3}


def test_the_next_end_is_kept_to_the_second() -> None:
    """A job that waits for it is promised that moment, and no longer job starts there."""
    cluster = cluster_of()
    submit(cluster, JobRequest(node_list="n4", cpus_per_task=4), time_limit_min=60)
    run_pass(cluster)
    later_us = START_US + 3_000_000
    whole = submit(cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE), time_limit_min=60)
    late = submit(cluster, JobRequest(node_list="n4"), time_limit_min=60)
    short = submit(cluster, JobRequest(node_list="n4"), time_limit_min=59)
    plan = run_pass(cluster, later_us)
    assert plan.expected_start_us[whole] == START_US + 60 * MINUTE_US
    assert plan.waits[late].reason == Reason.Priority
    assert cluster.jobs[short].nodes


def test_a_job_keeps_its_cores_though_they_are_spread() -> None:
    """Two cores of each socket are free, four in one are wanted: no job behind takes those two."""
    cluster = cluster_of()
    both = JobRequest(node_list="n4", nodes_min=1, ntasks=2, cpus_per_task=6, ntasks_per_socket=1)
    submit(cluster, both, time_limit_min=30)
    run_pass(cluster)
    later_us = START_US + MINUTE_US
    near = JobRequest(node_list="n4", cpus_per_task=8, ntasks_per_socket=1)
    wide = submit(cluster, near, now_us=later_us, time_limit_min=60)
    beside = submit(
        cluster, JobRequest(node_list="n4", cpus_per_task=2), now_us=later_us, time_limit_min=120
    )
    late = submit(cluster, JobRequest(node_list="n4"), now_us=later_us, time_limit_min=120)
    short = submit(cluster, JobRequest(node_list="n4"), now_us=later_us, time_limit_min=29)
    plan = run_pass(cluster, later_us)
    assert plan.expected_start_us[wide] == START_US + 30 * MINUTE_US
    (one_socket,) = cluster.jobs[beside].nodes
    assert one_socket.cores in (b"\xc0", b"\x00\xc0")
    assert plan.waits[late].reason == Reason.Priority
    assert cluster.jobs[short].nodes
