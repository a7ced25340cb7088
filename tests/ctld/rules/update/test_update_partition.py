"""`scontrol update partition`: what has to exist."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.update.update_partition import changed_partition
from tests.ctld.rules.test_reasons import Scene


def test_the_qos_of_a_partition_exists() -> None:
    """Where slurmdbd has told of any; without accounting the name is only shown."""
    scene = Scene()
    main = scene.cluster.partitions["main"]
    assert not isinstance(changed_partition(scene.cluster, main, {"QOS": "nosuch"}), Reject)
    scene.account()
    found = changed_partition(scene.cluster, main, {"QOS": "nosuch"})
    assert isinstance(found, Reject) and found.code == Errno.ESLURM_INVALID_QOS
    for name in ("normal", ""):
        assert not isinstance(changed_partition(scene.cluster, main, {"QOS": name}), Reject)
