"""When and where a job fits with as many tasks on each of its nodes: what the grid can find."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng._select import NEVER
from pyslurm_ng.sched.cons_tres.topology import bits
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.request.sharing import TOPO
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.inside_nodes import InsideNodes
from pyslurm_ng.sched.timeline.license_timeline import LicenseTimeline
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.shapes import Variant


class EvenSearch:
    """The search of one pass for equal shares, near one another where the topology wants that."""

    def __init__(self, tables: PassTables, inside: InsideNodes, licenses: LicenseTimeline) -> None:
        self._nearness = tables.nearness
        self._neighbours = tables.neighbours
        self._timeline = tables.timeline
        self._free = tables.free
        self._now_us = tables.now_us
        self._inside = inside
        self._licenses = licenses

    def find(self, demand: Demand) -> Finding:
        """Return the earliest start of one more job."""
        best_us, best_at = NEVER, -1
        lies_badly = False
        kinds = self._timeline.kinds.of(demand)
        for at, (kind, variant) in enumerate(kinds):
            start_us, is_far_now = self._find_kind(demand, kind, variant)
            lies_badly = lies_badly or is_far_now
            if start_us != NEVER and (best_us == NEVER or start_us < best_us):
                best_us, best_at = start_us, at
        if best_at < 0:
            return Finding(demand, NEVER, lies_badly=lies_badly)
        kind, variant = kinds[best_at]
        if best_at < len(kinds) - 1:
            # The grid remembers one finding; a second look may only find something earlier.
            best_us, is_far_now = self._find_kind(demand, kind, variant)
            lies_badly = lies_badly or is_far_now
        positions = self._positions(demand, variant, best_us)
        return Finding(demand, best_us, kind, variant, positions, lies_badly=lies_badly)

    def find_from(self, demand: Demand, at_us: int) -> Finding:
        """Return the earliest start not before a moment."""
        best_us, best_at = NEVER, -1
        kinds = self._timeline.kinds.of(demand)
        for at, (kind, variant) in enumerate(kinds):
            start_us = self._find_kind_from(demand, kind, variant, at_us)
            if start_us != NEVER and (best_us == NEVER or start_us < best_us):
                best_us, best_at = start_us, at
        if best_at < 0:
            return Finding(demand, NEVER)
        kind, variant = kinds[best_at]
        if best_at < len(kinds) - 1:
            best_us = self._find_kind_from(demand, kind, variant, best_us)
        return Finding(demand, best_us, kind, variant, self._positions(demand, variant, best_us))

    def _find_kind(self, demand: Demand, kind: int, variant: Variant) -> tuple[int, bool]:
        """Return a start, and whether there were nodes now, but too far from one another."""
        grid = self._timeline.grid
        is_far_now = False
        start_us = grid.find(kind)
        while start_us != NEVER:
            free_us = self._licenses.free_us(demand, start_us)
            if free_us != start_us:
                # Licences only become scarcer in a pass: there is nothing before that.
                grid.skip(kind, NO_END_US if free_us == NEVER else free_us)
            elif self._lies_well(demand, kind, variant, start_us):
                break
            else:
                if start_us == self._now_us and not self._nearness.is_picky(demand):
                    is_far_now = True
                grid.skip(kind, start_us + 1)
            start_us = grid.find(kind)
        return start_us, is_far_now

    def _find_kind_from(self, demand: Demand, kind: int, variant: Variant, at_us: int) -> int:
        grid = self._timeline.grid
        start_us = grid.find_from(kind, at_us)
        while start_us != NEVER:
            free_us = self._licenses.free_us(demand, start_us)
            if free_us == NEVER:
                return NEVER
            if free_us != start_us:
                at_us = free_us
            elif self._lies_well(demand, kind, variant, start_us):
                break
            else:
                at_us = start_us + 1
            start_us = grid.find_from(kind, at_us)
        return start_us

    def _lies_well(self, demand: Demand, kind: int, variant: Variant, start_us: int) -> bool:
        """Choose among the nodes found by the topology; return whether any choice will do."""
        if not self._nearness.is_open(demand, variant.nodes):
            return True
        return self._choose_near(demand, kind, variant, start_us)

    def _choose_near(self, demand: Demand, kind: int, variant: Variant, start_us: int) -> bool:
        def loads() -> Sequence[float]:
            return self._free.loads() if start_us == self._now_us else ()

        fits = int.from_bytes(self._timeline.grid.fitting(), "little")
        if demand.need.sharing == TOPO:
            fits = self._neighbours.in_free_units(fits, demand, start_us)
        is_later = start_us != self._now_us
        if self._nearness.looks_into(demand.need):
            fits = self._inside.fitting(demand, variant, fits, start_us)
        chosen = self._nearness.pick(demand, fits, variant.nodes, loads, is_later=is_later)
        if chosen is None:
            return False
        self._timeline.grid.choose(kind, list(bits(chosen)))
        return True

    def _positions(self, demand: Demand, variant: Variant, start_us: int) -> list[int]:
        """Return the nodes found; one node that is taken now is one its unit will miss least.

        For later starts the first node that fits will do: it is looked for again then.
        """
        grid = self._timeline.grid
        positions = grid.found()
        layout = self._nearness.layout(demand)
        if layout is None or layout.is_rigid or variant.nodes > 1 or demand.need.required_nodes:
            return positions
        if start_us != self._now_us or self._nearness.is_picky(demand):
            return positions
        kind = self._timeline.kinds.open(demand, variant)
        if grid.find(kind) == start_us and self._choose_near(demand, kind, variant, start_us):
            return grid.found()
        return positions
