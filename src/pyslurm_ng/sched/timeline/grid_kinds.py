"""Kinds of the grid: what jobs of a demand need of each node, as the kernel counts it."""

from __future__ import annotations

from collections import Counter

from pyslurm_ng._select import Grid
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.timeline.nearness import Nearness
from pyslurm_ng.sched.timeline.shapes import CPUS, MEM, Hardware, Variant

# Beyond these many different amounts, planes are shared and rows decide.
_MOST_PLANES = {CPUS: 24, MEM: 12}
_MOST_OTHER_PLANES = 8

Threshold = tuple[int, ...]


class GridKinds:
    """The kinds of one grid after another; each is entered when it is first asked for."""

    def __init__(self, hardware: Hardware, nearness: Nearness) -> None:
        self._hardware = hardware
        self._nearness = nearness
        self._variants: dict[int, tuple[Demand, list[Variant]]] = {}

    def begin(self, demands: list[Demand]) -> None:
        """Begin a pass.

        Args:
            demands: those that may be looked for in it.
        """
        self._wanted = demands

    def enter(self, grid: Grid) -> None:
        """Forget the last grid: kinds are of another one from here on."""
        self._grid = grid
        self._kinds: dict[int, list[tuple[int, Variant]]] = {}
        self._open_kinds: dict[tuple[object, ...], int] = {}
        self._masks: dict[bytes, int] = {}
        self._shapes: dict[tuple[object, ...], int] = {}
        for demand in self._wanted:
            demand.kind = -1
        self._add_planes()

    def of(self, demand: Demand) -> list[tuple[int, Variant]]:
        """Return the grid's kinds for a demand, one for each way to place its jobs."""
        kinds = self._kinds.get(id(demand))
        if kinds is None:
            kinds = self._kinds[id(demand)] = [
                (self._add_kind(demand, variant), variant) for variant in self._variants_of(demand)
            ]
        return kinds

    def count_minding(self) -> None:
        """From here on make kinds that only count also for jobs that mind which cores they get."""
        for demand in self._wanted:
            if demand.need.minds_places:
                self._kinds.pop(id(demand), None)

    def open(self, demand: Demand, variant: Variant) -> int:
        """Return a kind of jobs for which the caller chooses the nodes."""
        key = id(demand), variant.resources, variant.amounts
        kind = self._open_kinds.get(key)
        if kind is None:
            kind = self._open_kinds[key] = self._add_kind(demand, variant)
            self._grid.leave_open(kind)
        return kind

    def _add_kind(self, demand: Demand, variant: Variant) -> int:
        key = (variant.resources, variant.amounts)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._add_shape(variant)
        required = self._mask_number(variant.required) if variant.required else -1
        mask = self._mask_number(variant.mask)
        kind = self._grid.add_kind(shape, mask, variant.nodes, demand.duration_us, required)
        if self._nearness.is_open(demand, variant.nodes):
            self._grid.leave_open(kind)
        return kind

    def add_exact(self, demand: Demand, variant: Variant) -> int:
        """Return a new kind of one node whose amounts are looked up without planes."""
        rows = [list(row) for row in variant.amounts]
        shape = self._grid.add_shape(variant.resources, [], rows, len(variant.resources))
        return self._grid.add_kind(shape, self._mask_number(variant.mask), 1, demand.duration_us)

    def _mask_number(self, mask: bytes) -> int:
        number = self._masks.get(mask)
        if number is None:
            number = self._masks[mask] = self._grid.add_mask(mask)
        return number

    def _variants_of(self, demand: Demand) -> list[Variant]:
        variants = self._variants.get(id(demand))
        if variants is None or variants[0] is not demand:
            variants = self._variants[id(demand)] = (demand, self._hardware.variants(demand))
        return variants[1]

    def _add_shape(self, variant: Variant) -> int:
        """Return a shape; resources that no plane tells exactly come first."""
        exact: list[int] = []
        inexact: list[int] = []
        used: list[int] = []
        for resource, threshold in variant.thresholds:
            best = max(
                (
                    plane
                    for plane in self._planes.get(resource, ())
                    if _is_below(plane[0], threshold)
                ),
                key=lambda plane: sum(plane[0]),
                default=None,
            )
            if best is not None:
                used.append(best[1])
            (exact if best is not None and best[0] == threshold else inexact).append(resource)
        resources = inexact + exact
        columns = [variant.resources.index(resource) for resource in resources]
        rows = [[row[column] for column in columns] for row in variant.amounts]
        return self._grid.add_shape(resources, used, rows, len(inexact))

    def _add_planes(self) -> None:
        """Add planes for the amounts asked for."""
        asked: dict[int, Counter[Threshold]] = {}
        for demand in self._wanted:
            for variant in self._variants_of(demand):
                for resource, threshold in variant.thresholds:
                    asked.setdefault(resource, Counter())[threshold] += 1
        self._planes: dict[int, list[tuple[Threshold, int]]] = {
            resource: [
                (threshold, self._grid.add_plane(resource, threshold))
                for threshold in _pick_planes(resource, thresholds)
            ]
            for resource, thresholds in asked.items()
        }


def _is_below(low: Threshold, high: Threshold) -> bool:
    return all(first <= second for first, second in zip(low, high, strict=True))


def _pick_planes(resource: int, asked: Counter[Threshold]) -> list[Threshold]:
    """Return the thresholds to keep planes for: all, or a spread of those asked for most."""
    most = _MOST_PLANES.get(resource, _MOST_OTHER_PLANES)
    ordered = sorted(asked, key=lambda threshold: (sum(threshold), threshold))
    if len(ordered) <= most:
        return ordered
    total, seen = sum(asked.values()), 0
    kept = [ordered[0]]
    for threshold in ordered[1:]:
        before = seen * (most - 1) // total
        seen += asked[threshold]
        if seen * (most - 1) // total > before:
            kept.append(threshold)
    return kept
