"""sacct --json: jobs with their steps, keys as Slurm's data parser v0.0.46 has them."""

from functools import lru_cache

from pyslurm_ng.base.hostlist import expand
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.data_parser import json_text
from pyslurm_ng.data_parser.accounting_values import (
    expand_pattern,
    layout_text,
    planned_s,
    run_s,
    step_name,
)
from pyslurm_ng.data_parser.json_shape import (
    Leaf,
    Template,
    amount,
    columns_of,
    count,
    encoded,
    optional,
    text,
    value,
    word,
)
from pyslurm_ng.data_parser.records import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Shape = dict[str, Any]

_FLAGS = {
    "SchedSubmit": "STARTED_ON_SUBMIT",
    "SchedMain": "STARTED_ON_SCHEDULE",
    "SchedBackfill": "STARTED_ON_BACKFILL",
    "StartReceived": "START_RECEIVED",
}
_JOB_DEPTH, _STEP_DEPTH = 2, 4
_AT_ONCE = 200
"""Jobs of one piece: memory of a few megabytes is used again, that of more is asked for anew."""
_STEPS = "steps"
_OF_JOB = "job."
_NAMES = ("job_id", "array_job_id", "array_task_id", "user", "name")
"""The columns that patterns of file names stand for."""


def columns() -> "tuple[list[str], list[str]]":
    """Return the stored columns of jobs and of steps that the document needs."""
    job, step = columns_of(_job("", 0, {})), columns_of(_step(0, {}))
    return (
        [name for name in job if name != _STEPS],
        [name for name in step if not name.startswith(_OF_JOB)],
    )


def document(
    answers: "Iterable[dict[str, Any]]", cluster: str, more: "dict[str, Any]"
) -> "Iterator[bytes]":
    """Yield the JSON text, piece by piece, for an answer, which comes in parts.

    Args:
        more: what follows the jobs.
    """
    lead = _HEAD
    for answer in answers:
        for jobs in texts(answer, cluster):
            yield lead
            yield jobs
            lead = _BETWEEN
    end = encoded(more, 0).removeprefix("{")
    yield (b'{\n  "jobs": []' if lead is _HEAD else b"\n  ]") + f",{end}\n".encode()


def jobs_of(answer: "dict[str, Any]", cluster: str) -> "list[dict[str, Any]]":
    """Return the jobs of one part of an answer."""
    import json

    jobs: list[dict[str, Any]] = json.loads(b"[" + b",".join(texts(answer, cluster)) + b"]")
    return jobs


_HEAD, _BETWEEN = b'{\n  "jobs": [\n    ', b",\n    "


def texts(answer: "dict[str, Any]", cluster: str) -> "Iterator[bytes]":
    """Yield the jobs of one part of an answer as JSON, some at a time with commas between."""
    from pyslurm_ng.kernels.records import project

    names, step_names = answer["fields"], answer["step_fields"]
    ids = tuple(answer["tres"].items())
    columns_of_jobs = (*names, _STEPS)
    columns_of_steps = (*step_names, *[_OF_JOB + name for name in names])
    of_jobs, of_steps = _templates(
        cluster, answer["now_us"], ids, columns_of_jobs, columns_of_steps
    )
    jobs = project(answer["records"], range(len(names)))
    steps: list[list[tuple[Any, ...]]] = [[] for _ in jobs]
    for step in project(answer["step_records"], range(len(step_names))):
        steps[step[0]].append((*step, *jobs[step[0]]))
    for first in range(0, len(jobs), _AT_ONCE):
        last = first + _AT_ONCE
        pairs = zip(jobs[first:last], steps[first:last], strict=True)
        yield of_jobs.joined((*job, of_steps.listed(own_steps)) for job, own_steps in pairs)


@lru_cache(1)
def _templates(
    cluster: str, now_us: int, ids: "tuple[tuple[str, int], ...]", names: "tuple[str, ...]",
    step_names: "tuple[str, ...]",
) -> "tuple[Template, Template]":  # fmt: skip
    """Return the templates of jobs and of steps; the parts of one answer have the same."""
    known = dict(ids)
    return (
        Template(_job(cluster, now_us, known), places(names), _JOB_DEPTH),
        Template(_step(now_us, known), places(step_names), _STEP_DEPTH),
    )


def number(amount: "int | None", is_infinite: bool = False) -> "dict[str, Any]":
    """Return Slurm's triple for a number that may be missing or infinite."""
    is_set = amount is not None and not is_infinite
    return json_text.number(amount or 0, is_set=is_set, is_infinite=is_infinite)


