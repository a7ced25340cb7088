"""`scontrol update partition`: what has to exist."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.update.update_partition import changed_partition
from pyslurm_ng.model.partition import Partition
from tests.sched.eight_nodes import cluster_with
from tests.sched.networks import TREE
from tests.world.site import Site


def test_the_qos_of_a_partition_exists() -> None:
    """Where slurmdbd has told of any; without accounting the name is only shown."""
    scene = Site()
    main = scene.cluster.partitions["main"]
    assert not isinstance(changed_partition(scene.cluster, main, {"QOS": "nosuch"}), Reject)
    scene.account()
    found = changed_partition(scene.cluster, main, {"QOS": "nosuch"})
    assert isinstance(found, Reject) and found.code == Errno.ESLURM_INVALID_QOS
    for name in ("normal", ""):
        assert not isinstance(changed_partition(scene.cluster, main, {"QOS": name}), Reject)


def test_the_topology_of_a_partition_exists() -> None:
    """Else its jobs would run as if they had asked for none."""
    cluster = cluster_with(TREE)
    main = cluster.partitions["main"]
    refusal = changed_partition(cluster, main, {"topology": "nope"})
    assert isinstance(refusal, Reject)
    assert refusal.code == Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE
    assert "nope" in refusal.detail
    changed = changed_partition(cluster, main, {"topology": "default"})
    assert isinstance(changed, Partition) and changed.topology == "default"
