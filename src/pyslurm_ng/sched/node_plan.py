"""Planning where each node counts: jobs share nodes, and nodes differ.

The grid (`_select.Grid`) finds the first slot at which enough nodes have enough, and this file
tells it what enough is. What starts now is chosen core by core from the same nodes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from pyslurm_ng._select import NEVER, Grid, Profile
from pyslurm_ng.model.cluster import license_counts
from pyslurm_ng.model.ids import INFINITE
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.reservation import WHOLE, NodePart, part_of
from pyslurm_ng.model.topology import topology_of
from pyslurm_ng.sched.allot import allot
from pyslurm_ng.sched.choosers import (
    Chooser,
    Picker,
    Plain,
    Ways,
    choose_counted,
    node_counts,
    ways_of,
)
from pyslurm_ng.sched.company import Company
from pyslurm_ng.sched.demand import Demand
from pyslurm_ng.sched.features import Way
from pyslurm_ng.sched.fit import tasks_that_fit
from pyslurm_ng.sched.free_node import FreeNode, free_node
from pyslurm_ng.sched.hiding import Hidden, hide
from pyslurm_ng.sched.overlap import Held, may_share_cores, shared_cores
from pyslurm_ng.sched.plan import PlacedNodes, PlannedNodes
from pyslurm_ng.sched.pools import SOON_US
from pyslurm_ng.sched.promises import Promises
from pyslurm_ng.sched.reserved import OUTSIDE, Closed, closed_times, kept_parts
from pyslurm_ng.sched.reserved_licenses import NOTHING_INSIDE
from pyslurm_ng.sched.select import place_of, share_tasks
from pyslurm_ng.sched.shapes import CPUS, MEM, Hardware, Variant
from pyslurm_ng.sched.sharing import (
    MCS,
    TOPO,
    USER,
    PartitionCores,
    Tenant,
    Units,
)
from pyslurm_ng.sched.snapshot import NO_END_US, Snapshot
from pyslurm_ng.sched.topology import (
    Layout,
    bits,
    choose_shares,
    layouts_of,
    unit_numbers,
    weight_groups,
)

_SECOND_US = 1_000_000
_MOST_SLOTS = 4096  # of a grid
_MOST_EXACT_ENDS = 64  # of running jobs; later ones are rounded up to a slot
_FIRST_SLOT_S = 60
_WIDEST_SLOT_S = 3600
_GROWTH = 1.0175  # about 520 slots for 14 days
# Beyond these many different amounts, planes are shared and rows decide.
_MOST_PLANES = {CPUS: 24, MEM: 12}
_MOST_OTHER_PLANES = 8
_MOST_CELLS = 40_000_000  # of rows, four bytes each
_MOST_UNEVEN = 4096  # nodes to try in an uneven placement

_NO_MORE = 1 << 30
_UNKNOWN: tuple[int, list[list[int]]] = (-1, [])

Threshold = tuple[int, ...]


def slot_times(now_us: int, window_s: int, most: int) -> list[int]:
    """Return the boundaries of slots that widen from a minute to an hour; at most so many."""
    growth, widest = _GROWTH, float(_WIDEST_SLOT_S)
    while True:
        times, width, at_s = [now_us], float(_FIRST_SLOT_S), 0.0
        while at_s + width < window_s:
            at_s += width
            times.append(now_us + int(at_s) * _SECOND_US)
            width = min(widest, width * growth)
        if len(times) <= most:
            return times
        growth, widest = growth * 1.05, widest * 1.25


@dataclass(slots=True)
class _Trial:
    """What a trial has to put back besides the grid's holdings."""

    blocked: set[int]
    unjoined: set[int]
    reserved: int
    newcomers: int
    licenses: list[tuple[Demand, int]] = field(default_factory=list)
    free: dict[int, FreeNode] = field(default_factory=dict)  # as they were


