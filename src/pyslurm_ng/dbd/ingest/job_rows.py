"""How each job and step event changes the rows of its job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.numbers import (
    NO_VAL,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
    REQ_OVERSUBSCRIBE,
)
from pyslurm_ng.base.sluid import sluid_number
from pyslurm_ng.dbd.ingest import reservation_rows
from pyslurm_ng.dbd.ingest.session import Row, Session
from pyslurm_ng.dbd.rollup.job_sums import summed_tres
from pyslurm_ng.dbd.schema import NO_TASK, STEP_ID_OFFSET
from pyslurm_ng.model import events as ev, job as model_job, task_ranges
from pyslurm_ng.model.amounts import allocated_tres, license_tres, requested_tres, tres_text
from pyslurm_ng.model.ids import MAX_NORMAL_STEP_ID
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes, memory_amounts
from pyslurm_ng.model.states import JobFlag, JobState, Reason, reason_text
from pyslurm_ng.model.usage import usage_columns

PENDING_RANGES = "_pending"
"""Key of a row that holds an array's waiting tasks, parsed, until `finish`."""

SUBMISSION_COLUMNS = (
    "original_sluid", "array_job_id", "array_task_id", "array_tasks", "array_max_tasks",
    "het_job_id", "het_job_offset", "association_id", "account", "uid", "gid", "user", "group",
    "partition", "qos", "qos_requested", "wckey", "name", "priority", "time_limit_min",
    "cpus_requested", "nodes_requested", "mem_mib", "mem_is_per_cpu", "tres_requested",
    "constraints", "container", "licenses", "reservation_requested", "work_dir", "std_in",
    "std_out", "std_err", "submit_line", "comment", "admin_comment", "system_comment", "extra",
    "mcs_label", "exclusive", "oversubscribe", "segment_size", "script_hash", "environment_hash",
    "submit_us", "eligible_us", "reason",
)  # fmt: skip
"""Columns that a requeued job's new row and an array task's row copy."""

_RESERVATION = ("reservation", "reservation_id")
_RUN_COLUMNS = (
    "attempt", "requeue_count", "state", "flags", *_RESERVATION, "derived_exit_code",
    "suspend_start_us",
)  # fmt: skip
"""Further columns that the new record of a resized run copies."""

# Every job waits for these; sacct shows any other reason that a job had before it started.
_USUAL_REASONS = (Reason.NONE, Reason.Priority, Reason.Resources)

# Names of members, and bits that are plain integers: an enum takes a microsecond to say either.
_NAMES = {int(state): state.name for state in JobState}
_PENDING, _RUNNING = JobState.PENDING.name, JobState.RUNNING.name
_REQUEUED = int(JobFlag.REQUEUED)

_KEPT_BY_REQUEUE = (JobState.NODE_FAIL, JobState.PREEMPTED, JobState.FAILED, JobState.TIMEOUT)


def apply(session: Session, event: ev.AnyEvent) -> bool:
    """Apply a job or step event; return whether it was one."""
    handler = _HANDLERS.get(type(event))
    if handler is None:
        return False
    handler(session, event)
    return True


def finish(row: Row) -> None:
    """Turn the parsed values of a row back into text, and set what follows from others."""
    pending = row.pop(PENDING_RANGES, None)
    if pending is not None:
        limit = f"%{row['array_max_tasks']}" if row["array_max_tasks"] and pending else ""
        row["array_tasks"] = task_ranges.text(pending) + limit
    row["summed_tres"] = summed_tres(row)


def _requested(
    request: model_job.JobRequest, partition: Partition | None, tracked: Iterable[str]
) -> tuple[int, int, dict[str, int]]:
    """Return requested nodes, CPUs and TRES; devices and licences only if tracked."""
    sizes = job_sizes(request, partition)
    return sizes.nodes_min, sizes.cpus, requested_tres(request, partition, tracked, sizes)


