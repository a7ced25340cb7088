"""Dependencies: what users may write, and what the start or end of a job means for its dependents.

Source: the dependency forms of the sbatch manual; what is refused follows a running Slurm.
"""

from __future__ import annotations

from collections.abc import Iterable, Set as AbstractSet
from typing import TypeAlias

from msgspec import structs

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.cluster import Cluster, free_job_id, is_completing
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import REQ_KILL_INVALID_DEP, Dependency, Job
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, Reason

OPEN, MET, NEVER = 0, 1, 2
_MINUTE_US = 60_000_000
_KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
_MAX_DIGITS = 10
Parsed: TypeAlias = "tuple[tuple[Dependency, ...], bool]"
"""Terms, and whether any one of them is enough."""


def parse_dependency(cluster: Cluster, text: str) -> Parsed | Reject:
    """Return the terms of `afterok:12:13,afterany:14` or `after:12+5?singleton`.

    A job that is unknown has ended long ago and needs no waiting for; only its success cannot be
    told, so `afterok` and `afternotok` of it are refused, as in Slurm.
    """
    is_any = "?" in text
    if is_any and "," in text:
        return Reject(Errno.ESLURM_DEPENDENCY)
    terms: list[Dependency] = []
    is_met = False
    for word in text.split("?" if is_any else ","):
        found = _parse_word(word.strip())
        if found is None:
            return Reject(Errno.ESLURM_DEPENDENCY)
        for term in found:
            if term.job_id and not _exists(cluster, term):
                if term.kind in ("afterok", "afternotok"):
                    return Reject(Errno.ESLURM_DEPENDENCY)
                is_met = True
            elif term not in terms:
                terms.append(term)
    if is_any and is_met:
        terms = []
    return tuple(terms), is_any


def _parse_word(word: str) -> list[Dependency] | None:
    """Return the terms of one `type:id[:id...]`; None if it cannot be read."""
    kind, _, ids = word.partition(":")
    kind = kind.lower()
    if kind == "singleton":
        return [Dependency("singleton")] if not ids else None
    if not ids and kind[:1].isdigit():
        kind, ids = "afterany", kind
    if kind not in _KINDS or not ids:
        return None
    terms = [_parse_id(kind, text) for text in ids.split(":")]
    return None if None in terms else [term for term in terms if term is not None]


def _parse_id(kind: str, text: str) -> Dependency | None:
    id_text, plus, delay = text.partition("+")
    job_text, underline, task = id_text.partition("_")
    if plus and (kind != "after" or not _is_number(delay)):
        return None
    if not _is_number(job_text) or not int(job_text):
        return None
    if underline and task != "*" and not _is_number(task):
        return None
    task_id = int(task) if underline and task != "*" else NO_VAL
    return Dependency(kind, int(job_text), task_id, int(delay) if plus else 0)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _exists(cluster: Cluster, term: Dependency) -> bool:
    if term.task_id == NO_VAL:
        return term.job_id in cluster.jobs or term.job_id in cluster.arrays
    if term.task_id in cluster.arrays.get(term.job_id, ()):
        return True
    head = cluster.jobs.get(term.job_id)
    return head is not None and task_ranges.contains(head.array_pending, term.task_id)


def for_update(cluster: Cluster, job: Job, text: str) -> Parsed | Reject:
    """Return the terms that `scontrol update Dependency=` gives a job; empty or 0 clears them."""
    if text in ("", "0", "(null)"):
        return (), False
    found = parse_dependency(cluster, text)
    if isinstance(found, Reject):
        return found
    terms, is_any = found
    ours = {job.job_id, job.array_job_id or job.job_id}
    if any(term.job_id in ours for term in terms):
        return Reject(Errno.ESLURM_DEPENDENCY)
    if _reaches(cluster, terms, ours):
        return Reject(Errno.ESLURM_CIRCULAR_DEPENDENCY)
    return terms, is_any


def _reaches(cluster: Cluster, terms: tuple[Dependency, ...], ours: set[int]) -> bool:
    """Return whether following dependencies from `terms` leads back to one of `ours`."""
    seen: set[int] = set()
    queue = [term.job_id for term in terms if term.job_id]
    while queue:
        job_id = queue.pop()
        if job_id in ours:
            return True
        if job_id in seen:
            continue
        seen.add(job_id)
        members = [job_id, *cluster.arrays.get(job_id, {}).values()]
        for member in members:
            other = cluster.jobs.get(member)
            if other is not None and other.state == JobState.PENDING:
                queue += [term.job_id for term in other.dependencies if term.job_id]
    return False


