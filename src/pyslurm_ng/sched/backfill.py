"""Conservative backfill over the whole queue: every job gets a start or a reservation.

Jobs are taken in priority order against free resources over time. What fits now starts; what does
not is given the earliest room there is, and later jobs take only what is left, so nobody is
delayed by a job of lower priority. With `bf_reserve_depth` only the first waiting jobs of each
partition get a reservation, the others just an estimate.

Source: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from pyslurm_ng._select import NEVER
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched import elastic, first_fit, het, reason
from pyslurm_ng.sched.backfill_asks import chosen_licenses, given_ask, least_ask
from pyslurm_ng.sched.backfill_limits import BackfillLimits
from pyslurm_ng.sched.demand import Demand, Demands
from pyslurm_ng.sched.inside import plan_inside
from pyslurm_ng.sched.limits import Ask
from pyslurm_ng.sched.node_plan import NodePlan
from pyslurm_ng.sched.obstacle import Obstacles
from pyslurm_ng.sched.plan import Plan, PlannedNodes, Start, Wait
from pyslurm_ng.sched.policy import EVERY_JOB, Policy
from pyslurm_ng.sched.pools import Pools
from pyslurm_ng.sched.preempt import Preempting, qos_ranks
from pyslurm_ng.sched.priority import MAX_PRIORITY, Ranking, bounded
from pyslurm_ng.sched.promises import Promises
from pyslurm_ng.sched.rows import Sharing, any_shares, own_part
from pyslurm_ng.sched.select import batch_node
from pyslurm_ng.sched.sharing import tenant_of
from pyslurm_ng.sched.smart import Smart
from pyslurm_ng.sched.snapshot import NO_END_US, Claim, Snapshot, Waiting

# Place in the queue (smallest first), job, demand in one of its partitions.
Entry = tuple[int, Waiting, Demand]
# The same before time has its say: tier, priority so far, whether that is all, demand.
Prepared = tuple[int, float, bool, Demand]
_NO_BUDGET = 1 << 62
_TIER = 1 << 33  # priorities are below
_ABLE = _TIER << 20  # tiers are below: who can preempt comes before all others


class Planner:
    """Passes one after another; what does not depend on time is remembered between them."""

    def __init__(self) -> None:
        self._demands = Demands()
        self._pools = Pools()
        self._nodes: NodePlan | None = None
        self._generation = 0
        self._qos: dict[str, int] = {}
        self._qos_ranks: dict[str, int] = {}
        self._jobs: dict[int, tuple[Waiting, tuple[Prepared, ...]]] = {}
        self._alike: dict[tuple[Prepared, ...], tuple[Prepared, ...]] = {}  # jobs share them
        self._pass = 0
        self._smart: Smart | None = None
        self._assocs: Mapping[int, int] = {}
        self._best: dict[tuple[int, str], int] = {}

    def __call__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int = _NO_BUDGET,
        fairshare: Mapping[int, float] | None = None,
    ) -> Plan:
        """Return who starts now, when the others are to start, and why they wait.

        Args:
            budget: jobs to look at; those beyond it wait for `Priority`.
        """
        if not policy.backfills:
            return first_fit.plan(snapshot, policy, budget, fairshare)
        outcome = Plan()
        if snapshot.reservations:
            outcome, snapshot = plan_inside(snapshot, policy, budget, fairshare)
        self._begin(snapshot, policy)
        ranking = Ranking(snapshot, policy, fairshare)
        queue, wanted = self._queue(snapshot, ranking, outcome)
        if policy.only_increases:
            queue = self._never_lower(queue, outcome)
        if not queue:
            outcome.lost_claims += snapshot.claims
            return outcome
        planner = self._planner(snapshot, policy, wanted)
        walk = _Pass(snapshot, policy, min(budget, policy.test_depth), planner, outcome)
        self._prepare_walk(walk, ranking)
        if policy.is_smart:
            smart = walk.smart = self._smart = self._smart or Smart(Planner())
            walk.run(smart.order(snapshot, policy, self._ranked(queue, ranking)))
            smart.started(outcome.starts)
        else:
            walk.run(queue)
        return outcome

    def _never_lower(self, queue: list[Entry], outcome: Plan) -> list[Entry]:
        """Return entries no further back than a pass has had them before: INCR_ONLY."""
        known, self._best = self._best, {}
        kept: list[Entry] = []
        for place, job, demand in queue:
            key = job.job_id, demand.partition.name
            best = place if job.priority != NO_VAL else min(place, known.get(key, place))
            self._best[key] = best
            if demand.partition.name == job.partitions[0]:
                outcome.priorities[job.job_id] += place - best
            kept.append((best, job, demand))
        kept.sort(key=itemgetter(0))
        return kept

    def _prepare_walk(self, walk: _Pass, ranking: Ranking) -> None:
        """Give a walk what it needs for shared cores, preemption and heterogeneous jobs."""
        if any_shares(walk.snapshot):
            walk.sharing = Sharing(walk.snapshot, walk.plan)
        if walk.policy.preempt_by:
            walk.preempting = Preempting(walk.snapshot, walk.policy, walk.plan, ranking)
        walk.het = self._het

    def rehearse(
        self,
        snapshot: Snapshot,
        policy: Policy,
        others: Sequence[Waiting],
        fairshare: Mapping[int, float] | None = None,
    ) -> Rehearsal | None:
        """Return a walk that has not begun, its queue, and where `others` would be in it.

        For a planner of its own: it keeps nothing for passes. None under sched/builtin.
        """
        if not policy.backfills:
            return None
        outcome = Plan()
        if snapshot.reservations:
            outcome, snapshot = plan_inside(snapshot, policy, _NO_BUDGET, fairshare)
        self._begin(snapshot, policy)
        ranking = Ranking(snapshot, policy, fairshare)
        queue, wanted = self._queue(snapshot, ranking, outcome)
        tried = []
        for job, moving in zip(others, ranking.moving_parts(others), strict=True):
            tried.append(
                [
                    (tier - (int(fixed) if is_all else bounded(int(fixed + moving))), job, demand)
                    for tier, fixed, is_all, demand in self._prepare_each(job, snapshot, ranking)
                ]
            )
        # One entry per demand: planners number those that they are given.
        extra = {id(demand): demand for entries in tried for _, _, demand in entries}
        known = {id(demand) for demand in wanted}
        wanted += [demand for place, demand in extra.items() if place not in known]
        walk = _Pass(snapshot, policy, _NO_BUDGET, self._planner(snapshot, policy, wanted), outcome)
        self._prepare_walk(walk, ranking)
        if policy.is_smart:
            walk.smart = Smart(Planner())
            queue = walk.smart.order(snapshot, policy, self._ranked(queue, ranking))
        return Rehearsal(walk, queue, tried)

    def _ranked(self, queue: list[Entry], ranking: Ranking) -> list[Entry]:
        """Return entries led by what goes before any order within: tier and standing."""
        return [
            (
                -demand.partition.priority_tier * _TIER
                - self._qos_ranks.get(job.qos, 0) * _ABLE
                - ranking.standing(job, demand.partition),
                job,
                demand,
            )
            for _, job, demand in queue
        ]

    def _begin(self, snapshot: Snapshot, policy: Policy) -> None:
        """Forget what no longer holds."""
        self._demands.begin(snapshot, policy)
        self._het_priority = policy.het_priority
        if self._demands.generation != self._generation:
            self._generation = self._demands.generation
            self._pools, self._nodes = Pools(), None
            self._jobs = {}
        ranks = qos_ranks(snapshot.qos) if policy.preempt_by == "qos" else {}
        if ranks != self._qos_ranks:
            self._qos_ranks, self._jobs = ranks, {}
        if snapshot.assoc_priority is not self._assocs:
            self._assocs, self._jobs = snapshot.assoc_priority, {}
        if snapshot.qos_priority != self._qos or len(self._jobs) > 2 * len(snapshot.waiting) + 1000:
            self._qos, self._jobs = snapshot.qos_priority, {}

    def _queue(
        self, snapshot: Snapshot, ranking: Ranking, outcome: Plan
    ) -> tuple[list[Entry], list[Demand]]:
        """Return an entry per job and partition in the order of the queue, and all demands."""
        known, priorities = self._jobs, outcome.priorities
        if not known:
            self._alike = {}
        alike = self._alike
        self._het: dict[int, list[het.Part]] = {}
        components: list[Waiting] = []
        self._pass += 1
        stamp = self._pass
        entries: list[Entry] = []
        wanted: list[Demand] = []
        last_us = 0
        is_sorted = True
        waiting = snapshot.waiting
        for job, moving in zip(waiting, ranking.moving_parts(waiting), strict=True):
            job_id = job.job_id
            found = known.get(job_id)
            if found is None or found[0] is not job:
                prepared = self._prepare(job, snapshot, ranking)
                found = known[job_id] = (job, alike.setdefault(prepared, prepared))
            if not found[1]:
                if job.het_job_id:
                    components.append(job)
                    continue
                text = f"partition {','.join(job.partitions)} does not exist any more"
                outcome.waits[job_id] = Wait(Reason.PartitionDown, text)
            for tier, fixed, is_all, demand in found[1]:
                priority = int(fixed if is_all else fixed + moving)
                if not 0 < priority <= MAX_PRIORITY and not is_all:
                    priority = bounded(priority)
                if job_id not in priorities:
                    priorities[job_id] = priority
                entries.append((tier - priority, job, demand))
                if demand.stamp != stamp:
                    demand.stamp = stamp
                    wanted.append(demand)
                    loose = demand.loose
                    if loose is not None and loose.stamp != stamp:
                        loose.stamp = stamp
                        wanted.append(loose)
            if job.submit_us <= last_us:
                is_sorted = False
            last_us = job.submit_us
        for parts in het.groups(components):
            self._enter_het(parts, snapshot, ranking, outcome, entries, wanted)
            is_sorted = False
        if not is_sorted:
            entries.sort(key=lambda entry: (entry[1].submit_us, entry[1].job_id))
        entries.sort(key=itemgetter(0))
        return entries, wanted

    def _enter_het(
        self,
        jobs: list[Waiting],
        snapshot: Snapshot,
        ranking: Ranking,
        outcome: Plan,
        entries: list[Entry],
        wanted: list[Demand],
    ) -> None:
        """Enter a heterogeneous job once, led by its first component."""
        moving = list(ranking.moving_parts(jobs))
        keys: list[int] = []
        parts: list[het.Part] = []
        for job, more in zip(jobs, moving, strict=True):
            prepared = self._prepare_each(job, snapshot, ranking)
            if not prepared:
                text = f"partition {','.join(job.partitions)} does not exist any more"
                outcome.waits[job.job_id] = Wait(Reason.PartitionDown, text)
                continue
            tier, fixed, is_all, _ = prepared[0]
            priority = int(fixed) if is_all else bounded(int(fixed + more))
            outcome.priorities[job.job_id] = priority
            keys.append(tier - priority)
            parts.append(het.Part(job, tuple(item[3] for item in prepared)))
        if len(parts) < jobs[0].het_size:
            wait = het.incomplete(jobs)
            for job in jobs:
                outcome.waits.setdefault(job.job_id, wait)
            return
        self._het[jobs[0].het_job_id] = parts
        for part in parts:
            for demand in part.demands:
                if demand.stamp != self._pass:
                    demand.stamp = self._pass
                    wanted.append(demand)
        key = het.key_of(keys, self._het_priority)
        entries.append((key, jobs[0], parts[0].demands[0]))

    def _prepare(self, job: Waiting, snapshot: Snapshot, ranking: Ranking) -> tuple[Prepared, ...]:
        # Components of heterogeneous jobs enter the queue together.
        return () if job.het_job_id else self._prepare_each(job, snapshot, ranking)

    def _prepare_each(
        self, job: Waiting, snapshot: Snapshot, ranking: Ranking
    ) -> tuple[Prepared, ...]:
        prepared = []
        shape_id = self._demands.shape_id(job.request)
        for name in job.partitions:
            partition = snapshot.partitions.get(name)
            if partition is None:
                continue
            fixed, is_all = ranking.fixed_part(job, partition)
            first = partition.priority_tier * _TIER + self._qos_ranks.get(job.qos, 0) * _ABLE
            for demand in self._demands.each(job, shape_id, partition):
                prepared.append((-first, fixed, is_all, demand))
        return tuple(prepared)

    def _planner(
        self, snapshot: Snapshot, policy: Policy, wanted: list[Demand]
    ) -> Pools | NodePlan:
        """Return the planner for these demands: counts where those are exact, else nodes."""
        # Nodes that are reserved at times, or from which jobs may be driven, are not alike.
        are_alike = not snapshot.reservations and not policy.preempt_by
        are_alike = are_alike and not any_shares(snapshot)
        if are_alike and self._pools.fit(snapshot, wanted):
            self._pools.begin(wanted, policy.window_s)
            return self._pools
        if self._nodes is None:
            self._nodes = NodePlan(snapshot)
        self._nodes.begin(snapshot, wanted, policy.window_s)
        return self._nodes


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A walk that has not begun, its queue in order, and entries of jobs that are not in it."""

    walk: _Pass
    queue: list[Entry]
    tried: list[list[Entry]]


