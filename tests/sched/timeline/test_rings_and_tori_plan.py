"""Whole passes over rings and tori: who starts where, who waits why, and what is promised."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_TOPO
from pyslurm_ng.conf.topology_yaml import topologies_of
from pyslurm_ng.ctld.nodes.credentials import addresses_of
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.submission.feasible import feasible
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.request.need import Selection
from tests.model.clusters import START_US, conf_of, submit
from tests.sched.eight_nodes import EIGHT_NODES, Pass, plain_pass, whole
from tests.world.passes import in_strict_order

PASSES = pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "firstfit"])
RING = {"ring": {"rings": [{"ring": "r1", "nodes": "n[1-6]"}, {"ring": "r2", "nodes": "n[8,7]"}]}}
TORUS: dict[str, Any] = {
    "torus3d": {
        "toruses": [
            {
                "name": "t1",
                "dims": {"x": 2, "y": 2, "z": 2},
                "nodes": "n[1-8]",
                "placements": [
                    {"dims": {"x": 1, "y": 1, "z": 1}},
                    {"dims": {"x": 2, "y": 1, "z": 1}},
                    {"dims": {"x": 2, "y": 2, "z": 1}},
                ],
            }
        ]
    }
}


def cluster_in(*networks: dict[str, Any], text: str = EIGHT_NODES) -> Cluster:
    """Return a cluster of eight idle nodes with networks net0, net1 and so on."""
    conf, cluster = conf_of(text), Cluster()
    names = tuple(node.name for node in conf.nodes)
    content = [{"topology": f"net{at}", **network} for at, network in enumerate(networks)]
    read = topologies_of(content, "topology.yaml", names)
    apply_all(cluster, configure(cluster, conf, START_US, list(read)))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    return cluster


def names(cluster: Cluster, job_id: int) -> list[str]:
    """Return the nodes of a job in the order of its ranks."""
    return cluster.node_names([alloc.node_id for alloc in cluster.jobs[job_id].nodes])


@PASSES
def test_a_job_has_an_arc_and_its_ranks_go_along_it(plan: Pass) -> None:
    """Over the end of the list, too."""
    cluster = cluster_in(RING)
    submit(cluster, whole(2, node_list="n[3-4]"))
    plain_pass(cluster, plan)
    around = submit(cluster, whole(4))
    pair = submit(cluster, whole(2))
    plain_pass(cluster, plan)
    assert names(cluster, around) == ["n5", "n6", "n1", "n2"]
    assert names(cluster, pair) == ["n8", "n7"]
    ids = [alloc.node_id for alloc in cluster.jobs[around].nodes]
    assert addresses_of(cluster.topologies[0], cluster, ids) == (
        ("r1.n5", "r1.n6", "r1.n1", "r1.n2"),
        "ring.node",
    )


@PASSES
def test_a_job_waits_for_neighbours(plan: Pass) -> None:
    """Three nodes are free, but no three of them lie side by side."""
    cluster = cluster_in(RING)
    submit(cluster, whole(2, node_list="n[1-2]"))
    submit(cluster, whole(1, node_list="n5"))
    plain_pass(cluster, plan)
    job_id = submit(cluster, whole(3))
    outcome = plain_pass(cluster, plan)
    assert not names(cluster, job_id)
    assert outcome.waits[job_id].reason == Reason.No_suitable_topology_unit_found
    assert "room for 3 nodes side by side on one ring" in outcome.waits[job_id].text


@pytest.mark.parametrize("network", [RING, TORUS], ids=["ring", "torus"])
def test_room_that_is_promised_lies_well(network: dict[str, Any]) -> None:
    """Backfill leaves an arc or a shape alone that a job before it waits for."""
    cluster = cluster_in(network)
    for node, minutes in (("n2", 100), ("n5", 50)):
        submit(cluster, whole(1, node_list=node), time_limit_min=minutes)
    plain_pass(cluster, Planner())
    wide = submit(cluster, whole(4), time_limit_min=60)
    outcome = plain_pass(cluster, Planner())
    assert cluster.node_names(sorted(outcome.planned_nodes[wide])) in (
        ["n3", "n4", "n5", "n6"],
        ["n5", "n6", "n7", "n8"],
    )
    assert outcome.expected_start_us[wide] >= START_US + 50 * 60_000_000
    long = [submit(cluster, whole(1), time_limit_min=600) for _ in range(6)]
    outcome = plain_pass(cluster, Planner())
    started = {name for job_id in long for name in names(cluster, job_id)}
    assert len(started) == 3
    planned = set(cluster.node_names(sorted(outcome.planned_nodes[wide])))
    assert not started & planned


@PASSES
def test_shapes_are_packed_so_that_larger_ones_stay_free(plan: Pass) -> None:
    """Single nodes share a pair, pairs a layer; a job of another size has no shape."""
    cluster = cluster_in(TORUS)
    small = [submit(cluster, whole(1)) for _ in range(2)]
    pair = submit(cluster, whole(2))
    plain_pass(cluster, plan)
    layer = {name for job_id in (*small, pair) for name in names(cluster, job_id)}
    assert layer in ({"n1", "n2", "n3", "n4"}, {"n5", "n6", "n7", "n8"})
    four = submit(cluster, whole(4))
    more = submit(cluster, whole(2))
    outcome = plain_pass(cluster, plan)
    assert len(names(cluster, four)) == 4
    assert outcome.waits[more].reason in (Reason.Resources, Reason.Priority)


@PASSES
def test_a_range_of_nodes_takes_a_size_that_is_a_shape(plan: Pass) -> None:
    """-N 3-8 has four nodes, of which a layer consists."""
    cluster = cluster_in(TORUS)
    job_id = submit(cluster, whole(3, nodes_max=8, ntasks=8))
    plain_pass(cluster, plan)
    assert len(names(cluster, job_id)) == 4


@PASSES
def test_segments_have_a_shape_each(plan: Pass) -> None:
    """Three pairs beside two nodes that are in use in different pairs are not to be had."""
    cluster = cluster_in(TORUS)
    submit(cluster, whole(1, node_list="n1"))
    plain_pass(cluster, plan)
    job_id = submit(cluster, whole(6, segment=2))
    plain_pass(cluster, plan)
    assert set(names(cluster, job_id)) == {f"n{at}" for at in range(3, 9)}


@PASSES
@pytest.mark.parametrize(("network", "free"), [(RING, {"n7", "n8"}), (TORUS, set())])
def test_exclusive_topo_has_its_ring_or_torus_alone(
    plan: Pass, network: dict[str, Any], free: set[str]
) -> None:
    """Nobody else is there until it ends."""
    cluster = cluster_in(network)
    alone = submit(cluster, whole(1, node_list="n1", flags=REQ_EXCLUSIVE_TOPO))
    plain_pass(cluster, plan)
    assert names(cluster, alone) == ["n1"]
    others = [submit(cluster, whole(1)) for _ in range(3)]
    plain_pass(cluster, plan)
    assert {name for job_id in others for name in names(cluster, job_id)} == free


@PASSES
def test_partitions_choose_their_network(plan: Pass) -> None:
    """One has the torus, the other the rings."""
    text = EIGHT_NODES + "PartitionName=boxes Nodes=n[1-8] Topology=net1 MaxTime=1-0\n"
    cluster = cluster_in(RING, TORUS, text=text)
    arc = submit(cluster, whole(3))
    shape = submit(cluster, whole(4, partition="boxes"))
    plain_pass(cluster, plan)
    assert names(cluster, arc) == ["n1", "n2", "n3"]
    assert names(cluster, shape) == ["n5", "n6", "n7", "n8"]


@pytest.mark.parametrize(
    ("network", "nodes", "more", "is_possible"),
    [
        (RING, 6, {}, True),
        (RING, 7, {}, False),
        (RING, 8, {"segment": 2}, True),
        (RING, 8, {"segment": 3}, False),
        (RING, 3, {"node_list": "n[1,4]"}, False),
        (RING, 3, {"node_list": "n[1,5]"}, True),
        (RING, 5, {"exclude": "n3"}, True),
        (RING, 5, {"exclude": "n[3,5]"}, False),
        (TORUS, 4, {}, True),
        (TORUS, 3, {}, False),
        (TORUS, 8, {}, False),
        (TORUS, 8, {"segment": 4}, True),
        (TORUS, 8, {"segment": 8}, False),
        (TORUS, 4, {"node_list": "n[1,5]"}, False),
        (TORUS, 4, {"node_list": "n[1,5]", "segment": 2}, True),
        (TORUS, 3, {"nodes_max": 4, "ntasks": 4}, True),
        (TORUS, 5, {"nodes_max": 8, "ntasks": 8}, False),
    ],
)
def test_what_no_shape_could_hold_is_refused(
    network: dict[str, Any], nodes: int, more: dict[str, Any], is_possible: bool
) -> None:
    """At submission, with all nodes free."""
    cluster = cluster_in(network)
    request = whole(nodes, **more)
    verdict = feasible(cluster, request, cluster.partitions["main"], Selection(with_memory=False))
    if is_possible:
        assert verdict is None
    else:
        assert isinstance(verdict, Reject)
        assert verdict.code == Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE


@PASSES
def test_jobs_of_one_cpu_have_shapes_too(plan: Pass) -> None:
    """They may share the node of a shape."""
    cluster = cluster_in(TORUS)
    small = JobRequest(nodes_min=1, ntasks=1, partition="main", mem_per_cpu_mib=1)
    jobs = [submit(cluster, small) for _ in range(4)]
    pair = submit(cluster, msgspec.structs.replace(small, nodes_min=2, nodes_max=2, ntasks=2))
    full = submit(cluster, whole(4))
    plain_pass(cluster, plan)
    assert {tuple(names(cluster, job_id)) for job_id in jobs} == {("n1",)}
    assert len(names(cluster, pair)) == 2
    assert len(names(cluster, full)) == 4
