"""How each event of a job changes the Cluster."""

from __future__ import annotations

import copy

from msgspec import structs

from pyslurm_ng.base.numbers import NO_VAL

from .. import events as ev, task_ranges
from ..cluster import RUNS_EPILOG, Cluster
from ..duty import DutyKind
from ..job import NO_STEPS, SUSPENDED_BY_OPERATOR, Job, LostRun, is_completing
from ..states import JobFlag, JobState, Reason
from .charges import charge_so_far
from .duties import begin_duties, drop_job_duties, job_duties, node_id_of
from .registry import applies, field_types, set_fields

_JOB_TYPES = field_types(Job)
_CHARGED_BY = frozenset(("qos", "assoc_id", "licenses_alloc"))
_HOLDS = JobFlag.REQUEUE_HOLD | JobFlag.SPECIAL_EXIT | JobFlag.RESV_DEL_HOLD


def _claim_job_id(cluster: Cluster, job_id: int) -> None:
    assert job_id not in cluster.jobs, job_id
    cluster.next_job_id = job_id + 1 if job_id < cluster.max_job_id else cluster.first_job_id


def _set_lost_runs(cluster: Cluster, job: Job, runs: tuple[LostRun, ...]) -> None:
    cluster.job_index.enter_lost_runs(job, runs)
    job.lost_runs = runs


def _drop_claim(job: Job) -> None:
    job.claim, job.claim_victims, job.claim_partition, job.claim_tasks = (), (), "", 0


@applies(ev.JobSubmitted)
def _job_submitted(cluster: Cluster, event: ev.JobSubmitted) -> None:
    _claim_job_id(cluster, event.job_id)
    ranges = event.array_pending
    job = Job(
        job_id=event.job_id,
        request=event.request,
        uid=event.uid,
        gid=event.gid,
        user_name=event.user_name,
        group_name=event.group_name,
        submit_us=event.time_us,
        account=event.account,
        qos=event.qos,
        assoc_id=event.assoc_id,
        partition=event.partition,
        time_limit_min=event.time_limit_min,
        script_hash=event.script_hash,
        env_hash=event.env_hash,
        reason=event.reason,
        priority=event.priority,
        nice=event.request.nice,
        begin_us=event.begin_us,
        eligible_us=event.eligible_us,
        accrue_us=event.eligible_us,
        dependencies=event.dependencies,
        dependency_any=event.dependency_any,
        requeue=event.requeue,
        comment=event.request.comment,
        admin_comment=event.request.admin_comment,
        het_job_id=event.het_job_id,
        het_offset=event.het_offset,
        alloc_host=event.alloc_host,
        steps=NO_STEPS,
    )
    if ranges:
        job.array_job_id = event.job_id
        job.array_pending = ranges
        job.array_limit = event.array_limit
        job.array_count = event.array_count or task_ranges.count(ranges)
        job.array_min = ranges[0][0]
        job.array_max = ranges[-1][1]
        job.array_step = ranges[0][2]
    cluster.jobs[job.job_id] = job
    cluster.shared.share(job)
    cluster.index_job(job)


@applies(ev.JobUpdated)
def _job_updated(cluster: Cluster, event: ev.JobUpdated) -> None:
    job = cluster.jobs[event.job_id]
    cluster.job_index.forget_dependencies(job)
    if job.job_id in cluster.job_index.active:
        cluster.job_counts.take_licenses(job, -1)
        if not _CHARGED_BY.isdisjoint(event.fields):
            charge_so_far(job, event.time_us)
    if event.request is not None or "partition" in event.fields:
        _drop_claim(job)  # it belonged to the job's former request
    if event.request is not None:
        job.request = event.request
        cluster.shared.share(job)
    set_fields(job, event.fields, _JOB_TYPES)
    if job.job_id in cluster.job_index.active:
        cluster.job_counts.take_licenses(job, 1)
    cluster.job_index.enter_dependencies(job)
    cluster.move_job(job)


