"""The network as text: `scontrol show topology`, and `show topoconf` as a topology.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.model.torus import Torus, Xyz, nodes_of
from pyslurm_ng.wire.query_messages import ConfigText, ShowTopology

_KINDS = ("block", "flat", "ring", "torus3d", "tree")
_ORIGIN = (0, 0, 0)


def topology_lines(cluster: Cluster, request: ShowTopology) -> ConfigText | Reject:
    """Return the lines of `scontrol show topology`; none under a flat topology."""
    if request.as_yaml:
        return ConfigText(lines=list(_yaml(cluster)))
    only_node_id = -1
    units = [unit for topology in cluster.topologies for unit in _units(cluster, topology)]
    unit, node = request.unit, request.node
    is_unit = any(name == unit for name, _, _ in units)
    if not node and not is_unit and unit in cluster.node_index.by_name:
        unit, node = "", unit  # as in Slurm a name alone may be that of a node
    if node:
        node_id = cluster.node_index.by_name.get(node)
        if node_id is None and cluster.topologies:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        only_node_id = node_id if node_id is not None else -1
    lines = [
        line
        for name, node_ids, line in units
        if unit in ("", name) and (only_node_id < 0 or only_node_id in node_ids)
    ]
    if not lines and cluster.topologies and (unit or node):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return ConfigText(lines=lines)


def _units(cluster: Cluster, topology: Topology) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Yield the name, the nodes and the line of each switch, block, ring or torus."""
    for switch in topology.switches:
        text = f"SwitchName={switch.name} Level={switch.level} LinkSpeed={switch.link_speed}"
        text += f" Nodes={_nodes(cluster, topology, switch.node_ids)}"
        if switch.children:
            text += f" Switches={hostlist.fold(list(switch.children))}"
        yield switch.name, switch.node_ids, text
    for index, block in enumerate(topology.blocks):
        nodes = _nodes(cluster, topology, block.node_ids)
        text = f"BlockName={block.name} BlockIndex={index} Nodes={nodes} BlockSize="
        if topology.kind == "ring":
            text = f"RingName={block.name} RingIndex={index} Nodes={nodes} RingSize="
        size = len(block.node_ids) if topology.kind == "ring" else topology.block_sizes[0]
        yield block.name, block.node_ids, f"{text}{size}"
    for index, torus in enumerate(topology.toruses):
        node_ids = nodes_of(torus)
        shapes = ",".join(_times(placement.dims) for placement in torus.placements)
        yield (
            torus.name,
            node_ids,
            (
                f"TorusName={torus.name} TorusIndex={index} Dims={_times(torus.dims)} "
                f"Nodes={_nodes(cluster, topology, node_ids)} Placements={shapes}"
            ),
        )


def _times(dims: Xyz) -> str:
    return "x".join(map(str, dims))


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
                yield from _yaml_units(cluster, topology)
    yield "..."


def _yaml_units(cluster: Cluster, topology: Topology) -> Iterator[str]:
    """Yield the units of a topology."""
    if topology.kind == "torus3d":
        yield "    toruses:" if topology.toruses else "    toruses: []"
        for torus in topology.toruses:
            yield from _yaml_torus(cluster, torus)
        return
    if topology.kind == "ring":
        yield "    rings:" if topology.blocks else "    rings: []"
    elif topology.blocks:
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
        yield f"      - {topology.kind}: {block.name}"
        if block.node_ids:
            yield f"        nodes: {_nodes(cluster, topology, block.node_ids)}"


def _yaml_torus(cluster: Cluster, torus: Torus) -> Iterator[str]:
    """Yield a torus as its file has it, with the nodes that are elsewhere."""

    def names(node_ids: tuple[int, ...]) -> str:
        return hostlist.fold(cluster.node_names(node_ids))

    yield f"      - name: {torus.name}"
    yield f"        dims: {_xyz(torus.dims)}"
    first = torus.regions[0] if len(torus.regions) == 1 else None
    if first is not None and (first.anchor, first.dims) == (_ORIGIN, torus.dims):
        yield f"        nodes: {names(first.node_ids)}"
    else:
        yield "        regions:" if torus.regions else "        regions: []"
        for region in torus.regions:
            yield f"          - anchor: {_xyz(region.anchor)}"
            yield f"            dims: {_xyz(region.dims)}"
            yield f"            nodes: {names(region.node_ids)}"
    yield "        placements:"
    for placement in torus.placements:
        yield f"          - dims: {_xyz(placement.dims)}"
        yield f"            anchor_seed: {_xyz(placement.anchor_seed)}"
        yield f"            anchor_spacing: {_xyz(placement.anchor_spacing)}"


def _xyz(dims: Xyz) -> str:
    return "{{x: {}, y: {}, z: {}}}".format(*dims)
