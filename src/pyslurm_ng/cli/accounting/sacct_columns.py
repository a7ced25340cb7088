"""sacct's fields: the stored columns that each needs, and its text for a job and for a step.

`job` and `step` are dicts of stored columns (`dbd.schema`); for a step `job` is its job's.
"""

from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.cli.listing.list_format import Dates, exit_text, long_time
from pyslurm_ng.data_parser.accounting_values import (
    expand_pattern,
    layout_text,
    planned_s,
    run_s,
    step_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = dict[str, Any]


class Context:
    """What formatting needs beside a row: time, units, window, names."""

    def __init__(self, now_us: int, cluster: str) -> None:
        self.now_us = now_us
        self.cluster = cluster
        self.dates = Dates(now_us)
        self.unit = ""  # --units: one letter
        self.raw = False  # --noconvert
        self.truncate = False
        self.local_uids = False  # --use-local-uid
        self.expands = False  # --expand-patterns
        self.start_us = 0
        self.end_us = 0
        self.qos: dict[str, int] = {}

    def span(self, row: "Row") -> "tuple[int, int]":
        """Return start and end, cut to the window with -T.

        The start of a job that ended before it started is then its end, as in Slurm.
        """
        start: int = row["start_us"]
        end: int = row["end_us"]
        if self.truncate and start:
            start = max(start, self.start_us)
            if not end or end > self.end_us:
                end = self.end_us
        elif self.truncate and end:
            start = end = min(end, self.end_us)
        return start, end


def elapsed_s(row: "Row", context: Context, job: "Row | None" = None) -> int:
    """Return seconds of run time within the window, without suspension; of a step with its job."""
    since_us: int = (job or row).get("suspend_start_us") or 0
    return run_s(*context.span(row), row["suspended_us"], since_us, context.now_us)


def _planned_s(job: "Row", context: Context) -> int:
    return planned_s(job["eligible_us"], job["start_us"], job["end_us"], context.now_us)


def cpu_time(microseconds: int) -> str:
    """Return CPU time: `00:00.004` below an hour when there are fractions, else `HH:MM:SS`."""
    seconds, rest = divmod(microseconds, SECOND_US)
    if seconds >= 3600 or not microseconds:
        return long_time(seconds)
    return f"{seconds // 60:02d}:{seconds % 60:02d}.{rest // 1000:03d}"


_UNITS = "KMGTP"


def size_text(amount: int, context: Context, base: str) -> str:
    """Return an amount of bytes (`base` empty) or MiB (`base` M) with its unit.

    The unit is the largest that leaves a whole number, or that of --units.
    """
    if context.raw:
        return f"{amount}{base}"
    at = _UNITS.find(base) if base else -1
    if context.unit:
        target = _UNITS.index(context.unit)
        factor = 1024 ** (target - at)
        if target <= at or amount % factor == 0:
            value = amount * 1024 ** (at - target) if target <= at else amount // factor
            return f"{value}{context.unit}"
        return f"{amount / factor:.2f}{context.unit}"
    if not amount:
        return "0"
    while amount >= 1024 and amount % 512 == 0 and at < len(_UNITS) - 1:
        if amount % 1024:
            return f"{amount / 1024:.2f}{_UNITS[at + 1]}"
        amount //= 1024
        at += 1
    return f"{amount}{_UNITS[at] if at >= 0 else ''}"


def disk_text(amount: int, context: Context) -> str:
    """Return bytes moved to and from disks: megabytes with two decimals."""
    if context.raw:
        return str(amount)
    unit = context.unit or "M"
    return f"{amount / 1024 ** (_UNITS.index(unit) + 1):.2f}{unit}"


def tres_text(text: str, context: Context) -> str:
    """Return requested or held TRES as shown: memory with its unit."""
    if "mem=" not in text:
        return text
    words = text.split(",")
    for index, word in enumerate(words):
        if word.startswith("mem="):
            words[index] = "mem=" + size_text(int(word[4:]), context, "M")
    return ",".join(words)


def usage_text(text: str, context: Context) -> str:
    """Return a usage list as shown: CPU as time, memory with its unit."""
    words = []
    for word in text.split(",") if text else ():
        name, _, amount = word.partition("=")
        if amount.isdecimal():
            if name == "cpu":
                amount = long_time(int(amount) // 1000)
            elif name in ("mem", "vmem"):
                amount = size_text(int(amount), context, "")
        words.append(f"{name}={amount}")
    return ",".join(words)


def part(text: str, name: str) -> str:
    """Return the value of one TRES in a usage list, empty if it is not there."""
    for word in text.split(","):
        key, _, value = word.partition("=")
        if key == name:
            return value
    return ""


def task_text(job: "Row") -> str:
    """Return the id users know a job by; an array's waiting tasks in brackets."""
    if job["array_tasks"]:
        from pyslurm_ng.cli.listing.list_format import cut_tasks

        tasks, percent, limit = job["array_tasks"].partition("%")
        return f"{job['array_job_id']}_[{cut_tasks(tasks)}{percent}{limit}]"
    if job["array_job_id"] and job["array_task_id"] >= 0:
        return f"{job['array_job_id']}_{job['array_task_id']}"
    if job["het_job_id"]:
        return f"{job['het_job_id']}+{job['het_job_offset']}"
    return str(job["job_id"])


def _job_exit_text(job: "Row") -> str:
    code: int = job["exit_code"]
    # As Slurm shows it for jobs that ended though none of their processes did.
    if code == 1 and job["state"] in ("NODE_FAIL", "DEADLINE"):
        return "1:0"
    return "0:0" if job["state"] == "CANCELLED" and code & 0x7F else exit_text(code)


def state_text(row: "Row") -> str:
    """Return the state; a cancelled job or step names the user that cancelled it."""
    if row["state"] == "CANCELLED" and row["kill_uid"] >= 0:
        return f"CANCELLED by {row['kill_uid']}"
    return str(row["state"])


def step_state_text(step: "Row", job: "Row") -> str:
    """Return the state of a step; one that ran on is suspended with its job."""
    if job["state"] == "SUSPENDED" and step["state"] == "RUNNING":
        return "SUSPENDED"
    return state_text(step)


def _cpus(job: "Row") -> int:
    return int(job["cpus_allocated"] or job["cpus_requested"])


def _limit(job: "Row", _: Context) -> str:
    minutes = job["time_limit_min"]
    if minutes == INFINITE:
        return "UNLIMITED"
    return "Partition_Limit" if minutes == NO_VAL else long_time(minutes * 60)


def _limit_raw(job: "Row", _: Context) -> str:
    minutes = job["time_limit_min"]
    if minutes in (INFINITE, NO_VAL):
        return "UNLIMITED" if minutes == INFINITE else "Partition_Limit"
    return str(minutes)


def _start(job: "Row", context: Context) -> str:
    start, _ = context.span(job)
    return context.dates.text(start, "None" if job["end_us"] else "Unknown")


def _energy(value: int) -> str:
    return str(value) if value >= 0 else ""


def _path(job: "Row", name: str, context: Context) -> str:
    """Return a file pattern, made absolute once the job has run, or the name that it stands for."""
    text = str(job[name])
    if text and text[0] != "/" and (job["start_us"] or job["requeue_count"]):
        text = f"{job['work_dir']}/{text}"
    if context.expands:
        return expand_pattern(text, *[job[column] for column in _NAMES])
    return text


def _uid(job: "Row", context: Context) -> int:
    """Return the user's number that is stored, or with --use-local-uid that of this host."""
    if context.local_uids:
        from pwd import getpwnam

        try:
            return getpwnam(job["user"]).pw_uid
        except KeyError:
            pass
    return int(job["uid"])


_NAMES = ("job_id", "array_job_id", "array_task_id", "user", "name")
_FILE = ("work_dir", "start_us", "requeue_count", *_NAMES)
_SPAN = ("start_us", "end_us", "suspended_us")
_JOB_SPAN = (*_SPAN, "suspend_start_us")
_ID = ("job_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_job_offset")
_PLANNED = ("eligible_us", "start_us", "end_us", "cpus_allocated", "cpus_requested")

FIELDS: "dict[str, tuple[tuple[str, ...], Any, tuple[str, ...], Any]]" = {}
"""Name -> job columns, text of a job, step columns, text of a step. None stands for blank."""


def _add(
    name: str,
    job_columns: "tuple[str, ...]",
    job: "Callable[[Row, Context], object] | None",
    step_columns: "tuple[str, ...]" = (),
    step: "Callable[[Row, Row, Context], object] | None" = None,
) -> None:
    FIELDS[name] = (job_columns, job, step_columns, step)


def _plain(name: str, column: str) -> None:
    _add(name, (column,), lambda job, _: job[column])


def _job_and_step(name: str, column: str, step_column: str) -> None:
    _add(
        name, (column,), lambda job, _: job[column],
        (step_column,), lambda step, job, _: step[step_column],
    )  # fmt: skip


def _inherited(name: str, column: str) -> None:
    _add(name, (column,), lambda job, _: job[column], (), lambda step, job, _: job[column])


def _usage(name: str, column: str) -> None:
    if column.endswith(("_node", "_task")):
        _add(name, (), None, (column,), lambda step, job, _: step[column])
        return
    _add(name, (), None, (column,), lambda step, job, context: usage_text(step[column], context))


def _sample(name: str, column: str, tres: str, kind: str) -> None:
    """Add a field that is one TRES of a usage list."""

    def text(step: "Row", job: "Row", context: Context) -> str:
        value = part(step[column], tres)
        if not value or not value.isdecimal():
            return value
        if kind == "size":
            return size_text(int(value), context, "")
        if kind == "disk":
            return disk_text(int(value), context)
        return long_time(int(value) // 1000) if kind == "cpu" else value

    _add(name, (), None, (column,), text)


for _name, _column in (
    ("AdminComment", "admin_comment"), ("Comment", "comment"), ("Constraints", "constraints"),
    ("Exclusive", "exclusive"), ("Extra", "extra"), ("FailedNode", "failed_node"),
    ("Flags", "flags"), ("GID", "gid"), ("Group", "group"), ("Licenses", "licenses"),
    ("McsLabel", "mcs_label"), ("OverSubscribe", "oversubscribe"), ("Partition", "partition"),
    ("Priority", "priority"), ("QOS", "qos"), ("QOSREQ", "qos_requested"), ("Reason", "reason"),
    ("Reservation", "reservation"), ("ReqReservation", "reservation_requested"),
    ("Restarts", "requeue_count"), ("SystemComment", "system_comment"),
    ("User", "user"), ("WCKey", "wckey"), ("WorkDir", "work_dir"),
):  # fmt: skip
    _plain(_name, _column)
_add("UID", ("uid", "user"), _uid)
_inherited("Account", "account")
_inherited("AssocID", "association_id")
_inherited("DBIndex", "sluid")
for _name in ("AllocCPUS", "NCPUS"):
    _add(_name, ("cpus_allocated", "cpus_requested"), lambda job, _: _cpus(job),
         ("cpus",), lambda step, job, _: step["cpus"])  # fmt: skip
_job_and_step("AllocNodes", "nodes_allocated", "nodes")
_job_and_step("ReqCPUS", "cpus_requested", "cpus")
_job_and_step("ReqNodes", "nodes_requested", "nodes")
_job_and_step("JobName", "name", "name")
_job_and_step("Container", "container", "container")
_job_and_step("SubmitLine", "submit_line", "submit_line")
_add("BlockID", (), None)
_add("WCKeyID", ("wckey_id",), lambda job, _: job["wckey_id"])
_add("QOSRAW", ("qos",), lambda job, context: context.qos.get(job["qos"], ""))
_add("Cluster", (), lambda job, context: context.cluster, (),
     lambda step, job, context: context.cluster)  # fmt: skip
_add("SLUID", ("sluid",), lambda job, _: sluid_text(job["sluid"]), (),
     lambda step, job, _: sluid_text(job["sluid"]))  # fmt: skip
_add("OriginalSLUID", ("original_sluid",), lambda job, _: sluid_text(job["original_sluid"]), (),
     lambda step, job, _: sluid_text(job["original_sluid"]))  # fmt: skip
_add("JobID", _ID, lambda job, _: task_text(job), ("step_id",),
     lambda step, job, _: f"{task_text(job)}.{step_name(step['step_id'])}")  # fmt: skip
_add("JobIDRaw", ("job_id",), lambda job, _: job["job_id"], ("step_id",),
     lambda step, job, _: f"{job['job_id']}.{step_name(step['step_id'])}")  # fmt: skip
_add("State", ("state", "kill_uid"), lambda job, _: state_text(job), ("state", "kill_uid"),
     lambda step, job, _: step_state_text(step, job))  # fmt: skip
_add("ExitCode", ("exit_code", "state"), lambda job, _: _job_exit_text(job),
     ("exit_code", "end_us"),
     lambda step, job, _: exit_text(step["exit_code"]) if step["exit_code"] >= 0
     else "" if step["end_us"] else "0:0")  # fmt: skip
_add("DerivedExitCode", ("derived_exit_code",), lambda job, _: exit_text(job["derived_exit_code"]))
_add("AllocTRES", ("tres_allocated",),
     lambda job, context: tres_text(job["tres_allocated"], context), ("tres_allocated",),
     lambda step, job, context: tres_text(step["tres_allocated"], context))  # fmt: skip
_add("ReqTRES", ("tres_requested",),
     lambda job, context: tres_text(job["tres_requested"], context))  # fmt: skip
_add(
    "ReqMem",
    ("tres_requested",),
    lambda job, context: size_text(int(part(job["tres_requested"], "mem") or 0), context, "M"),
)
_add("NNodes", ("nodes_allocated", "nodes_requested"),
     lambda job, _: job["nodes_allocated"] or job["nodes_requested"], ("nodes",),
     lambda step, job, _: step["nodes"])  # fmt: skip
_add("NodeList", ("node_list",), lambda job, _: job["node_list"] or "None assigned",
     ("node_list",), lambda step, job, _: step["node_list"] or "None assigned")  # fmt: skip
_add("NTasks", (), None, ("tasks",), lambda step, job, _: step["tasks"])
_add(
    "Layout", (), None, ("distribution",), lambda step, job, _: layout_text(step["distribution"])
)  # fmt: skip
_add("Elapsed", _JOB_SPAN, lambda job, context: long_time(elapsed_s(job, context)), _SPAN,
     lambda step, job, context: long_time(elapsed_s(step, context, job)))  # fmt: skip
_add("ElapsedRaw", _JOB_SPAN, elapsed_s, _SPAN,
     lambda step, job, context: elapsed_s(step, context, job))  # fmt: skip
_add("CPUTime", (*_JOB_SPAN, "cpus_allocated"),
     lambda job, context: long_time(elapsed_s(job, context) * job["cpus_allocated"]),
     (*_SPAN, "cpus"),
     lambda step, job, context: long_time(
         elapsed_s(step, context, job) * step["cpus"]))  # fmt: skip
_add("CPUTimeRAW", (*_JOB_SPAN, "cpus_allocated"),
     lambda job, context: elapsed_s(job, context) * job["cpus_allocated"], (*_SPAN, "cpus"),
     lambda step, job, context: elapsed_s(step, context, job) * step["cpus"])  # fmt: skip
_add("Eligible", ("eligible_us",), lambda job, context: context.dates.text(
    job["eligible_us"], "Unknown"), ("start_us",),
     lambda step, job, context: context.dates.text(step["start_us"], "Unknown"))  # fmt: skip
_add("Submit", ("submit_us",), lambda job, context: context.dates.text(job["submit_us"]),
     ("start_us",), lambda step, job, context: context.dates.text(step["start_us"]))  # fmt: skip
_add("Start", _JOB_SPAN, _start, _SPAN,
     lambda step, job, context: context.dates.text(context.span(step)[0], "Unknown"))  # fmt: skip
_add("End", _JOB_SPAN, lambda job, context: context.dates.text(context.span(job)[1], "Unknown"),
     _SPAN,
     lambda step, job, context: context.dates.text(context.span(step)[1], "Unknown"))  # fmt: skip
_add("Suspended", ("suspended_us",), lambda job, _: long_time(job["suspended_us"] // SECOND_US),
     ("suspended_us",),
     lambda step, job, _: long_time(step["suspended_us"] // SECOND_US))  # fmt: skip
_add("Planned", _PLANNED, lambda job, context: long_time(_planned_s(job, context)))
_add("PlannedCPU", _PLANNED,
     lambda job, context: long_time(_planned_s(job, context) * _cpus(job)))  # fmt: skip
_add("PlannedCPURAW", _PLANNED, lambda job, context: _planned_s(job, context) * _cpus(job))
_add("Timelimit", ("time_limit_min",), _limit)
_add("TimelimitRaw", ("time_limit_min",), _limit_raw)
_add("ReservationId", ("reservation_id",), lambda job, _: job["reservation_id"] or "")
_add("SegmentSize", ("segment_size",), lambda job, _: job["segment_size"] or "")
for _name in ("StdIn", "StdOut", "StdErr"):
    _column = f"std_{_name[3:].lower()}"
    _add(_name, (_column, *_FILE),
         lambda job, context, column=_column: _path(job, column, context))  # type: ignore[misc] # fmt: skip
_add("TotalCPU", ("total_user_cpu_us", "total_system_cpu_us"),
     lambda job, _: cpu_time(job["total_user_cpu_us"] + job["total_system_cpu_us"]),
     ("user_cpu_us", "system_cpu_us"),
     lambda step, job, _: cpu_time(step["user_cpu_us"] + step["system_cpu_us"]))  # fmt: skip
_add("UserCPU", ("total_user_cpu_us",), lambda job, _: cpu_time(job["total_user_cpu_us"]),
     ("user_cpu_us",), lambda step, job, _: cpu_time(step["user_cpu_us"]))  # fmt: skip
_add("SystemCPU", ("total_system_cpu_us",), lambda job, _: cpu_time(job["total_system_cpu_us"]),
     ("system_cpu_us",), lambda step, job, _: cpu_time(step["system_cpu_us"]))  # fmt: skip
for _name in ("ConsumedEnergy", "ConsumedEnergyRaw"):
    _add(_name, ("total_energy_j",), lambda job, _: _energy(job["total_energy_j"]),
         ("energy_j",), lambda step, job, _: _energy(step["energy_j"]))  # fmt: skip
_add("AveCPUFreq", (), None, ("cpu_frequency_khz", "end_us"),
     lambda step, job, context: size_text(step["cpu_frequency_khz"], context, "K")
     if step["cpu_frequency_khz"] else "0" if step["end_us"] else "")  # fmt: skip
for _name, _column in (
    ("ReqCPUFreq", "frequency_max"), ("ReqCPUFreqMin", "frequency_min"),
    ("ReqCPUFreqMax", "frequency_max"), ("ReqCPUFreqGov", "frequency_governor"),
):  # fmt: skip
    _add(_name, (), lambda job, _: "Unknown", (_column, "step_id"),
         lambda step, job, _, column=_column: step[column] or (  # type: ignore[misc]
             "0" if step["step_id"] < 0 else "Unknown"))  # fmt: skip
for _way in ("In", "Out"):
    for _what in ("Ave", "Max", "MaxNode", "MaxTask", "Min", "MinNode", "MinTask", "Tot"):
        _column = f"tres_usage_{_way.lower()}_{_what.lower()}"
        for _end in ("node", "task"):
            _column = _column.replace(f"max{_end}", f"max_{_end}").replace(
                f"min{_end}", f"min_{_end}")  # fmt: skip
        _usage(f"TRESUsage{_way}{_what}", _column)
for _name, _tres, _kind in (("RSS", "mem", "size"), ("VMSize", "vmem", "size"),
                            ("Pages", "pages", "count")):  # fmt: skip
    _sample(f"Max{_name}", "tres_usage_in_max", _tres, _kind)
    _sample(f"Max{_name}Node", "tres_usage_in_max_node", _tres, "text")
    _sample(f"Max{_name}Task", "tres_usage_in_max_task", _tres, "text")
    _sample(f"Ave{_name}", "tres_usage_in_ave", _tres, _kind)
for _name, _way in (("DiskRead", "in"), ("DiskWrite", "out")):
    _sample(f"Max{_name}", f"tres_usage_{_way}_max", "fs/disk", "disk")
    _sample(f"Max{_name}Node", f"tres_usage_{_way}_max_node", "fs/disk", "text")
    _sample(f"Max{_name}Task", f"tres_usage_{_way}_max_task", "fs/disk", "text")
    _sample(f"Ave{_name}", f"tres_usage_{_way}_ave", "fs/disk", "disk")
_sample("MinCPU", "tres_usage_in_min", "cpu", "cpu")
_sample("MinCPUNode", "tres_usage_in_min_node", "cpu", "text")
_sample("MinCPUTask", "tres_usage_in_min_task", "cpu", "text")
_sample("AveCPU", "tres_usage_in_ave", "cpu", "cpu")
