"""What follows from the passing of time alone; called about once a second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_SIGNAL_BATCH,
    SECOND_US,
    SIGNAL_BATCH_ONLY,
    SIGNAL_STEPS_ONLY,
    SIGNAL_TIME_LIMIT,
)
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.calendar import UTC, Calendar
from pyslurm_ng.ctld.rules.crontabs import repeat
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.nodes import power, reboots, silence
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it, sparing
from pyslurm_ng.ctld.rules.starts import gang, preempt
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing, limit_end_us
from pyslurm_ng.model.states import JobState, NodeFlag, NodeState, Reason
from pyslurm_ng.sched.frame.answers import answers
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.policy import over_run_us
from pyslurm_ng.sched.frame.reserved import cut_of_us

MARK_WARNED = 1  # bit of Job.time_signalled: the --signal warning was sent
_PURGE_AT_ONCE = 10_000


def due(
    cluster: Cluster,
    conf: SlurmConf,
    last_seen_us: Mapping[int, int],
    now_us: int,
    limited: Iterable[int] | None = None,
    run_out: Collection[int] = (),
    spared: Spared = raise_it,
    dependent: Collection[int] | None = None,
    calendar: Calendar = UTC,
) -> list[ev.AnyEvent]:
    """Return what time has brought about; the rest when asked again in a second.

    Kinds of events that could touch the same job or number the same duties are never in one
    answer: each is decided against the state that the one before left.

    Args:
        last_seen_us: when each node was last heard of; soft state.
        limited: the jobs whose time may be over, from `LimitIndex`; None: look at all.
        run_out: the jobs whose association or QOS has no minutes left, from `UsageIndex`.
        dependent: the jobs of which time may have settled a dependency, from `DependencyIndex`;
            None: look at all.
        spared: is told of jobs and nodes about which a rule raises; without, that is raised.
    """

    def each_job(
        rule: Callable[[Collection[int]], Sequence[ev.AnyEvent]], job_ids: Collection[int]
    ) -> Sequence[ev.AnyEvent]:
        return sparing("job", rule, job_ids, spared)

    def limits(job_ids: Collection[int]) -> list[ev.AnyEvent]:
        return time_limits(cluster, conf, now_us, job_ids, frozenset(run_out).intersection(job_ids))

    def silent(nodes: Collection[int]) -> list[ev.AnyEvent]:
        seen_us = last_seen_us
        if len(nodes) < len(last_seen_us):
            seen_us = {node_id: last_seen_us[node_id] for node_id in nodes}
        return silence.silent_nodes(cluster, conf, seen_us, now_us)

    def whole(name: str, rule: Callable[[], Sequence[ev.AnyEvent]]) -> Sequence[ev.AnyEvent]:
        try:
            return rule()
        except Exception as error:  # noqa: BLE001 - the next second may bring something better
            spared(name, error)
            return []

    dependents = cluster.job_index.ineligible if dependent is None else dependent
    limit_jobs = (*(cluster.job_index.active if limited is None else limited), *run_out)
    kinds: tuple[Callable[[], Sequence[ev.AnyEvent]], ...] = (
        lambda: each_job(partial(dependency.due, cluster, now_us), dependents),
        lambda: each_job(partial(deadlines, cluster, now_us), cluster.job_index.with_deadline),
        lambda: sparing("node", silent, last_seen_us.keys(), spared),
        lambda: each_job(limits, limit_jobs),
        lambda: each_job(partial(preempt.grace_over, cluster, now_us), cluster.job_index.leaving),
        lambda: whole("resumed jobs", lambda: preempt.resumed(cluster, now_us)),
        lambda: whole("time slices", lambda: gang.turns(cluster, gang.slice_s(conf), now_us)),
        lambda: whole("power", lambda: _power(cluster, conf, now_us)),
        lambda: whole("crontabs", lambda: repeat.due(cluster, conf, now_us, calendar)),
    )
    # A kind that has something to say every second must not keep the others from being heard.
    turn = now_us // SECOND_US % len(kinds)
    events: Sequence[ev.AnyEvent] = ()
    for kind in (*kinds[turn:], *kinds[:turn]):
        events = kind()
        if events:
            break
    else:
        events = whole("ResumeAfter", lambda: resume_after(cluster, now_us))
    begun = each_job(partial(begin_times, cluster, now_us), cluster.job_index.ineligible)
    return [*begun, *events, *whole("old jobs", lambda: purge(cluster, conf, now_us))]


def _power(cluster: Cluster, conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    return reboots.due(cluster, conf, now_us) or power.due(cluster, conf, now_us)


def begin_times(cluster: Cluster, now_us: int, job_ids: Iterable[int]) -> list[ev.AnyEvent]:
    """Return JobEligible for jobs whose begin time has come and whose dependencies are met.

    A job waits on while an earlier run of it may go on somewhere.
    """
    events: list[ev.AnyEvent] = []
    for job_id in job_ids:
        job = cluster.jobs[job_id]
        is_held = job.priority == 0
        if job.begin_us > now_us or job.dependencies or is_held:
            continue
        if not job.waits_for_proof:
            events.append(ev.JobEligible(time_us=now_us, job_id=job_id))
        elif job.reason != Reason.Cleaning:
            events.append(ev.JobUpdated(now_us, job_id, {"reason": int(Reason.Cleaning)}))
    return events


def end_limit_us(cluster: Cluster, conf: SlurmConf, job: Job) -> int:
    """Return when a running job's time is over, OverTimeLimit included; 0 for never."""
    end_us = limit_end_us(job)
    if not end_us:
        return 0
    partition = cluster.partitions.get(job.partition)
    over_min = partition.over_time_limit_min if partition else NO_VAL
    if over_min == NO_VAL:
        over_min = conf.over_time_limit or 0
    if over_min == INFINITE:
        return 0
    return end_us + over_min * 60 * SECOND_US


