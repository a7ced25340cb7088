"""A partition whose NodeSet names a feature has the nodes that have it now."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.query_messages import UpdateNodes
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
TEXT = FOUR_NODES + (
    "NodeSet=gpus Feature=gpunode\nNodeSet=both Feature=fast Nodes=n1\n"
    "PartitionName=set Nodes=gpus\nPartitionName=mixed Nodes=both,n2\nPartitionName=all Nodes=ALL\n"
)


def members(cluster: Cluster, name: str) -> list[str]:
    """Return the nodes of a partition."""
    return cluster.node_names(cluster.partitions[name].node_ids)


def update(cluster: Cluster, nodes: str, features: str, text: str = TEXT) -> None:
    """Run `scontrol update node AvailableFeatures= ActiveFeatures=`."""
    settings = {"availablefeatures": features, "activefeatures": features}
    request = UpdateNodes(request_id=bytes(16), nodes=nodes, settings=settings)
    decision = update_nodes(cluster, request, Context(conf_of(text), START_US, ROOT))
    assert isinstance(decision, Decision)
    apply_all(cluster, decision.events)


def test_nodes_come_and_go_with_the_feature() -> None:
    """Other partitions stay as they are; what is listed by name stays, too."""
    cluster = cluster_of(conf_of(TEXT))
    assert members(cluster, "set") == ["n1", "n2"]
    assert members(cluster, "mixed") == ["n1", "n2"]
    update(cluster, "n3", "gpunode,fast")
    update(cluster, "n1", "")
    assert members(cluster, "set") == ["n2", "n3"]
    assert members(cluster, "mixed") == ["n1", "n2", "n3"]
    assert members(cluster, "all") == ["n1", "n2", "n3", "n4"]
    assert members(cluster, "gpu") == ["n1", "n2"]


def test_the_nodes_stay_when_the_configuration_is_read_again() -> None:
    """Features that were set by hand hold until the node's line has others; so do the members."""
    cluster = cluster_of(conf_of(TEXT))
    update(cluster, "n3", "gpunode")
    apply_all(cluster, configure(cluster, conf_of(TEXT), START_US))
    assert members(cluster, "set") == ["n1", "n2", "n3"]
    changed = conf_of(TEXT.replace("Feature=cpunode,ib", "Feature=other"))
    apply_all(cluster, configure(cluster, changed, START_US))
    assert members(cluster, "set") == ["n1", "n2"]


def test_a_set_may_become_empty() -> None:
    """A feature that no node has is no error."""
    cluster = cluster_of(conf_of(TEXT))
    update(cluster, "n[1-4]", "none")
    assert members(cluster, "set") == []
