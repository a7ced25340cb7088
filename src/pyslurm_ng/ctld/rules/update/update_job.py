"""`scontrol update job`: one function per key, one table."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pyslurm_ng.base import hostlist, units
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.gpu_bind import GpuBindError, gpu_part
from pyslurm_ng.base.tres import TresError, TresPerTask, parse_gres, parse_tres_per_task
from pyslurm_ng.ctld.rules import dependency
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.permission import is_privileged, may_change
from pyslurm_ng.ctld.rules.reservation.reservations import check_requested
from pyslurm_ng.ctld.rules.steer import (
    Steering,
    comes_back,
    hold_fields,
    release_fields,
    waiting_reason,
)
from pyslurm_ng.ctld.rules.submission.account import default_qos
from pyslurm_ng.ctld.rules.submission.feasible import feasible, feasible_inside
from pyslurm_ng.ctld.rules.submission.license_names import full_names
from pyslurm_ng.ctld.rules.submission.place import (
    as_judged,
    check_access,
    check_names,
    node_extra,
)
from pyslurm_ng.ctld.rules.update.running_job import (
    Kept,
    kept_of_count,
    kept_of_names,
    traded_licenses,
)
from pyslurm_ng.model import job as model_job
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import INFINITE, NO_VAL
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.partition import opened
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, Reason
from pyslurm_ng.model.task_ranges import TaskRanges
from pyslurm_ng.sched.policy import selection
from pyslurm_ng.wire.query_messages import UpdateJob

_SITE_FACTOR_MAX = 2147483645
_NICE_MAX = 2147483645
_YES = {"yes": True, "1": True, "no": False, "0": False, "y": True, "n": False}


class Change:
    """What an update does to one job: `fields` of the Job, `request` fields of its request.

    A key's function returns 0 or an error number. `nodes` is what a running job keeps of its own.
    `licenses_taken` counts what running jobs get on top of theirs, in all of one request.
    """

    def __init__(
        self, cluster: Cluster, job: Job, context: Context, licenses_taken: dict[str, int]
    ) -> None:
        self.cluster = cluster
        self.job = job
        self.context = context
        self.is_privileged = is_privileged(cluster, job, context.caller)
        self.fields: dict[str, object] = {}
        self.request: dict[str, object] = {}
        self.nodes = job.nodes
        self.licenses_taken = licenses_taken

    @property
    def is_running(self) -> bool:
        """Whether the job has its nodes, be it that it is suspended."""
        return self.job.state in (JobState.RUNNING, JobState.SUSPENDED)

    @property
    def is_pending(self) -> bool:
        """Whether the job has not started, or is about to wait again."""
        return self.job.state == JobState.PENDING or comes_back(self.job)

    def flag(self, set_bits: int, clear_bits: int) -> None:
        """Change bits of the request's flags."""
        flags = self.request.get("flags", self.job.request.flags)
        assert isinstance(flags, int)
        self.request["flags"] = flags & ~clear_bits | set_bits


Setter = Callable[[Change, str], int]


# Plain values ---------------------------------------------------------------------------------


def _no_plugin(change: Change, value: str) -> int:
    """What only a plugin of Slurm's could change."""
    return Errno.ESLURM_NOT_SUPPORTED


def _text(name: str, *, pending: bool = True, operator: bool = False, own: str = "") -> Setter:
    """A request field that takes any text; `own` is a field of the Job that repeats it."""

    def set_text(change: Change, value: str) -> int:
        if operator and not change.context.caller.is_operator:
            return Errno.ESLURM_ACCESS_DENIED
        if pending and not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        change.request[name] = value
        if own:
            change.fields[own] = value
        return 0

    return set_text


def _count(name: str, *, flag: int = 0, invalid: int = Errno.ESLURM_INVALID_CPU_COUNT) -> Setter:
    """A request field that takes a count, while the job is pending."""

    def set_count(change: Change, value: str) -> int:
        if not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        try:
            change.request[name] = units.parse_count(value)
        except units.UnitError:
            return invalid
        if flag:
            change.flag(flag, 0)
        return 0

    return set_count


