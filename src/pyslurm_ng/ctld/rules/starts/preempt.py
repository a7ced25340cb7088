"""Carries out preemption: victims are warned, ended, requeued or suspended; claims kept or lost.

A plan's preemption is checked again, whole: either all its victims leave, or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pyslurm_ng.base.numbers import (
    REQ_SIGNAL_BATCH,
    SECOND_US,
    SIGCONT,
    SIGNAL_BATCH_ONLY,
    SIGNAL_FULL,
    SIGNAL_PREEMPTED,
    SIGNAL_STEPS_ONLY,
    SIGTERM,
)
from pyslurm_ng.ctld.rules.ends import job_end, node_loss
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.ctld.rules.starts.dispatch import collide, may_start_in, reservation_of
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import SUSPENDED_BY_GANG, Job, NodeAlloc, is_completing
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import schedulable_mem_mib
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.sched.frame.plan import Preemption, Start
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.reserved import gives_way
from pyslurm_ng.sched.preemption.modes import grace_s

_GONE = (JobState.RUNNING, JobState.SUSPENDED)


def split(
    cluster: Cluster, preemption: Preemption, now_us: int
) -> tuple[list[ev.AnyEvent], Preemption | None]:
    """Return the events that make a waiting array's task a job that others can be preempted for.

    The caller applies the events before it goes on with the preemption returned.
    """
    job = cluster.jobs.get(preemption.start.job_id)
    if job is None or not job.array_pending:
        return [], preemption
    task_id = preemption.start.task_id
    if not may_start_in(cluster, job, preemption.start.partition) or not task_ranges.contains(
        job.array_pending, task_id
    ):
        return [], None
    job_id = job.job_id
    if task_ranges.count(job.array_pending) > 1:
        job_id = free_job_id(cluster)
    start = dataclasses.replace(preemption.start, job_id=job_id, task_id=-1)
    events: list[ev.AnyEvent] = [ev.ArrayTaskSplit(now_us, job.job_id, task_id, job_id)]
    return events, dataclasses.replace(preemption, start=start)


def preempt(
    cluster: Cluster, preemption: Preemption, policy: Policy, now_us: int
) -> list[ev.AnyEvent] | None:
    """Return the events that make victims leave and keep their room; None if that would not help.

    Without a claim among the events the start may follow at once: all victims are suspended.
    """
    starts = (preemption.start, *preemption.together)
    if not all(_still_holds(cluster, start, preemption.victims, now_us) for start in starts):
        return None
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    ended: list[tuple[Job, JobState]] = []
    for victim_id, mode in preemption.victims:
        victim = cluster.jobs[victim_id]
        if mode == "SUSPEND":
            # One that is suspended already waits for this job from now on.
            fields: dict[str, object] = {"suspended_by": preemption.start.job_id}
            if victim.state == JobState.RUNNING:
                fields["preempt_us"] = now_us
            events.append(ev.JobUpdated(now_us, victim_id, fields))
            if victim.state == JobState.RUNNING:
                events.append(ev.JobSuspended(now_us, victim_id, duty_id))
                duty_id += len(victim.nodes)
            continue
        partition = cluster.partitions.get(victim.partition)
        grace = grace_s(cluster.qos, partition, victim.qos)
        overlaps = _gives_way(cluster, victim, preemption.start.job_id)
        if overlaps:
            grace = victim.request.signal_before_s
        if grace:
            signals = _signals(victim, policy, overlaps=overlaps)
            signalled = _asked_to_leave(victim, mode, grace, signals, now_us, duty_id)
        else:
            signalled = _ended(cluster, victim, mode, now_us, duty_id, ended)
        duty_id += sum(
            len(event.node_ids) or len(victim.nodes)
            for event in signalled
            if isinstance(event, ev.JobSignalled)
        ) or len(victim.nodes)
        events += signalled
    events += dependency.after_ends(cluster, ended, now_us)
    if all(mode == "SUSPEND" for _, mode in preemption.victims):
        return events
    for start in starts:
        claim: dict[str, object] = {
            "claim": start.nodes,
            "claim_victims": _in_the_way(cluster, start, preemption.victims),
            "claim_partition": start.partition,
            "claim_tasks": start.total_tasks,
        }
        events.append(ev.JobUpdated(now_us, start.job_id, claim))
    return events


def _gives_way(cluster: Cluster, victim: Job, preemptor_id: int) -> bool:
    """Return whether a job overlaps the reservation of the one that it is to make room for."""
    names = cluster.jobs[preemptor_id].request.reservation.split(",")
    reservations = (cluster.reservations.get(name) for name in names)
    return any(
        reservation is not None and gives_way(reservation, victim.request)
        for reservation in reservations
    )


def _in_the_way(
    cluster: Cluster, start: Start, victims: tuple[tuple[int, str], ...]
) -> tuple[int, ...]:
    """Return the victims, and other jobs that are leaving the nodes of the start."""
    victim_ids = dict.fromkeys(victim_id for victim_id, _ in victims)
    for alloc in start.nodes:
        for job_id in cluster.node_index.use[alloc.node_id].allocs:
            if _is_leaving(cluster, job_id):
                victim_ids[job_id] = None
    return tuple(victim_ids)


def _is_leaving(cluster: Cluster, job_id: int) -> bool:
    """Return whether a job that still holds something has been told to go."""
    job = cluster.jobs[job_id]
    return is_completing(job) or bool(job.preempt_end_us)


def _signals(job: Job, policy: Policy, *, overlaps: bool) -> list[tuple[int, int]]:
    """Return what a victim is sent when its grace begins.

    Args:
        overlaps: it made its own terms, of which signal it leaves upon and how long that takes.
    """
    own = []
    if job.request.signal:
        to_script = bool(job.request.flags & REQ_SIGNAL_BATCH)
        own = [(job.request.signal, SIGNAL_BATCH_ONLY if to_script else SIGNAL_STEPS_ONLY)]
    if overlaps:
        return own
    if not policy.sends_user_signal:
        own = []
    return [(SIGCONT, SIGNAL_FULL), *own, (SIGTERM, SIGNAL_FULL)]


def _asked_to_leave(
    job: Job, mode: str, grace: int, signals: list[tuple[int, int]], now_us: int, duty_id: int
) -> list[ev.AnyEvent]:
    """Return how a victim is told to leave, and the time at which it is killed at the latest.

    Args:
        signals: what it is sent, as (signal, SIGNAL_* bits).
    """
    fields: dict[str, object] = {
        "preempt_us": now_us,
        "preempt_end_us": now_us + grace * SECOND_US,
        "preempt_mode": mode,
    }
    events: list[ev.AnyEvent] = [ev.JobUpdated(now_us, job.job_id, fields)]
    for signal, flags in signals:
        node_ids = (job.batch_node_id,) if flags == SIGNAL_BATCH_ONLY else ()
        events.append(
            ev.JobSignalled(
                time_us=now_us,
                job_id=job.job_id,
                signal=signal,
                flags=flags,
                step_id=-1,
                first_duty_id=duty_id,
                node_ids=node_ids,
            )
        )
        duty_id += len(node_ids) or len(job.nodes)
    return events


def _ended(
    cluster: Cluster,
    job: Job,
    mode: str,
    now_us: int,
    duty_id: int,
    ended: list[tuple[Job, JobState]],
) -> list[ev.AnyEvent]:
    """Return the end of a victim; one that may not be requeued is cancelled."""
    again = mode == "REQUEUE" and node_loss.may_requeue(job)
    events: list[ev.AnyEvent] = []
    if not job.preempt_us:
        events.append(ev.JobUpdated(now_us, job.job_id, {"preempt_us": now_us}))
    return events + job_end.complete(
        cluster,
        job,
        job_end.End(
            JobState.PREEMPTED,
            flags=JobFlag.REQUEUED if again else JobFlag.NONE,
            duty_flags=SIGNAL_PREEMPTED,
        ),
        now_us,
        first_duty_id=duty_id,
        ended_jobs=ended,
    )


def grace_over(cluster: Cluster, now_us: int, job_ids: Iterable[int]) -> list[ev.AnyEvent]:
    """Return the ends of victims at the end of their grace."""
    events: list[ev.AnyEvent] = []
    ended: list[tuple[Job, JobState]] = []
    duty_id = cluster.next_duty_id
    for job_id in job_ids:
        job = cluster.jobs[job_id]
        if now_us >= job.preempt_end_us:
            events += _ended(cluster, job, job.preempt_mode, now_us, duty_id, ended)
            duty_id += len(job.nodes)
    return events + dependency.after_ends(cluster, ended, now_us)


def resumed(cluster: Cluster, now_us: int) -> list[ev.AnyEvent]:
    """Return the events that resume jobs once those that they were suspended for have left."""
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    again: dict[int, int] = {}  # cores that jobs resumed by these events have, by node
    for job_id in cluster.job_index.suspended:
        job = cluster.jobs[job_id]
        if job.suspended_by <= 0 or job.state != JobState.SUSPENDED:
            continue
        if _is_covered(cluster, job, again):
            if job.rows > 1 and job.suspended_by not in cluster.job_index.active:
                # Others share its cores: from now on they take turns again.
                fields: dict[str, object] = {"suspended_by": SUSPENDED_BY_GANG}
                events.append(ev.JobUpdated(now_us, job_id, fields))
            continue
        for alloc in job.nodes:
            cores = int.from_bytes(alloc.cores, "little")
            again[alloc.node_id] = again.get(alloc.node_id, 0) | cores
        events.append(ev.JobResumed(now_us, job_id, duty_id, moves_suspend_us=True))
        duty_id += len(job.nodes)
    return events


def _is_covered(cluster: Cluster, job: Job, again: dict[int, int]) -> bool:
    """Return whether another job runs on a suspended job's cores, or has a claim or turns there."""
    claims = [alloc for other in cluster.job_index.claims for alloc in cluster.jobs[other].claim]
    for alloc in job.nodes:
        cores = int.from_bytes(alloc.cores, "little")
        if (cluster.node_index.use[alloc.node_id].cores | again.get(alloc.node_id, 0)) & cores:
            return True
        if any(
            _has_turns(cluster, job, other) and collide(other_alloc, alloc)
            for other, other_alloc in cluster.node_index.use[alloc.node_id].allocs.items()
        ):
            return True
        if any(claim.node_id == alloc.node_id and collide(claim, alloc) for claim in claims):
            return True
    return False


