"""A job's facts, its outlook and its history -> the answer to `scontrol explain job`."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base import hostlist
from pyslurm_ng.ctld.queries.job_fields import dependency_text, first_partition
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster, license_counts
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import Dependency, Job
from pyslurm_ng.model.states import JobState, Reason, reason_text
from pyslurm_ng.sched.explain import Holder, Outlook
from pyslurm_ng.sched.snapshot import NO_END_US
from pyslurm_ng.wire.query_messages import HistoryLine, HolderShown, JobExplained, SoonerShown

_MOST_HOLDERS = 12


def shown_id(job: Job) -> str:
    """Return a job's id as users know it: 7, 7_3, 7+1."""
    if job.het_job_id:
        return f"{job.het_job_id}+{job.het_offset}"
    if job.array_job_id and job.array_task_id != NO_VAL:
        return f"{job.array_job_id}_{job.array_task_id}"
    return str(job.job_id)


def explained(
    cluster: Cluster,
    soft: Soft,
    job: Job,
    outlook: Outlook | None,
    history: Sequence[tuple[int, str]],
    history_begin_us: int,
    now_us: int,
) -> JobExplained:
    """Return the whole answer; `outlook` is of a job that waits for its turn, else None."""
    is_pending = job.state == JobState.PENDING
    reason = job.reason
    text = job.reason_text
    if is_pending and not reason:
        found = soft.reason.get(job.job_id)
        if found is not None:
            reason, text = int(found.reason), found.text
    waits_for = _waits_for(cluster, job, now_us) if is_pending else []
    if is_pending and text and text not in waits_for:
        waits_for.append(text)
    holders = list(outlook.holders) if outlook is not None else []
    partition = first_partition(cluster, job)
    return JobExplained(
        now_us=now_us,
        job_id=shown_id(job),
        name=job.request.name,
        user=job.user_name,
        state=JobState(job.state).name,
        partition=(
            outlook.partition if outlook else partition.name if partition else job.partition
        ),
        reason=reason_text(reason),
        waits_for=waits_for,
        submit_us=job.submit_us,
        ahead=outlook.ahead if outlook is not None else -1,
        start_us=_start_us(soft, job, outlook),
        nodes=_names(cluster, outlook.node_ids if outlook else _own_nodes(job)),
        holders=[_holder(cluster, item) for item in holders[:_MOST_HOLDERS]],
        holders_left_out=max(0, len(holders) - _MOST_HOLDERS),
        sooner=[SoonerShown(item.text, item.start_us) for item in outlook.sooner]
        if outlook
        else [],
        history=[HistoryLine(time_us, line) for time_us, line in history],
        history_begin_us=history_begin_us,
    )


def _own_nodes(job: Job) -> tuple[int, ...]:
    return tuple(alloc.node_id for alloc in job.nodes)


def _names(cluster: Cluster, node_ids: Sequence[int]) -> str:
    return hostlist.fold(cluster.node_names(list(node_ids))) if node_ids else ""


def _start_us(soft: Soft, job: Job, outlook: Outlook | None) -> int:
    if job.start_us and job.state != JobState.PENDING:
        return job.start_us
    if outlook is None:
        return soft.expected_start_us.get(job.job_id, 0) or (job.begin_us if job.begin_us else 0)
    return -1 if outlook.start_us >= NO_END_US else outlook.start_us


def _holder(cluster: Cluster, item: Holder) -> HolderShown:
    name, user = item.name, ""
    if item.job_id:
        job = cluster.jobs.get(item.job_id)
        name = shown_id(job) if job is not None else str(item.job_id)
        user = job.user_name if job is not None else ""
    until_us = 0 if item.until_us >= NO_END_US else item.until_us
    nodes = _names(cluster, item.node_ids)
    return HolderShown(item.kind, name, user, nodes, item.cpus, item.from_us, until_us)


# What has to happen first ---------------------------------------------------------------------


def _waits_for(cluster: Cluster, job: Job, now_us: int) -> list[str]:
    """Return, in sentences, what keeps a job from being considered at all."""
    lines: list[str] = []
    if job.priority == 0:
        who = "an administrator" if job.reason == Reason.JobHeldAdmin else "its user"
        lines.append(f"it is held; {who} can let it go: scontrol release {shown_id(job)}")
    lines += _dependencies(cluster, job)
    if job.begin_us > now_us:
        minutes = -(-(job.begin_us - now_us) // 60_000_000)
        lines.append(f"its begin time is {minutes} min away")
    lines += _licenses(cluster, job)
    lines += _reservations(cluster, job, now_us)
    lines += _nodes_away(cluster, job)
    return lines


def _dependencies(cluster: Cluster, job: Job) -> list[str]:
    lines = []
    for term in job.dependencies:
        what = dependency_text((term,), False)
        if term.state == 2:
            lines.append(f"its dependency {what} can never be met")
        elif term.kind == "singleton":
            lines.append(f"jobs of {job.user_name} named {job.request.name} have to end first")
        else:
            lines.append(f"its dependency {what} is open: {_state_of(cluster, term)}")
    return lines


def _state_of(cluster: Cluster, term: Dependency) -> str:
    other = cluster.jobs.get(term.job_id)
    if other is None:
        return f"job {term.job_id} is not known any more"
    return f"job {term.job_id} of {other.user_name} is {JobState(other.state).name}"


def _licenses(cluster: Cluster, job: Job) -> list[str]:
    lines = []
    for name, count in license_counts(job.request.licenses):
        total = cluster.licenses.get(name, 0)
        used = cluster.licenses_used.get(name, 0)
        if total - used >= count:
            continue
        users = [
            shown_id(cluster.jobs[other])
            for other in cluster.active
            if any(held == name for held, _ in license_counts(cluster.jobs[other].licenses_alloc))
        ]
        names = ",".join(users[:8]) + ("..." if len(users) > 8 else "")
        lines.append(f"needs {count} of licence {name}; {used} of {total} are used by jobs {names}")
    return lines


def _reservations(cluster: Cluster, job: Job, now_us: int) -> list[str]:
    lines = []
    for name in job.request.reservation.split(",") if job.request.reservation else ():
        item = cluster.reservations.get(name)
        if item is None:
            lines.append(f"its reservation {name} does not exist any more")
        elif item.start_us > now_us:
            minutes = -(-(item.start_us - now_us) // 60_000_000)
            lines.append(f"its reservation {name} begins in {minutes} min")
    return lines


def _nodes_away(cluster: Cluster, job: Job) -> list[str]:
    """Return which of the nodes that a job insists on are out of service, and why."""
    wanted = job.request.node_list
    if not wanted:
        return []
    lines = []
    for name in hostlist.expand(wanted)[:16]:
        node_id = cluster.node_by_name.get(name)
        if node_id is not None and not cluster.columns.usable[node_id]:
            why = cluster.node(node_id).reason
            lines.append(f"node {name} is out of service" + (f": {why}" if why else ""))
    return lines
