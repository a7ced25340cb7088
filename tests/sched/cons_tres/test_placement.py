"""Whole passes over randomly fragmented clusters, against all choices there are."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, conf_of, submit

CPUS = 4
LEAVES = (4, 3, 5, 4, 2, 6)  # nodes of each leaf switch; three leaves below each spine
LEAF_OF = [leaf for leaf, width in enumerate(LEAVES) for _ in range(width)]
CONF = f"""
ClusterName=net
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
NodeName=n[0-23] CPUs={CPUS} RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0 DefaultTime=60
"""
TREE = """
SwitchName=l0 Nodes=n[0-3]
SwitchName=l1 Nodes=n[4-6]
SwitchName=l2 Nodes=n[7-11]
SwitchName=l3 Nodes=n[12-15]
SwitchName=l4 Nodes=n[16-17]
SwitchName=l5 Nodes=n[18-23]
SwitchName=s0 Switches=l[0-2]
SwitchName=s1 Switches=l[3-5]
SwitchName=top Switches=s[0-1]
"""
BLOCKS = (
    "".join(f"BlockName=b{b} Nodes=n[{4 * b}-{4 * b + 3}]\n" for b in range(6))
    + "BlockSizes=4,8,16\n"
)


def cluster_with(topology: str) -> Cluster:
    """Return a cluster of 24 idle nodes."""
    cluster = Cluster()
    apply_all(cluster, configure(cluster, conf_of(CONF), START_US, [parse_topology_conf(topology)]))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    return cluster


def place(topology: str, free: list[int], request: JobRequest) -> list[int]:
    """Return the nodes that a pass gives a job which may have the free ones."""
    cluster = cluster_with(topology)
    busy = ",".join(f"n{node}" for node in range(len(LEAF_OF)) if node not in free)
    submit(cluster, msgspec.structs.replace(request, exclude=busy, partition="main"))
    plan = Planner()(snapshot(cluster, START_US), Policy())
    ids = [alloc.node_id for start in plan.starts for alloc in start.nodes]
    return sorted(int(name[1:]) for name in cluster.node_names(ids))


def fragment(source: random.Random) -> list[int]:
    """Return free nodes: some leaves nearly full, others nearly free."""
    share = [source.choice((0.2, 0.5, 1.0)) for _ in LEAVES]
    return [
        node for node in range(len(LEAF_OF)) if not node or source.random() < share[LEAF_OF[node]]
    ]


def fewest_leaves(free: list[int], nodes: int, own_leaf: int | None) -> int:
    """Return the least number of leaves with so many free nodes, by trying all sets."""
    counts = [sum(LEAF_OF[node] == leaf for node in free) for leaf in range(len(LEAVES))]
    for size in range(1, len(LEAVES) + 1):
        for leaves in itertools.combinations(range(len(LEAVES)), size):
            if sum(counts[leaf] for leaf in leaves) >= nodes and own_leaf in (None, *leaves):
                return size
    raise AssertionError("too few nodes")


@pytest.mark.parametrize("kind", ["nodes", "tasks", "required"])
def test_a_pass_uses_no_leaf_too_many(kind: str) -> None:
    """Forty states each: jobs of whole nodes, of tasks, and with a node they ask for by name."""
    source = random.Random(kind)
    for _ in range(40):
        free = fragment(source)
        nodes = source.randint(1, len(free))
        own_leaf = None
        request = JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=nodes, flags=REQ_EXCLUSIVE)
        if kind == "tasks":
            tasks = source.randint(1, CPUS * len(free))
            nodes = -(-tasks // CPUS)
            request = JobRequest(ntasks=tasks)
        if kind == "required":
            node = source.choice(free)
            own_leaf = LEAF_OF[node]
            request = msgspec.structs.replace(request, node_list=f"n{node}")
        chosen = place(TREE, free, request)
        assert len(chosen) == nodes, (free, request)
        used = {LEAF_OF[node] for node in chosen}
        assert len(used) == fewest_leaves(free, nodes, own_leaf), (free, request, chosen)


def test_a_pass_splits_no_segment() -> None:
    """Sixty states: segments are whole in their blocks, and start whenever the blocks have room."""
    source = random.Random(7)
    for _ in range(60):
        free = [node for node in range(24) if source.random() < 0.7]
        segment = source.choice((2, 3, 4))
        count = source.randint(1, 5)
        nodes = segment * count
        request = JobRequest(
            nodes_min=nodes, nodes_max=nodes, ntasks=nodes, segment=segment, flags=REQ_EXCLUSIVE
        )
        chosen = place(BLOCKS, free, request)
        room = sum(sum(node // 4 == block for node in free) // segment for block in range(6))
        assert bool(chosen) == (room >= count), (free, request)
        taken = [sum(node // 4 == block for node in chosen) for block in range(6)]
        assert not any(amount % segment for amount in taken), (free, request, chosen)


def test_more_names_than_nodes_are_a_choice() -> None:
    """`-N2 -w n[0-9]` takes two of those named, on one leaf; as many as named are all taken."""
    everything = list(range(24))
    request = JobRequest(
        nodes_min=2, nodes_max=2, ntasks=2, flags=REQ_EXCLUSIVE, node_list="n[3,7-8,12,16]"
    )
    assert place(TREE, everything, request) == [7, 8]
    assert place(TREE, [node for node in everything if node not in (7, 16)], request) != []
    request = msgspec.structs.replace(request, nodes_min=5, nodes_max=5, ntasks=5)
    assert place(TREE, everything, request) == [3, 7, 8, 12, 16]


def test_jobs_with_other_names_have_other_nodes() -> None:
    """Two jobs alike but for the names that each may choose from."""
    cluster = cluster_with(TREE)
    for names in ("n[0-3]", "n[12-15]"):
        request = JobRequest(
            nodes_min=2, nodes_max=2, ntasks=2, flags=REQ_EXCLUSIVE, node_list=names
        )
        submit(cluster, msgspec.structs.replace(request, partition="main"))
    plan = Planner()(snapshot(cluster, START_US), Policy())
    ids = [[alloc.node_id for alloc in start.nodes] for start in plan.starts]
    assert ids == [[0, 1], [12, 13]]


def test_segments_are_chosen_among_named_nodes() -> None:
    """Blocks of four: two segments of two lie in the two blocks that have two names each."""
    request = JobRequest(
        nodes_min=4,
        nodes_max=4,
        ntasks=4,
        segment=2,
        flags=REQ_EXCLUSIVE,
        node_list="n[0,4-5,8-9,12]",
    )
    assert place(BLOCKS, list(range(24)), request) == [4, 5, 8, 9]
