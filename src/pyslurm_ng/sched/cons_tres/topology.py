"""Which nodes of those that fit lie well in the network.

Nodes are numbered by position, those to prefer first, and sets of nodes are integers with a bit
each: a switch with a thousand nodes is counted in a fraction of a microsecond. Each kind of network
has a `Layout` of its own; `layouts` makes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.topology import Topology, units_in_order

_MOST_SIZES = 64  # node counts to try for a job that leaves the choice
_DIGITS = b"01" + bytes(254)  # of binary numbers


class WantedNodes(NamedTuple):
    """What a job asks of the network: so many nodes, `required` among them.

    segment: nodes that may not be split over blocks, rings or shapes; 0: the whole job is one.
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

    @property
    def part(self) -> int:
        """How many nodes of it have to lie together."""
        return self.segment if 0 < self.segment < self.nodes else self.nodes


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


class Layout(ABC):
    """One topology over numbered nodes.

    Attributes:
        kind: tree, block, ring or torus3d.
        is_rigid: only some node counts are allowed, and jobs of one node are judged, too.
        units: the nodes of each leaf switch, base block, ring or torus; nodes in none of them are
            one more.
        unit_of: the unit of each position.
        widest: how many nodes the largest unit has.
        position: of each node id.
        groups: growing sets of nodes by weight.
    """

    is_rigid = False

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
        self.units = [span_of(position, node_ids) for node_ids in units_in_order(topology)]
        unit_of = [-1] * len(position)
        for number, unit in enumerate(self.units):
            for at in bits(unit.mask):
                unit_of[unit.first + at] = number
        loose = span_of_positions([index for index, number in enumerate(unit_of) if number < 0])
        self._loose = loose.mask << loose.first
        self.unit_of = [len(self.units) if number < 0 else number for number in unit_of]
        self.widest = max((unit.mask.bit_count() for unit in self.units), default=0)
        self._unit_of = array("i", self.unit_of).tobytes()
        if self._loose:
            self.units.append(loose)
        self.groups = weight_groups(weights)

    @abstractmethod
    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if they do not lie well enough."""

    def may_have(self, terms: WantedNodes) -> bool:
        """Return whether so many nodes can lie well at all, if all are free."""
        return True

    def turns(self, positions: Sequence[int]) -> Mapping[int, int] | Sequence[int]:
        """Return, by position, what orders the nodes of a job; equals stay in cluster order."""
        return self.unit_of

    def is_loose(self, unit: int) -> bool:
        """Return whether a unit is that of the nodes in none."""
        return bool(self._loose) and unit == len(self.units) - 1


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
        if layout.is_rigid and not layout.may_have(terms._replace(nodes=count)):
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


def span_of(position: Mapping[int, int], node_ids: Iterable[int]) -> Span:
    # A node that is in no view of the cluster has no position: see `reservation_view`.
    return span_of_positions([position[node_id] for node_id in node_ids if node_id in position])


def span_of_positions(positions: Sequence[int]) -> Span:
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


def take(free: int, chosen: int, missing_count: int) -> tuple[int, int]:
    """Add up to `missing_count` first nodes of `free` to `chosen`; return how many still miss."""
    if free.bit_count() <= missing_count:
        return chosen | free, missing_count - free.bit_count()
    while missing_count:
        low = free & -free
        chosen |= low
        free ^= low
        missing_count -= 1
    return chosen, 0
