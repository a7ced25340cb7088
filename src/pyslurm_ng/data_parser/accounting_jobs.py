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
from pyslurm_ng.data_parser.records import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable
    from typing import Any

    Tres = Callable[[str], list[dict[str, Any]]]

    Row = dict[str, Any]

JOB_COLUMNS = (
    "job_id", "array_job_id", "array_task_id", "array_tasks", "array_max_tasks", "het_job_id",
    "het_job_offset", "association_id", "account", "gid", "group", "user", "partition", "qos",
    "qos_requested", "wckey", "name", "priority", "state", "reason", "submit_us", "eligible_us",
    "start_us", "end_us", "suspended_us", "suspend_start_us", "time_limit_min", "exit_code",
    "derived_exit_code", "kill_uid", "cpus_requested", "cpus_allocated", "nodes_allocated",
    "node_list", "mem_mib", "mem_is_per_cpu", "tres_requested", "tres_allocated", "gres_used",
    "constraints", "container", "licenses", "reservation", "reservation_requested",
    "reservation_id", "work_dir", "std_in", "std_out", "std_err", "submit_line", "comment",
    "admin_comment", "system_comment", "extra", "flags", "failed_node", "mcs_label", "exclusive",
    "oversubscribe", "segment_size", "requeue_count", "sluid", "original_sluid",
    "total_user_cpu_us", "total_system_cpu_us",
)  # fmt: skip
STEP_COLUMNS = (
    "step_id", "name", "state", "start_us", "end_us", "suspended_us", "exit_code", "kill_uid",
    "node_list", "nodes", "tasks", "cpus", "distribution", "time_limit_min", "user_cpu_us",
    "system_cpu_us", "cpu_frequency_khz", "energy_j", "submit_line", "std_in", "std_out",
    "std_err", "tres_allocated", "tres_usage_in_max", "tres_usage_in_max_node",
    "tres_usage_in_max_task", "tres_usage_in_min", "tres_usage_in_min_node",
    "tres_usage_in_min_task", "tres_usage_in_ave", "tres_usage_in_tot", "tres_usage_out_max",
    "tres_usage_out_max_node", "tres_usage_out_max_task", "tres_usage_out_min",
    "tres_usage_out_min_node", "tres_usage_out_min_task", "tres_usage_out_ave",
    "tres_usage_out_tot",
)  # fmt: skip
_FLAGS = {
    "SchedSubmit": "STARTED_ON_SUBMIT",
    "SchedMain": "STARTED_ON_SCHEDULE",
    "SchedBackfill": "STARTED_ON_BACKFILL",
    "StartReceived": "START_RECEIVED",
}


def columns() -> "tuple[list[str], list[str]]":
    """Return the stored columns of jobs and of steps that the document needs."""
    return list(JOB_COLUMNS), list(STEP_COLUMNS)


def document(
    answers: "Iterable[dict[str, Any]]", cluster: str, more: "dict[str, Any]"
) -> "list[bytes | memoryview]":
    """Return the whole JSON text, in pieces, for an answer, which comes in parts.

    Args:
        more: what follows the jobs.
    """
    import gc

    pieces: list[bytes | memoryview] = []
    gc.disable()  # Millions of objects come and go, and none refers back to another.
    try:
        for answer in answers:
            jobs = jobs_of(answer, cluster)
            if jobs:
                pieces += [b",\n", memoryview(_indented({"jobs": jobs}))[len(_HEAD) : -len(_END)]]
    finally:
        gc.enable()
    end = _indented({"jobs": [], **more}) + b"\n"
    if not pieces:
        return [end]
    return [_HEAD, *pieces[1:], b"\n  ]", end.removeprefix(_NO_JOBS)]


class Context:
    """What a job's record needs beside itself."""

    def __init__(self, now_us: int, cluster: str) -> None:
        self.now_us = now_us
        self.cluster = cluster


