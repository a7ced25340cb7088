"""Whose jobs are on which nodes, beside a grid that only counts: for jobs that care.

What it answers rests on the grid's own counts: a node is one owner's alone for a time if what is
free of it is all that the owner's own jobs leave, so nobody else has been promised any of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from pyslurm_ng._select import Grid
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.topology import bits
from pyslurm_ng.sched.request.demand import Demand
from pyslurm_ng.sched.request.sharing import Guest, Neighbours, Tenant, Units
from pyslurm_ng.sched.snapshot import Snapshot
from pyslurm_ng.sched.timeline.returns import expected_end_us
from pyslurm_ng.sched.timeline.shapes import CPUS, Hardware


class Company:
    """The jobs of one pass after another, by node."""

    def __init__(self, hardware: Hardware, units: Units) -> None:
        self._hardware = hardware
        self._units = units

    def begin(self, snapshot: Snapshot) -> None:
        """Forget the last pass."""
        self._snapshot = snapshot
        self._neighbours: Neighbours | None = None
        self._newcomers: list[tuple[Tenant, tuple[NodeAlloc, ...], int]] = []

    def enter(self, grid: Grid, slots: Sequence[int]) -> None:
        """Look at another grid from here on; `slots` are when its slots begin."""
        self._grid = grid
        self._slots = slots

    def add(self, tenant: Tenant, allocs: tuple[NodeAlloc, ...], end_us: int) -> None:
        """Enter a job that starts in this pass."""
        self._newcomers.append((tenant, allocs, end_us))
        if self._neighbours is not None:
            self._neighbours.add(tenant, self._timeline_cpus(allocs, tenant), end_us)

    def count(self) -> int:
        """Return how many jobs have started in this pass."""
        return len(self._newcomers)

    def cut(self, count: int) -> None:
        """Forget all jobs that started in this pass but the first ones."""
        del self._newcomers[count:]
        self._neighbours = None

    def beside(self, tenant: Tenant, node_ids: Sequence[int]) -> list[int]:
        """Return the other nodes of the units that a job has for itself."""
        found = self._units.beside(tenant.partition, node_ids) - set(node_ids)
        return sorted(found & self._hardware.position.keys())

    def who(self) -> Neighbours:
        """Return who is on which node now; only passes with jobs that care make it."""
        if self._neighbours is None:
            who = self._neighbours = Neighbours(self._units)
            now_us = self._snapshot.now_us
            for item in self._snapshot.running:
                end_us = expected_end_us(item.end_us, now_us)
                cpus = self._timeline_cpus(item.nodes, item.tenant)
                if item.is_suspended:
                    cpus = dict.fromkeys(cpus, 0)
                who.add(item.tenant, cpus, end_us)
            for tenant, allocs, end_us in self._newcomers:
                who.add(tenant, self._timeline_cpus(allocs, tenant), end_us)
        return self._neighbours

    def _timeline_cpus(self, allocs: Iterable[NodeAlloc], tenant: Tenant) -> dict[int, int]:
        """Return the CPUs that the timeline has for a job on each of its nodes."""
        position, all_cpus = self._hardware.position, self._hardware.all_cpus
        if not tenant.sharing:
            return cpus_of(allocs)
        return {alloc.node_id: all_cpus(position[alloc.node_id]) for alloc in allocs}

    def is_ours(self, place: int, begin_us: int, end_us: int, guests: Sequence[Guest]) -> bool:
        """Return whether nobody but some guests has or was promised anything of a node."""
        free, total = self._grid.free_at(place, CPUS), self._hardware.all_cpus(place)
        first = max(0, bisect_right(self._slots, begin_us) - 1)
        for slot in range(first, len(self._slots)):
            begins_us = self._slots[slot]
            if begins_us >= end_us and slot > first:
                break
            held = sum(guest.cpus for guest in guests if guest.end_us > begins_us or not slot)
            if free[slot] != total - held:
                return False
        return True

    def in_free_units(self, fits: int, demand: Demand, start_us: int) -> int:
        """Return those of some nodes in whose units nobody is for as long as the job lasts."""
        order, position = self._hardware.order, self._hardware.position
        end_us = demand.end_us(start_us)
        judged: dict[int, bool] = {}
        found = 0
        for place in bits(fits):
            if place not in judged:
                unit = self._units.beside(demand.tenant.partition, (order[place],))
                places = [position[node_id] for node_id in unit if node_id in position]
                is_free = all(self.is_ours(one, start_us, end_us, ()) for one in places)
                judged |= dict.fromkeys(places, is_free)
            if judged[place]:
                found |= 1 << place
        return found


def cpus_of(allocs: Iterable[NodeAlloc]) -> dict[int, int]:
    """Return the CPUs of a job on each of its nodes."""
    return {alloc.node_id: alloc.cpus for alloc in allocs}
