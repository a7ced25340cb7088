"""Whole passes over clusters with a network: who starts where, and who waits why."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import (
    REQ_CONTIGUOUS,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
)
from pyslurm_ng.conf.topology_yaml import topologies_of
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.submission.feasible import feasible
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState, NodeState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.request.need import Selection
from tests.model.clusters import START_US, conf_of, submit
from tests.sched.eight_nodes import EIGHT_NODES, Pass, cluster_with, plain_pass, whole
from tests.sched.networks import BLOCKS, TREE
from tests.world.passes import in_strict_order

PASSES = pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "firstfit"])


def names(cluster: Cluster, job_id: int) -> list[str]:
    """Return the nodes of a job in the order of its ranks."""
    return cluster.node_names([alloc.node_id for alloc in cluster.jobs[job_id].nodes])


@PASSES
def test_a_job_stays_below_one_leaf(plan: Pass) -> None:
    """Three nodes fit below s2 only, though the first three free ones are elsewhere."""
    cluster = cluster_with(TREE)
    submit(cluster, whole(2, node_list="n[1-2]"))
    plain_pass(cluster, plan)
    job_id = submit(cluster, whole(3))
    plain_pass(cluster, plan)
    assert names(cluster, job_id) == ["n5", "n6", "n7"]
    small = submit(cluster, whole(1))
    pair = submit(cluster, whole(2))
    plain_pass(cluster, plan)
    assert names(cluster, small) in (["n3"], ["n8"])
    assert len(names(cluster, pair)) == 2


@PASSES
def test_a_job_waits_for_few_switches_as_long_as_it_said(plan: Pass) -> None:
    """--switches=1@10:00 is put off while two leaves would be needed. After that it starts."""
    cluster = cluster_with(TREE)
    submit(cluster, whole(4, node_list="n[3-6]"))
    plain_pass(cluster, plan)
    job_id = submit(cluster, whole(3, switches=1, switches_wait_s=600))
    outcome = plain_pass(cluster, plan)
    assert outcome.waits[job_id].reason == Reason.No_suitable_topology_unit_found
    assert "below 1 leaf switch" in outcome.waits[job_id].text
    plain_pass(cluster, plan, START_US + 599_000_000)
    assert not names(cluster, job_id)
    plain_pass(cluster, plan, START_US + 600_000_000)
    assert names(cluster, job_id) == ["n1", "n2", "n7"]


def test_the_end_of_patience_is_planned() -> None:
    """A job that waits for one switch is promised any nodes for when it would take them."""
    cluster = cluster_with(TREE)
    submit(cluster, whole(4, node_list="n[3-6]"))
    plain_pass(cluster, Planner())
    job_id = submit(cluster, whole(3, switches=1, switches_wait_s=600))
    long = submit(cluster, whole(2), time_limit_min=30)
    short = submit(cluster, whole(2), time_limit_min=5)
    outcome = plain_pass(cluster, Planner())
    after_us = outcome.expected_start_us[job_id] - START_US
    assert 600_000_000 <= after_us <= 720_000_000  # the timeline's steps are as wide as that
    assert outcome.waits[job_id].reason == Reason.No_suitable_topology_unit_found
    assert not names(cluster, long)
    assert len(names(cluster, short)) == 2
    assert len(outcome.planned_nodes[job_id]) == 3
    # Those that plain_pass end before its patience does: one leaf serves it sooner.
    cluster = cluster_with(TREE)
    submit(cluster, whole(4, node_list="n[3-6]"), time_limit_min=5)
    plain_pass(cluster, Planner())
    job_id = submit(cluster, whole(3, switches=1, switches_wait_s=600))
    outcome = plain_pass(cluster, Planner())
    assert 300_000_000 <= outcome.expected_start_us[job_id] - START_US < 400_000_000


@PASSES
def test_a_job_is_not_split_over_blocks(plan: Pass) -> None:
    """Four free nodes in two blocks do not serve a job of a block."""
    cluster = cluster_with(BLOCKS)
    submit(cluster, whole(4, node_list="n[1-2,5-6]", segment=2))
    plain_pass(cluster, plan)
    job_id = submit(cluster, whole(4))
    parts = submit(cluster, whole(4, segment=2))
    outcome = plain_pass(cluster, plan)
    assert outcome.waits[job_id].reason == Reason.No_suitable_topology_unit_found
    if plan is not in_strict_order:  # that one lets nobody pass
        assert names(cluster, parts) == ["n3", "n4", "n7", "n8"]


def test_a_waiting_job_is_planned_where_it_may_be() -> None:
    """The reservation is a whole block at the time when one is free."""
    cluster = cluster_with(BLOCKS)
    planner = Planner()
    submit(cluster, whole(2, node_list="n[1-2]"), time_limit_min=30)
    submit(cluster, whole(2, node_list="n[5-6]"), time_limit_min=60)
    plain_pass(cluster, planner)
    job_id = submit(cluster, whole(4))
    outcome = plain_pass(cluster, planner)
    assert outcome.expected_start_us[job_id] >= START_US + 30 * 60_000_000
    assert outcome.expected_start_us[job_id] < START_US + 45 * 60_000_000
    assert sorted(outcome.planned_nodes[job_id]) == [0, 1, 2, 3]


@PASSES
def test_tasks_without_a_node_count_stay_together(plan: Pass) -> None:
    """Ten tasks of a CPU take three nodes of one leaf, also when the first leaf has fewer left."""
    cluster = cluster_with(TREE)
    submit(cluster, whole(2, node_list="n[1-2]"))
    plain_pass(cluster, plan)
    job_id = submit(cluster, JobRequest(ntasks=10, partition="main"))
    plain_pass(cluster, plan)
    assert names(cluster, job_id) == ["n5", "n6", "n7"]


@PASSES
def test_ranks_follow_the_topology(plan: Pass) -> None:
    """Nodes of one leaf are side by side, whatever their names."""
    cluster = cluster_with(
        "SwitchName=s1 Nodes=n[2,4,6,8]\nSwitchName=s2 Nodes=n[1,3,5,7]\n"
        "SwitchName=top Switches=s[1-2]\n"
    )
    job_id = submit(cluster, whole(6))
    plain_pass(cluster, plan)
    assert names(cluster, job_id) in (
        ["n2", "n4", "n6", "n8", "n1", "n3"],
        ["n2", "n4", "n1", "n3", "n5", "n7"],
    )


@PASSES
def test_a_small_job_leaves_the_largest_block_whole(plan: Pass) -> None:
    """One node comes from the block that is in use already."""
    cluster = cluster_with(BLOCKS)
    submit(cluster, whole(2, node_list="n[5-6]"))
    plain_pass(cluster, plan)
    small, large = submit(cluster, whole(1)), submit(cluster, whole(4))
    plain_pass(cluster, plan)
    assert names(cluster, small) == ["n7"]
    assert names(cluster, large) == ["n1", "n2", "n3", "n4"]


@PASSES
@pytest.mark.parametrize("topology", [TREE, BLOCKS], ids=["tree", "block"])
def test_exclusive_topo_has_units_for_itself(plan: Pass, topology: str) -> None:
    """No other job gets its leaf switch or block, and it gets none that others use."""
    cluster = cluster_with(topology)
    small = JobRequest(nodes_min=1, nodes_max=1, ntasks=1, partition="main")
    alone = msgspec.structs.replace(small, flags=REQ_EXCLUSIVE_TOPO)
    first = submit(cluster, alone)
    other = submit(cluster, small)
    again = submit(cluster, alone)
    outcome = plain_pass(cluster, plan)
    units = {
        job: {alloc.node_id // 4 for alloc in cluster.jobs[job].nodes} for job in (first, other)
    }
    assert len(units[first] | units[other]) == 2
    assert not cluster.jobs[again].nodes
    assert again in outcome.waits
    more = submit(cluster, small)
    plain_pass(cluster, plan)
    if cluster.jobs[more].nodes:
        assert cluster.jobs[more].nodes[0].node_id // 4 in units[other]


def test_exclusive_topo_is_planned_in_time() -> None:
    """It waits until all jobs of a unit are over, and those behind it for its own end."""
    cluster = cluster_with(BLOCKS)
    small = JobRequest(nodes_min=1, nodes_max=1, ntasks=1, partition="main")
    for node, minutes in (("n1", 10), ("n5", 20)):
        submit(cluster, msgspec.structs.replace(small, node_list=node), time_limit_min=minutes)
    plain_pass(cluster, Planner())
    alone = submit(cluster, msgspec.structs.replace(small, flags=REQ_EXCLUSIVE_TOPO))
    wide = submit(cluster, whole(3))
    outcome = plain_pass(cluster, Planner())
    start_us = outcome.expected_start_us[alone]
    assert 10 <= (start_us - START_US) / 60_000_000 < 12
    assert set(outcome.planned_nodes[alone]) <= {0, 1, 2, 3}
    assert {alloc.node_id for alloc in cluster.jobs[wide].nodes} <= {4, 5, 6, 7}


UNLIKE = """
NodeName=n[1-2] CPUs=4 RealMemory=1000
NodeName=n[3-4] CPUs=2 RealMemory=1000
NodeName=n[5-6] CPUs=4 RealMemory=1000
NodeName=n[7-8] CPUs=2 RealMemory=1000
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=1-0 DefaultTime=60
"""


@PASSES
@pytest.mark.parametrize("topology", [TREE, BLOCKS], ids=["tree", "block"])
@pytest.mark.parametrize("tasks", [11, 20])
def test_exclusive_topo_with_shares_that_differ(plan: Pass, topology: str, tasks: int) -> None:
    """No equal share of its tasks fits enough nodes of unlike sizes: each is filled instead."""
    cluster = cluster_with(topology, EIGHT_NODES[: EIGHT_NODES.index("NodeName")] + UNLIKE)
    shared = JobRequest(nodes_min=1, nodes_max=1, ntasks=1, partition="main")
    wide = JobRequest(ntasks=tasks, partition="main", flags=REQ_EXCLUSIVE_TOPO, node_list="n1,n3")
    busy = submit(cluster, msgspec.structs.replace(shared, node_list="n2"), time_limit_min=10)
    plain_pass(cluster, plan)
    alone = submit(cluster, wide, time_limit_min=10)
    outcome = plain_pass(cluster, plan)
    assert not cluster.jobs[alone].nodes
    if isinstance(plan, Planner):
        assert 10 <= (outcome.expected_start_us[alone] - START_US) / 60_000_000 < 12
    later_us = START_US + 20 * 60_000_000
    done = job_end.complete(
        cluster,
        cluster.jobs[busy],
        job_end.End(JobState.COMPLETED, exit_code=0),
        later_us,
        clean_nodes=frozenset({1}),
    )
    apply_all(cluster, done)
    plain_pass(cluster, plan, later_us)
    assert sum(alloc.tasks for alloc in cluster.jobs[alone].nodes) == tasks
    other = submit(cluster, shared)
    plain_pass(cluster, plan, later_us)
    units = [{alloc.node_id // 4 for alloc in cluster.jobs[job].nodes} for job in (alone, other)]
    assert units == ([{0}, {1}] if tasks == 11 else [{0, 1}, set()])


SEVERAL = """
NodeName=n[1-8] CPUs=4 RealMemory=1000
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=1-0 DefaultTime=60
PartitionName=nvl Nodes=n[1-8] MaxTime=1-0 DefaultTime=60 Topology=nvl
PartitionName=any Nodes=n[1-8] MaxTime=1-0 DefaultTime=60 Topology=none
"""


@PASSES
def test_each_partition_has_its_own_topology(plan: Pass) -> None:
    """What is one leaf switch to one partition is two halves of blocks to another."""
    nodes = tuple(f"n{number}" for number in range(1, 9))
    network = topologies_of(
        [
            {
                "topology": "net",
                "cluster_default": True,
                "tree": {
                    "switches": [
                        {"switch": "s1", "nodes": "n[1-4]"},
                        {"switch": "s2", "nodes": "n[5-8]"},
                    ]
                },
            },
            {
                "topology": "nvl",
                "block": {
                    "block_sizes": [4],
                    "blocks": [
                        {"block": "b1", "nodes": "n[1-2,5-6]"},
                        {"block": "b2", "nodes": "n[3-4,7-8]"},
                    ],
                },
            },
            {"topology": "none", "flat": True},
        ],
        "topology.yaml",
        nodes,
    )
    conf, cluster = conf_of(EIGHT_NODES[: EIGHT_NODES.index("NodeName")] + SEVERAL), Cluster()
    apply_all(cluster, configure(cluster, conf, START_US, list(network)))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    tree = submit(cluster, whole(3, exclude="n1"))
    block = submit(cluster, whole(3, partition="nvl"))
    plain_pass(cluster, plan)
    assert {alloc.node_id for alloc in cluster.jobs[tree].nodes} == {1, 2, 3}
    assert {alloc.node_id for alloc in cluster.jobs[block].nodes} == {0, 4, 5}
    split = submit(cluster, whole(2, partition="nvl", node_list="n7"))
    plain_pass(cluster, plan)
    assert {alloc.node_id for alloc in cluster.jobs[split].nodes} == {6, 7}


@PASSES
@pytest.mark.parametrize("topology", [TREE, BLOCKS], ids=["tree", "block"])
@pytest.mark.parametrize("node_ids", [(0, 1), (6, 7), (3, 4)])
def test_a_reservation_may_leave_units_without_nodes(
    plan: Pass, topology: str, node_ids: tuple[int, ...]
) -> None:
    """To a job inside there are no others; the jobs outside are planned around it."""
    cluster = cluster_with(topology)
    hour_us = 3600 * 1_000_000
    reservation = Reservation("r", START_US, START_US + hour_us, node_ids, users=("user1001",))
    apply(cluster, ev.ReservationCreated(START_US, reservation))
    inside = submit(cluster, whole(1, reservation="r"), time_limit_min=10)
    behind = submit(cluster, whole(2, reservation="r"), time_limit_min=10)
    outside = submit(cluster, whole(3), time_limit_min=10)
    outcome = plain_pass(cluster, plan)
    own = {cluster.node(node_id).spec.name for node_id in node_ids}
    assert {*names(cluster, inside)} < own
    assert not names(cluster, behind) and behind in outcome.waits
    assert len(names(cluster, outside)) == 3 and not own & {*names(cluster, outside)}


@PASSES
def test_nodes_that_never_lie_as_a_job_wants_are_the_reason(plan: Pass) -> None:
    """Whatever else it asks for: the partition has a node of each block only."""
    cluster = cluster_with(BLOCKS, EIGHT_NODES + "PartitionName=apart Nodes=n[1,5]\n")
    for flags in (0, REQ_EXCLUSIVE_USER, REQ_EXCLUSIVE_TOPO):
        job_id = submit(cluster, whole(2, partition="apart", flags=flags), time_limit_min=10)
        wait = plain_pass(cluster, plan).waits[job_id]
        assert wait.reason == Reason.No_suitable_topology_unit_found
        assert "2 nodes in one block" in wait.text


@PASSES
def test_nodes_side_by_side_lie_as_the_network_wants(plan: Pass) -> None:
    """--contiguous does not split segments, nor a job that fits into a block."""
    for segment, own in (
        (2, ["n3", "n4", "n5", "n6"]),
        (0, ["n5", "n6", "n7"]),
    ):
        cluster = cluster_with(BLOCKS)
        flags = REQ_EXCLUSIVE | REQ_CONTIGUOUS
        wants = whole(
            len(own), flags=flags, segment=segment, exclude="n[1-2]" if not segment else "n1"
        )
        job_id = submit(cluster, wants, time_limit_min=10)
        plain_pass(cluster, plan)
        assert names(cluster, job_id) == own
    cluster = cluster_with(BLOCKS)
    odd = whole(3, flags=REQ_CONTIGUOUS, segment=2)
    refusal = feasible(cluster, odd, cluster.partitions["main"], Selection())
    assert refusal is not None
    assert refusal.code == Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE
