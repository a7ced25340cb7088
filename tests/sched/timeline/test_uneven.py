"""Whole passes over unlike nodes: how many tasks each gets, as seen with Slurm 22.05."""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_SPREAD, REQ_USE_MIN_NODES
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.frame.policy import policy
from tests.model.clusters import START_US, conf_of, submit
from tests.sched.networks import TREE_OF_TEN
from tests.world.passes import run_pass

NODES = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=n[1-4] CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=16000 Gres=gpu:4 \
 Weight=10 Feature=gpu
NodeName=n[5-8] CPUs=16 Sockets=2 CoresPerSocket=8 RealMemory=32000 Weight=1 Feature=cpu
NodeName=n[9-10] CPUs=4 RealMemory=8000 Weight=5
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefMemPerCPU=500
PartitionName=capped Nodes=ALL MaxTime=INFINITE DefMemPerCPU=500 MaxCPUsPerNode=6
"""
GPUS = NodeGres("gpu", "", 4, first_index=0, cores=(b"\x0f", b"\x0f", b"\xf0", b"\xf0"))


def place(
    topology: str = "",
    partition: str = "main",
    *,
    gpu_cores: bool = False,
    busy: str = "",
    nodes: str = NODES,
    **fields: Any,
) -> dict[str, NodeAlloc]:
    """Return what a job gets of each node of the empty cluster.

    Args:
        gpu_cores: two GPUs are near each socket; else nobody knows.
        busy: a node that another job has.
        nodes: slurm.conf without the topology.
    """
    conf = conf_of(nodes + ("TopologyPlugin=topology/tree\n" if topology else ""))
    cluster = Cluster()
    topologies = [parse_topology_conf(topology)] if topology else []
    apply_all(cluster, configure(cluster, conf, START_US, topologies))
    for node in cluster.living_nodes():
        gres = (GPUS,) if gpu_cores and node.spec.gres else node.spec.gres
        facts = NodeFacts(gres=gres)
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, facts, NodeState.IDLE))
    if busy:
        whole = JobRequest(partition="main", node_list=busy, flags=REQ_EXCLUSIVE)
        submit(cluster, whole, time_limit_min=60)
        run_pass(cluster, START_US, policy(conf))
    fields.setdefault("nodes_max", fields.get("nodes_min", 0))
    job_id = submit(cluster, JobRequest(partition=partition, **fields), time_limit_min=60)
    run_pass(cluster, START_US, policy(conf))
    return {f"n{alloc.node_id + 1}": alloc for alloc in cluster.jobs[job_id].nodes}


def counts(**fields: Any) -> dict[str, tuple[int, int]]:
    """Return tasks and CPUs of each node."""
    return {name: (alloc.tasks, alloc.cpus) for name, alloc in place(**fields).items()}


BOTH = pytest.mark.parametrize("topology", ["", TREE_OF_TEN], ids=["flat", "tree"])


@BOTH
def test_cpus_of_a_capped_partition_are_counted_on_nodes_with_threads(topology: str) -> None:
    """MaxCPUsPerNode: seven tasks do not fit a node, though threads share its cores."""
    tasks_and_cpus = counts(topology=topology, partition="capped", ntasks=7)
    assert sorted(tasks_and_cpus.values()) == [(1, 1), (6, 6)]


@BOTH
def test_threads_of_all_cores_are_filled(topology: str) -> None:
    """The last nodes have as many cores as their tasks fill, and no half of one more."""
    tasks_and_cpus = counts(topology=topology, ntasks=100)
    assert (tasks_and_cpus["n1"], tasks_and_cpus["n2"]) == ((16, 16), (12, 12))
    assert sum(cpus for _, cpus in tasks_and_cpus.values()) == 100


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"nodes_min": 2, "ntasks": 4}, {"n1": (2, 2), "n2": (2, 2)}),
        ({"nodes_min": 2, "ntasks": 6}, {"n1": (4, 4), "n2": (2, 2)}),
        ({"nodes_min": 2, "ntasks": 4, "gpus_per_task": "1"}, {"n1": (2, 2), "n2": (2, 2)}),
        ({"nodes_min": 2, "ntasks": 3, "cpus_per_task": 2}, {"n1": (2, 4), "n2": (1, 2)}),
    ],
)
def test_two_nodes_do_not_both_hold_half_a_core(
    fields: dict[str, Any], expected: dict[str, tuple[int, int]]
) -> None:
    assert counts(constraint="gpu", **fields) == expected


@BOTH
def test_named_nodes_are_filled_before_others(topology: str) -> None:
    """-w n5 -n20: sixteen tasks there and four beside it, rather than ten on each."""
    tasks_and_cpus = counts(topology=topology, node_list="n5", ntasks=20)
    assert tasks_and_cpus["n5"] == (16, 16)
    assert sorted(tasks_and_cpus.values()) == [(4, 4), (16, 16)]
    tasks_and_cpus = counts(topology=topology, node_list="n3,n5", ntasks=6)
    assert sum(cpus for _, cpus in tasks_and_cpus.values()) == 6


@BOTH
@pytest.mark.parametrize("flags", [0, REQ_SPREAD, REQ_USE_MIN_NODES])
def test_a_named_node_that_is_busy_is_waited_for(topology: str, flags: int) -> None:
    """None of its tasks goes elsewhere first."""
    allocs = place(topology=topology, busy="n5", node_list="n5", ntasks=20, flags=flags)
    assert allocs == {}


def test_least_cpus_of_a_node_do_not_hide_room_for_more_tasks() -> None:
    """--mincpus=8 -n16: one node holds all of them."""
    assert counts(mincpus=8, ntasks=16) == {"n5": (16, 16)}


def test_one_node_is_of_the_tightest_leaf() -> None:
    """n8 is the only light node of its switch: three others stay together."""
    assert list(place(topology=TREE_OF_TEN, ntasks=1, nodes_min=1)) == ["n8"]
    assert list(place(topology=TREE_OF_TEN, ntasks=4)) == ["n8"]


def test_threads_not_used_have_no_memory() -> None:
    """--threads-per-core=1: four cores are charged whole, memory for four CPUs."""
    alloc = place(constraint="gpu", ntasks=4, threads_per_core=1)["n1"]
    assert (alloc.cpus, alloc.mem_mib) == (8, 2000)


def test_tasks_of_a_core_of_several_cpus_fill_a_socket_first() -> None:
    """-c2 on cores of two threads goes as -c2 on cores of one: no task crosses, no socket skips."""
    alloc = place(constraint="gpu", ntasks=5, cpus_per_task=2)["n1"]
    assert int.from_bytes(alloc.cores, "little") == 0b1_1111


def test_gpus_in_all_are_looked_for_where_gpus_are() -> None:
    """--gpus=7 -N2-3: lighter nodes without GPUs are not in the way."""
    allocs = place(gpus="7", nodes_min=2, nodes_max=3)
    assert sum(gres.count for alloc in allocs.values() for gres in alloc.gres) == 7


def test_nodes_larger_than_the_cap_are_not_had_whole() -> None:
    """MaxCPUsPerNode and --exclusive: only the nodes of four CPUs will do."""
    allocs = place(partition="capped", nodes_min=1, flags=REQ_EXCLUSIVE)
    assert {name: alloc.cpus for name, alloc in allocs.items()} == {"n9": 4}


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": "4", "cpus_per_gpu": 2, "nodes_min": 1},
        {"gpus": "4", "cpus_per_gpu": 2, "ntasks": 4},
        {"gpus_per_task": "1", "ntasks": 4, "cpus_per_task": 2},
        {"gpus_per_task": "2", "ntasks": 2, "cpus_per_task": 4},
    ],
)
def test_cores_that_come_with_gpus_are_beside_each(fields: dict[str, Any]) -> None:
    """Four GPUs of two sockets, eight CPUs: two cores of each socket."""
    alloc = place(gpu_cores=True, **fields)["n1"]
    assert int.from_bytes(alloc.cores, "little") == 0b0011_0011


def test_two_cores_of_three_gpus_are_of_both_sockets() -> None:
    """--gpus-per-task=1 -n3 with cores of two threads."""
    alloc = place(gpu_cores=True, gpus_per_task="1", ntasks=3)["n1"]
    assert int.from_bytes(alloc.cores, "little") == 0b0001_0001


def test_cores_that_are_counted_by_task_stay_together() -> None:
    """--gres=gpu:4 -c8: the task does not cross sockets for its GPUs' sake."""
    alloc = place(gpu_cores=True, gres="gpu:4", cpus_per_task=8, nodes_min=1)["n1"]
    assert int.from_bytes(alloc.cores, "little") == 0b0000_1111


@BOTH
def test_memory_that_is_not_counted_is_still_asked_of_the_node(topology: str) -> None:
    """CR_Core: --mem=20G wants a node of so much, though jobs may share it freely."""
    conf = NODES.replace("CR_Core_Memory", "CR_Core")
    wants = {"mem_per_node_mib": 20000, "constraint": "", "ntasks": 1}
    assert set(place(topology=topology, nodes=conf, exclude="n[6-10]", **wants)) == {"n5"}
    assert place(topology=topology, nodes=conf, exclude="n[5-8]", **wants) == {}
    per_cpu = {"mem_per_cpu_mib": 4000, "cpus_per_task": 5, "ntasks": 1}
    assert place(topology=topology, nodes=conf, exclude="n[5-8]", **per_cpu) == {}