def _elapsed_s(row: "Row", context: Context) -> int:
    return run_s(row, row["start_us"], row["end_us"], context.now_us)


def jobs_of(answer: "dict[str, Any]", cluster: str) -> "list[dict[str, Any]]":
    """Return the jobs of one part of an answer."""
    from pyslurm_ng.kernels.records import project

    context = Context(answer["now_us"], cluster)
    listed = _tres_lists(answer["tres"])
    names, step_names = answer["fields"], answer["step_fields"]
    steps: dict[int, list[Row]] = {}
    for values in project(answer["step_records"], range(len(step_names))):
        row = dict(zip(step_names, values, strict=True))
        steps.setdefault(values[0], []).append(row)
    return [
        _job(dict(zip(names, values, strict=True)), steps.get(index, []), context, listed)
        for index, values in enumerate(project(answer["records"], range(len(names))))
    ]


_HEAD, _END, _NO_JOBS = b'{\n  "jobs": [\n', b"\n  ]\n}", b'{\n  "jobs": []'


def _indented(value: "dict[str, Any]") -> bytes:
    """Return JSON as json.dumps writes it with an indent of 2, which takes many times as long."""
    # They are slow to import, and only this form needs them.
    import re

    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    except UnicodeEncodeError:  # half of a pair, which no database should have
        import json

        return json.dumps(value, indent=2).encode()
    if text.isascii() and b"\x7f" not in text:
        return text
    return re.sub("[^\0-~]", _escaped, text.decode()).encode()


def _escaped(char: "re.Match[str]") -> str:
    """Return a character in ASCII, for terminals that take some for the begin of a command."""
    import json

    return json.dumps(char.group())[1:-1]


def _tres_lists(ids: "dict[str, int]") -> "Tres":
    """Return `tres` for some ids; it remembers texts, which repeat. Nobody changes its lists."""
    return lru_cache(4096)(lambda text: tres(text, ids))


def number(value: "int | None", is_infinite: bool = False) -> "dict[str, Any]":
    """Return Slurm's triple for a number that may be missing or infinite."""
    is_set = value is not None and not is_infinite
    return json_text.number(value or 0, is_set=is_set, is_infinite=is_infinite)


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


@lru_cache(256)
def limit(minutes: int) -> "dict[str, Any]":
    """Return a time limit in minutes; nobody changes it, as nobody changes exit codes."""
    return number(None if minutes == NO_VAL else minutes, minutes == INFINITE)


def seconds(us: int) -> int:
    """Return whole seconds of a moment."""
    return us // SECOND_US


