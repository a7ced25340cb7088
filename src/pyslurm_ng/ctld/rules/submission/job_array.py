"""Array specifications: `--array=0-9:2,15%4` as ranges of task ids.

A range of any length stays one triple, so an array of 100,000 tasks costs as much as one task.

Source: the array forms of the sbatch manual; what is refused follows a running Slurm.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pyslurm_ng.base.job_ids import MOST_STEPS
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.task_ranges import TaskRange, TaskRanges

_MAX_DIGITS = 9
_MOST_TAKEN_APART = 65536


class ArrayError(ValueError):
    """A specification that cannot be read or goes beyond what is allowed."""


@dataclass(frozen=True, slots=True)
class JobArray:
    """The tasks of an array, ascending, and how many may run at once (0: any number)."""

    ranges: TaskRanges
    limit: int

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return task_ranges.count(self.ranges)


def parse_array(text: str, max_array_size: int) -> JobArray:
    """Return the tasks that `text` names; ids lie below `max_array_size`.

    Commas too many are left out, as Slurm does: programs write `1,2,`.

    Raises:
        ArrayError: not a list of `n`, `a-b`, `a-b:step` with an optional `%limit`, or too large.
    """
    body, percent, limit_text = text.strip().partition("%")
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    limit = _number(limit_text) if percent else 0
    if body.count(":") > MOST_STEPS:
        raise ArrayError(f"more than {MOST_STEPS} ranges with a step")
    parts = [_range(word) for word in body.split(",") if word]
    if not parts:
        raise ArrayError("no task is named")
    if any(last >= max_array_size for _, last, _ in parts):
        raise ArrayError(f"a task id is not below MaxArraySize={max_array_size}")
    ranges = _merged(parts)
    if ranges is None:
        raise ArrayError(f"more than {task_ranges.MOST_RANGES} ranges of tasks")
    return JobArray(ranges, limit)


def _range(word: str) -> TaskRange:
    first_text, dash, rest = word.partition("-")
    first = _number(first_text)
    if not dash:
        return (first, first, 1)
    last_text, colon, step_text = rest.partition(":")
    last = _number(last_text)
    step = _number(step_text) if colon else 1
    if last < first or step < 1:
        raise ArrayError(f"{word}: the range is empty")
    last -= (last - first) % step
    return (first, last, step if last > first else 1)


def _number(text: str) -> int:
    text = text.lstrip(" ")  # `1, 2` is taken, `1 ,2` is not, as by Slurm
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        raise ArrayError(f"{text!r} is not a number")
    return int(text)


def _merged(parts: list[TaskRange]) -> TaskRanges | None:
    """Return ascending ranges without repeats; None if they are too many.

    Long ones are not taken apart unless they meet.
    """
    ordered = sorted(dict.fromkeys(parts))
    if len(ordered) <= task_ranges.MOST_RANGES:
        whole = _kept_whole(ordered)
        if whole:
            return whole
    marks = task_ranges.named(ordered, max(last for _, last, _ in ordered) + 1)
    return task_ranges.few_from_marks(marks)


def _kept_whole(ordered: list[TaskRange]) -> TaskRanges:
    """Return long ranges as they were written, or joined; () if they have to be taken apart."""
    are_apart = all(left[1] < right[0] for left, right in pairwise(ordered))
    if are_apart and any(last > first for first, last, _ in ordered):
        return tuple(ordered)
    if all(step == 1 for _, _, step in ordered):
        joined = _joined(ordered)
        if task_ranges.count(joined) > _MOST_TAKEN_APART:
            return joined
    return ()


def _joined(ordered: list[TaskRange]) -> TaskRanges:
    """Return ascending ranges without gaps, those that meet or touch as one."""
    ranges: list[TaskRange] = []
    for first, last, _ in ordered:
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]), 1)
        else:
            ranges.append((first, last, 1))
    return tuple(ranges)
