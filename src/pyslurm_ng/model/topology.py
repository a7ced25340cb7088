"""The network as the cluster knows it: switches in trees, or blocks of closely linked nodes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .partition import Partition


class Switch(Struct, array_like=True, frozen=True, gc=False):
    """One switch: at `level` 0 with its nodes, at higher levels with its children's nodes.

    `node_ids` are all nodes below in the order of the file; `parent` is empty at the top.
    """

    name: str
    level: int
    node_ids: tuple[int, ...]
    children: tuple[str, ...] = ()
    parent: str = ""
    link_speed: int = 1


class Block(Struct, array_like=True, frozen=True, gc=False):
    """One block: all its nodes are equally near one another."""

    name: str
    node_ids: tuple[int, ...]


class Topology(Struct, array_like=True, frozen=True, gc=False):
    """One description of the network; partitions name theirs, the others have the default.

    `kind` is tree, block or flat. `block_sizes` are node counts, ascending, each the first times a
    power of two. Blocks are joined in the order given here.
    """

    name: str
    kind: str
    switches: tuple[Switch, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()
    is_default: bool = False


def topology_of(topologies: Iterable[Topology], partition: Partition | None) -> Topology | None:
    """Return the topology of a partition (None: the cluster's); None when there is no model."""
    default = None
    for topology in topologies:
        if partition is not None and partition.topology == topology.name:
            return topology if topology.kind != "flat" else None
        if topology.is_default or default is None:
            default = topology
    return default if default is not None and default.kind != "flat" else None


def units_in_order(topology: Topology) -> list[tuple[int, ...]]:
    """Return the nodes of each leaf switch or block, neighbours in the network side by side."""
    if topology.kind == "block":
        return [block.node_ids for block in topology.blocks]
    by_name = {switch.name: switch for switch in topology.switches}
    units: list[tuple[int, ...]] = []
    todo = [switch.name for switch in reversed(topology.switches) if not switch.parent]
    while todo:
        switch = by_name[todo.pop()]
        if switch.level:
            todo += reversed(switch.children)
        else:
            units.append(switch.node_ids)
    return units


def unit_paths(topology: Topology) -> dict[int, tuple[str, ...]]:
    """Return the names of the units above each node, the highest first."""
    paths: dict[int, tuple[str, ...]] = {}
    if topology.kind == "block":
        for block in topology.blocks:
            paths |= dict.fromkeys(block.node_ids, (block.name,))
        return paths
    by_name = {switch.name: switch for switch in topology.switches}
    for switch in topology.switches:
        if switch.level:
            continue
        path, above = [switch.name], switch.parent
        while above:
            path.append(above)
            above = by_name[above].parent
        paths |= dict.fromkeys(switch.node_ids, tuple(reversed(path)))
    return paths
