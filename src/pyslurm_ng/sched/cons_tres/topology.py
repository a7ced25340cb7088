"""Which nodes of those that fit lie well in the network: trees of switches, and blocks.

Nodes are numbered by position, those to prefer first, and sets of nodes are integers with a bit
each: a switch with a thousand nodes is counted in a fraction of a microsecond.

Tree: as few leaf switches as can be; among such choices those under the lowest switch, then under
the one with the fewest free nodes. Block: nothing is split that fits a block; of blocks with room
one with the lightest node, of these the one with the fewest free nodes, so that the largest ones
stay whole (docs/algorithms.md, 6).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from pyslurm_ng._select import unit_counts
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.topology import Topology, topology_of, units_in_order

_MOST_SIZES = 64  # node counts to try for a job that leaves the choice
_LOOSE = 1 << 30  # the level of nodes below no switch
_DIGITS = b"01" + bytes(254)  # of binary numbers


class WantedNodes(NamedTuple):
    """What a job asks of the network: so many nodes, `required` among them.

    segment: nodes that may not be split over blocks; 0: the whole job is one.
    most_leaves: leaf switches it may use; 0: any.
    consolidates: all segments are in one block of the smallest planning size that holds them.
    spreads: no two segments are in one base block.
    """

    nodes: int
    required: int = 0
    segment: int = 0
    most_leaves: int = 0
    consolidates: bool = False
    spreads: bool = False


class Span(NamedTuple):
    """A set of nodes with near numbers: the lowest bit of `mask` is the node at `first`.

    A large cluster has thousands of leaf switches; as sets from 0 on they would take megabytes.
    """

    first: int
    mask: int

    def count(self, nodes: int) -> int:
        """Return how many of some nodes are in it."""
        return (nodes >> self.first & self.mask).bit_count()

    def part(self, nodes: int) -> int:
        """Return those of some nodes that are in it."""
        return (nodes >> self.first & self.mask) << self.first


class _Switch(NamedTuple):
    level: int
    nodes: Span
    leaves: tuple[int, ...]


class Layout:
    """One topology over numbered nodes.

    Attributes:
        kind: tree or block.
        units: the nodes of each leaf switch or base block; nodes in none of them are one more.
        unit_of: the unit of each position.
        widest: how many nodes the largest unit has.
        position: of each node id.
        groups: growing sets of nodes by weight.
    """

    def __init__(
        self, topology: Topology, position: Mapping[int, int], weights: Sequence[int] = ()
    ) -> None:
        """Number the nodes of `topology`.

        Args:
            position: of every node id.
            weights: of every position, ascending; empty when all are equal.
        """
        self.kind = topology.kind
        self.position = position
        self.units = [_span(position, node_ids) for node_ids in units_in_order(topology)]
        self._switches: list[_Switch] = []
        self._sizes = topology.block_sizes
        self._add_switches(topology)
        unit_of = [-1] * len(position)
        for number, unit in enumerate(self.units):
            for at in bits(unit.mask):
                unit_of[unit.first + at] = number
        loose = _span_of([index for index, number in enumerate(unit_of) if number < 0])
        self._loose = loose.mask << loose.first
        self.unit_of = [len(self.units) if number < 0 else number for number in unit_of]
        self.widest = max((unit.mask.bit_count() for unit in self.units), default=0)
        self._unit_of = array("i", self.unit_of).tobytes()
        if self._loose:
            self._switches.append(_Switch(_LOOSE, loose, (len(self.units),)))
            self.units.append(loose)
        self._turn = {  # the place of each leaf among the switches
            switch.leaves[0]: turn for turn, switch in enumerate(self._switches) if not switch.level
        }
        self.groups = weight_groups(weights)
        self._levels: list[list[tuple[Span, range]]] = []
        if self.kind == "block":
            self._levels = [self._groups_of(level) for level in range(len(self._sizes) + 1)]

    def _add_switches(self, topology: Topology) -> None:
        leaf_at: dict[str, tuple[int, ...]] = {}
        number_of = {unit: number for number, unit in enumerate(self.units)}
        by_level = sorted(topology.switches, key=lambda switch: switch.level)
        for switch in by_level:
            span = _span(self.position, switch.node_ids)
            if not switch.level:
                number = number_of[span]
                span = self.units[number]
                leaf_at[switch.name] = (number,)
            else:
                leaf_at[switch.name] = tuple(
                    leaf for child in switch.children for leaf in leaf_at[child]
                )
            self._switches.append(_Switch(switch.level, span, leaf_at[switch.name]))

    def trees(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return (level, units below) of every switch above the leaves, lowest first.

        Units without nodes are left out: a reservation's view may have such.
        """
        return [
            (switch.level, tuple(leaf for leaf in switch.leaves if self.units[leaf].mask))
            for switch in self._switches
            if 0 < switch.level < _LOOSE
        ]

    def is_loose(self, unit: int) -> bool:
        """Return whether a unit is that of the nodes below no switch."""
        return bool(self._loose) and unit == len(self.units) - 1

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if they do not lie well enough.

        In a tree lighter nodes are tried alone before heavier ones are added to them. There a
        weight counts more than the network: where lighter nodes are too few all of them are taken,
        and only the rest is chosen among the next heavier ones (docs/algorithms.md, 6). Blocks are
        weighed as wholes.
        """
        if terms.required & ~fits or terms.required.bit_count() > terms.nodes:
            return None
        if self.kind == "block":
            return self._from_segments(fits, terms) if fits.bit_count() >= terms.nodes else None
        scarce = 0
        for group in self.groups:
            lighter = fits & group | terms.required
            if lighter.bit_count() >= terms.nodes:
                chosen = self._with(scarce, lighter, terms) or self._from_tree(lighter, terms)
                if chosen is not None:
                    return chosen
            if lighter == fits:
                break
            scarce = lighter
        return None

    def _with(self, scarce: int, fits: int, terms: WantedNodes) -> int | None:
        """Pick all of some nodes, which are too few alone, and others beside them."""
        required = terms.required | scarce
        if required == terms.required or required.bit_count() > terms.nodes:
            return None
        return self._from_tree(fits, terms._replace(required=required))

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

    # Tree ---------------------------------------------------------------------------------------

    def _from_tree(self, fits: int, terms: WantedNodes) -> int | None:
        packed = fits.to_bytes(-(-fits.bit_length() // 8), "little")
        counts = unit_counts(packed, self._unit_of, len(self.units))
        if terms.nodes == 1 and not terms.required:
            return self._alone(fits, counts)
        if terms.nodes == 1:
            return terms.required or self._from_tightest(fits, counts)
        required_leaves = sorted({self.unit_of[position] for position in bits(terms.required)})
        best: tuple[int, int, int] | None = None
        within: tuple[int, ...] = ()
        for switch in self._switches:
            if switch.nodes.part(terms.required) != terms.required:
                continue
            total = sum(counts[leaf] for leaf in switch.leaves)
            if total < terms.nodes:
                continue
            leaves = _fewest(counts, switch.leaves, required_leaves, terms.nodes)
            if best is None or (leaves, switch.level, total) < best:
                best, within = (leaves, switch.level, total), switch.leaves
        if best is None or 0 < terms.most_leaves < best[0]:
            return None
        chosen, missing_count = terms.required, terms.nodes - terms.required.bit_count()
        for leaf in required_leaves:
            chosen, missing_count = _take(
                self.units[leaf].part(fits) & ~chosen, chosen, missing_count
            )
        spare = [leaf for leaf in within if counts[leaf] and leaf not in required_leaves]
        while missing_count:
            enough = [leaf for leaf in spare if counts[leaf] >= missing_count]
            if enough:
                leaf = min(enough, key=lambda leaf: counts[leaf])
            else:
                leaf = max(spare, key=lambda leaf: counts[leaf])
            spare.remove(leaf)
            chosen, missing_count = _take(self.units[leaf].part(fits), chosen, missing_count)
        return chosen

    def _from_tightest(self, fits: int, counts: Sequence[int]) -> int:
        """Return one node below the leaf switch with the fewest; below none only if need be."""
        known = counts[:-1] if self._loose else counts
        fewest = min(filter(None, known), default=counts[-1])
        free = self.units[counts.index(fewest)].part(fits)
        return free & -free

    def _alone(self, fits: int, counts: Sequence[int]) -> int | None:
        """Return the first node of the leaf where the fewest fit; of such leaves the first."""
        leaves = counts[:-1] if self._loose else counts
        least = min(filter(None, leaves), default=0)
        if not least:
            return fits & -fits or None  # of nodes below no switch
        ways = [leaf for leaf, count in enumerate(leaves) if count == least]
        leaf = min(ways, key=self._turn.__getitem__)
        free = self.units[leaf].part(fits)
        return free & -free

    # Blocks -------------------------------------------------------------------------------------

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
                own, _ = _take(beside, 0, size)
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
            groups.append((_span_of(positions), group))
        return groups

    def _inside(self, free: int, group: range, level: int, nodes: int, required: int) -> int | None:
        """Fill blocks of the next smaller planning size, only as many as are needed."""
        if not level:
            return _take(free & ~required, required, nodes - required.bit_count())[0]
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
                part, _ = _take(free & ~own, own, give - own.bit_count())
            chosen |= part
            missing_count -= part.bit_count()
            if not missing_count:
                return chosen
        return None


def choose_shares(
    layout: Layout,
    fits: Iterable[tuple[int, int]],
    tasks: int,
    nodes_max: int,
    terms: WantedNodes,
    is_enough: Callable[[list[int]], bool] | None = None,
) -> list[tuple[int, int]] | None:
    """Return positions with the tasks each can hold, for a job that may choose its node count.

    Args:
        fits: (position, tasks that fit), each at least 1.
        tasks: to hold in all.
        nodes_max: nodes the job may have; `terms.nodes` is the least.
        is_enough: whether some positions hold what else is asked for.
    """
    capacity = dict(fits)
    lighter = _lightest(layout, capacity, tasks, terms) if layout.kind == "tree" else None
    if lighter is not None:
        # All of the lighter nodes, and of the next heavier ones as few as it takes.
        scarce, capacity = lighter
        terms = terms._replace(required=terms.required | scarce)
        terms = terms._replace(nodes=max(terms.nodes, terms.required.bit_count()))
    amounts = sorted(capacity.values(), reverse=True)
    everything = sum(1 << position for position in capacity)
    total = sizes = 0
    for count, amount in enumerate(amounts[:nodes_max], 1):
        total += amount
        if count < terms.nodes or total < tasks:
            continue
        sizes += 1
        if sizes > _MOST_SIZES:
            break
        share = -(-tasks // count)
        roomy = sum(1 << position for position, fit in capacity.items() if fit >= share)
        for candidates in (roomy | terms.required, everything):
            chosen = layout.pick(candidates, terms._replace(nodes=count))
            if chosen is not None:
                shares = [(position, capacity[position]) for position in bits(chosen)]
                if sum(fit for _, fit in shares) >= tasks and (
                    is_enough is None or is_enough([position for position, _ in shares])
                ):
                    near = _below_one_leaf(layout, shares, capacity, tasks, nodes_max, terms)
                    if near and (
                        is_enough is None or is_enough([position for position, _ in near])
                    ):
                        return near
                    return shares
    return None


def _below_one_leaf(
    layout: Layout,
    shares: Sequence[tuple[int, int]],
    capacity: Mapping[int, int],
    tasks: int,
    nodes_max: int,
    terms: WantedNodes,
) -> list[tuple[int, int]]:
    """Return nodes of one leaf switch for a job that would be spread over several, if any do.

    They may be more than those nodes, but as few as can be; of leaves that need as many the one
    with the fewest that fit.
    """
    unit_of = layout.unit_of
    if layout.kind != "tree" or len({unit_of[position] for position, _ in shares}) == 1:
        return []
    if terms.nodes > layout.widest or tasks > layout.widest * max(capacity.values()):
        return []  # far too large for any, without a look at each node
    named = set(bits(terms.required))
    below: dict[int, list[tuple[int, int]]] = {}
    for position, fit in capacity.items():
        below.setdefault(unit_of[position], []).append((position, fit))
    best: tuple[int, int, int] | None = None
    best_shares: list[tuple[int, int]] = []
    for leaf, inside in below.items():
        if layout.is_loose(leaf) or not named <= {position for position, _ in inside}:
            continue
        inside.sort(key=lambda pair: (pair[0] not in named, -pair[1], pair[0]))
        rooms = list(accumulate(fit for _, fit in inside))
        count = max(terms.nodes, len(named), bisect_left(rooms, tasks) + 1)
        rank = (count, len(inside), leaf)
        if count <= min(nodes_max, len(inside)) and (best is None or rank < best):
            best, best_shares = rank, sorted(inside[:count])
    return best_shares


def _lightest(
    layout: Layout, capacity: Mapping[int, int], tasks: int, terms: WantedNodes
) -> tuple[int, dict[int, int]] | None:
    """Return the nodes of weights too light to do, and what these and the next ones can hold."""
    scarce = 0
    for group in layout.groups:
        usable = group | terms.required
        inside = {position: fit for position, fit in capacity.items() if usable >> position & 1}
        if len(inside) >= terms.nodes and sum(inside.values()) >= tasks:
            return (scarce, inside) if scarce else None
        scarce = sum(1 << position for position in inside)
    return None


def layouts_of(
    topologies: Sequence[Topology],
    partitions: Iterable[Partition],
    position: Mapping[int, int],
    weights: Sequence[int] = (),
) -> dict[str, Layout]:
    """Return the layout of every partition that has a network model, by partition name."""
    made: dict[str, Layout] = {}
    layouts: dict[str, Layout] = {}
    for partition in partitions:
        topology = topology_of(topologies, partition)
        if topology is None:
            continue
        layout = made.get(topology.name)
        if layout is None:
            layout = made[topology.name] = Layout(topology, position, weights)
        layouts[partition.name] = layout
    return layouts


def unit_numbers(topology: Topology | None, specs: Sequence[NodeSpec | None]) -> list[int]:
    """Return for each node id the number of its leaf switch or block; loose nodes come last."""
    if topology is None:
        return []
    units = units_in_order(topology)
    numbers = [len(units)] * len(specs)
    for number, node_ids in enumerate(units):
        for node_id in node_ids:
            numbers[node_id] = number
    return numbers


def bits(mask: int) -> Iterator[int]:
    """Return the positions in a set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _span(position: Mapping[int, int], node_ids: Iterable[int]) -> Span:
    # A node that is in no view of the cluster has no position: see `reservation_view`.
    return _span_of([position[node_id] for node_id in node_ids if node_id in position])