def over_at_us(cluster: Cluster, conf: SlurmConf, job: Job) -> int:
    """Return when a running job is ended at the latest, by its limit or its reservation's end."""
    end_us = end_limit_us(cluster, conf, job)
    if job.reservation:
        cut_us = cut_of_us(cluster, job, over_run_us(conf))
        if cut_us < (end_us or NO_END_US):
            return cut_us
    return end_us


def deadlines(cluster: Cluster, now_us: int, job_ids: Iterable[int]) -> list[ev.AnyEvent]:
    """Return the ends of waiting jobs that can no longer be over before their deadline."""
    events: list[ev.AnyEvent] = []
    for job_id in job_ids:
        job = cluster.jobs[job_id]
        limit_min = job.request.time_min_min
        if limit_min in (0, INFINITE, NO_VAL):
            # A default limit is cut to the remaining time.
            limit_min = 1 if job.request.time_limit_min == NO_VAL else job.time_limit_min
        run_us = 0 if limit_min in (INFINITE, NO_VAL) else limit_min * 60 * SECOND_US
        if now_us + run_us <= job.request.deadline_us:
            continue
        events.append(
            ev.JobEnded(
                time_us=now_us,
                job_id=job_id,
                state=JobState.DEADLINE,
                exit_code=1,
                reason=Reason.DeadLine,
            )
        )
        events += dependency.after_end(cluster, job, JobState.DEADLINE, 1, now_us)
        break  # what follows may have ended another of them; the next one has its turn in a second
    return events


def limit_moments_us(cluster: Cluster, conf: SlurmConf, job: Job) -> list[int]:
    """Return the next time at which `time_limits` may return an event about a job."""
    if is_completing(job) or job.state != JobState.RUNNING:
        return []
    moments = [job.request.deadline_us] if job.request.deadline_us else []
    end_us = end_limit_us(cluster, conf, job)
    if end_us:
        moments.append(end_us)
    if job.request.signal and not job.time_signalled & MARK_WARNED:
        over_us = over_at_us(cluster, conf, job)
        if over_us:
            moments.append(_warning_us(job, over_us))
    return moments


