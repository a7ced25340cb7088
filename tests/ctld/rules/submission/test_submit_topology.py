"""What no state of the cluster could place in its topology is refused at submission."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_GRES_ENFORCE_BIND
from pyslurm_ng.ctld.rules.submission.feasible import feasible
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.request.need import Selection
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.sched.eight_nodes import cluster_with
from tests.sched.networks import BLOCKS, TREE


def judge(topology: str, nodes: int, **more: object) -> Reject | None:
    """Return how a request for whole nodes is judged."""
    cluster = cluster_with(topology)
    request = JobRequest(
        nodes_min=nodes, nodes_max=nodes, ntasks=nodes, flags=REQ_EXCLUSIVE, partition="main"
    )
    request = msgspec.structs.replace(request, **more)
    return feasible(cluster, request, cluster.partitions["main"], Selection(with_memory=False))


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        (5, {"segment": 2}),
        (8, {"segment": 3}),
        (4, {"node_list": "n[1-2,5-6]"}),
        (3, {"node_list": "n1,n5"}),
        (4, {"exclude": "n[1,5]"}),
    ],
)
def test_what_no_block_could_hold_is_refused(nodes: int, more: dict[str, str | int]) -> None:
    """Segments that do not divide the nodes, or required nodes in several blocks."""
    refusal = judge(BLOCKS, nodes, **more)
    assert refusal is not None
    assert refusal.code == Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE
    assert refusal.text == "Requested topology configuration is not available"


@pytest.mark.parametrize(
    ("topology", "nodes", "more"),
    [
        (BLOCKS, 4, {"segment": 2, "node_list": "n[1-2,5-6]"}),
        (BLOCKS, 3, {"segment": 4}),
        (BLOCKS, 6, {}),
        (BLOCKS, 9, {}),
        (TREE, 5, {"segment": 2}),
        (TREE, 4, {"node_list": "n[1-2,5-6]"}),
    ],
)
def test_jobs_that_could_run_later_are_accepted(
    topology: str, nodes: int, more: dict[str, str | int]
) -> None:
    """Wide jobs wait for nodes to be added. Segments have no effect in a tree."""
    assert judge(topology, nodes, **more) is None


def test_cores_near_its_gpus_may_be_too_few_for_ever() -> None:
    """--gres-flags=enforce-binding with more CPUs than lie near one GPU is refused at once."""
    gpus = tuple(NodeGres("gpu", "", 1, cores=(b"\x0f",), first_index=at) for at in range(2))
    conf = conf_of(
        "ClusterName=c\nSlurmctldHost=c\nAuthType=auth/slurm\nCredType=cred/slurm\nGresTypes=gpu\n"
        "NodeName=g1 CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 Gres=gpu:2\n"
        "PartitionName=main Nodes=g1 Default=YES"
    )
    cluster = cluster_of(conf)
    apply_all(cluster, [ev.NodeRegistered(START_US, 0, NodeFacts(gres=gpus), NodeState.IDLE)])
    partition, plain = cluster.partitions["main"], Selection(with_memory=False)

    def refused(cpus: int, flags: int) -> bool:
        request = JobRequest(nodes_min=1, ntasks=1, cpus_per_task=cpus, gpus="1", flags=flags)
        return feasible(cluster, request, partition, plain) is not None

    assert not refused(5, 0)
    assert not refused(4, REQ_GRES_ENFORCE_BIND)
    assert refused(5, REQ_GRES_ENFORCE_BIND)
