"""`scontrol update job`: a setter per key, one table."""

from __future__ import annotations

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import (
    REQ_CONSOLIDATE_SEGMENTS,
    REQ_CONTIGUOUS,
    REQ_OVERSUBSCRIBE,
    REQ_REBOOT,
    REQ_SPREAD_SEGMENTS,
    REQ_STEPMGR,
)
from pyslurm_ng.base.plain_text import are_recipients
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.orders.job_orders import (
    Steering,
    comes_back,
)
from pyslurm_ng.ctld.rules.orders.request_parts import RequestPart
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.rules.queue import queue_room
from pyslurm_ng.ctld.rules.submission.feasible import feasible, feasible_inside, size_of
from pyslurm_ng.ctld.rules.submission.place import (
    as_judged,
    check_access,
    check_names,
)
from pyslurm_ng.ctld.rules.submission.submit import ADDRESSES
from pyslurm_ng.ctld.rules.update import (
    job_change,
    job_notes,
    job_order,
    job_place,
    job_size,
    job_times,
)
from pyslurm_ng.ctld.rules.update.job_change import (
    Change,
    Setter,
    by_administrators,
    by_operators,
    while_pending,
)
from pyslurm_ng.ctld.rules.update.job_limits import breaks_limits
from pyslurm_ng.ctld.rules.update.pbs_words import PbsWords
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.states import TERMINAL_STATES
from pyslurm_ng.model.task_ranges import TaskRanges
from pyslurm_ng.sched.frame.policy import selection
from pyslurm_ng.wire.field_bounds import beyond
from pyslurm_ng.wire.query_messages import UpdateJob

# In the order in which they take effect, which need not be the given order.
SETTERS: dict[str, Setter] = {
    "account": job_place.account,
    "partition": job_place.partition,
    "qos": job_place.qos,
    "timelimit": job_times.time_limit,
    "endtime": job_times.end_time,
    "timemin": job_times.time_min,
    "dependency": job_times.dependency,
    "starttime": job_times.begin,
    "deadline": job_times.deadline,
    "delayboot": job_times.delay_boot,
    "resetaccruetime": job_times.reset_accrual,
    "priority": job_order.priority,
    "nice": job_order.nice,
    "sitefactor": job_order.site_factor,
    "arraytaskthrottle": job_order.throttle,
    "comment": job_notes.comment,
    "admincomment": job_notes.admin_comment,
    "extra": job_notes.extra,
    "jobname": job_change.text("name", pending=False),
    "wckey": job_notes.wckey,
    "mailuser": job_change.text("mail_user", pending=False),
    "mailtype": job_notes.mail_type,
    "mcslabel": job_notes.mcs_label,
    "numnodes": job_size.nodes,
    "numcpus": job_size.cpus,
    "numtasks": job_size.tasks,
    "taskspernode": while_pending(by_operators(job_change.count("ntasks_per_node"))),
    "cpuspertask": job_change.count("cpus_per_task"),
    "mincpusnode": job_change.count("mincpus"),
    "minmemorycpu": job_size.memory("mem_per_cpu_mib"),
    "minmemorynode": job_size.memory("mem_per_node_mib"),
    "mintmpdisknode": job_change.count("tmp_mib"),
    "reqsockets": job_change.count("sockets_per_node"),
    "reqcores": job_change.count("cores_per_socket"),
    "reqthreads": job_change.count("threads_per_core"),
    "features": job_change.features("constraint"),
    "prefer": job_change.features("prefer"),
    "clusterfeatures": job_change.no_siblings,
    "reqnodelist": job_place.node_list,
    "nodelist": job_place.node_list,
    "excnodelist": job_place.node_names("exclude"),
    "reservationname": job_place.reservation,
    "licenses": job_place.licenses,
    "switches": job_place.switches,
    "wait-for-switch": job_place.wait_for_switch,
    "corespec": job_size.special("core_spec", "thread_spec"),
    "threadspec": job_size.special("thread_spec", "core_spec"),
    "contiguous": job_change.yes_no(REQ_CONTIGUOUS, yes_needs_operator=True),
    "oversubscribe": job_change.yes_no(REQ_OVERSUBSCRIBE, yes_needs_operator=True),
    "reboot": by_administrators(job_change.yes_no(REQ_REBOOT)),
    "requeue": job_order.requeue,
    "stdin": job_change.text("std_in"),
    "stdout": job_change.text("std_out"),
    "stderr": job_change.text("std_err"),
    "workdir": job_change.text("work_dir"),
    "burstbuffer": job_change.no_plugin,
    "consolidatesegments": job_change.yes_no(REQ_CONSOLIDATE_SEGMENTS),
    "spreadsegments": job_change.yes_no(REQ_SPREAD_SEGMENTS),
    "segmentsize": job_change.count("segment"),
    "trespernode": job_size.gres,
    "tresperjob": job_size.gpus("gpus"),
    "trespersocket": job_size.gpus("gpus_per_socket"),
    "trespertask": job_size.tres_per_task,
    "tresbind": job_size.tres_bind,
    "tresfreq": job_change.text("tres_freq"),
    "cpuspertres": job_size.of_each_gpu(job_change.count("cpus_per_gpu")),
    "mempertres": job_size.of_each_gpu(job_size.memory("mem_per_gpu_mib")),
}
_ORDER = {key: index for index, key in enumerate(SETTERS)}
_SHORT = 128  # characters that the settings of any number of jobs may have in all
_CHARACTERS = 16
"""Of longer settings, which take as long as one more job: each job's are read anew, 2 us each."""