def _has_turns(cluster: Cluster, job: Job, other_id: int) -> bool:
    """Return whether another job waits for its turn, with those for whom a job was suspended."""
    other = cluster.jobs[other_id]
    is_sliced = other_id in cluster.job_index.suspended and other.suspended_by == SUSPENDED_BY_GANG
    return is_sliced and (job.rows <= 1 or other.partition != job.partition)


def lost_claims(cluster: Cluster, job_ids: list[int], now_us: int) -> list[ev.AnyEvent]:
    """Return the events that end claims which a plan found to be of no use."""
    empty: dict[str, object] = {
        "claim": (),
        "claim_victims": (),
        "claim_partition": "",
        "claim_tasks": 0,
    }
    return [
        ev.JobUpdated(now_us, job_id, empty)
        for job_id in job_ids
        if job_id in cluster.job_index.claims
    ]


# Checked again ----------------------------------------------------------------------------------


def _still_holds(
    cluster: Cluster, start: Start, victims: tuple[tuple[int, str], ...], now_us: int
) -> bool:
    """Return whether the victims can leave still, and the job would start if they did."""
    job = cluster.jobs.get(start.job_id)
    if (
        job is None
        or job.array_pending
        or job.claim
        or not may_start_in(cluster, job, start.partition)
    ):
        return False
    if reservation_of(cluster, job, start, now_us) is None:
        return False
    modes = dict(victims)
    for victim_id in modes:
        victim = cluster.jobs.get(victim_id)
        if victim is None or victim_id not in cluster.job_index.active or is_completing(victim):
            return False
        if victim.preempt_end_us or victim.state not in _GONE:
            return False
    free = dict(cluster.licenses)
    for server in cluster.license_servers.values():
        free[server.name] = free.get(server.name, 0) - server.deficit
    for other in cluster.job_index.active:
        if modes.get(other, "SUSPEND") == "SUSPEND":
            for name, count in license_counts(cluster.jobs[other].licenses_alloc):
                free[name] = free.get(name, 0) - count
    if any(free.get(name, 0) < count for name, count in license_counts(job.request.licenses)):
        return False
    return all(_fits(cluster, alloc, modes) for alloc in start.nodes)


def _fits(cluster: Cluster, alloc: NodeAlloc, modes: dict[int, str]) -> bool:
    """Return whether a share of a node is free when victims have left it."""
    node = cluster.nodes[alloc.node_id]
    if node is None or not cluster.node_index.columns.usable[alloc.node_id]:
        return False
    mem_mib = schedulable_mem_mib(node.spec) - alloc.mem_mib
    for job_id, other_alloc in cluster.node_index.use[alloc.node_id].allocs.items():
        mode = modes.get(job_id)
        if mode in ("CANCEL", "REQUEUE") or _is_leaving(cluster, job_id):
            continue
        mem_mib -= other_alloc.mem_mib
        # A suspended job keeps its devices, not its cores.
        own = alloc
        if mode == "SUSPEND" or job_id in cluster.job_index.suspended:
            own = NodeAlloc(alloc.node_id, 0, b"", 0, 0, alloc.gres)
        if collide(own, other_alloc):
            return False
    for job_id in cluster.job_index.claims:
        for other_alloc in cluster.jobs[job_id].claim:
            if other_alloc.node_id == alloc.node_id:
                mem_mib -= other_alloc.mem_mib
                if collide(alloc, other_alloc):
                    return False
    return mem_mib >= 0
