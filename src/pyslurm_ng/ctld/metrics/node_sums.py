"""Nodes counted by state and by what they have: each, in all and by partition."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from pyslurm_ng.ctld.node_tenants import blocked_nodes
from pyslurm_ng.ctld.queries.nodes import partitions_by_node, planned_nodes
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.node import Node, effective_cpus, schedulable_mem_mib
from pyslurm_ng.model.states import NodeFlag, NodeState

STATES = (
    ("alloc", "Nodes all of whose CPUs are in use"),
    ("blocked", "Nodes that other jobs cannot use because of a job's topology"),
    ("completing", "Nodes that jobs are leaving"),
    ("cloud", "Nodes of a cloud"),
    ("down", "Nodes that are down"),
    ("drain", "Nodes that are to take no more jobs"),
    ("drained", "Nodes that take no more jobs and have none"),
    ("draining", "Nodes that take no more jobs and still have some"),
    ("dyn_future", "Dynamic nodes made from a node in state FUTURE"),
    ("dyn_normal", "Dynamic nodes"),
    ("external", "Nodes of an outside program"),
    ("fail", "Nodes that are about to fail"),
    ("future", "Nodes that do not exist yet"),
    ("idle", "Nodes without jobs"),
    ("invalid_reg", "Nodes that registered with less than slurm.conf says"),
    ("maint", "Nodes in a maintenance reservation"),
    ("mixed", "Nodes some of whose CPUs are in use"),
    ("noresp", "Nodes that do not answer"),
    ("planned", "Nodes that are planned for a waiting job"),
    ("power_down", "Nodes that are to be powered down"),
    ("power_up", "Nodes that are to be powered up"),
    ("powered_down", "Nodes that are powered down"),
    ("powering_down", "Nodes that are being powered down"),
    ("powering_up", "Nodes that are being powered up"),
    ("reboot_issued", "Nodes that have been told to boot"),
    ("reboot_req", "Nodes that are to boot once they are idle"),
    ("resv", "Nodes in a reservation"),
    ("unknown", "Nodes that have not registered yet"),
)
"""(suffix of the family's name, help); the names are those of Slurm 26.11."""
AMOUNTS = (
    ("cpus", "CPUs of a node"),
    ("cpus_alloc", "CPUs in use"),
    ("cpus_effective", "CPUs that jobs may use"),
    ("cpus_idle", "CPUs that jobs may use and that are not in use"),
    ("gpus", "GPUs of a node"),
    ("gpus_alloc", "GPUs in use"),
    ("memory_alloc_bytes", "Memory in use, in MiB: Slurm's name, and Slurm's unit"),
    ("memory_effective_bytes", "Memory that jobs may use, in MiB"),
    ("memory_free_bytes", "Memory that the node's kernel calls free, in MiB"),
    ("memory_bytes", "Memory of a node, in MiB"),
)
"""(suffix of the family's name, help), for each node."""

_AT = {suffix: index for index, (suffix, _) in enumerate(STATES)}
_OF_BASE = {
    NodeState.UNKNOWN: "unknown",
    NodeState.DOWN: "down",
    NodeState.IDLE: "idle",
    NodeState.ALLOCATED: "alloc",
    NodeState.MIXED: "mixed",
    NodeState.FUTURE: "future",
}
_OF_FLAG = (
    (NodeFlag.COMPLETING, "completing"),
    (NodeFlag.CLOUD, "cloud"),
    (NodeFlag.DRAIN, "drain"),
    (NodeFlag.DYNAMIC_FUTURE, "dyn_future"),
    (NodeFlag.DYNAMIC_NORM, "dyn_normal"),
    (NodeFlag.EXTERNAL, "external"),
    (NodeFlag.FAIL, "fail"),
    (NodeFlag.INVALID_REG, "invalid_reg"),
    (NodeFlag.MAINTENANCE, "maint"),
    (NodeFlag.NOT_RESPONDING, "noresp"),
    (NodeFlag.POWER_DOWN, "power_down"),
    (NodeFlag.POWER_UP, "power_up"),
    (NodeFlag.POWERED_DOWN, "powered_down"),
    (NodeFlag.POWERING_DOWN, "powering_down"),
    (NodeFlag.POWERING_UP, "powering_up"),
    (NodeFlag.REBOOT_ISSUED, "reboot_issued"),
    (NodeFlag.REBOOT_REQUESTED, "reboot_req"),
    (NodeFlag.RESERVED, "resv"),
)
_MOST_IN_A_SLICE = 200


class NodeSums(NamedTuple):
    """Numbers in the order of `STATES` and `AMOUNTS`; sums of amounts by partition."""

    all: list[int]
    amounts: dict[str, list[int]]
    by_partition: dict[str, list[int]]
    amounts_by_partition: dict[str, list[int]]
    nodes_by_partition: dict[str, int]


def count_nodes(cluster: Cluster, soft: Soft) -> Generator[None, None, NodeSums]:
    """Return what nodes are and have; yields wherever messages may go first."""
    planned, blocked = planned_nodes(soft), blocked_nodes(cluster, soft.records.keepers(cluster))
    partitions_of = partitions_by_node(cluster)
    names = list(cluster.partitions)
    sums = NodeSums(
        [0] * len(STATES), {}, {name: [0] * len(STATES) for name in names},
        {name: [0] * len(AMOUNTS) for name in names}, dict.fromkeys(names, 0),
    )  # fmt: skip
    for index, node in enumerate(list(cluster.living_nodes())):
        if index % _MOST_IN_A_SLICE == _MOST_IN_A_SLICE - 1:
            yield
        if cluster.nodes[node.node_id] is None:
            continue  # removed meanwhile
        states = _states(cluster, node)
        states += [_AT["planned"]] * (node.node_id in planned)
        states += [_AT["blocked"]] * (node.node_id in blocked)
        amounts = sums.amounts[node.spec.name] = _amounts(cluster, soft, node)
        names = [name for name in partitions_of.get(node.node_id, ()) if name in sums.by_partition]
        for group in (sums.all, *(sums.by_partition[name] for name in names)):
            for state in states:
                group[state] += 1
        for name in names:
            sums.nodes_by_partition[name] += 1
            total = sums.amounts_by_partition[name]
            for column, amount in enumerate(amounts):
                total[column] += amount
    return sums


def _states(cluster: Cluster, node: Node) -> list[int]:
    base, flags = node_state(cluster, node)
    states = [_AT[_OF_BASE.get(base, "unknown")]]
    states += [_AT[suffix] for flag, suffix in _OF_FLAG if flags & flag]
    if flags & NodeFlag.DRAIN:
        has_jobs = bool(cluster.node_index.use[node.node_id].allocs)
        states.append(_AT["draining" if has_jobs else "drained"])
    return states


def _amounts(cluster: Cluster, soft: Soft, node: Node) -> list[int]:
    spec, use = node.spec, cluster.node_index.use[node.node_id]
    load = soft.node_load.get(node.node_id)
    cpus = effective_cpus(spec)
    gpus = sum(gres.count for gres in spec.gres if gres.name == "gpu")
    gpus_alloc = sum(
        gres.count for alloc in use.allocs.values() for gres in alloc.gres if gres.name == "gpu"
    )
    return [
        spec.cpus,
        use.cpus,
        cpus,
        max(0, cpus - use.cpus),
        gpus,
        gpus_alloc,
        use.mem_mib,
        schedulable_mem_mib(spec),
        max(0, load.free_mem_mib) if load else 0,
        spec.real_memory_mib,
    ]
