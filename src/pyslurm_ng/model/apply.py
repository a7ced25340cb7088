"""How each event changes the Cluster: one short function per kind. Apply obeys.

No clock, randomness, files, configuration or messages. A broken precondition is a bug in a rule,
hence the assertions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec

from pyslurm_ng.base.numbers import DAY_US, HOUR_US, NO_VAL

from . import events as ev, task_ranges
from .assoc import OwnerUsage
from .cluster import RUNS_EPILOG, Cluster, NodeUse, is_completing
from .duty import Duty, DutyKind
from .ids import STEP_BATCH, STEP_INTERACTIVE
from .job import NO_STEPS, SUSPENDED_BY_OPERATOR, Job, LostRun
from .node import Node, NodeSpec
from .states import JobFlag, JobState, NodeFlag, NodeState, Reason
from .usage import merge

E = TypeVar("E", bound=ev.Event)
K = TypeVar("K")
_APPLIERS: dict[type, Callable[[Cluster, Any], None]] = {}
_node_id = attrgetter("node_id")
MOST_IDS_SEEN = 1000  # so many job ids are left out after a crash at most
_REPLIES_KEPT_US = DAY_US


def applies(
    kind: type[E],
) -> Callable[[Callable[[Cluster, E], None]], Callable[[Cluster, E], None]]:
    """Register the function that applies events of `kind`."""

    def register(function: Callable[[Cluster, E], None]) -> Callable[[Cluster, E], None]:
        assert kind not in _APPLIERS, kind
        _APPLIERS[kind] = function
        return function

    return register


def apply(cluster: Cluster, event: ev.AnyEvent) -> None:
    """Change `cluster` by one event."""
    cluster.time_us = max(cluster.time_us, event.time_us)
    _APPLIERS[type(event)](cluster, event)


def apply_all(cluster: Cluster, events: Iterable[ev.AnyEvent]) -> None:
    """Change `cluster` by several events in order."""
    for event in events:
        apply(cluster, event)


# Small parts ----------------------------------------------------------------------------------


def _field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


_JOB_TYPES = _field_types(Job)
_NODE_TYPES = _field_types(Node)
_CHARGED_BY = frozenset(("qos", "assoc_id", "licenses_alloc"))


def _set_fields(record: msgspec.Struct, fields: dict[str, object], types: dict[str, Any]) -> None:
    # A decoded event holds lists where the live one held tuples; converting both keeps them equal.
    for name, value in fields.items():
        setattr(record, name, msgspec.convert(msgspec.to_builtins(value), types[name]))


def _move_state(cluster: Cluster, job: Job) -> None:
    """Bring the state indexes up to date after a job's state or flags changed."""
    was_active = job.job_id in cluster.active
    cluster.index_job_state(job)
    is_active = job.job_id in cluster.active
    if was_active == is_active:
        return
    sign = 1 if is_active else -1
    cluster.take_licenses(job, sign)
    if job.array_job_id:
        count = cluster.array_active.get(job.array_job_id, 0) + sign
        cluster.array_active[job.array_job_id] = count
        if not count:
            del cluster.array_active[job.array_job_id]


def _claim_job_id(cluster: Cluster, job_id: int) -> None:
    assert job_id not in cluster.jobs, job_id
    cluster.next_job_id = job_id + 1 if job_id < cluster.max_job_id else cluster.first_job_id


def _add_duty(cluster: Cluster, duty: Duty) -> None:
    assert duty.duty_id >= cluster.next_duty_id, duty
    cluster.next_duty_id = duty.duty_id + 1
    cluster.duties.setdefault(duty.node_id, {})[duty.duty_id] = duty


def _drop_duty(cluster: Cluster, node_id: int, duty_id: int) -> Duty | None:
    of_node = cluster.duties.get(node_id)
    duty = of_node.pop(duty_id, None) if of_node else None
    if of_node is not None and not of_node:
        del cluster.duties[node_id]
    return duty


def _drop_job_duties(cluster: Cluster, job_id: int, node_ids: Iterable[int]) -> None:
    if not cluster.duties:
        return
    for node_id in node_ids:
        of_node = cluster.duties.get(node_id)
        if not of_node:
            continue
        for duty in [duty for duty in of_node.values() if duty.job_id == job_id]:
            _drop_duty(cluster, node_id, duty.duty_id)


