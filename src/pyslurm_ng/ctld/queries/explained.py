"""A job's facts, its outlook and its history -> the answer to `scontrol explain job`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.queries.explained_shares import share_sentences
from pyslurm_ng.ctld.queries.job_fields import dependency_text, first_partition
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.assoc import Limits
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.job import SUSPENDED_BY_GANG, Dependency, Job, is_completing, limit_end_us
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState, Reason, reason_text
from pyslurm_ng.sched.demand.reason import minutes
from pyslurm_ng.sched.explain.explain import Outlook
from pyslurm_ng.sched.explain.fair_shares import Lead
from pyslurm_ng.sched.explain.holders import Holder
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.wire.query_messages import HistoryLine, HolderShown, JobExplained, SoonerShown

_MOST_HOLDERS = 12
_MOST_NAMES = 8
# Of these the sentences of the job's own facts say more than the pass does.
_SAID_ALREADY = frozenset(
    (Reason.Licenses, Reason.JobArrayTaskLimit, Reason.JobHeldAdmin, Reason.Reservation)
)
_JOB_ID = re.compile(r"\bjob (\d+)\b")


Sees = Callable[[Job], bool]


def sees_all(job: Job) -> bool:
    """Return that nothing is private."""
    return True


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
    asked: str = "",
    sees: Sees = sees_all,
    first_by_share: Sequence[Lead] = (),
) -> JobExplained:
    """Return the whole answer; `outlook` belongs to a job that waits for its turn, else None.

    Args:
        asked: the id as typed, of a task that is still in its array's record.
        sees: whether the caller may see a job; other jobs are shown without their user.
        first_by_share: accounts whose jobs go first by fair-share.
    """
    reason, text = _reason(soft, job)
    waits_for = _sentences(cluster, soft, job, (reason, text), now_us, sees)
    if outlook is not None and outlook.note:
        waits_for.append(outlook.note)
    waits_for += share_sentences(cluster, job, first_by_share, sees)
    holders = list(outlook.holders) if outlook is not None else []
    is_for_good = outlook is not None and outlook.start_us >= NO_END_US
    if job.state == JobState.PENDING and reason and not is_for_good:
        holders += limit_holders(cluster, job, Reason(reason), text)
    partition = first_partition(cluster, job)
    start_us = _start_us(soft, job, outlook)
    return JobExplained(
        now_us=now_us,
        job_id=asked if job.array_pending and "_" in asked else shown_id(job),
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
        start_us=start_us,
        nodes=_names(cluster, outlook.node_ids if outlook else _own_nodes(job)),
        holders=[_holder(cluster, holder, sees) for holder in holders[:_MOST_HOLDERS]],
        holders_left_out=max(0, len(holders) - _MOST_HOLDERS),
        sooner=_sooner(cluster, outlook, start_us, sees) if outlook is not None else [],
        history=[
            HistoryLine(time_us, _of_others(cluster, line, sees)) for time_us, line in history
        ],
        history_begin_us=history_begin_us,
        # If not all jobs are promised room, the last pass says which are.
        is_estimate=(
            outlook is not None
            and outlook.is_estimate
            and not soft.sched_nodes.nodes_of(job.job_id)
        ),
        is_late=outlook is not None and outlook.is_late,
        untried=outlook.untried if outlook is not None else 0,
    )


def _reason(soft: Soft, job: Job) -> tuple[int, str]:
    """Return a job's reason and its text: a fact, else what the last pass found."""
    reason = soft.reason.get(job.job_id)
    if job.state != JobState.PENDING or job.reason or reason is None:
        return job.reason, job.reason_text
    return int(reason.reason), reason.text


