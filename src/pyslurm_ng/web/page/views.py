"""What the pages show, from the answers of the daemons."""

from __future__ import annotations

import pwd
import re
from dataclasses import dataclass
from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US, SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES, node_state_full
from pyslurm_ng.data_parser.records import Table, rows_of
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.page.job_record import job_record
from pyslurm_ng.web.page.texts import duration, limit, moment
from pyslurm_ng.wire.daemon_link import SlurmError

ROWS_OF_A_PAGE = 100
PLAN_ROWS = 60
PLAN_WIDTH = 1000
ROW_HEIGHT = 18
_EXPLAIN_S = 30.0
OUTPUT_S = 15.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
"""Colours, movements of the cursor and titles of a terminal."""
JOB_COLUMNS = [
    "job_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_offset", "name",
    "user_name", "account", "partition", "qos", "state", "flags", "priority", "submit_us",
    "start_us", "end_us", "time_limit_min", "node_count", "cpus", "nodes", "reason", "reason_text",
    "expected_start_us", "sched_nodes",
]  # fmt: skip
Row = dict[str, Any]


# Jobs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """Which jobs a queue shows; "" is every one."""

    user: str = ""
    partition: str = ""
    state: str = ""
    text: str = ""
    page: int = 1

    def filter(self) -> Row:
        """Return the controller's part of the choice."""
        fields: Row = {"all_states": True}
        uid = _uid_of(self.user) if self.user else -1
        if uid >= 0:
            fields["uids"] = [uid]
        if self.partition:
            fields["partitions"] = [self.partition]
        names = [name for name, _ in JOB_STATES]
        if self.state in names:
            fields |= {"states": [names.index(self.state)], "all_states": False}
        return fields


def _uid_of(user: str) -> int:
    """Return the uid of a user of this host, -1 for others: they are looked for by name."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return -1


def queue(call: Call, chosen: Chosen) -> Row:
    """Return one page of the queue: running jobs first, then waiting ones by priority."""
    request = {"filter": chosen.filter(), "flags": SHOW_ALL}
    reply = call.controller.call("ShowJobs", request)
    table = Table(reply["fields"], reply["records"], JOB_COLUMNS)
    rows = table.rows
    at = table.at
    if chosen.user:
        rows = [row for row in rows if row[at["user_name"]] == chosen.user]
    if chosen.text:
        word = chosen.text.lower()
        columns = [at[name] for name in ("name", "user_name", "account", "nodes", "job_id")]
        rows = [row for row in rows if any(word in str(row[at]).lower() for at in columns)]
    state, priority, job_id = at["state"], at["priority"], at["job_id"]
    order = {1: 0, 2: 1, 0: 2}  # running, suspended, pending, then the others
    rows.sort(key=lambda row: (order.get(row[state], 3), -row[priority], row[job_id]))
    pages = max(1, -(-len(rows) // ROWS_OF_A_PAGE))
    page = min(max(1, chosen.page), pages)
    shown = rows[(page - 1) * ROWS_OF_A_PAGE : page * ROWS_OF_A_PAGE]
    now_us = reply["now_us"]
    return {
        "jobs": [job_row(dict(zip(table.names, row, strict=True)), now_us) for row in shown],
        "count": len(rows),
        "page": page,
        "pages": pages,
        "chosen": chosen,
        "states": [name for name, _ in JOB_STATES],
    }


def job_row(row: Row, now_us: int) -> Row:
    """Return a job as the pages show it."""
    word = JOB_STATES[row["state"]][0]
    word = next((name for bit, name, _ in JOB_FLAGS if row["flags"] & bit), word)
    is_pending, is_over = row["state"] == 0, row["state"] >= 3
    begin_us = 0 if is_pending else row["start_us"]  # 0: it never ran
    end_us = row["end_us"] if is_over else now_us
    why = row["reason"] if row["reason"] != "None" else ""
    return {
        **row,
        "id": shown_id(row),
        "word": word,
        "is_pending": is_pending,
        "is_over": is_over,
        "is_held": is_pending and row["priority"] == 0,
        "submitted": moment(row["submit_us"]),
        "started": moment(begin_us),
        "ended": moment(row["end_us"] if is_over else 0),
        "expected": moment(row["expected_start_us"] if is_pending else 0),
        "run_time": duration(max(0, end_us - begin_us) // SECOND_US if begin_us else 0),
        "limit": limit(row["time_limit_min"]),
        "where": row["nodes"] or (f"({why})" if why else ""),
    }


def shown_id(row: Row) -> str:
    """Return the id that users know a job by."""
    if row["array_tasks"]:
        return f"{row['array_job_id']}_[{row['array_tasks']}]"
    if row["het_job_id"]:
        return f"{row['het_job_id']}+{row['het_offset']}"
    if row["array_job_id"] and row["array_task_id"] < NO_VAL:
        return f"{row['array_job_id']}_{row['array_task_id']}"
    return str(row["job_id"])


def job(call: Call, text: str) -> Row:
    """Return one job with its explanation and its record; several rows if the id is an array's.

    Raises:
        SlurmError: neither the controller nor accounting knows it.
    """
    try:
        rows = _known(call, text)
    except SlurmError as error:
        record = job_record(call, text)
        if not record or error.code != Errno.ESLURM_INVALID_JOB_ID:
            raise
        return {"rows": [], "count": 0, "explained": {}, "history": [], "record": record}
    explained = _explanation(call, text) if rows else {}
    history = [
        {"when": moment(line["time_us"]), "text": line["text"]}
        for line in explained.get("history", ())
    ]
    return {
        "rows": rows[:ROWS_OF_A_PAGE],
        "count": len(rows),
        "explained": explained,
        "history": history,
        "record": job_record(call, str(rows[0]["job_id"])) if len(rows) == 1 else {},
    }


def _known(call: Call, text: str) -> list[Row]:
    """Return the controller's records of a job."""
    request = {"filter": {"all_states": True, "jobs": [text]}, "flags": SHOW_ALL | SHOW_DETAIL,
               "strict": True}  # fmt: skip
    reply = call.controller.call("ShowJobs", request)
    return [job_row(row, reply["now_us"]) for row in rows_of(reply)]


