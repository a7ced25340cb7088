"""Which nodes of rings a job gets: neighbours all, an arc, or an arc for each of its segments.

A ring has so few nodes that each arc of it is looked at, as an integer with a bit for each place of
the ring. Of all arcs that are free those of the lightest nodes come first, then those in the
shortest run of free nodes, at an end of it, so that long runs stay whole (docs/algorithms.md, 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from pyslurm_ng._select import unit_counts
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes, bits

_PLACES = 64  # more than a ring has


class Arc(NamedTuple):
    """Neighbours on a ring as places, those to prefer first: by run, whether inside, and start."""

    run: int
    is_inside: bool
    start: int
    places: int


_Rank = tuple[int, int, bool, int, int]  # weight, run, is_inside, ring, start


class RingLayout(Layout):
    """Rings over numbered nodes; nodes of no ring are for jobs of one node."""

    is_rigid = True

    def __init__(
        self, topology: Topology, position: Mapping[int, int], weights: Sequence[int] = ()
    ) -> None:
        """Number the nodes; see `Layout`."""
        super().__init__(topology, position, weights)
        # The position at each place; a place whose node is in no view of the cluster has none.
        self._rings = [
            [position.get(node_id, -1) for node_id in ring.node_ids] for ring in topology.blocks
        ]
        self._place = {at: step for ring in self._rings for step, at in enumerate(ring) if at >= 0}
        self._is_straight = [
            all(at == unit.first + step for step, at in enumerate(ring))
            for ring, unit in zip(self._rings, self.units, strict=False)
        ]
        self._weights = weights if len(self.groups) > 1 else ()

    def may_have(self, terms: WantedNodes) -> bool:
        """Return whether a ring is as long as an arc of the job."""
        if terms.nodes == 1:
            return True
        return terms.part <= self.widest and terms.nodes % terms.part == 0

    def turns(self, positions: Sequence[int]) -> Mapping[int, int]:
        """Return an order along each ring that begins where the job's arc does."""
        by_ring: dict[int, int] = {}
        for at in positions:
            number = self.unit_of[at]
            by_ring[number] = by_ring.get(number, 0) | 1 << self._place.get(at, 0)
        turns = {}
        for at in positions:
            number = self.unit_of[at]
            size = len(self._rings[number]) if number < len(self._rings) else 1
            start = _start(by_ring[number], size)
            turns[at] = number * _PLACES + (self._place.get(at, 0) - start) % size
        return turns

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if they do not lie well enough."""
        required = terms.required
        if required & ~fits or required.bit_count() > terms.nodes:
            return None
        if fits.bit_count() < terms.nodes or not self.may_have(terms):
            return None
        if terms.nodes == 1 and (required or not fits & ~self._loose):
            loose = required or fits & self._loose
            return loose & -loose
        if required & self._loose:
            return None
        length, count = terms.part, terms.nodes // terms.part
        free = self._free_places(fits, length)
        if not required:
            return self._arcs(free, length, count)
        if count == 1:
            return self._around(free, length, required)
        return self._segments(free, length, count, required)

    def _free_places(self, fits: int, least: int) -> dict[int, int]:
        """Return the places that fit of each ring with enough of them."""
        packed = fits.to_bytes(-(-fits.bit_length() // 8), "little")
        counts = unit_counts(packed, self._unit_of, len(self._rings))
        return {
            number: self._places(number, fits)
            for number, fit_count in enumerate(counts)
            if fit_count >= least
        }

    def _places(self, number: int, nodes: int) -> int:
        """Return some nodes as places of a ring."""
        unit = self.units[number]
        own = nodes >> unit.first & unit.mask
        if self._is_straight[number]:
            return own
        places = 0
        for step, at in enumerate(self._rings[number]):
            if at >= 0 and own >> at - unit.first & 1:
                places |= 1 << step
        return places

    def _nodes(self, number: int, places: int) -> int:
        """Return places of a ring as nodes."""
        ring = self._rings[number]
        return sum(1 << ring[step] for step in bits(places))

    def _best(
        self, number: int, free: int, length: int, required: int = 0
    ) -> tuple[_Rank, int] | None:
        """Return the arc of a ring to prefer, with its rank among those of all rings."""
        arcs: Iterable[Arc] = arcs_of(free, len(self._rings[number]), length)
        if required:
            arcs = [arc for arc in arcs if not required & ~arc.places]
        best: tuple[_Rank, int] | None = None
        for arc in arcs:
            rank = (self._weight(number, arc.places), arc.run, arc.is_inside, number, arc.start)
            if best is None or rank < best[0]:
                best = rank, arc.places
            if not self._weights:
                break  # they are in order
        return best

    def _weight(self, number: int, places: int) -> int:
        if not self._weights:
            return 0
        ring = self._rings[number]
        return sum(self._weights[ring[step]] for step in bits(places))

    def _arcs(self, free: dict[int, int], length: int, count: int) -> int | None:
        """Return so many arcs of a length, the best first; `free` are places by ring."""
        ranked = [
            best
            for number, places in free.items()
            if (best := self._best(number, places, length)) is not None
        ]
        heapify(ranked)
        spare, chosen = dict(free), 0
        while count:
            if not ranked:
                return None
            rank, places = heappop(ranked)
            number = rank[3]
            chosen |= self._nodes(number, places)
            count -= 1
            spare[number] &= ~places
            best = self._best(number, spare[number], length) if count else None
            if best is not None:
                heappush(ranked, best)
        return chosen

    def _around(self, free: dict[int, int], length: int, required: int) -> int | None:
        """Return one arc with all required nodes."""
        number = self.unit_of[required.bit_length() - 1]
        own = self.units[number].part(required)
        if own != required or number not in free:
            return None
        best = self._best(number, free[number], length, self._places(number, required))
        return self._nodes(number, best[1]) if best is not None else None

    def _segments(self, free: dict[int, int], length: int, count: int, required: int) -> int | None:
        """Return arcs with the required nodes, as few as can be, and others beside them.

        Where too few others remain, the required nodes get more arcs than they need.
        """
        sums: dict[int, dict[int, int]] = {0: {}}  # by number of arcs: places by ring
        for number in sorted({self.unit_of[at] for at in bits(required)}):
            if number not in free:
                return None
            own, size = self._places(number, required), len(self._rings[number])
            ways = covers(free[number], size, length, own)
            longer: dict[int, dict[int, int]] = {}
            for before, chosen in sums.items():
                for arcs, places in ways.items():
                    if before + arcs <= count:
                        longer.setdefault(before + arcs, {**chosen, number: places})
            sums = longer
        for arcs in sorted(sums):
            chosen = sums[arcs]
            spare = {number: places & ~chosen.get(number, 0) for number, places in free.items()}
            others = self._arcs(spare, length, count - arcs)
            if others is not None:
                return others | sum(self._nodes(*pair) for pair in chosen.items())
        return None


def _start(places: int, size: int) -> int:
    """Return the first place of an arc: one whose neighbour before it is not in it."""
    before = (places << 1 | places >> size - 1) & (1 << size) - 1
    firsts = places & ~before
    return (firsts & -firsts).bit_length() - 1 if firsts else 0


@lru_cache(1 << 15)
def arcs_of(free: int, size: int, length: int) -> tuple[Arc, ...]:
    """Return the arcs of so many free places of a ring, those to prefer first."""
    if length > size or free.bit_count() < length:
        return ()
    starts = range(size if length < size else 1)
    arcs = []
    for start in starts:
        places = turned((1 << length) - 1, size, start)
        if places & ~free:
            continue
        behind = ahead = 0
        while behind + ahead + length < size and free >> (start - behind - 1) % size & 1:
            behind += 1
        while behind + ahead + length < size and free >> (start + length + ahead) % size & 1:
            ahead += 1
        run = behind + length + ahead
        arcs.append(Arc(run, run < size and behind > 0 and ahead > 0, start, places))
    return tuple(sorted(arcs))


def turned(places: int, size: int, steps: int) -> int:
    """Return places of a ring moved on by some steps."""
    return (places << steps | places >> size - steps) & (1 << size) - 1


@lru_cache(1 << 12)
def covers(free: int, size: int, length: int, required: int) -> dict[int, int]:
    """Return how many disjoint arcs can hold all required places, and then the arcs' places.

    Every number of arcs for which there is a way is there, by exhaustive search: the arc with the
    first required place begins somewhere, and cut there the ring is a line.
    """
    ways: dict[int, int] = {}
    first = (required & -required).bit_length() - 1
    for step in range(length):
        start = (first - step) % size
        arc = turned((1 << length) - 1, size, start)
        if arc & ~free:
            continue
        line = turned(free & ~arc, size, size - start)
        others = turned(required & ~arc, size, size - start)
        for arcs, places in _on_line(line, size, length, others).items():
            ways.setdefault(arcs + 1, arc | turned(places, size, start))
    return ways


def _on_line(free: int, size: int, length: int, required: int) -> dict[int, int]:
    """Return the same of a line: by number of arcs, the places of these."""
    best: list[dict[int, int]] = [{0: 0}]
    for end in range(1, size + 1):
        ways = {} if required >> end - 1 & 1 else dict(best[end - 1])
        arc = (1 << length) - 1 << end - length if end >= length else 0
        if arc and not arc & ~free:
            for arcs, places in best[end - length].items():
                ways.setdefault(arcs + 1, places | arc)
        best.append(ways)
    return best[size]
