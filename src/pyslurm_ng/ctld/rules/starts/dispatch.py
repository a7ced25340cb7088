"""Plan -> events: each start is checked again, against the Cluster as it is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from pyslurm_ng.base.numbers import INFINITE, NO_VAL, REQ_REBOOT, SECOND_US
from pyslurm_ng.ctld.rules.ends import lost_runs
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.ctld.rules.starts.preparation import NONE, Preparation
from pyslurm_ng.model import events as ev, gres_parts, task_ranges
from pyslurm_ng.model.cluster import RUNS_PROLOG, Cluster, free_job_id, het_components
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.model.job import Job, NodeAlloc, Step
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.partition import opened
from pyslurm_ng.model.reservation import part_of
from pyslurm_ng.model.rows import rows_of
from pyslurm_ng.model.states import JobState, NodeFlag
from pyslurm_ng.sched.demand.demand import limit_us
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_views import may_be_considered
from pyslurm_ng.sched.frame.licenses import kept_from, licenses_inside
from pyslurm_ng.sched.frame.plan import Start
from pyslurm_ng.sched.frame.snapshot import are_free_now

SLEEPS = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP
NO_PRIORITIES: Mapping[int, int] = MappingProxyType({})


def dispatch(
    cluster: Cluster,
    start: Start,
    now_us: int,
    *,
    prepare: Preparation = NONE,
    waited_for: int = 0,
    priorities: Mapping[int, int] = NO_PRIORITIES,
    others: Sequence[Start] = (),
) -> list[ev.AnyEvent]:
    """Return the events that start one job of a plan; none when the world has moved on.

    The caller applies them before it asks for the next start, so each sees what is left.

    Args:
        prepare: what nodes do before the job counts as started.
        waited_for: the Reason for which it has waited.
        priorities: of the jobs that the pass looked at, by job id.
        others: components that start with it, and wait until the nodes of all are up.

    Nodes are told nothing while the controller's prolog runs, or some boot: see `rules.programs`.
    """
    job = cluster.jobs.get(start.job_id)
    if job is None or not _may_start(cluster, job, start, now_us):
        return []
    reservation = reservation_of(cluster, job, start, now_us)
    if reservation is None:
        return []
    events: list[ev.AnyEvent] = []
    job_id = job.job_id
    if job.array_pending:
        if not task_ranges.contains(job.array_pending, start.task_id):
            return []
        if task_ranges.count(job.array_pending) > 1:
            job_id = free_job_id(cluster)
        events.append(ev.ArrayTaskSplit(now_us, job.job_id, start.task_id, job_id))
    events += lost_runs.begun_again(job, now_us)
    is_batch, prepare = bool(job.script_hash), prepare.for_job(job.request.flags)
    boot_by_us = _boot_by_us(cluster, (start, *others), prepare, now_us)
    waits = _has_prolog(cluster, job) or bool(boot_by_us)
    duty = prepare.first_duty(is_batch=is_batch)
    events.append(
        ev.JobAllocated(
            time_us=now_us,
            job_id=job_id,
            partition=start.partition,
            nodes=start.nodes,
            batch_node_id=start.batch_node_id,
            total_tasks=start.total_tasks,
            first_duty_id=cluster.next_duty_id,
            scheduler=start.scheduler,
            licenses=start.licenses or job.request.licenses,
            time_limit_min=start.time_limit_min,
            duty=0 if waits else duty,
            prepare_all=prepare.every_node and not waits,
            configuring=prepare.is_configuring(is_batch=is_batch) or waits,
            reservation=reservation,
            rows=rows_of(cluster.partitions.get(start.partition), job.request),
            prolog=_has_prolog(cluster, job),
            waited_for=waited_for,
            priority=priorities.get(start.job_id, 0),
            boot_by_us=boot_by_us,
        )
    )
    events += _rebooted(cluster, job, start, prepare, now_us)
    if not waits:
        steps = first_steps(job, start, prepare, duty, now_us)
        events += [ev.StepCreated(now_us, job_id, step) for step in steps]
    events += dependency.after_start(cluster, job, now_us)
    return events


def _has_prolog(cluster: Cluster, job: Job) -> bool:
    """Return whether something runs first here: PrologSlurmctld, or the site's slurm_bb_pre_run.

    All components wait for what runs for one of them.
    """
    if cluster.programs & RUNS_PROLOG:
        return True
    buffers = cluster.buffers
    return bool(buffers) and any(
        part.job_id in buffers for part in het_components(cluster, job) or [job]
    )


def first_steps(
    job: Job, share: Start | Job, prepare: Preparation, duty: int, now_us: int
) -> list[Step]:
    """Return the steps that begin with a job: the extern step on all nodes, and its script.

    Args:
        share: what the job has.
        duty: what it begins with on its first node, a DutyKind.
    """
    steps = [extern_step(job, share.nodes, now_us)] if prepare.has_extern else []
    if duty == DutyKind.LAUNCH:
        steps.append(batch_step(job, share.nodes, share.batch_node_id, now_us))
    return steps


def dispatch_het(
    cluster: Cluster,
    starts: Sequence[Start],
    now_us: int,
    *,
    prepare: Preparation = NONE,
    waited_for: int = 0,
    priorities: Mapping[int, int] = NO_PRIORITIES,
) -> list[ev.AnyEvent]:
    """Return the events that start all components of a heterogeneous job, or none at all."""
    jobs = [cluster.jobs.get(start.job_id) for start in starts]
    if not _may_start_together(cluster, jobs, starts, now_us):
        return []
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for start in starts:
        decision = dispatch(
            cluster,
            start,
            now_us,
            prepare=prepare,
            waited_for=waited_for,
            priorities=priorities,
            others=starts,
        )
        if not decision:
            return []
        for event in decision:
            if isinstance(event, ev.JobAllocated):
                is_leader = start.job_id == start.het_job_id
                event = _component(event, is_leader=is_leader, first_duty_id=duty_id)
                duty_id += len(event.nodes)
            elif isinstance(event, ev.NodesPowered):
                event = msgspec.structs.replace(event, first_duty_id=duty_id)
                duty_id += len(event.node_ids)
            elif (
                isinstance(event, ev.StepCreated)
                and event.step.step_id == STEP_BATCH
                and start.job_id != start.het_job_id
            ):
                continue  # the script runs once, beside the leader
            events.append(event)
    return events


def _boot_by_us(
    cluster: Cluster, starts: Sequence[Start], prepare: Preparation, now_us: int
) -> int:
    """Return when all nodes are up, some of which sleep or are to be rebooted; 0 if all are up."""
    limit_s = 0
    for start in starts:
        reboots = prepare.reboots and cluster.jobs[start.job_id].request.flags & REQ_REBOOT
        if not reboots and not any(
            cluster.node(alloc.node_id).flags & SLEEPS for alloc in start.nodes
        ):
            continue
        partition = cluster.partitions.get(start.partition)
        own_s = partition.resume_timeout_s if partition is not None else NO_VAL
        limit_s = max(limit_s, prepare.boot_s if own_s == NO_VAL else own_s)
    return now_us + limit_s * SECOND_US if limit_s else 0


def _rebooted(
    cluster: Cluster, job: Job, start: Start, prepare: Preparation, now_us: int
) -> list[ev.AnyEvent]:
    """Have the nodes boot that a job wants rebooted, except those that sleep and boot anyway."""
    if not prepare.reboots or not job.request.flags & REQ_REBOOT:
        return []
    node_ids = tuple(
        alloc.node_id for alloc in start.nodes if not cluster.node(alloc.node_id).flags & SLEEPS
    )
    if not node_ids:
        return []
    return [ev.NodesPowered(now_us, node_ids, int(NodeFlag.POWERING_UP), cluster.next_duty_id)]


def _component(event: ev.JobAllocated, *, is_leader: bool, first_duty_id: int) -> ev.JobAllocated:
    """Return a component's start: only the leader's launches the script."""
    duty = event.duty
    if not is_leader and duty == DutyKind.LAUNCH:
        duty = int(DutyKind.PREPARE) if event.prepare_all else 0
    return msgspec.structs.replace(event, duty=duty, first_duty_id=first_duty_id)


def _may_start_together(
    cluster: Cluster, jobs: Sequence[Job | None], starts: Sequence[Start], now_us: int
) -> bool:
    """Return whether these are all components there are, and what they take is free at once."""
    first = jobs[0]
    if first is None or not first.het_job_id:
        return False
    components = [
        job for job in het_components(cluster, first) if job.job_id not in cluster.job_index.ended
    ]
    if [job.job_id for job in components] != [start.job_id for start in starts]:
        return False
    counts: Counter[str] = Counter()
    for job, start in zip(components, starts, strict=True):
        counts.update(dict(license_counts(start.licenses or job.request.licenses)))
    inside = licenses_inside(cluster, now_us) if counts and cluster.reservations else {}
    kept = kept_from(
        inside, [name for job in components for name in job.request.reservation.split(",")]
    )
    for name, count in counts.items():
        if cluster.licenses_left(name) - kept.get(name, 0) < count:
            return False
    allocs = [alloc for start in starts for alloc in start.nodes]
    if len({alloc.node_id for alloc in allocs}) < len(allocs):
        return False  # each component has nodes of its own
    return are_free_now(cluster, allocs)


def batch_step(job: Job, allocs: Sequence[NodeAlloc], batch_node_id: int, now_us: int) -> Step:
    """Return the step that a batch job's script is, on the first of its nodes."""
    alloc = next(alloc for alloc in allocs if alloc.node_id == batch_node_id)
    return Step(
        step_id=STEP_BATCH,
        name="batch",
        uid=job.uid,
        ntasks=1,
        cpus=alloc.charged_cpus,
        nodes=(alloc,),
        created_us=now_us,
        state=JobState.RUNNING,
        start_us=now_us,
        time_limit_min=INFINITE,
        cwd=job.request.work_dir,
        nodes_pending=(alloc.node_id,),
    )


