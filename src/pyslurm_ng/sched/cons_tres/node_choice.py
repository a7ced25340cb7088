"""Which nodes of those that fit a job gets, where it asks for more than enough of them.

Everything here is a pure function of sets of nodes: integers with a bit per position, as in
`topology`. The planners find moments at which enough nodes fit; a `Chooser` says which of them the
job gets then, or that none of the choices will do and a later moment has to be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyslurm_ng.model.sizes import sizes_within
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes, bits, weight_groups
from pyslurm_ng.sched.request.features import Tree, Way, holds
from pyslurm_ng.sched.request.need import Need

_MOST_LISTED = 256  # node counts to try for a job that lists them
_MOST_SIZES = 16  # node counts to try for a job that leaves the choice


class Picker(Protocol):
    """What chooses so many nodes out of a set: a `Layout`, a `Plain`, or a `Chooser`."""

    position: Mapping[int, int]

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if there is no such choice."""


class Plain:
    """Nodes in order of position, lighter ones first, at any place in the network."""

    def __init__(self, position: Mapping[int, int], groups: Sequence[int] = (-1,)) -> None:
        self.position = position
        self.groups = groups

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return the first nodes, those required among them."""
        required = terms.required
        if required & ~fits or required.bit_count() > terms.nodes:
            return None
        if fits.bit_count() < terms.nodes:
            return None
        if not required:
            return _first(fits, terms.nodes)
        chosen = required
        for group in self.groups:
            others, missing_count = fits & group & ~chosen, terms.nodes - chosen.bit_count()
            if others.bit_count() >= missing_count:
                return chosen | _beside(others, required, missing_count)
            chosen |= others
        return None


class Ways(NamedTuple):
    """One way to satisfy a feature expression, as sets of nodes; see `features.Way`."""

    every: int
    counts: tuple[tuple[int, int], ...]  # (nodes to count, how many)


class Chooser:
    """Chooses the nodes of one demand; stands where a `Layout` would.

    Attributes:
        position: of each node id.
        load: how busy each position is, for jobs that want the least loaded nodes; empty where
            that does not matter, at later times.
    """

    def __init__(
        self,
        need: Need,
        base: Layout | Plain,
        ids: Sequence[int],
        ways: Sequence[Ways],
        groups: Sequence[int] = (-1,),
    ) -> None:
        """Prepare the choice.

        Args:
            base: chooses where nothing else does.
            ids: the node id of each position; adjacent nodes have adjacent ids.
            ways: to try in this order.
            groups: growing sets of nodes by weight.
        """
        self.position = base.position
        self.layout = base if isinstance(base, Layout) else None
        self.load: Sequence[float] = ()
        self._need = need
        self._ids = ids
        self._ways = ways
        self._groups = groups
        # A spread is over all nodes, and so is the choice of the least loaded ones.
        is_far = need.spread or need.least_loaded
        if is_far and isinstance(base, Layout) and base.kind == "tree":
            base = Plain(base.position)
        self._base = base

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if none of the choices will do."""
        for way in self._ways:
            candidates = fits & way.every
            if terms.required & ~candidates or candidates.bit_count() < terms.nodes:
                continue
            chosen = self._pick(candidates, terms, way.counts)
            if chosen is not None:
                return chosen
        return None

    def _pick(
        self, candidates: int, terms: WantedNodes, counts: tuple[tuple[int, int], ...]
    ) -> int | None:
        if self._need.contiguous:
            return contiguous(candidates, terms, self._ids, counts, self._groups, self._lies_well)
        if not counts:
            return self._free_choice(candidates, terms)
        required = meet_counts(candidates, terms.nodes, terms.required, counts)
        if required is None:
            return None
        chosen = self._free_choice(candidates, terms._replace(required=required))
        if chosen is not None or self.layout is None:
            return chosen
        # Those counted lie apart; perhaps one unit of the network has them all.
        for unit in self.layout.units:
            required = meet_counts(unit.part(candidates), terms.nodes, terms.required, counts)
            if required is not None:
                chosen = self._free_choice(candidates, terms._replace(required=required))
                if chosen is not None:
                    return chosen
        return None

    def _lies_well(self, nodes: int, terms: WantedNodes) -> bool:
        """Return whether the network, if there is one, has all of some nodes in a place."""
        base = self._base
        return not isinstance(base, Layout) or base.pick(nodes, terms) is not None

    def _free_choice(self, candidates: int, terms: WantedNodes) -> int | None:
        if self._need.least_loaded and self.load and isinstance(self._base, Plain):
            return least_loaded(candidates, terms, self.load, self._groups)
        return self._base.pick(candidates, terms)


