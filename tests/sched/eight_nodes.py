"""Eight nodes in a network that a topology.conf describes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
)
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, conf_of

EIGHT_NODES = """
ClusterName=net
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
NodeName=n[1-8] CPUs=4 RealMemory=1000
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=1-0 DefaultTime=60
"""

Pass = Callable[..., Plan]


def cluster_with(topology: str, text: str = EIGHT_NODES) -> Cluster:
    """Return a cluster of eight idle nodes, of four CPUs where nothing else is said."""
    conf, cluster = conf_of(text), Cluster()
    apply_all(cluster, configure(cluster, conf, START_US, [parse_topology_conf(topology)]))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    return cluster


def whole(nodes: int, **more: object) -> JobRequest:
    """Return a request for whole nodes."""
    request = JobRequest(
        nodes_min=nodes, nodes_max=nodes, ntasks=nodes, flags=REQ_EXCLUSIVE, partition="main"
    )
    return msgspec.structs.replace(request, **more)


def plain_pass(cluster: Cluster, plan: Pass, now_us: int = START_US) -> Plan:
    """Run a pass and let its starts happen."""
    outcome = plan(snapshot(cluster, now_us), Policy())
    for start in outcome.starts:
        apply_all(cluster, dispatch(cluster, start, now_us))
    return outcome