def _sentences(
    cluster: Cluster, soft: Soft, job: Job, why: tuple[int, str], now_us: int, sees: Sees
) -> list[str]:
    """Return what a job waits for; `why` is its reason with its text."""
    reason, text = why
    is_pending = job.state == JobState.PENDING
    sentences = _waits_for(cluster, soft, job, now_us, sees) if is_pending else []
    if job.state == JobState.SUSPENDED:
        sentences.append(_suspended(cluster, job, sees))
    sentences += _lost_runs(job)
    is_said = bool(sentences) and reason in _SAID_ALREADY
    if reason == Reason.ReqNodeNotAvail:
        is_said = bool(is_pending and _nodes_away(cluster, job))
    if is_pending and text and not is_said:
        sentences.append(_of_others(cluster, text, sees))
    if is_pending and job.het_job_id:
        count = len(het_components(cluster, job))
        every = "both" if count == 2 else f"all {count}"
        sentences.append(f"{every} components of job {job.het_job_id} start together")
    return sentences


def _sooner(cluster: Cluster, outlook: Outlook, start_us: int, sees: Sees) -> list[SoonerShown]:
    """Return what would let a job start sooner than at the start that is shown.

    What a job behind a limit is offered was found without regard to the end of that limit.
    """
    is_bound = outlook.limit is not None and start_us > 0
    return [
        SoonerShown(
            change.text,
            change.start_us,
            [_name_of(cluster, victim, sees) for victim in change.victims],
        )
        for change in outlook.sooner
        if not is_bound or change.start_us < start_us - MINUTE_US
    ]


def _name_of(cluster: Cluster, job_id: int, sees: Sees) -> str:
    """Return a job's id, "" for one that the caller may not see."""
    job = cluster.jobs.get(job_id)
    if job is None:
        return str(job_id)
    return shown_id(job) if sees(job) else ""


def _of_others(cluster: Cluster, text: str, sees: Sees) -> str:
    """Return a sentence without the ids of jobs that the caller may not see."""

    def shown(match: re.Match[str]) -> str:
        other = cluster.jobs.get(int(match[1]))
        return match[0] if other is None or sees(other) else "a job of another user"

    return _JOB_ID.sub(shown, text)


def _own_nodes(job: Job) -> tuple[int, ...]:
    return tuple(alloc.node_id for alloc in job.nodes)


def _names(cluster: Cluster, node_ids: Sequence[int]) -> str:
    """Return the names of nodes, of those that are still configured."""
    return hostlist.fold([node.spec.name for node in cluster.nodes_of(node_ids)])


def _start_us(soft: Soft, job: Job, outlook: Outlook | None) -> int:
    if job.start_us and job.state != JobState.PENDING:
        return job.start_us
    if outlook is None or not outlook.start_us:
        return soft.expected_start_us.get(job.job_id, 0) or (job.begin_us if job.begin_us else 0)
    if outlook.start_us >= NO_END_US:
        return -1
    # The same plan made again moves with the clock; squeue --start shows that of the last pass.
    shown_us = soft.expected_start_us.get(job.job_id, 0)
    is_same = shown_us and abs(shown_us - outlook.start_us) <= MINUTE_US
    return shown_us if is_same else outlook.start_us


def _holder(cluster: Cluster, holder: Holder, sees: Sees) -> HolderShown:
    name, user = holder.name, ""
    if holder.job_id:
        job = cluster.jobs.get(holder.job_id)
        name = _name_of(cluster, holder.job_id, sees)
        user = job.user_name if job is not None and name else ""
    until_us = 0 if holder.until_us >= NO_END_US else holder.until_us
    nodes = _names(cluster, holder.node_ids)
    return HolderShown(
        holder.kind, name, user, nodes, holder.cpus, holder.from_us, until_us, holder.licenses
    )


# What has to happen first ---------------------------------------------------------------------


def _waits_for(cluster: Cluster, soft: Soft, job: Job, now_us: int, sees: Sees) -> list[str]:
    """Return, in sentences, what keeps a job from being considered at all."""
    lines: list[str] = []
    if job.priority == 0:
        lines.append(f"{_hold(cluster, job)}: scontrol release {shown_id(job)}")
    lines += _dependencies(cluster, soft, job, now_us, sees)
    if job.begin_us > now_us:
        text = f"its begin time is {minutes(job.begin_us - now_us)} away"
        if job.attempt and job.reason == Reason.BeginTime:
            text = f"it was put back into the queue and waits {minutes(job.begin_us - now_us)} more"
            if job.launch_failures:
                text += f": {_failed_launches(job)}, and the wait doubles each time"
            else:
                text += ", so that its nodes can clean up"
        lines.append(text)
    lines += _array(cluster, job)
    reason = soft.reason.get(job.job_id)
    is_short = reason is not None and reason.reason == Reason.Licenses
    lines += _licenses(cluster, job, now_us, sees, is_short=is_short)
    lines += _reservations(cluster, job, now_us)
    lines += _nodes_away(cluster, job)
    lines += _burst_buffer(cluster, job)
    return lines


