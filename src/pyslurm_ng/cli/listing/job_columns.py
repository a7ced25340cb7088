"""The fields of squeue: heading, the record fields that they need, the function for a column.

A column function takes the table and the needed columns and returns the cells, so that a field
that is shown as it is costs no Python per row.
"""

from pyslurm_ng.base.numbers import (
    INFINITE,
    JOB_DEADLINE,
    JOB_FAILED,
    JOB_OUT_OF_MEMORY,
    JOB_PENDING,
    JOB_RUNNING,
    JOB_SUSPENDED,
    JOB_TIMEOUT,
    NO_VAL,
    REQ_CONTIGUOUS,
    SECOND_US,
)
from pyslurm_ng.base.state_names import job_state, job_state_compact
from pyslurm_ng.cli.listing.list_format import (
    Dates,
    cut_tasks,
    job_id_text,
    mem_text,
    short_limit,
    short_time,
    sluid_text,
)
from pyslurm_ng.data_parser.job_values import below, end_of, tres_list, tres_of_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Cells = Sequence[Any]
    Maker = Callable[..., Cells]


class Context:
    """What columns need besides records."""

    def __init__(self, now_us: int, cluster_name: str, *, is_raw: bool = False) -> None:
        """`is_raw`: amounts in megabytes, not in the largest unit that keeps them whole."""
        self.now_us = now_us
        self.is_raw = is_raw
        self.cluster_name = cluster_name
        self.dates = Dates(now_us)


# Cells ----------------------------------------------------------------------------------------


def _plain(context: Context, column: "Cells") -> "Cells":
    return column


def _or_null(context: Context, column: "Cells") -> "Cells":
    return [cell or "(null)" for cell in column]


def _command(context: Context, scripts: "Cells", arguments: "Cells") -> "Cells":
    rows = zip(scripts, arguments, strict=False)
    return [" ".join((script, *words)) if script else "(null)" for script, words in rows]


def _if_any(context: Context, column: "Cells") -> "Cells":
    return ["Yes" if cell else "No" for cell in column]


def _or_na(context: Context, column: "Cells") -> "Cells":
    return [cell or "N/A" for cell in column]


def _number_or_star(context: Context, column: "Cells") -> "Cells":
    return [cell or "*" for cell in column]


def _date(context: Context, column: "Cells") -> "Cells":
    text = context.dates.text
    return [text(cell) for cell in column]


def eligible_us(now_us: int, known_us: int, begin_us: int, dependency: object) -> int:
    """Return when a job is, or will be, eligible; 0 if that is not known."""
    return begin_us if not known_us and begin_us > now_us and not dependency else known_us


def _eligible(context: Context, *columns: "Cells") -> "Cells":
    now_us, text = context.dates.now_us, context.dates.text
    return [text(eligible_us(now_us, *row)) for row in zip(*columns, strict=False)]


def _last_eval(context: Context, *columns: "Cells") -> "Cells":
    """Show when the scheduler last looked at a job; submission is the first look."""
    text = context.dates.text
    return [text(eval_us or submit_us) for eval_us, submit_us in zip(*columns, strict=False)]


def _yes_no(context: Context, column: "Cells") -> "Cells":
    return [1 if cell else 0 for cell in column]


def _ids(context: Context, *columns: "Cells") -> "Cells":
    return [job_id_text(*row) for row in zip(*columns, strict=False)]


def _array_job_id(context: Context, array_ids: "Cells", job_ids: "Cells") -> "Cells":
    return [array_id or job_id for array_id, job_id in zip(array_ids, job_ids, strict=False)]


def _array_task(context: Context, tasks: "Cells", limits: "Cells", ids: "Cells") -> "Cells":
    cells: list[object] = []
    for text, limit, task_id in zip(tasks, limits, ids, strict=False):
        if text:
            shown = cut_tasks(text)
            cells.append(f"{shown}%{limit}" if limit else shown)
        else:
            cells.append(task_id if task_id < NO_VAL else "N/A")
    return cells