# What a waiting job may not be given unless some partition of its could run it then.
_PLACING = frozenset(JobRequest.__struct_fields__) - {
    "name",
    "comment",
    "admin_comment",
    "extra",
    "node_extra",
    "wckey",
    "mail_user",
    "mail_type",
    "mcs_label",
    "nice",
    "dependency",
    "begin_us",
    "deadline_us",
    "time_limit_min",
    "time_min_min",
    "std_in",
    "std_out",
    "std_err",
    "work_dir",
}


_MANAGED = "a job with --stepmgr keeps its nodes: its step manager gives them to steps"


def _cannot_be_placed(change: Change, request: JobRequest) -> Reject | None:
    """Return why a job could not be submitted like that: the checks are submission's."""
    cluster, context = change.cluster, change.context
    partition_text = change.fields.get("partition", change.job.partition)
    assert isinstance(partition_text, str)
    request = msgspec.structs.replace(request, partition=partition_text)
    partitions = check_names(cluster, request, context.conf)
    if isinstance(partitions, Reject):
        return partitions
    chosen = selection(context.conf)
    judged = as_judged(request, context.conf)
    first: Reject | None = None
    for partition in partitions:
        refusal = None
        if "partition" in change.fields and not change.is_privileged:
            refusal = check_access(partition, request, context)
        if "nodes_min" in change.request and request.nodes_min > size_of(cluster, partition)[1]:
            # As Slurm 22.05: fewer nodes than that are waited for, as after submission.
            refusal = refusal or Reject(Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE)
        refusal = (
            refusal
            or feasible(cluster, judged, partition, chosen)
            or feasible_inside(cluster, judged, partition, chosen)
        )
        if refusal is None:
            return None
        first = first or refusal
    return first


