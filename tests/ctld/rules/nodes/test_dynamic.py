"""Dynamic nodes: made by scontrol or a slurmd with -Z, kept over restarts, deleted when idle."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.state_names import node_state_full
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.nodes.dynamic import create_nodes, delete_nodes, joined
from pyslurm_ng.ctld.rules.nodes.registration import register
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import NodeFlag
from pyslurm_ng.wire.query_messages import CreateNodes, DeleteNodes
from tests.ctld.rules.started_jobs import running
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

TEXT = FOUR_NODES + (
    "MaxNodeCount=8\nNodeSet=fast Feature=f1\n"
    "PartitionName=fast Nodes=fast\nPartitionName=all Nodes=ALL\n"
)
CONF = conf_of(TEXT)
ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
USER = Caller(1000, 1000, "ann", is_admin=False, is_operator=False)


def create(cluster: Cluster, line: str, caller: Caller = ROOT) -> Reject | None:
    """Run `scontrol create`; return why not."""
    outcome = create_nodes(cluster, CreateNodes(bytes(16), line), Context(CONF, START_US, caller))
    if isinstance(outcome, Reject):
        return outcome
    apply_all(cluster, outcome.events)
    assert check(cluster) == []
    return None


def delete(cluster: Cluster, nodes: str, caller: Caller = ROOT) -> Reject | None:
    """Run `scontrol delete nodename=`; return why not."""
    outcome = delete_nodes(cluster, DeleteNodes(bytes(16), nodes), Context(CONF, START_US, caller))
    if isinstance(outcome, Reject):
        return outcome
    apply_all(cluster, outcome.events)
    assert check(cluster) == []
    return None


def members(cluster: Cluster, partition: str) -> list[str]:
    return cluster.node_names(cluster.partitions[partition].node_ids)


def shown(cluster: Cluster, name: str) -> str:
    node = cluster.node(cluster.node_index.by_name[name])
    return node_state_full(*node_state(cluster, node))


def test_nodes_are_made_and_join_the_partitions_of_their_features() -> None:
    """ALL has them, and so has a node set by their feature; other partitions do not change."""
    cluster = cluster_of(CONF)
    assert create(cluster, "nodename=d[1-2] CPUs=2 RealMemory=100 State=CLOUD Feature=f1") is None
    assert create(cluster, "NodeName=d3 CPUs=4 State=FUTURE") is None
    assert members(cluster, "fast") == ["d1", "d2"]
    assert members(cluster, "all") == ["n1", "n2", "n3", "n4", "d1", "d2", "d3"]
    assert members(cluster, "main") == ["n1", "n2", "n3", "n4"]
    assert shown(cluster, "d1") == "IDLE+CLOUD+DYNAMIC_NORM+POWERED_DOWN"
    assert shown(cluster, "d3") == "FUTURE+DYNAMIC_NORM"


def test_a_node_that_is_there_stays_as_it_is() -> None:
    """Slurm 22.05 says nothing, either, so that a script may run twice."""
    cluster = cluster_of(CONF)
    assert create(cluster, "nodename=n1 State=CLOUD CPUs=99") is None
    assert cluster.node(0).spec.cpus == 16


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("nodename=d5 CPUs=2", Errno.ESLURM_INVALID_NODE_STATE, "Only State=FUTURE and State="),
        ("nodename=d5 State=IDLE", Errno.ESLURM_INVALID_NODE_STATE, "Only State=FUTURE"),
        ("nodename=d5 Foo=2 State=CLOUD", Errno.SLURM_ERROR, "Failed to parse nodeline 'nodename"),
        ("nodename=d5 CPUs=x State=CLOUD", Errno.SLURM_ERROR, "Failed to parse nodeline"),
        ("node nodename=d5 State=CLOUD", Errno.SLURM_ERROR, "Failed to parse nodeline"),
        ("nodename=", Errno.SLURM_ERROR, "Failed to parse nodeline"),
        ("nodename=ALL State=CLOUD", Errno.SLURM_ERROR, "Failed to parse nodeline"),
        ("nodename=DEFAULT State=CLOUD", Errno.SLURM_ERROR, "Failed to parse nodeline"),
        ("", Errno.SLURM_ERROR, "Failed to parse nodeline"),
        ("nodename=e[1-9] State=CLOUD", Errno.ESLURM_INVALID_NODE_COUNT, "node table is full (e5)"),
        ("nodename=e[1-999999999] State=CLOUD", Errno.SLURM_ERROR, "Failed to parse nodeline"),
    ],
)  # fmt: skip
def test_bad_lines_make_nothing(line: str, code: int, text: str) -> None:
    """All or none, with Slurm's words."""
    cluster = cluster_of(CONF)
    refused = create(cluster, line)
    assert refused is not None
    assert refused.code == code
    assert text in refused.detail
    assert len(cluster.nodes) == 4