def cpu(us: int) -> "dict[str, int]":
    """Return CPU time in two parts."""
    return {"seconds": us // SECOND_US, "microseconds": us % SECOND_US}


def tres(text: str, ids: "dict[str, int]") -> "list[dict[str, Any]]":
    """Return a TRES list, ordered by id."""
    resources = []
    for word in text.split(",") if text else ():
        full, _, amount = word.rpartition("=")
        kind, _, name = full.partition("/")
        count = int(amount) if amount.isdigit() else 0
        resources.append({"type": kind, "name": name, "id": ids.get(full, 0), "count": count})
    return sorted(resources, key=lambda resource: resource["id"])


def _job(job: "Row", steps: "list[Row]", context: Context, listed: "Tres") -> "dict[str, Any]":
    """Return a job in the order of Slurm's fields."""
    killer = user_name(job["kill_uid"]) if job["kill_uid"] >= 0 else ""
    return {
        "account": job["account"],
        "comment": _comments(job),
        "allocation_nodes": job["nodes_allocated"],
        "array": _array(job),
        "association": {
            "account": "",
            "cluster": context.cluster,
            "partition": "",
            "user": "",
            "id": job["association_id"],
        },
        "block": "",
        "cluster": context.cluster,
        "constraints": job["constraints"],
        "container": job["container"],
        "sluid": sluid_text(job["sluid"]),
        "derived_exit_code": exit_code(job["derived_exit_code"]),
        "time": _times(job, context),
        "exclusive": job["exclusive"],
        "exit_code": exit_code(job["exit_code"]),
        "extra": job["extra"],
        "failed_node": job["failed_node"],
        "flags": [_FLAGS.get(word, word.upper()) for word in job["flags"].split(",") if word],
        "group": job["group"],
        "het": _het(job),
        "job_id": job["job_id"],
        "name": job["name"],
        "licenses": job["licenses"],
        "mcs": {"label": job["mcs_label"]},
        "nodes": job["node_list"] or "None assigned",
        "oversubscribe": job["oversubscribe"],
        "partition": job["partition"],
        "hold": job["state"] == "PENDING" and job["reason"].startswith("JobHeld"),
        "priority": number(job["priority"]),
        "qos": job["qos"],
        "qosreq": job["qos_requested"],
        "required": _required(job),
        "kill_request_user": killer,
        "restart_cnt": job["requeue_count"],
        "reservation": {
            "id": job["reservation_id"],
            "name": job["reservation"],
            "requested": job["reservation_requested"],
        },
        "script": "",
        "segment_size": job["segment_size"],
        "original_sluid": sluid_text(job["original_sluid"]),
        **_paths(job, "std_in", "std_out", "std_err"),
        "state": {"current": [job["state"]], "reason": job["reason"] or "None"},
        "steps": [_step(step, job, context, listed) for step in steps],
        "submit_line": job["submit_line"],
        "tres": {
            "allocated": listed(job["tres_allocated"]),
            "requested": listed(job["tres_requested"]),
        },
        "used_gres": job["gres_used"],
        "user": job["user"],
        "wckey": {"wckey": job["wckey"], "flags": []},
        "working_directory": job["work_dir"],
    }


def _comments(job: "Row") -> "dict[str, Any]":
    return {
        "administrator": job["admin_comment"],
        "job": job["comment"],
        "system": job["system_comment"],
    }


def _task_list(text: str) -> str:
    """Return the waiting tasks of an array as Slurm writes them, all of them."""
    if ":" not in text:
        return text
    from pyslurm_ng.base.task_lists import written

    tasks, percent, limit = text.partition("%")
    return f"{written(tasks)}{percent}{limit}"


def _array(job: "Row") -> "dict[str, Any]":
    task = job["array_task_id"]
    return {
        "job_id": job["array_job_id"],
        "limits": {"max": {"running": {"tasks": job["array_max_tasks"]}}},
        "task_id": number(task if job["array_job_id"] and task >= 0 else None),
        "task": _task_list(job["array_tasks"]),
    }


def _het(job: "Row") -> "dict[str, Any]":
    offset = job["het_job_offset"] if job["het_job_id"] else None
    return {"job_id": job["het_job_id"], "job_offset": number(offset)}


def _required(job: "Row") -> "dict[str, Any]":
    per_cpu = bool(job["mem_is_per_cpu"])
    return {
        "CPUs": job["cpus_requested"],
        "memory_per_cpu": number(job["mem_mib"] if per_cpu else None),
        "memory_per_node": number(None if per_cpu else job["mem_mib"]),
    }


def _times(job: "Row", context: Context) -> "dict[str, Any]":
    user_us, system_us = job["total_user_cpu_us"], job["total_system_cpu_us"]
    return {
        "elapsed": _elapsed_s(job, context),
        "eligible": seconds(job["eligible_us"]),
        "end": seconds(job["end_us"]),
        "planned": number(max(0, planned_s(job, context.now_us))),
        "start": seconds(job["start_us"]),
        "submission": seconds(job["submit_us"]),
        "suspended": seconds(job["suspended_us"]),
        "system": cpu(system_us),
        "limit": limit(job["time_limit_min"]),
        "total": cpu(user_us + system_us),
        "user": cpu(user_us),
    }


def _paths(job: "Row", *names: str) -> "dict[str, str]":
    """Return file patterns and the expanded names; relative names are below the work directory."""
    paths = {}
    plain = {}
    for name in names:
        key = name.replace("_", "")
        text = job[name]
        if text and text[0] != "/" and job["start_us"]:
            text = f"{job['work_dir']}/{text}"
        paths[f"{key}_expanded"] = expand_pattern(text, job)
        plain[key] = text
    return {**paths, "stdout": plain["stdout"], "stderr": plain["stderr"], "stdin": plain["stdin"]}


_nodes = lru_cache(1024)(expand)


def _step(step: "Row", job: "Row", context: Context, listed: "Tres") -> "dict[str, Any]":
    is_named = step["step_id"] < 0
    frequency = number(0 if is_named else None)
    nodes = _nodes(step["node_list"]) if step["node_list"] else []
    step_id = step["step_id"] % 2**32  # accounting has the numbers of special steps signed
    return {
        "time": {
            "elapsed": _elapsed_s(step, context),
            "end": number(seconds(step["end_us"]) or None),
            "start": number(seconds(step["start_us"]) or None),
            "suspended": seconds(step["suspended_us"]),
            "system": cpu(step["system_cpu_us"]),
            "limit": limit(step["time_limit_min"]),
            "total": cpu(step["user_cpu_us"] + step["system_cpu_us"]),
            "user": cpu(step["user_cpu_us"]),
        },
        "exit_code": exit_code(step["exit_code"]),
        "nodes": {"count": step["nodes"], "range": step["node_list"], "list": nodes},
        "tasks": {"count": step["tasks"]},
        "CPU": {
            "requested_frequency": {"min": frequency, "max": frequency},
            "governor": "0" if is_named else "Unknown",
        },
        "kill_request_user": user_name(step["kill_uid"]) if step["kill_uid"] >= 0 else "",
        "state": [step["state"]],
        "statistics": {
            "CPU": {"actual_frequency": step["cpu_frequency_khz"]},
            "energy": {"consumed": number(step["energy_j"] if step["energy_j"] >= 0 else None)},
        },
        "step": {
            "id": f"{job['job_id']}.{step_name(step['step_id'])}",
            "name": step["name"],
            "stderr": step["std_err"],
            "stdin": step["std_in"],
            "stdout": step["std_out"],
            "stderr_expanded": expand_pattern(step["std_err"], job, step_id),
            "stdin_expanded": expand_pattern(step["std_in"], job, step_id),
            "stdout_expanded": expand_pattern(step["std_out"], job, step_id),
        },
        "submit_line": step["submit_line"],
        "task": {"distribution": layout_text(step["distribution"])},
        "tres": {
            "requested": _usage(step, "in", listed),
            "consumed": _usage(step, "out", listed),
            "allocated": listed(step["tres_allocated"]),
        },
    }


def _usage(step: "Row", way: str, listed: "Tres") -> "dict[str, Any]":
    """Return the usage lists of one direction; extremes carry their node and task."""
    usage: dict[str, Any] = {}
    for key in ("max", "min"):
        column = f"tres_usage_{way}_{key}"
        tasks, nodes = _values(step[f"{column}_task"]), _values(step[f"{column}_node"])
        usage[key] = rows = []
        for row in listed(step[column]):
            name = f"{row['type']}/{row['name']}" if row["name"] else row["type"]
            task = int(tasks.get(name) or 0)
            rows.append({**row, "task": task, "node": nodes.get(name, "")})
    usage["average"] = listed(step[f"tres_usage_{way}_ave"])
    usage["total"] = listed(step[f"tres_usage_{way}_tot"])
    return usage


@lru_cache(1024)
def _values(text: str) -> "dict[str, str]":
    """Return a usage list as a table; of a name that comes twice the first value."""
    pairs = [word.partition("=") for word in text.split(",")]
    return {name: value for name, _, value in reversed(pairs)}
