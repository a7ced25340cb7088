"""First the jobs inside reservations, then all others on what is left.

Nodes of a reservation in force belong to its jobs alone, so those jobs are placed first, job by
job, in the order of the queue. What is left, with the reserved times closed, is a timeline like
any other and left to backfill.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyslurm_ng.model import gres_parts, task_ranges
from pyslurm_ng.model.cluster import license_counts
from pyslurm_ng.model.partition import opened
from pyslurm_ng.sched import first_fit, reserved
from pyslurm_ng.sched.demand import limit_us
from pyslurm_ng.sched.plan import Plan, Start
from pyslurm_ng.sched.policy import Policy
from pyslurm_ng.sched.reserved_licenses import LicensesInside
from pyslurm_ng.sched.snapshot import Running, Snapshot, Waiting


def plan_inside(
    snapshot: Snapshot,
    policy: Policy,
    budget: int,
    fairshare: Mapping[int, float] | None = None,
) -> tuple[Plan, Snapshot]:
    """Return a plan for jobs inside reservations and the snapshot that remains for the others.

    A job that a magnetic reservation draws but cannot hold is among the others, too.
    """
    inside = [job for job in snapshot.waiting if job.request.reservation]
    magnets = [item for item in snapshot.reservations if "MAGNETIC" in item.flags]
    if not inside and not magnets:
        return Plan(), snapshot
    others: list[Waiting] = []
    drawn: dict[int, Waiting] = {}
    inside = []
    for job in snapshot.waiting:
        if job.request.reservation:
            inside.append(job)
        elif (
            magnets and not job.het_job_id and reserved.places(magnets, job) != (reserved.OUTSIDE,)
        ):
            inside.append(job)
            drawn[job.job_id] = job
        else:
            others.append(job)
    view = dataclasses.replace(snapshot, waiting=inside)
    plan = first_fit.plan(view, policy, budget, fairshare, only_inside=True)
    plan.tested = len(inside)  # backfill counts jobs, not node tests
    by_id = {job.job_id: job for job in inside}
    for job_id, job in drawn.items():
        plan.waits.pop(job_id, None)
        left = _left(job, [start.task_id for start in plan.starts if start.job_id == job_id])
        if left is not None:
            others.append(left)
    rest = dataclasses.replace(_held(snapshot, plan.starts, by_id), waiting=others)
    return plan, rest


def _left(job: Waiting, task_ids: list[int]) -> Waiting | None:
    """Return what of a job has not started: the other tasks of an array."""
    if not task_ids:
        return job
    if not job.array_pending or job.tasks_left <= len(task_ids):
        return None
    ranges = job.array_pending
    for task_id in task_ids:
        ranges = task_ranges.remove(ranges, task_id)
    left = job.tasks_left - len(task_ids)
    return dataclasses.replace(job, array_pending=ranges, tasks_left=left)


def _held(snapshot: Snapshot, starts: list[Start], jobs: dict[int, Waiting]) -> Snapshot:
    """Return a snapshot in which what starts runs already."""
    if not starts:
        return snapshot
    fresh = dataclasses.replace(
        snapshot,
        cpus_free=snapshot.cpus_free[:],
        mem_free_mib=snapshot.mem_free_mib[:],
        cores_busy=snapshot.cores_busy[:],
        gres_busy=snapshot.gres_busy[:],
        gres_used=snapshot.gres_used[:],
        in_use=snapshot.in_use[:],
        running=snapshot.running[:],
        licenses_free=dict(snapshot.licenses_free),
    )
    inside = dict(snapshot.licenses_inside)
    fresh = dataclasses.replace(fresh, licenses_inside=inside)
    for start in starts:
        job = jobs[start.job_id]
        for alloc in start.nodes:
            node_id = alloc.node_id
            fresh.in_use[node_id] = 1
            fresh.cpus_free[node_id] -= alloc.cpus
            fresh.mem_free_mib[node_id] -= alloc.mem_mib
            fresh.cores_busy[node_id] |= int.from_bytes(alloc.cores, "little")
            busy, used = dict(fresh.gres_busy[node_id]), dict(fresh.gres_used[node_id])
            for held in alloc.gres:
                gres_parts.hold(busy, used, held)
            fresh.gres_busy[node_id], fresh.gres_used[node_id] = busy, used
        licenses = start.licenses or job.request.licenses
        _take_licenses(fresh, inside, job, licenses)
        partition = opened(snapshot.partitions[start.partition], snapshot.qos.get(job.qos))
        end_us = snapshot.now_us + limit_us(job.time_limit_min, partition)
        fresh.running.append(
            Running(job.job_id, end_us, start.nodes, licenses, tenant=start.tenant)
        )
    return fresh


def _take_licenses(
    fresh: Snapshot, inside: dict[str, LicensesInside], job: Waiting, licenses: str
) -> None:
    """Take licences out of the job's reservation as far as that has some, else of all."""
    place = job.request.reservation.partition(",")[0]
    one = inside.get(place)
    for name, count in license_counts(licenses):
        kept = min(count, one.left.get(name, 0)) if one is not None else 0
        fresh.licenses_free[name] = fresh.licenses_free.get(name, 0) - count + kept
        if one is not None and kept:
            left = one.left | {name: one.left[name] - kept}
            taken = one.taken | {name: one.taken.get(name, 0) + count}
            one = inside[place] = LicensesInside(left, taken, one.job_ids | {job.job_id})
