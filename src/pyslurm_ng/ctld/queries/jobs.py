"""ShowJobs and ShowSteps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import astuple, replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.hostlist import fold_numbers
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.queries.job_fields import (
    BRIEF,
    DETAIL,
    SOFT,
    SoftValues,
    Values,
    brief_values,
    detail_values,
    nodes_text,
    soft_values,
)
from pyslurm_ng.ctld.records import RecordCache, array_head, elements
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import amounts
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, Step
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState
from pyslurm_ng.sched.frame.policy import exempt_s
from pyslurm_ng.wire.query_messages import GetBatchScript, JobFilter, Records, ShowJobs, ShowSteps

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller

Tails: TypeAlias = dict[SoftValues, bytes]
_BRIEF_HEAD = array_head(len(BRIEF) + len(SOFT))
_DETAIL_HEAD = array_head(len(BRIEF) + len(DETAIL) + len(SOFT))
BRIEF_FIELDS = [*BRIEF, *SOFT]
DETAIL_FIELDS = [*BRIEF, *DETAIL, *SOFT]


def show_jobs(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowJobs,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return the records of the jobs that agree with the filters and that the caller may see."""
    detailed = bool(request.flags & SHOW_DETAIL)
    audience = Audience(cluster, conf, caller, show_all=bool(request.flags & SHOW_ALL))
    if _wants_live(request, audience):
        records = b"".join(live_records(cluster, soft).values())
    else:
        parts = _selected(cluster, request, audience, now_us)
        if isinstance(parts, Reject):
            return parts
        tracked = conf.tracked_tres() if detailed else ()
        records = b"".join(_records(cluster, soft, parts, tracked, detailed, exempt_s(conf)))
    return Records(
        now_us=now_us,
        fields=DETAIL_FIELDS if detailed else BRIEF_FIELDS,
        records=records,
        cluster_name=cluster.cluster_name,
        last_update_us=cluster.time_us,
        next_job=_next_page(cluster, request, audience),
    )


# What squeue asks for when no option says otherwise.
_LIVE_FLAGS = JobFlag.COMPLETING | JobFlag.STAGE_OUT
_LIVE_FILTERS = (JobFilter(states=[0, 1, 2], state_flags=int(_LIVE_FLAGS)),)


def _wants_live(request: ShowJobs, audience: Audience) -> bool:
    is_brief = not (request.flags & SHOW_DETAIL or request.most)
    return is_brief and audience.sees_all_jobs and request.filter in _LIVE_FILTERS


def packing(
    cluster: Cluster, soft: Soft, conf: SlurmConf, request: ShowJobs, caller: Caller
) -> Iterator[None] | None:
    """Return what to do, some for each `yield`, before `show_jobs` can answer without delay.

    None: hardly anything, or what is asked for is narrow.
    """
    cache = soft.records
    audience = Audience(cluster, conf, caller, show_all=bool(request.flags & SHOW_ALL))
    if _wants_live(request, audience):
        live = len(cache.stale) if cache.live_generation >= 0 else len(cluster.jobs)
        return _catch_up(cluster, soft) if live > _MANY_WAITING else None
    detailed = bool(request.flags & SHOW_DETAIL)
    if len(cluster.jobs) <= (_DETAILED_SLICE if detailed else _MANY_WAITING):
        return None
    if request.filter.jobs:
        return _pack_named(cluster, soft, conf, request.filter.jobs, detailed=detailed)
    if _candidate_count(cluster, request) <= (_DETAILED_SLICE if detailed else _MANY_WAITING):
        return None
    return _pack_wanted(cluster, soft, conf, request, audience, detailed=detailed)


def _catch_up(cluster: Cluster, soft: Soft) -> Iterator[None]:
    """Pack what `live_records` lacks."""
    cache = soft.records
    _begin_live(cluster, soft)
    tails: Tails = {}
    while len(cache.stale) > _SLICE:
        stale_ids = [*islice(cache.stale, _SLICE)]
        for job_id in stale_ids:
            del cache.stale[job_id]
        _pack_live(cluster, soft, stale_ids, tails)
        yield


