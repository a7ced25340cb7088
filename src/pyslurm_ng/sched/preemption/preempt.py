"""Preemption: which jobs make room for one that does not fit, and where it then starts.

Victims are chosen with the real selector on nodes as they are at this moment, less those victims:
none is taken in vain. The set is one that cannot do without any of its members; of several such
sets the one whose most valuable victim is worth least, then the one of fewest jobs. The job gets a
claim: no other job may use that room until the job has started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.starting import start_of
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan, Preemption
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.preempt_together import PreemptingTogether, VacatedTogether
from pyslurm_ng.sched.preemption.vacated_nodes import VacatedNodes
from pyslurm_ng.sched.preemption.victim_search import MOST_MOMENTS, VictimSearch, victims_of
from pyslurm_ng.sched.preemption.victims import Victims


class Vacated(NamedTuple):
    """Where and when a job may start when others are no longer exempt and have left for it."""

    start_us: int
    nodes: tuple[NodeAlloc, ...]
    victims: tuple[int, ...]


class Preempting:
    """The search for victims in one pass; `together` is that for heterogeneous jobs."""

    def __init__(self, snapshot: Snapshot, policy: Policy, plan: Plan, ranking: Ranking) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._nodes = VacatedNodes(snapshot, policy, plan)
        self._victims = Victims(snapshot, policy, plan, ranking)
        self._search = VictimSearch(snapshot, self._victims, self._nodes)
        self.together = PreemptingTogether(snapshot, plan, self._search)

    def is_able(self, job: Waiting, demand: Demand) -> bool:
        """Return whether there may be a job that this one can preempt."""
        return self._victims.is_able(job, demand)

    def exempt_until_us(self, job: Waiting, demand: Demand) -> int:
        """Return when the first job that this one may preempt has run for long enough; 0 if none
        will."""
        return self._victims.exempt_until_us(job, demand)

    def find(
        self,
        job: Waiting,
        demand: Demand,
        task_id: int,
        licenses_free: Mapping[str, int],
        closed: frozenset[int] = frozenset(),
        accepts: Callable[[tuple[NodeAlloc, ...]], bool] | None = None,
    ) -> Preemption | None:
        """Return a start with the victims it needs, None if no victims would let it start.

        Args:
            licenses_free: as they are after the starts of this pass.
            closed: nodes that others were promised for the time that the job would run.
            accepts: whether the job may have what it would get; if not, no job leaves.
        """
        search, key = self._search, (id(demand), job.qos, len(closed))
        if key in search.failed or not self.is_able(job, demand) or search.is_over:
            return None
        self._nodes.catch_up()
        units = self._victims.units_now(job, demand)
        best = search.best(demand, units, licenses_free, closed) if units else None
        if best is None:
            search.failed.add(key)
            search.tries += 1
            return None
        chosen_units, chosen = best
        gone = frozenset(job_id for unit in chosen_units for job_id in unit.job_ids)
        allocs = search.allot(demand, chosen, gone)
        if accepts is not None and not accepts(allocs):
            return None
        search.leave(chosen_units)
        self._nodes.claim(allocs)
        preemption = Preemption(
            start_of(job, demand, task_id, allocs, self._snapshot.features),
            victims_of(chosen_units),
        )
        self._plan.preemptions.append(preemption)
        return preemption

    def find_later(
        self,
        job: Waiting,
        demand: Demand,
        before_us: int,
        licenses_free: Mapping[str, int],
        closed: Callable[[int], frozenset[int]],
    ) -> Vacated | None:
        """Return where a job may start before a time as soon as others are no longer exempt.

        As things are now but for jobs that will have ended by then. Jobs that are to leave for it
        are no other job's victims in the rest of the pass.

        Args:
            closed: nodes that others were promised for the time that the job would run from then.
        """
        search, victims = self._search, self._victims
        if search.is_over_for_later or not self.is_able(job, demand):
            return None
        moments = sorted(victims.moments_us(job, demand))
        self._nodes.catch_up()
        for at_us in moments[:MOST_MOMENTS]:
            if at_us >= before_us:
                break
            units = victims.units_then(job, demand, at_us)
            over = frozenset(
                running_job.job_id
                for running_job in self._snapshot.running
                if running_job.end_us <= at_us
            )
            best = search.best(demand, units, licenses_free, closed(at_us), at_us=at_us, over=over)
            if best is None:
                search.later_tries += 1
                continue
            leaving = [job_id for unit in best[0] for job_id in unit.job_ids]
            start_us = at_us + SECOND_US * max(map(search.grace_s, leaving), default=0)
            if start_us >= before_us:
                break
            victims.awaited.update(leaving)
            allocs = search.allot(demand, best[1], over.union(leaving))
            return Vacated(start_us, allocs, tuple(leaving))
        return None

    def give_up(self, vacated: Vacated | VacatedTogether) -> None:
        """Let other jobs preempt the jobs that this one was to wait for."""
        self._victims.awaited.difference_update(vacated.victims)