def _burst_buffer(cluster: Cluster, job: Job) -> list[str]:
    """Return how far the burst buffer of a job is that has to be staged in before it starts."""
    buffer = cluster.buffers.get(job.job_id)
    if buffer is None or not cluster.waits_for_buffer(job.job_id):
        return []
    if buffer.state == BufferState.STAGING_IN:
        return ["its burst buffer is being staged in"]
    if buffer.state == BufferState.PENDING:
        room = f"room of {buffer.size} in pool {buffer.pool}" if buffer.pool else "its turn"
        if job.array_job_id:
            room += ", or until tasks of its array that have theirs begin"
        return [f"its burst buffer waits for {room}"]
    return ["the burst buffer of its run before is being torn down"]


def _lost_runs(job: Job) -> list[str]:
    """Return where earlier runs of a job may go on, and what it waits for if it does."""
    lines = []
    for run in job.lost_runs[:_MOST_NAMES]:
        where = f"its run {run.attempt} was lost with {run.node} and may go on there"
        if run.blocks:
            lines.append(
                f"{where} (node_loss={run.policy}): it begins again when {run.node} has answered "
                "or come back with a new boot id, fence_program has fenced it, or an administrator "
                f"says so: scontrol update NodeName={run.node} State=DOWN Reason=fenced"
            )
        elif not run.proof and (job.attempt > run.attempt or job.state == JobState.PENDING):
            lines.append(f"{where}: its end was never confirmed (node_loss={run.policy})")
    return lines


def _suspended(cluster: Cluster, job: Job, sees: Sees) -> str:
    """Return what suspended a job and when it goes on."""
    if job.suspended_by == SUSPENDED_BY_GANG:
        return "it takes turns with jobs that share its cores, and has its next turn soon"
    other = cluster.jobs.get(job.suspended_by)
    if job.suspended_by <= 0 or other is None:
        return f"it is suspended by an operator; to go on: scontrol resume {shown_id(job)}"
    name = f"job {shown_id(other)} of {other.user_name}" if sees(other) else "a job"
    return f"{name} of higher priority has preempted it; it goes on when that is over"


def _hold(cluster: Cluster, job: Job) -> str:
    """Return which user held a job and which users may release it."""
    if job.reason == Reason.JobHoldMaxRequeue:
        return f"it is held: {_failed_launches(job)}; an administrator may release it"
    if job.reason == Reason.ReservationDeleted:
        return "it is held: its reservation is gone; its user or an administrator may release it"
    if job.reason == Reason.JobHeldAdmin:
        if job.reason_text:
            return f"it is held ({job.reason_text}); an administrator may release it"
        return "it is held by an administrator; only an administrator may release it"
    if job.flags & JobFlag.SPECIAL_EXIT:
        return "it is held since its run ended in a special way; its user may release it"
    if job.flags & JobFlag.REQUEUE_HOLD:
        return "it was requeued and is held; its user may release it"
    return "it is held by its user, who may release it"


def _failed_launches(job: Job) -> str:
    times = job.launch_failures
    return "its last launch failed" if times == 1 else f"its last {times} launches failed"


def _array(cluster: Cluster, job: Job) -> list[str]:
    if not job.array_pending:
        return []
    waiting = task_ranges.count(job.array_pending)
    running = cluster.job_counts.array_active.get(job.array_job_id, 0)
    text = f"{plural(waiting, 'task')} of the array wait{'s' * (waiting == 1)}, {running} run"
    if job.array_limit:
        text += f", {job.array_limit} may run at once"
    first = next(iter(task_ranges.tasks(job.array_pending)))
    return [f"{text}; what follows is about the next one, {job.array_job_id}_{first}"]


