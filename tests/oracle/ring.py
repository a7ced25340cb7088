"""Arcs of rings and boxes of tori by plain search: what the layouts of the scheduler must find."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product

Xyz = tuple[int, int, int]


def arcs(ring: Sequence[int], length: int) -> list[frozenset[int]]:
    """Return every set of so many neighbours on a ring."""
    if length > len(ring):
        return []
    return [
        frozenset(ring[(start + step) % len(ring)] for step in range(length))
        for start in range(len(ring))
    ]


def parts_possible(
    parts: Collection[frozenset[int]], free: frozenset[int], count: int, required: frozenset[int]
) -> bool:
    """Return whether so many parts that share no node lie in what is free and hold some nodes."""
    if not count:
        return not required
    usable = [part for part in set(parts) if part <= free]
    if required:
        usable = [part for part in usable if min(required) in part]
    return any(
        parts_possible(parts, free - part, count - 1, required - part)
        for part in sorted(usable, key=sorted)
    )


def box(torus: Xyz, anchor: Xyz, dims: Xyz) -> frozenset[int]:
    """Return the cells of a box of a torus, x first."""
    corners = product(*(range(length) for length in dims))
    return frozenset(
        (anchor[0] + x) % torus[0]
        + torus[0] * ((anchor[1] + y) % torus[1] + torus[1] * ((anchor[2] + z) % torus[2]))
        for x, y, z in corners
    )


def box_sums(values: Sequence[int], torus: Xyz, dims: Xyz, offset: Xyz) -> list[int]:
    """Return the sum over the box that begins at an offset from each cell."""
    cells = product(range(torus[2]), range(torus[1]), range(torus[0]))
    return [
        sum(
            values[cell] for cell in box(torus, (x + offset[0], y + offset[1], z + offset[2]), dims)
        )
        for z, y, x in cells
    ]