def _span_of(positions: Sequence[int]) -> Span:
    first = min(positions, default=0)
    # Bit by bit, the integer would be made again each time.
    flags = bytearray(max(positions, default=-1) - first + 1)
    for position in positions:
        flags[position - first] = 1
    return Span(first, int(flags[::-1].translate(_DIGITS) or b"0", 2))


def weight_groups(weights: Sequence[int]) -> list[int]:
    """Return growing sets of nodes: the lightest, those and the next ones, and so on to all."""
    groups = []
    for position in range(1, len(weights)):
        if weights[position] != weights[position - 1]:
            groups.append((1 << position) - 1)
    groups.append(-1)
    return groups


def _fewest(
    counts: Sequence[int], leaves: Sequence[int], required_leaves: Sequence[int], nodes: int
) -> int:
    """Return how many leaves it takes, those with required nodes among them."""
    missing_count = nodes - sum(counts[leaf] for leaf in required_leaves)
    used = len(required_leaves)
    for count in sorted(
        (counts[leaf] for leaf in leaves if leaf not in required_leaves), reverse=True
    ):
        if missing_count <= 0:
            break
        missing_count -= count
        used += 1
    return used


def _take(free: int, chosen: int, missing_count: int) -> tuple[int, int]:
    """Add up to `missing_count` first nodes of `free` to `chosen`; return how many still miss."""
    if free.bit_count() <= missing_count:
        return chosen | free, missing_count - free.bit_count()
    while missing_count:
        low = free & -free
        chosen |= low
        free ^= low
        missing_count -= 1
    return chosen, 0


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