def _dependencies(cluster: Cluster, soft: Soft, job: Job, now_us: int, sees: Sees) -> list[str]:
    lines = []
    for term in job.dependencies:
        text = dependency_text(cluster, (term,), False)
        if term.state == 2:
            lines.append(f"its dependency {text} can never be met")
        elif term.kind == "singleton":
            lines.append(_namesakes(cluster, job))
        else:
            term = _of_next_task(term, job)
            lines.append(
                f"its dependency {text} is open: {_state_of(cluster, soft, term, now_us, sees)}"
            )
    if job.dependency_any and len(lines) > 1:
        lines.append("any one of these dependencies is enough")
    return lines


def _namesakes(cluster: Cluster, job: Job) -> str:
    """Return which earlier jobs of the same name and user a singleton waits for."""
    earlier = [
        shown_id(other)
        for job_id in cluster.job_index.by_user.get(job.uid, ())
        if job_id < job.job_id
        and (other := cluster.jobs[job_id]).request.name == job.request.name
        and (other.state not in TERMINAL_STATES or is_completing(other))
    ]
    text = f"jobs of {job.user_name} named {job.request.name} have to end first"
    return f"{text}: {_listed(earlier)}" if earlier else text


def _listed(names: Sequence[str]) -> str:
    return ",".join(names[:_MOST_NAMES]) + "..." * (len(names) > _MOST_NAMES)


def _state_of(cluster: Cluster, soft: Soft, term: Dependency, now_us: int, sees: Sees) -> str:
    """Return how far the job is that another waits for, and when it is over at the latest."""
    split_off = cluster.job_index.arrays.get(term.job_id, {})
    other = cluster.jobs.get(split_off.get(term.task_id, term.job_id))
    name = f"{term.job_id}_{term.task_id}" if term.task_id != NO_VAL else str(term.job_id)
    if other is None:
        return f"job {name} is no longer known"
    if not sees(other):
        return f"job {name} is not over, or not as it has to be"
    if term.task_id == NO_VAL and (split_off or other.array_pending):
        return _state_of_array(cluster, other, [*split_off.values()])
    text = f"job {name} of {other.user_name} is {JobState(other.state).name}"
    end_us = end_at_latest_us(other)
    if term.kind == "after" and term.delay_min and other.start_us:
        met_us = other.start_us + term.delay_min * MINUTE_US
        return f"job {name} has started; that is met in {minutes(met_us - now_us)}"
    if other.state in (JobState.RUNNING, JobState.SUSPENDED):
        return text + (f" and ends in {minutes(end_us - now_us)} at the latest" if end_us else "")
    start_us = soft.expected_start_us.get(other.job_id, 0)
    if other.state == JobState.PENDING and start_us > now_us:
        # What is known of an array is about its next task; the others start later, or with it.
        next_task = next(task_ranges.tasks(other.array_pending), term.task_id)
        early = "" if next_task == term.task_id else ", at the earliest"
        text += f" and is to start in {minutes(start_us - now_us)}{early}"
        if other.time_limit_min < NO_VAL:
            text += f", for {minutes(other.time_limit_min * MINUTE_US)} at most"
    return text


def _of_next_task(term: Dependency, job: Job) -> Dependency:
    """Return what the next task of an array waits for, if each waits for another task."""
    if term.kind != "aftercorr" or term.task_id != NO_VAL:
        return term
    own = next(task_ranges.tasks(job.array_pending), job.array_task_id)
    return structs.replace(term, task_id=own)


def _state_of_array(cluster: Cluster, head: Job, split_off: Sequence[int]) -> str:
    """Return how far the tasks of an array are."""
    states = [cluster.jobs[job_id].state for job_id in split_off if job_id in cluster.jobs]
    waiting = task_ranges.count(head.array_pending) + states.count(JobState.PENDING)
    running = sum(state in (JobState.RUNNING, JobState.SUSPENDED) for state in states)
    name = f"array {head.array_job_id or head.job_id} of {head.user_name}"
    over = len(states) + task_ranges.count(head.array_pending) - waiting - running
    return f"of the tasks of {name} {waiting} wait, {running} run, {over} are over"