def _memory(name: str) -> Setter:
    def set_memory(change: Change, value: str) -> int:
        try:
            mib = units.parse_mem_mib(value)
        except units.UnitError:
            return Errno.ESLURM_INVALID_TASK_MEMORY
        if not change.is_pending:
            return Errno.ESLURM_NOT_SUPPORTED
        for other in ("mem_per_node_mib", "mem_per_cpu_mib", "mem_per_gpu_mib"):
            change.request[other] = mib if other == name else 0
        change.flag(model_job.REQ_MEM_SET, 0)
        return 0

    return set_memory


def _moment(name: str) -> Setter:
    def set_moment(change: Change, value: str) -> int:
        if not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        if not value.isdigit():
            return Errno.ESLURM_INVALID_TIME_VALUE
        change.request[name] = int(value)
        return 0

    return set_moment


def _deadline(change: Change, value: str) -> int:
    code = _moment("deadline_us")(change, value)
    if not code and 0 < int(value) < change.context.now_us:
        return Errno.ESLURM_INVALID_TIME_VALUE
    return code


def _begin(change: Change, value: str) -> int:
    code = _moment("begin_us")(change, value)
    if code:
        return code
    begin_us = int(value)
    if comes_back(change.job):
        # Not before now, so that the requeue knows it from the run's own (`job_end.requeued`).
        change.fields["begin_us"] = max(begin_us, change.context.now_us)
        return 0
    change.fields["begin_us"] = begin_us
    waits = begin_us > change.context.now_us
    if change.job.dependencies or change.job.priority == 0:
        if waits:
            # Whoever was eligible before it was held is so no more when it is let go.
            change.fields.update(eligible_us=0, accrue_us=0)
        return 0
    if waits:
        change.fields.update(eligible_us=0, accrue_us=0, reason=int(Reason.BeginTime))
    else:
        change.fields.update(eligible_us=change.context.now_us, accrue_us=change.context.now_us)
        if change.job.reason == Reason.BeginTime:
            change.fields["reason"] = int(Reason.NONE)
    return 0


# Size -----------------------------------------------------------------------------------------


def _range(text: str) -> tuple[int, int] | None:
    low_text, dash, high_text = text.partition("-")
    try:
        low = units.parse_count(low_text)
        high = units.parse_count(high_text) if dash else 0
    except units.UnitError:
        return None
    return None if dash and high < low else (low, high)


def _nodes(change: Change, value: str) -> int:
    found = _range(value)
    if found is None or not found[0]:
        return Errno.ESLURM_INVALID_NODE_COUNT
    if change.is_running:
        return _keep(change, kept_of_count(change.job, found[0], change.context.conf))
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    change.request["nodes_min"], change.request["nodes_max"] = found[0], found[1]
    change.request["node_sizes"] = ""
    change.flag(model_job.REQ_NODES_SET, 0)
    return 0


def _keep(change: Change, kept: Kept | int) -> int:
    """Let a running job give up the nodes that are not among those it keeps."""
    if isinstance(kept, int):
        return kept
    change.nodes = kept
    return 0


