"""Dependencies: what the start or end of a job, or time, means for the jobs that wait for it.

Source: the dependency forms of the sbatch manual.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec import structs

from pyslurm_ng.base.numbers import MINUTE_US, NO_VAL, REQ_KILL_INVALID_DEP
from pyslurm_ng.ctld.rules.queue.dependency_text import exists
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import Dependency, Job, is_completing
from pyslurm_ng.model.job_index import JobIndex
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, Reason

OPEN, MET, NEVER = 0, 1, 2


@dataclass(slots=True)
class Ends:
    """What has ended but is not applied yet: states by job id, and tasks split off to end.

    `taken` are the job ids that events not yet applied give out, `left` what their splits leave
    of arrays' records; `claim` gives out ids if another rule gives out ids, too. `about` are the
    jobs and arrays whose terms may have changed (None: any), `seen` what was found out so far.
    """

    states: dict[int, JobState] = field(default_factory=dict)
    tasks: dict[tuple[int, int], Job] = field(default_factory=dict)  # by array and index
    taken: set[int] = field(default_factory=set)
    left: dict[int, task_ranges.TaskRanges] = field(default_factory=dict)
    claim: Callable[[], int] | None = None
    decided: set[int] = field(default_factory=set)  # arrays' records of which nothing is open
    about: set[int] | None = None
    seen: dict[object, int] = field(default_factory=dict)

    def add(self, job: Job, state: JobState) -> None:
        """Note an end that is not applied yet; earlier answers may no longer hold."""
        self.states[job.job_id] = state
        self.seen.clear()
        if self.about is not None:
            self.about |= {job.job_id, job.array_job_id or job.job_id}

    def pending(self, job: Job) -> task_ranges.TaskRanges:
        """Return which tasks of an array's record still wait in it."""
        return self.left.get(job.job_id, job.array_pending)

    def new_job_id(self, cluster: Cluster) -> int:
        """Return a job id for a task that is split off."""
        job_id = self.claim() if self.claim is not None else free_job_id(cluster, self.taken)
        self.taken.add(job_id)
        return job_id


def judge(
    cluster: Cluster, job: Job, ends: Ends, now_us: int, task_id: int = NO_VAL
) -> tuple[tuple[Dependency, ...], bool]:
    """Return the terms of `job` that are left, and whether they can never be met.

    Args:
        task_id: of an array's waiting tasks, the one that is judged.
    """
    about = None if job.dependency_any else ends.about
    states = [
        term_state(cluster, job, term, ends, now_us, task_id)
        if about is None or not term.job_id or term.job_id in about
        else term.state  # what ended is none of its business
        for term in job.dependencies
    ]
    if job.dependency_any and MET in states:
        return (), False
    is_never = bool(states) and all(state == NEVER for state in states)
    if not job.dependency_any:
        is_never = NEVER in states
    open_dependencies = tuple(
        term if state != NEVER or term.state == NEVER else structs.replace(term, state=NEVER)
        for term, state in zip(job.dependencies, states, strict=True)
        if state != MET
    )
    return open_dependencies, is_never


def after_end(
    cluster: Cluster,
    job: Job,
    state: JobState,
    exit_code: int,
    now_us: int,
) -> list[ev.AnyEvent]:
    """Return what follows for others from the end of `job`, which may not be applied yet.

    A dependent that can never run and is to be killed ends here too, and so do those behind it.
    """
    del exit_code  # the final state already says whether all went well
    return after_ends(cluster, [(job, state)], now_us)


def ended_tasks(
    cluster: Cluster, job: Job, tasks: task_ranges.TaskRanges, record_id: int, ends: Ends
) -> list[Job]:
    """Return some waiting tasks of an array as separate jobs, which end there.

    Only jobs that wait for that array would look at them.
    """
    if job.array_job_id not in cluster.job_index.dependents:
        return []
    over = [
        structs.replace(job, job_id=record_id, array_task_id=task_id, array_pending=())
        for task_id in task_ranges.tasks(tasks)
    ]
    ends.tasks.update({(job.array_job_id, job.array_task_id): job for job in over})
    ends.seen.clear()
    return over


