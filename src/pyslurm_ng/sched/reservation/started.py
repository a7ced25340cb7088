"""What is left of a cluster, and of jobs, once some have started, or are to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from pyslurm_ng.model import gres_parts, task_ranges
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.partition import opened
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.demand.demand import limit_us
from pyslurm_ng.sched.frame.job_records import NO_END_US, Running, Waiting
from pyslurm_ng.sched.frame.licenses import LicensesInside
from pyslurm_ng.sched.frame.plan import Plan, Start
from pyslurm_ng.sched.frame.reserved import REST
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.reservation_view import longest_us


def left_of(job: Waiting, task_ids: list[int]) -> Waiting | None:
    """Return what of a job has not started: the other tasks of an array."""
    if not task_ids:
        return job
    if not job.array_pending or job.tasks_left <= len(task_ids):
        return None
    ranges = job.array_pending
    for task_id in task_ids:
        ranges = task_ranges.remove(ranges, task_id)
    task_count = job.tasks_left - len(task_ids)
    return dataclasses.replace(job, array_pending=ranges, tasks_left=task_count)


def after_starts(
    snapshot: Snapshot,
    reservation: Reservation,
    starts: list[Start],
    jobs: dict[int, Waiting],
    cut_us: int = NO_END_US,
) -> Snapshot:
    """Return a snapshot in which the jobs that start run already.

    Args:
        cut_us: when all of it is ended.
    """
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
            for devices in alloc.gres:
                gres_parts.hold(busy, used, devices)
            fresh.gres_busy[node_id], fresh.gres_used[node_id] = busy, used
        licenses = start.licenses or job.request.licenses
        _take_licenses(fresh, inside, job, reservation.name, licenses)
        partition = opened(snapshot.partitions[start.partition], snapshot.qos.get(job.qos))
        end_us = min(snapshot.now_us + limit_us(job.time_limit_min, partition), cut_us)
        fresh.running.append(
            Running(job.job_id, end_us, start.nodes, licenses, tenant=start.tenant)
        )
    return fresh


def _take_licenses(
    fresh: Snapshot,
    inside: dict[str, LicensesInside],
    job: Waiting,
    reservation_name: str,
    licenses: str,
) -> None:
    """Take licences out of a reservation as far as that has some, else of all."""
    inside_licenses = inside.get(reservation_name)
    for name, count in license_counts(licenses):
        kept = min(count, inside_licenses.left.get(name, 0)) if inside_licenses is not None else 0
        fresh.licenses_free[name] = fresh.licenses_free.get(name, 0) - count + kept
        if inside_licenses is not None and kept:
            counts = inside_licenses.left | {name: inside_licenses.left[name] - kept}
            taken = inside_licenses.taken | {name: inside_licenses.taken.get(name, 0) + count}
            inside_licenses = inside[reservation_name] = LicensesInside(
                counts, taken, inside_licenses.job_ids | {job.job_id}
            )


def beyond(
    snapshot: Snapshot, reservation: Reservation, plan: Plan, jobs: Iterable[Waiting], cut_us: int
) -> Iterator[Reservation]:
    """Yield reservations that keep nodes for jobs which are to start in one and outlive its end.

    Args:
        cut_us: when they are ended.
    """
    for job in jobs:
        start_us = plan.expected_start_us.get(job.job_id, 0)
        if not snapshot.now_us < start_us < NO_END_US:
            continue
        end_us = min(start_us + longest_us(snapshot, job), max(cut_us, start_us + 1))
        until_us = max(
            (end for begin, end in reservation.occurrences() if begin <= start_us), default=0
        )
        nodes = plan.planned_nodes.nodes_of(job.job_id) if end_us > until_us else ()
        if nodes:
            yield Reservation(REST, start_us, end_us, nodes)


def with_reservations(snapshot: Snapshot, more: Iterable[Reservation]) -> Snapshot:
    """Return a snapshot with some reservations more."""
    return dataclasses.replace(snapshot, reservations=(*snapshot.reservations, *more))
