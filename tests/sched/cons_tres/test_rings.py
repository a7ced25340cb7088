"""Arcs of rings, against exhaustive search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.model.topology import Block, Topology
from pyslurm_ng.sched.cons_tres.layouts import layout_of
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes, bits
from tests.oracle import ring as oracle
from tests.world.examples import drawn


def rings_of(*rings: list[int]) -> Topology:
    """Return rings of some nodes in their order."""
    blocks = tuple(Block(f"r{number}", tuple(ring)) for number, ring in enumerate(rings))
    return Topology("r", "ring", (), blocks)


def layout(topology: Topology, total: int, weights: tuple[int, ...] = ()) -> Layout:
    """Number the nodes as they are named."""
    return layout_of(topology, {node: node for node in range(total)}, weights)


def mask(nodes: frozenset[int] | set[int] | list[int]) -> int:
    """Return a set of positions as an integer."""
    return sum(1 << node for node in nodes)


Case = tuple[list[list[int]], int, frozenset[int], frozenset[int]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw rings of shuffled nodes, with one node outside, those that fit, and required ones."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    total = sum(sizes) + 1
    order = draw(st.permutations(range(total)))
    rings, at = [], 0
    for size in sizes:
        rings.append(list(order[at : at + size]))
        at += size
    away = draw(st.frozensets(st.integers(0, total - 1), max_size=total // 2))
    fits = frozenset(range(total)) - away
    required = draw(st.frozensets(st.sampled_from(sorted(fits)), max_size=3))
    return rings, total, fits, required


@settings(max_examples=drawn(400), deadline=None)
@given(cases(), st.integers(1, 5), st.integers(1, 3))
def test_arcs_are_placed_exactly_when_they_fit(case: Case, length: int, count: int) -> None:
    """Any number of segments, and all required nodes among them; never anything but whole arcs."""
    rings, total, fits, required = case
    terms = WantedNodes(length * count, mask(required), length if count > 1 else 0)
    picked = layout(rings_of(*rings), total).pick(mask(fits), terms)
    arcs = [arc for ring in rings for arc in oracle.arcs(ring, length)]
    if length * count == 1:
        arcs += [frozenset((node,)) for node in range(total)]
    assert (picked is not None) == oracle.parts_possible(arcs, fits, count, required)
    if picked is not None:
        chosen = frozenset(bits(picked))
        assert required <= chosen <= fits and len(chosen) == length * count
        assert oracle.parts_possible(arcs, chosen, count, chosen)


def test_the_shortest_run_with_room_is_used_from_an_end() -> None:
    """Long runs stay whole; a run may go over the end of the list."""
    rings = layout(rings_of([0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]), 12)
    assert rings.pick(0xFFF, WantedNodes(3)) == mask([8, 9, 10])
    assert rings.pick(mask([7, 0, 1, 3, 4]), WantedNodes(2)) == mask([3, 4])
    assert rings.pick(mask([7, 0, 1, 3, 4]), WantedNodes(3)) == mask([7, 0, 1])
    assert rings.pick(mask([6, 7, 0, 1, 2]), WantedNodes(3)) in (
        mask([6, 7, 0]),
        mask([0, 1, 2]),
    )
    assert rings.pick(0xFFF, WantedNodes(9)) is None
    assert rings.pick(0xFFF, WantedNodes(8, segment=4)) is not None
    assert rings.pick(0xFFF, WantedNodes(8, segment=3)) is None


def test_lighter_arcs_come_first() -> None:
    """The nodes of an arc are weighed together."""
    rings = layout(rings_of([4, 0, 5, 1], [2, 3, 6, 7]), 8, (1, 1, 1, 1, 5, 5, 5, 5))
    assert rings.pick(0xFF, WantedNodes(2)) == mask([2, 3])
    assert rings.pick(0xFF, WantedNodes(4)) == mask([0, 1, 4, 5])


def test_ranks_go_round_the_ring_from_the_begin_of_the_arc() -> None:
    """An arc over the end of the list begins before that end."""
    rings = layout(rings_of([3, 1, 0, 2]), 5)
    for arc in ([2, 3, 1], [1, 0], [3, 1, 0, 2]):
        turns = rings.turns(sorted(arc))
        assert sorted(arc, key=turns.__getitem__) == arc


def test_nodes_on_no_ring_run_jobs_of_one_node() -> None:
    """And only when no node of a ring is free."""
    rings = layout(rings_of([0, 1]), 4)
    assert rings.pick(0b1110, WantedNodes(1)) == 0b0010
    assert rings.pick(0b1100, WantedNodes(1)) == 0b0100
    assert rings.pick(0b1100, WantedNodes(2)) is None


@pytest.mark.parametrize("missing", [0, 2])
def test_a_node_in_no_view_of_the_cluster_breaks_its_ring(missing: int) -> None:
    """A reservation's view may lack some nodes: those beside them are no neighbours."""
    known = [node for node in range(4) if node != missing]
    position = {node: at for at, node in enumerate(known)}
    rings = layout_of(rings_of([0, 1, 2, 3]), position)
    assert rings.pick(0b111, WantedNodes(3)) == 0b111
    pairs = {rings.pick(fits, WantedNodes(2)) for fits in (0b011, 0b101, 0b110)}
    assert len(pairs - {None}) == 2
