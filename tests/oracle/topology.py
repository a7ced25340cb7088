"""Exhaustive search for placements: every subset of the nodes that fit is judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

Tree = Sequence[tuple[int, frozenset[int]]]
"""(level, nodes below) of every switch."""


def leaves_used(tree: Tree, nodes: Iterable[int]) -> int:
    """Return how many leaf switches some nodes are spread over."""
    chosen = frozenset(nodes)
    return sum(1 for level, below in tree if not level and chosen & below)


def lowest_level(tree: Tree, nodes: Iterable[int]) -> int | None:
    """Return the level of the lowest switch above all of some nodes, None if there is none."""
    chosen = frozenset(nodes)
    return min((level for level, below in tree if chosen <= below), default=None)


def best_in_tree(
    tree: Tree, fits: Iterable[int], count: int, required: frozenset[int]
) -> tuple[int, int] | None:
    """Return the fewest leaves, then the lowest level, over all choices; None if there is none."""
    best = None
    for nodes in combinations(sorted(fits), count):
        level = lowest_level(tree, nodes)
        if required <= frozenset(nodes) and level is not None:
            cost = (leaves_used(tree, nodes), level)
            best = cost if best is None else min(best, cost)
    return best


def segments_possible(
    blocks: Sequence[frozenset[int]], fits: frozenset[int], segments: int, size: int
) -> bool:
    """Return whether so many segments of a size fit, each in one block."""
    return sum(len(block & fits) // size for block in blocks) >= segments


def block_possible(
    blocks: Sequence[frozenset[int]], sizes: Sequence[int], fits: frozenset[int], count: int
) -> bool:
    """Return whether `count` nodes lie in one block of the smallest size that holds them.

    In it no more blocks of the next smaller size are used than the count makes necessary.
    """
    level = next((number for number, size in enumerate(sizes) if size >= count), len(sizes))
    step = len(blocks) if level == len(sizes) else sizes[level] // sizes[0]
    for first in range(0, len(blocks), step):
        group = blocks[first : first + step]
        if not level:
            if len(group[0] & fits) >= count:
                return True
            continue
        lower = sizes[level - 1] // sizes[0]
        parts = sorted(
            (
                sum(len(block & fits) for block in group[at : at + lower])
                for at in range(0, len(group), lower)
            ),
            reverse=True,
        )
        if sum(parts[: -(-count // sizes[level - 1])]) >= count:
            return True
    return False