def _state(context: Context, states: "Cells", flags: "Cells") -> "Cells":
    return [job_state(state, flag) for state, flag in zip(states, flags, strict=False)]


def _compact(context: Context, states: "Cells", flags: "Cells") -> "Cells":
    known: dict[tuple[int, int], str] = {}
    cells = []
    for pair in zip(states, flags, strict=False):
        cell = known.get(pair)
        if cell is None:
            cell = known[pair] = job_state_compact(*pair)
        cells.append(cell)
    return cells


def elapsed_s(
    now_us: int, state: int, start_us: int, end_us: int, suspend_us: int, suspended_us: int
) -> int:
    """Return for how many seconds a job has run, suspensions left out."""
    if state == JOB_PENDING or not start_us:
        return 0
    if state == JOB_SUSPENDED:
        last_us = suspend_us
    elif state == JOB_RUNNING or not end_us:
        last_us = now_us
    else:
        last_us = end_us
    # Slurm subtracts whole seconds, so a start late in a second shows at the next one.
    elapsed = last_us // SECOND_US - start_us // SECOND_US - suspended_us // SECOND_US
    return elapsed if elapsed > 0 else 0


ELAPSED = ("state", "start_us", "end_us", "suspend_us", "suspended_us")


def _time_used(context: Context, *columns: "Cells") -> "Cells":
    now_us = context.now_us
    cells = []
    for row in zip(*columns, strict=False):
        cells.append(short_time(elapsed_s(now_us, *row)) if row[0] else "0:00")
    return cells


def _time_limit(context: Context, column: "Cells") -> "Cells":
    known: dict[int, str] = {}
    for cell in column:
        if cell not in known:
            known[cell] = short_limit(cell)
    return [known[cell] for cell in column]


def _time_left(context: Context, limits: "Cells", *columns: "Cells") -> "Cells":
    cells = []
    for limit, row in zip(limits, zip(*columns, strict=False), strict=False):
        if limit in (INFINITE, NO_VAL):
            cells.append(short_limit(limit))
        else:
            cells.append(short_time(limit * 60 - elapsed_s(context.now_us, *row)))
    return cells


START = ("state", "start_us", "expected_start_us")


def _start(context: Context, *columns: "Cells") -> "Cells":
    text = context.dates.text
    return [
        text(start if state else planned) for state, start, planned in zip(*columns, strict=False)
    ]


def _end(context: Context, *columns: "Cells") -> "Cells":
    text = context.dates.text
    return [
        "NONE"
        if (start if state else planned) and not end and limit_min == INFINITE
        else text(end_of(start if state else planned, end, limit_min, pause))
        for state, start, planned, end, limit_min, pause in zip(*columns, strict=False)
    ]


def _described(state: int, reason: str, text: str) -> str:
    """Return Slurm's text for why a job waits, if there is one, or the reason's name."""
    return text if text and (state == JOB_PENDING or reason == "None") else reason


def _reason(context: Context, *columns: "Cells") -> "Cells":
    return [_described(*cells) for cells in zip(*columns, strict=False)]


_STATES_WITH_REASON = frozenset(
    (JOB_PENDING, JOB_FAILED, JOB_TIMEOUT, JOB_DEADLINE, JOB_OUT_OF_MEMORY)
)
"""States of which NODELIST(REASON) says why; of others it says where."""


def _reason_list(
    context: Context, states: "Cells", nodes: "Cells", reasons: "Cells", texts: "Cells"
) -> "Cells":
    cells = []
    for state, names, reason, text in zip(states, nodes, reasons, texts, strict=False):
        if state in _STATES_WITH_REASON:
            cells.append(f"({_described(state, reason, text)})")
        else:
            cells.append(names)
    return cells


def _exec_host(context: Context, hosts: "Cells") -> "Cells":
    return [host or "n/a" for host in hosts]


def _min_memory(context: Context, per_cpu: "Cells", per_node: "Cells") -> "Cells":
    text = "{}M".format if context.is_raw else mem_text
    return [
        text(cpu or node) if cpu or node else "0"
        for cpu, node in zip(per_cpu, per_node, strict=False)
    ]