class NodePlan:
    """The planner of single nodes; planning anew with each `begin`."""

    lies_badly = False  # the last job looked for has enough nodes now, but not near one another

    def __init__(self, snapshot: Snapshot) -> None:
        topologies, partitions = snapshot.topologies, snapshot.partitions
        default = topology_of(topologies, None)
        self.hardware = Hardware(snapshot, unit_numbers(default, snapshot.specs))
        weights = [snapshot.weights[node_id] for node_id in self.hardware.order]
        self._layouts = layouts_of(topologies, partitions.values(), self.hardware.position, weights)
        layouts = {id(layout): layout for layout in self._layouts.values()}
        # The kernel knows one tree of nodes that weigh alike; all else is looked after here.
        self._tree: Layout | None = None
        weigh_alike = len(set(weights)) <= 1
        if weigh_alike and len(layouts) == 1 and len(self._layouts) == len(partitions):
            layout = next(iter(layouts.values()))
            self._tree = layout if layout.kind == "tree" else None
        self._plain = Plain(self.hardware.position, weight_groups(weights))
        self._ways: dict[tuple[Way, ...], list[Ways]] = {}
        self._company = Company(self.hardware, Units(topologies, partitions))
        self._variants: dict[int, tuple[Demand, list[Variant]]] = {}
        self._held: dict[int, tuple[object, tuple[int, ...]]] = {}  # by running job
        self._trial: _Trial | None = None

    def begin(self, snapshot: Snapshot, demands: Iterable[Demand], window_s: int) -> None:
        """Enter what is free now; later moments only once some job has to wait."""
        self._snapshot = snapshot
        self._window_s = window_s
        self._wanted = [demand for demand in demands if demand.verdict is None]
        self._free: dict[int, FreeNode] = {}
        self._choosers: dict[int, Chooser] = {}
        self._cpus_free = snapshot.cpus_free[:]
        self._started: list[tuple[tuple[int, ...], int]] = []  # what, until when
        self._licenses_taken: list[tuple[int, int, tuple[int, ...], tuple[int, ...]]] = []
        self._reserved: array[int] = array("q")  # numbers of placings
        self._blocked: set[int] = set()
        self._unjoined: set[int] = set()
        self._uneven: list[tuple[int, int]] = []
        self._company.begin(snapshot)
        self._caps: PartitionCores | None = None
        if self.hardware.caps:
            self._caps = PartitionCores(snapshot.partitions, INFINITE)
            for item in snapshot.running:
                self._caps.add(item.tenant.partition, item.nodes)
        self._shared: dict[int, Held] = {}
        if may_share_cores(snapshot):
            self._shared = shared_cores(snapshot.running, self._threads_of, snapshot.now_us)
        self._begin_licenses()
        self._closed = closed_times(snapshot.reservations, OUTSIDE)
        self._enter([snapshot.now_us])
        self._is_deep = False
        if self._closed:
            self._deepen()

    # The grid -----------------------------------------------------------------------------------

    def _enter(self, times: list[int]) -> None:
        """Make the grid for these slots, with running jobs and what has started in this pass."""
        hardware = self.hardware
        self._grid = grid = Grid(
            times, hardware.kind_of, max(1, len(hardware.kinds)), hardware.resources
        )
        self._company.enter(grid, times)
        if self._tree is not None:
            grid.set_leaves(self._tree.unit_of)
            grid.set_switches(self._tree.trees())
        for resource in range(hardware.resources):
            of_kind = [totals[resource] for totals in hardware.totals]
            grid.set_amounts(resource, [of_kind[kind] for kind in hardware.kind_of])
        self._hold_running()
        for held, end_us in self._started:
            grid.hold(held, end_us)
        self._kinds: dict[int, list[tuple[int, Variant]]] = {}
        self._masks: dict[bytes, int] = {}
        self._closer: dict[int, int] = {}  # demands of one node in blocks, and their open kind
        self._shapes: dict[tuple[object, ...], int] = {}
        for demand in self._wanted:
            demand.kind = -1
        self._singles: dict[int, tuple[int, list[list[int]]] | None] = {}
        self._add_planes()
        self._close_reserved()  # planes are made of what only grows; this they must see

    def _threads_of(self, node_id: int) -> int:
        spec = self._snapshot.specs[node_id]
        return spec.threads_per_core if spec is not None else 1

    def _hold_running(self) -> None:
        """Enter running jobs; what each holds is worked out once in its life."""
        known, now_us = self._held, self._snapshot.now_us
        held_now: dict[int, tuple[object, tuple[int, ...]]] = {}
        hold = self._grid.hold
        shared = self._shared
        for job_id, end_us, allocs, _, is_suspended, *_, tenant in self._snapshot.running:
            if job_id in shared:
                (end_us, allocs), is_suspended = shared[job_id], False
            held = known.get(job_id)
            if held is None or held[0] != (allocs, is_suspended):
                held = (allocs, is_suspended), self._flat(allocs, is_suspended, tenant)
            held_now[job_id] = held
            hold(held[1], end_us if end_us > now_us else now_us + SOON_US)
        self._held = held_now

    def _close_reserved(self) -> None:
        """Keep the nodes of reservations from jobs outside at their times."""
        hardware = self.hardware
        for closed in self._closed:
            for node_id in closed.node_ids:
                place = hardware.position.get(node_id)
                if place is not None and node_id in closed.parts:
                    self._close_part(closed, node_id, place)
                elif place is not None:
                    cpus = hardware.totals[hardware.kind_of[place]][CPUS]
                    self._grid.take(place, CPUS, cpus, closed.begin_us, closed.end_us)

    def _close_part(self, closed: Closed, node_id: int, place: int) -> None:
        """Keep some of a node; for as long as jobs hold that it counts already."""
        at_us = closed.begin_us
        held = self._holders(closed, node_id)
        ends = {end_us for end_us, _ in held if at_us < end_us < closed.end_us}
        for until_us in sorted({*ends, closed.end_us}):
            left = closed.parts[node_id]
            for end_us, part in held:
                if end_us >= until_us:
                    left = left.without(part)
            for resource, amount in self._amounts_of(left, node_id):
                if amount:
                    self._grid.take(place, resource, amount, at_us, until_us)
            at_us = until_us

    def _amounts_of(self, part: NodePart, node_id: int) -> list[tuple[int, int]]:
        """Return (resource, amount) of a part of a node."""
        amounts = [(CPUS, part.cores.bit_count() * self._threads_of(node_id))]
        for key, mask in part.devices.items():
            name, _, kind = key.partition(":")
            for of_kind in {"", kind}:
                resource = self.hardware.resource_of.get((name, of_kind))
                if resource is not None:
                    amounts.append((resource, mask.bit_count()))
        return amounts

    def _holders(self, closed: Closed, node_id: int) -> list[tuple[int, NodePart]]:
        """Return until when jobs hold what of the part that is kept of a node."""
        kept, soon_us = closed.parts[node_id], self._snapshot.now_us + SOON_US
        return [
            (max(item.end_us, soon_us), part)
            for item in self._snapshot.running
            if not item.is_suspended
            for alloc in item.nodes
            if alloc.node_id == node_id and (part := part_of(alloc)).meets(kept)
        ]

    def _times(self, most: int) -> list[int]:
        """Return the boundaries of slots, and exactly those of reservations, however late.

        Those take the place of their neighbours: more slots would cost time and memory. So do the
        next ends of running jobs: what waits for one of them is promised that very moment, and
        nobody slips in whom rounding would let overstay.
        """
        now_us = self._snapshot.now_us
        times = slot_times(now_us, self._window_s, most)
        moments = {time_us for closed in self._closed for time_us in closed[:2]}
        # Where jobs inside end kept cores begin to count: no slot may count both.
        moments |= {
            end_us
            for closed in self._closed
            for node_id in closed.parts
            for end_us, _ in self._holders(closed, node_id)
            if end_us < closed.end_us
        }
        horizon_us = times[-1]
        ends = {item.end_us for item in self._snapshot.running}
        ends |= {end_us for _, end_us in self._started}
        coming = nsmallest(_MOST_EXACT_ENDS, (end_us for end_us in ends if end_us > now_us))
        moments |= {end_us for end_us in coming if end_us < horizon_us}
        later = sorted(time_us for time_us in moments if time_us > now_us)
        later = later[: _MOST_SLOTS - len(times)]
        near = {min(bisect_right(times, moment), len(times) - 1) for moment in later}
        kept = [time_us for place, time_us in enumerate(times) if place not in near or not place]
        return sorted({*kept, *later})

    def _flat(
        self, allocs: tuple[NodeAlloc, ...], is_suspended: bool, tenant: Tenant
    ) -> tuple[int, ...]:
        """Return position, resource, amount; position ... of what a job holds."""
        flat: list[int] = []
        position = self.hardware.position
        for alloc in allocs:
            for resource, amount in self._amounts(alloc, tenant):
                if resource != CPUS or not is_suspended:
                    flat += (position[alloc.node_id], resource, amount)
        if tenant.sharing == TOPO and not is_suspended:
            for node_id in self._company.beside(tenant, [alloc.node_id for alloc in allocs]):
                flat += (position[node_id], CPUS, self.hardware.all_cpus(position[node_id]))
        return tuple(flat)

    def _amounts(self, alloc: NodeAlloc, tenant: Tenant) -> list[tuple[int, int]]:
        """Return (resource, amount) of what a job holds on a node."""
        held = [(CPUS, alloc.cpus)]
        if tenant.sharing:
            held = [(CPUS, self.hardware.all_cpus(self.hardware.position[alloc.node_id]))]
        cap = self.hardware.caps.get(tenant.partition)
        if cap is not None:
            held.append((cap, alloc.cpus))
        if self.hardware.without_gpus and all(item.name != "gpu" for item in alloc.gres):
            held.append((self.hardware.without_gpus, alloc.cpus))
        if alloc.mem_mib:
            held.append((MEM, alloc.mem_mib))
        if alloc.gres:
            resource_of = self.hardware.resource_of
            for item in alloc.gres:
                total = resource_of.get((item.name, ""))
                if total is not None:
                    held.append((total, item.count))
                typed = resource_of.get((item.name, item.type)) if item.type else None
                if typed is not None:
                    held.append((typed, item.count))
        return held

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

    def _kinds_of(self, demand: Demand) -> list[tuple[int, Variant]]:
        """Return the grid's kinds for a demand, one for each variant."""
        kinds = self._kinds.get(id(demand))
        if kinds is None:
            kinds = self._kinds[id(demand)] = [
                (self._add_kind(demand, variant), variant) for variant in self._variants_of(demand)
            ]
        return kinds

    def _add_kind(self, demand: Demand, variant: Variant) -> int:
        key = (variant.resources, variant.amounts)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._add_shape(variant)
        required = self._mask_number(variant.required) if variant.required else -1
        mask = self._mask_number(variant.mask)
        kind = self._grid.add_kind(shape, mask, variant.nodes, demand.duration_us, required)
        if self._is_open(demand, variant):
            self._grid.leave_open(kind)
        return kind

    def _chooser(self, demand: Demand) -> Chooser | None:
        """Return what chooses the nodes of a demand to which not any that fit will do."""
        need = demand.need
        if not need.is_choosy:
            return None
        chooser = self._choosers.get(id(demand))
        if chooser is None:
            hardware, snapshot = self.hardware, self._snapshot
            key = need.features
            ways = self._ways.get(key)
            if ways is None:
                features = [snapshot.features[node_id] for node_id in hardware.order]
                ways = self._ways[key] = ways_of(need, features)
            base = self._layouts.get(demand.partition.name) or self._plain
            chooser = self._choosers[id(demand)] = Chooser(
                need, base, hardware.order, ways, self._plain.groups
            )
        return chooser

    def _picker(self, demand: Demand) -> Chooser | Layout | None:
        return self._chooser(demand) or self._layouts.get(demand.partition.name)

    def _loads(self) -> list[float]:
        """Return the share of CPUs that is in use now on each node, by position."""
        totals, kind_of = self.hardware.totals, self.hardware.kind_of
        return [
            1 - self._cpus_free[node_id] / max(1, totals[kind_of[place]][CPUS])
            for place, node_id in enumerate(self.hardware.order)
        ]

    def _is_open(self, demand: Demand, variant: Variant) -> bool:
        """Return whether where nodes lie is judged here and not in the kernel."""
        if demand.need.is_choosy or demand.need.sharing == TOPO:
            return True
        layout = self._layouts.get(demand.partition.name)
        if layout is None or variant.nodes == 1:
            return False
        need = demand.need
        return layout is not self._tree or bool(need.switches or need.required_nodes)

    def _lies_well(self, demand: Demand, kind: int, variant: Variant, start_us: int) -> bool:
        """Choose among the nodes found by the topology; return whether any choice will do."""
        if not self._is_open(demand, variant):
            return True
        return self._choose_near(demand, kind, variant, start_us)

    def _choose_near(self, demand: Demand, kind: int, variant: Variant, start_us: int) -> bool:
        picker: Picker = self._picker(demand) or self._plain
        if demand.need.least_loaded and isinstance(picker, Chooser):
            picker.load = self._loads() if start_us == self._snapshot.now_us else ()
        place = place_of(demand.need, picker)._replace(nodes=variant.nodes)
        fits = int.from_bytes(self._grid.fitting(), "little")
        if demand.need.sharing == TOPO:
            fits = self._company.in_free_units(fits, demand, start_us)
        chosen = picker.pick(fits, place)
        if chosen is None:
            return False
        self._grid.choose(kind, list(bits(chosen)))
        return True

    def _mask_number(self, mask: bytes) -> int:
        number = self._masks.get(mask)
        if number is None:
            number = self._masks[mask] = self._grid.add_mask(mask)
        return number

    def _variants_of(self, demand: Demand) -> list[Variant]:
        found = self._variants.get(id(demand))
        if found is None or found[0] is not demand:
            found = self._variants[id(demand)] = (demand, self.hardware.variants(demand))
        return found[1]

    def _add_shape(self, variant: Variant) -> int:
        """Return a shape; resources that no plane tells exactly come first."""
        exact: list[int] = []
        inexact: list[int] = []
        used: list[int] = []
        for resource, threshold in variant.thresholds:
            best = max(
                (item for item in self._planes[resource] if _is_below(item[0], threshold)),
                key=lambda item: sum(item[0]),
                default=None,
            )
            if best is not None:
                used.append(best[1])
            (exact if best is not None and best[0] == threshold else inexact).append(resource)
        resources = inexact + exact
        places = [variant.resources.index(resource) for resource in resources]
        rows = [[row[place] for place in places] for row in variant.amounts]
        return self._grid.add_shape(resources, used, rows, len(inexact))

    def _deepen(self) -> None:
        """Somebody has to wait: plan over the whole window from here on."""
        rows = max(1, len(self.hardware.order)) * 2
        rows += sum(
            1
            for kind in self.hardware.kind_of
            for amount in self.hardware.totals[kind][2:]
            if amount
        )
        most = max(64, min(4000, _MOST_CELLS // rows))
        self._enter(self._times(most))
        self._is_deep = True

    # Licences -----------------------------------------------------------------------------------

    def _begin_licenses(self) -> None:
        names = sorted({name for demand in self._wanted for name, _ in demand.licenses})
        self._license = {name: place for place, name in enumerate(names)}
        snapshot = self._snapshot
        self._profile: Profile | None = None
        if not names:
            return
        free = [snapshot.licenses_free.get(name, 0) for name in names]
        self._profile = Profile(snapshot.now_us, free)
        of_reservations = self._keep_reserved_licenses()
        for job_id, end_us, _, text, *_ in snapshot.running:
            if job_id in of_reservations:
                continue  # back to the reservation, not to everybody
            for name, count in license_counts(text) if text else ():
                if name in self._license and end_us < NO_END_US:
                    at_us = end_us if end_us > snapshot.now_us else snapshot.now_us + SOON_US
                    self._profile.release(at_us, self._license[name], count)

    def _keep_reserved_licenses(self) -> frozenset[int]:
        """Keep licences of reservations from others; return the jobs that hold such."""
        snapshot, profile = self._snapshot, self._profile
        assert profile is not None
        now_us, job_ids = snapshot.now_us, set[int]()
        for item in snapshot.reservations:
            inside = snapshot.licenses_inside.get(item.name, NOTHING_INSIDE)
            job_ids.update(inside.job_ids)
            for name, most in license_counts(item.licenses):
                place = self._license.get(name)
                for begin_us, end_us in item.occurrences() if place is not None else ():
                    assert place is not None
                    if begin_us <= now_us < end_us:
                        held = inside.left.get(name, 0) + inside.taken.get(name, 0)
                        profile.release(end_us, place, held)
                    elif begin_us > now_us:
                        profile.take(begin_us, end_us - begin_us, (place,), (most,))
        return frozenset(job_ids)

    def _license_need(self, demand: Demand) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (
            tuple(self._license[name] for name, _ in demand.licenses),
            tuple(count for _, count in demand.licenses),
        )

    def _take_licenses(self, demand: Demand, start_us: int) -> None:
        if demand.licenses and self._profile is not None:
            self._profile.take(start_us, demand.duration_us, *self._license_need(demand))
            if self._trial is not None:
                self._trial.licenses.append((demand, start_us))

    # Planning -----------------------------------------------------------------------------------

    def find(self, demand: Demand) -> int:
        """Return the earliest start of one more job, or NEVER."""
        self._uneven = []
        self.lies_badly = False
        now_us = self._snapshot.now_us
        if demand.need.sharing in (USER, MCS) and self._join(demand):
            return now_us
        if self._fills_nodes(demand) and self._find_uneven(demand):
            return now_us
        start_us = self._find(demand)
        if start_us == now_us:
            return start_us
        if self._find_uneven(demand):
            return now_us
        if not self._is_deep:
            self._deepen()
            start_us = self._find(demand)
        return start_us

    def _find(self, demand: Demand) -> int:
        best, best_at = NEVER, -1
        kinds = self._kinds_of(demand)
        for at, (kind, variant) in enumerate(kinds):
            start_us = self._find_kind(demand, kind, variant)
            if start_us != NEVER and (best == NEVER or start_us < best):
                best, best_at = start_us, at
        if best_at < 0:
            return NEVER
        kind, variant = kinds[best_at]
        if best_at < len(kinds) - 1:
            # The grid remembers one finding; a second look may only find something earlier.
            best = self._find_kind(demand, kind, variant)
        self._chosen = kind, variant, self._found(demand, variant, best)
        return best

    def _found(self, demand: Demand, variant: Variant, start_us: int) -> list[int]:
        """Return the nodes found; one node that is taken now is one that no block will miss.

        For later starts the first node that fits will do: it is looked for again then.
        """
        found = self._grid.found()
        layout = self._layouts.get(demand.partition.name)
        if layout is None or layout.kind != "block" or variant.nodes > 1:
            return found
        if demand.need.is_choosy or demand.need.sharing == TOPO:
            return found
        if start_us != self._snapshot.now_us:
            return found
        kind = self._closer.get(id(demand))
        if kind is None:
            kind = self._closer[id(demand)] = self._add_kind(demand, variant)
            self._grid.leave_open(kind)
        if self._grid.find(kind) == start_us and self._choose_near(demand, kind, variant, start_us):
            return self._grid.found()
        return found

    def _find_kind(self, demand: Demand, kind: int, variant: Variant) -> int:
        start_us = self._grid.find(kind)
        while start_us != NEVER:
            free_us = self._licenses_free_us(demand, start_us)
            if free_us != start_us:
                # Licences only become scarcer in a pass: there is nothing before that.
                self._grid.skip(kind, NO_END_US if free_us == NEVER else free_us)
            elif self._lies_well(demand, kind, variant, start_us):
                break
            else:
                is_choosy = demand.need.is_choosy or demand.need.sharing == TOPO
                if start_us == self._snapshot.now_us and not is_choosy:
                    self.lies_badly = True
                self._grid.skip(kind, start_us + 1)
            start_us = self._grid.find(kind)
        return start_us

    def _licenses_free_us(self, demand: Demand, start_us: int) -> int:
        """Return when from `start_us` on the licences are free for as long as the job lasts."""
        if not demand.licenses or self._profile is None:
            return start_us
        self._profile.mark(start_us)
        kinds, amounts = self._license_need(demand)
        return self._profile.find(kinds, amounts, demand.duration_us, start_us)

    def take(self, demand: Demand, start_us: int) -> None:
        """Keep room for the job that was found last."""
        number = self._grid.take_found(self._chosen[0])
        self._reserved.append(number)
        if demand.need.sharing == TOPO:
            order, end_us = self.hardware.order, min(NO_END_US, start_us + demand.duration_us)
            node_ids = [order[place] for place in self._grid.placed(number)]
            for node_id in self._company.beside(demand.tenant, node_ids):
                place = self.hardware.position[node_id]
                self._grid.take(place, CPUS, self.hardware.all_cpus(place), start_us, end_us)
        self._take_licenses(demand, start_us)

    def place(self, demand: Demand) -> int:
        """Find the earliest start and keep room there at once, if it is not now.

        A short cut for what most jobs of a long queue are: one variant, one deep grid.
        """
        kind = demand.kind
        if kind < 0:
            start_us = self.find(demand)
            if start_us not in (NEVER, self._snapshot.now_us):
                self.take(demand, start_us)
            kinds = self._kinds_of(demand)
            if (
                self._is_deep
                and len(kinds) == 1
                and not demand.licenses
                and not self._is_open(demand, kinds[0][1])
                and (id(demand) in self._blocked or self._single(demand) is None)
            ):
                demand.kind = kinds[0][0]
            return start_us
        start_us, number = self._grid.place(kind)
        if number >= 0:
            self._reserved.append(number)
        elif start_us != NEVER:
            self._uneven = []
            variant = self._kinds_of(demand)[0][1]
            self._chosen = kind, variant, self._found(demand, variant, start_us)
        return start_us

    def start(self, demand: Demand) -> tuple[NodeAlloc, ...] | None:
        """Return exactly what the job found last gets now, and hold it."""
        if self._uneven:
            need, shares = demand.need, self._uneven
        else:
            _, variant, found = self._chosen
            # Devices that do not go up evenly are dealt to the nodes found, not given to each.
            need = demand.need if variant.need.gres_total else variant.need
            shares = self._filled(demand, variant, found)
        order = self.hardware.order
        nodes = [
            (self._free_node(node_id), share)
            for node_id, share in sorted((order[place], share) for place, share in shares)
        ]
        hidden = self._hide_kept(demand, [node for node, _ in nodes])
        fits = [(node, tasks_that_fit(need, node)) for node, _ in nodes]
        if not need.is_exclusive:  # who has a whole node fills it, as everywhere else
            fits = [
                (node, min(fit, share)) for (node, fit), (_, share) in zip(fits, nodes, strict=True)
            ]
        layout = self._layouts.get(demand.partition.name)
        chosen = share_tasks(need, fits, layout) if all(fit > 0 for _, fit in fits) else None
        allocs = allot(need, chosen) if chosen is not None else None
        for one in hidden:
            one.show()
        if allocs is not None:
            self.hold(demand, allocs)
        return allocs

    def _hide_kept(self, demand: Demand, nodes: list[FreeNode]) -> list[Hidden]:
        """Take out of nodes what reservations keep while a job would run; return it."""
        if not any(closed.parts for closed in self._closed):
            return []
        now_us = self._snapshot.now_us
        end_us = now_us + demand.duration_us
        kept = kept_parts(self._snapshot.reservations, OUTSIDE, now_us, end_us)
        found = [hide(node, WHOLE, kept[node.node_id]) for node in nodes if node.node_id in kept]
        return [hidden for hidden in found if hidden is not None]

    def _free_node(self, node_id: int) -> FreeNode:
        node = self._free.get(node_id)
        if node is None:
            node = self._free[node_id] = free_node(self._snapshot, node_id)
            if self._caps is not None:
                node.partition_cores = self._caps.on(node_id)
        if self._trial is not None and node_id not in self._trial.free:
            self._trial.free[node_id] = replace(
                node,
                gres_busy=dict(node.gres_busy),
                gres_used=dict(node.gres_used),
                partition_cores=dict(node.partition_cores or {}),
            )
        return node

    # Trials: room for several jobs at once, or none at all --------------------------------------

    def find_from(self, demand: Demand, at_us: int) -> int:
        """Return the earliest start not before a moment, or NEVER."""
        self._uneven = []
        self.lies_badly = False
        if not self._is_deep and self._trial is None:
            self._deepen()
        now_us = self._snapshot.now_us
        best, best_at = NEVER, -1
        kinds = self._kinds_of(demand)
        for at, (kind, variant) in enumerate(kinds):
            start_us = self._find_kind_from(demand, kind, variant, at_us)
            if start_us != NEVER and (best == NEVER or start_us < best):
                best, best_at = start_us, at
        if best != now_us and at_us <= now_us:
            joins = demand.need.sharing in (USER, MCS) and self._join(demand)
            if joins or self._find_uneven(demand):
                return now_us
        if best_at < 0:
            return NEVER
        kind, variant = kinds[best_at]
        if best_at < len(kinds) - 1:
            best = self._find_kind_from(demand, kind, variant, best)
        self._chosen = kind, variant, self._found(demand, variant, best)
        return best

    def _find_kind_from(self, demand: Demand, kind: int, variant: Variant, at_us: int) -> int:
        start_us = self._grid.find_from(kind, at_us)
        while start_us != NEVER:
            free_us = self._licenses_free_us(demand, start_us)
            if free_us == NEVER:
                return NEVER
            if free_us != start_us:
                at_us = free_us
            elif self._lies_well(demand, kind, variant, start_us):
                break
            else:
                at_us = start_us + 1
            start_us = self._grid.find_from(kind, at_us)
        return start_us

    def begin_trial(self) -> None:
        """From here on all that is taken or started can be given back."""
        if not self._is_deep:
            self._deepen()
        self._trial = _Trial(
            set(self._blocked), set(self._unjoined), len(self._reserved), self._company.count()
        )
        self._grid.begin_trial()

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""
        self._trial = None
        self._grid.keep()

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        trial, self._trial = self._trial, None
        assert trial is not None
        self._grid.roll_back()
        self._blocked = trial.blocked
        self._unjoined = trial.unjoined
        del self._reserved[trial.reserved :]
        for alloc in self._company.cut(trial.newcomers):
            self._cpus_free[alloc.node_id] += alloc.cpus
        self._free.update(trial.free)
        for demand, start_us in reversed(trial.licenses):
            kinds, amounts = self._license_need(demand)
            less = tuple(-amount for amount in amounts)
            assert self._profile is not None
            self._profile.take(start_us, demand.duration_us, kinds, less)

    def give(self, demand: Demand, allocs: tuple[NodeAlloc, ...]) -> None:
        """Take from now on what a job gets that was not looked for here."""
        for alloc in allocs:
            node = self._free_node(alloc.node_id)
            node.cores &= ~int.from_bytes(alloc.cores, "little")
            node.mem_mib -= alloc.mem_mib
            node.is_idle = False
            for held in alloc.gres:
                key = f"{held.name}:{held.type}"
                mask = int.from_bytes(held.indexes, "little")
                node.gres_busy[key] = node.gres_busy.get(key, 0) | mask
                node.gres_used[key] = node.gres_used.get(key, 0) + held.count
        self.hold(demand, allocs)

    def hold(self, demand: Demand, allocs: tuple[NodeAlloc, ...]) -> None:
        """Take from now on what a job gets that starts, or that preempts others for it."""
        now_us = self._snapshot.now_us
        end_us = min(NO_END_US, now_us + demand.duration_us)
        tenant = demand.tenant._replace(partition=demand.partition.name)
        flat = self._flat(allocs, False, tenant)
        for at in range(0, len(flat), 3):
            place, resource, amount = flat[at : at + 3]
            self._grid.take(place, resource, amount, now_us, end_us)
        for alloc in allocs:
            self._cpus_free[alloc.node_id] -= alloc.cpus
        self._company.add(tenant, allocs, end_us)
        if tenant.sharing:
            self._unjoined.clear()  # there is somebody to join now
        if not self._is_deep:
            self._started.append((flat, end_us))
        self._take_licenses(demand, now_us)

    # With whom nodes are shared -----------------------------------------------------------------

    def _join(self, demand: Demand) -> bool:
        """Try nodes where only the same owner's jobs are, then those with empty ones besides."""
        if demand.licenses or id(demand) in self._unjoined:
            return False
        who, need, now_us = self._company.who(), demand.need, self._snapshot.now_us
        end_us = min(NO_END_US, now_us + demand.duration_us)
        own: list[tuple[int, int]] = []
        for node_id in who.nodes():
            if not demand.mask[node_id] or not who.is_open(node_id, demand.tenant):
                continue
            fit = tasks_that_fit(need, self._free_node(node_id))
            place = self.hardware.position[node_id]
            if fit > 0 and self._company.is_ours(place, now_us, end_us, who.on(node_id)):
                own.append((place, min(fit, need.tasks)))
        if own:
            picker: Picker = self._picker(demand) or self._plain
            most = need.nodes_max if need.is_ranged else max(need.nodes_min, need.tasks)
            for fits in (own, own + self._empty(demand)):
                counts = node_counts(need, need.nodes_min, min(most, need.nodes_max, len(fits)))
                found = choose_counted(picker, fits, need.tasks, counts, place_of(need, picker))
                if found is not None:
                    self._uneven = found
                    return True
        self._unjoined.add(id(demand))
        return False

    def _empty(self, demand: Demand) -> list[tuple[int, int]]:
        """Return the nodes that have nobody now and were promised to nobody."""
        variant = self.hardware.variant(demand, demand.need, 1, 1)
        if variant is None:
            return []
        kind = self._add_kind(demand, variant)
        self._grid.leave_open(kind)
        if self._grid.find(kind) != self._snapshot.now_us:
            return []
        order, need = self.hardware.order, demand.need
        found = []
        for place in bits(int.from_bytes(self._grid.fitting(), "little")):
            fit = tasks_that_fit(need, self._free_node(order[place]))
            if fit > 0:
                found.append((place, min(fit, need.tasks)))
        return found

    def _fills_nodes(self, demand: Demand) -> bool:
        """Return whether to look first at what each node can hold now: the last may get fewer."""
        if demand.need.is_ranged:
            return True
        kinds = self._kinds_of(demand)
        return bool(kinds) and kinds[0][1].nodes > max(1, demand.need.nodes_min)

    def _find_uneven(self, demand: Demand) -> bool:
        """Try to spread the tasks unevenly over what is free now; note the shares if it works."""
        if id(demand) in self._blocked or demand.licenses:
            return False
        single = self._single(demand)
        if single is None:
            return False
        kind, each = single
        need = demand.need
        most = need.tasks_per_node or need.tasks
        if need.is_choosy or need.is_ranged:
            return self._find_counted(demand, self._grid.capacity(kind, each, most, 1 << 40))
        layout = self._layouts.get(demand.partition.name)
        if layout is not None:
            every = self._grid.capacity(kind, each, most, 1 << 40)
            nodes_max = min(need.nodes_max, _MOST_UNEVEN)
            near = choose_shares(layout, every, need.tasks, nodes_max, place_of(need, layout))
            if near is None:
                self._blocked.add(id(demand))
            self._uneven = near or []
            return near is not None
        enough = need.tasks if need.nodes_min == 1 else 1 << 40
        fits = self._grid.capacity(kind, each, most, enough)
        if len(fits) > need.nodes_max or need.nodes_min > 1:
            every = self._grid.capacity(kind, each, most, 1 << 40)
            fits = sorted(every, key=lambda item: -item[1])
        shares: list[tuple[int, int]] = []
        total = 0
        for place, tasks in fits[: min(need.nodes_max, _MOST_UNEVEN)]:
            if total >= need.tasks and len(shares) >= need.nodes_min:
                break
            shares.append((place, tasks))
            total += tasks
        if total >= need.tasks and len(shares) >= need.nodes_min:
            self._uneven = shares
            return True
        self._blocked.add(id(demand))
        return False

    def _find_counted(self, demand: Demand, fits: list[tuple[int, int]]) -> bool:
        """Try the node counts a job would like, one after another, on what is free now."""
        need = demand.need
        picker: Picker = self._picker(demand) or self._plain
        if isinstance(picker, Chooser) and need.least_loaded:
            picker.load = self._loads()
        most = min(need.nodes_max, _MOST_UNEVEN, len(fits))
        counts = node_counts(need, need.nodes_min, most)
        place = place_of(need, picker)
        found = choose_counted(picker, fits, need.tasks, counts, place)
        if found is None:
            self._blocked.add(id(demand))
        self._uneven = found or []
        return found is not None

    def _single(self, demand: Demand) -> tuple[int, list[list[int]]] | None:
        """Return the kind of one task on a node and what each further task takes there.

        None for jobs whose tasks cannot be spread unevenly.
        """
        known = self._singles.get(id(demand), _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        self._singles[id(demand)] = found = self._add_single(demand)
        return found

    def _add_single(self, demand: Demand) -> tuple[int, list[list[int]]] | None:
        need, hardware = demand.need, self.hardware
        if (
            (need.tasks <= need.nodes_min and not need.is_ranged)
            or need.fixed_tasks_per_node
            or need.is_exclusive
            or need.sharing
            or need.gres_total
            or need.required_nodes
        ):
            return None
        single = hardware.variant(demand, need, 1, 1)
        if single is None:
            return None
        each = []
        for number, row in enumerate(single.amounts):
            more = hardware.node_amounts(need, number, 2)
            # A node that holds one task at most gets no second one.
            steps = [
                (more.get(resource, 0) - amount) if more is not None else _NO_MORE
                for resource, amount in zip(single.resources, row, strict=True)
            ]
            # With several threads to a core a second task may cost nothing more: count it whole.
            cpus = single.resources.index(CPUS)
            steps[cpus] = max(steps[cpus], need.cpus_per_task)
            each.append(steps)
        rows = [list(row) for row in single.amounts]
        shape = self._grid.add_shape(single.resources, [], rows, len(single.resources))
        return self._grid.add_kind(
            shape, self._mask_number(single.mask), 1, demand.duration_us
        ), each

    def _filled(self, demand: Demand, variant: Variant, found: list[int]) -> list[tuple[int, int]]:
        """Return the tasks each node found can hold: the first ones are filled."""
        even = variant.tasks_per_node
        if even > 1 and (single := self._single(demand)) is not None:
            kind, each = single
            most = demand.need.tasks_per_node or demand.need.tasks
            held = self._grid.tasks_on(kind, found, each, most)
            return [(place, max(even, fit)) for place, fit in zip(found, held, strict=True)]
        return [(place, even) for place in found]

    def planned_nodes(self, reservations: Promises) -> PlannedNodes:
        """Return the nodes of every reservation, by job id; of an array's first."""
        jobs, numbers = reservations.job_ids[:], self._reserved[:]
        return PlacedNodes(jobs, numbers, self._grid.all_placed(), self.hardware.order)


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
