"""Preemption for heterogeneous jobs: all components find room once their victims have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.starting import start_of
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan, Preemption
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.victim_search import MOST_MOMENTS, VictimSearch, victims_of
from pyslurm_ng.sched.preemption.victims import Unit


class VacatedTogether(NamedTuple):
    """The same of a heterogeneous job; `nodes` by component."""

    start_us: int
    nodes: dict[int, tuple[NodeAlloc, ...]]
    victims: tuple[int, ...]


class _Together(NamedTuple):
    """The jobs that leave for components, the numbers of their holdings, and what each finds."""

    units: list[Unit]
    claims: list[int]
    nodes: dict[int, tuple[NodeAlloc, ...]]


class PreemptingTogether:
    """The search for victims of heterogeneous jobs in one pass."""

    def __init__(self, snapshot: Snapshot, plan: Plan, search: VictimSearch) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._search = search

    def find(
        self,
        components: Sequence[tuple[Waiting, Demand]],
        licenses_free: Mapping[str, int],
        closed: Callable[[Demand], frozenset[int]],
        accepts: Callable[[Mapping[int, tuple[NodeAlloc, ...]]], bool],
    ) -> Preemption | None:
        """Return the starts of all components with the victims they need together, or None.

        No job is suspended for them: all start at one moment, when all victims have gone.

        Args:
            components: in the order in which to look for room.
            closed: nodes that others were promised for the time of a demand.
            accepts: whether the components, by job id, may have what they would get.
        """
        key = (components[0][0].het_job_id, "", len(components))
        search, victims = self._search, self._search.victims
        if key in search.failed or not any(victims.is_able(*component) for component in components):
            return None
        if search.is_over:
            return None
        search.nodes.catch_up()
        together = self._place(components, victims.units_now, licenses_free, closed)
        is_whole = len(together.nodes) == len(components) and bool(together.units)
        if not is_whole or not accepts(together.nodes):
            search.stay(together.units, together.claims)
            search.failed.add(key)
            search.tries += 1
            return None
        first, *others = (
            start_of(job, demand, -1, together.nodes[job.job_id], self._snapshot.features)
            for job, demand in sorted(components, key=lambda component: component[0].job_id)
        )
        self._plan.preemptions.append(Preemption(first, victims_of(together.units), tuple(others)))
        return self._plan.preemptions[-1]

    def find_later(
        self,
        components: Sequence[tuple[Waiting, Demand]],
        before_us: int,
        licenses_free: Mapping[str, int],
        closed: Callable[[Demand, int], frozenset[int]],
    ) -> VacatedTogether | None:
        """Return where all components may start before a time once others are no longer exempt.

        As `find_later` does for one job; here no job is suspended.

        Args:
            components: in the order in which to look for room.
            closed: nodes that others were promised for the time of a demand from a moment on.
        """
        search, victims = self._search, self._search.victims
        able = [component for component in components if victims.is_able(*component)]
        if search.is_over_for_later or not able:
            return None
        moments = sorted({at_us for component in able for at_us in victims.moments_us(*component)})
        search.nodes.catch_up()
        for at_us in moments[:MOST_MOMENTS]:
            if at_us >= before_us:
                break
            together = self._try_later(components, at_us, licenses_free, closed)
            if len(together.nodes) < len(components) or not together.units:
                search.later_tries += 1
                continue
            leaving = tuple(job_id for unit in together.units for job_id in unit.job_ids)
            start_us = at_us + SECOND_US * max(map(search.grace_s, leaving))
            if start_us >= before_us:
                break
            victims.awaited.update(leaving)
            return VacatedTogether(start_us, together.nodes, leaving)
        return None

    def _try_later(
        self,
        components: Sequence[tuple[Waiting, Demand]],
        at_us: int,
        licenses_free: Mapping[str, int],
        closed: Callable[[Demand, int], frozenset[int]],
    ) -> _Together:
        """Return the jobs that would leave for components at a moment; for now all stay."""

        def units_then(job: Waiting, demand: Demand) -> list[Unit]:
            return self._search.victims.units_then(job, demand, at_us)

        over = frozenset(
            running_job.job_id
            for running_job in self._snapshot.running
            if running_job.end_us <= at_us
        )
        together = self._place(
            components,
            units_then,
            licenses_free,
            lambda demand: closed(demand, at_us),
            at_us=at_us,
            over=over,
        )
        self._search.stay(together.units, together.claims)
        return together

    def _place(
        self,
        components: Sequence[tuple[Waiting, Demand]],
        units_of: Callable[[Waiting, Demand], list[Unit]],
        licenses_free: Mapping[str, int],
        closed: Callable[[Demand], frozenset[int]],
        *,
        at_us: int = 0,
        over: frozenset[int] = frozenset(),
    ) -> _Together:
        """Place one component after the other, as far as they fit; see `VictimSearch.best`."""
        search = self._search
        free = dict(licenses_free)
        together = _Together([], [], {})
        used: frozenset[int] = frozenset()  # each component has nodes of its own
        for job, demand in components:
            units = units_of(job, demand) if search.victims.is_able(job, demand) else []
            units = [unit for unit in units if "SUSPEND" not in unit.modes]
            shut = closed(demand) | used
            best = search.best(demand, units, free, shut, spares=True, at_us=at_us, over=over)
            if best is None:
                break
            chosen_units, chosen = best
            gone = over.union(job_id for unit in chosen_units for job_id in unit.job_ids)
            together.nodes[job.job_id] = allocs = search.allot(demand, chosen, gone)
            used |= {alloc.node_id for alloc in allocs}
            search.leave(chosen_units)
            together.units.extend(chosen_units)
            together.claims.append(search.nodes.claim(allocs))
            for name, count in demand.licenses:
                free[name] = free.get(name, 0) - count
        return together