def _job_duties(
    cluster: Cluster,
    job: Job,
    kind: DutyKind,
    node_ids: Iterable[int],
    first_duty_id: int,
    time_us: int,
    *,
    step_id: int = -1,
    signal: int = 0,
    flags: int = 0,
) -> None:
    for duty_id, node_id in enumerate(node_ids, first_duty_id):
        _add_duty(
            cluster,
            Duty(duty_id, kind, node_id, job.job_id, job.attempt, time_us, step_id, signal, flags),
        )


def _forget_dependencies(cluster: Cluster, job: Job) -> None:
    for term in job.dependencies:
        if term.job_id:
            _drop_waiting(cluster.dependents, term.job_id, job.job_id)
        else:
            _drop_waiting(cluster.singletons, (job.uid, job.request.name), job.job_id)


def _drop_waiting(index: dict[K, dict[int, None]], key: K, job_id: int) -> None:
    waiting = index.get(key)
    if waiting is not None:
        waiting.pop(job_id, None)
        if not waiting:
            del index[key]


# Jobs -----------------------------------------------------------------------------------------


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
    cluster.index_job(job)


@applies(ev.JobUpdated)
def _job_updated(cluster: Cluster, event: ev.JobUpdated) -> None:
    job = cluster.jobs[event.job_id]
    _forget_dependencies(cluster, job)
    if job.job_id in cluster.active:
        cluster.take_licenses(job, -1)
        if not _CHARGED_BY.isdisjoint(event.fields):
            _charge(job, event.time_us)
    if event.request is not None or "partition" in event.fields:
        _drop_claim(job)  # it was for what the job wanted before
    if event.request is not None:
        job.request = event.request
        cluster.share_values(job)
    _set_fields(job, event.fields, _JOB_TYPES)
    if job.job_id in cluster.active:
        cluster.take_licenses(job, 1)
    cluster.index_dependencies(job)
    _move_state(cluster, job)


@applies(ev.ArrayTaskSplit)
def _array_task_split(cluster: Cluster, event: ev.ArrayTaskSplit) -> None:
    master = cluster.jobs[event.array_job_id]
    if event.tasks:
        assert event.job_id != master.job_id
        master.array_pending = task_ranges.intersect(master.array_pending, event.tasks)[1]
    else:
        master.array_pending = task_ranges.remove(master.array_pending, event.task_id)
    cluster.count_array(master)
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
        cluster.user_jobs[part.uid][part.job_id] = None
        cluster.index_job_state(part)
        cluster.index_dependencies(part)
    if not event.tasks:
        part.array_task_id = event.task_id
        cluster.arrays.setdefault(master.array_job_id, {})[event.task_id] = part.job_id


@applies(ev.JobEligible)
def _job_eligible(cluster: Cluster, event: ev.JobEligible) -> None:
    job = cluster.jobs[event.job_id]
    job.eligible_us = job.accrue_us = event.time_us
    cluster.ineligible.pop(job.job_id, None)
    if job.reason in (Reason.BeginTime, Reason.Dependency, Reason.Cleaning):
        job.reason = Reason.NONE


@applies(ev.DependencyChanged)
def _dependency_changed(cluster: Cluster, event: ev.DependencyChanged) -> None:
    job = cluster.jobs[event.job_id]
    _forget_dependencies(cluster, job)
    job.dependencies = event.dependencies
    job.dependency_any = event.dependency_any
    cluster.index_dependencies(job)
    if not job.priority and not job.dependencies:
        cluster.ineligible.pop(job.job_id, None)  # only held from now on
    if event.never_satisfied:
        job.reason = Reason.DependencyNeverSatisfied
    elif not job.dependencies and job.reason == Reason.Dependency:
        job.reason = Reason.NONE


@applies(ev.JobAllocated)
def _job_allocated(cluster: Cluster, event: ev.JobAllocated) -> None:
    job = cluster.jobs[event.job_id]
    assert job.state == JobState.PENDING and not job.nodes and not job.array_pending, job
    job.state = JobState.RUNNING
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
    if job.lost_runs:
        _set_lost_runs(cluster, job, tuple(run for run in job.lost_runs if not run.proof))
    _drop_claim(job)
    job.start_us = event.time_us
    job.last_eval_us = event.time_us
    if event.time_limit_min != NO_VAL:
        job.time_limit_min = event.time_limit_min
    _move_state(cluster, job)
    cluster.hold(job.job_id, event.nodes)
    _begin_duties(cluster, job, event)


