"""How often nodes speak, and what follows when one does not."""

from __future__ import annotations

from collections.abc import Mapping

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.node_loss import policy
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.ends import node_loss
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.nodes import power
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import NodeFlag, NodeState

# It has no slurmd that could speak, or not now.
_SPEECHLESS = NodeFlag.EXTERNAL | power.ASLEEP
_LONGEST_MS = 30_000
_SHORTEST_MS = 200
_IN_TIMEOUT = 6  # heartbeats in SlurmdTimeout
_LEAST_IN_TIMEOUT = 3  # in a cluster whose nodes would otherwise speak too often
_PER_S = 5_000  # heartbeats of all nodes


def heartbeat_ms(conf: SlurmConf, nodes: int) -> int:
    """Return how often each of so many nodes speaks: six times in SlurmdTimeout.

    At least every 30 s; of a large cluster with a short SlurmdTimeout less often, but three times.
    """
    timeout_ms = conf.slurmd_timeout * 1000
    if not timeout_ms:
        return _LONGEST_MS
    crowded_ms = min(timeout_ms // _LEAST_IN_TIMEOUT, nodes * 1000 // _PER_S)
    return max(_SHORTEST_MS, min(_LONGEST_MS, max(timeout_ms // _IN_TIMEOUT, crowded_ms)))


def silent_after_us(conf: SlurmConf, nodes: int) -> int:
    """Return how long a node may be silent before it counts as not responding (`*`).

    Half of SlurmdTimeout, and never before three heartbeats are missing: one that is late, or two
    that are lost, say nothing of a node.
    """
    timeout_us = conf.slurmd_timeout * SECOND_US
    three_missing_us = heartbeat_ms(conf, nodes) * 3_500
    return min(timeout_us, max(timeout_us // 2, three_missing_us))


def silent_nodes(
    cluster: Cluster, conf: SlurmConf, last_seen_us: Mapping[int, int], now_us: int
) -> list[ev.AnyEvent]:
    """Return NodesSilent for nodes that miss heartbeats, the loss of those silent too long."""
    timeout_us = conf.slurmd_timeout * SECOND_US
    if not timeout_us or not last_seen_us:
        return []
    silent_us = silent_after_us(conf, len(cluster.nodes))
    silent: list[int] = []
    lost: list[int] = []
    for node in cluster.nodes:
        if node is None or node.state not in (NodeState.IDLE, NodeState.UNKNOWN):
            continue
        if node.flags & _SPEECHLESS:
            continue
        seen_us = last_seen_us.get(node.node_id, 0)
        if not seen_us:
            continue
        if now_us - seen_us >= timeout_us:
            lost.append(node.node_id)
        elif now_us - seen_us >= silent_us and not node.flags & NodeFlag.NOT_RESPONDING:
            silent.append(node.node_id)
    events: list[ev.AnyEvent] = []
    if silent:
        events.append(ev.NodesSilent(time_us=now_us, node_ids=tuple(silent), silent=True))
    if lost:
        fresh = tuple(
            node_id for node_id in lost if not cluster.node(node_id).flags & NodeFlag.NOT_RESPONDING
        )
        if fresh:
            events.append(ev.NodesSilent(time_us=now_us, node_ids=fresh, silent=True))
        events += node_loss.nodes_down(
            cluster,
            tuple(lost),
            "Not responding",
            now_us,
            for_silence=True,
            rules=requeue_rules(conf),
            policy=policy(conf),
        )
    return events
