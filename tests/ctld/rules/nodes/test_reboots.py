"""scontrol reboot: what a node goes through, beside Slurm 22.05 state by state."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.state_names import node_state_full, node_state_words
from pyslurm_ng.ctld.queries.nodes import node_state
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.nodes.registration import register
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.node import Node, NodeFacts
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.wire.query_messages import UpdateNodes
from tests.ctld.rules.started_jobs import WHOLE, running
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

N1 = 0
CONF = conf_of(FOUR_NODES + "\nRebootProgram=/sbin/reboot\nResumeTimeout=60\nReturnToService=1\n")
ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
LATER_US = START_US + SECOND_US


def told(cluster: Cluster, state: str, caller: Caller = ROOT, **settings: str) -> int | None:
    """Give n1 an order; return why not."""
    request = _request({"state": state, **settings})
    outcome = update_nodes(cluster, request, Context(CONF, LATER_US, caller))
    if isinstance(outcome, Reject):
        return outcome.code
    apply_all(cluster, outcome.events)
    assert check(cluster) == []
    return None


def _request(settings: dict[str, str]) -> UpdateNodes:
    return UpdateNodes(request_id=bytes(16), nodes="n1", settings=settings)


def seconds_pass(cluster: Cluster, at_us: int = LATER_US) -> Node:
    """Do what follows from time for as many seconds as there are kinds of it."""
    for second in range(10):
        apply_all(cluster, timers.due(cluster, CONF, {}, at_us + second * SECOND_US))
        assert check(cluster) == []
    return cluster.node(N1)


def booted(cluster: Cluster, boot_id: str) -> Node:
    """Let n1 register."""
    values = {name: getattr(WHOLE, name) for name in WHOLE.__struct_fields__}
    facts = NodeFacts(**{**values, "boot_id": boot_id})
    apply_all(cluster, register(cluster, N1, facts, (), CONF, LATER_US + 20 * SECOND_US))
    assert check(cluster) == []
    return cluster.node(N1)


def fresh() -> Cluster:
    cluster = cluster_of()
    booted(cluster, "first")
    return cluster


def shown(cluster: Cluster) -> tuple[str, str]:
    node = cluster.node(N1)
    state, flags = node_state(cluster, node)
    return node_state_full(state, flags), node_state_words(state, flags)[1]


def test_an_idle_node_boots_and_is_idle_again() -> None:
    """It is DOWN from the order on, and owes the reboot; its return clears the reason."""
    cluster = fresh()
    assert told(cluster, "REBOOT") is None
    assert shown(cluster) == ("IDLE+REBOOT_REQUESTED", "idle@")
    node = seconds_pass(cluster)
    assert shown(cluster) == ("DOWN+REBOOT_ISSUED", "boot^")
    assert node.reason == "reboot requested : reboot issued"
    assert [duty.kind for duty in cluster.duties[N1].values()] == [DutyKind.REBOOT]
    node = booted(cluster, "second")
    assert shown(cluster) == ("IDLE", "idle")
    assert (node.reason, node.reboot_by_us, cluster.duties) == ("", 0, {})


def test_a_slurmd_that_was_only_started_again_has_not_booted() -> None:
    """The same boot id: the node is still on its way."""
    cluster = fresh()
    told(cluster, "REBOOT")
    seconds_pass(cluster)
    booted(cluster, "first")
    assert shown(cluster)[0] == "DOWN+REBOOT_ISSUED"


def test_jobs_end_before_the_node_boots() -> None:
    """Without ASAP others may still start there; with it, none."""
    cluster = fresh()
    running(cluster, node_list="n1")
    assert told(cluster, "REBOOT") is None
    node = seconds_pass(cluster)
    assert node.flags & NodeFlag.REBOOT_REQUESTED and node.state == NodeState.IDLE
    assert cluster.node_index.columns.usable[N1]
    assert told(cluster, "REBOOT_ASAP") is None
    assert not cluster.node_index.columns.usable[N1]
    assert shown(cluster) == ("MIXED+DRAIN+REBOOT_REQUESTED", "drng@")
    assert (node.reason, node.next_state) == ("reboot requested", "RESUME")


@pytest.mark.parametrize(
    ("next_state", "state", "reason"),
    [
        ("", "IDLE", ""),
        ("RESUME", "IDLE", ""),
        ("DOWN", "DOWN", "Reboot ASAP : reboot issued : reboot complete"),
    ],
)
def test_asap_drains_until_the_node_has_booted(next_state: str, state: str, reason: str) -> None:
    cluster = fresh()
    assert told(cluster, "REBOOT_ASAP", nextstate=next_state) is None
    assert shown(cluster)[0] == "IDLE+DRAIN+REBOOT_REQUESTED"
    seconds_pass(cluster)
    node = booted(cluster, "second")
    assert (shown(cluster)[0], node.reason, node.next_state) == (state, reason, "")


def test_an_administrators_drain_outlives_a_plain_reboot() -> None:
    cluster = fresh()
    told(cluster, "DRAIN", reason="mine")
    told(cluster, "REBOOT")
    seconds_pass(cluster)
    node = booted(cluster, "second")
    assert (shown(cluster)[0], node.reason) == ("IDLE+DRAIN", "mine : reboot issued")


def test_a_node_that_does_not_come_back_is_down() -> None:
    """After ResumeTimeout; it owes nothing then, and stays down when it registers late."""
    cluster = fresh()
    told(cluster, "REBOOT", reason="new kernel")
    seconds_pass(cluster)
    node = seconds_pass(cluster, LATER_US + 70 * SECOND_US)
    assert node.reason == "new kernel : reboot issued : reboot timed out"
    assert (shown(cluster)[0], cluster.duties) == ("DOWN", {})
    booted(cluster, "second")
    assert shown(cluster)[0] == "DOWN"


def test_a_reboot_is_cancelled_until_it_is_issued() -> None:
    """The drain of ASAP goes with it, that of an administrator does not."""
    cluster = fresh()
    assert told(cluster, "CANCEL_REBOOT") == Errno.ESLURM_INVALID_NODE_STATE
    told(cluster, "REBOOT_ASAP")
    assert told(cluster, "CANCEL_REBOOT") is None
    assert (shown(cluster)[0], cluster.node(N1).reason) == ("IDLE", "")
    told(cluster, "REBOOT_ASAP", reason="kernel")
    assert told(cluster, "CANCEL_REBOOT") is None
    assert (shown(cluster)[0], cluster.node(N1).reason) == ("IDLE", "")
    told(cluster, "REBOOT_ASAP", reason="kernel")
    told(cluster, "DRAIN", reason="later")
    assert told(cluster, "CANCEL_REBOOT") is None
    assert (shown(cluster)[0], cluster.node(N1).reason) == ("IDLE+DRAIN", "later")
    told(cluster, "DRAIN", reason="mine")
    told(cluster, "REBOOT_ASAP")
    assert told(cluster, "CANCEL_REBOOT") is None
    assert (shown(cluster)[0], cluster.node(N1).reason) == ("IDLE+DRAIN", "mine")
    told(cluster, "REBOOT")
    seconds_pass(cluster)
    assert told(cluster, "CANCEL_REBOOT") == Errno.ESLURM_INVALID_NODE_STATE
    assert told(cluster, "REBOOT") is None
    assert shown(cluster)[0] == "DOWN+DRAIN+REBOOT_ISSUED"


@pytest.mark.parametrize("state", ["RESUME", "FUTURE"])
def test_an_administrator_takes_a_node_back_while_it_boots(state: str) -> None:
    """Then it owes no reboot."""
    cluster = fresh()
    told(cluster, "REBOOT")
    seconds_pass(cluster)
    assert told(cluster, state) is None
    node = cluster.node(N1)
    flags = node.flags & (NodeFlag.REBOOT_ISSUED | NodeFlag.REBOOT_REQUESTED)
    assert (flags, node.reboot_by_us, cluster.duties) == (0, 0, {})


def test_only_administrators_reboot_nodes() -> None:
    operator = Caller(1, 1, "op", is_operator=True)
    assert told(fresh(), "REBOOT", operator) == Errno.ESLURM_USER_ID_MISSING
    assert told(fresh(), "CANCEL_REBOOT", operator) == Errno.ESLURM_USER_ID_MISSING


def test_without_a_program_no_node_boots() -> None:
    request = _request({"state": "REBOOT"})
    outcome = update_nodes(fresh(), request, Context(conf_of(FOUR_NODES), LATER_US, ROOT))
    assert isinstance(outcome, Reject) and outcome.code == Errno.SLURM_ERROR