def _begin_duties(cluster: Cluster, job: Job, event: ev.JobAllocated | ev.PrologEnded) -> None:
    """Have the batch node launch or prepare a job, and with `prepare_all` the others prepare."""
    duty_id = event.first_duty_id
    if event.duty:
        kind = DutyKind(event.duty)
        _job_duties(cluster, job, kind, (job.batch_node_id,), duty_id, event.time_us)
        duty_id += 1
    if event.prepare_all:
        others = [alloc.node_id for alloc in job.nodes if alloc.node_id != job.batch_node_id]
        _job_duties(cluster, job, DutyKind.PREPARE, others, duty_id, event.time_us)


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
    _move_state(cluster, job)
    for alloc in job.nodes_held:
        cluster.recount(alloc.node_id)
    _job_duties(cluster, job, DutyKind.SUSPEND, node_ids, event.first_duty_id, event.time_us)


@applies(ev.JobResumed)
def _job_resumed(cluster: Cluster, event: ev.JobResumed) -> None:
    job = cluster.jobs[event.job_id]
    assert job.state == JobState.SUSPENDED, job
    _end_suspension(job, event.time_us)
    job.state = JobState.RUNNING
    job.suspended_by = 0
    node_ids = [alloc.node_id for alloc in job.nodes]
    _move_state(cluster, job)
    for alloc in job.nodes_held:
        cluster.recount(alloc.node_id)
    _job_duties(cluster, job, DutyKind.RESUME, node_ids, event.first_duty_id, event.time_us)


def _end_suspension(job: Job, time_us: int) -> None:
    if job.state == JobState.SUSPENDED:
        job.suspended_us += time_us - job.suspend_us


