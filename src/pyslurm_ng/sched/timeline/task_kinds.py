"""What one task, or one GPU of a job that asks for GPUs in all, takes of a node, and the next."""

from __future__ import annotations

from dataclasses import replace
from operator import ge

from pyslurm_ng._select import Grid
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import empty_node
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.shapes import CPUS, Variant

_NO_MORE = 1 << 30
ALL = 1 << 40  # tasks: more than any node holds

# Kind of one task on a node, what the first and each further task takes, most tasks by node kind.
Single = tuple[int, list[list[tuple[int, int]]], list[int]]


class TaskKinds:
    """Kinds of single tasks on the grid of a timeline; they are made again with each grid."""

    def __init__(self, tables: PassTables) -> None:
        self._hardware = tables.hardware
        self._timeline = tables.timeline
        self._grid: Grid | None = None
        self._singles: dict[int, Single | None] = {}

    def of(self, demand: Demand) -> Single | None:
        """Return the kind of one task on a node and what each further task takes there.

        None for jobs whose tasks cannot be spread unevenly. One task with each GPU for a job that
        asks for GPUs in all.
        """
        if self._grid is not self._timeline.grid:
            self._grid, self._singles = self._timeline.grid, {}
        if id(demand) not in self._singles:
            of_gpus = bool(demand.need.gres_total)
            kinds = self._add_gpu(demand) if of_gpus else self._add_single(demand)
            self._singles[id(demand)] = kinds
        return self._singles[id(demand)]

    def _add_single(self, demand: Demand) -> Single | None:
        need, hardware = demand.need, self._hardware
        if (
            (need.tasks <= need.nodes_min and not need.is_ranged)
            or need.fixed_tasks_per_node
            or need.shares_cpus
            or need.gres_total
            or need.has_parts
        ):
            return None
        # Whole nodes hold what they hold: only where those alike never do, or where some are
        # named that are smaller than others, is there more to find.
        is_whole = bool(need.is_exclusive or need.sharing) and not need.required_nodes
        if is_whole and self._could_be_even(demand):
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
        return self._timeline.kinds.add_exact(demand, single), amounts, most

    def _could_be_even(self, demand: Demand) -> bool:
        """Return whether equal shares of idle nodes would do."""
        return any(
            not variant.required or all(map(ge, variant.mask, variant.required))
            for _, variant in self._timeline.kinds.of(demand)
        )

    def _task_amounts(self, need: Need, single: Variant, number: int) -> list[tuple[int, int]]:
        """Return what the first and each further task takes of a node of a kind."""
        more = self._hardware.node_amounts(need, number, 2)
        firsts = zip(single.resources, single.amounts[number], strict=True)
        if more is None:  # a node that holds one task at most gets no second one
            return [(first, _NO_MORE) for _, first in firsts]
        counts_cpus = self._hardware.counts_cpus(need)
        amounts = []
        for resource, first in firsts:
            each = more.get(resource, 0) - first
            if need.is_exclusive or (resource == CPUS and need.sharing):
                each = max(0, each)  # the first task takes the node from all others
            elif need.overcommit:
                each = max(0, each)
            elif resource in counts_cpus and each < need.cpus_per_task:
                # Tasks share cores of several threads, or what a node gives at least.
                first = each = need.cpus_per_task
            amounts.append((first, each))
        return amounts

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
            gres = (*need.gres_per_node, (name, kind, count))
            return replace(need, gres_per_node=gres, gres_total=())

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
        return self._timeline.kinds.add_exact(demand, single), amounts, [ALL] * len(amounts)