def ways_of(need: Need, features: Sequence[tuple[str, ...]]) -> list[Ways]:
    """Return the ways to satisfy a job's features over positions with these features."""

    def nodes(tree: Tree) -> int:
        return sum(1 << index for index, names in enumerate(features) if holds(tree, names))

    def ways(way: Way) -> Ways:
        every = -1 if way.every is None else nodes(way.every)
        return Ways(every, tuple((nodes(tree), count) for tree, count in way.counts))

    return [ways(way) for way in need.features] or [Ways(-1, ())]


def meet_counts(
    fits: int, nodes: int, required: int, counts: Sequence[tuple[int, int]]
) -> int | None:
    """Return `required` with as many more nodes as the counts ask for, of `nodes` at most.

    Each node counts once. The first of those that fit are taken, required ones before others.
    """
    node_sets = [0] * len(counts)
    for index, (mask, count) in enumerate(counts):
        for _ in range(count):
            if not _give(index, fits, required, node_sets, [mask for mask, _ in counts]):
                return None
    chosen = required
    for own in node_sets:
        chosen |= own
    return chosen if chosen.bit_count() <= nodes else None


def _give(index: int, fits: int, required: int, node_sets: list[int], masks: Sequence[int]) -> bool:
    """Give one more node to a count; the others may have to change theirs for it."""
    taken = 0
    for own in node_sets:
        taken |= own
    came_from = {index: (-1, 0)}
    queue = [index]
    while queue:
        group = queue.pop(0)
        free = fits & masks[group] & ~taken
        free = free & required or free
        if free:
            node = free & -free
            while group >= 0:
                node_sets[group] |= node
                before, node = came_from[group]
                if before >= 0:
                    node_sets[group] &= ~node
                group = before
            return True
        for other, own in enumerate(node_sets):
            movable = own & masks[group]
            if movable and other not in came_from:
                came_from[other] = (group, movable & -movable)
                queue.append(other)
    return False


def _anywhere(nodes: int, terms: WantedNodes) -> bool:
    """Return that any nodes will do."""
    return True


def contiguous(
    fits: int,
    terms: WantedNodes,
    ids: Sequence[int],
    counts: Sequence[tuple[int, int]] = (),
    groups: Sequence[int] = (-1,),
    lies_well: Callable[[int, WantedNodes], bool] = _anywhere,
) -> int | None:
    """Return nodes that lie side by side in the node table: out of the smallest run of enough.

    Lighter nodes are tried alone before heavier ones are added to them.

    Args:
        lies_well: whether just these nodes will do, as far as the network goes.
    """
    for group in groups:
        candidates = fits & (group | terms.required)
        if candidates.bit_count() >= terms.nodes:
            chosen = _in_a_run(candidates, terms, ids, counts, lies_well)
            if chosen is not None:
                return chosen
        if candidates == fits:
            break
    return None


def _in_a_run(
    fits: int,
    terms: WantedNodes,
    ids: Sequence[int],
    counts: Sequence[tuple[int, int]],
    lies_well: Callable[[int, WantedNodes], bool],
) -> int | None:
    nodes = terms.nodes
    runs: list[list[int]] = []
    last = -2
    for position in sorted(bits(fits), key=ids.__getitem__):
        if ids[position] != last + 1:
            runs.append([])
        runs[-1].append(position)
        last = ids[position]
    for run in sorted((run for run in runs if len(run) >= nodes), key=len):
        for first in range(len(run) - nodes + 1):
            window = sum(1 << position for position in run[first : first + nodes])
            if terms.required & ~window:
                continue
            if counts and meet_counts(window, nodes, terms.required, counts) is None:
                continue
            if lies_well(window, terms):
                return window
    return None