def after_ends(
    cluster: Cluster,
    ended_jobs: list[tuple[Job, JobState]],
    now_us: int,
    ends: Ends | None = None,
) -> list[ev.AnyEvent]:
    """Return what follows from several ends at once, none of which may be applied yet.

    One that waited for several of them must be judged with all of them known.

    Args:
        ends: what else is not applied yet; it is kept up to date.
    """
    ends = ends or Ends()
    ends.about = set()
    for job, state in ended_jobs:
        ends.add(job, state)
    events: list[ev.AnyEvent] = []
    # By job, how many ends were known when it was judged; and when each end became known.
    judged: dict[int, int] = {}
    known_at = dict.fromkeys(ends.states, len(ends.states))
    names: dict[tuple[int, str], int] = {}
    index = cluster.job_index
    queue = deque(job for job, _ in ended_jobs if _has_dependents(index, job))
    while queue:
        ended = queue.popleft()
        since = known_at[ended.job_id]
        key = (ended.uid, ended.request.name)
        with_singletons = names.get(key, 0) < since
        names[key] = len(ends.states)
        for waiting in _dependents(cluster, ended, with_singletons=with_singletons):
            is_plain = not waiting.array_pending
            if waiting.job_id in ends.states or (
                is_plain and judged.get(waiting.job_id, 0) >= since
            ):
                continue
            judged[waiting.job_id] = len(ends.states)
            settled = settle(cluster, waiting, ends, now_us, ended)
            events += settled
            if is_plain and any(getattr(event, "never_satisfied", False) for event in settled):
                judged[waiting.job_id] = NO_VAL  # nothing changes that, and it is said once
            for over in _ended_by(waiting, settled, ends):
                known_at[over.job_id] = len(ends.states)
                queue.append(over)
    return events


def _ended_by(job: Job, events: list[ev.AnyEvent], ends: Ends) -> list[Job]:
    """Note which of a job's tasks, or whether all of it, these events end; return them."""
    ended = []
    splits = {event.job_id: event for event in events if isinstance(event, ev.ArrayTaskSplit)}
    for event in events:
        if not isinstance(event, ev.JobEnded):
            continue
        over, split = job, splits.get(event.job_id)
        if split is not None:
            over = structs.replace(
                job, job_id=event.job_id, array_task_id=split.task_id, array_pending=()
            )
            ends.tasks[split.array_job_id, split.task_id] = over
        ends.add(over, JobState.CANCELLED)
        ended.append(over)
    return ended