def _submitted(session: Session, event: ev.JobSubmitted) -> None:
    request = event.request
    row = session.new_job(event.job_id)
    partition = _partition(session, event.partition)
    nodes, cpus, tres = _requested(request, partition, session.tracked)
    sluid = sluid_number(event.time_us, event.job_id)
    row["submit_us"] = event.time_us
    row["sluid"] = sluid
    row["original_sluid"] = sluid
    row["association_id"] = event.assoc_id
    row["account"] = event.account
    row["uid"] = event.uid
    row["gid"] = event.gid
    row["user"] = event.user_name
    row["group"] = event.group_name
    row["partition"] = event.partition
    row["qos"] = event.qos
    row["qos_requested"] = request.qos
    row["wckey"] = request.wckey
    row["name"] = request.name
    row["priority"] = _number(event.priority)
    row["state"] = _PENDING
    row["reason"] = _reason(event.reason)
    row["eligible_us"] = event.eligible_us or event.begin_us
    row["time_limit_min"] = event.time_limit_min
    if session.keeps_scripts:
        row["script_hash"] = event.script_hash
    if session.keeps_environments:
        row["environment_hash"] = event.env_hash
    row["flags"] = "StartReceived"
    row["nodes_requested"] = nodes
    row["cpus_requested"] = cpus
    row["tres_requested"] = tres_text(tres)
    _set_request(row, request, partition)
    _set_reservation(session, row, request.reservation, event.time_us)
    if event.array_pending:
        row["array_job_id"] = event.job_id
        row["array_max_tasks"] = event.array_limit
        row[PENDING_RANGES] = event.array_pending
    if event.het_job_id:
        row["het_job_id"] = event.het_job_id
        row["het_job_offset"] = event.het_offset
    if not row["std_out"] and event.script_hash:
        row["std_out"] = "slurm-%A_%a.out" if event.array_pending else "slurm-%j.out"
    if not row["std_in"] and event.script_hash:
        row["std_in"] = "/dev/null"


def _partition(session: Session, names: str) -> Partition | None:
    """Return the first named partition; a job has its defaults until it starts."""
    return session.partitions.get(names.partition(",")[0])


_EXCLUSIVE = (
    (REQ_EXCLUSIVE, "NODE"),
    (REQ_EXCLUSIVE_USER, "USER"),
    (REQ_EXCLUSIVE_MCS, "MCS"),
    (REQ_EXCLUSIVE_TOPO, "TOPO"),
)


def _set_request(row: Row, request: model_job.JobRequest, partition: Partition | None) -> None:
    per_node, per_cpu, _, _ = memory_amounts(request, partition)
    flags = request.flags
    exclusive = "NO"
    if flags:  # most requests have none
        for bit, word in _EXCLUSIVE:
            if flags & bit:
                exclusive = word
    row["exclusive"] = exclusive
    row["oversubscribe"] = "YES" if flags & REQ_OVERSUBSCRIBE else "NO"
    row["mem_mib"] = per_cpu or per_node
    row["mem_is_per_cpu"] = int(per_cpu > 0)
    row["constraints"] = request.constraint
    row["container"] = request.container
    row["licenses"] = request.licenses
    row["reservation_requested"] = request.reservation
    row["work_dir"] = request.work_dir
    row["std_in"] = request.std_in
    row["std_out"] = request.std_out
    row["std_err"] = request.std_err
    row["submit_line"] = request.submit_line
    row["comment"] = request.comment
    row["admin_comment"] = request.admin_comment
    row["extra"] = request.extra
    row["mcs_label"] = request.mcs_label
    row["segment_size"] = request.segment


def _set_reservation(session: Session, row: Row, name: str, time_us: int) -> None:
    row["reservation"] = name
    row["reservation_id"] = reservation_rows.id_of(session, name, time_us)


