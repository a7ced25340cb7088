"""Boxes of tori, against exhaustive search, and the kernel's sums against their twin."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import box_sums, boxes_within, cells_among, with_least
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.model.torus import Placement, Torus, Xyz, anchor_cells, volume, whole
from pyslurm_ng.sched.cons_tres.layouts import layout_of
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes, bits
from tests.oracle import ring as oracle
from tests.world.examples import drawn

_HERE = (0, 0, 0)


def torus_of(dims: Xyz, *shapes: Xyz | Placement, first: int = 0, name: str = "t") -> Torus:
    """Return a torus of nodes with consecutive numbers."""
    node_ids = tuple(range(first, first + volume(dims)))
    placements = tuple(
        shape if isinstance(shape, Placement) else Placement(shape, _HERE, shape)
        for shape in shapes
    )
    return Torus(name, dims, (whole(dims, node_ids),), placements)


def layout(*toruses: Torus, weights: tuple[int, ...] = ()) -> Layout:
    """Number the nodes as they are named."""
    total = sum(volume(torus.dims) for torus in toruses)
    topology = Topology("t", "torus3d", toruses=toruses)
    return layout_of(topology, {node: node for node in range(total)}, weights)


def mask(nodes: frozenset[int] | set[int] | list[int]) -> int:
    """Return a set of positions as an integer."""
    return sum(1 << node for node in nodes)


def boxes_of(torus: Torus, cells: int) -> list[frozenset[int]]:
    """Return all boxes of so many cells that jobs may have."""
    boxes = []
    for placement in torus.placements:
        if volume(placement.dims) == cells:
            for at in anchor_cells(torus.dims, placement):
                x, y, z = torus.dims
                corner = (at % x, at // x % y, at // x // y % z)
                boxes.append(oracle.box(torus.dims, corner, placement.dims))
    return boxes


lengths = st.integers(1, 4)
xyz = st.tuples(lengths, lengths, lengths)


@settings(max_examples=drawn(200), deadline=None)
@given(xyz, xyz, st.tuples(*[st.integers(-5, 5)] * 3), st.integers(0, 1 << 30))
def test_the_kernel_sums_as_its_twin(dims: Xyz, box: Xyz, offset: Xyz, seed: int) -> None:
    """Over any box that is no larger than the torus."""
    inside = (min(box[0], dims[0]), min(box[1], dims[1]), min(box[2], dims[2]))
    source = random.Random(seed)
    values = array("q", (source.randint(-9, 9) for _ in range(volume(dims))))
    kept = values[:]
    sums = list(box_sums(values, dims, inside, offset))
    assert sums == oracle.box_sums(values, dims, inside, offset)
    assert values == kept


@settings(max_examples=drawn(200), deadline=None)
@given(xyz, xyz, st.integers(0, 1 << 30))
def test_the_kernel_tells_free_boxes_and_the_least(dims: Xyz, box: Xyz, seed: int) -> None:
    """At anchors only; of equal values all, in their order."""
    inside = (min(box[0], dims[0]), min(box[1], dims[1]), min(box[2], dims[2]))
    source, cells = random.Random(seed), volume(dims)
    free = array("q", (source.random() < 0.8 for _ in range(cells)))
    anchors = array("i", sorted(source.sample(range(cells), source.randint(0, cells))))
    sums = oracle.box_sums(free, dims, inside, _HERE)
    expected = [at for at in anchors if sums[at] == volume(inside)]
    own, flags = boxes_within(free, dims, inside, anchors)
    assert list(own) == expected
    assert [at for at, flag in enumerate(flags) if flag] == expected
    values = array("q", (source.randint(-2, 2) for _ in range(cells)))
    least = min((values[at] for at in anchors), default=0)
    assert list(with_least(anchors, values)) == [at for at in anchors if values[at] == least]


def test_the_kernel_refuses_what_is_no_torus() -> None:
    """Nothing is read beyond the cells that there are."""
    for values, box in ((8, (3, 1, 1)), (7, (1, 1, 1)), (8, (0, 1, 1))):
        with pytest.raises(ValueError):
            box_sums(array("q", [1] * values), (2, 2, 2), box, _HERE)
    for anchor in (-1, 8):
        with pytest.raises(ValueError):
            boxes_within(array("q", [1] * 8), (2, 2, 2), (1, 1, 1), array("i", [anchor]))
        with pytest.raises(ValueError):
            with_least(array("i", [anchor]), array("q", [1] * 8))
    assert list(cells_among(b"\5", array("i", [2, -1, 1, 0, 99]).tobytes())) == [1, 0, 0, 1, 0]


@st.composite
def tori(draw: st.DrawFn) -> tuple[Torus, frozenset[int], frozenset[int]]:
    """Draw a small torus with shapes on any grid, the nodes that fit, and required ones."""
    axis = st.integers(1, 3)
    dims = draw(st.tuples(axis, axis, axis))

    def below(low: int, high: int) -> st.SearchStrategy[Xyz]:
        x, y, z = (st.integers(low, length + high) for length in dims)
        return st.tuples(x, y, z)

    shapes = st.builds(Placement, below(1, 0), below(0, -1), below(1, 0))
    torus = torus_of(dims, *draw(st.lists(shapes, min_size=1, max_size=3)))
    nodes = range(volume(dims))
    fits = frozenset(nodes) - draw(st.frozensets(st.sampled_from(nodes), max_size=4))
    required = draw(st.frozensets(st.sampled_from(sorted(fits)), max_size=2)) if fits else fits
    return torus, fits, required


@settings(max_examples=drawn(300), deadline=None)
@given(tori(), st.integers(1, 27))
def test_a_job_has_a_shape_at_a_point_of_its_grid(
    case: tuple[Torus, frozenset[int], frozenset[int]], cells: int
) -> None:
    """Exactly when one is free."""
    torus, fits, required = case
    picked = layout(torus).pick(mask(fits), WantedNodes(cells, mask(required)))
    boxes = [box for box in boxes_of(torus, cells) if required <= box <= fits]
    assert (picked is not None) == bool(boxes)
    if picked is not None:
        assert frozenset(bits(picked)) in boxes


@settings(max_examples=drawn(200), deadline=None)
@given(tori(), st.integers(1, 6), st.integers(2, 3))
def test_each_segment_has_a_shape(
    case: tuple[Torus, frozenset[int], frozenset[int]], cells: int, count: int
) -> None:
    """One after the other; where shapes lie side by side they are found whenever they fit."""
    torus, fits, required = case
    terms = WantedNodes(cells * count, mask(required), cells)
    picked = layout(torus).pick(mask(fits), terms)
    boxes = boxes_of(torus, cells)
    possible = oracle.parts_possible(boxes, fits, count, required)
    if picked is not None:
        chosen = frozenset(bits(picked))
        assert required <= chosen <= fits
        assert oracle.parts_possible(boxes, chosen, count, chosen)
    elif possible:
        assert sum(map(len, set(boxes))) > len(frozenset().union(*boxes))  # they overlap


def test_larger_shapes_stay_free() -> None:
    """Small jobs share a broken box, and fill it before the next one is broken."""
    shapes = layout(torus_of((4, 4, 4), (1, 1, 1), (2, 2, 2), (4, 4, 2)))
    free = mask(set(range(64)))
    halves = [mask(set(range(32))), mask(set(range(32, 64)))]
    taken = 0
    for _ in range(3):
        picked = shapes.pick(free & ~taken, WantedNodes(8))
        assert picked is not None
        taken |= picked
    assert sum(1 for half in halves if half & taken) == 1
    for _ in range(8):
        picked = shapes.pick(free & ~taken, WantedNodes(1))
        assert picked is not None
        taken |= picked
    # The rest of the half, and not an eighth of the other one.
    assert taken in halves
    assert shapes.pick(free & ~taken, WantedNodes(32)) == free & ~taken


def test_boxes_on_a_fine_grid_lie_close() -> None:
    """A box that may be anywhere goes where it breaks the fewest others of its shape."""
    line = Placement((2, 1, 1), _HERE, (1, 1, 1))
    shapes = layout(torus_of((8, 1, 1), line))
    free = 0b11111111
    for most in (3, 2, 1, 0):
        picked = shapes.pick(free, WantedNodes(2))
        assert picked is not None
        free &= ~picked
        runs = 0
        while shapes.pick(free, WantedNodes(2 * (runs + 1), segment=2)) is not None:
            runs += 1
        assert runs == most


def test_lighter_boxes_come_first_then_fuller_tori() -> None:
    """Weights count before what is broken; equal boxes are taken where least is free."""
    toruses = [torus_of((2, 2, 1), (2, 1, 1)), torus_of((2, 2, 1), (2, 1, 1), first=4, name="u")]
    assert layout(*toruses).pick(0b11111100, WantedNodes(2)) == 0b1100
    heavy = layout(*toruses, weights=(1, 1, 1, 1, 2, 2, 3, 3))
    assert heavy.pick(0b11110011, WantedNodes(2)) == 0b11
    assert heavy.pick(0b11110000, WantedNodes(2)) == 0b110000


def test_sizes_that_are_no_shape_are_refused() -> None:
    """Also one node, unless it is a shape."""
    shapes = layout(torus_of((2, 2, 2), (2, 2, 1)))
    assert shapes.pick(0xFF, WantedNodes(1)) is None
    assert shapes.pick(0xFF, WantedNodes(8)) is None
    assert shapes.pick(0xFF, WantedNodes(8, segment=4)) == 0xFF
    assert shapes.pick(0xFF, WantedNodes(4, segment=2)) is None


def test_an_empty_cell_breaks_every_box_around_it() -> None:
    """A node that says it is elsewhere leaves a hole."""
    torus = torus_of((2, 2, 1), (2, 1, 1))
    gone = Torus(torus.name, torus.dims, torus.regions, torus.placements, (0,))
    assert layout(gone).pick(0b1111, WantedNodes(2)) == 0b1100
    assert layout(gone).pick(0b0011, WantedNodes(2)) is None