def _explanation(call: Call, text: str) -> Row:
    """Return why a job waits; nothing if the controller cannot say now."""
    try:
        return call.controller.call("ExplainJob", {"job": text}, _EXPLAIN_S)
    except SlurmError:
        return {}


def script(call: Call, text: str) -> str:
    """Return a job's script, for its owner."""
    reply = call.controller.call("GetBatchScript", {"job": text})
    content: bytes = reply["script"]
    return content.decode("utf-8", "replace")


def output(call: Call, text: str, stream: str) -> Row:
    """Return the end of what a job has written to its output or errors, for its owner."""
    reply = call.controller.call("ReadOutput", {"job": text, "stream": stream}, OUTPUT_S)
    data: bytes = reply["data"]
    if reply["offset"]:
        data = data[data.find(b"\n") + 1 :]  # the first line is not whole
    return {
        "id": text,
        "stream": stream,
        "path": reply["path"],
        "node": reply["node"],
        "size": reply["size"],
        "is_cut": bool(reply["offset"]),
        "is_over": reply["is_over"],
        "content": plain_lines(data.decode("utf-8", "replace")),
    }


# Nodes ----------------------------------------------------------------------------------------

_GROUPS = (
    ("DOWN", "down"), ("DRAIN", "drain"), ("NOT_RESPONDING", "down"), ("FAIL", "down"),
    ("ALLOCATED", "alloc"), ("MIXED", "mixed"), ("IDLE", "idle"),
)  # fmt: skip


