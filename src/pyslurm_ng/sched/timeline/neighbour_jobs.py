"""Which jobs are on each node, and their owners, for jobs that may share nodes only with some.

The grid only counts, and the answers here rest on its counts: a node belongs to one owner alone for
a time if the free part of it is all that the owner's jobs leave. Then no other owner was promised
any of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pyslurm_ng._select import Grid
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.topology import bits
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import MCS, USER, Guest, Neighbours, Tenant, Units
from pyslurm_ng.sched.timeline.freed_nodes import expected_end_us
from pyslurm_ng.sched.timeline.shapes import CPUS, Hardware

_ANY = "any"  # way to share nodes


class NeighbourJobs:
    """The jobs of one pass after another, by node."""

    def __init__(self, hardware: Hardware, units: Units) -> None:
        self._hardware = hardware
        self._units = units

    def begin(self, snapshot: Snapshot) -> None:
        """Forget the last pass."""
        self._snapshot = snapshot
        self._neighbours: Neighbours | None = None
        self._newcomers: list[tuple[Tenant, tuple[NodeAlloc, ...], int]] = []
        self._coming: dict[int, list[Guest]] = {}  # by node: those that were promised room
        self._promised: list[tuple[int, ...]] = []  # the nodes of each of these
        # By owner, user or label, and how he shares: a superset once a trial was rolled back.
        self._nodes_of: dict[tuple[int | str, str], set[int]] = {}

    def enter(self, grid: Grid, slots: Sequence[int]) -> None:
        """Look at another grid from here on; `slots` are when its slots begin."""
        self._grid = grid
        self._slots = slots

    def add(self, tenant: Tenant, allocs: tuple[NodeAlloc, ...], end_us: int) -> None:
        """Enter a job that starts in this pass."""
        self._newcomers.append((tenant, allocs, end_us))
        if self._neighbours is not None:
            self._arrive(self._neighbours, tenant, allocs, end_us)

    def _arrive(
        self, neighbours: Neighbours, tenant: Tenant, allocs: tuple[NodeAlloc, ...], end_us: int
    ) -> None:
        cpus = self._timeline_cpus(allocs, tenant)
        neighbours.add(tenant, cpus, end_us, allocs)
        self._note(tenant, cpus)

    def promise(
        self, tenant: Tenant, allocs: tuple[NodeAlloc, ...], start_us: int, end_us: int
    ) -> None:
        """Enter a job that starts later."""
        cpus = self._timeline_cpus(allocs, tenant)
        for alloc in allocs:
            guest = Guest(tenant, end_us, cpus[alloc.node_id], alloc, start_us)
            self._coming.setdefault(alloc.node_id, []).append(guest)
        self._promised.append(tuple(cpus))
        self._note(tenant, cpus)

    def count(self) -> tuple[int, int]:
        """Return how many jobs have started in this pass, and how many were promised room."""
        return len(self._newcomers), len(self._promised)

    def cut(self, count: tuple[int, int]) -> None:
        """Forget all jobs that started in this pass, or were promised room, but the first ones."""
        newcomers, promised = count
        if newcomers < len(self._newcomers):
            del self._newcomers[newcomers:]
            self._neighbours = None
        for node_ids in reversed(self._promised[promised:]):
            for node_id in node_ids:
                self._coming[node_id].pop()
        del self._promised[promised:]

    def beside(self, tenant: Tenant, node_ids: Sequence[int]) -> list[int]:
        """Return the other nodes of the units that a job has for itself."""
        node_ids_beside = self._units.beside(tenant.partition, node_ids) - set(node_ids)
        return sorted(node_ids_beside & self._hardware.position.keys())

    def now(self) -> Neighbours:
        """Return the jobs on each node now; only passes with jobs that care make it."""
        if self._neighbours is None:
            neighbours = self._neighbours = Neighbours(self._units)
            now_us = self._snapshot.now_us
            for running_job in self._snapshot.running:
                end_us = expected_end_us(running_job.end_us, now_us)
                cpus = self._timeline_cpus(running_job.nodes, running_job.tenant)
                if running_job.is_suspended:
                    cpus = dict.fromkeys(cpus, 0)
                neighbours.add(running_job.tenant, cpus, end_us, running_job.nodes)
                self._note(running_job.tenant, cpus)
            for tenant, allocs, end_us in self._newcomers:
                self._arrive(neighbours, tenant, allocs, end_us)
        return self._neighbours

    def hosts(self, tenant: Tenant) -> list[int]:
        """Return nodes with jobs, now or later, with which only those of their owner may be.

        A job that keeps all others away could be beside any job of its owner; a job that does not
        could be beside the others anyway, so these nodes are not returned for it.
        """
        self.now()
        nodes_of, nothing = self._nodes_of, set[int]()
        if tenant.sharing == USER:
            return sorted(nodes_of.get((tenant.uid, _ANY), nothing))
        if tenant.sharing == MCS:
            return sorted(nodes_of.get((tenant.label, _ANY), nothing))
        of_user = nodes_of.get((tenant.uid, USER), nothing)
        return sorted(of_user | nodes_of.get((tenant.label, MCS), nothing))

    def _note(self, tenant: Tenant, node_ids: Iterable[int]) -> None:
        """Remember where a tenant has jobs."""
        for owner in (tenant.uid, tenant.label):
            for sharing in {_ANY, tenant.sharing}:
                self._nodes_of.setdefault((owner, sharing), set()).update(node_ids)

    def guests(self, node_id: int, begin_us: int, end_us: int) -> list[Guest]:
        """Return the jobs on a node in a time, as far as those promised room were entered."""
        is_now = begin_us <= self._snapshot.now_us
        guests = [guest for guest in self.now().on(node_id) if is_now or guest.end_us > begin_us]
        guests += (
            guest
            for guest in self._coming.get(node_id, ())
            if guest.start_us < end_us and guest.end_us > begin_us
        )
        return guests

    def _timeline_cpus(self, allocs: Iterable[NodeAlloc], tenant: Tenant) -> dict[int, int]:
        """Return the CPUs that the timeline has for a job on each of its nodes."""
        position, all_cpus = self._hardware.position, self._hardware.all_cpus
        if not tenant.sharing:
            return cpus_of(allocs)
        return {alloc.node_id: all_cpus(position[alloc.node_id]) for alloc in allocs}

    def is_ours(self, position: int, begin_us: int, end_us: int, guests: Sequence[Guest]) -> bool:
        """Return whether only some guests have, or were promised, anything of a node."""
        free, total = self._grid.free_at(position, CPUS), self._hardware.all_cpus(position)
        slots = self._slots
        first = max(0, bisect_right(slots, begin_us) - 1)
        last = max(first + 1, bisect_left(slots, end_us))
        turns = {bisect_left(slots, guest.start_us) for guest in guests}
        turns |= {bisect_left(slots, guest.end_us) for guest in guests}
        edges = [first, *sorted(turn for turn in turns if first < turn < last), last]
        for at, until in pairwise(edges):
            begins_us = slots[at]
            cpus = sum(guest.cpus for guest in guests if guest.start_us <= begins_us < guest.end_us)
            if free[at:until].count(total - cpus) != until - at:
                return False
        return True

    def in_free_units(self, fits: int, demand: Demand, start_us: int) -> int:
        """Return those of some nodes with units that no other job uses while the job lasts."""
        order, position = self._hardware.order, self._hardware.position
        end_us = demand.end_us(start_us)
        judged: dict[int, bool] = {}
        free = 0
        for candidate in bits(fits):
            if candidate not in judged:
                unit = self._units.beside(demand.tenant.partition, (order[candidate],))
                unit_positions = [position[node_id] for node_id in unit if node_id in position]
                is_free = all(
                    self.is_ours(position, start_us, end_us, ()) for position in unit_positions
                )
                judged |= dict.fromkeys(unit_positions, is_free)
            if judged[candidate]:
                free |= 1 << candidate
        return free


def cpus_of(allocs: Iterable[NodeAlloc]) -> dict[int, int]:
    """Return the CPUs of a job on each of its nodes."""
    return {alloc.node_id: alloc.cpus for alloc in allocs}
