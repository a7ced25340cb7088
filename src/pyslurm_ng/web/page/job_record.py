"""What the page of a job shows from accounting: its timeline, its steps and what it used."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.data_parser import efficiency
from pyslurm_ng.data_parser.accounting_values import step_name
from pyslurm_ng.data_parser.efficiency import Efficiency, memory_text, time_text
from pyslurm_ng.data_parser.records import Table
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.endpoints.accounting import selector
from pyslurm_ng.web.page.texts import duration, moment
from pyslurm_ng.web.refusal import Refusal
from pyslurm_ng.wire.daemon_link import SlurmError

ACCOUNTING_S = 10.0
MOST_STEPS = 100
WIDTH = 1000
ROW_HEIGHT = 20
_JOB = (
    *efficiency.JOB_COLUMNS, "submit_us", "eligible_us", "node_list", "account", "partition",
    "reason",
)  # fmt: skip
_STEP = (
    *efficiency.STEP_COLUMNS, "name", "state", "start_us", "end_us", "node_list", "exit_code",
)  # fmt: skip
Row = dict[str, Any]


def job_record(call: Call, text: str) -> Row:
    """Return what accounting has of the one job of this id; {} for nothing, or no answer now."""
    if not call.daemons.accounting_storage.endswith("slurmdbd"):
        return {}
    try:
        request = {
            "clusters": [call.daemons.cluster], "jobs": [selector(text)], "columns": list(_JOB),
            "step_columns": list(_STEP),
        }  # fmt: skip
        parts = list(call.database.stream("ListJobRecords", request, ACCOUNTING_S))
    except (SlurmError, Refusal):
        return {}
    for part in parts:
        jobs = Table(part["fields"], part["records"], list(_JOB)).dicts()
        for position, job in enumerate(jobs):
            if str(job["job_id"]) == text:
                steps = _steps(part, position)
                return _shown(job, steps, part["now_us"])
    return {}


def _steps(part: Row, position: int) -> list[Row]:
    """Return the steps of one job of a part, whose records begin with their job's position."""
    names = [part["step_fields"][0], *_STEP]
    table = Table(part["step_fields"], part["step_records"], names)
    rows = [dict(zip(names[1:], values[1:], strict=True)) for values in table.rows
            if values[0] == position]  # fmt: skip
    return sorted(rows, key=lambda row: (row["start_us"], row["step_id"]))


def _shown(job: Row, steps: list[Row], now_us: int) -> Row:
    used = Efficiency(job, steps, now_us)
    shown = steps[:MOST_STEPS]
    return {
        "job": {
            **job,
            "submitted": moment(job["submit_us"]),
            "started": moment(job["start_us"]),
            "ended": moment(job["end_us"]),
            "status": _status(job["exit_code"]) if job["end_us"] else "",
        },
        "steps": [_step(row, now_us) for row in shown],
        "step_count": len(steps),
        "used": _used(used) if job["start_us"] else [],
        "is_running": used.is_running,
        **_timeline(job, shown, now_us),
    }


def _step(row: Row, now_us: int) -> Row:
    end_us = row["end_us"] or now_us
    run_s = max(0, end_us - row["start_us"]) // SECOND_US if row["start_us"] else 0
    return {
        **row,
        "id": step_name(row["step_id"]),
        "started": moment(row["start_us"]),
        "run_time": duration(run_s),
        "status": _status(row["exit_code"]) if row["end_us"] else "",
        "cpu_time": time_text((row["user_cpu_us"] + row["system_cpu_us"]) // SECOND_US),
    }


def _status(status: int) -> str:
    """Return a wait status as sacct writes it; "" while it is not known."""
    return "" if status < 0 else f"{status >> 8 & 0xFF}:{status & 0x7F}"


def _used(used: Efficiency) -> list[Row]:
    """Return the parts of what a job had that it used, in percent."""
    rows: list[Row] = [
        {"name": "Processors", "percent": used.cpu_percent,
         "text": f"{time_text(used.cpu_s)} of {time_text(used.core_s)} of processor time"},
    ]  # fmt: skip
    if used.memory_limit_kib:
        text = f"{memory_text(used.memory_kib)} of {memory_text(used.memory_limit_kib)}"
        rows.append({"name": "Memory", "percent": used.memory_percent, "text": text})
    if used.gpu_percent is not None:
        rows.append({"name": "GPUs", "percent": used.gpu_percent, "text": "busy on average"})
    if used.time_percent:
        text = f"{time_text(used.wall_s)} of {duration(60 * used.job['time_limit_min'])}"
        rows.append({"name": "Time limit", "percent": used.time_percent, "text": text})
    return rows


# The timeline ---------------------------------------------------------------------------------


def _timeline(job: Row, steps: list[Row], now_us: int) -> Row:
    """Return bars of a job's wait, its run and its steps, from its submission to its end."""
    begin_us = job["submit_us"]
    end_us = max(job["end_us"] or now_us, begin_us + SECOND_US)

    def bar(kind: str, name: str, since_us: int, until_us: int) -> Row:
        left = (max(since_us, begin_us) - begin_us) * WIDTH // (end_us - begin_us)
        right = (min(until_us or end_us, end_us) - begin_us) * WIDTH // (end_us - begin_us)
        text = f"{name}: {moment(since_us)} to {moment(until_us) or 'now'}"
        return {"kind": kind, "name": name, "x": left, "width": max(2, right - left), "text": text}

    start_us = job["start_us"]
    rows = [bar("waits", "waited", begin_us, start_us or job["end_us"])]
    if start_us:
        rows.append(bar("runs", "ran", start_us, job["end_us"]))
        rows += [
            bar("runs", f"step {step_name(step['step_id'])}", step["start_us"], step["end_us"])
            for step in steps
            if step["start_us"]
        ]
    for index, row in enumerate(rows):
        row["y"] = index * ROW_HEIGHT
    ticks = [
        {"x": index * WIDTH // 4, "text": moment(begin_us + (end_us - begin_us) * index // 4)}
        for index in range(4)
    ]
    return {"bars": rows, "ticks": ticks, "width": WIDTH, "row_height": ROW_HEIGHT,
            "height": ROW_HEIGHT * len(rows)}  # fmt: skip