def test_only_administrators_make_and_delete_nodes() -> None:
    cluster = cluster_of(CONF)
    for refused in (create(cluster, "nodename=d1 State=CLOUD", USER), delete(cluster, "n1", USER)):
        assert refused is not None
        assert refused.code == Errno.ESLURM_USER_ID_MISSING


def test_a_slurmd_with_z_makes_its_node_and_registers() -> None:
    """The name in its line must be that of its credential; the node is then like any other."""
    cluster = cluster_of(CONF)
    wrong = joined(cluster, "d2", "NodeName=d1 CPUs=2", CONF, START_US)
    assert isinstance(wrong, Reject)
    events = joined(cluster, "d1", "NodeName=d1 CPUs=2 Feature=f1 State=CLOUD", CONF, START_US)
    assert not isinstance(events, Reject)
    apply_all(cluster, events)
    facts = NodeFacts(cpus=2, real_memory_mib=100, boot_id="b")
    apply_all(cluster, register(cluster, 4, facts, (), CONF, START_US))
    assert shown(cluster, "d1") == "IDLE+DYNAMIC_NORM"
    assert members(cluster, "fast") == ["d1"]
    assert check(cluster) == []


def test_dynamic_nodes_outlive_restarts_and_reconfigurations() -> None:
    """Their partitions keep them; a line in slurm.conf makes an ordinary node of one."""
    cluster = cluster_of(CONF)
    create(cluster, "nodename=d1 CPUs=2 State=CLOUD Feature=f1")
    for keeps in (True, False):
        apply_all(cluster, configure(cluster, CONF, START_US, keep_partitions=keeps))
        assert members(cluster, "fast") == ["d1"]
        assert members(cluster, "all")[-1] == "d1"
    configured = conf_of(TEXT + "NodeName=d1 CPUs=2 State=CLOUD Feature=f1\n")
    apply_all(cluster, configure(cluster, configured, START_US))
    assert not cluster.node(4).flags & NodeFlag.DYNAMIC_NORM
    assert check(cluster) == []


def test_idle_dynamic_nodes_are_deleted() -> None:
    """Their number is not given again, but their name is free."""
    cluster = cluster_of(CONF)
    create(cluster, "nodename=d[1-2] CPUs=2 State=CLOUD Feature=f1")
    assert delete(cluster, "d1") is None
    assert members(cluster, "fast") == ["d2"]
    assert "d1" not in cluster.node_index.by_name
    assert create(cluster, "nodename=d1 CPUs=8 State=FUTURE") is None
    assert cluster.node_index.by_name["d1"] == 6


def test_what_is_used_or_configured_is_not_deleted() -> None:
    """None of a list is deleted, and the text says which node is why."""
    cluster = cluster_of(CONF)
    create(cluster, "nodename=d1 State=CLOUD")
    events = joined(cluster, "d2", "NodeName=d2 CPUs=16 RealMemory=64000", CONF, START_US)
    assert not isinstance(events, Reject)
    apply_all(cluster, events)
    apply_all(cluster, register(cluster, 5, NodeFacts(), (), CONF, START_US))
    weekend = Reservation("weekend", START_US, START_US + 10, (4,))
    apply_all(cluster, [ev.ReservationCreated(START_US, weekend)])
    running(cluster, node_list="d2", partition="all")
    for nodes, code, text in (
        ("n1", Errno.ESLURM_INVALID_NODE_STATE, "n1: it is in slurm.conf"),
        ("d1", Errno.ESLURM_NODES_BUSY, "d1: reservation weekend has it"),
        ("d2", Errno.ESLURM_NODES_BUSY, "d2: jobs are on it"),
        ("d9", Errno.ESLURM_INVALID_NODE_NAME, "failed to delete nodes d9"),
        ("ALL", Errno.ESLURM_INVALID_NODE_NAME, ""),
        ("", Errno.ESLURM_INVALID_NODE_NAME, ""),
    ):
        refused = delete(cluster, nodes)
        assert refused is not None
        assert refused.code == code
        assert text in refused.detail


def test_a_node_of_the_future_is_in_service_when_it_registers() -> None:
    """State=FUTURE: such a node is not there, for jobs and listings, until its slurmd comes."""
    cluster = cluster_of(CONF)
    create(cluster, "nodename=d1 CPUs=2 State=FUTURE")
    assert not cluster.node_index.columns.usable[4]
    apply_all(cluster, register(cluster, 4, NodeFacts(cpus=2), (), CONF, START_US))
    assert shown(cluster, "d1") == "IDLE+DYNAMIC_NORM"
    assert cluster.node_index.columns.usable[4]