def _updated(session: Session, event: ev.JobUpdated) -> None:
    row = session.job(event.job_id)
    if row is None:
        return
    request = event.request
    if request is not None:
        kept = {name: row[name] for name in ("std_in", "std_out")}
        has_started = row["state"] != _PENDING
        licenses = row["licenses"]
        _set_request(row, request, _partition(session, row["partition"]))
        for name, value in kept.items():
            row[name] = row[name] or value
        if has_started:
            row["licenses"] = licenses  # those that it was given
        else:
            _set_reservation(session, row, request.reservation, event.time_us)
        row["name"] = request.name
        row["wckey"] = request.wckey
        if not has_started:
            nodes, cpus, tres = _requested(
                request, _partition(session, row["partition"]), session.tracked
            )
            row.update(nodes_requested=nodes, cpus_requested=cpus, tres_requested=tres_text(tres))
    eligible_us = _eligible_after(row["eligible_us"], event)
    for name, value in event.fields.items():
        column = _JOB_FIELDS.get(name)
        if column is not None:
            row[column] = value
    row["eligible_us"] = eligible_us
    if "licenses_alloc" in event.fields:
        _change_licenses(session, row)
    if "priority" in event.fields:
        row["priority"] = _number(row["priority"])
    reason = event.fields.get("reason")
    if isinstance(reason, int) and reason not in _USUAL_REASONS:
        row["reason"] = reason_text(reason)
    pending = event.fields.get("array_pending")
    if isinstance(pending, list | tuple):
        row[PENDING_RANGES] = tuple((first, last, step) for first, last, step in pending)


def _eligible_after(before_us: int, event: ev.JobUpdated) -> int:
    """Return since when a changed job is eligible; a begin time that is to come counts already."""
    eligible_us = event.fields.get("eligible_us", before_us)
    begin_us = event.fields.get("begin_us", before_us)
    assert isinstance(eligible_us, int) and isinstance(begin_us, int)
    if 0 < eligible_us <= event.time_us:
        return eligible_us
    return begin_us if begin_us > event.time_us else 0


def _change_licenses(session: Session, row: Row) -> None:
    """Count the licences that a running job has now instead of those that it had."""
    words = row["tres_allocated"].split(",")
    licenses = license_tres(row["licenses"]).items()
    words = [word for word in words if not word.startswith("license/")]
    words += [f"{name}={count}" for name, count in licenses if name in session.tracked]
    row["tres_allocated"] = ",".join(sorted(words))


_JOB_FIELDS = {
    "account": "account", "qos": "qos", "assoc_id": "association_id", "partition": "partition",
    "time_limit_min": "time_limit_min", "priority": "priority",
    "comment": "comment", "admin_comment": "admin_comment", "system_comment": "system_comment",
    "array_limit": "array_max_tasks",
    "derived_exit_code": "derived_exit_code", "licenses_alloc": "licenses",
}  # fmt: skip
"""Attributes of the model's Job that are columns, with their names here.

An exit code is none: it belongs to the end. How the script of a cancelled job ended afterwards is
in the row of its batch step, as in Slurm.
"""


def _split(session: Session, event: ev.ArrayTaskSplit) -> None:
    array = session.job(event.array_job_id)
    if array is None:
        return
    pending = _pending(array)
    if event.job_id == event.array_job_id:
        # The last waiting task keeps the array's own job id.
        array.pop(PENDING_RANGES, None)
        array.update(array_task_id=event.task_id, array_tasks="")
        return
    if event.tasks:
        array[PENDING_RANGES] = task_ranges.intersect(pending, event.tasks)[1]
    else:
        array[PENDING_RANGES] = task_ranges.remove(pending, event.task_id)
    row = session.new_job(event.job_id)
    row.update({name: array[name] for name in (*SUBMISSION_COLUMNS, *_RESERVATION)})
    sluid = sluid_number(array["submit_us"], event.job_id)
    row["state"] = array["state"]
    row["flags"] = array["flags"]
    row["array_task_id"] = NO_TASK if event.tasks else event.task_id
    row["array_tasks"] = ""
    row["sluid"] = sluid
    row["original_sluid"] = sluid
    if event.tasks:
        row[PENDING_RANGES] = event.tasks


def _script_stored(session: Session, event: ev.ScriptStored) -> None:
    session.texts[event.digest] = event


def _eligible(session: Session, event: ev.JobEligible) -> None:
    row = session.job(event.job_id)
    if row is not None:
        row["eligible_us"] = event.time_us


