"""Room for jobs whose tasks need not be dealt out evenly: what each node can hold now decides.

The kernel finds nodes that all have enough for an equal share. Here are the others: tasks fill
nodes as far as these go, a range of nodes is tried from its preferred end, and jobs that share
nodes with their own only are put beside these first.
"""

from __future__ import annotations

from dataclasses import replace

from pyslurm_ng._select import Grid
from pyslurm_ng.sched.cons_tres.choosers import Chooser, choose_counted, node_counts
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import empty_node
from pyslurm_ng.sched.cons_tres.select import place_of
from pyslurm_ng.sched.cons_tres.topology import bits, choose_shares
from pyslurm_ng.sched.request.demand import Demand
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.snapshot import NO_END_US
from pyslurm_ng.sched.timeline.company import Company
from pyslurm_ng.sched.timeline.nearness import Nearness
from pyslurm_ng.sched.timeline.node_timeline import Timeline
from pyslurm_ng.sched.timeline.nodes_now import NodesNow
from pyslurm_ng.sched.timeline.shapes import Hardware, Variant

_MOST_NODES = 4096  # to try in an uneven placement
_NO_MORE = 1 << 30
_ALL = 1 << 40  # tasks: look at every node

Shares = list[tuple[int, int]]  # (position, tasks)
# Kind of one task on a node, what the first and each further task takes, most tasks by node kind.
Single = tuple[int, list[list[tuple[int, int]]], list[int]]