def _disk(context: Context, column: "Cells") -> "Cells":
    text = "{}M".format if context.is_raw else mem_text
    return [text(cell) if cell else "0" for cell in column]


def _priority_share(context: Context, column: "Cells") -> "Cells":
    return [f"{cell / INFINITE:.14f}" for cell in column]


def _contiguous(context: Context, column: "Cells") -> "Cells":
    return [1 if cell & REQ_CONTIGUOUS else 0 for cell in column]


def _sct(context: Context, *columns: "Cells") -> "Cells":
    return [":".join(str(cell or "*") for cell in row) for row in zip(*columns, strict=False)]


def _tres_alloc(context: Context, allocated_cells: "Cells", requested_cells: "Cells") -> "Cells":
    return [
        amount or other or "N/A"
        for amount, other in zip(allocated_cells, requested_cells, strict=False)
    ]


def _per_node(context: Context, *columns: "Cells") -> "Cells":
    return [
        tres_list("gres/", row[0], "gres/gpu:", row[1]) or "N/A"
        for row in zip(*columns, strict=False)
    ]


def _gpu_list(context: Context, column: "Cells") -> "Cells":
    return [tres_list("", "", "gres/gpu:", cell) or "N/A" for cell in column]


def _per_task(context: Context, cpus: "Cells", gpus: "Cells", others: "Cells") -> "Cells":
    rows = zip(cpus, gpus, others, strict=False)
    return [tres_of_task(*row) or "N/A" for row in rows]


def _per_gpu(context: Context, column: "Cells") -> "Cells":
    return [f"gres/gpu:{cell}" if cell else "N/A" for cell in column]


def _sluid(context: Context, submits: "Cells", resizes: "Cells", ids: "Cells") -> "Cells":
    return [sluid_text(*times) for times in zip(submits, resizes, ids, strict=False)]


def _cluster(context: Context, ids: "Cells") -> "Cells":
    return [context.cluster_name] * len(ids)


