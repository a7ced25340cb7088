"""How each event of nodes changes the Cluster."""

from __future__ import annotations

from .. import events as ev
from ..cluster import Cluster
from ..node import Node
from ..states import NodeFlag, NodeState
from ..topology import placed
from .duties import node_is_clean, reboot_duty
from .registry import applies, field_types, set_fields

_NODE_TYPES = field_types(Node)
_POWER = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP


@applies(ev.NodeRegistered)
def _node_registered(cluster: Cluster, event: ev.NodeRegistered) -> None:
    node = cluster.node(event.node_id)
    has_power = (node.flags ^ event.flags) & _POWER
    if node.state == NodeState.FUTURE or node.facts.gres != event.facts.gres or has_power:
        cluster.node_changes += 1
    node.facts = event.facts
    node.instance_id = event.facts.instance_id or node.instance_id
    node.instance_type = event.facts.instance_type or node.instance_type
    node.registered_us = event.time_us
    _set_node_state(node, event.state, event.flags, event.reason, event.time_us)
    if not node.last_busy_us:
        node.last_busy_us = event.time_us
    cluster.node_index.update(event.node_id)


def _set_node_state(node: Node, state: int, flags: int, reason: str, time_us: int) -> None:
    node.state, node.flags = state, flags
    if reason != node.reason:
        node.reason = reason
        node.reason_us = time_us if reason else 0
        node.reason_uid = 0
    if state != NodeState.DOWN:
        node.down_for_silence = False


@applies(ev.NodeUpdated)
def _node_updated(cluster: Cluster, event: ev.NodeUpdated) -> None:
    cluster.node_changes += 1
    for node_id in event.node_ids:
        set_fields(cluster.node(node_id), event.fields, _NODE_TYPES)
        cluster.node_index.update(node_id)
    if "topology" in event.fields:
        topologies = {node_id: cluster.node(node_id).topology for node_id in event.node_ids}
        cluster.topologies = placed(cluster.topologies, topologies)


@applies(ev.NodesDown)
def _nodes_down(cluster: Cluster, event: ev.NodesDown) -> None:
    for node_id in event.node_ids:
        node = cluster.node(node_id)
        node.state = NodeState.DOWN
        node.reason, node.reason_us, node.reason_uid = event.reason, event.time_us, event.uid
        node.down_for_silence = event.for_silence
        cluster.duties.pop(node_id, None)
        for job_id in list(cluster.node_index.use[node_id].completing):
            node_is_clean(cluster, job_id, node_id, event.time_us)
        cluster.node_index.update(node_id)


@applies(ev.NodesReturned)
def _nodes_returned(cluster: Cluster, event: ev.NodesReturned) -> None:
    for node_id in event.node_ids:
        node = cluster.node(node_id)
        flags = node.flags & ~NodeFlag.NOT_RESPONDING
        reason = node.reason if flags & (NodeFlag.DRAIN | NodeFlag.FAIL) else ""
        _set_node_state(node, NodeState.IDLE, flags, reason, event.time_us)
        node.last_busy_us = event.time_us
        cluster.node_index.update(node_id)


@applies(ev.NodesSilent)
def _nodes_silent(cluster: Cluster, event: ev.NodesSilent) -> None:
    for node_id in event.node_ids:
        node = cluster.node(node_id)
        if event.silent:
            node.flags |= NodeFlag.NOT_RESPONDING
        else:
            node.flags &= ~NodeFlag.NOT_RESPONDING
        cluster.node_index.update(node_id)


@applies(ev.NodeRebootIssued)
def _node_reboot_issued(cluster: Cluster, event: ev.NodeRebootIssued) -> None:
    cluster.node_changes += 1
    node = cluster.node(event.node_id)
    assert node.state == NodeState.DOWN, node
    node.flags = node.flags & ~NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
    node.reboot_by_us = event.by_us
    reboot_duty(cluster, event.node_id, event.first_duty_id, event.time_us)
    cluster.node_index.update(event.node_id)


_ENDED_BY = {
    NodeFlag.POWERING_UP: NodeFlag.POWER_UP | NodeFlag.POWERED_DOWN,
    NodeFlag.POWERING_DOWN: NodeFlag.POWER_DOWN | NodeFlag.POWERING_UP | NodeFlag.POWERED_DOWN,
    NodeFlag.POWERED_DOWN: (
        NodeFlag.POWERING_DOWN | NodeFlag.POWERING_UP | NodeFlag.POWER_DOWN
        | NodeFlag.NOT_RESPONDING
    ),
}  # fmt: skip


@applies(ev.NodesPowered)
def _nodes_powered(cluster: Cluster, event: ev.NodesPowered) -> None:
    cluster.node_changes += 1
    flag = NodeFlag(event.flag)
    for at, node_id in enumerate(event.node_ids):
        node = cluster.node(node_id)
        if node.flags & NodeFlag.POWER_DRAIN and flag != NodeFlag.POWERING_UP:
            node.flags &= ~(NodeFlag.POWER_DRAIN | NodeFlag.DRAIN)
        node.flags = node.flags & ~_ENDED_BY[flag] | flag
        if flag != NodeFlag.POWERED_DOWN:
            node.power_us = event.time_us
        if event.to_idle:
            flags = node.flags & ~(NodeFlag.DRAIN | NodeFlag.FAIL)
            _set_node_state(node, NodeState.IDLE, flags, "", event.time_us)
        if event.first_duty_id:
            reboot_duty(cluster, node_id, event.first_duty_id + at, event.time_us)
        cluster.node_index.update(node_id)