def nodes(call: Call) -> Row:
    """Return all nodes, and what the cluster has and uses."""
    reply = call.controller.call("ShowNodes", {"flags": SHOW_ALL})
    rows = []
    for row in rows_of(reply):
        word = node_state_full(row["state"], row["flags"])
        group = next((kind for part, kind in _GROUPS if part in word), "other")
        gpus, used = gpu_count(row["gres"]), gpu_count(row["gres_used"])
        rows.append({**row, "word": word, "group": group, "gpus": gpus, "gpus_used": used,
                     "since": moment(row["reason_us"])})  # fmt: skip
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["group"]] = counts.get(row["group"], 0) + 1
    totals = {
        "cpus": sum(row["cpus_effective"] for row in rows),
        "cpus_used": sum(row["cpus_alloc"] for row in rows),
        "memory_gib": sum(row["memory_mib"] for row in rows) >> 10,
        "memory_used_gib": sum(row["memory_alloc_mib"] for row in rows) >> 10,
        "gpus": sum(row["gpus"] for row in rows),
        "gpus_used": sum(row["gpus_used"] for row in rows),
    }
    return {"nodes": rows, "counts": counts, "totals": totals}


def plain_lines(text: str) -> str:
    """Return what a terminal would show: without colours, of a progress bar its last state."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    lines = (line.rpartition("\r")[2] or line.rstrip("\r") for line in text.split("\n"))
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\ufffd" for char in "\n".join(lines)
    )


def gpu_count(text: str) -> int:
    """Return the GPUs in `gpu:a100:2(IDX:0-1),gpu:(null):1(IDX:2),shard:8`."""
    count = 0
    for word in text.replace("(null)", "").replace("),", ") ").replace(",gpu", " gpu").split():
        parts = word.partition("(")[0].split(":")
        if parts[0] == "gpu" and parts[-1].isdecimal():
            count += int(parts[-1])
    return count


# The plan -------------------------------------------------------------------------------------


def plan(call: Call) -> Row:
    """Return the planned schedule: bars of running and of waiting jobs, by node."""
    from pyslurm_ng.base.hostlist import expand

    reply = call.controller.call("ShowJobs", {"filter": {"states": [0, 1]}, "flags": SHOW_ALL})
    table = Table(reply["fields"], reply["records"], JOB_COLUMNS)
    now_us = reply["now_us"]
    planned = []
    for values in table.rows:
        row = dict(zip(table.names, values, strict=True))
        begin_us = row["start_us"] if row["state"] else row["expected_start_us"]
        hosts = row["nodes"] if row["state"] else row["sched_nodes"]
        if begin_us and hosts:
            minutes = row["time_limit_min"]
            end_us = begin_us + (minutes if minutes < NO_VAL - 1 else 1440) * 60 * SECOND_US
            planned.append((begin_us, end_us, hosts, job_row(row, now_us)))
    planned.sort(key=lambda entry: entry[0])
    names: dict[str, int] = {}
    for _, _, hosts, _ in planned:
        for name in expand(hosts):
            if len(names) < PLAN_ROWS:
                names.setdefault(name, len(names))
    last_us = max((end_us for _, end_us, _, _ in planned), default=now_us)
    span_us = min(max(last_us - now_us, 3600 * SECOND_US), 7 * 86400 * SECOND_US)
    bars = []
    for begin_us, end_us, hosts, row in planned:
        left = max(0, (begin_us - now_us) * PLAN_WIDTH // span_us)
        right = min(PLAN_WIDTH, (end_us - now_us) * PLAN_WIDTH // span_us)
        for name in expand(hosts):
            if name in names and right > left:
                bars.append({"x": left, "width": max(2, right - left),
                             "y": names[name] * ROW_HEIGHT, "job": row})  # fmt: skip
    ticks = [
        {"x": index * PLAN_WIDTH // 6, "text": moment(now_us + span_us * index // 6)}
        for index in range(6)
    ]
    return {"bars": bars, "names": list(names), "ticks": ticks, "row_height": ROW_HEIGHT,
            "width": PLAN_WIDTH, "height": max(1, len(names)) * ROW_HEIGHT,
            "jobs": [row for *_, row in planned if row["is_pending"]][:ROWS_OF_A_PAGE]}  # fmt: skip