def _pending_time(context: Context, states: "Cells", starts: "Cells", submits: "Cells") -> "Cells":
    cells = []
    for state, start, submit in zip(states, starts, submits, strict=False):
        until = context.now_us if state == JOB_PENDING or not start else start
        cells.append(max(0, (until - submit) // SECOND_US))
    return cells


def _het(context: Context, ids: "Cells", values: "Cells") -> "Cells":
    return [value if het else "N/A" for het, value in zip(ids, values, strict=False)]


def _unknown(context: Context, ids: "Cells") -> "Cells":
    return ["N/A"] * len(ids)


def _null(context: Context, ids: "Cells") -> "Cells":
    return ["(null)"] * len(ids)


def _profile(context: Context, column: "Cells") -> "Cells":
    return [cell or "NotSet" for cell in column]


def _no_federation(context: Context, ids: "Cells") -> "Cells":
    return ["NA"] * len(ids)


def _zero(context: Context, ids: "Cells") -> "Cells":
    return [0] * len(ids)


def _minutes(context: Context, column: "Cells") -> "Cells":
    return [short_time(cell * 60 if cell < NO_VAL else 0) for cell in column]


def _seconds(context: Context, column: "Cells") -> "Cells":
    return [short_time(cell if cell < NO_VAL else 0) for cell in column]


def _stderr(context: Context, names: "Cells", work_dirs: "Cells") -> "Cells":
    return [below(*row) for row in zip(names, work_dirs, strict=False)]


def _stdin(context: Context, names: "Cells", work_dirs: "Cells") -> "Cells":
    return [below(*row) or "/dev/null" for row in zip(names, work_dirs, strict=False)]


def _stdout(context: Context, *columns: "Cells") -> "Cells":
    from pyslurm_ng.data_parser.job_values import default_stdout

    return [default_stdout(*row) for row in zip(*columns, strict=False)]


# The table ------------------------------------------------------------------------------------

ID_FIELDS = (
    "job_id",
    "array_job_id",
    "array_task_id",
    "array_tasks",
    "array_limit",
    "het_job_id",
    "het_offset",
)
Field = tuple[str, str, tuple[str, ...], "Maker"]
_ID = ("job_id",)

# Letter or "", heading, record fields, maker; by lower-case long name.
FIELDS: "dict[str, Field]" = {
    "account": ("a", "ACCOUNT", ("account",), _plain),
    "accruetime": ("", "ACCRUE_TIME", ("accrue_us",), _date),
    "admin_comment": ("", "ADMIN_COMMENT", ("admin_comment",), _or_null),
    "allocnodes": ("", "ALLOC_NODES", ("alloc_node",), _plain),
    "allocsid": ("", "ALLOC_SID", ("alloc_sid",), _plain),
    "arrayjobid": ("F", "ARRAY_JOB_ID", ("array_job_id", "job_id"), _array_job_id),
    "arraytaskid": (
        "K", "ARRAY_TASK_ID", ("array_tasks", "array_limit", "array_task_id"), _array_task,
    ),
    "associd": ("", "ASSOC_ID", ("assoc_id",), _plain),
    "batchflag": ("", "BATCH_FLAG", ("is_batch",), _yes_no),
    "batchhost": ("B", "EXEC_HOST", ("batch_host",), _exec_host),
    "boardspernode": ("", "BOARDS_PER_NODE", _ID, _zero),
    "burstbuffer": ("", "BURST_BUFFER", ("burst_buffer",), _or_null),
    "burstbufferstate": ("", "BURST_BUFFER_STATE", ("burst_buffer_state",), _or_null),
    "cluster": ("", "CLUSTER", _ID, _cluster),
    "clusterfeature": ("", "CLUSTER_FEATURES", ("cluster_features",), _or_null),
    "command": ("o", "COMMAND", ("command", "argv"), _command),
    "comment": ("k", "COMMENT", ("comment",), _or_null),
    "container": ("", "CONTAINER", ("container",), _or_null),
    "containerid": ("", "CONTAINERID", _ID, _null),
    "contiguous": ("O", "CONTIGUOUS", ("request_flags",), _contiguous),
    "cores": ("I", "CORES_PER_SOCKET", ("cores_per_socket",), _number_or_star),
    "corespec": ("X", "CORE_SPEC", ("core_spec",), _or_na),
    "cpuspertask": ("", "CPUS_PER_TASK", ("cpus_each",), _plain),
    "cpus-per-task": ("", "CPUS_PER_TASK", ("cpus_each",), _plain),
    "cpus-per-tres": ("", "CPUS_PER_TRES", ("cpus_per_gpu",), _per_gpu),
    "cronjob": ("", "CRON_JOB", ("cron",), _if_any),
    "deadline": ("", "DEADLINE", ("deadline_us",), _date),
    "delayboot": ("", "DELAY_BOOT", ("delay_boot_min",), _minutes),
    "dependency": ("E", "DEPENDENCY", ("dependency",), _or_null),
    "derivedec": ("", "DERIVED_EC", ("derived_exit_code",), _plain),
    "eligibletime": ("", "ELIGIBLE_TIME", ("eligible_us", "begin_us", "dependency"), _eligible),
    "endtime": ("e", "END_TIME", (*START, "end_us", "time_limit_min", "suspended_us"), _end),
    "excnodes": ("x", "EXC_NODES", ("exclude",), _plain),
    "exclusive": ("", "EXCLUSIVE", ("exclusive",), _plain),
    "exit_code": ("", "EXIT_CODE", ("exit_code",), _plain),
    "feature": ("f", "FEATURES", ("constraint",), _or_null),
    "gres": ("", "TRES_PER_NODE", ("gres", "gpus_per_node"), _per_node),
    "groupid": ("G", "GROUP", ("group_id",), _plain),
    "groupname": ("g", "GROUP", ("group_name",), _plain),
    "hetjobid": ("", "HET_JOB_ID", ("het_job_id", "het_job_id"), _het),
    "hetjobidset": ("", "HET_JOB_ID_SET", ("het_job_id", "het_job_ids"), _het),
    "hetjoboffset": ("", "HET_JOB_OFFSET", ("het_job_id", "het_offset"), _het),
    "jobarrayid": ("i", "JOBID", ID_FIELDS, _ids),
    "jobid": ("A", "JOBID", _ID, _plain),
    "lastschedeval": ("", "LAST_SCHED_EVAL", ("last_eval_us", "submit_us"), _last_eval),
    "licenses": ("W", "LICENSES", ("licenses",), _or_null),
    "licensesalloc": ("", "LICENSES_ALLOC", ("licenses_alloc",), _or_null),
    "maxcpus": ("", "MAX_CPUS", _ID, _zero),
    "maxnodes": ("", "MAX_NODES", ("nodes_max",), _plain),
    "mem-per-tres": ("", "MEM_PER_TRES", ("mem_per_gpu_mib",), _per_gpu),
    "mcslabel": ("", "MCSLABEL", ("mcs_label",), _or_null),
    "mincpus": ("c", "MIN_CPUS", ("cpus_each", "ntasks_per_node", "mincpus"),
                lambda context, each, per_node, low: [
                    max(cpus * max(tasks, 1), least)
                    for cpus, tasks, least in zip(each, per_node, low, strict=False)]),
    "minmemory": ("m", "MIN_MEMORY", ("mem_per_cpu_mib", "mem_per_node_mib"), _min_memory),
    "mintime": ("", "TIME_MIN", ("time_min_min",), _minutes),
    "mintmpdisk": ("d", "MIN_TMP_DISK", ("tmp_mib",), _disk),
    "name": ("j", "NAME", ("name",), _plain),
    "network": ("", "NETWORK", ("network",), _or_null),
    "nice": ("y", "NICE", ("nice",), _plain),
    "nodelist": ("N", "NODELIST", ("nodes",), _plain),
    "ntpercore": ("", "NTASKS_PER_CORE", ("ntasks_per_core",), _or_na),
    "ntpernode": ("", "NTASKS_PER_NODE", ("ntasks_per_node",), _plain),
    "ntpersocket": ("", "NTASKS_PER_SOCKET", ("ntasks_per_socket",), _or_na),
    "ntperboard": ("", "NTASKS_PER_BOARD", _ID, _zero),
    "numcpus": ("C", "CPUS", ("cpus",), _plain),
    "numnodes": ("D", "NODES", ("node_count",), _plain),
    "numtasks": ("", "TASKS", ("tasks",), _plain),
    "origin": ("", "ORIGIN", _ID, _no_federation),
    "originraw": ("", "ORIGIN_RAW", _ID, _no_federation),
    "oversubscribe": ("h", "OVER_SUBSCRIBE", ("oversubscribe",), _plain),
    "partition": ("P", "PARTITION", ("partition",), _plain),
    "pendingtime": ("", "PENDING_TIME", ("state", "start_us", "submit_us"), _pending_time),
    "preempttime": ("", "PREEMPT_TIME", ("preempt_us",), _date),
    "prefer": ("", "PREFER", ("prefer",), _or_null),
    "priority": ("p", "PRIORITY", ("priority",), _priority_share),
    "prioritylong": ("Q", "PRIORITY", ("priority",), _plain),
    "profile": ("", "PROFILE", ("profile",), _profile),
    "qos": ("q", "QOS", ("qos",), _or_null),
    "reason": ("r", "REASON", ("state", "reason", "reason_text"), _reason),
    "reasonlist": ("R", "NODELIST(REASON)", ("state", "nodes", "reason", "reason_text"),
                   _reason_list),
    "reboot": ("", "REBOOT", ("request_flags",),
               lambda context, flags: [flag >> 13 & 1 for flag in flags]),
    "reqnodes": ("n", "REQ_NODES", ("node_list",), _plain),
    "reqswitch": ("", "REQ_SWITCH", ("switches",), _plain),
    "requeue": ("", "REQUEUE", ("requeue",), _yes_no),
    "reservation": ("v", "RESERVATION", ("reservation",), _or_null),
    "resizetime": ("", "RESIZE_TIME", ("resize_us",), _date),
    "restartcnt": ("", "RESTART_COUNT", ("attempt",), _plain),
    "runtime": ("", "RUNTIME", _ID, _unknown),
    "schednodes": ("Y", "SCHEDNODES", ("sched_nodes",), _or_null),
    "sct": ("z", "S:C:T", ("sockets_per_node", "cores_per_socket", "threads_per_core"), _sct),
    "segmentsize": ("", "SEGMENT_SIZE", ("segment",), _plain),
    "siblingsactive": ("", "ACTIVE_SIBLINGS", _ID, _no_federation),
    "siblingsactiveraw": ("", "ACTIVE_SIBLINGS_RAW", _ID, _no_federation),
    "siblingsviable": ("", "VIABLE_SIBLINGS", _ID, _no_federation),
    "siblingsviableraw": ("", "VIALBLE_SIBLINGS_RAW", _ID, _no_federation),
    "sluid": ("s", "SLUID", ("submit_us", "resize_us", "job_id"), _sluid),
    "sockets": ("H", "SOCKETS_PER_NODE", ("sockets_per_node",), _number_or_star),
    "sperboard": ("", "SOCKETS_PER_BOARD", _ID, _zero),
    "starttime": ("S", "START_TIME", START, _start),
    "state": ("T", "STATE", ("state", "flags"), _state),
    "statecompact": ("t", "ST", ("state", "flags"), _compact),
    "stderr": ("", "STDERR", ("std_err", "work_dir"), _stderr),
    "stdin": ("", "STDIN", ("std_in", "work_dir"), _stdin),
    "stdout": ("", "STDOUT", ("std_out", "work_dir", "array_job_id"), _stdout),
    "submittime": ("V", "SUBMIT_TIME", ("submit_us",), _date),
    "system_comment": ("", "SYSTEM_COMMENT", ("system_comment",), _or_null),
    "threads": ("J", "THREADS_PER_CORE", ("threads_per_core",), _number_or_star),
    "timeleft": ("L", "TIME_LEFT", ("time_limit_min", *ELAPSED), _time_left),
    "timelimit": ("l", "TIME_LIMIT", ("time_limit_min",), _time_limit),
    "timeused": ("M", "TIME", ELAPSED, _time_used),
    "tres-alloc": ("", "TRES_ALLOC", ("tres_alloc", "tres_req"), _tres_alloc),
    "tres-bind": ("", "TRES_BIND", ("tres_bind",), _or_na),
    "tres-freq": ("", "TRES_FREQ", ("tres_freq",), _or_na),
    "tres-per-job": ("", "TRES_PER_JOB", ("gpus",), _gpu_list),
    "tres-per-node": ("b", "TRES_PER_NODE", ("gres", "gpus_per_node"), _per_node),
    "tres-per-socket": ("", "TRES_PER_SOCKET", ("gpus_per_socket",), _gpu_list),
    "tres-per-task": ("", "TRES_PER_TASK", ("cpus_per_task", "gpus_per_task", "tres_per_task"),
                      _per_task),
    "userid": ("U", "UID", ("user_id",), _plain),
    "username": ("u", "USER", ("user_name",), _plain),
    "wait4switch": ("", "WAIT4SWITCH", ("switches_wait_s",), _seconds),
    "wckey": ("w", "WCKEY", ("wckey",), _or_null),
    "workdir": ("Z", "WORK_DIR", ("work_dir",), _plain),
}  # fmt: skip
FIELDS["shared"] = FIELDS["oversubscribe"]
FIELDS["tres"] = FIELDS["tres-alloc"]
FIELDS["packjobid"] = FIELDS["hetjobid"]
FIELDS["packjobidset"] = FIELDS["hetjobidset"]
FIELDS["packjoboffset"] = FIELDS["hetjoboffset"]

BY_LETTER = {field[0]: name for name, field in FIELDS.items() if field[0]}
BY_LETTER["h"] = "oversubscribe"
ALL_LETTERS = "".join(sorted(BY_LETTER, key=lambda letter: (letter.isupper(), letter.lower())))