def _allocated(session: Session, event: ev.JobAllocated) -> None:
    row = session.job(event.job_id)
    if row is None:
        return
    row["partition"] = event.partition
    if event.time_limit_min != NO_VAL:
        row["time_limit_min"] = event.time_limit_min
    row["state"] = _RUNNING
    row["start_us"] = event.time_us
    row["eligible_us"] = row["eligible_us"] or event.time_us
    row["flags"] = f"Sched{event.scheduler},StartReceived"
    row["priority"] = event.priority or row["priority"]
    if event.licenses:
        row["licenses"] = event.licenses
    if event.reservation:
        _set_reservation(session, row, event.reservation, event.time_us)
    if event.waited_for not in _USUAL_REASONS:
        row["reason"] = reason_text(event.waited_for)
    _set_allocation(session, row, event.nodes)


def _set_allocation(session: Session, row: Row, nodes: tuple[model_job.NodeAlloc, ...]) -> None:
    partition = _partition(session, row["partition"])
    terms = partition.billing_terms if partition is not None else ""
    amounts = allocated_tres(nodes, session.tracked, terms, row["licenses"])
    row["node_list"] = _node_list(session, nodes)
    row["nodes_allocated"] = len(nodes)
    row["cpus_allocated"] = amounts["cpu"]
    row["tres_allocated"] = tres_text(amounts)
    if amounts["mem"] and ",mem=" not in f",{row['tres_requested']}":
        # Who asks for no amount asks for all memory of the nodes; only now it is a number.
        asked = filter(None, row["tres_requested"].split(","))
        row["tres_requested"] = ",".join(sorted([*asked, f"mem={amounts['mem']}"]))


def _resized(session: Session, event: ev.JobResized) -> None:
    """Close the job's record; what it holds from now on is a new record."""
    old = session.job(event.job_id)
    if old is None:
        return
    row = session.new_job(event.job_id)
    row.update({name: old[name] for name in (*SUBMISSION_COLUMNS, *_RUN_COLUMNS)})
    row.update(start_us=event.time_us, sluid=sluid_number(event.time_us, event.job_id))
    old.update(end_us=event.time_us, state="RESIZING")
    for step in session.open_steps(old["job_index"]):
        key = step["step_id"], step["het_component"]
        session.step(row["job_index"], *key).update(step | {"job_index": row["job_index"]})
        session.step(old["job_index"], *key).update(end_us=event.time_us, state="RESIZING")
    _set_allocation(session, row, event.nodes)


def _started(session: Session, event: ev.JobStarted) -> None:
    """The script runs; the start shown is that of the allocation, as in the model."""


def _booted(session: Session, event: ev.PrologEnded) -> None:
    """A job's nodes are up: its time begins, as in the model."""
    row = session.job(event.job_id)
    if row is not None and event.booted:
        row["start_us"] = event.time_us


def _suspended(session: Session, event: ev.JobSuspended) -> None:
    row = session.job(event.job_id)
    if row is not None:
        row.update(state=JobState.SUSPENDED.name, suspend_start_us=event.time_us)


def _resumed(session: Session, event: ev.JobResumed) -> None:
    row = session.job(event.job_id)
    if row is not None:
        row["state"] = _RUNNING
        _add_suspended(session, row, event.time_us)


def _add_suspended(session: Session, row: Row, until_us: int) -> None:
    start_us = row["suspend_start_us"]
    if start_us:
        row["suspended_us"] += max(0, until_us - start_us)
        row["suspend_start_us"] = 0
        session.suspended(row["job_index"], start_us, max(start_us, until_us))


def _completing(session: Session, event: ev.JobCompleting) -> None:
    row = session.job(event.job_id)
    if row is None:
        return
    state = _state_name(event.state)
    if row["end_us"] and row["state"] == state:
        # A controller that lost the job and learnt of it from here sends this; the first event held
        # more.
        return
    _add_suspended(session, row, event.time_us)
    if event.flags & _REQUEUED and event.state not in _KEPT_BY_REQUEUE:
        row["state"] = "REQUEUED"
    else:
        row["state"] = state
    row["end_us"] = event.end_us or event.time_us
    row["exit_code"] = event.exit_code
    row["kill_uid"] = _uid(event.cancelled_by)
    row["failed_node"] = event.failed_node
    if event.derived_exit_code >= 0:
        row["derived_exit_code"] = event.derived_exit_code