def _pack_named(
    cluster: Cluster, soft: Soft, conf: SlurmConf, texts: Sequence[str], *, detailed: bool
) -> Iterator[None] | None:
    """Pack the records of the jobs that ids name, which may be all tasks of an array."""

    def work() -> Iterator[None]:
        named = job_filter.JobFinder(cluster).several(texts)
        if isinstance(named, Reject):
            return
        job_ids = [job.job_id for job, _ in named[0]]
        yield
        yield from _pack_all(cluster, soft, conf, job_ids, detailed=detailed)

    if len(texts) <= _FEW_IDS:
        named = job_filter.JobFinder(cluster).several(texts)
        if isinstance(named, Reject) or len(named[0]) <= _DETAILED_SLICE:
            return None
    return work()


def _pack_wanted(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowJobs,
    audience: Audience,
    *,
    detailed: bool,
) -> Iterator[None]:
    """Pack the records of the jobs that can agree, which are listed only once it is their turn.

    A user may let thousands of these wait, and each list would be as long as the job table.
    """
    job_ids = [job.job_id for job in _candidates(cluster, request, audience)]
    yield from _pack_all(cluster, soft, conf, job_ids, detailed=detailed)


def _pack_all(
    cluster: Cluster, soft: Soft, conf: SlurmConf, job_ids: Sequence[int], *, detailed: bool
) -> Iterator[None]:
    """Pack the records of many jobs."""
    tracked = conf.tracked_tres() if detailed else ()
    size = _DETAILED_SLICE if detailed else _SLICE
    for first in range(0, len(job_ids), size):
        jobs = (cluster.jobs.get(job_id) for job_id in job_ids[first : first + size])
        parts: list[job_filter.Part] = [(job, ()) for job in jobs if job is not None]
        for _ in _records(cluster, soft, parts, tracked, detailed, exempt_s(conf)):
            pass
        yield


# With so many waiting jobs, the fields that a pass sets are packed again between other work, not
# for a request: it takes 1.6 us a job.
_MANY_WAITING = 2000
_SLICE = 1500  # brief records packed in one go: 10 ms, or a fifth of that after a pass
_DETAILED_SLICE = 300
_FEW_IDS = 16  # found twice in no time
_NONE: Mapping[int, object] = {}
_LONGEST_GAP = 1000  # ids without a job that are counted through before all jobs are looked at


def live_records(cluster: Cluster, soft: Soft) -> dict[int, bytes]:
    """Return the brief records of all jobs that are not over.

    Between scheduling passes only jobs that changed are packed again; after one, all that wait,
    since their priorities and reasons are new. Where many wait, `refresh_live` does that.
    """
    cache = soft.records
    _begin_live(cluster, soft)
    if (
        cache.live_generation != soft.plan_generation
        and len(cluster.job_index.pending) <= _MANY_WAITING
    ):
        cache.stale.update(cluster.job_index.pending)
        cache.live_generation = soft.plan_generation
    stale, cache.stale = cache.stale, {}
    _pack_live(cluster, soft, stale, {})
    return cache.live


def _begin_live(cluster: Cluster, soft: Soft) -> None:
    cache = soft.records
    if cache.live_generation < 0:
        cache.live.clear()
        index = cluster.job_index
        cache.stale = dict.fromkeys((*index.pending, *index.active, *cluster.buffers))
        cache.live_generation = soft.plan_generation


def is_live_behind(cluster: Cluster, soft: Soft) -> bool:
    """Return whether a listing that was asked for has many records of an earlier pass."""
    is_known = soft.records.live_generation in (-1, soft.plan_generation)
    return not is_known and len(cluster.job_index.pending) > _MANY_WAITING


def refresh_live(cluster: Cluster, soft: Soft) -> Iterator[None]:
    """Pack the records of many waiting jobs again after a pass, some for each `yield`.

    Until it is through, some records are of this pass and others of one before.
    """
    cache, generation = soft.records, soft.plan_generation
    if not is_live_behind(cluster, soft):
        return
    waiting = [*cluster.job_index.pending]
    tails: Tails = {}
    for first in range(0, len(waiting), _SLICE):
        if cache.live_generation < 0:
            return  # it is made again as a whole
        _pack_live(cluster, soft, waiting[first : first + _SLICE], tails)
        yield
    cache.live_generation = generation


