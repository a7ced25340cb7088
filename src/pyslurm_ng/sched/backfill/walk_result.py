"""The starts and promises that a walk through the queue has given to jobs so far."""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.backfill.depth import BackfillLimits
from pyslurm_ng.sched.backfill.promised_room import PromisedRoom
from pyslurm_ng.sched.backfill.strict_order import StrictOrder
from pyslurm_ng.sched.cons_tres.rows import Sharing
from pyslurm_ng.sched.cons_tres.starting import start_of
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Claim, Waiting
from pyslurm_ng.sched.frame.plan import Plan, Start, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.limits.asks import chosen_licenses
from pyslurm_ng.sched.limits.gate import LimitGate
from pyslurm_ng.sched.preemption.preempt import Preempting
from pyslurm_ng.sched.timeline.finding import Finding, left_by_others
from pyslurm_ng.sched.timeline.room_planner import RoomPlanner


class WalkResult:
    """Starts and kept room: each is entered in the plan, the planner, the limits and licences.

    `preempting` is set where jobs may be preempted, `sharing` where cores may be shared, `strict`
    where no room is planned ahead.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        planner: RoomPlanner,
        outcome: Plan,
    ) -> None:
        """Begin with nothing given; `budget` is how many jobs may be looked at."""
        self.snapshot = snapshot
        self.policy = policy
        self.budget = budget
        self.planner = planner
        self.plan = outcome
        self.preempting: Preempting | None = None
        self.sharing: Sharing | None = None
        self.strict: StrictOrder | None = None
        self.done: set[int] = set()  # jobs that need no look at their other partitions
        self.over: Wait | None = None  # the limit that the last attempt to start would have broken
        self.gate = LimitGate(snapshot.limits, stops=policy.stops_at_limits)
        self._limits: BackfillLimits | None = None
        if policy.limits_backfill:
            self._limits = BackfillLimits(policy, snapshot.now_us)
        self.room = PromisedRoom(snapshot, policy, planner, outcome, self.gate, self._limits)

    def start_on(
        self, job: Waiting, demand: Demand, task_id: int, allocs: tuple[NodeAlloc, ...]
    ) -> None:
        """Note a start on what the planner has given."""
        self.gate.took(job, demand, allocs)
        self.room.take_licenses(demand)
        is_behind = demand.partition.name in self.room.behind
        if is_behind and self._limits is not None:
            self._limits.started()
        self.plan.starts.append(
            start_of(
                job,
                demand,
                task_id,
                allocs,
                self.snapshot.features,
                "Backfill" if is_behind else "Main",
            )
        )

    def start_claimed(self, job: Waiting, demand: Demand, claim: Claim) -> None:
        """Start a job on what it has preempted others for."""
        self.gate.took(job, demand, claim.nodes)
        self.plan.starts.append(
            Start(
                job_id=job.job_id,
                task_id=-1,
                partition=claim.partition,
                nodes=claim.nodes,
                batch_node_id=claim.nodes[0].node_id,
                total_tasks=claim.total_tasks,
                time_limit_min=demand.limit_min,
                licenses=chosen_licenses(job, demand),
                het_job_id=job.het_job_id,
            )
        )

    def wait(self, job: Waiting, finding: Finding) -> Wait:
        """Return why a job waits that cannot start now, and keep room for it or close what it must.

        Args:
            finding: what was found for it.
        """
        if self.strict is not None:
            return self.strict.wait(job, finding)
        return self.room.wait(job, finding)

    def give_up(self, lost: Iterable[Claim]) -> None:
        """Release what jobs have preempted others for and no longer need."""
        for claim in lost:
            if claim.job_id not in self.plan.lost_claims:
                self.plan.lost_claims.append(claim.job_id)

    def give(self, demand: Demand, job: Waiting, nodes: tuple[NodeAlloc, ...]) -> None:
        """Take for a job what others leave for it."""
        self.planner.start(left_by_others(demand, self.snapshot.now_us, nodes))
        self.gate.took(job, demand, nodes)
        self.room.take_licenses(demand)
