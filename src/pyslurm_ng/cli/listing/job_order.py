"""The order in which squeue lists jobs and steps."""

from pyslurm_ng.base.numbers import (
    INFINITE,
    JOB_FLAG_REQUEUE_HOLD,
    NO_VAL,
    REQ_CONTIGUOUS,
    SECOND_US,
)
from pyslurm_ng.cli.listing.job_columns import ELAPSED, FIELDS, START, elapsed_s
from pyslurm_ng.data_parser.job_values import end_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from pyslurm_ng.cli.command import Table

    Row: TypeAlias = Sequence[Any]

UNSORTABLE = frozenset("akoqrswxyAEFKRWXYZ")
"""Letters of -o that Slurm refuses after -S."""
_LAST = NO_VAL << 32
"""A number behind all moments and limits."""


def _time_used(row: "Row", now_us: int) -> int:
    return elapsed_s(now_us, *row)


def _time_left(row: "Row", now_us: int) -> int:
    limit = row[0]
    return _LAST if limit in (INFINITE, NO_VAL) else limit * 60 - elapsed_s(now_us, *row[1:])


def _start(row: "Row", now_us: int) -> int:
    planned, started = row
    return (started or planned or _LAST) // SECOND_US


def _end(row: "Row", now_us: int) -> int:
    state, started, planned, ended, limit_min, pause = row
    return end_of(started if state else planned, ended, limit_min, pause) // SECOND_US


def _shown_state(row: "Row", now_us: int) -> "tuple[int, int]":
    state, flags = row
    return state, flags & ~JOB_FLAG_REQUEUE_HOLD  # shown as a reason, not as a state


def _contiguous(row: "Row", now_us: int) -> bool:
    return bool(row[0] & REQ_CONTIGUOUS)


def _memory(row: "Row", now_us: int) -> int:
    per_cpu, per_node = row
    memory: int = per_cpu or per_node
    return memory


def _array_job(row: "Row", now_us: int) -> "tuple[int, int]":
    array_job_id, job_id, task_id = row
    return array_job_id or job_id, task_id


def _second(row: "Row", now_us: int) -> int:
    moment: int = row[0]
    return moment // SECOND_US


def _first_node(row: "Row", now_us: int) -> "tuple[bool, str, int, str]":
    return node_order(row[0])


def node_order(names: str) -> "tuple[bool, str, int, str]":
    """Return what sorts node lists by their first node, numbers as numbers; no nodes come last."""
    head, bracket, rest = names.partition("[")
    first = head.partition(",")[0]
    if bracket and "," not in head:
        first += rest.partition("]")[0].partition(",")[0].partition("-")[0]
    prefix = first.rstrip("0123456789")
    return not names, prefix, int(first[len(prefix) :] or 0), names


# Fields that sort by their meaning instead of their text: the record fields they need, and the key.
_MEANINGS: "dict[str, tuple[tuple[str, ...], Callable[[Row, int], Any]]]" = {
    "jobarrayid": (("array_job_id", "job_id", "array_task_id"), _array_job),
    "timeused": (ELAPSED, _time_used),
    "timeleft": (("time_limit_min", *ELAPSED), _time_left),
    "starttime": (("expected_start_us", "start_us"), _start),
    "endtime": ((*START, "end_us", "time_limit_min", "suspended_us"), _end),
    "state": (("state", "flags"), _shown_state),
    "statecompact": (("state", "flags"), _shown_state),
    "contiguous": (("request_flags",), _contiguous),
    "minmemory": (FIELDS["minmemory"][2], _memory),
    "submittime": (("submit_us",), _second),
    "nodelist": (("nodes",), _first_node),
}
_FIELDS = {
    "jobid": ("job_id",),
    "priority": ("priority",),
    "prioritylong": ("priority",),
}


def fields_to_sort(name: str) -> "tuple[str, ...]":
    """Return the fields of a job's record that sorting by a column takes."""
    if name in _MEANINGS:
        return _MEANINGS[name][0]
    return _FIELDS.get(name) or FIELDS[name][2]


def sort_jobs(table: "Table", keys: "list[tuple[str, bool]]", now_us: int) -> None:
    """Sort the rows, by the least important key first.

    Job ids settle ties in the direction of the last key: the oldest first when it ascends.
    """
    rows = table.rows
    job_id = table.at["job_id"]
    rows.sort(key=lambda row: row[job_id], reverse=bool(keys) and keys[-1][1])
    for name, descending in reversed(keys):
        columns = [table.at[field] for field in fields_to_sort(name)]
        if name in _MEANINGS:
            key = _MEANINGS[name][1]
            _sort_by_meaning(rows, columns, key, now_us, descending)
        elif len(columns) == 1:
            index = columns[0]
            rows.sort(key=lambda row: row[index], reverse=descending)
        else:
            rows.sort(key=lambda row: [row[index] for index in columns], reverse=descending)


def _sort_by_meaning(
    rows: "list[tuple[Any, ...]]",
    columns: "list[int]",
    key: "Callable[[Row, int], Any]",
    now_us: int,
    descending: bool,
) -> None:
    rows.sort(key=lambda row: key([row[index] for index in columns], now_us), reverse=descending)