def least_loaded(
    fits: int, terms: WantedNodes, load: Sequence[float], groups: Sequence[int] = (-1,)
) -> int | None:
    """Return the nodes with the largest share of idle CPUs, those required among them.

    Lighter nodes come first however busy they are. Source: slurm.conf's manual, CR_LLN.
    """
    missing_count = terms.nodes - terms.required.bit_count()
    others = fits & ~terms.required
    if terms.required & ~fits or missing_count < 0 or others.bit_count() < missing_count:
        return None

    def rank(position: int) -> tuple[int, float, int]:
        weight = next(at for at, group in enumerate(groups) if group >> position & 1)
        return weight, load[position], position

    order = sorted(bits(others), key=rank)
    return terms.required | sum(1 << position for position in order[:missing_count])


def node_counts(need: Need, least: int, most: int, layout: Layout | None = None) -> list[int]:
    """Return the node counts to try, those to prefer first, for a job that leaves the choice.

    Slurm aims at the larger end of a range and at as many nodes as it can for a spread.
    """
    if layout is not None and layout.is_rigid:
        terms = WantedNodes(0, segment=need.segment)
        listed = sizes_within(need.sizes, least, most) if need.sizes else range(least, most + 1)
        counts = [count for count in listed if layout.may_have(terms._replace(nodes=count))]
        counts = counts[-_MOST_LISTED:]
    elif need.sizes:
        counts = sizes_within(need.sizes, least, most)
        if len(counts) > _MOST_LISTED:
            counts = [counts[at - 1] for at in _sample(1, len(counts))]
    else:
        counts = _sample(least, most)
    return counts[::-1] if need.spread or need.aims_high else counts


def _sample(least: int, most: int) -> list[int]:
    """Return all counts of a small range; of a large one some, both ends among them."""
    if most - least < _MOST_SIZES:
        return list(range(least, most + 1))
    step = (most / least) ** (1 / (_MOST_SIZES - 1))
    sizes = {min(most, max(least, round(least * step**power))) for power in range(_MOST_SIZES)}
    return sorted(sizes | {least, most})


def choose_counted(
    picker: Picker,
    fits: Iterable[tuple[int, int]],
    tasks: int,
    counts: Sequence[int],
    terms: WantedNodes,
    is_enough: Callable[[list[int]], bool] | None = None,
) -> list[tuple[int, int]] | None:
    """Return positions with the tasks each can hold, for the first count for which that works.

    Args:
        fits: (position, tasks that fit), each at least 1.
        tasks: to hold in all.
        counts: of nodes, in the order in which to try them.
        is_enough: whether some positions hold what else is asked for.
    """
    capacity = dict(fits)
    sums = [0]
    for amount in sorted(capacity.values(), reverse=True):
        sums.append(sums[-1] + amount)
    everything = sum(1 << position for position in capacity)
    for count in counts:
        if count >= len(sums) or sums[count] < tasks:
            continue
        share = -(-tasks // count)
        roomy = sum(1 << position for position, fit in capacity.items() if fit >= share)
        for candidates in dict.fromkeys((roomy | terms.required, everything)):
            chosen = picker.pick(candidates, terms._replace(nodes=count))
            if chosen is None:
                continue
            shares = [(position, capacity[position]) for position in bits(chosen)]
            if sum(fit for _, fit in shares) >= tasks and (
                is_enough is None or is_enough([position for position, _ in shares])
            ):
                return shares
    return None


def _first(fits: int, nodes: int) -> int:
    chosen = 0
    for _ in range(nodes):
        low = fits & -fits
        chosen |= low
        fits ^= low
    return chosen


def _beside(others: int, required: int, nodes: int) -> int:
    """Return the nodes that follow the first required one; if they are too few, those before it.

    Those before it are taken from the nearest on, as in Slurm.
    """
    behind = others & -(required & -required)
    chosen = _first(behind, min(nodes, behind.bit_count()))
    before = others & ~behind
    for _ in range(nodes - chosen.bit_count()):
        nearest = 1 << (before.bit_length() - 1)
        chosen |= nearest
        before ^= nearest
    return chosen


__all__ = [
    "Chooser",
    "Picker",
    "Plain",
    "Ways",
    "choose_counted",
    "contiguous",
    "least_loaded",
    "meet_counts",
    "node_counts",
    "ways_of",
    "weight_groups",
]
