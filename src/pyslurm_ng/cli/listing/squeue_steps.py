"""squeue --steps."""

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US, SHOW_ALL
from pyslurm_ng.base.state_names import job_state
from pyslurm_ng.cli.command import Table, fail, say, split_list, write_bytes
from pyslurm_ng.cli.listing.job_columns import Context, Field, _date, _or_na, _plain, _time_limit
from pyslurm_ng.cli.listing.job_order import node_order
from pyslurm_ng.cli.listing.list_format import (
    STEP_ID,
    lines_of,
    parse_long,
    parse_short,
    short_time,
    step_id_text,
)
from pyslurm_ng.cli.listing.squeue_options import headings, shows_closed
from pyslurm_ng.cli.request_parts import show_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.cli.listing.job_columns import Cells
    from pyslurm_ng.cli.listing.job_order import Row
    from pyslurm_ng.wire.client import Client

DEFAULT_FORMAT = "%.15i %.8j %.9P %.8u %.9M %N"


def _step_ids(context: Context, *columns: "Cells") -> "Cells":
    return [step_id_text(*row) for row in zip(*columns, strict=False)]


def _elapsed(context: Context, starts: "Cells", pauses: "Cells") -> "Cells":
    now_s = context.now_us // SECOND_US
    return [
        short_time(max(0, now_s - start // SECOND_US - pause // SECOND_US))
        for start, pause in zip(starts, pauses, strict=False)
    ]


def _state(context: Context, states: "Cells") -> "Cells":
    return [job_state(state, 0) for state in states]


def _array_job(context: Context, array_ids: "Cells", job_ids: "Cells") -> "Cells":
    return [array_id or job_id for array_id, job_id in zip(array_ids, job_ids, strict=False)]


def _array_task(context: Context, ids: "Cells") -> "Cells":
    return [task_id if task_id < NO_VAL else "N/A" for task_id in ids]


def _or_unknown(context: Context, cells: "Cells") -> "Cells":
    return [cell or "N/A" for cell in cells]


def _unknown(context: Context, ids: "Cells") -> "Cells":
    return ["N/A"] * len(ids)


def _cluster(context: Context, ids: "Cells") -> "Cells":
    return [context.cluster_name] * len(ids)


_ID = ("job_id",)
FIELDS: "dict[str, Field]" = {
    "arrayjobid": ("", "ARRAY_JOB_ID", ("array_job_id", "job_id"), _array_job),
    "arraytaskid": ("", "ARRAY_TASK_ID", ("array_task_id",), _array_task),
    "cluster": ("", "CLUSTER", _ID, _cluster),
    "container": ("", "CONTAINER", ("container",), _plain),
    "containerid": ("", "CONTAINERID", ("container_id",), _or_unknown),
    "cpufreq": ("", "CPU_FREQ", _ID, _unknown),
    "cpus-per-tres": ("", "CPUS_PER_TRES", _ID, _unknown),
    "gres": ("", "TRES_PER_JOB", _ID, _unknown),
    "jobid": ("", "JOB_ID", _ID, _plain),
    "mem-per-tres": ("", "MEM_PER_TRES", _ID, _unknown),
    "network": ("", "NETWORK", ("network",), _plain),
    "nodes": ("N", "NODELIST", ("nodes",), _plain),
    "numcpus": ("", "NUM_CPUS", ("cpus",), _plain),
    "numtasks": ("A", "TASKS", ("tasks",), _plain),
    "partition": ("P", "PARTITION", ("partition",), _plain),
    "resvports": ("", "RESERVED_PORTS", _ID, _unknown),
    "runtime": ("", "RUNTIME", _ID, _unknown),
    "starttime": ("S", "START_TIME", ("start_us",), _date),
    "stderr": ("", "STDERR", ("std_err",), _plain),
    "stdin": ("", "STDIN", ("std_in",), _plain),
    "stdout": ("", "STDOUT", ("std_out",), _plain),
    "stepid": ("i", "STEPID", STEP_ID, _step_ids),
    "stepname": ("j", "NAME", ("name",), _plain),
    "stepstate": ("", "STATE", ("state",), _state),
    "timelimit": ("l", "TIME_LIMIT", ("time_limit_min",), _time_limit),
    "timeused": ("M", "TIME", ("start_us", "suspended_us"), _elapsed),
    "tres-bind": ("", "TRES_BIND", _ID, _unknown),
    "tres-freq": ("", "TRES_FREQ", _ID, _unknown),
    "tres-per-job": ("", "TRES_PER_STEP", _ID, _unknown),
    "tres-per-node": ("b", "TRES_PER_JOB", ("tres_per_node",), _or_na),
    "tres-per-socket": ("", "TRES_PER_SOCKET", _ID, _unknown),
    "tres-per-step": ("", "TRES_PER_STEP", _ID, _unknown),
    "tres-per-task": ("", "TRES_PER_TASK", _ID, _unknown),
    "userid": ("U", "UID", ("user_id",), _plain),
    "username": ("u", "USER", ("user_name",), _plain),
}
BY_LETTER = {field[0]: name for name, field in FIELDS.items() if field[0]}
ALL_LETTERS = "".join(sorted(BY_LETTER, key=lambda letter: (letter.isupper(), letter.lower())))


def show_steps(
    options: "dict[str, str]", client: "Client", job_filter: "dict[str, Any]", argv: "list[str]"
) -> int:
    """Ask for steps and print them."""
    if "Format" in options:
        chosen = parse_long(options["Format"], FIELDS)
    else:
        chosen = parse_short(options.get("format", DEFAULT_FORMAT), BY_LETTER, ALL_LETTERS)
        for column in chosen.columns:
            column.key = BY_LETTER[column.key]
    for word in chosen.bad:
        say(f"squeue: error: Invalid job step format specification: {word}")
    request: dict[str, Any] = {"filter": job_filter, "steps": _step_texts(options["steps"])}
    if shows_closed(options):
        request["flags"] = SHOW_ALL
    reply = show_all(client, "ShowSteps", request, "steps")
    table = Table(reply["fields"], reply["records"], list(reply["fields"]))
    _sort(table, options.get("sort") or "P,i", reply["now_us"])
    if "json" in options:
        from pyslurm_ng.cli.listing.step_json import print_steps

        return print_steps(["squeue", *argv], reply, table.dicts())
    context = Context(reply["now_us"], reply["cluster_name"])
    write_bytes(headings(options, context, len(table.rows)))
    write_bytes(lines_of(chosen, table, context, FIELDS, "noheader" not in options))
    return 0


def _step_texts(text: str) -> "list[str]":
    texts = split_job_ids(text)
    for step in texts:
        try:
            parse_job_id(step)
        except JobIdError:
            dot = "" if "." in step else ".??"
            fail(f"squeue: error: Invalid job_step id: {step}{dot}")
    return texts


def _sort(table: Table, text: str, now_us: int) -> None:
    """Sort the rows, by the least important key first; letters that name no column are ignored."""
    for word in reversed(split_list(text)):
        name = BY_LETTER.get(word.lstrip("+-"))
        if name is None:
            continue
        fields = ("job_id", "step_id") if name == "stepid" else FIELDS[name][2]
        columns = [table.at[field] for field in fields]
        order = _ORDERS.get(name, _as_it_is)
        table.rows.sort(
            key=lambda row: order([row[at] for at in columns], now_us),
            reverse=word.startswith("-"),
        )


def _as_it_is(row: "Row", now_us: int) -> object:
    return row


def _seconds_run(row: "Row", now_us: int) -> object:
    start_us, suspended_us = row
    return now_us // SECOND_US - start_us // SECOND_US - suspended_us // SECOND_US


_ORDERS: "dict[str, Callable[[Row, int], Any]]" = {
    "timeused": _seconds_run,
    "starttime": lambda row, now_us: row[0] // SECOND_US,
    "nodelist": lambda row, now_us: node_order(row[0]),
}