def extern_step(job: Job, allocs: Sequence[NodeAlloc], now_us: int) -> Step:
    """Return the step without tasks that a job has on all its nodes, with PrologFlags=Contain."""
    return Step(
        step_id=STEP_EXTERN,
        name="extern",
        uid=job.uid,
        ntasks=len(allocs),
        cpus=sum(alloc.charged_cpus for alloc in allocs),
        nodes=tuple(allocs),
        created_us=now_us,
        state=JobState.RUNNING,
        start_us=now_us,
        time_limit_min=INFINITE,
        cwd=job.request.work_dir,
        nodes_pending=tuple(alloc.node_id for alloc in allocs),
    )


def may_start_in(cluster: Cluster, job: Job, partition_name: str) -> bool:
    """Return whether a job still waits for nothing but room in a partition."""
    if job.state != JobState.PENDING or not may_be_considered(job) or job.waits_for_proof:
        return False
    if cluster.waits_for_buffer(job.job_id):
        return False
    partition = cluster.partitions.get(partition_name)
    if partition is None or partition.state not in ("UP", "DRAIN"):
        return False
    running = cluster.job_counts.array_active.get(job.array_job_id, 0)
    return not job.array_limit or running < job.array_limit


def _may_start(cluster: Cluster, job: Job, start: Start, now_us: int) -> bool:
    if job.het_job_id != start.het_job_id:
        return False  # a component never starts alone
    if not may_start_in(cluster, job, start.partition):
        return False
    if job.request.licenses:
        inside = licenses_inside(cluster, now_us) if cluster.reservations else {}
        kept = kept_from(inside, job.request.reservation.split(","))
        for name, count in license_counts(start.licenses or job.request.licenses):
            if cluster.licenses_left(name) - kept.get(name, 0) < count:
                return False
    if cluster.job_index.claims and not _leaves_claims(cluster, start):
        return False
    rows = rows_of(cluster.partitions.get(start.partition), job.request)
    return are_free_now(cluster, start.nodes, start.partition, rows)