class _Pass:
    """One walk through the queue."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        planner: Pools | NodePlan,
        outcome: Plan,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.budget = budget
        self.planner = planner
        self.plan = outcome
        self.reserved: dict[str, int] = {}  # by partition
        self.behind: dict[str, Wait] = {}  # why jobs wait in a partition with a blocked one
        self.reservations = Promises()
        self.licenses = dict(snapshot.licenses_free)  # less what the starts of this pass take
        self.done: set[int] = set()  # jobs that need no look at their other partitions
        self.preempting: Preempting | None = None
        self.sharing: Sharing | None = None
        self.smart: Smart | None = None
        self.quotas = snapshot.limits  # of associations and QOS
        self._asks: dict[int, Ask] = {}  # by identity of the demand
        self.over: Wait | None = None  # the limit that the last attempt to start would have broken
        self.stopped: dict[str, Wait] = {}  # partitions closed by a limit: assoc_limit_stop
        self.obstacles = Obstacles(snapshot)
        self.limits: BackfillLimits | None = None
        if policy.limits_backfill:
            self.limits = BackfillLimits(policy, snapshot.now_us)
        self._promised: tuple[int, PlannedNodes] = (0, PlannedNodes())
        self.hopeless: dict[int, Wait] = {}  # by identity of a demand without room in the window
        self.het: dict[int, list[het.Part]] = {}  # by leader

    def run(self, queue: list[Entry]) -> None:
        waits, expected, behind = self.plan.waits, self.plan.expected_start_us, self.behind
        place, reserve, now_us = self.planner.place, self.reservations.append, self.snapshot.now_us
        reserves_all = self.policy.reserve_depth >= EVERY_JOB and self.budget >= len(queue)
        reserves_all = reserves_all and self.smart is None and self.limits is None
        reserves_all = reserves_all and self.quotas is None
        done = self.done
        tested = 0
        preempts = self.preempting is not None or self.sharing is not None
        claims = self.snapshot.claims
        hopeless = self.hopeless
        is_alike = reserves_all and not preempts and not claims
        if claims:
            alive = {entry[1].job_id for entry in queue}
            self.plan.lost_claims += [job_id for job_id in claims if job_id not in alive]
        wait: Wait | None
        for _, job, demand in queue:
            job_id = job.job_id
            if job_id in done:
                continue
            # Room only shrinks in a pass: where one job has none, none has that asks for the same.
            if (
                is_alike
                and (known := hopeless.get(id(demand))) is not None
                and not job.array_pending
                and not job.het_job_id
            ):
                waits.setdefault(job_id, known)
                tested += 1
                continue
            # Most jobs of a long queue are of the plainest sort: one call into the kernel.
            if (
                reserves_all
                and demand.is_plain
                and job_id not in expected
                and not job.array_pending
                and not preempts
                and not job.het_job_id
                and (wait := behind.get(demand.partition.name)) is not None
            ):
                start_us = place(demand)
                if start_us > now_us:
                    expected[job_id] = start_us
                    reserve(job_id, demand, start_us)
                    waits[job_id] = wait
                    tested += 1
                    continue
            wait = self._consider(job, demand)
            if wait is None:
                done.add(job_id)
                waits.pop(job_id, None)
                expected.pop(job_id, None)
            else:
                waits.setdefault(job_id, wait)
        self.plan.tested += tested
        if self.reservations:
            self.plan.planned_nodes = self.planner.planned_nodes(self.reservations)

    def look(self, demand: Demand) -> int:
        """Return when a job would start after those of the walk, or NO_END_US."""
        if demand.verdict is not None:
            return NO_END_US
        start_us = self.planner.find(demand)
        return start_us if start_us != NEVER else NO_END_US

    def _consider(self, job: Waiting, demand: Demand) -> Wait | None:
        """Start a job, or as many tasks of it as fit; else reserve. Return why it waits."""
        if job.het_job_id:
            return self._consider_het(self.het[job.het_job_id])
        if demand.verdict is not None:
            return demand.verdict
        if not job.tasks_left:
            return reason.ARRAY_LIMIT
        if self.plan.tested >= self.budget:
            return reason.PASS_ENDED
        name = demand.partition.name
        if self.limits is not None and name in self.behind and not self.limits.looks_at(job, name):
            return reason.PASS_ENDED
        if name in self.stopped:
            return self.stopped[name]
        if self.quotas is not None and (wait := self._over_quota(job, demand)) is not None:
            return self._stop(demand, wait)
        self.plan.tested += 1
        claim = self.snapshot.claims.get(job.job_id)
        if claim is not None and claim.is_free and not job.array_pending:
            self._start_claimed(job, demand, claim)
            return None
        if job.array_pending:
            return self._consider_array(job, demand)
        if demand.is_elastic and self._start_short(job, demand, -1):
            return None
        start_us = self.planner.find(demand)
        is_now = start_us == self.snapshot.now_us and not demand.is_elastic
        if is_now and self._start(job, demand, -1):
            return None
        if is_now and self.over is not None:
            return self._stop(demand, self.over)
        if self.sharing is not None and self._share(job, demand, -1):
            return None
        if claim is not None:
            return self._await_claim(job, claim)
        if self.preempting is not None:
            wait = self._preempt(self.preempting, job, demand, -1)
            if wait is not None:
                return wait
        return self._wait(job, demand, start_us)

    def _over_quota(self, job: Waiting, demand: Demand) -> Wait | None:
        """Return the limit of an association or QOS in a job's way; it keeps no room then."""
        if self.quotas is None:
            return None
        ask = self._asks.get(id(demand))
        if ask is None:
            ask = self._asks[id(demand)] = least_ask(demand)
        return self.quotas.may_start(job, ask, self.snapshot.now_us)

    def _stop(self, demand: Demand, wait: Wait) -> Wait:
        """With assoc_limit_stop, start nobody behind a job that waits for a limit."""
        if self.policy.stops_at_limits:
            name = demand.partition.name
            text = f"a job before it in {name} is over a limit: {wait.text}"
            self.stopped.setdefault(name, Wait(Reason.Priority, text))
        return wait

    def _breaks_limits(
        self, job: Waiting, demand: Demand, nodes: tuple[NodeAlloc, ...]
    ) -> Wait | None:
        """Return the limit that a start on these nodes, with all they have, would break."""
        if self.quotas is None:
            return None
        return self.quotas.may_start(job, given_ask(demand, nodes), self.snapshot.now_us)

    def _start_short(self, job: Waiting, demand: Demand, task_id: int) -> bool:
        """Start a job whose limit may be cut, with the longest that fits now."""
        now_us, find = self.snapshot.now_us, self.planner.find
        least, most = elastic.bounds_min(job.request, demand.duration_us, now_us)
        found = elastic.longest(demand, least, most, now_us, lambda one: find(one) == now_us)
        return found is not None and self._start(job, found, task_id)

    def _share(self, job: Waiting, demand: Demand, task_id: int) -> bool:
        """Start a job on cores that it shares with others, if it may and there is room."""
        sharing = self.sharing
        assert sharing is not None
        closed = self._promised_nodes(self.snapshot.now_us + demand.duration_us)
        start = sharing.find(job, demand, task_id, self.licenses, closed)
        if start is None or self._breaks_limits(job, demand, start.nodes) is not None:
            return False
        assert isinstance(self.planner, NodePlan)
        self.planner.give(demand, own_part(start.nodes, sharing))
        if self.quotas is not None:
            self.quotas.took(job, given_ask(demand, start.nodes))
        for name, count in demand.licenses:
            self.licenses[name] = self.licenses.get(name, 0) - count
        self.plan.starts.append(replace(start, licenses=chosen_licenses(job, demand)))
        return True

    def _start_claimed(self, job: Waiting, demand: Demand, claim: Claim) -> None:
        """Start a job on what it has preempted others for."""
        if self.quotas is not None:
            self.quotas.took(job, given_ask(demand, claim.nodes))
        self.plan.starts.append(
            Start(
                job_id=job.job_id,
                task_id=-1,
                partition=claim.partition,
                nodes=claim.nodes,
                batch_node_id=claim.nodes[0].node_id,
                total_tasks=claim.total_tasks,
                licenses=chosen_licenses(job, demand),
            )
        )

    def _await_claim(self, job: Waiting, claim: Claim) -> Wait:
        """Say whom a job still waits for; nobody, and it must look for room anew."""
        if not claim.leaving and job.job_id not in self.plan.lost_claims:
            self.plan.lost_claims.append(job.job_id)
        self.plan.expected_start_us.setdefault(job.job_id, self.snapshot.now_us)
        return reason.preempting(claim.leaving)

    def _preempt(
        self, preempting: Preempting, job: Waiting, demand: Demand, task_id: int
    ) -> Wait | None:
        """Make others leave for a job, if that lets it start; return that it waits for them."""
        if not preempting.is_able(job, demand):
            return None
        closed = self._promised_nodes(self.snapshot.now_us + demand.duration_us)
        found = preempting.find(
            job,
            demand,
            task_id,
            self.licenses,
            closed,
            # Nobody leaves for a job that a limit would keep from starting even then.
            lambda nodes: self._breaks_limits(job, demand, nodes) is None,
        )
        if found is None:
            return None
        assert isinstance(self.planner, NodePlan)
        self.planner.give(demand, found.start.nodes)
        if self.quotas is not None:
            self.quotas.took(job, given_ask(demand, found.start.nodes))
        if task_id < 0:
            self.done.add(job.job_id)
        for name, count in demand.licenses:
            self.licenses[name] = self.licenses.get(name, 0) - count
        if task_id < 0:
            self.plan.expected_start_us.setdefault(job.job_id, self.snapshot.now_us)
        return reason.preempting([job_id for job_id, _ in found.victims])

    def promised_nodes(self, demand: Demand) -> frozenset[int]:
        """Return the nodes promised to others for a time in which such a job would run now."""
        return self._promised_nodes(self.snapshot.now_us + demand.duration_us)

    def _promised_nodes(self, until_us: int) -> frozenset[int]:
        """Return the nodes that jobs before this one were promised for a time before `until_us`."""
        if not self.reservations:
            return frozenset()
        if self._promised[0] != len(self.reservations):
            found = self.planner.planned_nodes(self.reservations)
            self._promised = len(self.reservations), found
        nodes = self._promised[1]
        return frozenset(
            node_id
            for job_id, _, start_us in self.reservations
            if start_us < until_us
            for node_id in nodes.get(job_id, ())
        )

    def _consider_het(self, parts: list[het.Part]) -> Wait | None:
        """Start all components of a job, or keep room for all at one later moment."""
        waits = {part.job.job_id: self._het_verdict(part) for part in parts}
        if any(waits.values()):
            return self._het_waits(parts, waits)
        self.plan.tested += len(parts)
        now_us = self.snapshot.now_us
        depth = self.policy.reserve_depth
        names = {demand.partition.name for part in parts for demand in part.hopeful}
        reserves = all(self.reserved.get(name, 0) < depth for name in names)
        accepts = self._het_accepted if self.quotas is not None else None
        found = het.common_start(self.planner, parts, now_us, reserves=reserves, accepts=accepts)
        if not found.is_accepted:
            return self._het_waits(parts, dict.fromkeys(waits, self.over))
        for item in found.placed:
            job_id, name = item.part.job.job_id, item.demand.partition.name
            if item.nodes is not None:
                self._start_on(item.part.job, item.demand, -1, item.nodes)
                continue
            if reserves:
                self.reserved[name] = self.reserved.get(name, 0) + 1
                self.reservations.append(job_id, item.demand, found.start_us)
            self.plan.expected_start_us[job_id] = found.start_us
        if found.start_us == now_us:
            return None
        for part in parts:
            waits[part.job.job_id] = self._het_wait(part, found.start_us)
        return self._het_waits(parts, waits)

    def _het_accepted(self, placed: list[het.Placed]) -> bool:
        """Return whether no limit is in the way of all components together."""
        assert self.quotas is not None
        asked = []
        for item in placed:
            job = item.part.job
            asked.append((job, given_ask(item.demand, item.nodes or ())))
        self.over = self.quotas.may_start_all(asked, self.snapshot.now_us)
        return self.over is None

    def _het_verdict(self, part: het.Part) -> Wait | None:
        """Return why a component cannot start however long it waits, if so."""
        if self.plan.tested >= self.budget:
            return reason.PASS_ENDED
        if not part.hopeful:
            return part.demands[0].verdict
        return self._over_quota(part.job, part.hopeful[0])

    def _het_wait(self, part: het.Part, start_us: int) -> Wait:
        demand = part.hopeful[0]
        if start_us == NEVER:
            return reason.never(demand)
        if any(self.licenses.get(name, 0) < count for name, count in demand.licenses):
            return reason.licenses(demand, self.licenses)
        name = demand.partition.name
        wait = self.behind.get(name)
        if wait is None:
            self.behind[name] = reason.behind(part.job.job_id, name)
            return reason.resources(demand)
        return wait

    def _het_waits(self, parts: list[het.Part], waits: Mapping[int, Wait | None]) -> Wait:
        """Note why each component waits; return the first reason."""
        first = next(wait for wait in waits.values() if wait is not None)
        for part in parts:
            self.plan.waits.setdefault(part.job.job_id, waits[part.job.job_id] or first)
        return waits[parts[0].job.job_id] or first

    def _consider_array(self, job: Waiting, demand: Demand) -> Wait | None:
        tasks = task_ranges.tasks(job.array_pending)
        wait: Wait | None = None
        leaving: Wait | None = None
        reserved = 0
        for _ in range(job.tasks_left):
            over = self._over_quota(job, demand)
            if over is not None:
                return wait or over
            task_id = next(tasks)
            if demand.is_elastic and wait is None and self._start_short(job, demand, task_id):
                continue
            start_us = self.planner.find(demand)
            is_now = start_us == self.snapshot.now_us and not demand.is_elastic
            if is_now and wait is None and self._start(job, demand, task_id):
                continue
            if is_now and wait is None and self.over is not None:
                return self._stop(demand, self.over)
            may_share = self.sharing is not None and wait is None and leaving is None
            if may_share and self._share(job, demand, task_id):
                continue
            if self.preempting is not None and wait is None:
                found = self._preempt(self.preempting, job, demand, task_id)
                if found is not None:
                    leaving = found
                    continue
            promised = self._wait(job, demand, start_us)
            wait = wait or promised
            reserved += 1
            if reserved >= self.policy.array_depth or start_us == NEVER:
                break
        wait = wait or leaving
        if wait is None and task_ranges.count(job.array_pending) > job.tasks_left:
            return reason.ARRAY_LIMIT
        return wait

    def _start(self, job: Waiting, demand: Demand, task_id: int) -> bool:
        is_behind = demand.partition.name in self.behind
        if is_behind and self.limits is not None and not self.limits.may_start():
            return False
        self.over = None
        if self.quotas is None:
            allocs = self.planner.start(demand)
        else:
            allocs = self._start_within(job, demand)
        if allocs is None:
            return False
        self._start_on(job, demand, task_id, allocs)
        return True

    def _start_within(self, job: Waiting, demand: Demand) -> tuple[NodeAlloc, ...] | None:
        """Take what a job gets unless that breaks a limit, which is `over` then."""
        self.planner.begin_trial()
        allocs = self.planner.start(demand)
        if allocs is not None:
            self.over = self._breaks_limits(job, demand, allocs)
        if allocs is None or self.over is not None:
            self.planner.roll_back()
            return None
        self.planner.keep()
        return allocs

    def _start_on(
        self, job: Waiting, demand: Demand, task_id: int, allocs: tuple[NodeAlloc, ...]
    ) -> None:
        """Note a start on what the planner has given."""
        if self.quotas is not None:
            self.quotas.took(job, given_ask(demand, allocs))
        for name, count in demand.licenses:
            self.licenses[name] = self.licenses.get(name, 0) - count
        is_behind = demand.partition.name in self.behind
        if is_behind and self.limits is not None:
            self.limits.started()
        self.plan.starts.append(
            Start(
                job_id=job.job_id,
                task_id=task_id,
                partition=demand.partition.name,
                nodes=allocs,
                batch_node_id=batch_node(job.request, allocs, self.snapshot.features),
                total_tasks=max(demand.need.tasks, sum(alloc.tasks for alloc in allocs)),
                scheduler="Backfill" if is_behind else "Main",
                time_limit_min=demand.limit_min,
                licenses=chosen_licenses(job, demand),
                het_job_id=job.het_job_id,
                tenant=tenant_of(job.request, demand.partition, job.uid),
            )
        )

    def _misses_deadline(self, job: Waiting, demand: Demand, start_us: int) -> bool:
        """Return whether a job that starts then is not over by its deadline: no room is kept."""
        least, most = elastic.bounds_min(job.request, demand.duration_us, start_us)
        return most < least

    def _may_reserve(self, job: Waiting, partition: Partition, depth: int) -> bool:
        """Return whether a job may be promised room; `depth` others of its partition were."""
        priority = self.plan.priorities.get(job.job_id, 0)
        if self.limits is not None and not self.limits.may_reserve(job, priority):
            return False
        if self.quotas is not None and not self.quotas.may_reserve(job, partition, priority):
            return False
        if self.smart is not None:
            return self.smart.may_reserve(job.job_id, depth)
        return depth < self.policy.reserve_depth

    def _wait(self, job: Waiting, demand: Demand, start_us: int) -> Wait:
        """Reserve room for a job that cannot start now, and say why it waits."""
        name = demand.partition.name
        asked, lies_badly = demand.need, self.planner.lies_badly
        demand, start_us = self._patient(job, demand, start_us)
        if job.request.deadline_us and self._misses_deadline(job, demand, start_us):
            return reason.deadline(job.request.deadline_us, self.snapshot.now_us)
        if start_us == NEVER:
            hopeless = self._never(job, demand, lies_badly=lies_badly)
            if demand.is_plain and demand.loose is None and not demand.need.sharing:
                self.hopeless[id(demand)] = hopeless
            return hopeless
        depth = self.reserved.get(name, 0)
        is_first = job.job_id not in self.plan.expected_start_us
        if (
            self._may_reserve(job, demand.partition, depth)
            and start_us > self.snapshot.now_us
            and (is_first or job.array_pending)
        ):
            self.reserved[name] = depth + 1
            self.planner.take(demand, start_us)
            self.reservations.append(job.job_id, demand, start_us)
        self.plan.expected_start_us.setdefault(job.job_id, start_us)
        if any(self.licenses.get(name, 0) < count for name, count in demand.licenses):
            return reason.licenses(demand, self.licenses)
        wait = self._kept_by_reservation(demand) or self.behind.get(name)
        if wait is None:
            self.behind[name] = reason.behind(job.job_id, name)
            return reason.topology(asked) if lies_badly else reason.resources(demand)
        return wait

    def _patient(self, job: Waiting, demand: Demand, start_us: int) -> tuple[Demand, int]:
        """Return what a job starts as, and when: few switches, or any once it has waited enough."""
        loose = demand.loose
        if loose is None or loose.stamp != demand.stamp or NEVER < start_us <= job.patience_us:
            return demand, start_us
        found_us = self.planner.find_from(loose, max(job.patience_us, self.snapshot.now_us))
        if found_us == NEVER or NEVER < start_us <= found_us:
            return demand, self.planner.find(demand)
        return loose, found_us

    def _never(self, job: Waiting, demand: Demand, *, lies_badly: bool) -> Wait:
        """Return why there is no room for a job in the whole window."""
        if lies_badly:
            return reason.topology(demand.need)
        return (
            self._kept_by_reservation(demand)
            or self.obstacles.lasting(job.request, demand)
            or reason.never(demand)
        )

    def _kept_by_reservation(self, demand: Demand) -> Wait | None:
        """Return the reservation but for which a job would start now, if there is one."""
        if not self.snapshot.reservations:
            return None

        def taken() -> frozenset[int]:
            nodes = {alloc.node_id for start in self.plan.starts for alloc in start.nodes}
            return self._promised_nodes(self.snapshot.now_us + demand.duration_us) | nodes

        return self.obstacles.reservation(demand, taken)


plan = Planner()
"""The pass of this process."""
