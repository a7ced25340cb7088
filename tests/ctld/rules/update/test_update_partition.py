"""`scontrol update partition`: what has to exist."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.update.update_partition import changed_partition, update_partition
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.wire.query_messages import UpdatePartition
from tests.model.clusters import conf_of
from tests.sched.eight_nodes import cluster_with
from tests.sched.networks import TREE
from tests.world.callers import ROOT
from tests.world.site import Site


def test_the_qos_of_a_partition_exists() -> None:
    """If slurmdbd has named any. Without accounting the name is only shown."""
    scene = Site()
    main = scene.cluster.partitions["main"]
    assert not isinstance(
        changed_partition(scene.cluster, conf_of(), main, {"QOS": "nosuch"}), Reject
    )
    scene.account()
    refusal = changed_partition(scene.cluster, conf_of(), main, {"QOS": "nosuch"})
    assert isinstance(refusal, Reject) and refusal.code == Errno.ESLURM_INVALID_QOS
    for name in ("normal", ""):
        assert not isinstance(
            changed_partition(scene.cluster, conf_of(), main, {"QOS": name}), Reject
        )


def test_the_topology_of_a_partition_exists() -> None:
    """Otherwise its jobs would run as if they had asked for none."""
    cluster = cluster_with(TREE)
    main = cluster.partitions["main"]
    refusal = changed_partition(cluster, conf_of(), main, {"topology": "nope"})
    assert isinstance(refusal, Reject)
    assert refusal.code == Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE
    assert "nope" in refusal.detail
    changed = changed_partition(cluster, conf_of(), main, {"topology": "default"})
    assert isinstance(changed, Partition) and changed.topology == "default"


def test_nodes_of_a_partition_may_be_node_sets() -> None:
    """They are there by name, so that the partition follows the features of nodes."""
    site = Site("NodeSet=few Nodes=n[2-3]\nNodeSet=gpus Feature=gpunode")
    main, cluster, conf = site.cluster.partitions["main"], site.cluster, site.conf
    for words, names, text in (
        ("few,n4", ["n2", "n3", "n4"], "few,n4"),
        ("gpus", ["n1", "n2"], "gpus"),
        ("+gpus", ["n1", "n2", "n3", "n4"], "n[1-4]"),
        ("-few", ["n1", "n4"], "n[1,4]"),
    ):
        changed = changed_partition(cluster, conf, main, {"Nodes": words})
        assert isinstance(changed, Partition)
        assert (cluster.node_names(changed.node_ids), changed.nodes_text) == (names, text)
    refusal = changed_partition(cluster, conf, main, {"Nodes": "few,many"})
    assert isinstance(refusal, Reject) and refusal.code == Errno.ESLURM_INVALID_NODE_NAME


def test_none_takes_the_alternate_partition_away() -> None:
    """The manual of scontrol: `NONE` will clear a previously set alternate partition."""
    site = Site("PartitionName=other Nodes=ALL Alternate=main")
    other = site.cluster.partitions["other"]
    assert other.alternate == "main"
    changed = changed_partition(site.cluster, site.conf, other, {"Alternate": "none"})
    assert isinstance(changed, Partition) and changed.alternate == ""


def test_the_longest_time_may_be_below_the_default() -> None:
    """As in Slurm: `MaxTime=30` alone is how a maintenance is prepared. Jobs have the lower one."""
    site = Site("PartitionName=hour Nodes=ALL MaxTime=120 DefaultTime=60")
    hour = site.cluster.partitions["hour"]
    changed = changed_partition(site.cluster, site.conf, hour, {"MaxTime": "30"})
    assert isinstance(changed, Partition)
    assert (changed.max_time_min, changed.default_time_min) == (30, 60)
    site.cluster.partitions["hour"] = changed
    assert site.running(partition="hour").time_limit_min == 30


def test_a_new_partition_has_the_clusters_memory() -> None:
    """As one of slurm.conf: otherwise its jobs would each take all memory of their nodes."""
    site = Site("DefMemPerCPU=100\nMaxMemPerNode=900")
    request = UpdatePartition(b"0" * 16, "new", settings={"Nodes": "ALL"}, create=True)
    made = update_partition(site.cluster, request, site.context(ROOT))
    assert isinstance(made, Decision)
    site.apply(made.events)
    new = site.cluster.partitions["new"]
    assert (new.def_mem_per_cpu_mib, new.max_mem_per_node_mib, new.min_nodes) == (100, 900, 1)


def test_memory_of_a_partition_comes_and_goes() -> None:
    """`DefMemPerNode=0` gives the cluster's default back; a default of its own replaces that."""
    site = Site("DefMemPerCPU=100")
    own = changed_partition(
        site.cluster, site.conf, site.cluster.partitions["main"], {"DefMemPerNode": "300"}
    )
    assert isinstance(own, Partition)
    assert (own.def_mem_per_cpu_mib, own.def_mem_per_node_mib) == (0, 300)
    assert "def_mem_per_node_mib" not in own.inherited
    again = changed_partition(site.cluster, site.conf, own, {"DefMemPerNode": "0"})
    assert isinstance(again, Partition)
    assert (again.def_mem_per_cpu_mib, again.def_mem_per_node_mib) == (100, 0)
    assert "def_mem_per_cpu_mib" in again.inherited
    none = changed_partition(site.cluster, site.conf, again, {"DefMemPerCPU": "0"})
    assert isinstance(none, Partition) and none.def_mem_per_cpu_mib == 0