def _ended(session: Session, event: ev.JobEnded) -> None:
    row = session.job(event.job_id)
    if row is None:
        return
    if event.derived_exit_code >= 0:
        row["derived_exit_code"] = event.derived_exit_code
    if not row["end_us"]:
        _add_suspended(session, row, event.time_us)
        row["end_us"] = event.time_us
        row["state"] = _state_name(event.state)
        row["exit_code"] = event.exit_code
        if not row["start_us"]:
            row["reason"] = "None"
            row["priority"] = event.priority or row["priority"]
        if event.cancelled_by != NO_VAL:
            row["kill_uid"] = _uid(event.cancelled_by)
    _close_steps(session, row, event.time_us)


def _close_steps(session: Session, row: Row, time_us: int) -> None:
    for step in session.open_steps(row["job_index"]):
        session.step(row["job_index"], step["step_id"], step["het_component"]).update(
            end_us=time_us, state=JobState.CANCELLED.name
        )


def _requeued(session: Session, event: ev.JobRequeued) -> None:
    old = session.job(event.job_id)
    if old is None:
        return
    if not old["end_us"]:
        old.update(end_us=event.time_us, state="REQUEUED")
    _close_steps(session, old, event.time_us)
    row = session.new_job(event.job_id)
    row.update({name: old[name] for name in SUBMISSION_COLUMNS})
    # The previous run's values are shown until the next run starts, as `scontrol show job` does.
    row.update({name: old[name] for name in ("nodes_allocated", "cpus_allocated")})
    row["tres_allocated"] = old["tres_allocated"]
    sluid = sluid_number(event.time_us, event.job_id)
    row["attempt"] = event.attempt
    row["requeue_count"] = event.attempt
    row["submit_us"] = event.time_us
    row["sluid"] = sluid
    row["original_sluid"] = sluid
    row["state"] = _PENDING
    row["eligible_us"] = event.begin_us or event.time_us
    row["reason"] = _reason(event.reason)
    row["priority"] = _number(event.priority) or old["priority"]
    row["flags"] = old["flags"]


def _step_created(session: Session, event: ev.StepCreated) -> None:
    job = session.jobs.get(event.job_id)
    if job is None or not session.stores_step(event.step.step_id):
        return
    step = event.step
    row = session.step(job["job_index"], _step_id(step.step_id))
    amounts = allocated_tres(step.nodes, session.tracked, None)
    row["name"] = step.name
    row["state"] = _state_name(step.state)
    row["start_us"] = step.start_us or step.created_us
    row["end_us"] = 0
    row["node_list"] = _node_list(session, step.nodes)
    row["nodes"] = len(step.nodes)
    row["tasks"] = step.ntasks
    row["cpus"] = step.cpus
    row["distribution"] = step.distribution or "Unknown"
    row["time_limit_min"] = step.time_limit_min
    row["submit_line"] = step.submit_line
    row["std_in"] = step.std_in
    row["std_out"] = step.std_out
    row["std_err"] = step.std_err
    row["container"] = step.container
    row["tres_allocated"] = tres_text(amounts)


def _step_updated(session: Session, event: ev.StepUpdated) -> None:
    job = session.jobs.get(event.job_id)
    if job is not None and session.stores_step(event.step_id):
        row = session.step(job["job_index"], _step_id(event.step_id))
        row["time_limit_min"] = event.time_limit_min


