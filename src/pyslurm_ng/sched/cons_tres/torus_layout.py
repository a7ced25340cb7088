"""Which nodes of tori a job gets: a box of one of the shapes that are configured, at a grid point.

Of the boxes that are free those of the lightest nodes come first. Then those that break the fewest
free boxes of the largest shape, of the next smaller one, and so on; then those in the torus with
the fewest free nodes (docs/algorithms.md, 6). All boxes of a torus are judged at once, by the
kernel: how many of its cells a box has is a sum over a box.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pyslurm_ng._select import box_sums, boxes_within, cells_among, with_least
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.model.torus import Placement, Torus, Xyz, anchor_cells, box_cells, cells_of, volume
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes

_HERE = (0, 0, 0)
_MOST_KNOWN = 4096  # best boxes of tori with the same free nodes
_MOST_TRIES = 1000  # of boxes for segments with required nodes


_FreeBoxes: TypeAlias = "tuple[array[int], array[int]]"  # their anchors; 1 for these, else 0


class _Shape(NamedTuple):
    dims: Xyz
    cells: int
    anchors: array[int]  # cells at which the lowest corner may be


class _Box(NamedTuple):
    """A shape at a place; boxes are compared by all fields but the last ones."""

    weight: int
    broken: tuple[int, ...]
    free: int
    torus: int
    shape: int
    anchor: int


class TorusLayout(Layout):
    """Tori over numbered nodes; nodes of no torus get no jobs."""

    is_rigid = True

    def __init__(
        self, topology: Topology, position: Mapping[int, int], weights: Sequence[int] = ()
    ) -> None:
        """Number the nodes; see `Layout`."""
        super().__init__(topology, position, weights)
        by_position = weights if len(self.groups) > 1 else ()
        self._toruses = [_Cells(torus, position, by_position) for torus in topology.toruses]
        sizes = {shape.cells for torus in self._toruses for shape in torus.shapes}
        self._sizes = sorted(sizes, reverse=True)
        self._known: dict[tuple[int, int, int], _Box | None] = {}
        self._turns = [len(position)] * len(position)
        turn = 0
        for torus in self._toruses:
            for at in torus.positions:
                if at >= 0:
                    self._turns[at] = turn
                    turn += 1

    def may_have(self, terms: WantedNodes) -> bool:
        """Return whether a shape has as many cells as the job, or each of its segments."""
        return terms.part in self._sizes and terms.nodes % terms.part == 0

    def turns(self, positions: Sequence[int]) -> Sequence[int]:
        """Return the order of cells: x counts fastest, then y, then z."""
        return self._turns

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if they do not lie well enough."""
        required = terms.required
        if required & ~fits or required.bit_count() > terms.nodes:
            return None
        if fits.bit_count() < terms.nodes or not self.may_have(terms):
            return None
        cells, count = terms.part, terms.nodes // terms.part
        if count > 1:
            return self._segments(fits, cells, count, required)
        if required:
            best = min(self._boxes_with(fits, cells, required), default=None)
        else:
            best = self._best(fits, cells)
        return self._nodes(best) if best is not None else None

    def _segments(self, fits: int, cells: int, count: int, required: int) -> int | None:
        """Place segment after segment, those with required nodes first."""
        chosen = self._around(fits, cells, count, required, [_MOST_TRIES])
        if chosen is None:
            return None
        for _ in range(count - chosen.bit_count() // cells):
            best = self._best(fits & ~chosen, cells)
            if best is None:
                return None
            chosen |= self._nodes(best)
        return chosen

    def _around(
        self, fits: int, cells: int, count: int, required: int, tries: list[int]
    ) -> int | None:
        """Return boxes with all required nodes, of as many tries; those with the most come first.

        Boxes that overlap make this a search; where a grid lays them side by side, each required
        node is in one box only.
        """
        if not required:
            return 0
        ways = []
        for box in self._boxes_with(fits, cells, required & -required) if count else ():
            nodes = self._nodes(box)
            ways.append((-(nodes & required).bit_count(), box, nodes))
        for _, _, nodes in sorted(ways):
            tries[0] -= 1
            if tries[0] < 0:
                return None
            others = self._around(fits & ~nodes, cells, count - 1, required & ~nodes, tries)
            if others is not None:
                return others | nodes
        return None

    def _nodes(self, box: _Box) -> int:
        """Return the nodes of a box."""
        return self._toruses[box.torus].nodes(box.shape, box.anchor)

    def _best(self, fits: int, cells: int) -> _Box | None:
        """Return the box of so many cells to prefer of those that are free.

        From one search to the next few tori change: what was found in the others is known.
        """
        best: _Box | None = None
        for number, unit in zip(range(len(self._toruses)), self.units, strict=False):
            free = fits >> unit.first & unit.mask
            if free.bit_count() < cells:
                continue
            key = number, cells, free
            if key in self._known:
                box = self._known[key]
            else:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                box = min(self._ranked(number, fits, cells), default=None)
                self._known[key] = box
            if box is not None and (best is None or box < best):
                best = box
        return best

    def _boxes_with(self, fits: int, cells: int, required: int) -> Iterator[_Box]:
        """Yield all free boxes of so many cells that hold required nodes."""
        for number, unit in zip(range(len(self._toruses)), self.units, strict=False):
            if unit.part(required) == required:
                yield from self._ranked(number, fits, cells, required)

    def _ranked(self, number: int, fits: int, cells: int, required: int = 0) -> Iterator[_Box]:
        """Yield free boxes of a torus, of each shape only the first of the best.

        If nodes are required, all that hold them.
        """
        torus = self._toruses[number]
        free = cells_among(_packed(fits), torus.cells)
        count = self.units[number].count(fits)
        known: dict[int, _FreeBoxes] = {}  # of each shape
        for index, shape in enumerate(torus.shapes):
            if shape.cells != cells:
                continue
            best, _ = torus.free_boxes(index, free, known)
            if required:
                named = box_sums(
                    cells_among(_packed(required), torus.cells), torus.dims, shape.dims, _HERE
                )
                best = array("i", (at for at in best if named[at] == required.bit_count()))
            if not best:
                continue
            weights = torus.weights_of(index)
            broken = [
                torus.broken_by(index, free, size, known) for size in self._sizes if size >= cells
            ]
            if not required:
                for values in (weights, *broken):
                    best = with_least(best, values)
                best = best[:1]
            for at in best:
                others = tuple(values[at] for values in broken)
                yield _Box(weights[at], others, count, number, index, at)


def _packed(nodes: int) -> bytes:
    """Return a set of nodes as a bit each."""
    return nodes.to_bytes(-(-nodes.bit_length() // 8), "little")


class _Cells:
    """One torus: the position of the node in each cell, and the shapes that jobs may have."""

    def __init__(self, torus: Torus, position: Mapping[int, int], weights: Sequence[int]) -> None:
        self.dims = torus.dims
        self.positions = array("i", (position.get(node, -1) for node in cells_of(torus)))
        self.cells = self.positions.tobytes()
        self.shapes = [_shape(torus, placement) for placement in torus.placements]
        self._none = array("q", bytes(8 * len(self.positions)))
        own = [weights[at] if at >= 0 else 0 for at in self.positions] if weights else []
        self._weights = [
            box_sums(array("q", own), torus.dims, shape.dims, _HERE) if own else self._none
            for shape in self.shapes
        ]

    def weights_of(self, index: int) -> array[int]:
        """Return what the nodes of a shape weigh together, by anchor."""
        return self._weights[index]

    def nodes(self, index: int, anchor: int) -> int:
        """Return the nodes of a shape at an anchor."""
        x, rest = anchor % self.dims[0], anchor // self.dims[0]
        corner = (x, rest % self.dims[1], rest // self.dims[1])
        cells = box_cells(self.dims, corner, self.shapes[index].dims)
        return sum(1 << self.positions[cell] for cell in cells)

    def free_boxes(self, index: int, free: array[int], known: dict[int, _FreeBoxes]) -> _FreeBoxes:
        """Return the anchors of a shape at which all is free."""
        boxes = known.get(index)
        if boxes is None:
            shape = self.shapes[index]
            boxes = known[index] = boxes_within(free, self.dims, shape.dims, shape.anchors)
        return boxes

    def broken_by(
        self, index: int, free: array[int], size: int, known: dict[int, _FreeBoxes]
    ) -> array[int]:
        """Return how many free boxes of a size are no longer so, by anchor of a shape."""
        totals: array[int] | None = None
        own = self.shapes[index].dims
        for number, shape in enumerate(self.shapes):
            if shape.cells != size:
                continue
            anchors, boxes = self.free_boxes(number, free, known)
            if not anchors:
                continue
            # A box that meets another one begins less than its own length before it.
            reach = _each(own, shape.dims, lambda wide, other: wide + other - 1)
            first = _each(own, shape.dims, lambda _, other: 1 - other)
            within = _each(reach, self.dims, min)
            sums = box_sums(boxes, self.dims, within, first)
            if totals is None:
                totals = sums
            else:
                totals = array("q", map(int.__add__, totals, sums))
        return totals if totals is not None else self._none


def _each(own: Xyz, other: Xyz, combine: Callable[[int, int], int]) -> Xyz:
    x, y, z = (combine(*pair) for pair in zip(own, other, strict=True))
    return x, y, z


def _shape(torus: Torus, placement: Placement) -> _Shape:
    anchors = array("i", anchor_cells(torus.dims, placement))
    return _Shape(placement.dims, volume(placement.dims), anchors)
