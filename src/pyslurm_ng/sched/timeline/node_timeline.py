"""Free resources of every node over time: the kernel's grid, and what is entered into it.

The grid (`_select.Grid`) finds the first slot at which enough nodes have enough. This file tells it
what nodes have, which jobs hold it until when, and what is enough.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import pairwise

from pyslurm_ng._select import NEVER, Grid, holding
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.reservation import NOTHING, NodePart, part_of
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.reserved import OUTSIDE, Closed, closed_times
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import TOPO, Tenant
from pyslurm_ng.sched.timeline.bookings import Bookings
from pyslurm_ng.sched.timeline.freed_nodes import SOON_US, expected_end_us
from pyslurm_ng.sched.timeline.grid_kinds import GridKinds
from pyslurm_ng.sched.timeline.held_amounts import HeldAmounts, Holdings
from pyslurm_ng.sched.timeline.nearness import Nearness
from pyslurm_ng.sched.timeline.neighbour_jobs import NeighbourJobs
from pyslurm_ng.sched.timeline.overlap import Held, may_share_cores, shared_cores
from pyslurm_ng.sched.timeline.shapes import CPUS, MEM, Amounts, Hardware
from pyslurm_ng.sched.timeline.shared_gpus import SharedGpus
from pyslurm_ng.sched.timeline.slots import boundaries

_MOST_CELLS = 40_000_000  # nodes x resources x slots; what planes take is in proportion


class Timeline:
    """The grid of one pass after another.

    It has a single slot, now, until a job must wait; then it is made again for the window.
    """

    grid: Grid
    times_us: list[int]  # of the grid's slots
    is_deep: bool

    def __init__(self, hardware: Hardware, nearness: Nearness, neighbours: NeighbourJobs) -> None:
        self._hardware = hardware
        self._nearness = nearness
        self._neighbours = neighbours
        self.bookings = Bookings(hardware)
        self.shared_gpus = SharedGpus(hardware, self.bookings)
        self.kinds = GridKinds(hardware, nearness)
        self._held = HeldAmounts()

    def begin(self, snapshot: Snapshot, demands: list[Demand], window_s: int) -> None:
        """Enter what is free now; later moments only once some job has to wait.

        Args:
            demands: those that may be looked for in this pass.
        """
        self._snapshot = snapshot
        self._window_s = window_s
        self.kinds.begin(demands)
        self._started = Holdings()
        self._started_ends_us = array("q")
        self._shared: dict[int, Held] = {}
        if may_share_cores(snapshot):
            self._shared = shared_cores(snapshot.running, self._threads_of, snapshot.now_us)
        is_minded = any(demand.need.minds_places for demand in demands)
        self.bookings.begin(snapshot.running, snapshot.now_us, is_minded)
        self.shared_gpus.begin(snapshot)
        self._closed = closed_times(snapshot.reservations, OUTSIDE)
        self.is_deep = False
        if self._closed:
            self.deepen()
        else:
            self._enter([snapshot.now_us])

    def deepen(self) -> None:
        """Plan over the whole window from here on, unless that is so already."""
        if self.is_deep:
            return
        hardware = self._hardware
        rows = max(1, len(hardware.order)) * 2
        rows += sum(
            1 for kind in hardware.kind_of for amount in hardware.totals[kind][2:] if amount
        )
        self._enter(self._times(max(64, min(4000, _MOST_CELLS // rows))))
        self.is_deep = True

    def _times(self, most: int) -> list[int]:
        """Return the boundaries of slots; those of reservations and the next ends are exact."""
        moments = {time_us for closed in self._closed for time_us in closed[:2]}
        # Where jobs inside end kept cores begin to count: no slot may count both.
        moments |= {
            end_us
            for closed in self._closed
            for node_id in closed.parts
            for end_us, _ in self._holders([closed], node_id)
            if end_us < closed.end_us
        }
        ends = {running_job.end_us for running_job in self._snapshot.running}
        ends.update(self._started_ends_us)
        moments.discard(NO_END_US)  # nothing opens again then
        return boundaries(self._snapshot.now_us, self._window_s, most, moments, ends)

    def _enter(self, times: list[int]) -> None:
        """Make the grid for these slots, with running jobs and what has started in this pass."""
        hardware, tree = self._hardware, self._nearness.tree
        self.slots = len(times)
        self.grid = grid = Grid(
            times, hardware.kind_of, max(1, len(hardware.kinds)), hardware.resources
        )
        self.times_us = times
        self._neighbours.enter(grid, times)
        if tree is not None:
            grid.set_leaves(tree.unit_of)
            grid.set_switches(tree.trees())
        for resource in range(hardware.resources):
            of_kind = [totals[resource] for totals in hardware.totals]
            grid.set_amounts(resource, [of_kind[kind] for kind in hardware.kind_of])
        self.shared_gpus.enter(grid, times)  # from here on no code holds the last grid
        self._hold_running()
        grid.hold(self._started.held, self._started.begins, self._started_ends_us)
        self.kinds.enter(grid)
        self._close_reserved()  # planes are made of what only grows; this they must see

    # What is held -------------------------------------------------------------------------------

    def _hold_running(self) -> None:
        """Enter running jobs."""
        now_us, running, shared = self._snapshot.now_us, self._snapshot.running, self._shared
        every = self._held.of(
            running,
            lambda running_job: self._packed(
                running_job.nodes, running_job.is_suspended, running_job.tenant
            ),
        )
        ends_us = array(
            "q", [expected_end_us(running_job.end_us, now_us) for running_job in running]
        )
        of_sharing, sharing_ends_us = Holdings(), array("q")
        for index, running_job in enumerate(running) if shared else ():
            if running_job.job_id in shared:
                end_us, allocs = shared[running_job.job_id]
                ends_us[index] = NEVER
                of_sharing.append(self._packed(allocs, False, running_job.tenant))
                sharing_ends_us.append(expected_end_us(end_us, now_us))
        self.grid.hold(every.held, every.begins, ends_us)
        self.grid.hold(of_sharing.held, of_sharing.begins, sharing_ends_us)

    def has_start(self, start_us: int) -> bool:
        """Return whether a slot begins at a moment."""
        slot = bisect_left(self.times_us, start_us)
        return slot < self.slots and self.times_us[slot] == start_us

    def promise(self, amounts: Iterable[tuple[int, Amounts]], start_us: int, end_us: int) -> int:
        """Take for a time what some positions give; return the number of the placing."""
        positions = []
        for position, node_amounts in amounts:
            positions.append(position)
            for resource, amount in node_amounts:
                self.grid.take(position, resource, amount, start_us, end_us)
        return self.grid.note_placing(positions)

    def promise_allocs(
        self, tenant: Tenant, allocs: tuple[NodeAlloc, ...], start_us: int, end_us: int
    ) -> int:
        """Take for a time what a job is to have; return the number of the placing."""
        self.deepen()
        position = self._hardware.position
        amounts = [
            (position[alloc.node_id], tuple(self._amounts(alloc, tenant))) for alloc in allocs
        ]
        return self.promise(amounts, start_us, end_us)

    def hold(self, tenant: Tenant, allocs: tuple[NodeAlloc, ...], end_us: int) -> None:
        """Take from now on what a job gets that starts in this pass."""
        now_us, take = self._snapshot.now_us, self.grid.take
        amounts = [*self._held_of(allocs, False, tenant)]
        for position, resource, amount in amounts:
            take(position, resource, amount, now_us, end_us)
        self.shared_gpus.hold(allocs, end_us)
        self.bookings.hold(allocs, end_us)
        if not self.is_deep:
            self._started.append(holding(*amount) for amount in amounts)
            self._started_ends_us.append(end_us)

    def keep_apart(self, demand: Demand, positions: list[int], start_us: int, end_us: int) -> None:
        """Take the rest of the units of the network that a job at some positions has for itself."""
        hardware = self._hardware
        node_ids = [hardware.order[position] for position in positions]
        for node_id in self._neighbours.beside(demand.tenant, node_ids):
            position = hardware.position[node_id]
            self.grid.take(position, CPUS, hardware.all_cpus(position), start_us, end_us)

    def _packed(
        self, allocs: tuple[NodeAlloc, ...], is_suspended: bool, tenant: Tenant
    ) -> list[int]:
        """Return what a job holds in numbers for the grid."""
        return [holding(*amount) for amount in self._held_of(allocs, is_suspended, tenant)]

    def _held_of(
        self, allocs: tuple[NodeAlloc, ...], is_suspended: bool, tenant: Tenant
    ) -> Iterator[tuple[int, int, int]]:
        """Yield position, resource and amount of what a job holds."""
        position = self._hardware.position
        for alloc in allocs:
            for resource, amount in self._amounts(alloc, tenant):
                if resource != CPUS or not is_suspended:
                    yield position[alloc.node_id], resource, amount
        if tenant.sharing == TOPO and not is_suspended:
            for node_id in self._neighbours.beside(tenant, [alloc.node_id for alloc in allocs]):
                yield position[node_id], CPUS, self._hardware.all_cpus(position[node_id])

    def _amounts(self, alloc: NodeAlloc, tenant: Tenant) -> list[tuple[int, int]]:
        """Return (resource, amount) of what a job holds on a node."""
        hardware = self._hardware
        amounts = [(CPUS, alloc.cpus)]
        if tenant.sharing:
            amounts = [(CPUS, hardware.all_cpus(hardware.position[alloc.node_id]))]
        cap = hardware.caps.get(tenant.partition)
        if cap is not None:
            amounts.append((cap, alloc.cpus))
        if hardware.without_gpus and all(gres.name != "gpu" for gres in alloc.gres):
            amounts.append((hardware.without_gpus, alloc.cpus))
        if alloc.mem_mib:
            amounts.append((MEM, alloc.mem_mib))
        for gres in alloc.gres:
            amounts += [
                (resource, gres.count) for resource in hardware.counting(gres.name, gres.type)
            ]
            if hardware.units:
                position = hardware.position[alloc.node_id]
                units = hardware.units_taken(position, gres.name, gres.count)
                amounts.append((hardware.units, units))
        return amounts

    # Reservations of administrators -------------------------------------------------------------

    def _close_reserved(self) -> None:
        """Keep the nodes of reservations from jobs outside at their times."""
        hardware = self._hardware
        in_part: dict[int, list[Closed]] = {}
        for closed in self._closed:
            for node_id in closed.node_ids:
                position = hardware.position.get(node_id)
                if position is not None and node_id in closed.parts:
                    in_part.setdefault(node_id, []).append(closed)
                elif position is not None:
                    cpus = hardware.all_cpus(position)
                    self.grid.take(position, CPUS, cpus, closed.begin_us, closed.end_us)
        for node_id, several in in_part.items():
            self._close_parts(several, node_id, hardware.position[node_id])

    def _close_parts(self, several: list[Closed], node_id: int, position: int) -> None:
        """Keep some of a node; what several reservations or jobs hold at once counts once."""
        holdings = self._holders(several, node_id)
        times = {moment for closed in several for moment in (closed.begin_us, closed.end_us)}
        first_us, last_us = min(times), max(times)
        times.update(end_us for end_us, _ in holdings if first_us < end_us < last_us)
        for at_us, until_us in pairwise(sorted(times)):
            kept_part = NOTHING
            for closed in several:
                if closed.begin_us <= at_us and until_us <= closed.end_us:
                    kept_part = kept_part.joined(closed.parts[node_id])
            for end_us, part in holdings:
                if end_us >= until_us:
                    kept_part = kept_part.without(part)
            for resource, amount in self._amounts_of(kept_part, node_id):
                if amount:
                    self.grid.take(position, resource, amount, at_us, until_us)

    def _amounts_of(self, part: NodePart, node_id: int) -> list[tuple[int, int]]:
        """Return (resource, amount) of a part of a node."""
        amounts = [(CPUS, part.cores.bit_count() * self._threads_of(node_id))]
        for key, mask in part.devices.items():
            name, _, kind = key.partition(":")
            counting = self._hardware.counting(name, kind)
            amounts += [(resource, mask.bit_count()) for resource in counting]
        return amounts

    def _holders(self, several: list[Closed], node_id: int) -> list[tuple[int, NodePart]]:
        """Return until when jobs hold what of the parts that are kept of a node."""
        kept = reduce(NodePart.joined, (closed.parts[node_id] for closed in several))
        soon_us = self._snapshot.now_us + SOON_US
        return [
            (max(running_job.end_us, soon_us), part)
            for running_job in self._snapshot.running
            if not running_job.is_suspended
            for alloc in running_job.nodes
            if alloc.node_id == node_id and (part := part_of(alloc)).meets(kept)
        ]

    def _threads_of(self, node_id: int) -> int:
        spec = self._snapshot.specs[node_id]
        return spec.threads_per_core if spec is not None else 1
