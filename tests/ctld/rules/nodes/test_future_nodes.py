"""`slurmd -F`: hosts that become FUTURE nodes of slurm.conf."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.nodes.future_nodes import take_future_node
from pyslurm_ng.ctld.rules.nodes.registration import register
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model.check import check
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.wire.future_node_messages import FutureNode, TakeFutureNode
from pyslurm_ng.wire.query_messages import UpdateNodes
from tests.ctld.rules.started_jobs import WHOLE
from tests.world.callers import ALICE, ROOT
from tests.world.site import Site

FUTURE = (
    "NodeName=f[1-2] Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 State=FUTURE\n"
    "NodeName=f3 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 Feature=fast State=FUTURE\n"
    "NodeName=f4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 State=FUTURE\n"
)


def take(scene: Site, hostname: str, who: Any = ROOT, **fields: Any) -> str | Reject:
    """Start slurmd -F on a host; return the node that it is."""
    hardware = {"sockets": 2, "cores_per_socket": 8, "threads_per_core": 1}
    request = TakeFutureNode(bytes(16), hostname, f"{hostname}.site", **(hardware | fields))
    outcome = take_future_node(scene.cluster, request, scene.context(who))
    if isinstance(outcome, Reject):
        return outcome
    scene.apply(list(outcome.events))
    assert isinstance(outcome.reply, FutureNode)
    return outcome.reply.name


def node(scene: Site, name: str) -> Node:
    return scene.cluster.node(scene.cluster.node_index.by_name[name])


def set_future(scene: Site, names: str) -> None:
    """Run `scontrol update nodename= state=future`."""
    request = UpdateNodes(bytes(16), names, {"state": "FUTURE"})
    outcome = update_nodes(scene.cluster, request, scene.context(ROOT))
    assert isinstance(outcome, Decision)
    scene.apply(list(outcome.events))


def site(more: str = "") -> Site:
    """Return a site whose nodes f1 to f4 no host has taken."""
    scene = Site(FUTURE + more)
    set_future(scene, "f[1-4]")
    return scene


@pytest.fixture
def scene() -> Site:
    return site()


def test_each_host_gets_the_first_free_node_of_its_hardware(scene: Site) -> None:
    """By feature, if it names one; a host that comes again has the node that it had."""
    assert take(scene, "a") == "f1"
    assert take(scene, "b", feature="fast") == "f3"
    assert take(scene, "c", sockets=1, cores_per_socket=4) == "f4"
    assert take(scene, "d") == "f2"
    assert take(scene, "a") == "f1"
    assert (node(scene, "f1").spec.hostname, node(scene, "f1").spec.addr) == ("a", "a.site")


@pytest.mark.parametrize(
    "fields",
    [{"sockets": 4}, {"threads_per_core": 2}, {"feature": "slow"}, {"cores_per_socket": 9}],
)
def test_a_host_that_no_node_is_like_is_told_so(scene: Site, fields: dict[str, Any]) -> None:
    refusal = take(scene, "a", **fields)
    assert isinstance(refusal, Reject)
    assert refusal.code == Errno.ESLURM_INVALID_NODE_NAME
    assert refusal.detail.startswith("no FUTURE node")


def test_pretended_hardware_is_not_compared() -> None:
    """SlurmdParameters=config_overrides: the node has what slurm.conf says."""
    scene = site("SlurmdParameters=config_overrides\n")
    assert take(scene, "a", sockets=1, cores_per_socket=2) == "f1"


def test_only_administrators_hand_nodes_out(scene: Site) -> None:
    assert take(scene, "a", ALICE) == Reject(Errno.ESLURM_USER_ID_MISSING)


def test_it_is_in_service_once_it_has_registered(scene: Site) -> None:
    """Also after a reconfigure; set to FUTURE it is free for another host."""
    take(scene, "a")
    future = node(scene, "f1")
    assert future.state == NodeState.FUTURE
    facts = msgspec.structs.replace(WHOLE, gres=())
    scene.apply(register(scene.cluster, future.node_id, facts, [], scene.conf, scene.now_us))
    assert (future.state, future.flags) == (NodeState.IDLE, NodeFlag.DYNAMIC_FUTURE)
    scene.apply(configure(scene.cluster, scene.conf, scene.now_us))
    assert (future.state, future.spec.hostname) == (NodeState.IDLE, "a")
    set_future(scene, "f1")
    assert (future.state, future.flags, future.spec.hostname) == (NodeState.FUTURE, 0, "f1")
    assert take(scene, "b") == "f1"
    assert check(scene.cluster) == []