class Uneven:
    """The search of one pass; what has failed once fails until the end of it."""

    def __init__(
        self,
        hardware: Hardware,
        nearness: Nearness,
        company: Company,
        timeline: Timeline,
        free: NodesNow,
        now_us: int,
    ) -> None:
        self._hardware = hardware
        self._nearness = nearness
        self._company = company
        self._timeline = timeline
        self._free = free
        self._now_us = now_us
        self._blocked: set[int] = set()
        self._unjoined: set[int] = set()
        self._before: tuple[set[int], set[int]] | None = None  # the trial
        self._grid: Grid | None = None
        self._singles: dict[int, Single | None] = {}
        self.most_gpus: dict[int, int] = {}  # by position: of a spread of GPUs, if it was one

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
        kinds = self._timeline.kinds(demand)
        return bool(kinds) and kinds[0][1].nodes > max(1, need.nodes_min)

    def is_hopeless(self, demand: Demand) -> bool:
        """Return whether no uneven spread can be found for a demand in the rest of the pass."""
        return id(demand) in self._blocked or self._single(demand) is None

    def find(self, demand: Demand) -> Shares:
        """Return an uneven spread of the tasks over what is free now, or nothing.

        Devices of the whole job are spread in their place; `most_gpus` says how far.
        """
        self.most_gpus = {}
        if id(demand) in self._blocked or demand.licenses:
            return []
        single = self._single(demand)
        if single is None:
            return []
        need = demand.need
        if need.gres_total:
            need = replace(need, tasks=need.gres_total[0][2], tasks_per_node=0)
        shares = self._spread(demand, need, single)
        if not shares:
            self._blocked.add(id(demand))
        if not demand.need.gres_total:
            return shares
        self.most_gpus = dict(shares)
        return [(place, 1) for place, _ in shares]

    def _spread(self, demand: Demand, need: Need, single: Single) -> Shares:
        if need.is_choosy or need.is_ranged:
            return self._counted(demand, self._capacity(need, single))
        layout = self._nearness.layout(demand)
        if layout is not None:
            every = self._capacity(need, single)
            nodes_max = min(need.nodes_max, _MOST_NODES)
            return choose_shares(layout, every, need.tasks, nodes_max, place_of(need, layout)) or []
        named = {self._hardware.position[node_id] for node_id in need.required_nodes}
        fits = self._capacity(
            need, single, need.tasks if need.nodes_min == 1 and not named else _ALL
        )
        if len(fits) > need.nodes_max or need.nodes_min > 1 or named:
            every = self._capacity(need, single)
            fits = sorted(every, key=lambda item: (item[0] not in named, -item[1]))
        if named - {place for place, _ in fits[: len(named)]}:
            return []
        shares: Shares = []
        total = 0
        for place, tasks in fits[: min(need.nodes_max, _MOST_NODES)]:
            if total >= need.tasks and len(shares) >= max(need.nodes_min, len(named)):
                break
            shares.append((place, tasks))
            total += tasks
        return shares if total >= need.tasks and len(shares) >= need.nodes_min else []

    def _capacity(self, need: Need, single: Single, enough: int = _ALL) -> Shares:
        """Return the nodes that can hold some tasks now, with how many; see `Grid.capacity`."""
        kind, amounts, most = single
        kind_of = self._hardware.kind_of
        wanted = need.tasks_per_node or need.tasks
        found = self._timeline.grid.capacity(kind, amounts, wanted, enough)
        return [(place, min(tasks, most[kind_of[place]])) for place, tasks in found]

    def _counted(self, demand: Demand, fits: Shares) -> Shares:
        """Try the node counts a job would like, one after another, on what is free now."""
        need = demand.need
        picker = self._nearness.picker(demand)
        if isinstance(picker, Chooser) and need.least_loaded:
            picker.load = self._free.loads()
        most = min(need.nodes_max, _MOST_NODES, len(fits))
        counts = node_counts(need, need.nodes_min, most)
        return choose_counted(picker, fits, need.tasks, counts, place_of(need, picker)) or []

    # One task or GPU, and more on the same node -------------------------------------------------

    def _single(self, demand: Demand) -> Single | None:
        """Return the kind of one task on a node and what each further task takes there.

        None for jobs whose tasks cannot be spread unevenly. One task with each GPU for a job that
        asks for GPUs in all.
        """
        if self._grid is not self._timeline.grid:
            self._grid, self._singles = self._timeline.grid, {}
        if id(demand) not in self._singles:
            of_gpus = bool(demand.need.gres_total)
            found = self._add_gpu(demand) if of_gpus else self._add_single(demand)
            self._singles[id(demand)] = found
        return self._singles[id(demand)]

    def _add_single(self, demand: Demand) -> Single | None:
        need, hardware = demand.need, self._hardware
        if (
            (need.tasks <= need.nodes_min and not need.is_ranged)
            or need.fixed_tasks_per_node
            or need.is_exclusive
            or need.sharing
            or need.gres_total
            or need.has_parts
        ):
            return None
        # Those required are chosen first in the end; others may be needed beside them.
        need = replace(need, required_nodes=frozenset())
        single = hardware.variant(demand, need, 1, 1)
        if single is None:
            return None
        amounts = [
            self._task_amounts(need, single, number) for number in range(len(hardware.kinds))
        ]
        most = [tasks_that_fit(need, empty_node(0, spec)) for spec in hardware.kinds]
        return self._timeline.add_exact_kind(demand, single), amounts, most

    def _task_amounts(self, need: Need, single: Variant, number: int) -> list[tuple[int, int]]:
        """Return what the first and each further task takes of a node of a kind."""
        more = self._hardware.node_amounts(need, number, 2)
        firsts = zip(single.resources, single.amounts[number], strict=True)
        if more is None:  # a node that holds one task at most gets no second one
            return [(first, _NO_MORE) for _, first in firsts]
        counts_cpus = self._hardware.counts_cpus(need)
        found = []
        for resource, first in firsts:
            each = more.get(resource, 0) - first
            if resource in counts_cpus and each < need.cpus_per_task:
                # Tasks share cores of several threads, or what a node gives at least.
                first = each = need.cpus_per_task
            found.append((first, each))
        return found

    def _add_gpu(self, demand: Demand) -> Single | None:
        need, hardware = demand.need, self._hardware
        if (
            need.tasks > need.nodes_min
            or need.fixed_tasks_per_node
            or need.is_exclusive
            or need.is_ranged
            or need.is_choosy
            or need.sharing
            or need.required_nodes
            or len(need.gres_total) > 1
        ):
            return None
        ((name, kind, _),) = need.gres_total

        def with_some(count: int) -> Need:
            wanted = (*need.gres_per_node, (name, kind, count))
            return replace(need, gres_per_node=wanted, gres_total=())

        single = hardware.variant(demand, with_some(1), 1, 1)
        if single is None:
            return None
        amounts = []
        for number, row in enumerate(single.amounts):
            more = hardware.node_amounts(with_some(2), number, 1)
            steps = [_NO_MORE] * len(row)
            if more is not None:
                pairs = zip(single.resources, row, strict=True)
                steps = [more.get(resource, 0) - amount for resource, amount in pairs]
            amounts.append(list(zip(row, steps, strict=True)))
        return self._timeline.add_exact_kind(demand, single), amounts, [_ALL] * len(amounts)

    def filled(self, demand: Demand, variant: Variant, found: list[int]) -> Shares:
        """Return the tasks each node found can hold: the first ones are filled."""
        even = variant.tasks_per_node
        if even > 1 and (single := self._single(demand)) is not None:
            kind, amounts, most = single
            wanted = demand.need.tasks_per_node or demand.need.tasks
            held = self._timeline.grid.tasks_on(kind, found, amounts, wanted)
            kind_of = self._hardware.kind_of
            return [
                (place, max(even, min(fit, most[kind_of[place]])))
                for place, fit in zip(found, held, strict=True)
            ]
        return [(place, even) for place in found]

    # Beside jobs of the same owner --------------------------------------------------------------

    def join(self, demand: Demand) -> Shares:
        """Return nodes where only the same owner's jobs are, with empty ones besides if needed."""
        self.most_gpus = {}
        if demand.licenses or id(demand) in self._unjoined:
            return []
        who, need = self._company.who(), demand.need
        end_us = min(NO_END_US, self._now_us + demand.duration_us)
        own: Shares = []
        for node_id in who.nodes():
            if not demand.mask[node_id] or not who.is_open(node_id, demand.tenant):
                continue
            fit = tasks_that_fit(need, self._free.node(node_id))
            place = self._hardware.position[node_id]
            if fit > 0 and self._company.is_ours(place, self._now_us, end_us, who.on(node_id)):
                own.append((place, min(fit, need.tasks)))
        if own:
            picker = self._nearness.picker(demand)
            most = need.nodes_max if need.is_ranged else max(need.nodes_min, need.tasks)
            for fits in (own, own + self._empty(demand)):
                counts = node_counts(need, need.nodes_min, min(most, need.nodes_max, len(fits)))
                found = choose_counted(picker, fits, need.tasks, counts, place_of(need, picker))
                if found is not None:
                    return found
        self._unjoined.add(id(demand))
        return []

    def _empty(self, demand: Demand) -> Shares:
        """Return the nodes that have nobody now and were promised to nobody."""
        variant = self._hardware.variant(demand, demand.need, 1, 1)
        if variant is None:
            return []
        grid = self._timeline.grid
        if grid.find(self._timeline.open_kind(demand, variant)) != self._now_us:
            return []
        order, need = self._hardware.order, demand.need
        found = []
        for place in bits(int.from_bytes(grid.fitting(), "little")):
            fit = tasks_that_fit(need, self._free.node(order[place]))
            if fit > 0:
                found.append((place, min(fit, need.tasks)))
        return found

    def took(self, demand: Demand) -> None:
        """Note that a job starts: there may be somebody to join now."""
        if demand.tenant.sharing:
            self._unjoined.clear()

    def begin_trial(self) -> None:
        """From here on all that is found out can be forgotten."""
        self._before = set(self._blocked), set(self._unjoined)

    def keep(self) -> None:
        """End the trial."""
        self._before = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        assert self._before is not None
        self._blocked, self._unjoined = self._before
        self._before = None
