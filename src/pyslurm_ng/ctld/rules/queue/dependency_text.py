"""What users may write as a dependency: `afterok:12:13,afterany:14`, `after:12+5?singleton`.

Source: the dependency forms of the sbatch manual; what is refused follows a running Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Dependency, Job
from pyslurm_ng.model.states import JobState

_KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
_MAX_DIGITS = 10
_MOST_TASKS = 1000  # of one id with brackets
MOST_TERMS = 8192  # of one job with all its components, repeats included
TOO_MANY = Reject(
    Errno.ESLURM_DEPENDENCY, f"dependency: at most {MOST_TERMS} jobs and tasks are allowed"
)
_SHOWN_STATE = re.compile(r"\((?:unfulfilled|failed)\)$")
_PLAIN_IDS = re.compile(rf"[0-9]{{1,{_MAX_DIGITS}}}(?::[0-9]{{1,{_MAX_DIGITS}}})*")
# Separators, and the brackets of an array's indexes with those that stand inside.
_SEPARATORS = {sign: re.compile(rf"\[[^\[\]]*\]?|\{sign}") for sign in ",?:"}
Parsed: TypeAlias = "tuple[tuple[Dependency, ...], bool]"
"""Terms, and whether any one of them is enough."""


def parse_dependency(cluster: Cluster, text: str) -> Parsed | Reject:
    """Return the terms of `afterok:12:13,afterany:14` or `after:12+5?singleton`.

    An unknown job has ended long ago, so no job waits for it. Whether it succeeded is not known, so
    `afterok` and `afternotok` of it are refused, as in Slurm.
    """
    is_any = "?" in text
    if is_any and "," in text:
        return Reject(Errno.ESLURM_DEPENDENCY)
    if sum(map(text.count, ",?:[")) > MOST_TERMS:
        return TOO_MANY
    count = 0
    terms: dict[tuple[str, int, int, int], Dependency] = {}
    is_met = False
    for word in _split(text, "?" if is_any else ","):
        parsed = _parse_word(word.strip())
        if parsed is None:
            is_old = word.strip().lower().startswith("expand:")  # no plugin of today grows jobs
            return Reject(Errno.ESLURM_NOT_SUPPORTED if is_old else Errno.ESLURM_DEPENDENCY)
        count += len(parsed)
        if count > MOST_TERMS:
            return TOO_MANY
        for term in parsed:
            if term.job_id and not exists(cluster, term):
                if term.kind in ("afterok", "afternotok"):
                    return Reject(Errno.ESLURM_DEPENDENCY)
                is_met = True
            else:
                terms.setdefault((term.kind, term.job_id, term.task_id, term.delay_min), term)
    return (() if is_any and is_met else tuple(terms.values())), is_any


def _split(text: str, sign: str) -> list[str]:
    """Return the parts of a text between signs; brackets stay whole."""
    if "[" not in text:
        return text.split(sign)
    words = []
    start = 0
    for match in _SEPARATORS[sign].finditer(text):
        if match[0] == sign:
            words.append(text[start : match.start()])
            start = match.end()
    words.append(text[start:])
    return words


def _parse_word(word: str) -> list[Dependency] | None:
    """Return the terms of one `type:id[:id...]`; None if it cannot be read."""
    kind, _, ids = word.partition(":")
    kind = kind.lower()
    if _SHOWN_STATE.sub("", kind) == "singleton":
        return [Dependency("singleton")] if not ids else None
    if not ids and kind[:1].isdecimal():
        kind, ids = "afterany", kind
    if kind not in _KINDS or not ids:
        return None
    if _PLAIN_IDS.fullmatch(ids):
        numbers = dict.fromkeys(map(int, ids.split(":")))
        return [Dependency(kind, number) for number in numbers] if 0 not in numbers else None
    terms: list[Dependency] = []
    for text in _split(ids, ":"):
        parsed = _parse_id(kind, text)
        if parsed is None:
            return None
        terms += parsed
        if len(terms) > MOST_TERMS:
            return terms
    return terms


def _parse_id(kind: str, text: str) -> list[Dependency] | None:
    """Return the terms of `12`, `12+5`, `12_3`, `12_*` or `12_[1-3,7]`; None if not one of them.

    A state as squeue shows it may follow, so that what it shows can be given to another job.
    """
    id_text, plus, delay = _SHOWN_STATE.sub("", text.strip()).partition("+")
    job_text, underline, task = id_text.partition("_")
    if plus and (kind != "after" or not _is_number(delay)):
        return None
    if not _is_number(job_text) or not int(job_text):
        return None
    tasks: Iterable[int] = (NO_VAL,)
    if underline and task != "*":
        ranges = _task_ranges(task)
        if ranges is None:
            return None
        tasks = task_ranges.tasks(ranges)
    delay_min = int(delay) if plus else 0
    return [Dependency(kind, int(job_text), task_id, delay_min) for task_id in tasks]


def _task_ranges(text: str) -> task_ranges.TaskRanges | None:
    """Return the indexes of `3` or `[1-3,7]`; None if they cannot be read or are too many."""
    if text.count(",") > _MOST_TASKS:
        return None
    try:
        ranges = parse_job_id(f"1_{text}").tasks
    except JobIdError:
        return None
    return ranges if 0 < task_ranges.count(ranges) <= _MOST_TASKS else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def exists(cluster: Cluster, term: Dependency) -> bool:
    """Return whether the job or task that a term names is known."""
    if term.task_id == NO_VAL:
        return term.job_id in cluster.jobs or term.job_id in cluster.job_index.arrays
    if term.task_id in cluster.job_index.arrays.get(term.job_id, ()):
        return True
    head = cluster.jobs.get(term.job_id)
    return head is not None and task_ranges.contains(head.array_pending, term.task_id)


def for_update(cluster: Cluster, job: Job, text: str) -> Parsed | Reject:
    """Return the terms that `scontrol update Dependency=` gives a job; empty or 0 clears them."""
    if text in ("", "0", "(null)"):
        return (), False
    parsed = parse_dependency(cluster, text)
    if isinstance(parsed, Reject):
        return parsed
    terms, is_any = parsed
    ours = {job.job_id, job.array_job_id or job.job_id}
    if any(term.job_id in ours for term in terms):
        return Reject(Errno.ESLURM_DEPENDENCY)
    if not reachable(cluster, terms).isdisjoint(ours):
        return Reject(Errno.ESLURM_CIRCULAR_DEPENDENCY)
    return terms, is_any


def reachable(cluster: Cluster, terms: Iterable[Dependency]) -> set[int]:
    """Return all that terms wait for: their jobs, and what those wait for while they do."""
    seen: set[int] = set()
    queue = [term.job_id for term in terms if term.job_id]
    while queue:
        job_id = queue.pop()
        if job_id in seen:
            continue
        seen.add(job_id)
        members = [job_id, *cluster.job_index.arrays.get(job_id, {}).values()]
        for member in members:
            other = cluster.jobs.get(member)
            if other is not None and other.state == JobState.PENDING:
                queue += [term.job_id for term in other.dependencies if term.job_id]
    return seen