@applies(ev.ArrayTaskSplit)
def _array_task_split(cluster: Cluster, event: ev.ArrayTaskSplit) -> None:
    master = cluster.jobs[event.array_job_id]
    if event.tasks:
        assert event.job_id != master.job_id
        master.array_pending = task_ranges.intersect(master.array_pending, event.tasks)[1]
    else:
        master.array_pending = task_ranges.remove(master.array_pending, event.task_id)
    cluster.job_counts.count_tasks(master)
    if event.job_id == master.job_id:
        assert not master.array_pending, master
        part = master
    else:
        _claim_job_id(cluster, event.job_id)
        part = copy.copy(master)
        part.job_id = event.job_id
        part.steps = NO_STEPS
        part.array_pending = event.tasks
        cluster.jobs[part.job_id] = part
        cluster.job_index.enter(part)
        cluster.job_counts.count_tasks(part)
        buffer = cluster.buffers.get(master.job_id)
        if buffer is not None:
            cluster.buffers[part.job_id] = structs.replace(buffer, job_id=part.job_id)
    if not event.tasks:
        part.array_task_id = event.task_id
        cluster.job_index.arrays.setdefault(master.array_job_id, {})[event.task_id] = part.job_id


@applies(ev.JobEligible)
def _job_eligible(cluster: Cluster, event: ev.JobEligible) -> None:
    job = cluster.jobs[event.job_id]
    job.eligible_us = job.accrue_us = event.time_us
    cluster.job_index.ineligible.pop(job.job_id, None)
    if job.reason in (Reason.BeginTime, Reason.Dependency, Reason.Cleaning):
        job.reason = Reason.NONE


@applies(ev.DependencyChanged)
def _dependency_changed(cluster: Cluster, event: ev.DependencyChanged) -> None:
    job = cluster.jobs[event.job_id]
    cluster.job_index.forget_dependencies(job)
    job.dependencies = event.dependencies
    job.dependency_any = event.dependency_any
    cluster.job_index.enter_dependencies(job)
    if not job.priority and not job.dependencies:
        cluster.job_index.ineligible.pop(job.job_id, None)  # only held from now on
    if event.never_satisfied:
        job.reason = Reason.DependencyNeverSatisfied
    elif not job.dependencies and job.reason == Reason.Dependency:
        job.reason = Reason.NONE


@applies(ev.JobAllocated)
def _job_allocated(cluster: Cluster, event: ev.JobAllocated) -> None:
    job = cluster.jobs[event.job_id]
    assert job.state == JobState.PENDING and not job.nodes and not job.array_pending, job
    job.state = JobState.RUNNING
    job.flags &= ~JobFlag.EXPEDITING
    if event.configuring:
        job.flags |= JobFlag.CONFIGURING
    job.reason, job.reason_text = Reason.NONE, ""
    if event.prolog:
        job.reason = Reason.Prolog
        cluster.prologs[job.job_id] = None
    job.partition = event.partition
    job.nodes = event.nodes
    job.batch_node_id = event.batch_node_id
    job.total_tasks = event.total_tasks
    job.licenses_alloc = event.licenses
    job.scheduler = event.scheduler
    job.reservation = event.reservation
    job.rows = event.rows
    job.start_priority = event.priority
    if event.boot_by_us:
        job.boot_by_us = event.boot_by_us
        job.flags |= JobFlag.POWER_UP_NODE
    if job.lost_runs:
        _set_lost_runs(cluster, job, tuple(run for run in job.lost_runs if not run.proof))
    _drop_claim(job)
    job.start_us = event.time_us
    job.last_eval_us = event.time_us
    if event.time_limit_min != NO_VAL:
        job.time_limit_min = event.time_limit_min
    cluster.move_job(job)
    cluster.node_index.hold(job.job_id, event.nodes)
    begin_duties(cluster, job, event)


@applies(ev.JobStarted)
def _job_started(cluster: Cluster, event: ev.JobStarted) -> None:
    job = cluster.jobs[event.job_id]
    assert job.attempt == event.attempt, job
    job.flags &= ~JobFlag.CONFIGURING


@applies(ev.JobSuspended)
def _job_suspended(cluster: Cluster, event: ev.JobSuspended) -> None:
    job = cluster.jobs[event.job_id]
    assert job.state == JobState.RUNNING and not is_completing(job), job
    job.state = JobState.SUSPENDED
    job.suspend_us = event.time_us
    node_ids = [alloc.node_id for alloc in job.nodes]
    cluster.move_job(job)
    for alloc in job.nodes_held:
        cluster.node_index.recount(alloc.node_id)
    job_duties(cluster, job, DutyKind.SUSPEND, node_ids, event.first_duty_id, event.time_us)