def end_at_latest_us(job: Job) -> int:
    """Return when a running job's limit ends it; 0 for never or not running."""
    return limit_end_us(job) if job.start_us else 0


def _licenses(cluster: Cluster, job: Job, now_us: int, sees: Sees, *, is_short: bool) -> list[str]:
    """Return the jobs that have the licences that are missing.

    Args:
        is_short: the last pass found too few, so that those unused are kept for others.
    """
    lines = []
    for name, count in license_counts(job.request.licenses):
        total = cluster.licenses.get(name, 0)
        used = cluster.job_counts.licenses_used.get(name, 0)
        if total < count:
            lines.append(f"needs {count} of licence {name}; the cluster has {total}")
            continue
        if total - used >= count > cluster.licenses_left(name):
            lines.append(_used_elsewhere(cluster, name, count))
            continue
        if total - used >= count:
            lines += _kept_licenses(cluster, job, name, count, now_us) if is_short else []
            continue
        users = [
            cluster.jobs[other]
            for other in cluster.job_index.active
            if any(
                license_name == name
                for license_name, _ in license_counts(cluster.jobs[other].licenses_alloc)
            )
        ]
        shown = [shown_id(other) for other in users if sees(other)]
        names = ",".join(shown[:_MOST_NAMES])
        names += "..." * (len(users) > min(_MOST_NAMES, len(shown)))
        is_single = len(users) == 1
        text = f"needs {count} of licence {name}; {used} of {total} are used by "
        text += f"job{'' if is_single else 's'} {names}"
        ends = [end_us for other in users if (end_us := end_at_latest_us(other))]
        if ends:
            pronoun = "which" if is_single else "the first of which"
            text += f", {pronoun} ends in {minutes(min(ends) - now_us)} at the latest"
        lines.append(text)
    return lines


def _used_elsewhere(cluster: Cluster, name: str, count: int) -> str:
    """Say how many of a licence its server has given to others than this cluster's jobs."""
    server, total = cluster.license_servers[name], cluster.licenses[name]
    return (
        f"needs {count} of licence {name}; of its {total}, {server.deficit} are used outside of "
        f"this cluster: LastConsumed was {server.consumed}"
    )


def _kept_licenses(cluster: Cluster, job: Job, name: str, count: int, now_us: int) -> list[str]:
    """Return which reservations keep unused licences that a job would need."""
    lines = []
    own = job.request.reservation.split(",")
    end_us = min(NO_END_US, now_us + job.time_limit_min * MINUTE_US)
    for reservation in cluster.reservations.values():
        kept = dict(license_counts(reservation.licenses)).get(name, 0)
        if (
            not kept
            or reservation.name in own
            or reservation.start_us >= end_us
            or reservation.end_us <= now_us
        ):
            continue
        text = f"needs {count} of licence {name}; reservation {reservation.name} keeps {kept}"
        if reservation.start_us > now_us:
            text += f" from in {minutes(reservation.start_us - now_us)} on"
        lines.append(f"{text}, and ends in {minutes(reservation.end_us - now_us)}")
    return lines


def _reservations(cluster: Cluster, job: Job, now_us: int) -> list[str]:
    lines = []
    for name in job.request.reservation.split(",") if job.request.reservation else ():
        reservation = cluster.reservations.get(name)
        if reservation is None:
            lines.append(f"its reservation {name} no longer exists")
        elif reservation.start_us > now_us:
            lines.append(
                f"its reservation {name} begins in {minutes(reservation.start_us - now_us)}"
            )
        elif job.request.time_min_min < NO_VAL and "FLEX" not in reservation.flags:
            left_us, least_us = reservation.end_us - now_us, job.request.time_min_min * MINUTE_US
            if left_us < least_us:
                duration, least = minutes(left_us), minutes(least_us)
                lines.append(
                    f"its reservation {name} ends in {duration}; it has to run for {least}"
                )
    return lines