def _pack_live(cluster: Cluster, soft: Soft, stale: Iterable[int], tails: Tails) -> None:
    """Bring records up to date; `tails` keeps their equal parts."""
    cache = soft.records
    live, fixed_parts = cache.live, cache.jobs
    for job_id in stale:
        job = cluster.jobs.get(job_id)
        if job is None or (job_id in cluster.job_index.ended and not job.flags & _LIVE_FLAGS):
            live.pop(job_id, None)
            continue
        try:
            fixed = fixed_parts.get(job_id)
            if fixed is None:
                fixed = fixed_parts[job_id] = _BRIEF_HEAD + _packed(brief_values(cluster, job, ()))
            values = soft_values(cluster, soft, job)
            tail = tails.get(values)
            if tail is None:
                tail = tails[values] = elements(astuple(values))
            live[job_id] = fixed + tail
        except Exception as error:  # noqa: BLE001 - all others are listed
            live.pop(job_id, None)
            soft.spared(f"job {job_id} is not listed", error)


def _packed(values: Values) -> bytes:
    return elements(tuple(values.values()))


def _selected(
    cluster: Cluster, request: ShowJobs, audience: Audience, now_us: int
) -> Iterable[job_filter.Part] | Reject:
    criteria = request.filter
    test = job_filter.agrees(cluster, criteria, now_us)
    if isinstance(test, Reject):
        return test
    if criteria.jobs:
        named = job_filter.JobFinder(cluster).several(criteria.jobs)
        if isinstance(named, Reject):
            return named
        parts, unknown = named
        seen = [(job, tasks) for job, tasks in parts if audience.sees_job(job)]
        # Slurm asks for one job by its id, and chooses several out of all, where none may be left.
        # A job that is hidden from the caller is as unknown as one that is not there.
        if not seen and len(criteria.jobs) == 1 and not request.strict:
            if not _is_part_of_known(cluster, criteria.jobs[0], audience):
                return Reject(Errno.ESLURM_INVALID_JOB_ID)
        elif request.strict and (unknown or (parts and not seen)):
            return Reject(Errno.ESLURM_INVALID_JOB_ID)
        return [(job, tasks) for job, tasks in seen if test(job)]
    jobs = _candidates(cluster, request, audience)
    no_test = test is job_filter.everyone
    if audience.sees_all_jobs:
        return ((job, ()) for job in jobs if no_test or test(job))
    return ((job, ()) for job in jobs if test(job) and audience.sees_job(job))


def _is_part_of_known(cluster: Cluster, text: str, audience: Audience) -> bool:
    """Return whether an id names a task or component that is not there, of a job that is."""
    try:
        name = parse_job_id(text)
    except JobIdError:
        return False
    if not name.tasks and name.het_offset < 0:
        return False
    whole = job_filter.find_jobs(cluster, str(name.job_id))
    return any(audience.sees_job(job) for job, _ in whole)


def _candidates(cluster: Cluster, request: ShowJobs, audience: Audience) -> Iterator[Job]:
    """Return the jobs that can agree, by the narrowest index."""
    jobs = cluster.jobs
    if request.most:
        return (jobs[job_id] for job_id in _page(cluster, request, audience))
    return (jobs[job_id] for part in _narrowest(cluster, request.filter) for job_id in part)


Ids: TypeAlias = Mapping[int, object]


def _narrowest(cluster: Cluster, criteria: JobFilter) -> list[Ids]:
    """Return the ids among which all jobs are that agree: of users, of states or of all."""
    of_all: list[Ids] = [cluster.jobs]
    choices = (_of_users(cluster, criteria), _of_states(cluster, criteria), of_all)
    return min((parts for parts in choices if parts), key=lambda parts: sum(map(len, parts)))


def _of_users(cluster: Cluster, criteria: JobFilter) -> list[Ids]:
    of_user = cluster.job_index.by_user
    return [of_user.get(uid, _NONE) for uid in criteria.uids]


def _of_states(cluster: Cluster, criteria: JobFilter) -> list[Ids]:
    """Return the ids of wanted base states; [] if other jobs may be wanted, too.

    Few run where a million wait, so `squeue -t R` must not look at each.
    """
    if criteria.all_states or criteria.state_flags:
        return []
    index, parts = cluster.job_index, list[Ids]()
    states = set(criteria.states)
    if JobState.PENDING in states:
        parts.append(index.pending)
    if states & TERMINAL_STATES:
        parts.append(index.ended)
    if states - TERMINAL_STATES - {JobState.PENDING}:
        parts.append(index.active)
    return parts


