"""Power saving: idle nodes are powered down, and up again for jobs or an administrator.

ADR 0089. SuspendProgram and ResumeProgram do it; `ctld.programs.power_programs` runs them when
their event, NodesPowered, is durable. A node is up when it registers with another boot id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL, SECOND_US
from pyslurm_ng.conf.node_loss import policy
from pyslurm_ng.conf.power import is_on
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.ends import node_loss
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.sched.frame.answers import answers

STATES = ("POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE", "POWER_UP")
ASLEEP = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP | NodeFlag.POWERING_DOWN
_ASKED = NodeFlag.POWER_DOWN | NodeFlag.POWER_UP
FAILED = "ResumeTimeout reached"
_COMMA = re.compile(r",(?![^\[]*\])")  # between words, not inside brackets
_AT_ONCE = 1024  # nodes in one event, and on one command line of a program


class Times(NamedTuple):
    """What slurm.conf says of one node; seconds."""

    suspend_s: int  # INFINITE: it is not powered down by itself
    down_s: int
    resume_s: int
    at_once: bool  # PowerDownOnIdle


# Asking ---------------------------------------------------------------------------------------


def change(
    cluster: Cluster, nodes: Sequence[Node], state: str, reason: str, context: Context
) -> list[ev.AnyEvent] | Reject:
    """Do what one of `STATES` asks for; the programs run within a second."""
    if not is_on(context.conf):
        return Reject(Errno.ESLURM_INVALID_NODE_STATE)
    events: list[ev.AnyEvent] = []
    if state == "POWER_DOWN_FORCE":
        events += _emptied(cluster, nodes, context)
    for node in nodes:
        if node.flags & NodeFlag.EXTERNAL or node.state == NodeState.FUTURE:
            return Reject(Errno.ESLURM_INVALID_NODE_STATE)
        flags = _asked_flags(node, state)
        fields: dict[str, object] = {"flags": int(flags)}
        if reason:
            uid = context.caller.uid
            fields |= {"reason": reason, "reason_us": context.now_us, "reason_uid": uid}
        if flags != node.flags or reason:
            events.append(ev.NodeUpdated(context.now_us, (node.node_id,), fields))
    return events


def _asked_flags(node: Node, state: str) -> int:
    """Return the flags of a node with what is asked of it; what it is or does already is not."""
    flags = node.flags
    if state == "POWER_UP":
        flags &= ~NodeFlag.POWER_DOWN
        sleeps = flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN)
        return flags | NodeFlag.POWER_UP if sleeps else flags
    flags &= ~NodeFlag.POWER_UP
    if flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN):
        return flags
    flags |= NodeFlag.POWER_DOWN
    if state == "POWER_DOWN_FORCE":
        return flags & ~(NodeFlag.DRAIN | NodeFlag.FAIL | NodeFlag.POWER_DRAIN)
    if state == "POWER_DOWN_ASAP" and not flags & NodeFlag.DRAIN:
        flags |= NodeFlag.DRAIN | NodeFlag.POWER_DRAIN
    return flags


def _emptied(cluster: Cluster, nodes: Iterable[Node], context: Context) -> list[ev.AnyEvent]:
    """Return the ends of all jobs of some nodes, which are lost to them."""
    busy = tuple(node.node_id for node in nodes if cluster.node_index.use[node.node_id].allocs)
    if not busy:
        return []
    lost = node_loss.nodes_down(
        cluster,
        busy,
        "power down",
        context.now_us,
        uid=context.caller.uid,
        rules=requeue_rules(context.conf),
        policy=policy(context.conf),
    )
    return [*lost, ev.NodesReturned(context.now_us, busy)]


# Time passes ----------------------------------------------------------------------------------


def due(cluster: Cluster, conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    """Return what is to be powered up or down now, what is down, and what did not come up."""
    moving = _moving(cluster)
    failed = [node for node in moving if _is_late(cluster, conf, node, now_us)]
    if failed:
        return _given_up(cluster, conf, tuple(node.node_id for node in failed), now_us)
    if not is_on(conf):
        return []
    events: list[ev.AnyEvent] = []
    down = [
        node.node_id
        for node in moving
        if node.flags & NodeFlag.POWERING_DOWN
        and now_us >= node.power_us + times_of(cluster, conf, node.node_id).down_s * SECOND_US
    ]
    if down:
        events.append(ev.NodesPowered(now_us, tuple(down), int(NodeFlag.POWERED_DOWN)))
    waking = [node.node_id for node in moving if _must_wake(cluster, node)]
    if waking:
        waking = waking[: _room(cluster, conf.resume_rate, now_us, is_up=True)]
    if waking:
        events.append(ev.NodesPowered(now_us, tuple(waking), int(NodeFlag.POWERING_UP)))
    sleepy = [*_told_to_sleep(cluster, moving), *_idle_too_long(cluster, conf, now_us)]
    if sleepy:
        sleepy = sleepy[: _room(cluster, conf.suspend_rate, now_us, is_up=False)]
    if sleepy:
        to_idle = has_option(conf.slurmctld_parameters, "idle_on_node_suspend")
        flag = int(NodeFlag.POWERING_DOWN)
        events.append(ev.NodesPowered(now_us, tuple(sleepy), flag, to_idle=to_idle))
    return events


def times_of(cluster: Cluster, conf: SlurmConf, node_id: int) -> Times:
    """Return a node's times: its own, else the greatest of its partitions, else the cluster's."""
    kept = answers(cluster)
    known = kept.get("power_times")
    if not isinstance(known, dict):
        known = kept["power_times"] = {}
    if node_id not in known:
        partitions = [part for part in cluster.partitions.values() if node_id in part.node_ids]

        def longest(own: Iterable[int], usual: int) -> int:
            values = [value for value in own if value != NO_VAL]
            return max(values, default=usual)

        suspend_s = cluster.node(node_id).spec.suspend_time_s
        if suspend_s == NO_VAL:
            suspend_s = longest((part.suspend_time_s for part in partitions), conf.suspend_time)
        known[node_id] = Times(
            suspend_s,
            longest((part.suspend_timeout_s for part in partitions), conf.suspend_timeout),
            longest((part.resume_timeout_s for part in partitions), conf.resume_timeout),
            any(part.power_down_on_idle for part in partitions),
        )
    times = known[node_id]
    assert isinstance(times, Times)
    return times


def _moving(cluster: Cluster) -> list[Node]:
    """Return the nodes that sleep or move, or are asked to; kept until a node changes."""
    kept = answers(cluster)
    node_ids = kept.get("power_moving")
    if not isinstance(node_ids, tuple):
        node_ids = tuple(
            node.node_id for node in cluster.living_nodes() if node.flags & (ASLEEP | _ASKED)
        )
        kept["power_moving"] = node_ids
    return cluster.nodes_of(node_ids)


def _is_late(cluster: Cluster, conf: SlurmConf, node: Node, now_us: int) -> bool:
    if not node.flags & NodeFlag.POWERING_UP:
        return False
    return now_us >= node.power_us + times_of(cluster, conf, node.node_id).resume_s * SECOND_US


def _given_up(
    cluster: Cluster, conf: SlurmConf, node_ids: tuple[int, ...], now_us: int
) -> list[ev.AnyEvent]:
    """Take nodes that did not come up in time out of service, with the jobs that wait for them."""
    return [
        *node_loss.nodes_down(
            cluster, node_ids, FAILED, now_us, rules=requeue_rules(conf), policy=policy(conf)
        ),
        ev.NodesPowered(now_us, node_ids, int(NodeFlag.POWERED_DOWN), failed=True),
    ]


def _must_wake(cluster: Cluster, node: Node) -> bool:
    if not node.flags & NodeFlag.POWERED_DOWN:
        return False
    is_wanted = bool(cluster.node_index.use[node.node_id].allocs)
    return is_wanted or bool(node.flags & NodeFlag.POWER_UP)


def _told_to_sleep(cluster: Cluster, moving: Iterable[Node]) -> list[int]:
    """Return the nodes that an administrator wants down, once no job is left there."""
    return [
        node.node_id
        for node in moving
        if node.flags & NodeFlag.POWER_DOWN and not cluster.node_index.use[node.node_id].allocs
    ]


def _idle_too_long(cluster: Cluster, conf: SlurmConf, now_us: int) -> list[int]:
    """Return the nodes that have been idle for SuspendTime."""
    in_use = cluster.node_index.columns.in_use
    bits, states = _excluded_bits(conf), _states(conf)
    sleepy = []
    for node_id, times in _watched(cluster, conf):
        if in_use[node_id]:
            continue
        node = cluster.node(node_id)
        if node.flags & bits or node.state not in states:
            continue
        since_us = max(node.last_busy_us, node.registered_us, node.power_us)
        if node.state == NodeState.DOWN:
            since_us = max(since_us, node.reason_us)
        is_used = times.at_once and node.last_busy_us > max(node.registered_us, node.power_us)
        if is_used or now_us - since_us >= times.suspend_s * SECOND_US:
            sleepy.append(node_id)
    return _without_kept(cluster, conf, sleepy)


def _watched(cluster: Cluster, conf: SlurmConf) -> list[tuple[int, Times]]:
    """Return the nodes that may be powered down by themselves, whatever their state is now."""
    kept = answers(cluster)
    watched = kept.get("power_watched")
    if not isinstance(watched, list):
        parts = [cluster.partitions.get(name) for name in conf.suspend_exc_parts]
        excluded = {node_id for part in parts if part is not None for node_id in part.node_ids}
        for node_ids, count in _excluded_nodes(cluster, conf):
            excluded |= node_ids if count is None else set()
        watched = [
            (node.node_id, times)
            for node in cluster.living_nodes()
            if node.node_id not in excluded
            and (times := times_of(cluster, conf, node.node_id)) is not None
            and (times.at_once or times.suspend_s != INFINITE)
        ]
        kept["power_watched"] = watched
    return watched


def _excluded_nodes(cluster: Cluster, conf: SlurmConf) -> Iterator[tuple[set[int], int | None]]:
    """Yield the nodes of each word of SuspendExcNodes, and how many of them stay awake or None."""
    known = cluster.node_index.by_name
    for word in _COMMA.split(",".join(conf.suspend_exc_nodes)):
        names, _, count = word.partition(":")
        try:
            node_ids = {known[name] for name in hostlist.expand(names) if name in known}
        except hostlist.HostlistError:
            continue
        yield node_ids, int(count) if count.isdecimal() else None


def _states(conf: SlurmConf) -> tuple[int, ...]:
    words = {word.upper() for word in conf.suspend_exc_states}
    return (NodeState.IDLE,) if "DOWN" in words else (NodeState.IDLE, NodeState.DOWN)


def _excluded_bits(conf: SlurmConf) -> int:
    """Return the flags with which a node is not powered down by itself."""
    bits = ASLEEP | _ASKED | NodeFlag.EXTERNAL
    bits |= NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
    for word in conf.suspend_exc_states:
        bits |= getattr(NodeFlag, word.upper(), NodeFlag.NONE)
    return int(bits)


def _without_kept(cluster: Cluster, conf: SlurmConf, sleepy: list[int]) -> list[int]:
    """Leave so many nodes of each SuspendExcNodes=NODES:COUNT awake and idle.

    SuspendExcStates may also name what is no flag of the node's own: RESERVED, MAINTENANCE.
    """
    words = {word.upper() for word in conf.suspend_exc_states}
    if words & {"RESERVED", "MAINTENANCE"}:
        sleepy = [node_id for node_id in sleepy if node_id not in cluster.node_index.reserved]
    for group, count in _excluded_nodes(cluster, conf):
        if count is None:
            continue
        idle = [node_id for node_id in group if _is_idle(cluster, node_id)]
        may_sleep = max(0, len(idle) - count)
        kept_awake = [node_id for node_id in sleepy if node_id in group][may_sleep:]
        sleepy = [node_id for node_id in sleepy if node_id not in kept_awake]
    return sleepy


def _is_idle(cluster: Cluster, node_id: int) -> bool:
    node = cluster.node(node_id)
    is_up = node.state == NodeState.IDLE and not node.flags & ASLEEP
    return is_up and not cluster.node_index.use[node_id].allocs


def _room(cluster: Cluster, rate: int, now_us: int, *, is_up: bool) -> int:
    """Return how many more nodes may be moved now, by ResumeRate or SuspendRate for a minute."""
    if not rate:
        return _AT_ONCE
    since_us = now_us - MINUTE_US
    down = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN
    begun = sum(
        1
        for node in cluster.living_nodes()
        if node.power_us > since_us and bool(node.flags & down) != is_up
    )
    return max(0, min(_AT_ONCE, rate - begun))
