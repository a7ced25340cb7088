"""Which cores and GPUs of nodes jobs get or are promised, where it matters which.

The grid counts what nodes have; this module finds out whether a job can use it. It costs nothing as
long as no job in the queue minds which cores or GPUs it gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.allot import allot, deal_devices
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import MANY, FreeNode
from pyslurm_ng.sched.cons_tres.select import share_tasks
from pyslurm_ng.sched.cons_tres.topology import bits
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.timeline.bookings import HiddenBooking
from pyslurm_ng.sched.timeline.kept_promises import KeptPromise
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.shapes import Variant


class InsideNodes:
    """The cores and GPUs of one pass."""

    def __init__(self, tables: PassTables) -> None:
        self._hardware = tables.hardware
        self._nearness = tables.nearness
        self._timeline = tables.timeline
        self._bookings = tables.timeline.bookings
        self._free = tables.free
        self._now_us = tables.now_us

    # What fits ----------------------------------------------------------------------------------

    def fitting(self, demand: Demand, variant: Variant, fits: int, start_us: int) -> int:
        """Return those of some nodes that have the cores and GPUs then which a job wants."""
        fitting_nodes, missing_count = 0, variant.nodes
        takes_first = not demand.need.is_choosy and self._nearness.layout(demand) is None
        for position in bits(fits):
            node = self._free.node(self._hardware.order[position])
            hidden: list[HiddenBooking] = []
            if start_us == self._now_us:
                hidden = self.hide([node], demand)
            else:
                node = self._bookings.node_at(position, start_us, demand.end_us(start_us))
            if tasks_that_fit(variant.need, node) >= variant.tasks_per_node:
                fitting_nodes |= 1 << position
                missing_count -= 1
            self.show([node], hidden)
            if takes_first and missing_count <= 0 and not demand.need.required_nodes:
                break
        return fitting_nodes

    def hide(
        self, nodes: Sequence[FreeNode], demand: Demand, *, only_fixed: bool = False
    ) -> list[HiddenBooking]:
        """Take out of nodes what others were promised before a job would be over; return it."""
        if not self._bookings.is_kept:
            return []
        end_us = demand.end_us(self._now_us)
        if demand.need.has_parts:
            for node in nodes:
                node.kept_gpus = self._timeline.shared_gpus.kept(node.node_id, end_us)
        return self._bookings.hide_promised(nodes, end_us, only_fixed=only_fixed)

    def show(self, nodes: Iterable[FreeNode], hidden: Iterable[HiddenBooking]) -> None:
        """Put back what was taken out."""
        for hidden_part in hidden:
            hidden_part.show()
        for node in nodes:
            node.kept_gpus = 0

    # What jobs get now --------------------------------------------------------------------------

    def take_promised(
        self, demand: Demand, allocs: tuple[NodeAlloc, ...]
    ) -> tuple[NodeAlloc, ...] | None:
        """Take exactly the cores and devices that a job was promised; None if they are not free."""
        if not allocs or not self._bookings.is_kept or demand.need.is_capped:
            return None
        end_us = demand.end_us(self._now_us)
        if not self._free.has(allocs) or not self._bookings.has_room(allocs, self._now_us, end_us):
            return None
        self._free.give(allocs)
        return allocs

    def allot_now(
        self, demand: Demand, nodes: list[tuple[FreeNode, int]], *, only_fixed: bool = False
    ) -> tuple[NodeAlloc, ...] | None:
        """Give a job cores, memory and devices of some nodes, as many tasks at most as said."""
        need, free = demand.need, [node for node, _ in nodes]
        promised = self.hide(free, demand, only_fixed=only_fixed)
        hidden = self._free.hide_kept(free, demand.duration_us)
        fits = [(node, tasks_that_fit(need, node)) for node in free]
        # A job that has a whole node fills it, as everywhere else; a list of tasks is kept to.
        if not need.is_exclusive and not need.listed_tasks:
            fits = [
                (node, min(fit, share)) for (node, fit), (_, share) in zip(fits, nodes, strict=True)
            ]
        layout = self._nearness.layout(demand)
        chosen = share_tasks(need, fits, layout) if all(fit > 0 for _, fit in fits) else None
        if chosen is not None and deal_devices(need, chosen) is None:
            chosen = None
        allocs = allot(need, chosen) if chosen is not None else None
        for hidden_part in hidden:
            hidden_part.show()
        self.show(free, promised)
        return allocs

    # What is promised ---------------------------------------------------------------------------

    def allot_later(self, kept: KeptPromise) -> tuple[NodeAlloc, ...]:
        """Return the cores and GPUs of a job that starts later; nothing if they cannot be had.

        A job that could use others gets what was promised to others of that kind, if need be.
        """
        demand, variant, shares, start_us = (
            kept.demand,
            kept.variant,
            kept.shares,
            kept.start_us,
        )
        need = variant.need if variant is not None else demand.need
        for only_fixed in (False,) if need.minds_places else (False, True):
            nodes = {}
            for at, _ in shares:
                node = nodes[at] = self._bookings.node_at(
                    at, start_us, demand.end_us(start_us), only_fixed=only_fixed
                )
                node.most_gpus = kept.most_gpus.get(at, MANY)
            chosen = [(nodes[at], tasks) for at, tasks in shares]
            allocs = self._allot(demand, need, chosen)
            if allocs:
                return allocs
        return ()

    def _allot(
        self, demand: Demand, need: Need, chosen: list[tuple[FreeNode, int]]
    ) -> tuple[NodeAlloc, ...]:
        if any(tasks_that_fit(need, node) < tasks for node, tasks in chosen):
            return ()
        shared = share_tasks(need, chosen, self._nearness.layout(demand))
        if shared is None or deal_devices(need, shared) is None:
            return ()
        return allot(need, shared)

    def promise(
        self, demand: Demand, allocs: tuple[NodeAlloc, ...], start_us: int, end_us: int
    ) -> None:
        """Book what a job is to have later."""
        self._timeline.shared_gpus.promise(allocs, start_us, end_us)
        is_fixed = demand.need.minds_places
        self._bookings.promise(allocs, start_us, end_us, is_fixed=is_fixed)
