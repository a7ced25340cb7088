"""The network as text: `scontrol show topology`, and `show topoconf` as a topology.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.wire.query_messages import ConfigText, ShowTopology

_KINDS = ("block", "flat", "ring", "torus3d", "tree")


def topology_lines(cluster: Cluster, request: ShowTopology) -> ConfigText | Reject:
    """Return the lines of `scontrol show topology`; none under a flat topology."""
    if request.as_yaml:
        return ConfigText(lines=list(_yaml(cluster)))
    lines: list[str] = []
    only_node_id = -1
    names = {switch.name for topology in cluster.topologies for switch in topology.switches}
    names |= {block.name for topology in cluster.topologies for block in topology.blocks}
    unit, node = request.unit, request.node
    if not node and unit not in names and unit in cluster.node_index.by_name:
        unit, node = "", unit  # as in Slurm a name alone may be that of a node
    if node:
        node_id = cluster.node_index.by_name.get(node)
        if node_id is None and cluster.topologies:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        only_node_id = node_id if node_id is not None else -1

    def is_shown(name: str, node_ids: tuple[int, ...]) -> bool:
        return unit in ("", name) and (only_node_id < 0 or only_node_id in node_ids)

    for topology in cluster.topologies:
        for switch in topology.switches:
            if not is_shown(switch.name, switch.node_ids):
                continue
            text = f"SwitchName={switch.name} Level={switch.level} LinkSpeed={switch.link_speed}"
            text += f" Nodes={_nodes(cluster, topology, switch.node_ids)}"
            if switch.children:
                text += f" Switches={hostlist.fold(list(switch.children))}"
            lines.append(text)
        for index, block in enumerate(topology.blocks):
            if is_shown(block.name, block.node_ids):
                lines.append(
                    f"BlockName={block.name} BlockIndex={index} "
                    f"Nodes={_nodes(cluster, topology, block.node_ids)} "
                    f"BlockSize={topology.block_sizes[0]}"
                )
    if not lines and cluster.topologies and (unit or node):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return ConfigText(lines=lines)


def _nodes(cluster: Cluster, topology: Topology, node_ids: tuple[int, ...]) -> str:
    """Return nodes as a host list in the cluster's order; a ring has an order of its own."""
    in_order = node_ids if topology.kind == "ring" else sorted(node_ids)
    return hostlist.fold(cluster.node_names(in_order))


def _yaml(cluster: Cluster) -> Iterator[str]:
    """Yield the lines of a topology.yaml with the topologies in force; other kinds are empty."""
    yield from ("%YAML 1.1", "---")
    for topology in cluster.topologies or (Topology("default", "flat", is_default=True),):
        yield f"- topology: {topology.name}"
        yield f"  cluster_default: {'true' if topology.is_default else 'false'}"
        for kind in _KINDS:
            is_meant = kind == topology.kind and kind != "flat"
            yield f"  {kind}:" if is_meant else f"  {kind}: {{}}"
            if is_meant:
                yield from _units(cluster, topology)
    yield "..."


def _units(cluster: Cluster, topology: Topology) -> Iterator[str]:
    """Yield the switches or blocks of a topology."""
    if topology.blocks:
        yield "    block_sizes:"
        yield from (f"      - {size}" for size in topology.block_sizes)
        yield "    blocks:"
    else:
        yield "    switches:" if topology.switches else "    switches: []"
    for switch in topology.switches:
        yield f"      - switch: {switch.name}"
        if switch.children:
            yield f"        children: {hostlist.fold(list(switch.children))}"
        elif switch.node_ids:
            yield f"        nodes: {_nodes(cluster, topology, switch.node_ids)}"
    for block in topology.blocks:
        yield f"      - block: {block.name}"
        if block.node_ids:
            yield f"        nodes: {_nodes(cluster, topology, block.node_ids)}"
