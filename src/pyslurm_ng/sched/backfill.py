"""Conservative backfill over the whole queue: every job gets a start or a reservation.

Jobs are taken in priority order against free resources over time. What fits now starts; what does
not is given the earliest room there is, and later jobs take only what is left, so nobody is
delayed by a job of lower priority. With `bf_reserve_depth` only the first waiting jobs of each
partition get a reservation, the others just an estimate.

Source: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyslurm_ng._select import NEVER
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched import first_fit, reason
from pyslurm_ng.sched.demand import Demand, Demands
from pyslurm_ng.sched.node_plan import NodePlan
from pyslurm_ng.sched.plan import Plan, PlannedNodes, Start, Wait
from pyslurm_ng.sched.policy import Policy
from pyslurm_ng.sched.pools import Pools
from pyslurm_ng.sched.priority import Ranking
from pyslurm_ng.sched.snapshot import Snapshot, Waiting

Entry = tuple[int, int, int, int, int, Waiting, Demand]
_NO_BUDGET = 1 << 62


class Planner:
    """Passes one after another; what does not depend on time is remembered between them."""

    def __init__(self) -> None:
        self._demands = Demands()
        self._pools = Pools()
        self._nodes: NodePlan | None = None
        self._generation = 0

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
        if not policy.backfills or snapshot.reservations:  # time lines do not know those yet
            return first_fit.plan(snapshot, policy, budget, fairshare)
        self._demands.begin(snapshot, policy)
        if self._demands.generation != self._generation:
            self._pools = Pools()
            self._nodes = None
            self._generation = self._demands.generation
        outcome = Plan()
        ranking = Ranking(snapshot, policy, fairshare)
        queue = sorted(_entries(snapshot, self._demands, ranking, outcome), key=_order)
        wanted = list({id(entry[6]): entry[6] for entry in queue}.values())
        planner = self._planner(snapshot, policy, wanted)
        _Pass(snapshot, policy, min(budget, policy.test_depth), planner, outcome).run(queue)
        return outcome

    def _planner(
        self, snapshot: Snapshot, policy: Policy, wanted: list[Demand]
    ) -> Pools | NodePlan:
        """Return the planner for these demands: counts where those are exact, else nodes."""
        for demand in wanted:
            demand.tries_us = snapshot.now_us
        if self._pools.fit(snapshot, wanted):
            self._pools.begin(wanted)
            return self._pools
        if self._nodes is None:
            self._nodes = NodePlan(snapshot)
        self._nodes.begin(snapshot, wanted, policy.window_s)
        return self._nodes


def _order(entry: Entry) -> tuple[int, int, int, int, int]:
    return entry[:5]


def _entries(
    snapshot: Snapshot, demands: Demands, ranking: Ranking, outcome: Plan
) -> Iterator[Entry]:
    """Yield one entry per job and partition, led by its place in the queue."""
    partitions, priorities = snapshot.partitions, outcome.priorities
    for job in snapshot.waiting:
        shape_id = demands.shape_id(job.request)
        for place, name in enumerate(job.partitions):
            partition = partitions.get(name)
            if partition is None:
                text = f"partition {name} does not exist any more"
                outcome.waits[job.job_id] = Wait(Reason.PartitionDown, text)
                continue
            priority = ranking.priority(job, partition)
            priorities.setdefault(job.job_id, priority)
            demand = demands.of(job, shape_id, partition)
            tier = -partition.priority_tier
            yield tier, -priority, job.submit_us, job.job_id, place, job, demand


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
        self.end_us = snapshot.now_us + policy.window_s * 1_000_000
        self.reserved: dict[str, int] = {}  # by partition
        self.behind: dict[str, Wait] = {}  # why jobs wait in a partition with a blocked one
        self.reservations: list[tuple[int, Demand, int]] = []
        self.licenses = dict(snapshot.licenses_free)  # less what the starts of this pass take

    def run(self, queue: list[Entry]) -> None:
        waits = self.plan.waits
        done: set[int] = set()
        for _, _, _, job_id, _, job, demand in queue:
            if job_id in done:
                continue
            wait = self._consider(job, demand)
            if wait is None:
                done.add(job_id)
                waits.pop(job_id, None)
            else:
                waits.setdefault(job_id, wait)
        reservations, planner = self.reservations, self.planner
        if reservations:
            self.plan.planned_nodes = PlannedNodes(lambda: planner.planned_nodes(reservations))

    def _consider(self, job: Waiting, demand: Demand) -> Wait | None:
        """Start a job, or as many tasks of it as fit; else reserve. Return why it waits."""
        if demand.verdict is not None:
            return demand.verdict
        if not job.tasks_left:
            return reason.ARRAY_LIMIT
        if self.plan.tested >= self.budget:
            return reason.PASS_ENDED
        self.plan.tested += 1
        if job.array_pending:
            return self._consider_array(job, demand)
        start_us = self._find(demand)
        if start_us == self.snapshot.now_us and self._start(job, demand, -1):
            return None
        return self._wait(job, demand, start_us)

    def _consider_array(self, job: Waiting, demand: Demand) -> Wait | None:
        tasks = task_ranges.tasks(job.array_pending)
        wait: Wait | None = None
        reserved = 0
        for _ in range(job.tasks_left):
            start_us = self._find(demand)
            is_now = start_us == self.snapshot.now_us
            if is_now and wait is None and self._start(job, demand, next(tasks)):
                continue
            found = self._wait(job, demand, start_us)
            wait = wait or found
            reserved += 1
            if reserved >= self.policy.array_depth or start_us == NEVER:
                break
        if wait is None and task_ranges.count(job.array_pending) > job.tasks_left:
            return reason.ARRAY_LIMIT
        return wait

    def _find(self, demand: Demand) -> int:
        """Return the earliest start there is room for; it never moves to the left in a pass."""
        start_us = self.planner.find(demand)
        if start_us == NEVER or start_us >= self.end_us:
            demand.tries_us = self.end_us
            return NEVER
        demand.tries_us = start_us
        return start_us

    def _start(self, job: Waiting, demand: Demand, task_id: int) -> bool:
        allocs = self.planner.start(demand)
        if allocs is None:
            return False
        for name, count in demand.licenses:
            self.licenses[name] = self.licenses.get(name, 0) - count
        is_behind = demand.partition.name in self.behind
        self.plan.starts.append(
            Start(
                job_id=job.job_id,
                task_id=task_id,
                partition=demand.partition.name,
                nodes=allocs,
                batch_node_id=allocs[0].node_id,
                total_tasks=max(demand.need.tasks, sum(alloc.tasks for alloc in allocs)),
                scheduler="Backfill" if is_behind else "Main",
            )
        )
        return True

    def _wait(self, job: Waiting, demand: Demand, start_us: int) -> Wait:
        """Reserve room for a job that cannot start now, and say why it waits."""
        name = demand.partition.name
        if start_us == NEVER:
            return reason.never(demand)
        depth = self.reserved.get(name, 0)
        is_first = job.job_id not in self.plan.expected_start_us
        if depth < self.policy.reserve_depth and (is_first or job.array_pending):
            self.reserved[name] = depth + 1
            self.planner.take(demand, start_us)
            self.reservations.append((job.job_id, demand, start_us))
        self.plan.expected_start_us.setdefault(job.job_id, start_us)
        if any(self.licenses.get(name, 0) < count for name, count in demand.licenses):
            return reason.licenses(demand, self.licenses)
        wait = self.behind.get(name)
        if wait is None:
            self.behind[name] = reason.behind(job.job_id, name)
            return reason.resources(demand)
        return wait


plan = Planner()
"""The pass of this process."""