def _step_ended(session: Session, event: ev.StepEnded) -> None:
    job = session.jobs.get(event.job_id)
    if job is None:
        return
    if event.step_id < MAX_NORMAL_STEP_ID:
        job_row = session.job(event.job_id)
        assert job_row is not None
        job_row["derived_exit_code"] = max(job_row["derived_exit_code"], event.exit_code)
    usage = event.usage
    if usage is not None and usage.energy_j > 0:
        _set_energy(session, event.job_id, usage.energy_j)
    if not session.stores_step(event.step_id):
        return
    row = session.step(job["job_index"], _step_id(event.step_id))
    row.update(usage_columns(usage))
    row["state"] = _state_name(event.state)
    row["exit_code"] = event.exit_code
    row["end_us"] = event.end_us or event.time_us
    row["kill_uid"] = _uid(event.cancelled_by)
    row["energy_j"] = usage.energy_j if usage else 0
    row["user_cpu_us"] = usage.user_us if usage else 0
    row["system_cpu_us"] = usage.system_us if usage else 0
    row["start_us"] = row["start_us"] or row["end_us"]


def _set_energy(session: Session, job_id: int, energy_j: int) -> None:
    """Add what a step took to what its job has been allocated, as in Slurm.

    Sensors are of nodes, so steps beside each other, and the script's around them, measure the
    same: the job's energy is the most of one step, as sacct shows it.
    """
    row = session.job(job_id)
    assert row is not None
    words = [word for word in row["tres_allocated"].split(",") if word]
    amounts = {name: int(amount) for name, _, amount in (word.rpartition("=") for word in words)}
    amounts["energy"] = max(amounts.get("energy", 0), energy_j)
    row["tres_allocated"] = tres_text(amounts)
    if row["end_us"]:
        session.energy_known(row)


def _times_moved(session: Session, event: ev.TimesMoved) -> None:
    """Move the runs that are not over; runs that have ended keep their times."""
    for job_id in event.job_ids:
        row = session.job(job_id)
        if row is None or row["end_us"]:
            continue
        for name in ("start_us", "suspend_start_us", *(("eligible_us",) if event.is_all else ())):
            row[name] += event.shift_us if row[name] else 0
        for step in session.open_steps(row["job_index"]):
            key = step["step_id"], step["het_component"]
            session.step(row["job_index"], *key)["start_us"] += event.shift_us


def _state_name(number: int) -> str:
    return _NAMES.get(number) or JobState(number).name


def _node_list(session: Session, nodes: tuple[model_job.NodeAlloc, ...]) -> str:
    names = session.node_names
    return fold([names.get(node.node_id) or f"node-id-{node.node_id}" for node in nodes])


def _pending(row: Row) -> task_ranges.TaskRanges:
    """Return an array record's waiting tasks, from its text the first time."""
    pending: task_ranges.TaskRanges | None = row.get(PENDING_RANGES)
    if pending is None:
        words = row["array_tasks"].partition("%")[0].split(",")
        parsed = []
        for word in filter(None, words):
            span, _, step = word.partition(":")
            first, _, last = span.partition("-")
            parsed.append((int(first), int(last or first), int(step or 1)))
        pending = row[PENDING_RANGES] = tuple(parsed)
    return pending


def _step_id(step_id: int) -> int:
    return step_id - STEP_ID_OFFSET if step_id > MAX_NORMAL_STEP_ID else step_id


def _number(value: int) -> int:
    return 0 if value == NO_VAL else value


def _uid(value: int) -> int:
    return -1 if value == NO_VAL else value


def _reason(reason: int) -> str:
    """Return the reason that sacct keeps: none of those that every job waits for."""
    return "None" if reason in _USUAL_REASONS else reason_text(reason)


_HANDLERS: dict[type, Any] = {
    ev.JobSubmitted: _submitted,
    ev.JobUpdated: _updated,
    ev.ArrayTaskSplit: _split,
    ev.JobEligible: _eligible,
    ev.JobAllocated: _allocated,
    ev.JobStarted: _started,
    ev.PrologEnded: _booted,
    ev.JobSuspended: _suspended,
    ev.JobResumed: _resumed,
    ev.JobCompleting: _completing,
    ev.JobEnded: _ended,
    ev.JobRequeued: _requeued,
    ev.JobResized: _resized,
    ev.StepCreated: _step_created,
    ev.StepEnded: _step_ended,
    ev.StepUpdated: _step_updated,
    ev.ScriptStored: _script_stored,
    ev.TimesMoved: _times_moved,
}
