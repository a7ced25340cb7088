"""`scontrol reboot`: nodes boot when no job is left on them, and come back or go DOWN.

A node that was told to boot is DOWN with REBOOT_ISSUED until it registers with another boot id, or
until ResumeTimeout is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.sched.frame.answers import answers

REBOOT_STATES = ("CANCEL_REBOOT", "REBOOT", "REBOOT_ASAP")
NEXT_STATES = ("", "DOWN", "RESUME")
REBOOT_FLAGS = NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
AT_REST: dict[str, object] = {  # of a node that is not to boot
    "next_state": "", "reboot_by_us": 0, "drains_to_reboot": False,
}  # fmt: skip
_ASAP_REASON = "Reboot ASAP"


def change(
    nodes: Iterable[Node], state: str, settings: Mapping[str, str], context: Context
) -> list[ev.AnyEvent] | Reject:
    """Do what one of `REBOOT_STATES` asks for."""
    if state == "CANCEL_REBOOT":
        return _cancel(nodes, context.now_us)
    return _request(nodes, state == "REBOOT_ASAP", settings, context)


def _request(
    nodes: Iterable[Node], is_soon: bool, settings: Mapping[str, str], context: Context
) -> list[ev.AnyEvent] | Reject:
    """Ask for a reboot of each node that was not told to boot already."""
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if not context.conf.reboot_program:
        return Reject(Errno.SLURM_ERROR)
    next_state = settings.get("nextstate", "").upper()
    if next_state not in NEXT_STATES:
        return Reject(Errno.ESLURM_INVALID_NODE_STATE)
    reason = settings.get("reason", "")
    events: list[ev.AnyEvent] = []
    for node in nodes:
        if node.flags & NodeFlag.REBOOT_ISSUED:
            continue
        flags = node.flags | NodeFlag.REBOOT_REQUESTED
        fields: dict[str, object] = {"next_state": next_state or ("RESUME" if is_soon else "")}
        if is_soon and not flags & NodeFlag.DRAIN:
            flags |= NodeFlag.DRAIN
            fields["drains_to_reboot"] = True
        fields["flags"] = int(flags)
        said = reason or ("" if node.reason else _ASAP_REASON if is_soon else "reboot requested")
        if said:
            uid = context.caller.uid
            fields |= {"reason": said, "reason_us": context.now_us, "reason_uid": uid}
        events.append(ev.NodeUpdated(context.now_us, (node.node_id,), fields))
    return events


def _cancel(nodes: Iterable[Node], now_us: int) -> list[ev.AnyEvent] | Reject:
    """Forget reboots that have not been issued; drains of ASAP end with them."""
    events: list[ev.AnyEvent] = []
    for node in nodes:
        if not node.flags & NodeFlag.REBOOT_REQUESTED:
            return Reject(Errno.ESLURM_INVALID_NODE_STATE)
        flags = node.flags & ~NodeFlag.REBOOT_REQUESTED
        fields: dict[str, object] = dict(AT_REST)
        is_ours = node.drains_to_reboot or node.reason == _ASAP_REASON
        if not flags & NodeFlag.DRAIN or is_ours:
            flags &= ~NodeFlag.DRAIN
            fields |= {"reason": "", "reason_us": 0, "reason_uid": 0}
        events.append(ev.NodeUpdated(now_us, (node.node_id,), {**fields, "flags": int(flags)}))
    return events


def due(cluster: Cluster, conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    """Tell nodes to boot on which no job is left; give up on those that have not come back."""
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for node in cluster.nodes_of(_booting(cluster)):
        use = cluster.node_index.use[node.node_id]
        if node.flags & NodeFlag.REBOOT_REQUESTED and not use.allocs and not use.completing:
            reason = f"{node.reason} : reboot issued"
            events.append(ev.NodesDown(now_us, (node.node_id,), reason, node.reason_uid))
            by_us = now_us + conf.resume_timeout * SECOND_US
            events.append(ev.NodeRebootIssued(now_us, node.node_id, duty_id, by_us))
            duty_id += 1
        elif node.flags & NodeFlag.REBOOT_ISSUED and now_us >= node.reboot_by_us:
            fields: dict[str, object] = {
                **AT_REST,
                "state": int(NodeState.DOWN),
                "flags": int(node.flags & ~REBOOT_FLAGS),
                "reason": f"{node.reason} : reboot timed out",
                "reason_us": now_us,
            }
            events += open_reboots(cluster, node.node_id, now_us)
            events.append(ev.NodeUpdated(now_us, (node.node_id,), fields))
    return events


def open_reboots(cluster: Cluster, node_id: int, now_us: int) -> list[ev.AnyEvent]:
    """Return what ends the order to boot: a node that has booted must not do it again."""
    dropped = tuple(
        (node_id, duty.duty_id)
        for duty in cluster.duties.get(node_id, {}).values()
        if duty.kind == DutyKind.REBOOT
    )
    return [ev.DutiesDropped(now_us, dropped)] if dropped else []


def after_boot(node: Node, flags: int) -> tuple[NodeState, int, str]:
    """Return the state, flags and reason of a node that has booted as it was told."""
    flags &= ~REBOOT_FLAGS
    if node.next_state:
        flags &= ~NodeFlag.DRAIN
    if node.next_state == "DOWN":
        return NodeState.DOWN, flags, f"{node.reason} : reboot complete"
    return NodeState.IDLE, flags, node.reason if flags & (NodeFlag.DRAIN | NodeFlag.FAIL) else ""


def _booting(cluster: Cluster) -> tuple[int, ...]:
    """Return the nodes that are to boot; kept until a node changes."""
    kept = answers(cluster)
    node_ids = kept.get("booting")
    if not isinstance(node_ids, tuple):
        node_ids = tuple(
            node.node_id for node in cluster.living_nodes() if node.flags & REBOOT_FLAGS
        )
        kept["booting"] = node_ids
    return node_ids