def time_limits(
    cluster: Cluster,
    conf: SlurmConf,
    now_us: int,
    limited: Iterable[int] | None = None,
    run_out: Collection[int] = (),
) -> list[ev.AnyEvent]:
    """Return warnings (--signal) and ends of jobs that run past their limit or deadline.

    Args:
        limited: jobs to look at; None: all.
        run_out: running jobs that end now because their TRES-minutes are used up, as at their time
        limit.
    """
    events: list[ev.AnyEvent] = []
    ended: list[tuple[Job, JobState]] = []
    duty_id = cluster.next_duty_id
    spent = frozenset(run_out)
    for job_id in dict.fromkeys(
        (*(cluster.job_index.active if limited is None else limited), *run_out)
    ):
        if job_id not in cluster.job_index.active:
            continue
        job = cluster.jobs[job_id]
        if is_completing(job) or job.state != JobState.RUNNING:
            continue
        deadline_us = job.request.deadline_us
        if deadline_us and now_us >= deadline_us:
            state, reason = JobState.DEADLINE, Reason.DeadLine
        elif job_id in spent:
            state, reason = JobState.TIMEOUT, Reason.TimeLimit
        else:
            end_us = end_limit_us(cluster, conf, job)
            if not end_us or now_us < end_us:
                warning = _warning(job, over_at_us(cluster, conf, job), now_us, duty_id)
                if warning is not None:
                    events.append(warning)
                    duty_id += len(job.nodes)
                continue
            state, reason = JobState.TIMEOUT, Reason.TimeLimit
        events += job_end.complete(
            cluster,
            job,
            job_end.End(state, reason=reason, duty_flags=SIGNAL_TIME_LIMIT),
            now_us,
            first_duty_id=duty_id,
            ended_jobs=ended,
        )
        duty_id += len(job.nodes)
    return events + dependency.after_ends(cluster, ended, now_us)


def _warning_us(job: Job, end_us: int) -> int:
    return end_us - job.request.signal_before_s * SECOND_US


def _warning(job: Job, end_us: int, now_us: int, duty_id: int) -> ev.JobSignalled | None:
    request = job.request
    if not end_us or not request.signal or job.time_signalled & MARK_WARNED:
        return None
    if now_us < _warning_us(job, end_us):
        return None
    to_script = bool(request.flags & REQ_SIGNAL_BATCH)
    return ev.JobSignalled(
        time_us=now_us,
        job_id=job.job_id,
        signal=request.signal,
        flags=SIGNAL_BATCH_ONLY if to_script else SIGNAL_STEPS_ONLY,
        step_id=-1,
        first_duty_id=duty_id,
        marks=MARK_WARNED,
        node_ids=(job.batch_node_id,) if to_script else (),
    )


def resuming(cluster: Cluster) -> tuple[int, ...]:
    """Return the nodes that have a ResumeAfter time."""
    kept = answers(cluster)
    node_ids = kept.get("resuming")
    if not isinstance(node_ids, tuple):
        node_ids = tuple(node.node_id for node in cluster.living_nodes() if node.resume_after_us)
        kept["resuming"] = node_ids
    return node_ids


def resume_after(cluster: Cluster, now_us: int) -> list[ev.AnyEvent]:
    """Return the events of nodes that return after their ResumeAfter time."""
    events: list[ev.AnyEvent] = []
    for node in cluster.nodes_of(resuming(cluster)):
        if node.resume_after_us > now_us:
            continue
        flags = node.flags & ~(NodeFlag.DRAIN | NodeFlag.FAIL)
        events.append(
            ev.NodeUpdated(
                time_us=now_us,
                node_ids=(node.node_id,),
                fields={"flags": flags, "reason": "", "resume_after_us": 0},
            )
        )
        if node.state == NodeState.DOWN:
            events.append(ev.NodesReturned(time_us=now_us, node_ids=(node.node_id,)))
    return events


def purge(cluster: Cluster, conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    """Return JobPurged for ended jobs older than MinJobAge that no waiting job depends on."""
    age_us = conf.min_job_age * SECOND_US
    if not age_us:
        return []
    old_ids: list[int] = []
    for job_id in cluster.job_index.ended:
        job = cluster.jobs[job_id]
        if job.end_us > now_us - age_us or len(old_ids) >= _PURGE_AT_ONCE:
            break
        waited_for = (
            job_id in cluster.job_index.dependents
            or job.array_job_id in cluster.job_index.dependents
        )
        buffer = cluster.buffers.get(job_id)
        has_buffer = buffer is not None and buffer.state != BufferState.COMPLETE
        if waited_for or has_buffer or _array_lives(cluster, job):
            continue
        old_ids.append(job_id)
    return [ev.JobPurged(time_us=now_us, job_ids=tuple(old_ids))] if old_ids else []


def _array_lives(cluster: Cluster, job: Job) -> bool:
    """Return whether this is an array's head whose tasks are not all over."""
    if job.array_job_id != job.job_id:
        return False
    others = cluster.job_index.arrays.get(job.array_job_id, {})
    return any(task_job != job.job_id for task_job in others.values())
