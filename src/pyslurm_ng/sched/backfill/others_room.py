"""Starts on what other jobs have: cores that are shared, and room that victims leave."""

from __future__ import annotations

from pyslurm_ng.sched.backfill.walk_result import WalkResult
from pyslurm_ng.sched.cons_tres.rows import Sharing, own_part
from pyslurm_ng.sched.demand import elastic, reason
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Claim, Waiting
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.preemption.preempt import Preempting
from pyslurm_ng.sched.timeline.finding import left_by_others


def share(walk: WalkResult, sharing: Sharing, job: Waiting, demand: Demand, task_id: int) -> bool:
    """Start a job on cores that it shares with others, if it may and there is room."""
    in_time = elastic.in_time(demand, job.request, walk.snapshot.now_us)
    if in_time is None:
        return False
    demand = in_time
    closed = walk.room.promised_nodes(demand)
    start = sharing.find(job, demand, task_id, walk.room.licenses, closed)
    if start is None:
        return False
    walk.over = walk.gate.over_given(job, demand, start.nodes)
    if walk.over is not None:
        return False
    own = own_part(start.nodes, sharing)
    walk.planner.start(left_by_others(demand, walk.snapshot.now_us, own))
    walk.gate.took(job, demand, start.nodes)
    walk.room.take_licenses(demand)
    walk.plan.starts.append(start)
    return True


def await_claim(walk: WalkResult, job: Waiting, demand: Demand, claim: Claim) -> Wait:
    """Say which jobs a job still waits for; if none, it must look for room again."""
    if not claim.leaving:
        walk.give_up([claim])
    else:
        walk.gate.took(job, demand, claim.nodes)
    walk.plan.expected_start_us.setdefault(job.job_id, walk.snapshot.vacated_us(claim))
    return reason.preempting(claim.leaving)


def preempt(
    walk: WalkResult, preempting: Preempting, job: Waiting, demand: Demand, task_id: int
) -> Wait | None:
    """Make other jobs leave if that lets a job start; return why it waits, None if none leaves."""
    in_time = elastic.in_time(demand, job.request, walk.snapshot.now_us)
    if in_time is None or not preempting.is_able(job, in_time):
        return None
    demand = in_time
    preemption = preempting.find(
        job,
        demand,
        task_id,
        walk.room.licenses,
        walk.room.promised_nodes(demand),
        # No job leaves for one that a limit would keep from starting even then.
        lambda nodes: walk.gate.over_given(job, demand, nodes) is None,
    )
    if preemption is None:
        return None
    walk.give(demand, job, preemption.start.nodes)
    if task_id < 0:
        walk.done.add(job.job_id)
        walk.plan.expected_start_us.setdefault(job.job_id, walk.snapshot.now_us)
    return reason.preempting([job_id for job_id, _ in preemption.victims])
