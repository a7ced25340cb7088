"""bf_busy_nodes and pack_serial_at_end: which of the nodes that fit a job is given."""

from __future__ import annotations

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.sched.eight_nodes import EIGHT_NODES, cluster_with, whole
from tests.sched.networks import BLOCKS
from tests.world.passes import run_pass


def plan_of(cluster: Cluster, options: str) -> Plan:
    """Return a plan under these SchedulerParameters."""
    rules = policy(conf_of(FOUR_NODES + f"SchedulerParameters={options}\n"))
    return Planner()(snapshot(cluster, START_US), rules)


def places(plan: Plan, job_id: int) -> list[int]:
    """Return the nodes that a job gets now."""
    return [
        alloc.node_id for start in plan.starts if start.job_id == job_id for alloc in start.nodes
    ]


def on_node(name: str, cpus: int = 16) -> JobRequest:
    """Return a request for some of one node."""
    return JobRequest(ntasks=1, cpus_per_task=cpus, nodes_min=1, nodes_max=1, node_list=name)


def test_room_for_later_is_kept_on_busy_nodes() -> None:
    """Job 3 waits for three nodes; kept on those in use, one idle node is left to long job 4."""
    cluster = cluster_of(conf_of())
    for name in ("n1", "n2"):
        submit(cluster, on_node(name), time_limit_min=30)
    run_pass(cluster)
    wide = submit(cluster, JobRequest(ntasks=3, cpus_per_task=16, nodes_min=3, nodes_max=3))
    long = submit(cluster, JobRequest(ntasks=2, nodes_min=1, nodes_max=1), time_limit_min=600)
    usual = plan_of(cluster, "bf_window=1440")
    assert usual.planned_nodes[wide] == (0, 2, 3)  # the lighter ones, and one
    assert not places(usual, long)
    busy = plan_of(cluster, "bf_busy_nodes")
    assert busy.planned_nodes[wide] == (0, 1, 3)  # those in use, and one beside them
    assert places(busy, long) == [2]
    assert busy.expected_start_us[wide] == usual.expected_start_us[wide]


def test_idle_nodes_are_taken_where_those_in_use_are_not_enough() -> None:
    """Features are still what decides: job 3 may not have n3 and n4, in use or not."""
    cluster = cluster_of(conf_of())
    submit(cluster, on_node("n1", cpus=1), time_limit_min=30)
    submit(cluster, on_node("n3", cpus=1), time_limit_min=30)
    run_pass(cluster)
    request = JobRequest(ntasks=2, cpus_per_task=16, nodes_min=2, nodes_max=2, constraint="gpunode")
    job_id = submit(cluster, request)
    assert plan_of(cluster, "bf_busy_nodes").planned_nodes[job_id] == (0, 1)


def test_room_in_a_block_is_kept_where_most_nodes_are_busy() -> None:
    """No block has all three nodes in use; block b1 has two of them, and the job gets that."""
    cluster = cluster_with(BLOCKS)
    for node in ("n1", "n2", "n5"):
        submit(cluster, whole(1, node_list=node), time_limit_min=30)
    run_pass(cluster)
    job_id = submit(cluster, whole(4))
    rules = policy(conf_of(EIGHT_NODES))
    usual = Planner()(snapshot(cluster, START_US), rules)
    assert usual.planned_nodes[job_id] == (4, 5, 6, 7)
    rules = policy(conf_of(EIGHT_NODES + "SchedulerParameters=bf_busy_nodes\n"))
    busy = Planner()(snapshot(cluster, START_US), rules)
    assert busy.planned_nodes[job_id] == (0, 1, 2, 3)
    assert busy.expected_start_us[job_id] == usual.expected_start_us[job_id]


def test_serial_jobs_are_packed_at_the_end() -> None:
    """Jobs of one CPU take the last of the lightest nodes with room; others the first."""
    cluster = cluster_of(conf_of())
    serial = [submit(cluster, JobRequest(ntasks=1)) for _ in range(17)]
    wide = submit(cluster, JobRequest(ntasks=2, nodes_min=1, nodes_max=1))
    usual = plan_of(cluster, "bf_window=1440")
    assert [places(usual, job_id) for job_id in serial] == [[2]] * 16 + [[3]]
    plan = plan_of(cluster, "pack_serial_at_end")
    assert [places(plan, job_id) for job_id in serial] == [[3]] * 16 + [[2]]
    assert places(plan, wide) == [2]
