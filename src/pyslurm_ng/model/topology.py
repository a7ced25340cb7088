"""The network as the cluster knows it: switches in trees, blocks, rings and tori."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.numbers import MOST_OF_RING

from .partition import Partition
from .torus import Torus, nodes_of, without

_ANY = -1  # stands for a node that is in no unit yet
_LISTED = ("block", "ring")  # kinds whose units are lists of nodes


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
    """One block, whose nodes are equally near one another; or a ring, each node beside the next."""

    name: str
    node_ids: tuple[int, ...]


class Topology(Struct, array_like=True, frozen=True, gc=False):
    """One description of the network; partitions name theirs, the others have the default.

    `kind` is tree, block, ring, torus3d or flat; `blocks` may be rings. `block_sizes` are node
    counts, ascending, each the first times a power of two. Blocks are joined in the order given
    here.
    """

    name: str
    kind: str
    switches: tuple[Switch, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()
    is_default: bool = False
    toruses: tuple[Torus, ...] = ()


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
    """Return the nodes of each unit, neighbours in the network side by side.

    Units are leaf switches, blocks, rings or tori.
    """
    if topology.kind == "torus3d":
        return [nodes_of(torus) for torus in topology.toruses]
    if topology.kind in _LISTED:
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
    for torus in topology.toruses:
        paths |= dict.fromkeys(nodes_of(torus), (torus.name,))
    if topology.kind in _LISTED:
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


# Places that nodes name --------------------------------------------------------------------------


def places_of(setting: str) -> dict[str, tuple[str, ...]]:
    """Return the units that a node's Topology= names: {topology: (unit,)}.

    `TOPOLOGY:UNIT[,...]`; in a tree the switches above the unit may stand before it, with colons.
    In a torus a node has the cell that topology.yaml says, or none.
    """
    places_by_node = {}
    for pair in setting.split(",") if setting else ():
        name, *path = pair.split(":")
        places_by_node[name] = tuple(path)
    return places_by_node


def are_places(
    topologies: Iterable[Topology], setting: str, node_ids: Sequence[int] = (_ANY,)
) -> bool:
    """Return whether every part of a Topology= names a place in a network that nodes can have."""
    by_name = {topology.name: topology for topology in topologies}
    for name, path in places_of(setting).items():
        topology = by_name.get(name)
        if topology is None:
            return False
        moved = _with_nodes(topology, dict.fromkeys(node_ids, path))
        if not set(node_ids) <= {node for unit in units_in_order(moved) for node in unit}:
            return False
    return True


def placed(topologies: Iterable[Topology], settings: Mapping[int, str]) -> tuple[Topology, ...]:
    """Move nodes to the units that they name themselves, by node id.

    A node leaves the topologies that its setting does not name, or in which it names no unit.
    """
    paths = {node_id: places_of(setting) for node_id, setting in settings.items()}
    return tuple(
        _with_nodes(
            topology,
            {node_id: by_topology.get(topology.name, ()) for node_id, by_topology in paths.items()},
        )
        for topology in topologies
    )


def _with_nodes(topology: Topology, paths: Mapping[int, tuple[str, ...]]) -> Topology:
    """Return a topology in which some nodes are where they say, or nowhere."""
    if not paths:
        return topology
    if topology.kind in _LISTED:
        joining = _by_last({node_id: path for node_id, path in paths.items() if len(path) == 1})
        moved = _moved if topology.kind == "block" else _moved_on_ring
        blocks = tuple(
            replace(block, node_ids=moved(block.node_ids, paths, joining.get(block.name, ())))
            for block in topology.blocks
        )
        return replace(topology, blocks=blocks)
    if topology.kind == "torus3d":
        toruses = tuple(
            without(torus, paths, {node for node, path in paths.items() if path == (torus.name,)})
            for torus in topology.toruses
        )
        return replace(topology, toruses=toruses)
    switches = {switch.name: switch for switch in topology.switches}
    joining = _by_last(
        {node_id: path for node_id, path in paths.items() if _add_path(switches, path)}
    )
    return replace(topology, switches=_filled(switches, paths, joining))


def _by_last(paths: Mapping[int, tuple[str, ...]]) -> dict[str, list[int]]:
    """Return the nodes that join each unit."""
    by_last: dict[str, list[int]] = {}
    for node_id, path in paths.items():
        by_last.setdefault(path[-1], []).append(node_id)
    return by_last


def _moved(
    node_ids: tuple[int, ...], movers: Container[int], joining: Sequence[int]
) -> tuple[int, ...]:
    """Return the nodes of a unit when some have moved to other ones."""
    stay = [node_id for node_id in node_ids if node_id not in movers]
    return (*stay, *joining)


def _moved_on_ring(
    node_ids: tuple[int, ...], movers: Container[int], joining: Sequence[int]
) -> tuple[int, ...]:
    """Return the same of a ring: a node that stays keeps its place, others come between the ends.

    There is no room for more than a ring may have.
    """
    stay = [node_id for node_id in node_ids if node_id not in movers or node_id in joining]
    others = [node_id for node_id in joining if node_id not in stay]
    return (*stay, *others)[:MOST_OF_RING]


def _add_path(switches: dict[str, Switch], path: tuple[str, ...]) -> bool:
    """Add the switches of a path that are missing; return whether it leads to a leaf switch."""
    known = next((turn for turn, name in enumerate(path) if name not in switches), len(path))
    new_names = path[known:]
    if (
        not known
        or any(name in switches or not name for name in new_names)
        or len(set(new_names)) < len(new_names)
    ):
        return False
    for above, name in itertools.pairwise(path[:known]):
        if switches[name].parent != above:
            return False
    last = switches[path[known - 1]]
    if not new_names:
        return not last.children
    if last.node_ids and not last.children:
        return False  # it has nodes of its own
    for above, name in itertools.pairwise(path[known - 1 :]):
        parent = switches[above]
        switches[above] = replace(parent, children=(*parent.children, name))
        switches[name] = Switch(name, 0, (), parent=above)
    return True


def _filled(
    switches: Mapping[str, Switch], movers: Container[int], joining: Mapping[str, Sequence[int]]
) -> tuple[Switch, ...]:
    """Return switches with their levels and with all nodes below them."""
    done: dict[str, Switch] = {}
    todo = list(switches)
    while todo:
        switch = switches[todo[-1]]
        missing = [child for child in switch.children if child not in done]
        if missing:
            todo += missing
            continue
        below = [done[child] for child in switch.children]
        node_ids = tuple(node_id for child in below for node_id in child.node_ids)
        if not below:
            node_ids = _moved(switch.node_ids, movers, joining.get(switch.name, ()))
        level = 1 + max((child.level for child in below), default=-1)
        done[todo.pop()] = replace(switch, level=level, node_ids=node_ids)
    return tuple(done[name] for name in switches)