# Jobs -----------------------------------------------------------------------------------------


def _job(cluster: str, now_us: int, ids: "dict[str, int]") -> "Shape":
    """Return the shape of a job, in the order of Slurm's fields."""
    return {
        "account": text("account"),
        "comment": _COMMENTS,
        "allocation_nodes": count("nodes_allocated"),
        "array": _array(),
        "association": {
            "account": "",
            "cluster": cluster,
            "partition": "",
            "user": "",
            "id": count("association_id"),
        },
        "block": "",
        "cluster": cluster,
        "constraints": text("constraints"),
        "container": text("container"),
        "sluid": word(_sluid, "sluid"),
        "derived_exit_code": value(exit_code, "derived_exit_code"),
        "time": _times(now_us),
        "exclusive": text("exclusive"),
        "exit_code": value(exit_code, "exit_code"),
        "extra": text("extra"),
        "failed_node": text("failed_node"),
        "flags": value(_flags, "flags"),
        "group": text("group"),
        "het": {
            "job_id": count("het_job_id"),
            "job_offset": optional(_offset, "het_job_id", "het_job_offset"),
        },
        "job_id": count("job_id"),
        "name": text("name"),
        "licenses": text("licenses"),
        "mcs": {"label": text("mcs_label")},
        "nodes": word(lambda names: names or "None assigned", "node_list"),
        "oversubscribe": text("oversubscribe"),
        "partition": text("partition"),
        "hold": value(_is_held, "state", "reason"),
        "priority": optional(_same, "priority"),
        "qos": text("qos"),
        "qosreq": text("qos_requested"),
        "required": {
            "CPUs": count("cpus_requested"),
            "memory_per_cpu": optional(lambda mib, per_cpu: mib if per_cpu else None, *_MEMORY),
            "memory_per_node": optional(lambda mib, per_cpu: None if per_cpu else mib, *_MEMORY),
        },
        "kill_request_user": word(_killer, "kill_uid"),
        "restart_cnt": count("requeue_count"),
        "reservation": _RESERVATION,
        "script": "",
        "segment_size": count("segment_size"),
        "original_sluid": word(_sluid, "original_sluid"),
        **_paths(),
        "state": {"current": [text("state")], "reason": word(lambda why: why or "None", "reason")},
        _STEPS: count(_STEPS),
        "submit_line": text("submit_line"),
        "tres": {
            "allocated": _tres(ids, "tres_allocated"),
            "requested": _tres(ids, "tres_requested"),
        },
        "used_gres": text("gres_used"),
        "user": text("user"),
        "wckey": {"wckey": text("wckey"), "flags": []},
        "working_directory": text("work_dir"),
    }


_COMMENTS: "Shape" = {
    "administrator": text("admin_comment"),
    "job": text("comment"),
    "system": text("system_comment"),
}
_RESERVATION: "Shape" = {
    "id": count("reservation_id"),
    "name": text("reservation"),
    "requested": text("reservation_requested"),
}
_MEMORY = ("mem_mib", "mem_is_per_cpu")
_sluid = lru_cache(64)(sluid_text)


def _same(amount: int) -> "int | None":
    return amount


def _flags(words: str) -> "list[str]":
    return [_FLAGS.get(name, name.upper()) for name in words.split(",") if name]


def _offset(het_job_id: int, offset: int) -> "int | None":
    return offset if het_job_id else None


def _is_held(state: str, reason: str) -> bool:
    return state == "PENDING" and reason.startswith("JobHeld")


def _killer(uid: int) -> str:
    return user_name(uid) if uid >= 0 else ""


def _array() -> "Shape":
    return {
        "job_id": count("array_job_id"),
        "limits": {"max": {"running": {"tasks": count("array_max_tasks")}}},
        "task_id": optional(
            lambda array, task: task if array and task >= 0 else None,
            "array_job_id",
            "array_task_id",
        ),
        "task": word(_task_list, "array_tasks"),
    }


def _task_list(tasks: str) -> str:
    """Return the waiting tasks of an array as Slurm writes them, all of them."""
    if ":" not in tasks:
        return tasks
    from pyslurm_ng.base.task_lists import written

    numbers, percent, most = tasks.partition("%")
    return f"{written(numbers)}{percent}{most}"