def judge(
    cluster: Cluster, job: Job, settled: dict[int, JobState], now_us: int
) -> tuple[tuple[Dependency, ...], bool]:
    """Return the terms of `job` that are left, and whether they can never be met."""
    states = [term_state(cluster, job, term, settled, now_us) for term in job.dependencies]
    if job.dependency_any:
        is_never = bool(states) and all(state == NEVER for state in states)
        return (() if MET in states else job.dependencies), is_never
    is_never = NEVER in states
    left = tuple(
        term if state != NEVER or term.state == NEVER else structs.replace(term, state=NEVER)
        for term, state in zip(job.dependencies, states, strict=True)
        if state != MET or is_never
    )
    return left, is_never


def after_end(
    cluster: Cluster, job: Job, state: JobState, exit_code: int, now_us: int
) -> list[ev.AnyEvent]:
    """Return what follows for others from the end of `job`, which may not be applied yet.

    A dependent that can never run and is to be killed ends here too, and so do those behind it.
    """
    del exit_code  # the final state already says whether all went well
    return after_ends(cluster, [(job, state)], now_us)


def after_ends(
    cluster: Cluster, ended_jobs: list[tuple[Job, JobState]], now_us: int
) -> list[ev.AnyEvent]:
    """Return what follows from several ends at once, none of which may be applied yet.

    One that waited for several of them must be judged with all of them known.
    """
    settled = {job.job_id: state for job, state in ended_jobs}
    events: list[ev.AnyEvent] = []
    judged: set[int] = set()
    taken: set[int] = set()  # ids that events not yet applied give out
    queue = [job for job, _ in ended_jobs]
    while queue:
        ended = queue.pop(0)
        for waiting in _dependents(cluster, ended):
            is_plain = not waiting.array_pending
            if waiting.job_id in settled or (is_plain and waiting.job_id in judged):
                continue
            judged.add(waiting.job_id)
            found = _settle(cluster, waiting, settled, now_us, ended, taken)
            events += found
            taken.update(event.job_id for event in found if isinstance(event, ev.ArrayTaskSplit))
            if found and isinstance(found[-1], ev.JobEnded):
                settled[waiting.job_id] = JobState.CANCELLED
                queue.append(waiting)
    return events


