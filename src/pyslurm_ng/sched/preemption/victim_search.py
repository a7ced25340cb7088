"""The search for the least valuable set of jobs without which another job has room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.cons_tres.rows import pass_layouts
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.modes import grace_s
from pyslurm_ng.sched.preemption.vacated_nodes import VacatedNodes
from pyslurm_ng.sched.preemption.victims import Unit, Victims

MOST_MOMENTS = 4  # at which others are no longer exempt, tried for one job
_MOST_TRIES = 64  # demands without success in one pass; the others wait for the next
_MOST_WORK = 1_000_000  # node tests of one pass


class VictimSearch:
    """The search of one pass, for one job after another.

    `failed` has what no victims were found for; `tries` and `later_tries` count that.
    """

    def __init__(self, snapshot: Snapshot, victims: Victims, nodes: VacatedNodes) -> None:
        self._snapshot = snapshot
        self.victims = victims
        self.nodes = nodes
        self.failed: set[tuple[int, str, int]] = set()
        self.tries = self.later_tries = 0
        self._layouts: dict[str, Layout] | None = None

    @property
    def is_over(self) -> bool:
        """Whether this pass looks for no further victims; the next one goes on."""
        return self.tries >= _MOST_TRIES or self.nodes.work >= _MOST_WORK

    @property
    def is_over_for_later(self) -> bool:
        """Whether it looks for no further victims that leave later."""
        return self.later_tries >= _MOST_TRIES or self.nodes.work >= _MOST_WORK

    def best(
        self,
        demand: Demand,
        units: list[Unit],
        licenses_free: Mapping[str, int],
        closed: frozenset[int],
        *,
        spares: bool = False,
        at_us: int = 0,
        over: frozenset[int] = frozenset(),
    ) -> tuple[list[Unit], list[tuple[FreeNode, int]]] | None:
        """Return the best set of victims found and where the job then fits.

        Args:
            spares: whether a job that fits without victims is given an empty set. If not, None is
                returned for it: it waits for a promised time, not for room.
            at_us: when they are to leave; 0: now.
            over: jobs that have ended by then.
        """
        snapshot = self._snapshot
        start_us = at_us or snapshot.now_us
        blocked = closed | reserved.blocked_nodes(
            snapshot.reservations, reserved.OUTSIDE, start_us, start_us + demand.duration_us
        )
        self.nodes.modes = {
            job_id: mode
            for unit in units
            for job_id, mode in zip(unit.job_ids, unit.modes, strict=True)
        }
        node_ids = [
            node_id
            for node_id in demand.partition.node_ids
            if demand.mask[node_id] and node_id not in blocked
        ]
        layout = self._layout(demand.partition.name)
        attempt = _Attempt(self.nodes, demand, node_ids, licenses_free, layout, over)
        fits = attempt.fits(())
        if fits:
            return ([], fits) if spares else None
        first = attempt.least(units)
        if first is None:
            return None
        worst = max(unit.value[0] for unit in first)
        # Larger jobs of no higher value may replace several small ones.
        cheap = [unit for unit in units if unit.value[0] <= worst or unit.is_gone]
        cheap.sort(key=lambda unit: (not unit.is_gone, -unit.cpus, unit.value, unit.job_ids))
        sets = [first]
        other = attempt.least(cheap) if len(first) > 1 else None
        if other is not None:
            sets.append(other)
        best = min(sets, key=_cost)
        chosen = attempt.fits(best)
        return (best, chosen) if chosen else None

    def allot(
        self, demand: Demand, chosen: Sequence[tuple[FreeNode, int]], gone: frozenset[int]
    ) -> tuple[NodeAlloc, ...]:
        """Return exactly what a job gets on the nodes chosen when some jobs are gone."""
        fresh = [(self.nodes.node(node.node_id, gone), tasks) for node, tasks in chosen]
        return allot(demand.need, fresh)

    def leave(self, units: Iterable[Unit]) -> None:
        """Record that victims leave."""
        for unit in units:
            for job_id, mode in zip(unit.job_ids, unit.modes, strict=True):
                self.victims.taken.add(job_id)
                if mode != "SUSPEND":
                    self.nodes.release(job_id, self.nodes.running[job_id].nodes)

    def stay(self, units: Iterable[Unit], claims: Iterable[int]) -> None:
        """Let the victims stay after all, and give back what was held instead of them."""
        for claim in claims:
            self.nodes.give_back(claim)
        for unit in units:
            for job_id in unit.job_ids:
                self.victims.taken.discard(job_id)
                self.nodes.hold(job_id, self.nodes.running[job_id].nodes)

    def grace_s(self, job_id: int) -> int:
        """Return for how long a victim may still run once it has to leave."""
        victim = self.nodes.running[job_id].victim
        if victim is None or self.nodes.modes.get(job_id) == "SUSPEND":
            return 0
        partition = self._snapshot.partitions.get(victim.partition)
        return grace_s(self._snapshot.qos, partition, victim.job.qos)

    def _layout(self, name: str) -> Layout | None:
        if self._layouts is None:
            self._layouts = pass_layouts(self._snapshot)
        return self._layouts.get(name)


def _cost(units: Sequence[Unit]) -> tuple[tuple[int, ...], int, int]:
    paid = [unit for unit in units if not unit.is_gone]
    return (
        (max(unit.value[0] for unit in paid),) if paid else (),
        sum(len(unit.job_ids) for unit in paid),
        sum(unit.cpus for unit in paid),
    )


def _add(free: dict[str, int], licenses: Iterable[tuple[str, int]]) -> None:
    for name, count in licenses:
        free[name] = free.get(name, 0) + count


class _Attempt:
    """Would this job fit without those? Asked again and again, for one job."""

    def __init__(
        self,
        nodes: VacatedNodes,
        demand: Demand,
        node_ids: list[int],
        licenses_free: Mapping[str, int],
        layout: Layout | None,
        over: frozenset[int],
    ) -> None:
        self._nodes = nodes
        self._over = over
        self._demand = demand
        self._node_ids = frozenset(node_ids)
        need = demand.need
        self._open = {
            node_id for node_id in node_ids if tasks_that_fit(need, nodes.free_of(node_id, over))
        }
        nodes.work += len(node_ids)
        self._licenses_free = dict(licenses_free)
        for job_id in over:
            _add(self._licenses_free, license_counts(nodes.running[job_id].licenses))
        self._layout = layout

    def fits(self, units: Sequence[Unit]) -> list[tuple[FreeNode, int]] | None:
        """Return where the job fits when these have gone, None if nowhere."""
        free = dict(self._licenses_free)
        leaving = [job_id for unit in units for job_id in unit.job_ids]
        for job_id in leaving:
            _add(free, self._nodes.licenses_of(job_id))
        if any(free.get(name, 0) < count for name, count in self._demand.licenses):
            return None
        gone = self._over.union(leaving)
        # Nodes that hold none of these and have no room now will not have any then.
        touched = {node_id for unit in units for node_id in unit.nodes} & self._node_ids
        node_ids = sorted(touched | self._open)
        self._nodes.work += len(node_ids)
        free_nodes = (self._nodes.free_of(node_id, gone) for node_id in node_ids)
        return choose(self._demand.need, free_nodes, self._layout)

    def least(self, units: Sequence[Unit]) -> list[Unit] | None:
        """Return some of the first units that are enough, none of them needlessly; None if all
        together are not.
        """
        low, high = 0, 1
        while not self.fits(units[:high]):
            if high >= len(units):
                return None
            low, high = high, min(2 * high, len(units))
        while low + 1 < high:
            middle = (low + high) // 2
            if self.fits(units[:middle]):
                high = middle
            else:
                low = middle
        kept = list(units[:high])
        chosen = self.fits(kept)
        assert chosen is not None
        on_nodes = {node.node_id for node, _ in chosen}
        near = [unit for unit in kept if not unit.nodes.isdisjoint(on_nodes)]
        if self.fits(near):
            kept = near
        for unit in reversed(list(kept)):
            fewer = [other for other in kept if other is not unit]
            if self.fits(fewer):
                kept = fewer
        return kept


def victims_of(units: Iterable[Unit]) -> tuple[tuple[int, str], ...]:
    """Return the jobs that leave, each with its mode."""
    return tuple(pair for unit in units for pair in zip(unit.job_ids, unit.modes, strict=True))
