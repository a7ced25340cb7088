"""`scontrol update node Gres=`: counts are free, devices are all there or none."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.check import check
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.wire.query_messages import UpdateNodes
from tests.world.site import Site

ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
NODE = (
    "GresTypes=gpu,bandwidth\nNodeName=g1 CPUs=16 CoresPerSocket=16 RealMemory=4096 "
    "Gres=gpu:2,bandwidth:4\nPartitionName=gpus Nodes=g1"
)
DEVICES = (
    NodeGres("gpu", "", 2, files=("/dev/x0", "/dev/x1")),
    NodeGres("bandwidth", "", 4),
)


@pytest.fixture
def scene() -> Site:
    """A node with two GPUs that have files, and something that is only counted."""
    site = Site(NODE)
    node_id = site.cluster.node_index.by_name["g1"]
    registered = ev.NodeRegistered(site.now_us, node_id, NodeFacts(gres=DEVICES), NodeState.IDLE)
    site.apply([registered])
    return site


def change(scene: Site, gres: str) -> Reject | str:
    """Set Gres= of the node; return the refusal, or how the node shows it."""
    request = UpdateNodes(bytes(16), "g1", {"gres": gres})
    decision = update_nodes(scene.cluster, request, scene.context(ROOT))
    if isinstance(decision, Reject):
        return decision
    scene.apply(decision.events)
    check(scene.cluster)
    return scene.cluster.node(scene.cluster.node_index.by_name["g1"]).spec.gres_text


def test_counts_change_until_slurm_conf_is_read_again(scene: Site) -> None:
    assert change(scene, "gpu:2,bandwidth:9") == "gpu:2,bandwidth:9"
    job = scene.running(partition="gpus", gres="bandwidth:8")
    assert job.nodes[0].gres[0].count == 8
    assert change(scene, "gpu:2") == "gpu:2"
    assert scene.submit(partition="gpus", gres="bandwidth:1") == (
        Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    )


def test_of_devices_with_files_there_are_all_or_none(scene: Site) -> None:
    """As scontrol's manual says: to change it, slurm.conf and gres.conf are edited."""
    for wrong in ("gpu:1", "gpu:3", "gpu:a:1,gpu:b:2"):
        assert getattr(change(scene, wrong), "code", 0) == Errno.ESLURM_INVALID_GRES
    job = scene.running(partition="gpus", gres="gpu:1")
    assert change(scene, "gpu:0") == "gpu:0"
    assert scene.submit(partition="gpus", gres="gpu:1") == (
        Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    )
    assert job.nodes[0].gres[0].count == 1
    assert change(scene, "") == ""
    assert change(scene, "gpu:2") == "gpu:2"


@pytest.mark.parametrize("wrong", ["nic:1", "gpu:x:y:z", "gpu:2,gpu:2", ":"])
def test_other_words_are_refused(scene: Site, wrong: str) -> None:
    assert getattr(change(scene, wrong), "code", 0) == Errno.ESLURM_INVALID_GRES
