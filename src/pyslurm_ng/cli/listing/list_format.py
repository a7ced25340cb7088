"""-o and -O formats, times and columns: what squeue and sinfo print with."""

import os
from time import localtime, strftime

from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    SECOND_US,
)
from pyslurm_ng.kernels.records import RIGHT, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pyslurm_ng.cli.command import Table

DEFAULT_WIDTH = 20
STEP_ID = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_offset", "step_id")
"""The fields that `step_id_text` takes."""


_NEVER_CUT = frozenset(
    "l L M n N R Y timelimit timeleft timeused reqnodes nodelist reasonlist schednodes "
    "preempttime".split()
)
"""Fields of squeue that are longer than their column, if need be, where that is right-aligned."""


def _whole(cell: str, width: int) -> str:
    """Return a cell of at least so many characters; a reason in the place of nodes is cut."""
    is_reason = cell[:1] == "(" and cell != "(null)"
    return (cell[:width] if is_reason else cell).rjust(width)


class Column:
    """One column of a format: a field's key (letter or lower-case name) and how to print it."""

    __slots__ = ("fits", "key", "right", "tail", "width")

    def __init__(self, key: str, width: int, right: bool, tail: str, fits: bool = False) -> None:
        self.key = key
        self.width = width
        self.right = right
        self.tail = tail
        self.fits = fits  # %#: at least as wide as its widest cell


class Format:
    """A parsed format: text at the line's beginning, columns, and unknown parts."""

    def __init__(self, head: str, columns: "list[Column]", bad: "list[str]") -> None:
        self.head = head
        self.columns = columns
        self.bad = bad

    def header(self, headings: "dict[str, str]") -> bytes:
        """Return the header line."""
        row = [headings[column.key] for column in self.columns]
        return self.lines([[cell] for cell in row])

    def with_whole_cells(self, cells: "list[Sequence[str | int]]") -> bytes:
        """Return the lines of jobs or steps: no time and no node list is cut at its left column.

        As in Slurm: `%.10M` of a job that has run for ten days shows all eleven characters. With
        SLURM_BITSTR_LEN in the environment, ids with lists of tasks are not cut either.
        """
        never_cut = _NEVER_CUT | {"jobarrayid"} if "SLURM_BITSTR_LEN" in os.environ else _NEVER_CUT
        widths = [column.width for column in self.columns]
        for index, column in enumerate(self.columns):
            width = column.width
            if not width or not column.right or column.key not in never_cut:
                continue
            if max(map(len, map(str, cells[index]))) > width:
                cells[index] = [_whole(str(cell), width) for cell in cells[index]]
                column.width = 0
        text = self.lines(cells)
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        return text

    def lines(self, cells: "Sequence[Sequence[str | int]]") -> bytes:
        """Return the lines of columns of cells."""
        if not cells:
            return b""
        spec = [
            (column.width, RIGHT if column.right else 0, column.tail) for column in self.columns
        ]
        return render(zip(*cells, strict=False), spec, self.head)


def parse_short(text: str, known: "Mapping[str, object]", all_letters: str) -> Format:
    """Read a -o format: `%[.][#][width]letter` with literal text around.

    An unknown letter stays in the output as written, and is in `bad`. `%all` means every letter,
    with bars between.
    """
    if text.strip() == "%all":
        text = "|".join(f"%{letter}" for letter in all_letters)
    head = ""
    columns: list[Column] = []
    bad: list[str] = []
    literal = ""
    position = 0
    while position < len(text):
        if text[position] != "%":
            literal += text[position]
            position += 1
            continue
        end = position + 1
        right = fits = False
        while end < len(text) and text[end] in ".#":
            right = right or text[end] == "."
            fits = fits or text[end] == "#"
            end += 1
        start = end
        while end < len(text) and text[end].isdecimal():
            end += 1
        width = int(text[start:end] or 0)
        letter = text[end : end + 1]
        if letter == "%" or position + 1 == len(text):
            position = end  # a percent sign that begins nothing is left out
            continue
        end += 1
        if letter not in known:
            bad.append(letter)
            literal += text[position:end]
            position = end
            continue
        if columns:
            columns[-1].tail = literal
        else:
            head = literal
        literal = ""
        columns.append(Column(letter, min(width, 65536), right, "", fits))
        position = end
    if columns:
        columns[-1].tail = literal
    else:
        head = literal
    return Format(head, columns, bad)


