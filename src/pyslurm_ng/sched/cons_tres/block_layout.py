"""Which nodes of blocks a job gets.

Nothing is split that fits a block; of blocks with room one with the lightest node, of these the one
with the fewest free nodes, so that the largest ones stay whole (docs/algorithms.md, 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyslurm_ng.model.topology import Topology
from pyslurm_ng.sched.cons_tres.topology import (
    Layout,
    Span,
    WantedNodes,
    bits,
    span_of_positions,
    take,
)


class BlockLayout(Layout):
    """Blocks over numbered nodes."""

    def __init__(
        self, topology: Topology, position: Mapping[int, int], weights: Sequence[int] = ()
    ) -> None:
        """Number the nodes; see `Layout`."""
        super().__init__(topology, position, weights)
        self._sizes = topology.block_sizes
        self._levels = [self._groups_of(level) for level in range(len(self._sizes) + 1)]

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if they do not lie well enough.

        Blocks are weighed as wholes.
        """
        if terms.required & ~fits or terms.required.bit_count() > terms.nodes:
            return None
        return self._from_segments(fits, terms) if fits.bit_count() >= terms.nodes else None

    def _from_segments(self, fits: int, terms: WantedNodes) -> int | None:
        if not terms.segment or terms.segment >= terms.nodes:
            return self._from_blocks(fits, terms.nodes, terms.required)
        if not terms.consolidates:
            return self._segments(fits, terms)
        level = self._level_of(terms.nodes)
        groups = [span.part(fits) for span, _ in self._levels[level]]
        for free in sorted(groups, key=lambda free: (self._lightness(free), free.bit_count())):
            if not terms.required & ~free and free.bit_count() >= terms.nodes:
                chosen = self._segments(free, terms)
                if chosen is not None:
                    return chosen
        return None

    def _lightness(self, nodes: int) -> int:
        """Return the place of the lightest of some nodes among the weights there are."""
        return next((turn for turn, group in enumerate(self.groups) if nodes & group), 0)

    def _level_of(self, nodes: int) -> int:
        """Return the smallest planning size that holds so many nodes; beyond the last: all."""
        sizes = self._sizes
        return next((number for number, size in enumerate(sizes) if size >= nodes), len(sizes))

    def _segments(self, fits: int, terms: WantedNodes) -> int | None:
        """Place segment by segment, those with required nodes first."""
        size = terms.segment
        if terms.nodes % size:
            return None
        chosen, required, closed = 0, terms.required, 0
        for _ in range(terms.nodes // size):
            own = 0
            if required:
                first = (required & -required).bit_length() - 1
                beside = self.units[self.unit_of[first]].part(required)
                own, _ = take(beside, 0, size)
                required &= ~own
                if own & closed:
                    return None
            block_nodes = self._from_blocks(fits & ~chosen & ~required & ~closed, size, own)
            if block_nodes is None:
                return None
            chosen |= block_nodes
            if terms.spreads:
                for number in {self.unit_of[position] for position in bits(block_nodes)}:
                    unit = self.units[number]
                    closed |= unit.mask << unit.first
        return None if required else chosen

    def _from_blocks(self, fits: int, nodes: int, required: int) -> int | None:
        """Place nodes in one block of the smallest planning size that holds them."""
        level = self._level_of(nodes)
        best: tuple[int, int, int] | None = None
        best_chosen: int | None = None
        for number, (span, group) in enumerate(self._levels[level]):
            total = span.count(fits)
            if total < nodes or span.part(required) != required:
                continue
            weight = self._lightness(span.part(fits)) if len(self.groups) > 1 else 0
            # Later ones on ties, as users of Slurm know it.
            rank = (weight, total, -number)
            if best is not None and rank >= best:
                continue
            chosen = self._inside(span.part(fits), group, level, nodes, required)
            if chosen is not None:
                best, best_chosen = rank, chosen
        if best_chosen is None and self._loose and nodes == 1 and not required & ~self._loose:
            loose = required or fits & self._loose
            return loose & -loose if loose else None
        return best_chosen

    def _groups_of(self, level: int) -> list[tuple[Span, range]]:
        """Return nodes and base blocks of every block of a planning size; beyond the last: all."""
        blocks = len(self.units) - bool(self._loose)
        step = blocks
        if level < len(self._sizes):
            step = self._sizes[level] // self._sizes[0]
        groups = []
        for first in range(0, blocks, step):
            group = range(first, min(blocks, first + step))
            units = [self.units[block] for block in group]
            positions = [unit.first + position for unit in units for position in bits(unit.mask)]
            groups.append((span_of_positions(positions), group))
        return groups

    def _inside(self, free: int, group: range, level: int, nodes: int, required: int) -> int | None:
        """Fill blocks of the next smaller planning size, only as many as are needed."""
        if not level:
            return take(free & ~required, required, nodes - required.bit_count())[0]
        size = self._sizes[level - 1]
        most = -(-nodes // size)
        step = size // self._sizes[0]
        smaller = self._levels[level - 1][group.start // step : -(-group.stop // step)]
        parts = [(span.part(free), inner) for span, inner in smaller if span.count(free)]
        required_parts = [part for part in parts if part[0] & required]
        others = [part for part in parts if not part[0] & required]
        if len(required_parts) > most:
            return None
        ways = (
            _tight(others, required_parts, nodes, size),
            required_parts + sorted(others, key=_size, reverse=True),
        )
        for order in ways:
            chosen = self._fill(order[:most], level - 1, nodes, required)
            if chosen is not None:
                return chosen
        return None

    def _fill(
        self, order: Sequence[tuple[int, range]], level: int, nodes: int, required: int
    ) -> int | None:
        """Take nodes from blocks in order; what a block has left over stays in few smaller ones."""
        if sum(_size(part) for part in order) < nodes:
            return None
        chosen, missing_count = 0, nodes
        still = required.bit_count()
        for free, group in order:
            own = required & free
            still -= own.bit_count()
            give = min(free.bit_count(), missing_count - still)
            part: int | None = None
            if give < free.bit_count():
                part = self._inside(free, group, level, give, own)
            if part is None:
                part, _ = take(free & ~own, own, give - own.bit_count())
            chosen |= part
            missing_count -= part.bit_count()
            if not missing_count:
                return chosen
        return None


def _size(part: tuple[int, range]) -> int:
    return part[0].bit_count()


def _tight(
    others: Sequence[tuple[int, range]],
    required_parts: Sequence[tuple[int, range]],
    nodes: int,
    size: int,
) -> list[tuple[int, range]]:
    """Return blocks by best fit: each the smallest that still gives a full share of the rest."""
    order = list(required_parts)
    missing_count = nodes - sum(map(_size, required_parts))
    spare = sorted(others, key=_size)
    while missing_count > 0 and spare:
        share = min(missing_count, size)
        best = next((part for part in spare if _size(part) >= share), spare[-1])
        spare.remove(best)
        order.append(best)
        missing_count -= min(_size(best), share)
    return order