def _candidate_count(cluster: Cluster, request: ShowJobs) -> int:
    """Return how many `_candidates` there are, or how many there may be on a page."""
    count = sum(map(len, _narrowest(cluster, request.filter)))
    return min(count, request.most) if request.most else count


def _page(cluster: Cluster, request: ShowJobs, audience: Audience) -> list[int]:
    """Return the lowest ids above `after_job` of jobs that the caller may see, `most` of them.

    They are found by counting up, since most ids of a long list are next to each other. An id that
    is hidden is as one that is missing: the caller learns where the next page begins.
    """
    jobs, most, at = cluster.jobs, request.most, request.after_job
    sees = None if audience.sees_all_jobs else audience.sees_job
    if request.filter.uids:
        of_users = {i for ids in _of_users(cluster, request.filter) for i in ids if i > at}
        return nsmallest(most, (i for i in of_users if sees is None or sees(jobs[i])))
    page: list[int] = []
    missing = 0
    while len(page) < most:
        at += 1
        if at in jobs and (sees is None or sees(jobs[at])):
            page.append(at)
            missing = 0
        elif missing == _LONGEST_GAP:
            rest = (i for i in jobs if i > at and (sees is None or sees(jobs[i])))
            return page + nsmallest(most - len(page), rest)
        else:
            missing += 1
    return page


def _next_page(cluster: Cluster, request: ShowJobs, audience: Audience) -> int:
    """Return the id after which the next page begins; 0 where there is none."""
    if not request.most or request.filter.jobs:
        return 0
    page = _page(cluster, request, audience)
    return page[-1] if len(page) == request.most else 0


def _records(
    cluster: Cluster,
    soft: Soft,
    parts: Iterable[job_filter.Part],
    tracked: tuple[str, ...],
    detailed: bool,
    exempt_s: int,
) -> Iterator[bytes]:
    cache: RecordCache = soft.records
    kept = cache.job_details if detailed else cache.jobs
    cache.begin_pass(soft.plan_generation)
    tails = cache.tails
    for job, tasks in parts:
        try:
            fixed = None if tasks else kept.get(job.job_id)
            if fixed is None:
                values = brief_values(cluster, job, tasks)
                head = _BRIEF_HEAD
                if detailed:
                    values |= detail_values(cluster, job, tracked, exempt_s)
                    head = _DETAIL_HEAD
                fixed = head + _packed(values)
                if not tasks:
                    kept[job.job_id] = fixed
            tail = tails.get(job.job_id)
            if tail is None:
                tail = tails[job.job_id] = elements(astuple(soft_values(cluster, soft, job)))
        except Exception as error:  # noqa: BLE001 - all others are listed
            soft.spared(f"job {job.job_id} is not listed", error)
            continue
        yield fixed
        yield tail


STEP_FIELDS = [
    "job_id",
    "array_job_id",
    "array_task_id",
    "het_job_id",
    "het_offset",
    "user_id",
    "user_name",
    "partition",
    "step_id",
    "name",
    "state",
    "start_us",
    "suspended_us",
    "time_limit_min",
    "node_count",
    "cpus",
    "tasks",
    "nodes",
    "tres",
    "distribution",
    "srun_host",
    "srun_pid",
    "network",
    "cpus_per_task",
    "tres_per_node",
    "std_in",
    "std_out",
    "std_err",
    "submit_line",
    "container",
    "container_id",
    "cwd",
    "ports",
    "sluid",
]