def parse_long(text: str, known: "Mapping[str, object]") -> Format:
    """Read a -O format: `name[:[.][width][suffix]]` in a comma list, names in any case."""
    columns, bad = [], []
    for part in text.split(","):
        name, colon, spec = part.partition(":")
        key = name.strip().lower()
        if not key:
            continue
        if key not in known:
            bad.append(name.strip())
            continue
        right = spec.startswith(".")
        rest = spec[1:] if right else spec
        end = 0
        while end < len(rest) and rest[end].isdecimal():
            end += 1
        width = int(rest[:end]) if end else 0 if colon else DEFAULT_WIDTH
        columns.append(Column(key, min(width, 65536), right, rest[end:]))
    return Format("", columns, bad)


# Times ----------------------------------------------------------------------------------------


def lines_of(
    chosen: Format, table: "Table", context: "Any", fields: "Mapping[str, Any]", header: bool
) -> bytes:
    """Return the heading and all rows as text."""
    if not chosen.columns:
        # The format has only unknown parts: they are printed as they are, a line for each row.
        return f"{chosen.head}\n".encode(errors="replace") * (len(table.rows) + header)
    out = b""
    if header:
        out = chosen.header({column.key: fields[column.key][1] for column in chosen.columns})
    if not table.rows:
        return out
    columns = list(zip(*table.rows, strict=False))
    cells = []
    for column in chosen.columns:
        _, _, needed, maker = fields[column.key]
        cells.append(maker(context, *[columns[table.at[name]] for name in needed]))
    return out + chosen.with_whole_cells(cells)


class Dates:
    """Moments as text, each second formatted once; SLURM_TIME_FORMAT is respected."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        self.pattern = os.environ.get("SLURM_TIME_FORMAT", "")
        self._known: dict[int, str] = {}

    def text(self, when_us: int, empty: str = "N/A") -> str:
        """Return `2026-11-20T12:08:04` in local time, `empty` if there is no time."""
        if when_us <= 0:
            return empty
        seconds = when_us // SECOND_US
        known = self._known.get(seconds)
        if known is None:
            known = self._known[seconds] = self._format(seconds)
        return known

    def _format(self, seconds: int) -> str:
        if self.pattern and self.pattern != "standard":
            from pyslurm_ng.base.dates import format_date

            return format_date(seconds, self.pattern, self.now_us // SECOND_US)
        at = localtime(seconds)
        return (
            f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}"
            f"T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}"
        )


def date_line(now_us: int) -> str:
    """Return the line that -l and -i print first: `Fri Nov 20 12:10:53 2026`."""
    at = localtime(now_us // SECOND_US)
    return strftime("%a %b ", at) + f"{at.tm_mday:02d} " + strftime("%H:%M:%S %Y", at)


def short_time(seconds: int) -> str:
    """Return `[D-]HH:MM:SS` without leading zero fields: `0:39`, `1:00:00`, `1-00:00:00`."""
    if seconds < 0:
        return "INVALID"
    minutes, second = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}:{second:02d}"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}:{minute:02d}:{second:02d}"
    return f"{hours // 24}-{hours % 24:02d}:{minute:02d}:{second:02d}"


def long_time(seconds: int) -> str:
    """Return `[D-]HH:MM:SS` with all fields."""
    if seconds < 0:
        return "INVALID"
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    clock = f"{hours % 24:02d}:{minute:02d}:{second:02d}"
    return f"{hours // 24}-{clock}" if hours >= 24 else clock


def short_limit(minutes: int) -> str:
    """Return a limit in minutes as squeue prints it."""
    if minutes == INFINITE:
        return "UNLIMITED"
    if minutes == NO_VAL:
        return "NOT_SET"
    return short_time(minutes * 60)


def long_limit(minutes: int, unset: str = "Partition_Limit") -> str:
    """Return a limit in minutes as scontrol prints it."""
    if minutes == INFINITE:
        return "UNLIMITED"
    if minutes == NO_VAL:
        return unset
    return long_time(minutes * 60)


# Amounts --------------------------------------------------------------------------------------


def mem_text(mib: int) -> str:
    """Return memory with the largest unit that keeps it whole, or a half: `1000M`, `62.50G`."""
    unit = 0
    while mib and mib % 512 == 0 and mib >= 1024 and unit < 3:
        if mib % 1024:
            return f"{mib / 1024:.2f}{'MGTP'[unit + 1]}"
        mib //= 1024
        unit += 1
    return f"{mib}{'MGTP'[unit]}"


def count_text(number: int) -> str:
    """Return a count, with K, M or G if it is a whole multiple of 1,024."""
    for suffix in ("", "K", "M"):
        if number < 1024 or number % 1024:
            return f"{number}{suffix}"
        number //= 1024
    return f"{number}G"


def signal_text(number: int) -> str:
    """Return a signal's description as one word: `Segmentation_fault`."""
    from _signal import strsignal  # type: ignore[import-not-found]  # `signal` loads enum

    return (strsignal(number) or f"Unknown signal {number}").replace(" ", "_")