def after_start(cluster: Cluster, job: Job, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows for others from the start of `job` (`after:` terms only)."""
    events: list[ev.AnyEvent] = []
    ends = Ends(about=set())
    ends.add(job, JobState.RUNNING)
    for waiting in _dependents(cluster, job, with_singletons=False):
        if any(term.kind == "after" for term in waiting.dependencies):
            events += settle(cluster, waiting, ends, now_us, job)
    return events


def after_stage_out(cluster: Cluster, job: Job, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows for others when nothing is copied for `job` any longer."""
    events: list[ev.AnyEvent] = []
    ends = Ends(about={job.job_id, job.array_job_id or job.job_id})
    for waiting in _dependents(cluster, job, with_singletons=False):
        if any(term.kind == "afterburstbuffer" for term in waiting.dependencies):
            events += settle(cluster, waiting, ends, now_us, job)
    return events


def due(cluster: Cluster, now_us: int, job_ids: Iterable[int]) -> list[ev.AnyEvent]:
    """Return what the passing of time alone has settled for some jobs: `after:ID+minutes`.

    Arrays that were given a term about another one that is over are judged here as well.
    """
    events: list[ev.AnyEvent] = []
    for job_id in job_ids:
        job = cluster.jobs[job_id]
        if any(map(is_timed, job.dependencies)):
            when_us = settles_at_us(cluster, job)
            if when_us is not None and when_us <= now_us:
                events += settle(cluster, job, Ends(), now_us, None)
    return events


def is_timed(term: Dependency) -> bool:
    """Return whether more than an event may settle a term, for which `due` is asked."""
    return (term.kind == "after" and term.delay_min > 0) or term.kind == "aftercorr"


def settles_at_us(cluster: Cluster, job: Job) -> int | None:
    """Return when time alone settles the first of a job's terms; None: only an event does."""
    if job.reason == Reason.DependencyNeverSatisfied:
        return None
    moments = []
    for term in job.dependencies:
        if term.kind == "after" and term.delay_min:
            when_us = _delay_over_us(cluster, term)
            if when_us is not None:
                moments.append(when_us)
        elif term.kind == "aftercorr" and job.array_pending and not _has_open(cluster, term, 0):
            return 0
    return min(moments, default=None)


def _delay_over_us(cluster: Cluster, term: Dependency) -> int | None:
    """Return when the minutes after the starts of a term's jobs are over; None before those."""
    targets = _targets(cluster, term, Ends())
    if targets is None or any(target.state == JobState.PENDING for target in targets):
        return None
    begun_us = [target.start_us or target.end_us for target in targets]
    if 0 in begun_us:
        return None
    return max(begun_us) + term.delay_min * MINUTE_US if begun_us else 0


def _has_open(cluster: Cluster, term: Dependency, ending: int) -> bool:
    """Return whether an array surely is not over, found without a look at each task.

    Args:
        ending: how many of its tasks end in events not applied yet, at most.
    """
    head = cluster.jobs.get(term.job_id)
    if head is not None and head.array_pending and head.state == JobState.PENDING:
        return True
    return cluster.job_counts.array_active.get(term.job_id, 0) > ending


def _has_dependents(index: JobIndex, job: Job) -> bool:
    """Return whether there may be jobs that wait for this one; most have none."""
    of_job = job.job_id in index.dependents or job.array_job_id in index.dependents
    return of_job or (job.uid, job.request.name) in index.singletons


def _dependents(cluster: Cluster, job: Job, *, with_singletons: bool) -> list[Job]:
    waiting: dict[int, None] = dict(cluster.job_index.dependents.get(job.job_id, {}))
    if job.array_job_id and job.array_job_id != job.job_id:
        waiting.update(cluster.job_index.dependents.get(job.array_job_id, {}))
    if with_singletons:
        waiting.update(cluster.job_index.singletons.get((job.uid, job.request.name), {}))
    return [
        cluster.jobs[job_id]
        for job_id in waiting
        if job_id != job.job_id and cluster.jobs[job_id].state == JobState.PENDING
    ]


def settle(
    cluster: Cluster, job: Job, ends: Ends, now_us: int, cause: Job | None
) -> list[ev.AnyEvent]:
    """Judge all terms of `job` again and return the events if anything changed.

    Args:
        job: it may be one that is not applied yet.
        cause: the job whose start or end may have changed something; None: look at all.
    """
    if job.reason == Reason.DependencyNeverSatisfied:
        return []
    if job.array_pending and any(term.kind == "aftercorr" for term in job.dependencies):
        return _settle_tasks(cluster, job, ends, now_us, cause)
    return _follow(job, job.job_id, judge(cluster, job, ends, now_us), now_us)


def never(job_id: int, now_us: int) -> ev.JobEnded:
    """Return the end of a job that a dependency can never let start and that asked to end then."""
    return ev.JobEnded(
        time_us=now_us,
        job_id=job_id,
        state=JobState.CANCELLED,
        reason=Reason.DependencyNeverSatisfied,
    )


def _follow(
    job: Job, job_id: int, judged: tuple[tuple[Dependency, ...], bool], now_us: int
) -> list[ev.AnyEvent]:
    """Return what becomes of a record whose terms have been judged.

    Args:
        job_id: of `job`, or of a task that is split off from it.
    """
    open_dependencies, is_never = judged
    if open_dependencies == job.dependencies and not is_never:
        return []
    events = _changed(job, job_id, open_dependencies, now_us, is_never)
    if is_never and job.request.flags & REQ_KILL_INVALID_DEP:
        events.append(never(job_id, now_us))
    return events


def _settle_tasks(
    cluster: Cluster, job: Job, ends: Ends, now_us: int, cause: Job | None
) -> list[ev.AnyEvent]:
    """Judge an array's tasks one by one (`aftercorr`): each that is decided goes its own way.

    All together stay one record if the same has become of them.
    """
    if job.job_id in ends.decided:
        return []
    pending = ends.pending(job)
    tasks = list(_concerned(cluster, job, ends, cause))
    states = {task_id: judge(cluster, job, ends, now_us, task_id) for task_id in tasks}
    decided = {
        task_id: result
        for task_id, result in states.items()
        if result[1] or result[0] != job.dependencies
    }
    count = task_ranges.count(pending)
    results = list(decided.values())
    if len(decided) == count > 1 and all(result == results[0] for result in results):
        ends.decided.add(job.job_id)
        return _follow(job, job.job_id, results[0], now_us)
    events: list[ev.AnyEvent] = []
    for task_id, result in decided.items():
        # The last task keeps the record.
        job_id = ends.new_job_id(cluster) if count > 1 else job.job_id
        if count > 1:
            pending = ends.left[job.job_id] = task_ranges.remove(pending, task_id)
        else:
            ends.decided.add(job.job_id)
        count -= 1
        events.append(ev.ArrayTaskSplit(now_us, job.job_id, task_id, job_id))
        events += _follow(job, job_id, result, now_us)
    return events


def _concerned(cluster: Cluster, job: Job, ends: Ends, cause: Job | None) -> Iterable[int]:
    """Return which of an array's waiting tasks the end of another job may have decided."""
    if cause is not None and cause.array_task_id != NO_VAL:
        is_theirs = [
            term.kind == "aftercorr" and term.job_id == cause.array_job_id
            for term in job.dependencies
        ]
        if any(is_theirs) and any(
            _has_open(cluster, term, len(ends.states))
            for term, theirs in zip(job.dependencies, is_theirs, strict=True)
            if theirs
        ):
            is_waiting = task_ranges.contains(ends.pending(job), cause.array_task_id)
            return (cause.array_task_id,) if is_waiting else ()
    return task_ranges.tasks(ends.pending(job))


def _changed(
    job: Job, job_id: int, open_dependencies: tuple[Dependency, ...], now_us: int, is_never: bool
) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = [
        ev.DependencyChanged(
            time_us=now_us,
            job_id=job_id,
            dependencies=open_dependencies,
            dependency_any=job.dependency_any,
            never_satisfied=is_never,
        )
    ]
    if not open_dependencies and job.begin_us <= now_us:
        events.append(ev.JobEligible(time_us=now_us, job_id=job_id))
    return events


def term_state(
    cluster: Cluster, job: Job, term: Dependency, ends: Ends, now_us: int, task_id: int = NO_VAL
) -> int:
    """Return whether one term of `job`, or of one of its tasks, is OPEN, MET or can NEVER be."""
    if term.kind == "singleton":
        return OPEN if _oldest_namesake(cluster, job, ends) < job.job_id else MET
    if term.kind == "aftercorr":
        term = _corresponding(cluster, term, job.array_task_id if task_id == NO_VAL else task_id)
        if job.array_pending and task_id == NO_VAL:
            return OPEN  # each task is judged alone
    # Many jobs may wait for the same, and that may be an array of many tasks.
    key = (term.kind, term.job_id, term.task_id, term.delay_min)
    state = ends.seen.get(key)
    if state is None:
        state = ends.seen[key] = _state_of_targets(cluster, term, ends, now_us)
    return state


def _state_of_targets(cluster: Cluster, term: Dependency, ends: Ends, now_us: int) -> int:
    """Return whether what a term speaks of makes it OPEN, MET or NEVER possible."""
    targets = _targets(cluster, term, ends)
    if targets is None:
        return OPEN  # tasks of the array still wait to be split off
    if not targets:
        # Gone from memory: it ended long ago. Only its success is no longer known.
        return NEVER if term.kind in ("afterok", "afternotok") else MET
    states = [ends.states.get(target.job_id, JobState(target.state)) for target in targets]
    if term.kind == "after":
        return _started_state(targets, states, term, now_us)
    is_over = [
        state in TERMINAL_STATES and (target.job_id in ends.states or not is_completing(target))
        for target, state in zip(targets, states, strict=True)
    ]
    if term.kind == "afterburstbuffer" and any(_has_stage_out(cluster, job) for job in targets):
        return OPEN
    if term.kind == "afterok" and any(
        over and state != JobState.COMPLETED for over, state in zip(is_over, states, strict=True)
    ):
        return NEVER
    if not all(is_over):
        return OPEN
    if term.kind == "afternotok":
        failed = any(state != JobState.COMPLETED for state in states)
        return MET if failed else NEVER
    return MET


def _has_stage_out(cluster: Cluster, job: Job) -> bool:
    """Return whether a job's files may still have to be copied away."""
    buffer = cluster.buffers.get(job.job_id)
    return buffer is not None and buffer.state < BufferState.TEARDOWN


def _corresponding(cluster: Cluster, term: Dependency, task_id: int) -> Dependency:
    """Return what `aftercorr` means for a task: success of the task with the same index. If the
    other array has no such task, or this is no task, success of the whole array.
    """
    alone = structs.replace(term, kind="afterok", task_id=task_id)
    if term.task_id == NO_VAL and task_id != NO_VAL and exists(cluster, alone):
        return alone
    return structs.replace(term, kind="afterok")


def _targets(cluster: Cluster, term: Dependency, ends: Ends) -> list[Job] | None:
    """Return the jobs a term speaks of; None while some of its tasks only exist as a range."""
    head = cluster.jobs.get(term.job_id)
    if term.task_id != NO_VAL:
        job_id = cluster.job_index.arrays.get(term.job_id, {}).get(term.task_id)
        alone = ends.tasks.get((term.job_id, term.task_id))
        if alone is None and job_id is not None:
            alone = cluster.jobs[job_id]
        if alone is not None:
            return [alone]
        if head is not None and task_ranges.contains(head.array_pending, term.task_id):
            return [head]
        return None if head is not None and head.array_pending else []
    tasks = cluster.job_index.arrays.get(term.job_id)
    targets = [cluster.jobs[job_id] for job_id in tasks.values()] if tasks else []
    if head is not None:
        is_over = head.state != JobState.PENDING or head.job_id in ends.states
        if head.array_pending and not is_over:
            return None
        if head not in targets:
            targets.append(head)
    return targets


def _started_state(
    targets: Iterable[Job], states: list[JobState], term: Dependency, now_us: int
) -> int:
    for target, state in zip(targets, states, strict=True):
        if state == JobState.PENDING:
            return OPEN
        began_us = target.start_us or target.end_us
        if term.delay_min and now_us < (began_us or now_us) + term.delay_min * MINUTE_US:
            return OPEN
    return MET


def _oldest_namesake(cluster: Cluster, job: Job, ends: Ends) -> int:
    """Return the lowest id of this user's jobs of this name that are not over."""
    key = (job.uid, job.request.name)
    oldest = ends.seen.get(key)
    if oldest is None:
        oldest = ends.seen[key] = min(
            (
                other_id
                for other_id in cluster.job_index.by_user.get(job.uid, {})
                if _is_namesake(cluster.jobs[other_id], job)
                and ends.states.get(other_id) not in TERMINAL_STATES
            ),
            default=NO_VAL,
        )
    return oldest


def _is_namesake(other: Job, job: Job) -> bool:
    if other.request.name != job.request.name:
        return False
    return other.state not in TERMINAL_STATES or is_completing(other)
