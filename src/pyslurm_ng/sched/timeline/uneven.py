"""Room for jobs whose tasks need not be dealt out evenly: what each node can hold now decides.

The kernel finds nodes that all have enough for an equal share. Here are the others: tasks fill
nodes as far as these go, and a range of nodes is tried from its preferred end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pyslurm_ng._select import NEVER, Grid
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.node_choice import (
    Chooser,
    choose_counted,
    node_counts,
)
from pyslurm_ng.sched.cons_tres.select import wanted_nodes
from pyslurm_ng.sched.cons_tres.topology import choose_shares
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.request.sharing import TOPO
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.shapes import Shares, Variant
from pyslurm_ng.sched.timeline.task_kinds import ALL, Single, TaskKinds

_MOST_NODES = 4096  # to try in an uneven placement
_MOST_LOOKS = 10_000_000  # at a node in a slot, for spreads beyond now


def _to_spread(need: Need) -> int:
    """Return how many tasks are spread, or GPUs of a job that asks for these in all."""
    return need.gres_total[0][2] if need.gres_total else need.tasks


class Spread(NamedTuple):
    """The tasks of each position, none if there is too little room.

    Where GPUs of the whole job are spread each node has one task; `most_gpus` says, by position,
    how many it can give.
    """

    shares: Shares
    most_gpus: dict[int, int]


_NO_SPREAD = Spread([], {})


class Hopes(NamedTuple):
    """For how many tasks of a demand each slot had room; there is none before the first."""

    tasks: array[int]
    first: int

    def without(self, slots: Sequence[int], first: int) -> Hopes:
        """Return what is left when there is too little room in some slots after all."""
        tasks = self.tasks[:] if slots else self.tasks
        for slot in slots:
            tasks[slot] = 0
        return Hopes(tasks, max(self.first, first))


class Uneven:
    """The search of one pass; what has failed once fails until the end of it."""

    def __init__(self, tables: PassTables) -> None:
        self._hardware = tables.hardware
        self._nearness = tables.nearness
        self._neighbours = tables.neighbours
        self._timeline = tables.timeline
        self._free = tables.free
        self._blocked: set[int] = set()
        self._hopes: dict[int, Hopes] = {}  # by demand
        self._budget = _MOST_LOOKS
        self._before: tuple[set[int], dict[int, Hopes]] | None = None  # the trial
        self._grid: Grid | None = None
        self._kinds = TaskKinds(tables)

    def goes_first(self, demand: Demand) -> bool:
        """Return whether to look first at what each node can hold now.

        The last node may get fewer tasks than the others. Where nodes differ in weight even a job
        that fits one of the heavier ones takes what little the lighter ones have, as in Slurm.
        """
        need = demand.need
        if need.is_ranged:
            return True
        if need.nodes_max > need.nodes_min and len(self._nearness.plain.groups) > 1:
            return True
        kinds = self._timeline.kinds.of(demand)
        return bool(kinds) and kinds[0][1].nodes > max(1, need.nodes_min)

    def is_hopeless(self, demand: Demand) -> bool:
        """Return whether no uneven spread will be found for a demand in the rest of the pass."""
        is_blocked = self._budget <= 0 and id(demand) in self._blocked
        return is_blocked or self._single(demand) is None

    def find(self, demand: Demand) -> Spread:
        """Return an uneven spread of the tasks over what is free now, or none.

        Devices of the whole job are spread in their place.
        """
        if id(demand) in self._blocked:
            return _NO_SPREAD
        spread = self._find_at(demand, 0)
        if not spread.shares:
            self._blocked.add(id(demand))
        return spread

    def find_later(self, demand: Demand, first_us: int, before_us: int) -> tuple[int, Spread]:
        """Return the first start in a time with an uneven spread, or NEVER.

        It does not search now, and no more than the rest of the pass's budget allows.
        """
        single, times_us = self._single(demand), self._timeline.times_us
        last = len(times_us) if before_us == NEVER else bisect_left(times_us, before_us)
        first = max(1, bisect_left(times_us, first_us))
        if single is None or first >= last or self._budget <= 0:
            return NEVER, _NO_SPREAD
        hopes = self._hopes_of(demand, single, last)
        tasks, slot, start_us = _to_spread(demand.need), max(first, hopes.first), NEVER
        spread = _NO_SPREAD
        failed = []
        while slot < last and self._budget > 0:
            if hopes.tasks[slot] >= tasks:
                self._budget -= len(self._hardware.order)
                spread = self._find_at(demand, slot)
                if spread.shares:
                    start_us = times_us[slot]
                    break
                failed.append(slot)
            slot += 1
        # Room only shrinks in a pass, but a trial may give back what it took.
        if failed or (first <= hopes.first < slot):
            self._hopes[id(demand)] = hopes.without(failed, slot if first <= hopes.first else 1)
        return start_us, spread

    def _hopes_of(self, demand: Demand, single: Single, last: int) -> Hopes:
        """Return for how many tasks there may be room in each slot, of those before `last`."""
        hopes = self._hopes.get(id(demand))
        if hopes is None or len(hopes.tasks) < last:
            last = min(2 * last, len(self._timeline.times_us))
            self._budget -= last * len(self._hardware.order)
            kind, amounts, _ = single
            most = demand.need.tasks_per_node or _to_spread(demand.need)
            tasks = self._timeline.grid.capacities(kind, amounts, most, last - 1)
            hopes = self._hopes[id(demand)] = Hopes(tasks, 1)
        return hopes

    def _find_at(self, demand: Demand, slot: int) -> Spread:
        """Return an uneven spread of the tasks over what is free from a slot on, or none."""
        single = self._single(demand)
        if single is None:
            return _NO_SPREAD
        need = demand.need
        if need.gres_total:
            need = replace(need, tasks=_to_spread(need), tasks_per_node=0)
        shares = self._spread(demand, need, single, slot)
        if not demand.need.gres_total:
            return Spread(shares, {})
        return Spread([(position, 1) for position, _ in shares], dict(shares))

    def _spread(self, demand: Demand, need: Need, single: Single, slot: int) -> Shares:
        named = {self._hardware.position.get(node_id, -1) for node_id in need.required_nodes}
        layout = self._nearness.layout(demand)
        # The kernel does not know how many tasks a node holds that is taken whole.
        is_counted = not (need.is_exclusive or need.sharing or need.is_choosy or need.is_ranged)
        is_counted = is_counted and not self._looks_inside(need, slot)
        stops_early = is_counted and layout is None and need.nodes_min == 1 and not named
        fits = self._capacity(demand, need, single, slot, need.tasks if stops_early else ALL)
        if named - {position for position, _ in fits}:
            return []
        if need.is_choosy or need.is_ranged:
            return self._counted(demand, fits, slot)
        if layout is not None:
            nodes_max = min(need.nodes_max, _MOST_NODES)
            return (
                choose_shares(layout, fits, need.tasks, nodes_max, wanted_nodes(need, layout)) or []
            )
        if len(fits) > need.nodes_max or need.nodes_min > 1 or named:
            if stops_early:
                fits = self._capacity(demand, need, single, slot)
            fits = sorted(fits, key=lambda share: (share[0] not in named, -share[1]))
        shares: Shares = []
        total = 0
        for position, tasks in fits[: min(need.nodes_max, _MOST_NODES)]:
            if total >= need.tasks and len(shares) >= max(need.nodes_min, len(named)):
                break
            shares.append((position, tasks))
            total += tasks
        return shares if total >= need.tasks and len(shares) >= need.nodes_min else []

    def _capacity(
        self, demand: Demand, need: Need, single: Single, slot: int, enough: int = ALL
    ) -> Shares:
        """Return the nodes that can hold some tasks, with how many; see `Grid.capacity`."""
        kind, amounts, most = single
        kind_of = self._hardware.kind_of
        task_count = need.tasks_per_node or need.tasks
        capacity = self._timeline.grid.capacity(kind, amounts, task_count, enough, slot)
        if need.sharing == TOPO:
            start_us = self._timeline.times_us[slot]
            fits = sum(1 << position for position, _ in capacity)
            free = self._neighbours.in_free_units(fits, demand, start_us)
            capacity = [pair for pair in capacity if free >> pair[0] & 1]
        capacity = [(position, min(tasks, most[kind_of[position]])) for position, tasks in capacity]
        return (
            self._inside(demand, need, capacity, slot)
            if self._looks_inside(need, slot)
            else capacity
        )

    def _looks_inside(self, need: Need, slot: int) -> bool:
        """Return whether it counts, beyond now, which cores and GPUs nodes have left."""
        return slot > 0 and self._nearness.looks_into(need) and not need.gres_total

    def _inside(self, demand: Demand, need: Need, fits: Shares, slot: int) -> Shares:
        """Return how many tasks nodes can hold beside the very cores and GPUs that others have."""
        start_us, node_at = self._timeline.times_us[slot], self._timeline.bookings.node_at
        end_us = demand.end_us(start_us)
        shares = (
            (position, min(tasks, tasks_that_fit(need, node_at(position, start_us, end_us))))
            for position, tasks in fits
        )
        return [(position, tasks) for position, tasks in shares if tasks]

    def _counted(self, demand: Demand, fits: Shares, slot: int) -> Shares:
        """Try the node counts a job would like, one after another, on what is free."""
        need = demand.need
        picker = self._nearness.picker(demand)
        if isinstance(picker, Chooser) and need.least_loaded:
            picker.load = self._free.loads() if not slot else ()
        most = min(need.nodes_max, _MOST_NODES, len(fits))
        counts = node_counts(need, need.nodes_min, most, self._nearness.layout(demand))
        return choose_counted(picker, fits, need.tasks, counts, wanted_nodes(need, picker)) or []

    def _single(self, demand: Demand) -> Single | None:
        """Return what one task and each further one takes; see `TaskKinds`."""
        if self._grid is not self._timeline.grid:
            self._grid, self._hopes = self._timeline.grid, {}
        return self._kinds.of(demand)

    def filled(
        self, demand: Demand, variant: Variant, positions: Sequence[int], start_us: int
    ) -> Shares:
        """Return the tasks each node found can hold then: the first ones are filled."""
        even = variant.tasks_per_node
        if even > 1 and (single := self._single(demand)) is not None:
            kind, amounts, most = single
            tasks = demand.need.tasks_per_node or demand.need.tasks
            slot = bisect_left(self._timeline.times_us, start_us)
            tasks_on = self._timeline.grid.tasks_on(kind, positions, amounts, tasks, slot)
            kind_of = self._hardware.kind_of
            return [
                (position, max(even, min(fit, most[kind_of[position]])))
                for position, fit in zip(positions, tasks_on, strict=True)
            ]
        return [(position, even) for position in positions]

    # Trials -------------------------------------------------------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is found out can be forgotten."""
        self._before = set(self._blocked), dict(self._hopes)

    def keep(self) -> None:
        """End the trial."""
        self._before = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        assert self._before is not None
        self._blocked, self._hopes = self._before
        self._before = None
