"""Job and step ids as users type them: ``27``, ``27_3``, ``27_[1-4,8]``, ``30+1``, ``21.0``.

A SLUID (`base.sluid`) stands for the id of the job that has it: ``s00HM83DBK7M01``, with a step
``s00HM83DBK7M01.0``.
"""

from __future__ import annotations

from pyslurm_ng.base.numbers import (
    MAX_NORMAL_STEP_ID,
    STEP_BATCH,
    STEP_EXTERN,
    STEP_INTERACTIVE,
    STEP_PENDING,
)
from pyslurm_ng.base.sluid import sluid_of

NO_TASKS: tuple[tuple[int, int, int], ...] = ()

# Steps that srun does not make have fixed numbers; the names are what commands print and take.
STEP_NUMBERS = {
    "batch": STEP_BATCH,
    "extern": STEP_EXTERN,
    "interactive": STEP_INTERACTIVE,
    "TBD": STEP_PENDING,
}
_MAX_ID_DIGITS = 10
MOST_STEPS = 100
"""The most ranges such as `0-98:2` in one list: each costs as much as the array is long."""


class JobIdError(ValueError):
    """Text that is no job or step id."""


class JobName:
    """One id as typed, taken apart.

    `tasks` holds (first, last, step) triples of an array's tasks, empty for all of the job;
    `het_offset` and `step` are -1 when not given. A SLUID has `job_id` 0; `sluid` is its number.
    """

    __slots__ = ("het_offset", "job_id", "sluid", "step", "tasks", "text")

    def __init__(
        self,
        text: str,
        job_id: int,
        tasks: tuple[tuple[int, int, int], ...] = NO_TASKS,
        het_offset: int = -1,
        step: int = -1,
        sluid: int = 0,
    ) -> None:
        self.text = text
        self.job_id = job_id
        self.tasks = tasks
        self.het_offset = het_offset
        self.step, self.sluid = step, sluid


def parse_job_id(text: str) -> JobName:
    """Return the parts of an id.

    Raises:
        JobIdError: not an id; a job id of 0 is none either.
    """
    if text.isdigit() and len(text) <= _MAX_ID_DIGITS and text.isascii() and int(text):
        return JobName(text, int(text))
    if text[:1] == "s":
        return _sluid_name(text)
    rest, dot, step_text = text.partition(".")
    step = _step(step_text) if dot else -1
    job_text, underscore, task_text = rest.partition("_")
    het_text = ""
    if not underscore:
        job_text, plus, het_text = rest.partition("+")
        if plus and not het_text:
            raise JobIdError(text)
    job_id = _number(job_text)
    if not job_id:
        raise JobIdError(text)
    het_offset = _number(het_text) if het_text else -1
    tasks = _tasks(task_text) if underscore else NO_TASKS
    return JobName(text, job_id, tasks, het_offset, step)


def _sluid_name(text: str) -> JobName:
    """Return the parts of a SLUID, perhaps with a step."""
    sluid_text, dot, step_text = text.partition(".")
    sluid = sluid_of(sluid_text)
    if not sluid:
        raise JobIdError(text)
    return JobName(text, 0, step=_step(step_text) if dot else -1, sluid=sluid)


def split_job_ids(text: str) -> list[str]:
    """Return the ids of a comma list; commas inside brackets do not part."""
    parts: list[str] = []
    depth = start = 0
    for index, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def step_text(step_id: int) -> str:
    """Return a step's number as commands print it: `0`, `batch`, `extern`."""
    if step_id < MAX_NORMAL_STEP_ID:
        return str(step_id)
    for name, number in STEP_NUMBERS.items():
        if number == step_id:
            return name
    return str(step_id)


def _number(text: str) -> int:
    if not text.isdigit() or not text.isascii() or len(text) > _MAX_ID_DIGITS:
        raise JobIdError(text)
    return int(text)


def _step(text: str) -> int:
    number = STEP_NUMBERS.get(text)
    return number if number is not None else _number(text)


def _tasks(text: str) -> tuple[tuple[int, int, int], ...]:
    if text == "*":
        return NO_TASKS
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].partition("%")[0]
    if text.count(":") > MOST_STEPS:
        raise JobIdError(text)
    ranges = []
    for part in text.split(","):
        span, colon, step_part = part.partition(":")
        first_text, dash, last_text = span.partition("-")
        first = _number(first_text)
        last = _number(last_text) if dash else first
        step = _number(step_part) if colon else 1
        if last < first or step < 1:
            raise JobIdError(text)
        ranges.append((first, last, step if last > first else 1))
    return tuple(ranges)
