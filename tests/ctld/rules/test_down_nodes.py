"""DownNodes put nodes out of service: new nodes at once, known ones at each configuration."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.states import JobState, NodeFlag, NodeState
from tests.ctld.rules.started_jobs import running
from tests.model.clusters import START_US, cluster_of, conf_of

CONF = """
ClusterName=p
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
NodeName=n[1-3] CPUs=4 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES
"""
LATER_US = START_US + 1_000_000


def configured_again(cluster: Cluster, line: str) -> Node:
    """Return n2 after a reconfigure with one more line."""
    apply_all(cluster, configure(cluster, conf_of(CONF + line), LATER_US))
    return cluster.node(cluster.node_index.by_name["n2"])


@pytest.mark.parametrize(
    ("state", "base", "flag"),
    [
        ("DOWN", NodeState.DOWN, NodeFlag.NONE),
        ("DRAIN", NodeState.IDLE, NodeFlag.DRAIN),
        ("FAIL", NodeState.IDLE, NodeFlag.FAIL),
    ],
)
def test_known_nodes_go_down_when_they_are_named(
    state: str, base: NodeState, flag: NodeFlag
) -> None:
    """As with Slurm 22.05: a restart or reconfigure is enough; other nodes stay as they are."""
    cluster = cluster_of(conf_of(CONF))
    node = configured_again(cluster, f"DownNodes=n2 State={state} Reason=broken\n")
    assert (node.state, node.flags & flag, node.reason) == (base, flag, "broken")
    assert node.reason_us == LATER_US
    assert cluster.node(0).state == NodeState.IDLE and not cluster.node(0).flags


def test_a_job_on_such_a_node_loses_it() -> None:
    """It is requeued, as any job whose node goes down."""
    cluster = cluster_of(conf_of(CONF))
    job = running(cluster, partition="main", node_list="n2")
    assert job.state == JobState.RUNNING
    configured_again(cluster, "DownNodes=n2 State=DOWN Reason=broken\n")
    assert (job.state, job.nodes) == (JobState.PENDING, ())


def test_nodes_that_are_down_keep_their_reason() -> None:
    """Nothing changes at the next reconfigure."""
    cluster = cluster_of(conf_of(CONF))
    line = "DownNodes=n2 State=DOWN Reason=broken\n"
    configured_again(cluster, line)
    again = configure(cluster, conf_of(CONF + line), LATER_US + 1)
    assert [type(event).__name__ for event in again] == ["ConfigLoaded"]