def after_start(cluster: Cluster, job: Job, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows for others from the start of `job` (`after:` terms only)."""
    events: list[ev.AnyEvent] = []
    for waiting in _dependents(cluster, job):
        if any(term.kind == "after" for term in waiting.dependencies):
            events += _settle(cluster, waiting, {job.job_id: JobState.RUNNING}, now_us, job)
    return events


def due(cluster: Cluster, now_us: int) -> list[ev.AnyEvent]:
    """Return what the passing of time alone has settled: `after:ID+minutes`."""
    events: list[ev.AnyEvent] = []
    for job_id in cluster.ineligible:
        job = cluster.jobs[job_id]
        if any(term.kind == "after" and term.delay_min for term in job.dependencies):
            events += _settle(cluster, job, {}, now_us, None)
    return events


def _dependents(cluster: Cluster, job: Job) -> list[Job]:
    waiting: dict[int, None] = dict(cluster.dependents.get(job.job_id, {}))
    if job.array_job_id and job.array_job_id != job.job_id:
        waiting.update(cluster.dependents.get(job.array_job_id, {}))
    waiting.update(cluster.singletons.get((job.uid, job.request.name), {}))
    return [
        cluster.jobs[job_id]
        for job_id in waiting
        if job_id != job.job_id and cluster.jobs[job_id].state == JobState.PENDING
    ]


def _settle(
    cluster: Cluster,
    job: Job,
    settled: dict[int, JobState],
    now_us: int,
    cause: Job | None,
    taken: AbstractSet[int] = frozenset(),
) -> list[ev.AnyEvent]:
    """Judge all terms of `job` again and return the events if anything changed."""
    if cause is not None and cause.array_task_id != NO_VAL and job.array_pending:
        split = _split_corresponding(cluster, job, cause, settled, now_us, taken)
        if split is not None:
            return split
    left, is_never = judge(cluster, job, settled, now_us)
    if is_never and job.request.flags & REQ_KILL_INVALID_DEP:
        return [
            *_changed(job, job.job_id, left, now_us, True),
            ev.JobEnded(
                time_us=now_us,
                job_id=job.job_id,
                state=JobState.CANCELLED,
                reason=Reason.DependencyNeverSatisfied,
            ),
        ]
    if left == job.dependencies and not is_never:
        return []
    if is_never and job.reason == Reason.DependencyNeverSatisfied:
        return []
    return _changed(job, job.job_id, left, now_us, is_never)


def _changed(
    job: Job, job_id: int, left: tuple[Dependency, ...], now_us: int, is_never: bool
) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = [
        ev.DependencyChanged(
            time_us=now_us,
            job_id=job_id,
            dependencies=left,
            dependency_any=job.dependency_any,
            never_satisfied=is_never,
        )
    ]
    if not left and job.begin_us <= now_us:
        events.append(ev.JobEligible(time_us=now_us, job_id=job_id))
    return events


def _split_corresponding(
    cluster: Cluster,
    job: Job,
    cause: Job,
    settled: dict[int, JobState],
    now_us: int,
    taken: AbstractSet[int],
) -> list[ev.AnyEvent] | None:
    """Let the task of a waiting array go that corresponds (`aftercorr`) to the one that ended."""
    task_id = cause.array_task_id
    terms = [
        term
        for term in job.dependencies
        if term.kind == "aftercorr" and term.job_id == cause.array_job_id
    ]
    if not terms or not task_ranges.contains(job.array_pending, task_id):
        return None
    if settled.get(cause.job_id, cause.state) != JobState.COMPLETED:
        return None
    left = tuple(term for term in job.dependencies if term not in terms)
    job_id = job.job_id
    if task_ranges.count(job.array_pending) > 1:
        job_id = free_job_id(cluster, taken)
    split = ev.ArrayTaskSplit(now_us, job.job_id, task_id, job_id)
    return [split, *_changed(job, job_id, left, now_us, False)]


def term_state(
    cluster: Cluster, job: Job, term: Dependency, settled: dict[int, JobState], now_us: int
) -> int:
    """Return whether one term of `job` is OPEN, MET or can NEVER be met."""
    if term.kind == "singleton":
        return _singleton_state(cluster, job, settled)
    targets = _targets(cluster, term)
    if targets is None:
        return OPEN  # tasks of the array still wait to be split off
    if not targets:
        # Gone from memory: it ended long ago. Only its success is no longer known.
        return NEVER if term.kind in ("afterok", "afternotok", "aftercorr") else MET
    states = [settled.get(target.job_id, JobState(target.state)) for target in targets]
    if term.kind == "after":
        return _started_state(targets, states, term, now_us)
    is_over = [
        state in TERMINAL_STATES and (target.job_id in settled or not is_completing(target))
        for target, state in zip(targets, states, strict=True)
    ]
    if term.kind == "afterok" or term.kind == "aftercorr":
        bad = [
            over and state != JobState.COMPLETED
            for over, state in zip(is_over, states, strict=True)
        ]
        if term.kind == "aftercorr" and job.array_pending:
            return OPEN  # each task is judged alone when it is split off
        if any(bad):
            return NEVER
    if not all(is_over):
        return OPEN
    if term.kind == "afternotok":
        failed = any(state != JobState.COMPLETED for state in states)
        return MET if failed else NEVER
    return MET


def _targets(cluster: Cluster, term: Dependency) -> list[Job] | None:
    """Return the jobs a term speaks of; None while some of its tasks only exist as a range."""
    if term.task_id != NO_VAL:
        job_id = cluster.arrays.get(term.job_id, {}).get(term.task_id)
        if job_id is not None:
            return [cluster.jobs[job_id]]
        head = cluster.jobs.get(term.job_id)
        return None if head is not None and head.array_pending else []
    head = cluster.jobs.get(term.job_id)
    tasks = cluster.arrays.get(term.job_id)
    found = [cluster.jobs[job_id] for job_id in tasks.values()] if tasks else []
    if head is not None:
        if head.array_pending and head.state == JobState.PENDING:
            return None
        if head not in found:
            found.append(head)
    return found


def _started_state(
    targets: Iterable[Job], states: list[JobState], term: Dependency, now_us: int
) -> int:
    for target, state in zip(targets, states, strict=True):
        if state == JobState.PENDING:
            return OPEN
        began_us = target.start_us or target.end_us
        if term.delay_min and now_us < (began_us or now_us) + term.delay_min * _MINUTE_US:
            return OPEN
    return MET


def _singleton_state(cluster: Cluster, job: Job, settled: dict[int, JobState]) -> int:
    """Met when no earlier job of this user and name is left."""
    for other_id in cluster.user_jobs.get(job.uid, {}):
        other = cluster.jobs[other_id]
        if other.request.name != job.request.name or other_id >= job.job_id:
            continue
        if other_id in settled and settled[other_id] in TERMINAL_STATES:
            continue
        if other.state not in TERMINAL_STATES or is_completing(other):
            return OPEN
    return MET
