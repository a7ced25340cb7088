"""The keys of a job: the fields of its record that each needs, and what makes its value."""

from pyslurm_ng.base.file_patterns import expand
from pyslurm_ng.base.numbers import (
    NO_VAL,
    REQ_CONTIGUOUS,
    REQ_CPUS_SET,
    REQ_DEFAULT_PARTITION,
    REQ_EXPEDITE,
    REQ_KILL_INVALID_DEP,
    REQ_MEM_SET,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
    REQ_REBOOT,
    REQ_SPREAD,
    REQ_STEPMGR,
    SECOND_US,
)
from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES
from pyslurm_ng.data_parser.job_values import (
    below,
    default_stdout,
    end_of,
    most_nodes,
    tres_list,
    was_planned,
)
from pyslurm_ng.data_parser.json_text import (
    exit_code,
    limit,
    number,
    quote,
    seconds,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Above the request's own: what the controller adds, from bit 40 the names left to a default.
_NO_THREAD_SPEC = 32766
MAIL_WORDS = ("BEGIN", "END", "FAIL", "REQUEUE", "TIME=100%", "TIME=90%", "TIME=80%", "TIME=50%",
         "STAGE_OUT", "ARRAY_TASKS", "INVALID_DEPENDENCY")  # fmt: skip


def _unchanged(value: "Any") -> "Any":
    return value


def _seconds(when_us: int) -> int:
    return when_us // SECOND_US if when_us > 0 else 0


def _task_id(task_id: int) -> "int | None":
    return task_id if task_id < NO_VAL else None


def _task_list(text: str, limit_count: int) -> str:
    if ":" in text:
        from pyslurm_ng.base.task_lists import written

        text = written(text)
    return quote(f"{text}%{limit_count}" if text and limit_count else text)


def _hold(priority: int, state: int) -> str:
    return "false" if priority or state else "true"


def _wish(count: int) -> "dict[str, Any]":
    """Return a number that is unset unless it was given."""
    return number(count, is_set=bool(count))


def _or_infinite(count: int) -> "dict[str, Any]":
    return number(count, is_set=bool(count), is_infinite=not count)


def _states(state: int, flags: int) -> "list[str]":
    return [JOB_STATES[state][0], *[name for bit, name, _ in JOB_FLAGS if flags & bit]]


def _flags(flags: int, dependency: str, state: int, reason: str, cron: str) -> "list[str]":
    words = []
    if flags & REQ_NTASKS_SET:
        words.append("EXACT_TASK_COUNT_REQUESTED")
    if flags & REQ_CPUS_SET:
        words.append("EXACT_CPU_COUNT_REQUESTED")
    if flags & REQ_MEM_SET:
        words.append("EXACT_MEMORY_REQUESTED")
    if flags & REQ_SPREAD:
        words.append("SPREAD_JOB")
    if flags & REQ_KILL_INVALID_DEP:
        words.append("KILL_INVALID_DEPENDENCY")
    if flags & REQ_EXPEDITE:
        words.append("EXPEDITED_REQUEUE")
    if flags & REQ_STEPMGR:
        words.append("STEPMGR_ENABLED")
    if state:
        words += ["ACCRUE_COUNT_CLEARED", "JOB_WAS_RUNNING"]
    words += [
        f"USING_DEFAULT_{name}"
        for bit, name in enumerate(("ACCOUNT", "PARTITION", "QOS", "WCKEY"), start=40)
        if flags >> bit & 1
    ]
    if cron:
        words.append("CRON_JOB")
    if dependency:
        words.append("DEPENDENT")
    if flags & REQ_DEFAULT_PARTITION:
        words.append("PARTITION_ASSIGNED")
    if was_planned(state, reason):
        words += ["BACKFILL_ATTEMPTED", "SCHEDULING_ATTEMPTED"]
    if flags & REQ_NTASKS_SET and not flags & REQ_NODES_SET:
        words.append("JOB_IMPLICIT_MAX_NODES")
    return words


def _max_nodes(state: int, flags: int, priority: int, most: int, tasks: int, nodes: int) -> int:
    """Return the bound of a waiting job; a job that runs has none."""
    return 0 if state else most_nodes(flags, priority, most, tasks, nodes)


def _billing(text: str) -> "dict[str, Any]":
    for word in text.split(","):
        name, _, count = word.partition("=")
        if name == "billing":
            return {"set": True, "infinite": False, "number": float(count)}
    return {"set": False, "infinite": False, "number": 0.0}


def _mail(bits: int) -> "list[str]":
    return [word for index, word in enumerate(MAIL_WORDS) if bits >> index & 1]


def _stdout(name: str, work_dir: str, array_job_id: int) -> str:
    if name:
        return quote(default_stdout(name, work_dir, array_job_id))
    return '"slurm-%A_%a.out"' if array_job_id else '"slurm-%j.out"'


def _expanded(
    name: str, work_dir: str, array_job_id: int, job_id: int, task_id: int, user: str,
    job_name: str, host: str,
) -> str:  # fmt: skip
    path = default_stdout(name, work_dir, array_job_id)
    return quote(
        expand(
            path,
            job_id=job_id,
            array_job_id=array_job_id,
            array_task_id=task_id,
            user=user,
            job_name=job_name,
            node_name=host,
            node_index=0,
            task_id=0,
        )
    )


def _profile(text: str) -> "list[str]":
    return text.upper().split(",") if text else ["NOT_SET"]


def _expanded_input(name: str, *rest: "Any") -> str:
    return _expanded(name, *rest) if name else '"/dev/null"'


def _stdin(name: str, work_dir: str) -> str:
    return below(name, work_dir) or "/dev/null"


def _delay_boot(minutes: int) -> "dict[str, Any]":
    return number(minutes * 60 if minutes < NO_VAL else 0)


def _expanded_error(name: str, *rest: "Any") -> str:
    return _expanded(name, *rest) if name else '""'


def _start(state: int, start_us: int, planned_us: int) -> int:
    return _seconds(start_us if state else planned_us)


def _end(
    state: int, start_us: int, planned_us: int, end_us: int, minutes: int, pause_us: int
) -> int:
    from_us = start_us if state else planned_us
    return _seconds(end_of(from_us, end_us, minutes, pause_us))


def _shared(oversubscribe: str, exclusive: str) -> "list[str]":
    if exclusive in ("USER", "MCS", "TOPO"):
        return [exclusive.lower()]
    return ["oversubscribe"] if oversubscribe == "YES" else []


def _gpus(text: str) -> str:
    return tres_list("", "", "gres/gpu:", text)


def _per_node(gres: str, gpus: str) -> str:
    return tres_list("gres/", gres, "gres/gpu:", gpus)


def _per_task(cpus: int, gpus: str, tres: str) -> str:
    words = [f"cpu={cpus}"] if cpus else []
    words += [f"gres/gpu={word}" for word in gpus.split(",") if word]
    return ",".join([*words, tres] if tres else words)


def _min_cpus(each: int, per_node: int, least: int) -> "dict[str, Any]":
    return number(max(each * max(per_node, 1), least))


def _gres_detail(rows: "list[list[Any]]") -> "list[str]":
    return [row[4] for row in rows if row[4]]


def _resources(
    rows: "list[list[Any]]", nodes: str, node_count: int, cpus: int
) -> "dict[str, Any] | None":
    """Return the allocation by node and core; None while there is none."""
    return _allocation(rows, nodes, node_count, cpus) if rows else None


def _core_status(core: int, own_cores: "set[int]", busy: "set[int]") -> "list[str]":
    if core not in own_cores:
        return ["UNALLOCATED"]
    return ["ALLOCATED", "IN_USE"] if core in busy else ["ALLOCATED"]


def _allocation(
    rows: "list[list[Any]]", nodes: str, node_count: int, cpus: int
) -> "dict[str, Any]":
    allocation = []
    for index, row in enumerate(rows):
        name, count, _, mem, _, sockets, cores, core_ids, used, used_ids, used_mem = row
        allocation.append({
            "index": index,
            "name": name,
            "cpus": {"count": count, "used": used},
            "memory": {"used": used_mem, "allocated": mem},
            "sockets": _sockets(sockets, cores, core_ids, used_ids),
        })  # fmt: skip
    return {
        "select_type": ["CR_CORE_MEMORY"],
        "nodes": {
            "count": node_count,
            "select_type": ["ONE_ROW"],
            "list": nodes,
            "whole": False,
            "allocation": allocation,
        },
        "cpus": cpus,
        "threads_per_core": number(0, is_set=False),
    }


_known_sockets: "dict[tuple[int, int, str, str], list[dict[str, Any]]]" = {}


def _sockets(*asked: "Any") -> "list[dict[str, Any]]":
    """Return the cores of each socket; many jobs have the same ones, so they are made once."""
    made = _known_sockets.get(asked)
    if made is None:
        if len(_known_sockets) > _MOST_SOCKETS:
            _known_sockets.clear()
        made = _known_sockets[asked] = _made_sockets(*asked)
    return made


def _made_sockets(sockets: int, cores: int, core_ids: str, used_ids: str) -> "list[dict[str, Any]]":
    own_cores, busy = set(_ids(core_ids)), set(_ids(used_ids))
    return [
        {
            "index": socket,
            "cores": [
                {"index": core, "status": _core_status(socket * cores + core, own_cores, busy)}
                for core in range(cores)
            ],
        }
        for socket in range(sockets)
    ]


def _ids(text: str) -> "list[int]":
    ids: list[int] = []
    for part in text.split(","):
        if part:
            first, _, last = part.partition("-")
            ids.extend(range(int(first), int(last or first) + 1))
    return ids


# Key; what its value is; the record's fields; the function that makes it. STATIC is the same for
# all jobs, and SHARED seldom differs. The others are each job's own: a COUNT, a WORD that has to be
# quoted, a TEXT that is JSON already, a FILE whose name may have patterns, a MOMENT (the first of
# its fields that is set), a NUMBER that may be missing (None), a STEP's id, or an object (OWN).
STATIC, SHARED, COUNT, WORD, TEXT, FILE, MOMENT, NUMBER, STEP, OWN = range(10)
Key = tuple[str, int, tuple[str, ...], "Any"]
_MOST_SOCKETS = 1024
_PATH = ("work_dir", "array_job_id", "job_id", "array_task_id", "user_name", "name", "batch_host")
PLACES_OF_FILE = 3
"""So many fields say where a file is; those behind them replace patterns in its name."""
_PLANNED = ("state", "start_us", "expected_start_us")

KEYS: "tuple[Key, ...]" = (
    ("account", SHARED, ("account",), _unchanged),
    ("accrue_time", MOMENT, ("accrue_us",), None),
    ("admin_comment", SHARED, ("admin_comment",), _unchanged),
    ("allocating_node", SHARED, ("alloc_node",), _unchanged),
    ("array_job_id", NUMBER, ("array_job_id",), _unchanged),
    ("array_task_id", NUMBER, ("array_task_id",), _task_id),
    ("array_max_tasks", SHARED, ("array_limit",), number),
    ("array_task_string", TEXT, ("array_tasks", "array_limit"), _task_list),
    ("association_id", SHARED, ("assoc_id",), _unchanged),
    ("batch_features", SHARED, ("batch_features",), _unchanged),
    ("batch_flag", SHARED, ("is_batch",), _unchanged),
    ("batch_host", SHARED, ("batch_host",), _unchanged),
    ("flags", SHARED, ("request_flags", "dependency", "state", "reason", "cron"), _flags),
    ("burst_buffer", SHARED, ("burst_buffer",), _unchanged),
    ("burst_buffer_state", SHARED, ("burst_buffer_state",), _unchanged),
    ("cluster", SHARED, ("cluster",), _unchanged),
    ("cluster_features", SHARED, ("cluster_features",), _unchanged),
    ("command", SHARED, ("command",), _unchanged),
    ("comment", SHARED, ("comment",), _unchanged),
    ("container", SHARED, ("container",), _unchanged),
    ("container_id", STATIC, (), ""),
    ("contiguous", SHARED, ("request_flags",), lambda flags: bool(flags & REQ_CONTIGUOUS)),
    ("core_spec", SHARED, ("core_spec",), _unchanged),
    ("thread_spec", SHARED, ("thread_spec",), lambda count: count or _NO_THREAD_SPEC),
    ("cores_per_socket", SHARED, ("cores_per_socket",), _wish),
    ("billable_tres", SHARED, ("tres_alloc",), _billing),
    ("cpus_per_task", SHARED, ("cpus_each",), number),
    ("cpu_frequency_minimum", STATIC, (), number(0, is_set=False)),
    ("cpu_frequency_maximum", STATIC, (), number(0, is_set=False)),
    ("cpu_frequency_governor", STATIC, (), number(0, is_set=False)),
    ("cpus_per_tres", SHARED, ("cpus_per_gpu",), lambda n: f"gres/gpu:{n}" if n else ""),
    ("cron", SHARED, ("cron",), _unchanged),
    ("deadline", SHARED, ("deadline_us",), seconds),
    ("delay_boot", SHARED, ("delay_boot_min",), _delay_boot),
    ("dependency", SHARED, ("dependency",), _unchanged),
    ("derived_exit_code", SHARED, ("derived_exit_code",), exit_code),
    ("eligible_time", MOMENT, ("eligible_us", "begin_us"), None),
    ("end_time", NUMBER, (*_PLANNED, "end_us", "time_limit_min", "suspended_us"), _end),
    ("excluded_nodes", SHARED, ("exclude",), _unchanged),
    ("exit_code", SHARED, ("exit_code",), exit_code),
    ("extra", SHARED, ("extra",), _unchanged),
    ("failed_node", SHARED, ("failed_node",), _unchanged),
    ("features", SHARED, ("constraint",), _unchanged),
    ("federation_origin", STATIC, (), ""),
    ("federation_siblings_active", STATIC, (), ""),
    ("federation_siblings_viable", STATIC, (), ""),
    ("gres_detail", OWN, ("resources",), _gres_detail),
    ("group_id", SHARED, ("group_id",), _unchanged),
    ("group_name", SHARED, ("group_name",), _unchanged),
    ("het_job_id", SHARED, ("het_job_id",), number),
    ("het_job_id_set", SHARED, ("het_job_ids",), _unchanged),
    ("het_job_offset", SHARED, ("het_offset",), number),
    ("job_id", COUNT, ("job_id",), None),
    ("job_resources", OWN, ("resources", "nodes", "node_count", "cpus"), _resources),
    ("job_size_str", STATIC, (), []),
    ("job_state", SHARED, ("state", "flags"), _states),
    ("last_sched_evaluation", MOMENT, ("last_eval_us", "submit_us"), None),
    ("licenses", SHARED, ("licenses",), _unchanged),
    ("licenses_allocated", SHARED, ("licenses_alloc",), _unchanged),
    ("mail_type", SHARED, ("mail_type",), _mail),
    ("mail_user", SHARED, ("mail_user", "user_name"), lambda mail, user: mail or user),
    ("max_cpus", STATIC, (), number(0)),
    (
        "max_nodes",
        NUMBER,
        ("state", "request_flags", "priority", "nodes_max", "tasks", "node_count"),
        _max_nodes,
    ),
    ("mcs_label", SHARED, ("mcs_label",), _unchanged),
    ("memory_per_tres", SHARED, ("mem_per_gpu_mib",), lambda n: f"gres/gpu:{n}" if n else ""),
    ("memory_update_delay", STATIC, (), 0),
    ("memory_update_margin", STATIC, (), 0),
    ("name", WORD, ("name",), None),
    ("network", SHARED, ("network",), _unchanged),
    ("nodes", WORD, ("nodes",), None),
    ("nice", SHARED, ("nice",), _unchanged),
    ("tasks_per_core", SHARED, ("ntasks_per_core",), _or_infinite),
    ("tasks_per_tres", SHARED, ("ntasks_per_gpu",), number),
    ("tasks_per_node", SHARED, ("ntasks_per_node",), number),
    ("tasks_per_socket", SHARED, ("ntasks_per_socket",), _or_infinite),
    ("tasks_per_board", STATIC, (), number(0)),
    ("cpus", SHARED, ("cpus",), number),
    ("node_count", SHARED, ("node_count",), number),
    ("tasks", SHARED, ("tasks",), number),
    ("partition", SHARED, ("partition",), _unchanged),
    ("prefer", SHARED, ("prefer",), _unchanged),
    ("memory_per_cpu", SHARED, ("mem_per_cpu_mib",), _wish),
    ("memory_per_node", SHARED, ("mem_per_node_mib",), _wish),
    ("minimum_cpus_per_node", SHARED, ("cpus_each", "ntasks_per_node", "mincpus"), _min_cpus),
    ("minimum_tmp_disk_per_node", SHARED, ("tmp_mib",), number),
    ("preempt_time", SHARED, ("preempt_us",), seconds),
    ("preemptable_time", MOMENT, ("preemptable_us",), None),
    ("pre_sus_time", MOMENT, ("elapsed_before_us",), None),
    ("hold", TEXT, ("priority", "state"), _hold),
    ("priority", NUMBER, ("priority",), _unchanged),
    ("priority_by_partition", STATIC, (), []),
    ("profile", SHARED, ("profile",), _profile),
    ("qos", SHARED, ("qos",), _unchanged),
    ("reboot", SHARED, ("request_flags",), lambda flags: bool(flags & REQ_REBOOT)),
    ("required_nodes", SHARED, ("node_list",), _unchanged),
    ("required_switches", SHARED, ("switches",), _unchanged),
    ("requeue", SHARED, ("requeue",), _unchanged),
    ("resize_time", SHARED, ("resize_us",), seconds),
    ("restart_cnt", SHARED, ("attempt",), _unchanged),
    ("resv_name", SHARED, ("reservation",), _unchanged),
    ("runtime", STATIC, (), ""),
    ("scheduled_nodes", WORD, ("sched_nodes",), None),
    ("segment_size", SHARED, ("segment",), _unchanged),
    ("selinux_context", STATIC, (), ""),
    ("shared", SHARED, ("oversubscribe", "exclusive"), _shared),
    ("step_id", STEP, ("submit_us", "resize_us", "job_id"), None),
    ("sockets_per_board", STATIC, (), 0),
    ("sockets_per_node", SHARED, ("sockets_per_node",), _wish),
    ("start_time", NUMBER, _PLANNED, _start),
    ("state_description", SHARED, ("reason_text",), _unchanged),
    ("state_reason", SHARED, ("reason",), _unchanged),
    ("standard_input", SHARED, ("std_in", "work_dir"), _stdin),
    ("standard_output", TEXT, ("std_out", "work_dir", "array_job_id"), _stdout),
    ("standard_error", SHARED, ("std_err", "work_dir"), below),
    ("stdin_expanded", FILE, ("std_in", *_PATH), _expanded_input),
    ("stdout_expanded", FILE, ("std_out", *_PATH), _expanded),
    ("stderr_expanded", FILE, ("std_err", *_PATH), _expanded_error),
    ("submit_time", MOMENT, ("submit_us",), None),
    ("submit_line", WORD, ("submit_line",), None),
    ("suspend_time", MOMENT, ("suspend_us",), None),
    ("system_comment", SHARED, ("system_comment",), _unchanged),
    ("time_limit", SHARED, ("time_limit_min",), limit),
    ("time_minimum", SHARED, ("time_min_min",), lambda n: number(0 if n >= NO_VAL else n)),
    ("threads_per_core", SHARED, ("threads_per_core",), _wish),
    ("tres_bind", SHARED, ("tres_bind",), _unchanged),
    ("tres_freq", SHARED, ("tres_freq",), _unchanged),
    ("tres_per_job", SHARED, ("gpus",), _gpus),
    ("tres_per_node", SHARED, ("gres", "gpus_per_node"), _per_node),
    ("tres_per_socket", SHARED, ("gpus_per_socket",), _gpus),
    ("tres_per_task", SHARED, ("cpus_per_task", "gpus_per_task", "tres_per_task"), _per_task),
    ("tres_req_str", SHARED, ("tres_req",), _unchanged),
    ("tres_alloc_str", SHARED, ("tres_alloc",), _unchanged),
    ("user_id", SHARED, ("user_id",), _unchanged),
    ("user_name", SHARED, ("user_name",), _unchanged),
    ("maximum_switch_wait_time", SHARED, ("switches_wait_s",), _unchanged),
    ("wckey", SHARED, ("wckey",), _unchanged),
    ("current_working_directory", SHARED, ("work_dir",), _unchanged),
)  # fmt: skip
