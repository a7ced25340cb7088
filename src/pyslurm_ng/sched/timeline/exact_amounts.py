"""What each node gives to a job whose tasks or devices are not the same on all of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pyslurm_ng.sched.cons_tres.allot import deal_devices
from pyslurm_ng.sched.cons_tres.free_node import MANY, FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.select import share_tasks
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.request.need import GresNeed
from pyslurm_ng.sched.timeline.nearness import Nearness
from pyslurm_ng.sched.timeline.shapes import Amounts, Hardware, Shares, Variant


def is_alike(demand: Demand, variant: Variant) -> bool:
    """Return whether every node gives just what the variant says."""
    need = demand.need
    if variant.nodes == 1 or need.fixed_tasks_per_node or need.is_exclusive:
        return True
    return variant.tasks_per_node == 1 and not need.gres_total


class Dealt(NamedTuple):
    """The tasks that each position gets, and what it gives."""

    shares: Shares
    amounts: list[tuple[int, Amounts]]


class ExactAmounts:
    """Shares of jobs as they will be dealt out when the jobs start; of one pass."""

    def __init__(self, hardware: Hardware, nearness: Nearness, weights: Sequence[int]) -> None:
        self._hardware = hardware
        self._nearness = nearness
        self._weights = weights
        self._nodes: dict[int, FreeNode] = {}  # empty ones, by position
        self._known: dict[tuple[int, int, int, tuple[GresNeed, ...]], Amounts | None] = {}

    def of(self, demand: Demand, shares: Shares, most_gpus: Mapping[int, int]) -> Dealt | None:
        """Return what each position gets and gives, None if some could not.

        Args:
            shares: the tasks that each position can hold.
            most_gpus: by position, of a job that asks for GPUs in all.
        """
        need, position = demand.need, self._hardware.position
        nodes = [
            (self._node(position, most_gpus.get(position, MANY)), fit) for position, fit in shares
        ]
        chosen = share_tasks(need, nodes, self._nearness.layout(demand))
        devices = deal_devices(need, chosen) if chosen is not None else None
        if chosen is None or devices is None:
            return None
        dealt = Dealt([], [])
        for (node, tasks), share in zip(chosen, devices, strict=True):
            index = position[node.node_id]
            amounts = self._amounts(demand, self._hardware.kind_of[index], tasks, tuple(share))
            if amounts is None:
                return None
            dealt.shares.append((index, tasks))
            dealt.amounts.append((index, amounts))
        return dealt

    def _node(self, position: int, most_gpus: int) -> FreeNode:
        node = self._nodes.get(position)
        if node is None:
            hardware, node_id = self._hardware, self._hardware.order[position]
            node = empty_node(node_id, hardware.kinds[hardware.kind_of[position]])
            node.weight = self._weights[node_id]
            self._nodes[position] = node
        node.most_gpus = most_gpus
        return node

    def _amounts(
        self, demand: Demand, kind: int, tasks: int, devices: tuple[GresNeed, ...]
    ) -> Amounts | None:
        """Return what some tasks with devices of the whole job take of a node of a kind."""
        key = id(demand), kind, tasks, devices
        if key not in self._known:
            need = demand.need
            if need.gres_total:
                gres = need.gres_per_node + devices
                need = replace(need, gres_per_node=gres, gres_total=())
            amounts = self._hardware.node_amounts(need, kind, tasks)
            self._known[key] = None if amounts is None else tuple(sorted(amounts.items()))
        return self._known[key]