def _nodes_away(cluster: Cluster, job: Job) -> list[str]:
    """Return which of the nodes that a job insists on are out of service, and why."""
    node_list = job.request.node_list
    if not node_list:
        return []
    lines = []
    for name in hostlist.expand(node_list)[:16]:
        node_id = cluster.node_index.by_name.get(name)
        if node_id is not None and not cluster.node_index.columns.usable[node_id]:
            why = cluster.node(node_id).reason
            lines.append(f"node {name} is out of service" + (f": {why}" if why else ""))
    return lines


# Who uses up a limit --------------------------------------------------------------------------


def limit_holders(cluster: Cluster, job: Job, reason: Reason, text: str) -> list[Holder]:
    """Return the running jobs that count for the limit a job waits for, the first to end first. For
    limits of a single job there are none.

    Args:
        text: the pass's sentence, which names the QOS: the partition's or the job's.
    """
    applies = _counted(cluster, job, reason.name, _limiting_qos(cluster, job, text))
    if applies is None:
        return []
    holders = []
    for job_id in cluster.job_index.active:
        other = cluster.jobs[job_id]
        if not applies(other):
            continue
        nodes = tuple(alloc.node_id for alloc in other.nodes)
        cpus = sum(alloc.cpus for alloc in other.nodes)
        end_us = end_at_latest_us(other) or NO_END_US
        holders.append(Holder("limit", job_id, "", nodes, cpus, 0, end_us))
    return sorted(holders, key=lambda holder: (holder.until_us, holder.job_id))


def _limiting_qos(cluster: Cluster, job: Job, text: str) -> str:
    """Return the QOS that a sentence about a limit names."""
    partitions = (cluster.partitions.get(name) for name in job.partition.split(","))
    names = [partition.qos for partition in partitions if partition is not None and partition.qos]
    words = text.replace(";", " ").split()
    return next((name for name in names if name in words), job.qos)


def _counted(cluster: Cluster, job: Job, name: str, qos: str) -> Callable[[Job], bool] | None:
    """Return which jobs count for a limit with this code, None if it is no such limit."""
    if name.endswith(("PerJobLimit", "PerJob", "PerNode", "NotSatisfied")) or "Min" in name[:6]:
        return None

    def is_in_qos(other: Job) -> bool:
        partition = cluster.partitions.get(other.partition)
        return qos in (other.qos, partition.qos if partition is not None else "")

    if name == "JobArrayTaskLimit":
        return lambda other: other.array_job_id == job.array_job_id
    if name.startswith(("QOSMax", "Max")) and "PerUser" in name:
        return lambda other: other.uid == job.uid and is_in_qos(other)
    if name.startswith("QOSGrp"):
        return is_in_qos
    if name.startswith("Max") and name.endswith("PerAccount"):
        return lambda other: other.account == job.account and is_in_qos(other)
    if name.startswith("AssocMax"):
        return lambda other: other.assoc_id == job.assoc_id
    if name.startswith("AssocGrp"):
        # The lowest one that limits a group is the first that a pass asks.
        own = _lineage(cluster, job.assoc_id)
        owner = next(
            (assoc_id for assoc_id in own if _limits_group(cluster.assocs[assoc_id].limits)), 0
        )
        return lambda other: owner in _lineage(cluster, other.assoc_id)
    return None


def _limits_group(limits: Limits) -> bool:
    return bool(
        limits.grp_jobs != INFINITE
        or limits.grp_tres
        or limits.grp_tres_mins
        or limits.grp_tres_run_mins
        or limits.grp_wall_min != INFINITE
    )


def _lineage(cluster: Cluster, assoc_id: int) -> list[int]:
    """Return an association and all above it, lowest first."""
    lineage: list[int] = []
    assoc = cluster.assocs.get(assoc_id)
    while assoc is not None and assoc.assoc_id not in lineage:
        lineage.append(assoc.assoc_id)
        assoc = cluster.assocs.get(assoc.parent_id)
    return lineage