def _cpus(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    found = _range(value)
    if found is None or not found[0]:
        return Errno.ESLURM_INVALID_CPU_COUNT
    per_task = change.job.request.cpus_per_task or 1
    change.request["ntasks"] = (found[0] + per_task - 1) // per_task
    change.flag(model_job.REQ_NTASKS_SET, 0)
    return 0


def _tasks(change: Change, value: str) -> int:
    if value.isdigit() and not int(value):
        return Errno.ESLURM_BAD_TASK_COUNT
    return _count("ntasks", flag=model_job.REQ_NTASKS_SET)(change, value)


# Time -----------------------------------------------------------------------------------------


def _time_limit(change: Change, value: str) -> int:
    job = change.job
    old = job.time_limit_min
    sign = value[:1] if value[:1] in "+-" and value != "-1" else ""
    try:
        limit = units.parse_time_limit_min(value[len(sign) :])
    except units.UnitError:
        return Errno.ESLURM_INVALID_TIME_LIMIT
    if sign and old != INFINITE:
        limit = old + limit if sign == "+" else old - limit
        if limit <= 0:
            return Errno.ESLURM_INVALID_TIME_LIMIT
    return _set_time_limit(change, limit)


def _set_time_limit(change: Change, limit: int) -> int:
    job = change.job
    if limit > job.time_limit_min and not change.is_privileged:
        # A waiting job's owner may ask for what the partition would have let it ask for at first.
        partition = change.cluster.partitions.get(job.partition.partition(",")[0])
        if not change.is_pending or partition is None:
            return Errno.ESLURM_ACCESS_DENIED
        if limit > opened(partition, change.cluster.qos.get(job.qos)).max_time_min:
            return Errno.ESLURM_ACCESS_DENIED
    change.fields["time_limit_min"] = limit
    change.request["time_limit_min"] = limit
    return 0


def _end_time(change: Change, value: str) -> int:
    job = change.job
    if job.state not in (JobState.RUNNING, JobState.SUSPENDED):
        return Errno.ESLURM_JOB_NOT_RUNNING
    if not value.isdigit() or int(value) <= job.start_us:
        return Errno.ESLURM_INVALID_TIME_VALUE
    return _set_time_limit(change, (int(value) - job.start_us + 59_999_999) // 60_000_000)


def _time_min(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    try:
        minutes = units.parse_time_limit_min(value)
    except units.UnitError:
        return Errno.ESLURM_INVALID_TIME_LIMIT
    limit = change.fields.get("time_limit_min", change.job.time_limit_min)
    assert isinstance(limit, int)
    if minutes > limit:
        return Errno.ESLURM_INVALID_TIME_MIN_LIMIT
    change.request["time_min_min"] = minutes or NO_VAL
    return 0


# Order ----------------------------------------------------------------------------------------


def _priority(change: Change, value: str) -> int:
    job = change.job
    if value.upper() in ("INFINITE", "UNLIMITED", "-1"):
        number = NO_VAL
    elif value.isdigit() and int(value) < NO_VAL:
        number = int(value)
    else:
        return Errno.ESLURM_INVALID_TIME_VALUE
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    if number == 0:
        found = hold_fields(change.cluster, job, change.context, as_user=False)
    elif number == NO_VAL:
        found = release_fields(change.cluster, job, change.context, as_user=False)
    elif not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    else:
        found = {"priority": number}
        if job.priority == 0:
            found["reason"] = int(waiting_reason(job, change.context.now_us))
    if isinstance(found, int):
        return found
    change.fields.update(found)
    return 0


def _signed(text: str, limit: int) -> int | None:
    digits = text[1:] if text[:1] in "+-" else text
    if not digits.isdigit() or len(digits) > 10 or int(digits) > limit:
        return None
    return -int(digits) if text[:1] == "-" else int(digits)


def _nice(change: Change, value: str) -> int:
    nice = 100 if not value else _signed(value, _NICE_MAX)
    if nice is None:
        return Errno.ESLURM_INVALID_NICE
    if nice < 0 and not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    if change.job.start_priority:
        niced = change.job.start_priority - (nice - change.job.nice)
        change.fields["start_priority"] = min(max(1, niced), NO_VAL - 1)
    change.fields["nice"] = nice
    change.request["nice"] = nice
    return 0


def _site_factor(change: Change, value: str) -> int:
    factor = _signed(value, _SITE_FACTOR_MAX)
    if factor is None:
        return Errno.ESLURM_INVALID_NICE
    if not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    change.fields["site_factor"] = factor
    return 0


# Where ----------------------------------------------------------------------------------------


def _partition(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    for name in value.split(","):
        if name not in change.cluster.partitions:
            return Errno.ESLURM_INVALID_PARTITION_NAME
    change.fields["partition"] = value
    change.request["partition"] = value
    return 0


def _account(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    user = change.cluster.users.get(change.job.user_name)
    account = value.lower() or (user.default_account if user is not None else "")
    assoc_id = change.cluster.assoc_by_key.get((account, change.job.user_name, ""))
    if assoc_id is None:
        if change.cluster.assocs:
            return Errno.ESLURM_INVALID_ACCOUNT
        assoc_id = 0
    change.fields.update(account=account, assoc_id=assoc_id)
    change.request["account"] = account
    return 0


def _qos(change: Change, value: str) -> int:
    # Whose job runs could leave the limits that let it start.
    if not change.is_pending and not (change.is_running and change.context.caller.is_operator):
        return Errno.ESLURM_JOB_NOT_PENDING
    assoc_id = change.fields.get("assoc_id", change.job.assoc_id)
    assert isinstance(assoc_id, int)
    assoc = change.cluster.assocs.get(assoc_id)
    name = value or default_qos(change.cluster, assoc)
    if name not in change.cluster.qos and (name or change.cluster.qos):
        return Errno.ESLURM_INVALID_QOS
    if assoc is not None and assoc.qos and name not in assoc.qos:
        return Errno.ESLURM_INVALID_QOS
    change.fields["qos"] = name
    change.request["qos"] = name
    return 0


def _node_names(name: str) -> Setter:
    def set_names(change: Change, value: str) -> int:
        if not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        try:
            names = hostlist.expand(value) if value else []
        except hostlist.HostlistError:
            return Errno.ESLURM_INVALID_NODE_NAME
        if any(node not in change.cluster.node_by_name for node in names):
            return Errno.ESLURM_INVALID_NODE_NAME
        change.request[name] = hostlist.fold(names)
        return 0

    return set_names


def _node_list(change: Change, value: str) -> int:
    if change.is_running:
        job, conf = change.job, change.context.conf
        return _keep(change, kept_of_names(change.cluster, job, value, conf))
    return _node_names("node_list")(change, value)


def _reservation(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    job = change.job
    refusal = check_requested(
        change.cluster,
        value,
        change.context.caller,
        job.account,
        job.qos,
        job.partition.split(","),
        job.user_name,
    )
    if refusal is not None:
        return refusal.code
    change.request["reservation"] = value
    return 0


def _licenses(change: Change, value: str) -> int:
    if not change.is_pending and not change.is_running:
        return Errno.ESLURM_JOB_NOT_PENDING
    if "|" in value and "," in value:
        return Errno.ESLURM_INVALID_LICENSES
    value = full_names(change.cluster, value, change.context.conf)
    for part in value.replace("|", ",").split(","):
        name, _, count = part.replace("=", ":").partition(":")
        if part and (name not in change.cluster.licenses or (count and not count.isdigit())):
            return Errno.ESLURM_INVALID_LICENSES
    if change.is_running:
        traded = traded_licenses(change.cluster, change.job, value, change.licenses_taken)
        if traded is None:
            return Errno.ESLURM_INVALID_LICENSES
        change.fields["licenses_alloc"], more = traded
        for name, gained in more.items():
            change.licenses_taken[name] = change.licenses_taken.get(name, 0) + gained
    change.request["licenses"] = value
    return 0


def _switches(change: Change, value: str) -> int:
    if not change.is_pending and not change.is_running:
        return Errno.ESLURM_JOB_NOT_PENDING
    count, at, wait = value.partition("@")
    try:
        change.request["switches"] = units.parse_count(count or "0")
        if at:
            change.request["switches_wait_s"] = units.parse_time_limit_s(wait)
    except units.UnitError:
        return Errno.ESLURM_INVALID_NODE_COUNT
    return 0


def _wait_for_switch(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    if not value.isdigit():
        return Errno.ESLURM_INVALID_TIME_VALUE
    change.request["switches_wait_s"] = int(value)
    return 0


def _special(name: str, other: str) -> Setter:
    """Cores, or threads, that nodes keep for their system beside the job: of either kind."""

    def set_special(change: Change, value: str) -> int:
        if not selection(change.context.conf).allows_special:
            return Errno.ESLURM_ACCESS_DENIED
        change.request[other] = 0
        return _count(name)(change, value)

    return set_special


# Flags ----------------------------------------------------------------------------------------


def _yes_no(bit: int, *, yes_needs_operator: bool = False) -> Setter:
    def set_flag(change: Change, value: str) -> int:
        wanted = _YES.get(value.lower())
        if wanted is None:
            return Errno.ESLURM_NOT_SUPPORTED
        if not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        if wanted and yes_needs_operator and not change.context.caller.is_operator:
            return Errno.ESLURM_ACCESS_DENIED
        change.flag(bit if wanted else 0, 0 if wanted else bit)
        return 0

    return set_flag


def _requeue(change: Change, value: str) -> int:
    wanted = _YES.get(value.lower())
    if wanted is None:
        return Errno.ESLURM_NOT_SUPPORTED
    change.fields["requeue"] = wanted
    both = model_job.REQ_REQUEUE | model_job.REQ_NO_REQUEUE
    change.flag(model_job.REQ_REQUEUE if wanted else model_job.REQ_NO_REQUEUE, both)
    return 0


_MAIL_WORDS = {
    "NONE": 0,
    "BEGIN": model_job.MAIL_BEGIN,
    "END": model_job.MAIL_END,
    "FAIL": model_job.MAIL_FAIL,
    "REQUEUE": model_job.MAIL_REQUEUE,
    "ALL": model_job.MAIL_BEGIN
    | model_job.MAIL_END
    | model_job.MAIL_FAIL
    | model_job.MAIL_REQUEUE
    | model_job.MAIL_STAGE_OUT
    | model_job.MAIL_INVALID_DEPEND,
    "STAGE_OUT": model_job.MAIL_STAGE_OUT,
    "TIME_LIMIT": model_job.MAIL_TIME_LIMIT,
    "TIME_LIMIT_90": model_job.MAIL_TIME_90,
    "TIME_LIMIT_80": model_job.MAIL_TIME_80,
    "TIME_LIMIT_50": model_job.MAIL_TIME_50,
    "ARRAY_TASKS": model_job.MAIL_ARRAY_TASKS,
    "INVALID_DEPEND": model_job.MAIL_INVALID_DEPEND,
}


def _mail_type(change: Change, value: str) -> int:
    bits = 0
    for word in value.split(","):
        bit = _MAIL_WORDS.get(word.strip().upper())
        if bit is None:
            return Errno.ESLURM_NOT_SUPPORTED
        bits |= bit
    change.request["mail_type"] = bits
    return 0


def _throttle(change: Change, value: str) -> int:
    if not change.job.array_job_id:
        return Errno.ESLURM_INVALID_ARRAY
    if not value.isdigit():
        return Errno.ESLURM_INVALID_ARRAY
    change.fields["array_limit"] = int(value)
    return 0


def _dependency(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    found = dependency.for_update(change.cluster, change.job, value)
    if isinstance(found, Reject):
        return found.code
    terms, is_any = found
    renewed = msgspec.structs.replace(
        change.job, dependencies=terms, dependency_any=is_any, reason=0
    )
    now_us = change.context.now_us
    terms, is_never = dependency.judge(change.cluster, renewed, dependency.Ends(), now_us)
    change.fields["dependencies"] = msgspec.to_builtins(terms)
    change.fields["dependency_any"] = is_any
    change.request["dependency"] = value
    if change.job.priority == 0:
        if terms:
            change.fields.update(eligible_us=0, accrue_us=0)  # as for a begin time: see `_begin`
        return 0
    if terms:
        why = Reason.DependencyNeverSatisfied if is_never else Reason.Dependency
        change.fields.update(eligible_us=0, accrue_us=0, reason=int(why))
    elif change.job.reason in (Reason.Dependency, Reason.DependencyNeverSatisfied):
        later = change.job.begin_us > change.context.now_us
        change.fields["reason"] = int(Reason.BeginTime if later else Reason.NONE)
    return 0


def _comment(change: Change, value: str) -> int:
    change.fields["comment"] = value
    change.request["comment"] = value
    return 0


def _extra(change: Change, value: str) -> int:
    """Write Extra, a note of any text but for a pending job that asks nodes for it."""
    change.request["extra"] = value
    if change.is_pending:
        demanded = node_extra(value, change.context.conf)
        if isinstance(demanded, Reject):
            return demanded.code
        change.request["node_extra"] = demanded
    return 0


def _admin_comment(change: Change, value: str) -> int:
    if not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    change.fields["admin_comment"] = value
    change.request["admin_comment"] = value
    return 0


def _gres(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    change.request["gres"] = _plain_gres(value)
    return 0


def _plain_gres(text: str) -> str:
    return text.replace("gres/", "").replace("gres:", "")


def _gpus(name: str) -> Setter:
    """A request field that counts GPUs: `2`, or `type:2` for some of a type."""

    def set_gpus(change: Change, value: str) -> int:
        if not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        try:
            found = parse_gres(_plain_gres(value)) if value else ()
        except TresError:
            return Errno.ESLURM_INVALID_TRES
        if any(item.name != "gpu" for item in found):
            return Errno.ESLURM_INVALID_GRES
        change.request[name] = ",".join(
            f"{item.type_name}:{item.amount}" if item.type_name else str(item.amount)
            for item in found
        )
        return 0

    return set_gpus


def _of_each_gpu(setter: Setter) -> Setter:
    """What comes with each GPU: `gres/gpu:2`, of no other resource."""

    def set_for_gpu(change: Change, value: str) -> int:
        name, _, amount = _plain_gres(value).replace("=", ":").partition(":")
        if value and (name != "gpu" or not amount):
            return Errno.ESLURM_INVALID_TRES
        return setter(change, amount or "0")

    return set_for_gpu


def _tres_per_task(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    try:
        found = parse_tres_per_task(value) if value else TresPerTask(0, "", "")
    except TresError:
        return Errno.ESLURM_INVALID_TRES
    change.request["cpus_per_task"] = found.cpus
    change.request["gpus_per_task"] = found.gpus
    change.request["tres_per_task"] = found.gres
    return 0


def _tres_bind(change: Change, value: str) -> int:
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    try:
        gpu_part(value)
    except GpuBindError:
        return Errno.ESLURM_INVALID_TRES
    change.request["tres_bind"] = value
    change.request["gpu_bind"] = ""
    return 0


# In the order in which they take effect, whatever order they are given in.
SETTERS: dict[str, Setter] = {
    "account": _account,
    "partition": _partition,
    "qos": _qos,
    "timelimit": _time_limit,
    "endtime": _end_time,
    "timemin": _time_min,
    "dependency": _dependency,
    "starttime": _begin,
    "deadline": _deadline,
    "priority": _priority,
    "nice": _nice,
    "sitefactor": _site_factor,
    "arraytaskthrottle": _throttle,
    "comment": _comment,
    "admincomment": _admin_comment,
    "extra": _extra,
    "jobname": _text("name", pending=False),
    "wckey": _text("wckey", pending=False),
    "mailuser": _text("mail_user", pending=False),
    "mailtype": _mail_type,
    "mcslabel": _text("mcs_label", pending=False, operator=True),
    "numnodes": _nodes,
    "numcpus": _cpus,
    "numtasks": _tasks,
    "taskspernode": _count("ntasks_per_node"),
    "cpuspertask": _count("cpus_per_task"),
    "mincpusnode": _count("mincpus"),
    "minmemorycpu": _memory("mem_per_cpu_mib"),
    "minmemorynode": _memory("mem_per_node_mib"),
    "mintmpdisknode": _count("tmp_mib"),
    "reqsockets": _count("sockets_per_node"),
    "reqcores": _count("cores_per_socket"),
    "reqthreads": _count("threads_per_core"),
    "features": _text("constraint"),
    "prefer": _text("prefer"),
    "clusterfeatures": _text("cluster_features"),
    "reqnodelist": _node_list,
    "nodelist": _node_list,
    "excnodelist": _node_names("exclude"),
    "reservationname": _reservation,
    "licenses": _licenses,
    "switches": _switches,
    "wait-for-switch": _wait_for_switch,
    "corespec": _special("core_spec", "thread_spec"),
    "threadspec": _special("thread_spec", "core_spec"),
    "contiguous": _yes_no(model_job.REQ_CONTIGUOUS, yes_needs_operator=True),
    "oversubscribe": _yes_no(model_job.REQ_OVERSUBSCRIBE, yes_needs_operator=True),
    "reboot": _yes_no(model_job.REQ_REBOOT, yes_needs_operator=True),
    "requeue": _requeue,
    "stdin": _text("std_in"),
    "stdout": _text("std_out"),
    "stderr": _text("std_err"),
    "workdir": _text("work_dir"),
    "burstbuffer": _no_plugin,
    "consolidatesegments": _yes_no(model_job.REQ_CONSOLIDATE_SEGMENTS),
    "spreadsegments": _yes_no(model_job.REQ_SPREAD_SEGMENTS),
    "segmentsize": _count("segment"),
    "trespernode": _gres,
    "tresperjob": _gpus("gpus"),
    "trespersocket": _gpus("gpus_per_socket"),
    "trespertask": _tres_per_task,
    "tresbind": _tres_bind,
    "tresfreq": _text("tres_freq"),
    "cpuspertres": _of_each_gpu(_count("cpus_per_gpu")),
    "mempertres": _of_each_gpu(_memory("mem_per_gpu_mib")),
}
_ORDER = {key: index for index, key in enumerate(SETTERS)}


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
    steering = Steering(cluster, context)
    licenses_taken: dict[str, int] = {}

    def act(job: Job, tasks: TaskRanges) -> int:
        change = Change(cluster, job, context, licenses_taken)
        return _update_one(steering, change, tasks, request.settings)

    if request.name:
        steering.by_name(request.name, request.uid, act)
    else:
        steering.by_id(request.jobs, act)
    return steering.decision()


def _update_one(
    steering: Steering, change: Change, tasks: TaskRanges, settings: dict[str, str]
) -> int:
    cluster, context, job = change.cluster, change.context, change.job
    if not may_change(cluster, job, context.caller):
        return Errno.ESLURM_USER_ID_MISSING
    is_over = job.state in TERMINAL_STATES and not comes_back(job)
    if is_over and not set(settings) <= {"comment", "admincomment", "extra"}:
        return Errno.ESLURM_JOB_FINISHED
    if comes_back(job) and "priority" in settings:
        return Errno.ESLURM_TRANSITION_STATE_NO_UPDATE
    for key in sorted(settings, key=_ORDER.__getitem__):
        code = SETTERS[key](change, settings[key])
        if code:
            return code
    if change.nodes is not job.nodes:
        steering.shrink(job, change.nodes)
    if not change.fields and not change.request:
        return 0
    request = changed_request(job.request, **change.request) if change.request else None
    if request is not None and change.is_pending and not _PLACING.isdisjoint(change.request):
        refusal = _cannot_be_placed(change, request)
        if refusal is not None:
            return refusal.code
    steering.update(job, tasks, change.fields, request)
    return 0


__all__ = ["SETTERS", "update_job"]
