"""Preemption: which jobs make room for one that does not fit, and where it then starts.

Victims are chosen with the real selector on nodes as they are at this moment, less those victims:
none is taken in vain. The set is one that cannot do without any of its members; of several such
sets the one whose most valuable victim is worth least, then the one of fewest jobs. What the job
gets is a claim: nobody else may use it until the job has started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_USER, SECOND_US
from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import schedulable_mem_mib
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.cores import usable_cores
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.cons_tres.rows import pass_layouts
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.cons_tres.starting import start_of
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import Running, Waiting
from pyslurm_ng.sched.frame.plan import Plan, Preemption
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.reserved import gives_way
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.preemption.modes import exempt_s, grace_s, mode_of, mode_words, words_of
from pyslurm_ng.sched.request.sharing import NOBODY, TOPO, Tenant, Units

_MOST_TRIES = 64  # demands without success in one pass; the others wait for the next
_MOST_WORK = 1_000_000  # node tests of one pass
_MOST_MOMENTS = 4  # at which others are exempt no more, tried for one job
_MOST_STARTS = 1 << 40  # of one pass


class _Unit(NamedTuple):
    """Jobs that leave together: one, or all components of a heterogeneous job."""

    value: tuple[int, ...]  # what it is worth: the least is taken first
    job_ids: tuple[int, ...]
    modes: tuple[str, ...]
    nodes: frozenset[int]
    cpus: int
    is_gone: bool  # suspended already: taking it costs nothing


class _Known(NamedTuple):
    """Whom a job may preempt now, and when whom else: in order of what they are worth, of time."""

    now: list[_Unit]
    later: list[tuple[int, _Unit]]


class Vacated(NamedTuple):
    """Where and when a job may start once others are exempt no more and have left for it."""

    start_us: int
    nodes: tuple[NodeAlloc, ...]
    victims: tuple[int, ...]


class VacatedTogether(NamedTuple):
    """The same of a heterogeneous job; `nodes` by component."""

    start_us: int
    nodes: dict[int, tuple[NodeAlloc, ...]]
    victims: tuple[int, ...]


class _Together(NamedTuple):
    """Who leaves for components, the numbers of what they hold, and what each found has then."""

    units: list[_Unit]
    claims: list[int]
    nodes: dict[int, tuple[NodeAlloc, ...]]


class Preempting:
    """The search for victims in one pass."""

    def __init__(self, snapshot: Snapshot, policy: Policy, plan: Plan, ranking: Ranking) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._plan = plan
        self._ranking = ranking
        self._seen_starts = 0
        self._nodes: dict[int, FreeNode] = {}  # free as things are, by node
        self._modes_of_try: Mapping[int, str] = {}
        self.running = {item.job_id: item for item in snapshot.running}
        self._holders: dict[int, dict[int, NodeAlloc]] = {}  # by node, then job
        self._network = Units(snapshot.topologies, snapshot.partitions)
        self._closed_by: dict[int, set[int]] = {}  # jobs that keep all others away, by node
        for item in snapshot.running:
            self._hold(item.job_id, item.nodes, item.tenant)
        self._taken: set[int] = set()  # victims of this pass
        self._claims = 0  # made in this pass
        self._awaited: set[int] = set()  # those that jobs wait for which they may not preempt yet
        self._known_units: dict[tuple[str, str, int, str, int], _Known] = {}
        modes = [
            policy.preempt_mode,
            *(words_of(own.preempt_mode) for own in snapshot.qos.values()),
        ]
        modes += [words_of(one.preempt_mode) for one in snapshot.partitions.values()]
        self._goes_by_priority = any(words & {"PRIORITY", "WITHIN"} for words in modes)
        self.work = 0  # node tests done
        self._failed: set[tuple[int, str, int]] = set()
        self._tries = self._later_tries = 0
        self._layouts: dict[str, Layout] | None = None
        tiers = {partition.priority_tier for partition in snapshot.partitions.values()}
        self._lowest_tier = min(tiers, default=0)

    def _hold(self, job_id: int, nodes: Sequence[NodeAlloc], tenant: Tenant = NOBODY) -> None:
        if tenant.sharing:
            node_ids: Iterable[int] = [alloc.node_id for alloc in nodes]
            if tenant.sharing == TOPO:
                node_ids = self._network.beside(tenant.partition, node_ids)
            for node_id in node_ids:
                self._closed_by.setdefault(node_id, set()).add(job_id)
            self._nodes.clear()
        for alloc in nodes:
            self._holders.setdefault(alloc.node_id, {})[job_id] = alloc
            self._nodes.pop(alloc.node_id, None)

    # Who ----------------------------------------------------------------------------------------

    def is_able(self, job: Waiting, demand: Demand) -> bool:
        """Return whether there may be a job that this one can preempt.

        A job that shares nodes with its own user's only waits until there is room.
        """
        if demand.need.sharing:
            return False
        if self._goes_first(job):
            return True
        if self._policy.preempt_by == "partition_prio":
            return demand.partition.priority_tier > self._lowest_tier
        own = self._snapshot.qos.get(job.qos)
        return own is not None and bool(own.preempt or self._is_within(job.qos))

    def _is_within(self, qos_name: str) -> bool:
        own = self._snapshot.qos.get(qos_name)
        words = words_of(own.preempt_mode) if own is not None else frozenset()
        return "WITHIN" in (words or self._policy.preempt_mode)

    def _may(self, job: Waiting, demand: Demand, item: Running) -> tuple[str, frozenset[str]]:
        """Return what the job may do to another, "" for nothing; its age is not looked at."""
        victim, policy, snapshot = item.victim, self._policy, self._snapshot
        nothing: tuple[str, frozenset[str]] = "", frozenset()
        if victim is None or victim.is_leaving or item.job_id in self._taken:
            return nothing
        other = victim.job
        if self._gives_way(job, other):
            return "REQUEUE", frozenset()
        is_within = False
        if policy.preempt_by == "partition_prio":
            partition = snapshot.partitions.get(victim.partition)
            if partition is None or demand.partition.priority_tier <= partition.priority_tier:
                return nothing
        else:
            own = snapshot.qos.get(job.qos)
            is_within = other.qos == job.qos and self._is_within(job.qos)
            if own is None or not (is_within or other.qos in own.preempt):
                return nothing
        words = mode_words(policy, snapshot.qos, snapshot.partitions, victim)
        mode = mode_of(words, policy)
        if not mode:
            return nothing
        if other.request.flags & REQ_EXCLUSIVE_USER and other.uid != job.uid:
            return nothing
        if other.request.mcs_label != job.request.mcs_label:
            return nothing
        if policy.preempt_exempt_priority or is_within or "PRIORITY" in words:
            theirs = self._priority(other, victim.partition)
            if policy.preempt_exempt_priority and theirs >= policy.preempt_exempt_priority:
                return nothing
            by_priority = is_within or "PRIORITY" in words
            if by_priority and self._priority(job, demand.partition.name) <= theirs:
                return nothing
        return mode, words

    def _goes_first(self, job: Waiting) -> bool:
        """Return whether the job's reservation has a MaxStartDelay."""
        place = self._snapshot.place
        return place is not None and place.max_start_delay_s > 0 and not job.is_guest

    def _gives_way(self, job: Waiting, other: Waiting) -> bool:
        """Return whether another runs only as long as jobs of this one's reservation let it."""
        place = self._snapshot.place
        return place is not None and self._goes_first(job) and gives_way(place, other.request)

    def _priority(self, job: Waiting, partition_name: str) -> int:
        partition = self._snapshot.partitions.get(partition_name)
        return self._ranking.priority(job, partition) if partition is not None else 0

    def exempt_until_us(self, job: Waiting, demand: Demand) -> int:
        """Return when the first job that this one may preempt has run for long enough; 0 if none
        will."""
        if not self.is_able(job, demand):
            return 0
        return min((at_us for at_us, _ in self._later(job, demand)), default=0)

    def _later(self, job: Waiting, demand: Demand) -> list[tuple[int, _Unit]]:
        """Return who on the job's nodes will be exempt no more, and when."""
        mask, known = demand.mask, self._known(job, demand)
        return [one for one in known.later if any(mask[node_id] for node_id in one[1].nodes)]

    def _known(self, job: Waiting, demand: Demand) -> _Known:
        """Return whom jobs like this may preempt now, and when others will be exempt no more."""
        # By priority each job has victims of its own; else jobs of a kind have the same.
        own_id = job.job_id if self._goes_by_priority else 0
        key = (job.qos, demand.partition.name, job.uid, job.request.mcs_label, own_id)
        known = self._known_units.get(key)
        if known is None:
            if own_id:
                self._known_units.clear()
            known = self._known_units[key] = self._all_units(job, demand)
        return known

    def _units(self, job: Waiting, demand: Demand) -> list[_Unit]:
        """Return whom the job may preempt now on its nodes, the least valuable first."""
        plan = self._plan
        for at_us, _ in self._later(job, demand):
            plan.retry_us = min(plan.retry_us, at_us) if plan.retry_us else at_us
        return self._left(self._known(job, demand).now, demand)

    def _left(self, units: Iterable[_Unit], demand: Demand) -> list[_Unit]:
        """Return the jobs on a job's nodes that no job has preempted or waits for."""
        mask, taken, awaited = demand.mask, self._taken, self._awaited
        return [
            unit
            for unit in units
            if taken.isdisjoint(unit.job_ids)
            and awaited.isdisjoint(unit.job_ids)
            and any(mask[node_id] for node_id in unit.nodes)
        ]

    def _all_units(self, job: Waiting, demand: Demand) -> _Known:
        """Return whom such jobs may preempt, and when others will be old enough."""
        snapshot, policy = self._snapshot, self._policy
        found: dict[int, list[tuple[Running, str]]] = {}
        barred: set[int] = set()
        exempt_us: dict[int, int] = {}
        for item in snapshot.running:
            victim = item.victim
            if victim is None:
                continue
            group = victim.het_job_id or item.job_id
            mode, _ = self._may(job, demand, item)
            if mode and victim.preemptor > 0 and mode != "SUSPEND":
                mode = ""  # suspended when the configuration was another
            if item.is_suspended and not victim.preemptor and mode == "SUSPEND":
                mode = ""  # an operator's: it holds no cores
            partition = snapshot.partitions.get(victim.partition)
            ends_us = victim.start_us + SECOND_US * exempt_s(
                policy.preempt_exempt_s, snapshot.qos, partition, victim.job.qos
            )
            if mode and ends_us > snapshot.now_us and not self._gives_way(job, victim.job):
                exempt_us[group] = max(ends_us, exempt_us.get(group, 0))
            if mode:
                found.setdefault(group, []).append((item, mode))
            else:
                barred.add(group)
        known = _Known([], [])
        for group, members in found.items():
            if group in exempt_us and group not in barred:
                known.later.append((exempt_us[group], self._unit(members)))
            elif group not in barred:
                known.now.append(self._unit(members))
        known.now.sort(key=_order)
        known.later.sort(key=lambda pair: (pair[0], _order(pair[1])))
        return known

    def _unit(self, members: Sequence[tuple[Running, str]]) -> _Unit:
        """Return the jobs of one unit with what they are worth together."""
        snapshot, policy = self._snapshot, self._policy
        values: list[tuple[int, ...]] = []
        cpus = 0
        for item, _ in members:
            victim = item.victim
            assert victim is not None
            held = sum(alloc.cpus for alloc in item.nodes)
            cpus += held
            if policy.preempts_youngest_first:
                values.append((-victim.start_us, held))
                continue
            if policy.preempt_by == "qos":
                worth = snapshot.qos_priority.get(victim.job.qos, 0)
            else:
                partition = snapshot.partitions.get(victim.partition)
                worth = partition.priority_tier if partition is not None else 0
            values.append((worth, held, -victim.start_us))
        return _Unit(
            value=max(values),
            job_ids=tuple(item.job_id for item, _ in members),
            modes=tuple(mode for _, mode in members),
            nodes=frozenset(alloc.node_id for item, _ in members for alloc in item.nodes),
            cpus=cpus,
            is_gone=all(
                item.victim is not None and item.victim.preemptor > 0 for item, _ in members
            ),
        )

    # What is free -------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Enter what has started in this pass meanwhile."""
        starts = self._plan.starts
        for start in starts[self._seen_starts :]:
            # Negative: nobody's id, and several tasks of an array have the same.
            self._hold(-1 - self._seen_starts, start.nodes, start.tenant)
            self._seen_starts += 1

    def _node(self, node_id: int, gone: frozenset[int] = frozenset()) -> FreeNode:
        """Return what is free of a node when some jobs are gone."""
        spec = self._snapshot.specs[node_id]
        assert spec is not None, node_id
        node = FreeNode(
            node_id=node_id,
            spec=spec,
            cores=usable_cores(spec),
            mem_mib=schedulable_mem_mib(spec),
            gres_busy={},
            gres_used={},
            weight=self._snapshot.weights[node_id],
            features=self._snapshot.features[node_id],
        )
        for job_id, alloc in self._holders.get(node_id, {}).items():
            item = self.running.get(job_id)
            is_gone = job_id in gone
            is_suspended = item is not None and item.is_suspended
            if is_gone and not self._keeps_memory(job_id):
                continue
            node.mem_mib -= alloc.mem_mib
            node.is_idle = node.is_idle and is_gone
            for held in alloc.gres:
                gres_parts.hold(node.gres_busy, node.gres_used, held)
            # A job that was suspended to make room keeps its cores from all but jobs that may
            # preempt it.
            if not is_gone and (not is_suspended or self._was_preempted(job_id)):
                node.cores &= ~int.from_bytes(alloc.cores, "little")
        if self._closed_by.get(node_id, gone) - gone:
            node.cores = 0  # whose jobs share with their own only are left in peace
        return node

    def _keeps_memory(self, job_id: int) -> bool:
        """Return whether a victim is suspended: it keeps memory and devices, not its cores."""
        return self._modes_of_try.get(job_id) == "SUSPEND"

    def _was_preempted(self, job_id: int) -> bool:
        item = self.running.get(job_id)
        return item is not None and item.victim is not None and bool(item.victim.preemptor)

    def _layout(self, name: str) -> Layout | None:
        if self._layouts is None:
            self._layouts = pass_layouts(self._snapshot)
        return self._layouts.get(name)

    # The search ---------------------------------------------------------------------------------

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
            accepts: whether the job may have what it would get; nobody leaves if not.
        """
        key = (id(demand), job.qos, len(closed))
        if key in self._failed or not self.is_able(job, demand):
            return None
        if self._tries >= _MOST_TRIES or self.work >= _MOST_WORK:
            return None  # the next pass goes on
        self._catch_up()
        units = self._units(job, demand)
        best = self._search(demand, units, licenses_free, closed) if units else None
        if best is None:
            self._failed.add(key)
            self._tries += 1
            return None
        chosen_units, chosen = best
        gone = frozenset(one for unit in chosen_units for one in unit.job_ids)
        fresh = [(self._node(node.node_id, gone), tasks) for node, tasks in chosen]
        allocs = allot(demand.need, fresh)
        if accepts is not None and not accepts(allocs):
            return None
        self._leave(chosen_units)
        self._claim(allocs)
        found = Preemption(
            start_of(job, demand, task_id, allocs, self._snapshot.features), _victims(chosen_units)
        )
        self._plan.preemptions.append(found)
        return found

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
        is_over = self._later_tries >= _MOST_TRIES or self.work >= _MOST_WORK
        if is_over or not self.is_able(job, demand):
            return None
        later = self._later(job, demand)
        moments = sorted({at_us for at_us, _ in later})
        self._catch_up()
        for at_us in moments[:_MOST_MOMENTS]:
            if at_us >= before_us:
                break
            units = [*self._known(job, demand).now, *(unit for us, unit in later if us <= at_us)]
            units = sorted(self._left(units, demand), key=_order)
            over = frozenset(item.job_id for item in self._snapshot.running if item.end_us <= at_us)
            best = self._search(demand, units, licenses_free, closed(at_us), at_us=at_us, over=over)
            if best is None:
                self._later_tries += 1
                continue
            victims = [job_id for unit in best[0] for job_id in unit.job_ids]
            start_us = at_us + SECOND_US * max(map(self._grace_s, victims), default=0)
            if start_us >= before_us:
                break
            gone = over.union(victims)
            fresh = [(self._node(node.node_id, gone), tasks) for node, tasks in best[1]]
            self._awaited.update(victims)
            return Vacated(start_us, allot(demand.need, fresh), tuple(victims))
        return None

    def give_up(self, vacated: Vacated | VacatedTogether) -> None:
        """Let others have whom a job was to wait for."""
        self._awaited.difference_update(vacated.victims)

    def _grace_s(self, job_id: int) -> int:
        victim = self.running[job_id].victim
        if victim is None or self._modes_of_try.get(job_id) == "SUSPEND":
            return 0
        partition = self._snapshot.partitions.get(victim.partition)
        return grace_s(self._snapshot.qos, partition, victim.job.qos)

    def find_together(
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
        if key in self._failed or not any(self.is_able(*one) for one in components):
            return None
        if self._tries >= _MOST_TRIES or self.work >= _MOST_WORK:
            return None
        self._catch_up()
        found = self._place_together(components, self._units, licenses_free, closed)
        is_whole = len(found.nodes) == len(components) and bool(found.units)
        if not is_whole or not accepts(found.nodes):
            self._stay(found.units, found.claims)
            self._failed.add(key)
            self._tries += 1
            return None
        first, *others = (
            start_of(job, demand, -1, found.nodes[job.job_id], self._snapshot.features)
            for job, demand in sorted(components, key=lambda one: one[0].job_id)
        )
        self._plan.preemptions.append(Preemption(first, _victims(found.units), tuple(others)))
        return self._plan.preemptions[-1]

    def find_later_together(
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
        is_over = self._later_tries >= _MOST_TRIES or self.work >= _MOST_WORK
        able = [one for one in components if self.is_able(*one)]
        if is_over or not able:
            return None
        moments = sorted({at_us for one in able for at_us, _ in self._later(*one)})
        self._catch_up()
        for at_us in moments[:_MOST_MOMENTS]:
            if at_us >= before_us:
                break
            found = self._try_later(components, at_us, licenses_free, closed)
            if len(found.nodes) < len(components) or not found.units:
                self._later_tries += 1
                continue
            victims = tuple(job_id for unit in found.units for job_id in unit.job_ids)
            start_us = at_us + SECOND_US * max(map(self._grace_s, victims))
            if start_us >= before_us:
                break
            self._awaited.update(victims)
            return VacatedTogether(start_us, found.nodes, victims)
        return None

    def _try_later(
        self,
        components: Sequence[tuple[Waiting, Demand]],
        at_us: int,
        licenses_free: Mapping[str, int],
        closed: Callable[[Demand, int], frozenset[int]],
    ) -> _Together:
        """Return who would leave for components at a moment; for now all stay."""

        def units_then(job: Waiting, demand: Demand) -> list[_Unit]:
            later = [unit for us, unit in self._later(job, demand) if us <= at_us]
            return sorted(self._left([*self._known(job, demand).now, *later], demand), key=_order)

        over = frozenset(item.job_id for item in self._snapshot.running if item.end_us <= at_us)
        found = self._place_together(
            components,
            units_then,
            licenses_free,
            lambda demand: closed(demand, at_us),
            at_us=at_us,
            over=over,
        )
        self._stay(found.units, found.claims)
        return found

    def _place_together(
        self,
        components: Sequence[tuple[Waiting, Demand]],
        units_of: Callable[[Waiting, Demand], list[_Unit]],
        licenses_free: Mapping[str, int],
        closed: Callable[[Demand], frozenset[int]],
        *,
        at_us: int = 0,
        over: frozenset[int] = frozenset(),
    ) -> _Together:
        """Place one component after the other, as far as they fit; see `_search`."""
        free = dict(licenses_free)
        found = _Together([], [], {})
        for job, demand in components:
            units = units_of(job, demand) if self.is_able(job, demand) else []
            units = [unit for unit in units if "SUSPEND" not in unit.modes]
            best = self._search(
                demand, units, free, closed(demand), spares=True, at_us=at_us, over=over
            )
            if best is None:
                break
            chosen_units, chosen = best
            gone = over.union(one for unit in chosen_units for one in unit.job_ids)
            fresh = [(self._node(node.node_id, gone), tasks) for node, tasks in chosen]
            found.nodes[job.job_id] = allocs = allot(demand.need, fresh)
            self._leave(chosen_units)
            found.units.extend(chosen_units)
            found.claims.append(self._claim(allocs))
            for name, count in demand.licenses:
                free[name] = free.get(name, 0) - count
        return found

    def _claim(self, nodes: Sequence[NodeAlloc]) -> int:
        """Hold what victims leave, under a number that is no job's."""
        self._claims += 1
        self._hold(-_MOST_STARTS - self._claims, nodes)
        return -_MOST_STARTS - self._claims

    def _leave(self, units: Iterable[_Unit]) -> None:
        """Record that victims leave."""
        for unit in units:
            for job_id, mode in zip(unit.job_ids, unit.modes, strict=True):
                self._taken.add(job_id)
                if mode != "SUSPEND":
                    self._release(job_id, self.running[job_id].nodes)

    def _stay(self, units: Iterable[_Unit], claims: Iterable[int]) -> None:
        """Take back that victims leave and what was held in their place."""
        for claim in claims:
            self._release(claim, [held[claim] for held in self._holders.values() if claim in held])
        for unit in units:
            for job_id in unit.job_ids:
                self._taken.discard(job_id)
                self._hold(job_id, self.running[job_id].nodes)

    def _release(self, holder: int, nodes: Iterable[NodeAlloc]) -> None:
        for holders in self._closed_by.values():
            holders.discard(holder)
        for alloc in nodes:
            self._holders[alloc.node_id].pop(holder, None)
            self._nodes.pop(alloc.node_id, None)

    def _search(
        self,
        demand: Demand,
        units: list[_Unit],
        licenses_free: Mapping[str, int],
        closed: frozenset[int],
        *,
        spares: bool = False,
        at_us: int = 0,
        over: frozenset[int] = frozenset(),
    ) -> tuple[list[_Unit], list[tuple[FreeNode, int]]] | None:
        """Return the best set of victims found and where the job then fits.

        Args:
            spares: what fits without victims takes none; else it waits for somebody's promised
                time, not for room, and nothing is found.
            at_us: when they are to leave; 0: now.
            over: jobs that have ended by then.
        """
        snapshot = self._snapshot
        start_us = at_us or snapshot.now_us
        blocked = closed | reserved.blocked_nodes(
            snapshot.reservations, reserved.OUTSIDE, start_us, start_us + demand.duration_us
        )
        self._modes_of_try = {
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
        attempt = _Attempt(self, demand, node_ids, licenses_free, layout, over)
        fits = attempt.fits(())
        if fits:
            return ([], fits) if spares else None
        first = attempt.least(units)
        if first is None:
            return None
        worst = max(unit.value[0] for unit in first)
        # Larger jobs of no more value may do instead of several small ones.
        cheap = [unit for unit in units if unit.value[0] <= worst or unit.is_gone]
        cheap.sort(key=lambda unit: (not unit.is_gone, -unit.cpus, unit.value, unit.job_ids))
        sets = [first]
        other = attempt.least(cheap) if len(first) > 1 else None
        if other is not None:
            sets.append(other)
        best = min(sets, key=_cost)
        chosen = attempt.fits(best)
        return (best, chosen) if chosen else None

    def free_of(self, node_id: int, gone: frozenset[int]) -> FreeNode:
        """Return what is free of a node without some jobs; records are shared, not to change."""
        if gone and not gone.isdisjoint(self._holders.get(node_id, {})):
            return self._node(node_id, gone)
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = self._node(node_id)
        return node

    def licenses_of(self, job_id: int) -> list[tuple[str, int]]:
        """Return the licences that come back when a job has left, where that may be waited for."""
        item = self.running[job_id]
        if not self._policy.reclaims_licenses or self._keeps_memory(job_id):
            return []
        return license_counts(item.licenses)


def _victims(units: Iterable[_Unit]) -> tuple[tuple[int, str], ...]:
    return tuple(pair for unit in units for pair in zip(unit.job_ids, unit.modes, strict=True))


def _order(unit: _Unit) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
    """Return the key by which units are taken."""
    return not unit.is_gone, unit.value, unit.job_ids


def _cost(units: Sequence[_Unit]) -> tuple[tuple[int, ...], int, int]:
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
        state: Preempting,
        demand: Demand,
        node_ids: list[int],
        licenses_free: Mapping[str, int],
        layout: Layout | None,
        over: frozenset[int],
    ) -> None:
        self._state = state
        self._over = over
        self._demand = demand
        self._node_ids = frozenset(node_ids)
        need = demand.need
        self._open = {
            node_id for node_id in node_ids if tasks_that_fit(need, state.free_of(node_id, over))
        }
        state.work += len(node_ids)
        self._licenses_free = dict(licenses_free)
        for job_id in over:
            _add(self._licenses_free, license_counts(state.running[job_id].licenses))
        self._layout = layout

    def fits(self, units: Sequence[_Unit]) -> list[tuple[FreeNode, int]] | None:
        """Return where the job fits when these have gone, None if nowhere."""
        free = dict(self._licenses_free)
        leaving = [job_id for unit in units for job_id in unit.job_ids]
        for job_id in leaving:
            _add(free, self._state.licenses_of(job_id))
        if any(free.get(name, 0) < count for name, count in self._demand.licenses):
            return None
        gone = self._over.union(leaving)
        # Nodes that hold none of these and have no room now will not have any then.
        touched = {node_id for unit in units for node_id in unit.nodes} & self._node_ids
        node_ids = sorted(touched | self._open)
        self._state.work += len(node_ids)
        nodes = (self._state.free_of(node_id, gone) for node_id in node_ids)
        return choose(self._demand.need, nodes, self._layout)

    def least(self, units: Sequence[_Unit]) -> list[_Unit] | None:
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
