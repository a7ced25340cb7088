"""Choices of nodes against slow ones that try everything."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.sched.cons_tres.node_choice import (
    Plain,
    choose_counted,
    contiguous,
    least_loaded,
    meet_counts,
)
from pyslurm_ng.sched.cons_tres.topology import WantedNodes, bits

NODES = 7
masks = st.integers(0, (1 << NODES) - 1)


def _meets(chosen: int, counts: list[tuple[int, int]]) -> bool:
    """Return whether different nodes of a set can be given to all counts, by trying all."""
    if not counts:
        return True
    (mask, count), *rest = counts
    return any(
        _meets(chosen & ~sum(1 << node_id for node_id in some), rest)
        for some in combinations(bits(chosen & mask), count)
    )


@given(
    fits=masks,
    required=masks,
    nodes=st.integers(1, NODES),
    counts=st.lists(st.tuples(masks, st.integers(1, 3)), min_size=1, max_size=3),
)
def test_counts_are_met_where_that_can_be(
    fits: int, required: int, nodes: int, counts: list[tuple[int, int]]
) -> None:
    """What is found meets all counts; without required nodes it is found whenever it exists."""
    required &= fits
    chosen = meet_counts(fits, nodes, required, counts)
    if chosen is not None:
        assert required & ~chosen == 0
        assert chosen & ~fits == 0
        assert chosen.bit_count() <= nodes
        assert _meets(chosen, counts)
    elif not required:
        total = sum(count for _, count in counts)
        assert total > nodes or not _meets(fits, counts)


@given(fits=masks, required=masks, nodes=st.integers(1, NODES))
def test_contiguous_nodes_are_neighbours_of_the_smallest_run(
    fits: int, required: int, nodes: int
) -> None:
    """Found whenever some window has only nodes that fit, all the required ones among them."""
    required &= fits
    chosen = contiguous(fits, WantedNodes(nodes, required), range(NODES))
    windows = [
        window
        for first in range(NODES - nodes + 1)
        if not (window := ((1 << nodes) - 1) << first) & ~fits and not required & ~window
    ]
    assert (chosen in windows) if windows else chosen is None
    if chosen is not None:
        assert _run(fits, chosen) == min(_run(fits, window) for window in windows)


def _run(fits: int, window: int) -> int:
    """Return the length of the run that a window lies in."""
    low, high = (window & -window).bit_length() - 1, window.bit_length() - 1
    while low and fits >> (low - 1) & 1:
        low -= 1
    while fits >> (high + 1) & 1:
        high += 1
    return high - low + 1


def test_contiguous_is_by_node_not_by_position() -> None:
    """Positions are in order of weight; the node table decides what is adjacent."""
    assert contiguous(0b1111, WantedNodes(2), [7, 3, 5, 8]) == 0b1001
    assert contiguous(0b0111, WantedNodes(2), [7, 3, 5, 8]) is None


def test_lighter_nodes_come_first() -> None:
    """A run among light nodes is taken though one with heavy nodes is smaller."""
    assert contiguous(0b1111111, WantedNodes(2), [0, 1, 2, 3, 10, 11, 12], (), [0b1111, -1]) == 0b11
    assert contiguous(0b1111111, WantedNodes(2), [0, 1, 2, 3, 10, 11, 12]) == 0b110000


def test_the_least_loaded_nodes_are_taken() -> None:
    """Required nodes are among them, whatever their load."""
    load = [0.5, 0.1, 0.9, 0.1]
    assert least_loaded(0b1111, WantedNodes(2), load) == 0b1010
    assert least_loaded(0b1111, WantedNodes(2, 0b100), load) == 0b110
    assert least_loaded(0b1, WantedNodes(2), load) is None


def test_weight_goes_before_load() -> None:
    """A heavier node is not taken because it is idle, while lighter ones have room."""
    load = [0.5, 0.25, 0.0]
    assert least_loaded(0b111, WantedNodes(2), load, [0b011, 0b111]) == 0b011
    assert least_loaded(0b111, WantedNodes(1), load, [0b011, 0b111]) == 0b010
    assert least_loaded(0b100, WantedNodes(1), load, [0b011, 0b111]) == 0b100


def test_the_first_count_that_works_is_taken() -> None:
    """Nodes that hold an even share are preferred."""
    picker = Plain({node_id: node_id for node_id in range(4)})
    fits = [(0, 1), (1, 1), (2, 4), (3, 4)]
    assert choose_counted(picker, fits, 4, [5, 2, 3], WantedNodes(1)) == [(2, 4), (3, 4)]
    assert choose_counted(picker, fits, 4, [4, 2], WantedNodes(1)) == fits
    assert choose_counted(picker, fits, 11, [4, 2], WantedNodes(1)) is None


@pytest.mark.parametrize(
    ("required", "nodes", "chosen"),
    [
        (0b0100, 2, 0b1100),  # -w n3 -N2: n[3-4]
        (0b0100, 3, 0b1110),
        (0b1000, 3, 0b1110),
        (0b1001, 3, 0b1011),
        (0b0000, 2, 0b0011),
    ],
)
def test_named_nodes_get_the_neighbours_behind_them(required: int, nodes: int, chosen: int) -> None:
    """-w with more nodes than it names takes those behind the first, then the nearest before it."""
    picker = Plain({node_id: node_id for node_id in range(4)})
    assert picker.pick(0b1111, WantedNodes(nodes, required)) == chosen


def test_neighbours_of_named_nodes_are_light_ones_first() -> None:
    """A heavier node is not taken because it lies beside a node that is named."""
    picker = Plain({node_id: node_id for node_id in range(4)}, [0b0011, -1])
    assert picker.pick(0b1111, WantedNodes(2, 0b0100)) == 0b0110
    assert picker.pick(0b1111, WantedNodes(4, 0b0100)) == 0b1111
