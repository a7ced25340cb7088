"""Which of the nodes that fit a demand's jobs get, judged by where they lie and by what was asked.

The kernel knows one tree of nodes of equal weight; all other criteria are handled here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.model.topology import topology_of
from pyslurm_ng.sched.cons_tres.layouts import layouts_of
from pyslurm_ng.sched.cons_tres.node_choice import Chooser, Picker, Plain, Ways, ways_of
from pyslurm_ng.sched.cons_tres.select import wanted_nodes
from pyslurm_ng.sched.cons_tres.topology import (
    Layout,
    Span,
    WantedNodes,
    unit_numbers,
    weight_groups,
)
from pyslurm_ng.sched.cons_tres.tree_layout import TreeLayout
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.features import Way
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.request.sharing import TOPO
from pyslurm_ng.sched.timeline.shapes import Hardware

_MOST_UNITS = 16  # to try for a job that cannot have all nodes in use


def hardware_of(snapshot: Snapshot) -> Hardware:
    """Return the nodes in the order in which jobs should take them."""
    default = topology_of(snapshot.topologies, None)
    return Hardware(snapshot, unit_numbers(default, snapshot.specs))


class Nearness:
    """Where the nodes of one state of the cluster lie, and what chooses among them."""

    def __init__(self, snapshot: Snapshot, hardware: Hardware) -> None:
        topologies, partitions = snapshot.topologies, snapshot.partitions
        weights = [snapshot.weights[node_id] for node_id in hardware.order]
        self.plain = Plain(hardware.position, weight_groups(weights))
        self.tree: TreeLayout | None = None  # for the kernel
        self._hardware = hardware
        self._layouts = layouts_of(topologies, partitions.values(), hardware.position, weights)
        layouts = {id(layout): layout for layout in self._layouts.values()}
        weigh_alike = len(set(weights)) <= 1
        if weigh_alike and len(layouts) == 1 and len(self._layouts) == len(partitions):
            layout = next(iter(layouts.values()))
            self.tree = layout if isinstance(layout, TreeLayout) else None
        self._ways: dict[tuple[Way, ...], list[Ways]] = {}
        self._busy = 0
        self._packs_serial = False
        self._choosers: dict[int, Chooser] = {}
        self.looks_inside = True  # for all jobs that care, not only for parts of GPUs

    def begin(self, snapshot: Snapshot, policy: Policy) -> None:
        """Forget the last pass."""
        self._snapshot = snapshot
        self.looks_inside = True
        self._packs_serial = policy.packs_serial
        self._plans_on_busy = policy.plans_on_busy_nodes
        if self._plans_on_busy:
            order, in_use = self._hardware.order, snapshot.in_use
            self._busy = sum(1 << index for index, node_id in enumerate(order) if in_use[node_id])
        self._choosers = {}

    def layout(self, demand: Demand) -> Layout | None:
        """Return the topology of a demand's partition, if it has one."""
        return self._layouts.get(demand.partition.name)

    def picker(self, demand: Demand) -> Picker:
        """Return what chooses nodes for a demand."""
        return self._chooser(demand) or self.layout(demand) or self.plain

    def _chooser(self, demand: Demand) -> Chooser | None:
        """Return what chooses the nodes of a demand for which it matters which of them it gets."""
        need = demand.need
        if not need.is_choosy:
            return None
        chooser = self._choosers.get(id(demand))
        if chooser is None:
            order, snapshot = self._hardware.order, self._snapshot
            ways = self._ways.get(need.features)
            if ways is None:
                features = [snapshot.features[node_id] for node_id in order]
                ways = self._ways[need.features] = ways_of(need, features)
            base = self.layout(demand) or self.plain
            chooser = Chooser(need, base, order, ways, self.plain.groups)
            self._choosers[id(demand)] = chooser
        return chooser

    def is_open(self, demand: Demand, nodes: int) -> bool:
        """Return whether where so many nodes lie is judged here and not in the kernel."""
        need = demand.need
        if self.is_picky(demand) or self._plans_on_busy or self._goes_last(demand):
            return True
        layout = self.layout(demand)
        if layout is None or (nodes == 1 and not layout.is_rigid):
            return False
        return layout is not self.tree or bool(need.switches or need.required_nodes)

    def pick(
        self,
        demand: Demand,
        fits: int,
        nodes: int,
        loads: Callable[[], Sequence[float]],
        *,
        is_later: bool,
    ) -> int | None:
        """Return so many nodes out of those that fit, None if no choice will do.

        Args:
            loads: how busy each position is at the time; nothing for a time to come.
            is_later: the job does not start now, room is kept for it.
        """
        if self._goes_last(demand):
            lightest = next(
                (in_group for group in self.plain.groups if (in_group := fits & group)), 0
            )
            return 1 << lightest.bit_length() - 1 if lightest else None
        picker = self.picker(demand)
        if demand.need.least_loaded and isinstance(picker, Chooser):
            picker.load = loads()
        terms = wanted_nodes(demand.need, picker)._replace(nodes=nodes)
        if is_later and self._plans_on_busy:
            layout = self.layout(demand)
            units = layout.units if layout is not None else ()
            chosen = _busy_first(picker, fits, self._busy, terms, units)
            if chosen is not None:
                return chosen
        return picker.pick(fits, terms)

    def is_picky(self, demand: Demand) -> bool:
        """Return whether it matters which of the nodes that fit it gets, apart from where they lie.

        Parts of GPUs are counted over all GPUs of a node, but are given of one; cores over all
        sockets.
        """
        need = demand.need
        return need.is_choosy or need.sharing == TOPO or self.looks_into(need)

    def looks_into(self, need: Need) -> bool:
        """Return whether the cores and GPUs inside of nodes are looked at for a job."""
        return need.has_parts or (self.looks_inside and need.minds_places)

    def _goes_last(self, demand: Demand) -> bool:
        """Return whether a job is to have the last node that fits: those of one CPU, if any."""
        need = demand.need
        is_serial = self._packs_serial and need.tasks * need.cpus_per_task == 1
        if not is_serial or need.nodes_max > 1 or self.is_picky(demand):
            return False
        layout = self.layout(demand)
        return layout is None or not layout.is_rigid


def _busy_first(
    picker: Picker, fits: int, busy: int, terms: WantedNodes, units: Sequence[Span]
) -> int | None:
    """Return as many busy nodes as the job can use and others only where these are not enough.

    Where the network does not let it have all of them, it gets those of the unit with the most.
    """
    candidates = fits & (busy | terms.required)
    if candidates.bit_count() >= terms.nodes:
        chosen = picker.pick(candidates, terms)
    else:
        chosen = picker.pick(fits, terms._replace(required=candidates))
    if chosen is not None:
        return chosen
    parts = sorted(filter(None, (unit.part(candidates) for unit in units)), key=_size, reverse=True)
    for part in parts[:_MOST_UNITS]:
        chosen = picker.pick(fits, terms._replace(required=part | terms.required))
        if chosen is not None:
            return chosen
    return None


def _size(nodes: int) -> int:
    return nodes.bit_count()