def _leaves_claims(cluster: Cluster, start: Start) -> bool:
    """Return whether a start takes no core and device that another job preempted for."""
    allocs = {alloc.node_id: alloc for alloc in start.nodes}
    for job_id in cluster.job_index.claims:
        if job_id == start.job_id:
            continue
        for alloc in cluster.jobs[job_id].claim:
            own = allocs.get(alloc.node_id)
            if own is not None and collide(own, alloc):
                return False
    return True


def collide(alloc: NodeAlloc, other: NodeAlloc) -> bool:
    """Return whether two shares of a node have a core or device in common."""
    if int.from_bytes(alloc.cores, "little") & int.from_bytes(other.cores, "little"):
        return True
    devices = gres_parts.devices_of(alloc.gres)
    return any(
        mask & devices.get(key, 0) for key, mask in gres_parts.devices_of(other.gres).items()
    )


def reservation_of(cluster: Cluster, job: Job, start: Start, now_us: int) -> str | None:
    """Return the reservation a start is in, "" for none, None if its nodes are kept from it."""
    if not cluster.reservations:
        return None if job.request.reservation else reserved.OUTSIDE
    limit_min = job.time_limit_min if start.time_limit_min == NO_VAL else start.time_limit_min
    partition = opened(cluster.partitions[start.partition], cluster.qos.get(job.qos))
    end_us = now_us + limit_us(limit_min, partition)
    parts = {alloc.node_id: part_of(alloc) for alloc in start.nodes}
    reservations = reserved.with_families(cluster)
    return reserved.reservation_for(reservations, job, start.partition, parts, now_us, end_us)
