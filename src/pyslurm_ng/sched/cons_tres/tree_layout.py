"""Which nodes below switches a job gets.

As few leaf switches as can be; among such choices those under the lowest switch, then under the one
with the fewest free nodes (docs/algorithms.md, 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng._select import unit_counts
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.sched.cons_tres.topology import Layout, Span, WantedNodes, bits, span_of, take

_LOOSE = 1 << 30  # the level of nodes below no switch


class _Switch(NamedTuple):
    level: int
    nodes: Span
    leaves: tuple[int, ...]


class TreeLayout(Layout):
    """Trees of switches over numbered nodes."""

    def __init__(
        self, topology: Topology, position: Mapping[int, int], weights: Sequence[int] = ()
    ) -> None:
        """Number the nodes; see `Layout`."""
        super().__init__(topology, position, weights)
        self._switches: list[_Switch] = []
        self._add_switches(topology)
        if self._loose:
            leaf = len(self.units) - 1
            self._switches.append(_Switch(_LOOSE, self.units[leaf], (leaf,)))
        self._turn = {  # the place of each leaf among the switches
            switch.leaves[0]: turn for turn, switch in enumerate(self._switches) if not switch.level
        }

    def _add_switches(self, topology: Topology) -> None:
        leaf_at: dict[str, tuple[int, ...]] = {}
        number_of = {unit: number for number, unit in enumerate(self.units)}
        by_level = sorted(topology.switches, key=lambda switch: switch.level)
        for switch in by_level:
            span = span_of(self.position, switch.node_ids)
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

    def pick(self, fits: int, terms: WantedNodes) -> int | None:
        """Return `terms.nodes` nodes out of `fits`, or None if they do not lie well enough.

        Lighter nodes are tried alone before heavier ones are added to them. A weight counts more
        than the network: where lighter nodes are too few all of them are taken, and only the rest
        is chosen among the next heavier ones (docs/algorithms.md, 6).
        """
        if terms.required & ~fits or terms.required.bit_count() > terms.nodes:
            return None
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
            chosen, missing_count = take(
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
            chosen, missing_count = take(self.units[leaf].part(fits), chosen, missing_count)
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
