"""Tori as the cluster knows them: nodes in the cells of a box whose opposite faces are joined."""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec import Struct
from msgspec.structs import replace

Xyz = tuple[int, int, int]
NO_NODE = -1  # an empty cell
_ORIGIN = (0, 0, 0)


class Region(Struct, array_like=True, frozen=True, gc=False):
    """A box of cells with its nodes: the first at `anchor`, x counts fastest, then y, then z."""

    anchor: Xyz
    dims: Xyz
    node_ids: tuple[int, ...]


class Placement(Struct, array_like=True, frozen=True, gc=False):
    """A shape that jobs may have: a box whose lowest corner is a point of a grid.

    The grid begins at `anchor_seed` and has a point every `anchor_spacing`.
    """

    dims: Xyz
    anchor_seed: Xyz
    anchor_spacing: Xyz


class Torus(Struct, array_like=True, frozen=True, gc=False):
    """One torus. `away_ids` are nodes of its regions that have said to be elsewhere."""

    name: str
    dims: Xyz
    regions: tuple[Region, ...]
    placements: tuple[Placement, ...]
    away_ids: tuple[int, ...] = ()


def volume(dims: Xyz) -> int:
    """Return how many cells a box has."""
    return dims[0] * dims[1] * dims[2]


def box_cells(torus: Xyz, anchor: Xyz, dims: Xyz) -> Iterator[int]:
    """Return the numbers of the cells of a box, which may go over the faces of its torus."""
    for z in range(anchor[2], anchor[2] + dims[2]):
        for y in range(anchor[1], anchor[1] + dims[1]):
            row = (z % torus[2] * torus[1] + y % torus[1]) * torus[0]
            for x in range(anchor[0], anchor[0] + dims[0]):
                yield row + x % torus[0]


def anchor_cells(torus: Xyz, placement: Placement) -> list[int]:
    """Return the cells at which the lowest corner of a placement may be, ascending."""
    axes = [
        [(seed + step) % length for step in range(0, length, spacing)]
        for seed, spacing, length in zip(
            placement.anchor_seed, placement.anchor_spacing, torus, strict=True
        )
    ]
    cells = {(z * torus[1] + y) * torus[0] + x for z in axes[2] for y in axes[1] for x in axes[0]}
    return sorted(cells)


def cells_of(torus: Torus) -> list[int]:
    """Return the node of each cell; NO_NODE where there is none."""
    cells = [NO_NODE] * volume(torus.dims)
    away = set(torus.away_ids)
    for region in torus.regions:
        numbers = box_cells(torus.dims, region.anchor, region.dims)
        for cell, node_id in zip(numbers, region.node_ids, strict=True):
            cells[cell] = NO_NODE if node_id in away else node_id
    return cells


def nodes_of(torus: Torus) -> tuple[int, ...]:
    """Return the nodes of a torus in the order of its cells."""
    return tuple(node_id for node_id in cells_of(torus) if node_id != NO_NODE)


def without(torus: Torus, movers: Container[int], staying: Container[int]) -> Torus:
    """Return a torus that some nodes have left or, if they were in its file, come back to."""
    away = dict.fromkeys(torus.away_ids)
    for region in torus.regions:
        for node_id in region.node_ids:
            if node_id in staying:
                away.pop(node_id, None)
            elif node_id in movers:
                away[node_id] = None
    return replace(torus, away_ids=tuple(away))


def whole(dims: Xyz, node_ids: tuple[int, ...]) -> Region:
    """Return the region of a torus whose nodes are given in one list."""
    return Region(_ORIGIN, dims, node_ids)