@applies(ev.JobResumed)
def _job_resumed(cluster: Cluster, event: ev.JobResumed) -> None:
    job = cluster.jobs[event.job_id]
    assert job.state == JobState.SUSPENDED, job
    _end_suspension(job, event.time_us)
    if event.moves_suspend_us:
        job.suspend_us = event.time_us
    job.state = JobState.RUNNING
    job.suspended_by = 0
    node_ids = [alloc.node_id for alloc in job.nodes]
    cluster.move_job(job)
    for alloc in job.nodes_held:
        cluster.node_index.recount(alloc.node_id)
    job_duties(cluster, job, DutyKind.RESUME, node_ids, event.first_duty_id, event.time_us)


def _end_suspension(job: Job, time_us: int) -> None:
    if job.state == JobState.SUSPENDED:
        job.suspended_us += time_us - job.suspend_us


@applies(ev.JobSignalled)
def _job_signalled(cluster: Cluster, event: ev.JobSignalled) -> None:
    job = cluster.jobs[event.job_id]
    job.time_signalled |= event.marks
    if event.kill_us:
        job.kill_us = event.kill_us
    if event.cancelled_by != NO_VAL and event.step_id in job.steps:
        job.steps[event.step_id].cancelled_by = event.cancelled_by
    node_ids = event.node_ids or tuple(alloc.node_id for alloc in job.nodes)
    job_duties(
        cluster,
        job,
        DutyKind.SIGNAL,
        node_ids,
        event.first_duty_id,
        event.time_us,
        step_id=event.step_id,
        signal=event.signal,
        flags=event.flags,
    )


@applies(ev.JobCompleting)
def _job_completing(cluster: Cluster, event: ev.JobCompleting) -> None:
    job = cluster.jobs[event.job_id]
    assert job.job_id in cluster.job_index.active and not is_completing(job), job
    cluster.prologs.pop(job.job_id, None)
    if cluster.programs & RUNS_EPILOG:
        cluster.epilogs[job.job_id] = None
    _end_suspension(job, event.time_us)
    was_suspended = job.state == JobState.SUSPENDED
    job.state = JobState(event.state)
    configuring = JobFlag.CONFIGURING | JobFlag.POWER_UP_NODE
    job.flags = (job.flags | JobFlag.COMPLETING | event.flags) & ~configuring
    job.boot_by_us = 0
    job.exit_code = event.exit_code
    job.reason, job.reason_text = event.reason, event.reason_text
    job.end_us = event.end_us or event.time_us
    job.cancelled_by = event.cancelled_by
    job.failed_node = event.failed_node
    job.kill_us = job.preempt_end_us = 0
    # Other jobs may run on its cores: it does not get them back to clean up.
    job.suspended_by = (job.suspended_by or SUSPENDED_BY_OPERATOR) if was_suspended else 0
    job.nodes_pending = event.node_ids + tuple(map(node_id_of, job.nodes_leaving))
    if event.derived_exit_code >= 0:
        job.derived_exit_code = event.derived_exit_code
    drop_job_duties(cluster, job.job_id, map(node_id_of, job.nodes))
    cluster.move_job(job)
    clean = list(map(node_id_of, job.nodes))
    if event.node_ids:
        cleaning = set(event.node_ids)
        clean = [node_id for node_id in clean if node_id not in cleaning]
    for node_id in job.nodes_pending:
        cluster.node_index.use[node_id].completing[job.job_id] = None
        if was_suspended:
            cluster.node_index.recount(node_id)
    cluster.node_index.give_back(job.job_id, clean, event.time_us)
    job_duties(
        cluster,
        job,
        DutyKind.TERMINATE,
        event.node_ids,
        event.first_duty_id,
        event.time_us,
        flags=event.duty_flags,
    )