def exit_text(status: int) -> str:
    """Return a wait status as `code:signal`."""
    signal = status & 0x7F
    return f"{status >> 8 & 0xFF}:{signal}"


# Ids ------------------------------------------------------------------------------------------


def job_id_text(
    job_id: int,
    array_job_id: int,
    array_task_id: int,
    array_tasks: str,
    array_limit: int,
    het_job_id: int,
    het_offset: int,
) -> str:
    """Return the id users know a job by: `27`, `27_3`, `27_[0-9%2]`, `30+1`."""
    if array_tasks:
        limit = f"%{array_limit}" if array_limit else ""
        return f"{array_job_id}_[{cut_tasks(array_tasks)}{limit}]"
    if het_job_id:
        return f"{het_job_id}+{het_offset}"
    if array_job_id and array_task_id < NO_VAL:
        return f"{array_job_id}_{array_task_id}"
    return str(job_id)


_TASK_WIDTH = 64
_UNCUT_TASKS = _TASK_WIDTH - 3  # room for the dots
_MAX_WIDTH_DIGITS = 9


def step_id_text(
    job_id: int, array_job_id: int, task_id: int, het_job_id: int, het_offset: int, step_id: int
) -> str:
    """Return `21.0`, `27_3.batch`, `30+1.0`."""
    from pyslurm_ng.base.job_ids import step_text

    if het_job_id:
        job = f"{het_job_id}+{het_offset}"
    elif array_job_id and task_id < NO_VAL:
        job = f"{array_job_id}_{task_id}"
    else:
        job = str(job_id)
    return f"{job}.{step_text(step_id)}"


def cut_tasks(text: str) -> str:
    """Return a task list as Slurm writes it, cut where SLURM_BITSTR_LEN says."""
    if ":" not in text and len(text) <= _UNCUT_TASKS and "SLURM_BITSTR_LEN" not in os.environ:
        return text
    from pyslurm_ng.base.task_lists import written

    return written(text, _task_width())


def _task_width() -> int:
    """Return the number in SLURM_BITSTR_LEN; a word in its place cuts nothing, as 0 does."""
    setting = os.environ.get("SLURM_BITSTR_LEN", str(_TASK_WIDTH)).strip()
    if setting.startswith("-"):
        return _TASK_WIDTH
    return int(setting) if setting.isdecimal() and len(setting) < _MAX_WIDTH_DIGITS else 0


def sluid_text(submit_us: int, resize_us: int, job_id: int) -> str:
    """Return a job's sortable unique id."""
    from pyslurm_ng.base import sluid

    return sluid.sluid_text(sluid.record_sluid(submit_us, resize_us, job_id))