def show_steps(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowSteps,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return the records of running steps; a name may be that of the step or of its job."""
    names = frozenset(name.lower() for name in request.filter.names)
    of_any_name = replace(request.filter, names=[])
    test = job_filter.agrees(cluster, of_any_name, now_us)
    if isinstance(test, Reject):
        return test
    audience = Audience(cluster, conf, caller, show_all=bool(request.flags & SHOW_ALL))
    asked_for = _steps_asked_for(cluster, request.steps)
    if isinstance(asked_for, Reject):
        return asked_for
    if request.filter.jobs:
        named = job_filter.JobFinder(cluster).several(request.filter.jobs)
        if isinstance(named, Reject):
            return named
        job_ids = {job.job_id for job, _ in named[0]}
        asked_for = {job_id: asked_for[job_id] for job_id in asked_for if job_id in job_ids}
    on_nodes = job_filter.node_ids(cluster, request.filter.nodes)
    if isinstance(on_nodes, Reject):
        return on_nodes
    tracked = conf.tracked_tres()
    records = []
    for job_id, step_ids in asked_for.items():
        job = cluster.jobs[job_id]
        if job.flags & JobFlag.COMPLETING or not (test(job) and audience.sees_job(job)):
            continue
        for step in _steps_in_order(job):
            if -1 not in step_ids and step.step_id not in step_ids:
                continue
            if names and names.isdisjoint((step.name.lower(), job.request.name.lower())):
                continue
            if on_nodes and not any(alloc.node_id in on_nodes for alloc in step.nodes):
                continue
            try:
                records.append(elements_of_step(cluster, job, step, tracked, now_us))
            except Exception as error:  # noqa: BLE001 - all others are listed
                soft.spared(f"step {step.step_id} of job {job.job_id} is not listed", error)
    return Records(
        now_us=now_us,
        fields=STEP_FIELDS,
        records=b"".join(records),
        cluster_name=cluster.cluster_name,
        last_update_us=cluster.time_us,
    )


def _steps_asked_for(cluster: Cluster, texts: list[str]) -> dict[int, set[int]] | Reject:
    """Return by job which of its steps are meant, -1 for all; each once, however often named."""
    if not texts:
        return {job_id: {-1} for job_id in cluster.job_index.active}
    finder = job_filter.JobFinder(cluster)
    steps: dict[int, set[int]] = {}
    for text in texts:
        try:
            name = parse_job_id(text)
        except JobIdError:
            return Reject(Errno.ESLURM_INVALID_JOB_ID)
        for job, _ in finder.find(name):
            steps.setdefault(job.job_id, set()).add(name.step)
    return finder.refusal if finder.is_over else steps


def _steps_in_order(job: Job) -> list[Step]:
    """Return the steps with those that srun did not make first, as scontrol lists them."""
    return sorted(job.steps.values(), key=lambda step: (step.step_id < STEP_BATCH, step.step_id))


def elements_of_step(
    cluster: Cluster, job: Job, step: Step, tracked: tuple[str, ...], now_us: int
) -> bytes:
    """Return one packed step record; a suspension that lasts is in its time without running."""
    pause_us = max(0, now_us - job.suspend_us) if job.state == JobState.SUSPENDED else 0
    is_own = step.step_id < STEP_BATCH
    allocated = amounts.allocated_tres(step.nodes, tracked, None) if is_own else {}
    values = (
        job.job_id,
        job.array_job_id,
        job.array_task_id,
        job.het_job_id,
        job.het_offset,
        job.uid,
        job.user_name,
        job.partition,
        step.step_id,
        step.name,
        step.state,
        step.start_us or step.created_us,
        step.suspended_us + pause_us,
        step.time_limit_min,
        len(step.nodes),
        step.cpus if is_own else 0,
        step.ntasks,
        nodes_text(cluster, step.nodes),
        format_tres(allocated, alphabetical=True),
        step.distribution,
        step.srun_host,
        step.srun_pid,
        step.network,
        step.cpus_per_task,
        step.tres_per_node,
        step.std_in,
        step.std_out,
        step.std_err,
        step.submit_line,
        step.container,
        step.container_id,
        step.cwd,
        fold_numbers(step.ports),
        sluid_text(job.sluid),
    )
    assert len(values) == len(STEP_FIELDS)
    return array_head(len(values)) + elements(values)


def script_of(
    cluster: Cluster, request: GetBatchScript, caller: Caller
) -> tuple[int, str] | Reject:
    """Return the id and the script's hash of a job whose script the caller may read."""
    parts = job_filter.find_jobs(cluster, request.job)
    if not parts:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    job = parts[0][0]
    if job.uid != caller.uid and not caller.is_operator:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if not job.script_hash:
        return Reject(Errno.ESLURM_JOB_SCRIPT_MISSING)
    return job.job_id, job.script_hash