@applies(ev.JobEnded)
def _job_ended(cluster: Cluster, event: ev.JobEnded) -> None:
    job = cluster.jobs[event.job_id]
    assert not job.nodes_pending and job.job_id not in cluster.epilogs, job
    assert job.state == JobState.PENDING or is_completing(job), job
    if job.state == JobState.PENDING:
        job.end_us = event.time_us
        job.cancelled_by = event.cancelled_by
        job.exit_code = event.exit_code
        job.reason, job.reason_text = event.reason, event.reason_text
        if event.derived_exit_code >= 0:
            job.derived_exit_code = event.derived_exit_code
        job.flags &= ~_HOLDS  # they would be shown instead of the state
    job.state = JobState(event.state)
    job.flags &= ~(JobFlag.COMPLETING | JobFlag.SIGNALING | JobFlag.STOPPED)
    job.steps = NO_STEPS
    job.suspended_by = 0
    job.nodes_leaving = ()
    _drop_claim(job)
    cluster.move_job(job)
    cluster.job_index.forget_dependencies(job)


@applies(ev.JobRequeued)
def _job_requeued(cluster: Cluster, event: ev.JobRequeued) -> None:
    job = cluster.jobs[event.job_id]
    assert not job.nodes_pending and job.job_id not in cluster.epilogs, job
    job.state = JobState.PENDING
    job.flags = event.flags
    job.attempt = event.attempt
    job.launch_failures = event.launch_failures
    job.submit_us = event.time_us  # a requeue is a new submission
    job.begin_us = event.begin_us
    waits = event.begin_us > event.time_us or job.waits_for_proof
    job.eligible_us = 0 if waits else event.time_us
    job.accrue_us = job.eligible_us
    job.reason, job.reason_text = event.reason, event.reason_text
    job.priority = event.priority
    job.partition = job.request.partition or job.partition
    job.nodes_before = job.nodes
    job.nodes, job.batch_node_id, job.total_tasks = (), -1, 0
    job.steps, job.next_step_id = {}, 0
    job.start_us = job.end_us = job.suspend_us = job.suspended_us = job.kill_us = 0
    job.time_signalled = job.exit_code = job.derived_exit_code = 0
    job.cancelled_by, job.scheduler = NO_VAL, ""
    job.reservation = job.failed_node = job.preempt_mode = ""
    job.preempt_us = job.suspended_by = job.resize_us = job.boot_by_us = 0
    job.charged_us = job.charged_suspended_us = job.start_priority = 0
    job.rows = 1
    cluster.move_job(job)  # gives back the licences
    job.licenses_alloc = ""
    cluster.job_index.enter_dependencies(job)


@applies(ev.JobPurged)
def _job_purged(cluster: Cluster, event: ev.JobPurged) -> None:
    for job_id in event.job_ids:
        cluster.job_index.forget(cluster.jobs.pop(job_id))
        cluster.buffers.pop(job_id, None)


@applies(ev.JobResized)
def _job_resized(cluster: Cluster, event: ev.JobResized) -> None:
    job = cluster.jobs[event.job_id]
    charge_so_far(job, event.time_us)
    job.resize_us = event.time_us
    kept = {alloc.node_id for alloc in event.nodes}
    given_up = tuple(alloc for alloc in job.nodes if alloc.node_id not in kept)
    job.nodes = event.nodes
    for alloc in event.nodes:
        cluster.node_index.use[alloc.node_id].allocs[job.job_id] = alloc
        cluster.node_index.recount(alloc.node_id)
    removed_ids = tuple(map(node_id_of, given_up))
    if not event.first_duty_id:
        cluster.node_index.give_back(job.job_id, removed_ids, event.time_us)
        return
    job.nodes_leaving += given_up
    for node_id in removed_ids:
        cluster.node_index.use[node_id].completing[job.job_id] = None
        drop_job_duties(cluster, job.job_id, (node_id,))
    job_duties(cluster, job, DutyKind.TERMINATE, removed_ids, event.first_duty_id, event.time_us)


@applies(ev.LostRunsChanged)
def _lost_runs_changed(cluster: Cluster, event: ev.LostRunsChanged) -> None:
    job = cluster.jobs[event.job_id]
    runs = {(run.attempt, run.node): run for run in (*job.lost_runs, *event.lost_runs)}
    _set_lost_runs(cluster, job, tuple(runs.values()))
