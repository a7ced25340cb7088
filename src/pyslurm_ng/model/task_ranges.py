"""Sets of array task ids as ascending (first, last, step) triples.

A range of 100,000 tasks is one triple, so an array costs the same whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

MOST_RANGES = 8192
"""In one record of an array. All that reads or changes the record costs as much as it has."""

TaskRange = tuple[int, int, int]
TaskRanges = tuple[TaskRange, ...]


def count(ranges: TaskRanges) -> int:
    """Return how many tasks `ranges` names."""
    return sum((last - first) // step + 1 for first, last, step in ranges)


def contains(ranges: TaskRanges, task_id: int) -> bool:
    """Return whether `task_id` is in `ranges`."""
    return any(
        first <= task_id <= last and (task_id - first) % step == 0 for first, last, step in ranges
    )


def tasks(ranges: TaskRanges) -> Iterator[int]:
    """Yield the task ids range by range."""
    for first, last, step in ranges:
        yield from range(first, last + 1, step)


def remove(ranges: TaskRanges, task_id: int) -> TaskRanges:
    """Return `ranges` without `task_id`, which must be in it."""
    for index, (first, last, step) in enumerate(ranges):
        if first <= task_id <= last and (task_id - first) % step == 0:
            parts = []
            if task_id > first:
                parts.append(_triple(first, task_id - step, step))
            if task_id < last:
                parts.append(_triple(task_id + step, last, step))
            return ranges[:index] + tuple(parts) + ranges[index + 1 :]
    raise AssertionError((ranges, task_id))


def intersect(ranges: TaskRanges, others: TaskRanges) -> tuple[TaskRanges, TaskRanges]:
    """Return the parts of `ranges` inside and outside `others`."""
    own, end = as_number(ranges)
    inside = own & int.from_bytes(named(others, end), "little")
    return (
        from_marks(inside.to_bytes(end, "little")),
        from_marks((own ^ inside).to_bytes(end, "little")),
    )


def as_number(ranges: TaskRanges) -> tuple[int, int]:
    """Return a number with a byte of 1 for each task id, and how many bytes it has.

    In this form half a million tasks are compared in a fraction of a millisecond.
    """
    end = max((last for _, last, _ in ranges), default=-1) + 1
    return int.from_bytes(named(ranges, end), "little"), end


def named(ranges: Iterable[TaskRange], end: int) -> bytearray:
    """Return for each task id below `end` whether one of the ranges names it.

    Ranges without gaps are joined first, so ten thousand that overlap cost no more than one.
    Readers of users' texts take only few other ranges (base.job_ids, submission.job_array).
    """
    marks = bytearray(end)
    reached = 0  # everything before it that ranges without gaps mark is marked
    for first, last, step in sorted(dict.fromkeys(ranges)):
        if first >= end:
            break
        if step > 1:
            count = (min(last, end - 1) - first) // step + 1
            marks[first : first + (count - 1) * step + 1 : step] = b"\1" * count
        elif last >= reached:
            begin = max(first, reached)
            reached = min(last + 1, end)
            marks[begin:reached] = b"\1" * (reached - begin)
    return marks


def from_tasks(task_ids: Iterable[int]) -> TaskRanges:
    """Return the fewest ranges a left-to-right scan finds for ids in any order."""
    ordered = sorted(set(task_ids))
    ranges: list[TaskRange] = []
    index = 0
    while index < len(ordered):
        first = ordered[index]
        if index + 1 == len(ordered):
            ranges.append((first, first, 1))
            break
        step = ordered[index + 1] - first
        end = index + 1
        while end + 1 < len(ordered) and ordered[end + 1] - ordered[end] == step:
            end += 1
        if end == index + 1 and step > 1:
            # Two lone ids are no progression; leave the second to start the next range.
            ranges.append((first, first, 1))
            index += 1
            continue
        ranges.append((first, ordered[end], step))
        index = end + 1
    return tuple(ranges)


def from_marks(marks: bytes | bytearray) -> TaskRanges:
    """Return the ranges that `from_tasks` finds for the ids that have a 1 in `marks`."""
    return tuple(_marked(marks))


def few_from_marks(marks: bytes | bytearray) -> TaskRanges | None:
    """Return the ranges as `from_marks`, None if one record may not have so many."""
    ranges = tuple(islice(_marked(marks), MOST_RANGES + 1))
    return ranges if len(ranges) <= MOST_RANGES else None


def _marked(marks: bytes | bytearray) -> Iterator[TaskRange]:
    """Yield ranges; long progressions are found by comparing ever longer pieces, not each task."""
    first = marks.find(1)
    while first >= 0:
        second = marks.find(1, first + 1)
        if second < 0:
            yield (first, first, 1)
            return
        step = second - first
        last = second + step * _repeats(marks, second + 1, b"\0" * (step - 1) + b"\1")
        if last == second and step > 1:
            yield (first, first, 1)
            first = second
            continue
        yield (first, last, step)
        first = marks.find(1, last + 1)


def _repeats(marks: bytes | bytearray, begin: int, piece: bytes) -> int:
    """Return how often `piece` follows itself from `begin` on."""
    length, size = 0, 1
    while size:
        at = begin + length * len(piece)
        if marks.startswith(piece * size, at):
            length += size
            size *= 2
        else:
            size //= 2
    return length


def text(ranges: TaskRanges) -> str:
    """Return the ranges as Slurm writes them: `0-9:2,12,15-16`."""
    parts = []
    for first, last, step in ranges:
        if first == last:
            parts.append(f"{first}")
        elif step == 1:
            parts.append(f"{first}-{last}")
        else:
            parts.append(f"{first}-{last}:{step}")
    return ",".join(parts)


def _triple(first: int, last: int, step: int) -> TaskRange:
    return (first, last, step if last > first else 1)