def update_job(cluster: Cluster, request: UpdateJob, context: Context) -> Decision | Reject:
    """Change settings of the jobs named; each job takes all of them or none."""
    unknown = [key for key in request.settings if key not in SETTERS]
    if unknown:
        return Reject(Errno.ESLURM_NOT_SUPPORTED, unknown[0])
    part = RequestPart(cluster, request)
    steering = Steering(cluster, context, part)
    licenses_taken: dict[str, int] = {}
    length = sum(map(len, request.settings.values()))
    pbs_words = PbsWords(cluster, request, context)
    refused = pbs_words.refusal()
    if refused is not None:
        return refused

    def act(job: Job, tasks: TaskRanges) -> int:
        change = Change(cluster, job, context, licenses_taken)
        obstacle = pbs_words.let_wait(job)
        if obstacle:
            return steering.refuse(Errno.ESLURM_DEPENDENCY, obstacle)
        code = _update_one(steering, change, tasks, pbs_words.settings(job))
        if code:
            pbs_words.followers.clear()
        if length > _SHORT:
            part.spend(length // _CHARACTERS)
        terms = change.fields.get("dependencies")
        if isinstance(terms, list | tuple) and len(terms) > 1:
            part.spend(len(terms))
        return code

    if request.name:
        steering.by_name(request.name, request.uid, act)
    else:
        steering.by_id(request.jobs, act)
    steering.parts.events += pbs_words.followers.events()
    return steering.decision()


def _update_one(
    steering: Steering, change: Change, tasks: TaskRanges, settings: dict[str, str]
) -> int:
    cluster, context, job = change.cluster, change.context, change.job
    if not may_change(cluster, job, context.caller):
        return Errno.ESLURM_USER_ID_MISSING
    if job.request.cron:
        return Errno.ESLURM_CANNOT_MODIFY_CRON_JOB
    if job.state in TERMINAL_STATES and not comes_back(job):
        return Errno.ESLURM_JOB_FINISHED
    if comes_back(job) and "priority" in settings:
        return Errno.ESLURM_TRANSITION_STATE_NO_UPDATE
    for key in sorted(settings, key=_ORDER.__getitem__):
        code = SETTERS[key](change, settings[key])
        if code:
            return code
    refused = beyond(JobRequest, change.request) or beyond(JobRequest, change.fields)
    mail_user = change.request.get("mail_user", "")
    if not refused and isinstance(mail_user, str) and mail_user and not are_recipients(mail_user):
        refused = ADDRESSES
    if refused:
        return steering.refuse(Errno.ESLURM_NOT_SUPPORTED, refused)
    if change.nodes is not job.nodes:
        if job.request.flags & REQ_STEPMGR:
            return steering.refuse(Errno.ESLURM_NOT_SUPPORTED, _MANAGED)
        steering.shrink(job, change.nodes)
    if not change.fields and not change.request:
        return 0
    request = changed_request(job.request, **change.request) if change.request else None
    if request is not None and change.is_pending and not _PLACING.isdisjoint(change.request):
        refusal = _cannot_be_placed(change, request)
        if refusal is not None:
            return refusal.code
    if breaks_limits(change, request or job.request, tasks):
        return Errno.ESLURM_ACCOUNTING_POLICY
    refused = _beyond_room(steering, change, tasks, request)
    if refused:
        return steering.refuse(Errno.ESLURM_ACCOUNTING_POLICY, refused)
    steering.update(job, tasks, change.fields, request)
    return 0


def _beyond_room(
    steering: Steering, change: Change, tasks: TaskRanges, request: JobRequest | None
) -> str:
    """Return why a job may not have that much more text or dependencies; "" if it may."""
    job = change.job
    terms = change.fields.get("dependencies", job.dependencies)
    assert isinstance(terms, list | tuple)
    count = max(1, task_ranges.count(tasks)) if tasks else queue_room.waiting_tasks(job)
    after = queue_room.beyond_usual(request or job.request, len(terms), count)
    if not after or change.context.caller.is_operator:
        return ""
    more = after - queue_room.beyond_usual(job.request, len(job.dependencies), count)
    if job.uid not in steering.room:
        steering.room[job.uid] = queue_room.room(change.cluster, change.context, job.uid)
    if more > max(0, steering.room[job.uid]):
        return queue_room.text(more, steering.room[job.uid])
    steering.room[job.uid] -= more
    return ""


__all__ = ["SETTERS", "update_job"]