def _times(now_us: int) -> "Shape":
    runs = ("start_us", "end_us", "suspended_us", "suspend_start_us")
    return {
        "elapsed": amount(
            lambda start, end, off, since: run_s(start, end, off, since, now_us), *runs
        ),
        "eligible": amount(seconds, "eligible_us"),
        "end": amount(seconds, "end_us"),
        "planned": optional(
            lambda eligible, start, end: planned_s(eligible, start, end, now_us),
            "eligible_us",
            "start_us",
            "end_us",
        ),
        "start": amount(seconds, "start_us"),
        "submission": amount(seconds, "submit_us"),
        "suspended": amount(seconds, "suspended_us"),
        "system": _cpu("total_system_cpu_us"),
        "limit": value(limit, "time_limit_min"),
        "total": _cpu("total_user_cpu_us", "total_system_cpu_us"),
        "user": _cpu("total_user_cpu_us"),
    }


def _cpu(*columns: str) -> "Shape":
    """Return the shape of CPU time, in two parts."""
    return {
        "seconds": amount(lambda *spans_us: sum(spans_us) // SECOND_US, *columns),
        "microseconds": amount(lambda *spans_us: sum(spans_us) % SECOND_US, *columns),
    }


@lru_cache(256)
def exit_code(status: int) -> "dict[str, Any]":
    """Return a wait status; -1 is "not known yet"."""
    import signal

    if status < 0:
        words, code, killer = ["PENDING"], None, None
    else:
        killer = status & 0x7F or None
        code = None if killer else status >> 8 & 0xFF
        words = ["SIGNALED"] if killer else ["ERROR"] if code else ["SUCCESS"]
    try:
        name = signal.Signals(killer).name.removeprefix("SIG") if killer else ""
    except ValueError:
        name = ""
    return {
        "status": words,
        "return_code": number(code),
        "signal": {"id": number(killer), "name": name},
    }


def limit(minutes: int) -> "dict[str, Any]":
    """Return a time limit in minutes."""
    return number(None if minutes == NO_VAL else minutes, minutes == INFINITE)


def seconds(us: int) -> int:
    """Return whole seconds of a moment."""
    return us // SECOND_US


def _paths() -> "Shape":
    """Return file patterns and the expanded names; relative names are below the work directory."""
    streams = {"stdin": "std_in", "stdout": "std_out", "stderr": "std_err"}
    paths = {
        f"{key}_expanded": word(_expanded_path, column, "work_dir", "start_us", *_NAMES)
        for key, column in streams.items()
    }
    plain = {key: word(_path, column, "work_dir", "start_us") for key, column in streams.items()}
    return {**paths, "stdout": plain["stdout"], "stderr": plain["stderr"], "stdin": plain["stdin"]}


def _path(name: str, work_dir: str, start_us: int) -> str:
    return f"{work_dir}/{name}" if name and name[0] != "/" and start_us else name


def _expanded_path(name: str, work_dir: str, start_us: int, *names: "Any") -> str:
    return expand_pattern(_path(name, work_dir, start_us), *names)


# Steps ----------------------------------------------------------------------------------------


def _state_of_step(state: str, state_of_job: str) -> str:
    return state_of_job if (state, state_of_job) == ("RUNNING", "SUSPENDED") else state


def _step(now_us: int, ids: "dict[str, int]") -> "Shape":
    """Return the shape of a step, in the order of Slurm's fields."""
    return {
        "time": {
            "elapsed": amount(
                lambda start, end, off, since: run_s(start, end, off, since, now_us),
                "start_us",
                "end_us",
                "suspended_us",
                _OF_JOB + "suspend_start_us",
            ),
            "end": optional(lambda us: seconds(us) or None, "end_us"),
            "start": optional(lambda us: seconds(us) or None, "start_us"),
            "suspended": amount(seconds, "suspended_us"),
            "system": _cpu("system_cpu_us"),
            "limit": value(limit, "time_limit_min"),
            "total": _cpu("user_cpu_us", "system_cpu_us"),
            "user": _cpu("user_cpu_us"),
        },
        "exit_code": value(exit_code, "exit_code"),
        "nodes": {
            "count": count("nodes"),
            "range": text("node_list"),
            "list": value(lambda names: expand(names) if names else [], "node_list"),
        },
        "tasks": {"count": count("tasks")},
        "CPU": value(_frequency, "step_id"),
        "kill_request_user": word(_killer, "kill_uid"),
        "state": [word(_state_of_step, "state", _OF_JOB + "state")],
        "statistics": {
            "CPU": {"actual_frequency": count("cpu_frequency_khz")},
            "energy": {
                "consumed": optional(lambda joules: joules if joules >= 0 else None, "energy_j")
            },
        },
        "step": {
            "id": word(_step_id, _OF_JOB + "job_id", "step_id"),
            "name": text("name"),
            "stderr": text("std_err"),
            "stdin": text("std_in"),
            "stdout": text("std_out"),
            "stderr_expanded": word(_expanded_of_step, "std_err", *_IN_STEP, "step_id"),
            "stdin_expanded": word(_expanded_of_step, "std_in", *_IN_STEP, "step_id"),
            "stdout_expanded": word(_expanded_of_step, "std_out", *_IN_STEP, "step_id"),
        },
        "submit_line": text("submit_line"),
        "task": {"distribution": word(layout_text, "distribution")},
        "tres": {
            "requested": _usage(ids, "in"),
            "consumed": _usage(ids, "out"),
            "allocated": _tres(ids, "tres_allocated"),
        },
    }


_IN_STEP = tuple(_OF_JOB + name for name in _NAMES)


def _step_id(job_id: int, step_id: int) -> str:
    return f"{job_id}.{step_name(step_id)}"


def _frequency(step_id: int) -> "dict[str, Any]":
    is_named = step_id < 0
    frequency = number(0 if is_named else None)
    return {
        "requested_frequency": {"min": frequency, "max": frequency},
        "governor": "0" if is_named else "Unknown",
    }


def _expanded_of_step(
    name: str, job_id: int, array_job_id: int, task: int, user: str, job_name: str, step_id: int
) -> str:
    # Accounting has the numbers of special steps signed.
    return expand_pattern(name, job_id, array_job_id, task, user, job_name, step_id % 2**32)


# Resources ------------------------------------------------------------------------------------

_RESOURCE: "Shape" = {
    "type": text("type"), "name": text("name"), "id": count("id"), "count": count("count"),
}  # fmt: skip
_EXTREME: "Shape" = {**_RESOURCE, "task": count("task"), "node": text("node")}


def _tres(ids: "dict[str, int]", column: str) -> Leaf:
    """Return the leaf for a TRES list."""

    def make(depth: int) -> "Callable[[str], bytes]":
        resources = Template(_RESOURCE, places(_RESOURCE), depth + 1)
        return lru_cache(1024)(lambda words: resources.listed(tres(words, ids)))

    return Leaf((column,), make)


def _usage(ids: "dict[str, int]", way: str) -> "Shape":
    """Return the shape of the usage lists of one direction."""
    column = f"tres_usage_{way}_"
    return {
        "max": _extremes(ids, f"{column}max"),
        "min": _extremes(ids, f"{column}min"),
        "average": _tres(ids, f"{column}ave"),
        "total": _tres(ids, f"{column}tot"),
    }


def _extremes(ids: "dict[str, int]", column: str) -> Leaf:
    """Return the leaf for a TRES list whose amounts were seen on a node, of a task."""

    def make(depth: int) -> "Callable[[str, str, str], bytes]":
        extremes = Template(_EXTREME, places(_EXTREME), depth + 1)

        def made(words: str, node_words: str, task_words: str) -> bytes:
            nodes, tasks = _values(node_words), _values(task_words)
            rows = []
            for kind, name, number_of, most in tres(words, ids):
                full = f"{kind}/{name}" if name else kind
                task = int(tasks.get(full) or 0)
                rows.append((kind, name, number_of, most, task, nodes.get(full, "")))
            return extremes.listed(rows)

        return lru_cache(1024)(made)

    return Leaf((column, f"{column}_node", f"{column}_task"), make)


def places(names: "Iterable[str]") -> "dict[str, int]":
    """Return the place of each column in a record."""
    return {name: position for position, name in enumerate(names)}


def tres(words: str, ids: "dict[str, int]") -> "list[tuple[str, str, int, int]]":
    """Return type, name, id and count of each resource of a list, ordered by id."""
    resources = []
    for pair in words.split(",") if words else ():
        full, _, amount_text = pair.rpartition("=")
        kind, _, name = full.partition("/")
        most = int(amount_text) if amount_text.isdecimal() else 0
        resources.append((kind, name, ids.get(full, 0), most))
    return sorted(resources, key=lambda resource: resource[2])


@lru_cache(1024)
def _values(words: str) -> "dict[str, str]":
    """Return a usage list as a table; of a name that comes twice the first value."""
    pairs = [pair.partition("=") for pair in words.split(",")]
    return {name: amount_text for name, _, amount_text in reversed(pairs)}
