"""Room beside jobs of the same owner that keep all others away: --exclusive=user and =mcs.

On the grid such jobs have their nodes whole. This module finds what they leave to other jobs of
their owner, now and later: on a node that is the owner's for as long as the next job is to last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from pyslurm_ng._select import NEVER
from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.allot import allot, deal_devices
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.node_choice import choose_counted, node_counts
from pyslurm_ng.sched.cons_tres.select import share_tasks, wanted_nodes
from pyslurm_ng.sched.cons_tres.topology import bits
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.request.sharing import Guest, may_share
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.shapes import CPUS, MEM, Amounts, Shares

_MOST_LOOKS = 10_000  # at a node for a start beyond now, in one pass


class _Host(NamedTuple):
    """The node at a position, and the jobs there, now or later."""

    position: int
    guests: list[Guest]


class OwnerRoom:
    """The search of one pass; a demand that has found no job to join now does not look again."""

    def __init__(self, tables: PassTables) -> None:
        self._hardware = tables.hardware
        self._nearness = tables.nearness
        self._neighbours = tables.neighbours
        self._timeline = tables.timeline
        self._free = tables.free
        self._now_us = tables.now_us
        self._failed: set[int] = set()  # demands
        self._before: set[int] | None = None  # the trial
        self._budget = _MOST_LOOKS

    # When ---------------------------------------------------------------------------------------

    def find(self, demand: Demand) -> Shares:
        """Return nodes of the same owner where a job may start now, or nothing.

        With empty ones besides if needed.
        """
        if id(demand) in self._failed:
            return []
        shares = self._find_at(demand, self._now_us, self._hosts(demand))
        if not shares:
            self._failed.add(id(demand))
        return shares

    def find_later(self, demand: Demand, first_us: int, before_us: int) -> tuple[int, Shares]:
        """Return the first start in a time, now excluded, with room beside the same owner's jobs.

        NEVER without one, or when the pass has looked often enough.
        """
        if demand.need.gres_total or demand.need.is_capped:
            return NEVER, []
        hosts = self._hosts(demand)
        for start_us in self._moments(demand, hosts, first_us, before_us) if hosts else ():
            if self._budget <= 0:
                break
            self._budget -= len(hosts)
            shares = self._find_at(demand, start_us, hosts)
            if shares:
                return start_us, shares
        return NEVER, []

    def _moments(
        self, demand: Demand, hosts: Sequence[_Host], first_us: int, before_us: int
    ) -> Sequence[int]:
        """Return the starts to look at: when somebody comes or goes; any, if that may be elsewhere.

        A job that needs several nodes may have to wait for one that is free.
        """
        times_us = self._timeline.times_us
        last = len(times_us) if before_us == NEVER else bisect_left(times_us, before_us)
        first = max(1, bisect_left(times_us, first_us))
        if demand.need.nodes_min > 1 or demand.need.tasks > 1:
            return times_us[first:last]
        moments = {first}
        for host in hosts:
            for guest in host.guests:
                moments.add(bisect_left(times_us, guest.start_us))
                moments.add(bisect_left(times_us, guest.end_us))
        return [times_us[slot] for slot in sorted(moments) if first <= slot < last]

    def _hosts(self, demand: Demand) -> list[_Host]:
        """Return the nodes, now or later, where a job could be beside its owner's."""
        neighbours, position = self._neighbours, self._hardware.position
        return [
            _Host(position[node_id], neighbours.guests(node_id, self._now_us, NO_END_US))
            for node_id in neighbours.hosts(demand.tenant)
            if demand.mask[node_id]
        ]

    # Where --------------------------------------------------------------------------------------

    def _find_at(self, demand: Demand, start_us: int, hosts: Sequence[_Host]) -> Shares:
        need = demand.need
        own: Shares = []
        for host in hosts:
            node = self._node(demand, host, start_us)
            fit = tasks_that_fit(need, node) if node is not None else 0
            if fit > 0:
                own.append((host.position, min(fit, need.tasks)))
        if not own:
            return []
        picker = self._nearness.picker(demand)
        most = need.nodes_max if need.is_ranged else max(need.nodes_min, need.tasks)
        named = {self._hardware.position.get(node_id, -1) for node_id in need.required_nodes}
        for alone in (True, False):
            fits = own if alone else own + self._others(demand, own, start_us)
            if named - {position for position, _ in fits}:
                continue
            counts = node_counts(need, need.nodes_min, min(most, need.nodes_max, len(fits)))
            shares = choose_counted(picker, fits, need.tasks, counts, wanted_nodes(need, picker))
            if shares is not None:
                return shares
        return []

    def _node(self, demand: Demand, host: _Host, start_us: int) -> FreeNode | None:
        """Return what a node leaves to a job from a time on; None: another owner has it then."""
        is_now, end_us = start_us == self._now_us, demand.end_us(start_us)
        if is_now and not self._free.has_cpus(self._hardware.order[host.position]):
            return None
        guests = [
            guest for guest in host.guests if guest.start_us < end_us and guest.end_us > start_us
        ]
        if not guests or not all(may_share(demand.tenant, guest.tenant) for guest in guests):
            return None
        if not self._neighbours.is_ours(host.position, start_us, end_us, guests):
            return None
        if is_now and not any(guest.start_us for guest in guests):
            return self._free.node(self._hardware.order[host.position])
        return self._beside(host.position, guests, start_us, end_us)

    def _beside(
        self, position: int, guests: Sequence[Guest], start_us: int, end_us: int
    ) -> FreeNode:
        """Return what some jobs leave of a node at all times until a job would end."""
        hardware = self._hardware
        node = empty_node(hardware.order[position], hardware.kinds[hardware.kind_of[position]])
        usable, taken = node.cores.bit_count(), 0
        for guest in guests:
            if guest.alloc is not None:
                taken |= _cores(guest)
                for gres in guest.alloc.gres:
                    gres_parts.hold(node.gres_busy, node.gres_used, gres)
        node.cores &= ~taken
        # Jobs one after another may have the same cores; those at one time never have.
        starts_us = {start_us, *(guest.start_us for guest in guests if guest.start_us > start_us)}
        most = max(_cores_at(guests, at_us) for at_us in starts_us)
        while node.cores.bit_count() > max(0, usable - most):
            node.cores &= node.cores - 1
        node.mem_mib = self._timeline.grid.least(position, MEM, start_us, end_us)
        return node

    def _others(self, demand: Demand, own: Shares, start_us: int) -> Shares:
        """Return the other nodes with room, which for jobs that keep all away are empty ones."""
        variant = self._hardware.variant(demand, demand.need, 1, 1)
        if variant is None:
            return []
        grid, order, need = self._timeline.grid, self._hardware.order, demand.need
        kind = self._timeline.kinds.open(demand, variant)
        is_now = start_us == self._now_us
        if (grid.find(kind) if is_now else grid.find_from(kind, start_us)) != start_us:
            return []
        others, known = [], {position for position, _ in own}
        for position in bits(int.from_bytes(grid.fitting(), "little")):
            if position in known:
                continue
            if is_now and need.sharing:
                fit = tasks_that_fit(need, self._free.node(order[position]))
            else:
                fit = self._counted(demand, position, start_us)
                self._budget -= not is_now
            if fit > 0:
                others.append((position, min(fit, need.tasks)))
        return others

    def _counted(self, demand: Demand, position: int, start_us: int) -> int:
        """Return how many tasks a node has room for from a time on, as the grid counts."""
        hardware, least, end_us = self._hardware, self._timeline.grid.least, demand.end_us(start_us)
        number = hardware.kind_of[position]
        empty = empty_node(hardware.order[position], hardware.kinds[number])

        def is_short(tasks: int) -> bool:
            amounts = hardware.node_amounts(demand.need, number, tasks)
            return amounts is None or any(
                amount and least(position, resource, start_us, end_us) < amount
                for resource, amount in amounts.items()
            )

        # More tasks never take less. Under overcommit an empty node has room for billions.
        most = min(tasks_that_fit(demand.need, empty), demand.need.tasks)
        return bisect_left(range(1, most + 1), True, key=is_short)

    def has_room(
        self, demand: Demand, position: int, tasks: int, amounts: Amounts, start_us: int
    ) -> bool:
        """Return whether a node has room for some tasks then, beside the same owner's jobs."""
        if not demand.may_join:
            return False
        end_us, least = demand.end_us(start_us), self._timeline.grid.least
        if any(
            amount and resource != CPUS and least(position, resource, start_us, end_us) < amount
            for resource, amount in amounts
        ):
            return False
        node_id = self._hardware.order[position]
        guests = self._neighbours.guests(node_id, self._now_us, NO_END_US)
        node = self._node(demand, _Host(position, guests), start_us)
        return node is not None and tasks_that_fit(demand.need, node) >= tasks

    # What is taken ------------------------------------------------------------------------------

    def promise(self, demand: Demand, shares: Shares, start_us: int) -> None:
        """Note that a job is to have some nodes, so that others may be planned beside it."""
        end_us, order = demand.end_us(start_us), self._hardware.order
        nodes = []
        for position, tasks in shares:
            guests = self._neighbours.guests(order[position], start_us, end_us)
            nodes.append((self._beside(position, guests, start_us, end_us), tasks))
        tenant = demand.tenant._replace(partition=demand.partition.name)
        self._neighbours.promise(tenant, self._allot(demand, nodes), start_us, end_us)

    def _allot(self, demand: Demand, nodes: list[tuple[FreeNode, int]]) -> tuple[NodeAlloc, ...]:
        """Return the cores and devices that a job will have; whole nodes if that is not known."""
        need = demand.need
        if all(tasks_that_fit(need, node) >= tasks for node, tasks in nodes):
            chosen = share_tasks(need, nodes, self._nearness.layout(demand))
            if chosen is not None and deal_devices(need, chosen) is not None:
                return allot(need, chosen)
        return tuple(
            NodeAlloc(node.node_id, node.spec.cpus, _all_cores(node), 0, tasks, ())
            for node, tasks in nodes
        )

    def took(self, demand: Demand) -> None:
        """Note that a job starts, which others of its owner may join."""
        if demand.tenant.sharing:
            self._failed.clear()

    # Trials -------------------------------------------------------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is found out can be forgotten."""
        self._before = set(self._failed)

    def keep(self) -> None:
        """End the trial."""
        self._before = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        assert self._before is not None
        self._failed, self._before = self._before, None


def _cores(guest: Guest) -> int:
    is_suspended = not guest.cpus
    if guest.alloc is None or is_suspended:
        return 0
    return int.from_bytes(guest.alloc.cores, "little")


def _cores_at(guests: Sequence[Guest], at_us: int) -> int:
    """Return how many cores are in use at a moment."""
    there = (guest for guest in guests if guest.start_us <= at_us < guest.end_us)
    return sum(_cores(guest).bit_count() for guest in there)


def _all_cores(node: FreeNode) -> bytes:
    return gres_parts.mask_bytes(empty_node(node.node_id, node.spec).cores)