@applies(ev.JobSignalled)
def _job_signalled(cluster: Cluster, event: ev.JobSignalled) -> None:
    job = cluster.jobs[event.job_id]
    job.time_signalled |= event.marks
    if event.kill_us:
        job.kill_us = event.kill_us
    node_ids = event.node_ids or tuple(alloc.node_id for alloc in job.nodes)
    _job_duties(
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
    assert job.job_id in cluster.active and not is_completing(job), job
    cluster.prologs.pop(job.job_id, None)
    if cluster.programs & RUNS_EPILOG:
        cluster.epilogs[job.job_id] = None
    _end_suspension(job, event.time_us)
    was_suspended = job.state == JobState.SUSPENDED
    job.state = JobState(event.state)
    job.flags = (job.flags | JobFlag.COMPLETING | event.flags) & ~JobFlag.CONFIGURING
    job.exit_code = event.exit_code
    job.reason, job.reason_text = event.reason, event.reason_text
    job.end_us = event.end_us or event.time_us
    job.cancelled_by = event.cancelled_by
    job.failed_node = event.failed_node
    job.kill_us = job.preempt_end_us = 0
    # Others may run on its cores: it does not get them back to clean up.
    job.suspended_by = (job.suspended_by or SUSPENDED_BY_OPERATOR) if was_suspended else 0
    job.nodes_pending = event.node_ids + tuple(map(_node_id, job.nodes_leaving))
    if event.derived_exit_code >= 0:
        job.derived_exit_code = event.derived_exit_code
    _drop_job_duties(cluster, job.job_id, map(_node_id, job.nodes))
    _move_state(cluster, job)
    clean = list(map(_node_id, job.nodes))
    if event.node_ids:
        cleaning = set(event.node_ids)
        clean = [node_id for node_id in clean if node_id not in cleaning]
    for node_id in job.nodes_pending:
        cluster.use[node_id].completing[job.job_id] = None
        if was_suspended:
            cluster.recount(node_id)
    cluster.give_back(job.job_id, clean, event.time_us)
    _job_duties(
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
    job.state = JobState(event.state)
    job.flags &= ~(JobFlag.COMPLETING | JobFlag.SIGNALING | JobFlag.STOPPED)
    job.steps = NO_STEPS
    job.suspended_by = 0
    job.nodes_leaving = ()
    _drop_claim(job)
    _move_state(cluster, job)
    _forget_dependencies(cluster, job)


@applies(ev.JobRequeued)
def _job_requeued(cluster: Cluster, event: ev.JobRequeued) -> None:
    job = cluster.jobs[event.job_id]
    assert not job.nodes_pending and job.job_id not in cluster.epilogs, job
    job.state = JobState.PENDING
    job.flags = event.flags
    job.attempt = event.attempt
    job.launch_failures = event.launch_failures
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
    job.preempt_us = job.suspended_by = job.resize_us = 0
    job.charged_us = job.charged_suspended_us = job.start_priority = 0
    job.rows = 1
    _move_state(cluster, job)  # gives back the licences
    job.licenses_alloc = ""
    cluster.index_dependencies(job)


@applies(ev.JobPurged)
def _job_purged(cluster: Cluster, event: ev.JobPurged) -> None:
    for job_id in event.job_ids:
        job = cluster.jobs.pop(job_id)
        assert job_id in cluster.ended, job
        del cluster.ended[job_id]
        _forget_dependencies(cluster, job)
        _set_lost_runs(cluster, job, ())
        of_user = cluster.user_jobs[job.uid]
        del of_user[job_id]
        if not of_user:
            del cluster.user_jobs[job.uid]
        tasks = cluster.arrays.get(job.array_job_id)
        if tasks is not None and tasks.get(job.array_task_id) == job_id:
            del tasks[job.array_task_id]
            if not tasks:
                del cluster.arrays[job.array_job_id]


@applies(ev.StepCreated)
def _step_created(cluster: Cluster, event: ev.StepCreated) -> None:
    job = cluster.jobs[event.job_id]
    step = event.step
    assert step.step_id not in job.steps, step
    # The event's record must not change with ours: followers may still hold it.
    if not job.steps:
        job.steps = {}
    job.steps[step.step_id] = copy.copy(step)
    if step.step_id < STEP_INTERACTIVE:
        job.next_step_id = max(job.next_step_id, step.step_id + 1)


@applies(ev.StepUpdated)
def _step_updated(cluster: Cluster, event: ev.StepUpdated) -> None:
    cluster.jobs[event.job_id].steps[event.step_id].time_limit_min = event.time_limit_min


@applies(ev.StepEnded)
def _step_ended(cluster: Cluster, event: ev.StepEnded) -> None:
    job = cluster.jobs[event.job_id]
    job.steps.pop(event.step_id, None)
    if event.step_id < STEP_INTERACTIVE:
        job.derived_exit_code = max(job.derived_exit_code, event.exit_code)
    elif event.step_id == STEP_BATCH and not job.exit_code:
        # How the script of a cancelled or timed out job ended is known only afterwards.
        job.exit_code = event.exit_code


@applies(ev.StepNodesDone)
def _step_nodes_done(cluster: Cluster, event: ev.StepNodesDone) -> None:
    step = cluster.jobs[event.job_id].steps[event.step_id]
    step.nodes_pending = tuple(node for node in step.nodes_pending if node not in event.node_ids)
    step.exit_code = max(step.exit_code, event.exit_code)
    if event.state != JobState.COMPLETED:
        step.end_state = event.state
    if event.usage is not None:
        step.usage = merge(step.usage, event.usage)


@applies(ev.JobResized)
def _job_resized(cluster: Cluster, event: ev.JobResized) -> None:
    job = cluster.jobs[event.job_id]
    _charge(job, event.time_us)
    job.resize_us = event.time_us
    kept = {alloc.node_id for alloc in event.nodes}
    given_up = tuple(alloc for alloc in job.nodes if alloc.node_id not in kept)
    job.nodes = event.nodes
    for alloc in event.nodes:
        cluster.use[alloc.node_id].allocs[job.job_id] = alloc
        cluster.recount(alloc.node_id)
    left = tuple(map(_node_id, given_up))
    if not event.first_duty_id:
        cluster.give_back(job.job_id, left, event.time_us)
        return
    job.nodes_leaving += given_up
    for node_id in left:
        cluster.use[node_id].completing[job.job_id] = None
        _drop_job_duties(cluster, job.job_id, (node_id,))
    _job_duties(cluster, job, DutyKind.TERMINATE, left, event.first_duty_id, event.time_us)


def _charge(job: Job, time_us: int) -> None:
    """Note that what a job has used so far counts for who and what it was."""
    job.charged_us = time_us
    job.charged_suspended_us = job.suspended_us
    if job.state == JobState.SUSPENDED:
        job.charged_suspended_us += time_us - job.suspend_us


# Nodes ----------------------------------------------------------------------------------------


@applies(ev.NodeRegistered)
def _node_registered(cluster: Cluster, event: ev.NodeRegistered) -> None:
    node = cluster.node(event.node_id)
    if node.state == NodeState.FUTURE or node.facts.gres != event.facts.gres:
        cluster.memo.clear()
    node.facts = event.facts
    node.registered_us = event.time_us
    _set_node_state(node, event.state, event.flags, event.reason, event.time_us)
    if not node.last_busy_us:
        node.last_busy_us = event.time_us
    cluster.touch_node(event.node_id)


def _set_node_state(node: Node, state: int, flags: int, reason: str, time_us: int) -> None:
    node.state, node.flags = state, flags
    if reason != node.reason:
        node.reason = reason
        node.reason_us = time_us if reason else 0
        node.reason_uid = 0
    if state != NodeState.DOWN:
        node.down_for_silence = False


@applies(ev.NodeUpdated)
def _node_updated(cluster: Cluster, event: ev.NodeUpdated) -> None:
    cluster.memo.clear()
    for node_id in event.node_ids:
        _set_fields(cluster.node(node_id), event.fields, _NODE_TYPES)
        cluster.touch_node(node_id)


@applies(ev.NodesDown)
def _nodes_down(cluster: Cluster, event: ev.NodesDown) -> None:
    for node_id in event.node_ids:
        node = cluster.node(node_id)
        node.state = NodeState.DOWN
        node.reason, node.reason_us, node.reason_uid = event.reason, event.time_us, event.uid
        node.down_for_silence = event.for_silence
        cluster.duties.pop(node_id, None)
        for job_id in list(cluster.use[node_id].completing):
            _node_is_clean(cluster, job_id, node_id, event.time_us)
        cluster.touch_node(node_id)


@applies(ev.NodesReturned)
def _nodes_returned(cluster: Cluster, event: ev.NodesReturned) -> None:
    for node_id in event.node_ids:
        node = cluster.node(node_id)
        flags = node.flags & ~NodeFlag.NOT_RESPONDING
        reason = node.reason if flags & (NodeFlag.DRAIN | NodeFlag.FAIL) else ""
        _set_node_state(node, NodeState.IDLE, flags, reason, event.time_us)
        node.last_busy_us = event.time_us
        cluster.touch_node(node_id)


@applies(ev.NodesSilent)
def _nodes_silent(cluster: Cluster, event: ev.NodesSilent) -> None:
    for node_id in event.node_ids:
        node = cluster.node(node_id)
        if event.silent:
            node.flags |= NodeFlag.NOT_RESPONDING
        else:
            node.flags &= ~NodeFlag.NOT_RESPONDING
        cluster.touch_node(node_id)


def _node_is_clean(cluster: Cluster, job_id: int, node_id: int, time_us: int) -> None:
    job = cluster.jobs[job_id]
    assert node_id in job.nodes_pending or not is_completing(job), (job, node_id)
    job.nodes_pending = tuple(other for other in job.nodes_pending if other != node_id)
    if job.nodes_leaving:
        job.nodes_leaving = tuple(left for left in job.nodes_leaving if left.node_id != node_id)
    cluster.give_back(job_id, (node_id,), time_us)


@applies(ev.DutiesDone)
def _duties_done(cluster: Cluster, event: ev.DutiesDone) -> None:
    for node_id, duty_id in event.done:
        duty = _drop_duty(cluster, node_id, duty_id)
        if duty is None:
            continue  # superseded: its job ended or its node was lost meanwhile
        if duty.kind == DutyKind.TERMINATE:
            _node_is_clean(cluster, duty.job_id, node_id, event.time_us)


@applies(ev.DutiesDropped)
def _duties_dropped(cluster: Cluster, event: ev.DutiesDropped) -> None:
    for node_id, duty_id in event.dropped:
        duty = _drop_duty(cluster, node_id, duty_id)
        assert duty is None or duty.kind != DutyKind.TERMINATE, duty


# Configuration --------------------------------------------------------------------------------

_INITIAL_STATES = {
    "DOWN": (NodeState.DOWN, NodeFlag.NONE),
    "DRAIN": (NodeState.UNKNOWN, NodeFlag.DRAIN),
    "FAIL": (NodeState.UNKNOWN, NodeFlag.FAIL),
    "FAILING": (NodeState.UNKNOWN, NodeFlag.FAIL),
    "FUTURE": (NodeState.FUTURE, NodeFlag.NONE),
    "CLOUD": (NodeState.IDLE, NodeFlag.CLOUD | NodeFlag.POWERED_DOWN),
    "EXTERNAL": (NodeState.IDLE, NodeFlag.EXTERNAL),
}


@applies(ev.LostRunsChanged)
def _lost_runs_changed(cluster: Cluster, event: ev.LostRunsChanged) -> None:
    job = cluster.jobs[event.job_id]
    runs = {(run.attempt, run.node): run for run in (*job.lost_runs, *event.lost_runs)}
    _set_lost_runs(cluster, job, tuple(runs.values()))


def _set_lost_runs(cluster: Cluster, job: Job, runs: tuple[LostRun, ...]) -> None:
    cluster.index_lost_runs(job, runs)
    job.lost_runs = runs


@applies(ev.ConfigLoaded)
def _config_loaded(cluster: Cluster, event: ev.ConfigLoaded) -> None:
    cluster.memo.clear()
    cluster.cluster_name = event.cluster_name
    cluster.conf_hash = event.conf_hash
    cluster.first_job_id, cluster.max_job_id = event.first_job_id, event.max_job_id
    cluster.next_job_id = max(cluster.next_job_id, event.first_job_id)
    cluster.licenses = dict(event.licenses)
    cluster.topologies = event.topologies
    cluster.programs = event.programs
    named = {spec.name for spec in event.nodes}
    for node in cluster.living_nodes():
        if node.spec.name not in named:
            assert not cluster.use[node.node_id].allocs, node
            cluster.duties.pop(node.node_id, None)
            cluster.nodes[node.node_id] = None
            del cluster.node_by_name[node.spec.name]
    for spec in event.nodes:
        _configure_node(cluster, spec, event)
    cluster.partitions = {partition.name: partition for partition in event.partitions}
    while len(cluster.use) < len(cluster.nodes):
        cluster.use.append(NodeUse())
    cluster.touch_all_nodes()


def _configure_node(cluster: Cluster, spec: NodeSpec, event: ev.ConfigLoaded) -> None:
    node_id = cluster.node_by_name.get(spec.name)
    if node_id is not None:
        node = cluster.node(node_id)
        if node.spec != spec:
            if node.spec.features != spec.features:
                node.features = node.features_active = spec.features
            if node.spec.weight != spec.weight:
                node.weight = spec.weight
            node.spec = spec
        return
    state, reason = spec.state.upper(), spec.reason
    for line in event.down_nodes:
        if spec.name in line.names:
            state, reason = line.state.upper(), line.reason
    base, flags = _INITIAL_STATES.get(state, (NodeState.UNKNOWN, NodeFlag.NONE))
    node_id = len(cluster.nodes)
    cluster.nodes.append(
        Node(
            node_id=node_id,
            spec=spec,
            state=base,
            flags=flags,
            reason=reason,
            reason_us=event.time_us if reason else 0,
            features=spec.features,
            features_active=spec.features,
            weight=spec.weight,
            comment=spec.comment,
            extra=spec.extra,
        )
    )
    cluster.node_by_name[spec.name] = node_id


@applies(ev.PartitionUpdated)
def _partition_updated(cluster: Cluster, event: ev.PartitionUpdated) -> None:
    cluster.memo.clear()
    changed = event.partition
    if changed.is_default:
        for name, other in cluster.partitions.items():
            if other.is_default and name != changed.name:
                cluster.partitions[name] = msgspec.structs.replace(other, is_default=False)
    cluster.partitions[changed.name] = changed


@applies(ev.PartitionDeleted)
def _partition_deleted(cluster: Cluster, event: ev.PartitionDeleted) -> None:
    cluster.memo.clear()
    del cluster.partitions[event.name]


@applies(ev.LicensesUpdated)
def _licenses_updated(cluster: Cluster, event: ev.LicensesUpdated) -> None:
    cluster.licenses = dict(event.licenses)
    cluster.license_servers = {one.name: one for one in event.servers}


# Reservations ---------------------------------------------------------------------------------


@applies(ev.ReservationCreated)
def _reservation_created(cluster: Cluster, event: ev.ReservationCreated) -> None:
    assert event.reservation.name not in cluster.reservations, event
    cluster.reservations[event.reservation.name] = event.reservation
    newest = max(cluster.last_reservation_id, event.reservation.reservation_id)
    cluster.last_reservation_id = newest
    cluster.index_reservations()


@applies(ev.ReservationUpdated)
def _reservation_updated(cluster: Cluster, event: ev.ReservationUpdated) -> None:
    assert event.reservation.name in cluster.reservations, event
    cluster.reservations[event.reservation.name] = event.reservation
    cluster.index_reservations()


@applies(ev.ReservationDeleted)
def _reservation_deleted(cluster: Cluster, event: ev.ReservationDeleted) -> None:
    del cluster.reservations[event.name]
    cluster.index_reservations()


# Associations ---------------------------------------------------------------------------------


@applies(ev.AssocChanged)
def _assoc_changed(cluster: Cluster, event: ev.AssocChanged) -> None:
    if event.replace:
        cluster.assocs, cluster.users = {}, {}
    for assoc in event.changed:
        cluster.assocs[assoc.assoc_id] = assoc
    for assoc_id in event.removed:
        cluster.assocs.pop(assoc_id, None)
    for user in event.users:
        cluster.users[user.name] = user
    for name in event.users_removed:
        cluster.users.pop(name, None)
    cluster.assoc_version = event.version or cluster.assoc_version
    cluster.index_assocs()


@applies(ev.QosChanged)
def _qos_changed(cluster: Cluster, event: ev.QosChanged) -> None:
    if event.replace:
        cluster.qos = {}
    for qos in event.changed:
        cluster.qos[qos.name] = qos
    for name in event.removed:
        cluster.qos.pop(name, None)


@applies(ev.UsageReset)
def _usage_reset(cluster: Cluster, event: ev.UsageReset) -> None:
    if event.is_all:
        cluster.usage.clear()
        cluster.usage_since_us = event.time_us
    keys: list[tuple[str, int | str]] = [("assoc", assoc_id) for assoc_id in event.assoc_ids]
    for kind, owner in (*keys, *(("qos", name) for name in event.qos)):
        at_us = event.time_us
        cluster.usage[kind, owner] = OwnerUsage(kind, owner, at_us, since_us=at_us)


@applies(ev.UsageKept)
def _usage_kept(cluster: Cluster, event: ev.UsageKept) -> None:
    assert event.until_us >= cluster.usage_until_us, event
    cluster.usage_until_us = event.until_us
    for one in event.owners:
        cluster.usage[one.kind, one.owner] = one
    # The usage of an association that is gone from accounting goes with it.
    for kind, owner in list(cluster.usage):
        if owner not in (cluster.assocs if kind == "assoc" else cluster.qos):
            del cluster.usage[kind, owner]


# Control --------------------------------------------------------------------------------------


@applies(ev.EpochStarted)
def _epoch_started(cluster: Cluster, event: ev.EpochStarted) -> None:
    assert event.epoch > cluster.epoch, event
    cluster.epoch = event.epoch
    # A user that saw one of these ids may still name it. Ids that start again from the first are
    # far off.
    if 0 < cluster.ids_seen_below - cluster.next_job_id <= MOST_IDS_SEEN:
        cluster.next_job_id = cluster.ids_seen_below
    cluster.ids_seen_below = 0


@applies(ev.JobIdsSeen)
def _job_ids_seen(cluster: Cluster, event: ev.JobIdsSeen) -> None:
    assert event.below <= cluster.next_job_id + MOST_IDS_SEEN, event
    cluster.ids_seen_below = event.below


@applies(ev.RequestAnswered)
def _request_answered(cluster: Cluster, event: ev.RequestAnswered) -> None:
    cluster.replies.add(event.uid, event.request_id, event.time_us, event.reply)
    cluster.replies.forget(event.time_us - _REPLIES_KEPT_US)


@applies(ev.ScriptStored)
def _script_stored(cluster: Cluster, event: ev.ScriptStored) -> None:
    """Contents are kept in files by the edge; the Cluster knows only their digests."""


@applies(ev.NumbersSkipped)
def _numbers_skipped(cluster: Cluster, event: ev.NumbersSkipped) -> None:
    if event.next_job_id:
        assert cluster.first_job_id <= event.next_job_id <= cluster.max_job_id, event
        cluster.next_job_id = event.next_job_id
    for job_id, attempt in event.attempts:
        job = cluster.jobs[job_id]
        assert job.state == JobState.PENDING and attempt > job.attempt, job
        job.attempt = attempt


# Times of a job that durations are counted from, once it has started and while it waits.
_RUN_TIMES = (
    "start_us", "suspend_us", "last_eval_us", "kill_us", "preempt_us", "preempt_end_us",
    "resize_us", "charged_us",
)  # fmt: skip
_WAIT_TIMES = ("eligible_us", "accrue_us")
_STEP_TIMES = ("created_us", "start_us", "end_us")
_NODE_TIMES = ("reason_us", "registered_us", "last_busy_us", "resume_after_us")
_LONGEST_REQUEUE_US = 2 * HOUR_US  # more than a requeued job is kept waiting for


@applies(ev.TimesMoved)
def _times_moved(cluster: Cluster, event: ev.TimesMoved) -> None:
    shift_us = event.shift_us
    for job_id in event.job_ids:
        job = cluster.jobs[job_id]
        _move_times(job, _RUN_TIMES, shift_us)
        for step in job.steps.values():
            _move_times(step, _STEP_TIMES, shift_us)
    if not event.is_all:
        return
    before_us, cluster.time_us = cluster.time_us, event.time_us
    moved = frozenset(event.job_ids)
    for job in cluster.jobs.values():
        _move_times(job, _WAIT_TIMES, shift_us)
        if job.job_id not in moved:
            _move_times(job, (*_RUN_TIMES, "end_us"), shift_us)
        # A begin time that a requeue has set is counted from then; others are wall time.
        if job.attempt and 0 < job.begin_us - before_us < _LONGEST_REQUEUE_US:
            job.begin_us += shift_us
    for node in cluster.living_nodes():
        _move_times(node, _NODE_TIMES, shift_us)
    for name, item in cluster.reservations.items():
        if item.idle_since_us:
            idle_us = item.idle_since_us + shift_us
            cluster.reservations[name] = msgspec.structs.replace(item, idle_since_us=idle_us)
    cluster.usage_until_us = max(0, cluster.usage_until_us + shift_us)
    if cluster.usage_since_us:
        cluster.usage_since_us += shift_us
    for key, one in cluster.usage.items():
        since_us = one.since_us + shift_us if one.since_us else 0
        cluster.usage[key] = msgspec.structs.replace(
            one, at_us=one.at_us + shift_us, since_us=since_us
        )


def _move_times(record: msgspec.Struct, names: Iterable[str], shift_us: int) -> None:
    """Move those times of a record that are known; 0 stands for none."""
    for name in names:
        time_us = getattr(record, name)
        if time_us:
            setattr(record, name, time_us + shift_us)


# The controller's programs --------------------------------------------------------------------


@applies(ev.PrologEnded)
def _prolog_ended(cluster: Cluster, event: ev.PrologEnded) -> None:
    job = cluster.jobs[event.job_id]
    assert job.attempt == event.attempt, job
    cluster.prologs.pop(job.job_id, None)
    if job.reason == Reason.Prolog:
        job.reason = Reason.NONE
    if not event.configuring:
        job.flags &= ~JobFlag.CONFIGURING
    _begin_duties(cluster, job, event)


@applies(ev.EpilogEnded)
def _epilog_ended(cluster: Cluster, event: ev.EpilogEnded) -> None:
    del cluster.epilogs[event.job_id]


assert set(_APPLIERS) == set(cast(Any, ev.AnyEvent).__args__), "an event without an applier"
