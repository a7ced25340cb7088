"""scancel: end or signal jobs, array tasks and steps, any number in one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.base.job_ids import JobIdError, JobName, parse_job_id
from pyslurm_ng.base.numbers import (
    CANCEL_BATCH,
    CANCEL_CRON,
    CANCEL_FULL,
    CANCEL_HURRY,
    CANCEL_VERBOSE,
    NO_VAL,
    SIGCONT,
    SIGKILL,
    SIGNAL_BATCH_ONLY,
    SIGNAL_CANCELLED,
    SIGNAL_FULL,
    SIGNAL_STEPS_ONLY,
    SIGSTOP,
    SIGTERM,
)
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.ends.het import is_whole
from pyslurm_ng.ctld.rules.job_parts import JobParts
from pyslurm_ng.ctld.rules.orders.request_parts import RequestPart
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState
from pyslurm_ng.wire.query_messages import CancelJobs, Cancelled, JobFilter

# Each request would sort all ids again, but the requests pass by each number once.
_NUMBERS_PER_ID = 4


def cancel_jobs(cluster: Cluster, request: CancelJobs, context: Context) -> Decision | Reject:
    """Return the ends and signals for all that the request names and its filters agree with."""
    agrees = job_filter.agrees(
        cluster, request.filter, context.now_us, passes_over_nodes=True, exact_names=True
    )
    if isinstance(agrees, Reject):
        return agrees
    work = _Cancelling(cluster, request, context)
    if request.filter.jobs:
        finder = job_filter.JobFinder(cluster, splits=True)
        for index, text in enumerate(request.filter.jobs):
            if index and work.part.is_over(index - 1):
                break
            work.named(index, text, finder, agrees)
            if finder.is_over:
                return finder.refusal
    else:
        parts: Iterator[job_filter.Part] = (
            (job, ()) for job in _candidates(cluster, request) if agrees(job) and work.is_known(job)
        )
        for job, _ in work.part.in_order(0, parts):
            if may_change(cluster, job, context.caller):
                work.job(job, (), str(job.job_id))
            else:
                work.error(job_filter.job_id_text(job), Errno.ESLURM_ACCESS_DENIED)
    work.finish()
    reply = Cancelled(work.count, work.errors, work.done, *work.part.stopped)
    return Decision(events=work.parts.events, reply=reply)


def _candidates(cluster: Cluster, request: CancelJobs) -> Iterator[Job]:
    """Yield the jobs that are not over, of the users asked for, from where the request goes on.

    They come in order of their ids, and jobs behind the last one that is wanted cost nothing: a
    thousand of a hundred thousand are cancelled at a time. The first request sorts all ids. The
    later ones count upwards from where they go on, if most numbers on the way are ids.
    """
    index, first, end = cluster.job_index, request.from_job, request.below_job
    uids = dict.fromkeys(request.filter.uids)
    of_users = [index.by_user.get(uid, {}) for uid in uids]
    known = of_users if uids else [index.pending, index.active]
    job_ids: Iterable[int] = range(first, end)
    if not first or end - first > _NUMBERS_PER_ID * sum(map(len, known)):
        # Most ids are passed by: the cheapest test comes first.
        job_ids = sorted([job_id for job_id in chain.from_iterable(known) if job_id >= first])
    jobs, ended = cluster.jobs, index.ended
    for job_id in job_ids:
        job = jobs.get(job_id)
        if job is not None and job_id not in ended and not is_completing(job):
            yield job


class _Cancelling:
    """One request's work: collects events, errors and names."""

    def __init__(self, cluster: Cluster, request: CancelJobs, context: Context) -> None:
        self.cluster = cluster
        self.request = request
        self.context = context
        self.parts = JobParts(cluster, context.now_us)
        self.part = RequestPart(cluster, request)
        self.errors: list[tuple[str, int, str]] = []
        self.done: list[str] = []
        self.count = 0
        self.duty_id = cluster.next_duty_id
        self.seen: set[int] = set()
        self.ended: set[int] = set()
        self.over: list[tuple[Job, JobState]] = []
        self.ends = dependency.Ends(left=self.parts.left, claim=self.parts.claim)
        self.ends_waiting = request.signal in (0, SIGKILL)
        self.is_kill = self.ends_waiting and not request.flags & CANCEL_BATCH
        self.has_filters = request.filter != JobFilter(jobs=request.filter.jobs)
        self._audience = Audience(cluster, context.conf, context.caller, show_all=True)

    def is_known(self, job: Job) -> bool:
        """Return whether the user may change a job, or at least know of it."""
        caller = self.context.caller
        return may_change(self.cluster, job, caller) or self._audience.sees_job(job)

    def error(self, text: str, code: int) -> None:
        """Note why one id was not done."""
        self.errors.append((text, code, error_text(code)))

    def named(
        self, index: int, text: str, finder: job_filter.JobFinder, agrees: job_filter.JobTest
    ) -> None:
        """Do one id as typed, or what of it is this request's part."""
        try:
            name = parse_job_id(text)
        except JobIdError:
            self.error(text, Errno.ESLURM_INVALID_JOB_ID)
            return
        parts = finder.find(name)
        if self.has_filters:  # Slurm's scancel chooses out of what is listed for the user
            parts = [part for part in parts if self.is_known(part[0])]
        if not parts and not self.part.goes_on(index):
            self.error(text, Errno.ESLURM_INVALID_JOB_ID)
        agreeing = [part for part in parts if agrees(part[0])]
        for job, tasks in self.part.records(index, agreeing):
            if not may_change(self.cluster, job, self.context.caller):
                self.error(text, Errno.ESLURM_ACCESS_DENIED)
                break
            if name.step >= 0:
                self.step(job, name)
            elif job.state in TERMINAL_STATES and self._hurry(job):
                self.count += 1
            elif job.state in TERMINAL_STATES:
                # A finished task among others of its array is nothing to complain about.
                if len(parts) == 1:
                    self.error(text, Errno.ESLURM_ALREADY_DONE)
            else:
                self.job(job, tasks, text)

    def job(self, job: Job, tasks: tuple[tuple[int, int, int], ...], text: str) -> None:
        """End or signal one job, or some waiting tasks of an array's record.

        Args:
            text: what an error calls it.
        """
        if job.job_id in self.ended or (not tasks and job.job_id in self.seen):
            return
        is_end = self.is_kill or (self.ends_waiting and job.state == JobState.PENDING)
        if is_end and self._needs_cron_flag(job):
            self.error(text, Errno.ESLURM_CANNOT_CANCEL_CRON_JOB)
            return
        if is_end:
            self._hurry(job)
        if job.state == JobState.PENDING:
            # A script that waits has no process to spare: --batch ends it like any other job.
            if not is_end:
                self.error(job_filter.job_id_text(job), Errno.ESLURM_TRANSITION_STATE_NO_UPDATE)
                return
            leader = self.cluster.jobs.get(job.het_job_id, job)
            if leader is not job and not is_whole(self.context.conf):
                self.error(text, Errno.ESLURM_NOT_WHOLE_HET_JOB)
                return
            self._end_pending(leader, tasks)
            # Components that wait end with their leader.
            for other in het_components(self.cluster, job):
                if other.state == JobState.PENDING and other.job_id not in self.ended:
                    self._end_pending(other, ())
        elif self.is_kill:
            self._end_running(job)
        else:
            self._signal(job)
        self.count += 1
        if self.request.flags & CANCEL_VERBOSE:
            self.done.append(job_filter.job_id_text(job, tasks))
        if not tasks:
            self.seen.add(job.job_id)

    def _hurry(self, job: Job) -> bool:
        """Have a job's burst buffer torn down without a stage-out, if that is asked for."""
        buffer = self.cluster.buffers.get(job.job_id)
        if buffer is None or not self.request.flags & CANCEL_HURRY:
            return False
        if buffer.state == BufferState.COMPLETE:
            return False
        hurried = msgspec.structs.replace(buffer, is_hurried=True)
        self.parts.events.append(ev.BufferChanged(self.context.now_us, job.job_id, hurried))
        return True

    def _needs_cron_flag(self, job: Job) -> bool:
        """Return whether a job recurs, and only scancel --cron may end that."""
        if not job.request.cron or self.request.flags & CANCEL_CRON:
            return False
        return has_option(self.context.conf.scron_parameters, "explicit_scancel")

    def _end_pending(self, job: Job, tasks: tuple[tuple[int, int, int], ...]) -> None:
        now_us = self.context.now_us
        record_id = self.parts.record_id(job, tasks)
        if not record_id or record_id in self.ended:
            return
        self.parts.events.append(
            ev.JobEnded(
                time_us=now_us,
                job_id=record_id,
                state=JobState.CANCELLED,
                reason=job.reason,
                cancelled_by=self.context.caller.uid,
            )
        )
        self.ended.add(record_id)
        over = [job]
        if record_id != job.job_id:
            over = dependency.ended_tasks(self.cluster, job, tasks, record_id, self.ends)
        self.over += [(job, JobState.CANCELLED) for job in over]

    def finish(self) -> None:
        """Add what follows for dependents, when all is known that this request ends."""
        now_us = self.context.now_us
        self._follow(dependency.after_ends(self.cluster, self.over, now_us, self.ends))

    def _follow(self, events: list[ev.AnyEvent]) -> None:
        """Add what follows for dependents; this request may have ended some of them already."""
        # Ids that followers gave to split tasks may be taken by splits of this request.
        new_ids: dict[int, int] = {}
        for event in events:
            job_id = getattr(event, "job_id", 0)
            is_split = isinstance(event, ev.ArrayTaskSplit) and job_id != event.array_job_id
            if is_split and job_id not in self.parts.claimed:
                new_ids[job_id] = self.parts.claim()
            if job_id in new_ids:
                job_id = new_ids[job_id]
                event = msgspec.structs.replace(event, job_id=job_id)
            if job_id in self.ended:
                continue
            if isinstance(event, ev.JobEnded):
                self.ended.add(job_id)
            self.parts.events.append(event)

    def _end_running(self, job: Job) -> None:
        self._follow(
            job_end.complete(
                self.cluster,
                job,
                job_end.End(
                    JobState.CANCELLED,
                    exit_code=SIGTERM,
                    cancelled_by=self.context.caller.uid,
                    duty_flags=SIGNAL_CANCELLED,
                ),
                self.context.now_us,
                first_duty_id=self.duty_id,
            )
        )
        self.duty_id += len(job.nodes)

    def _signal(self, job: Job) -> None:
        flags = SIGNAL_STEPS_ONLY
        node_ids: tuple[int, ...] = ()
        if self.request.flags & CANCEL_FULL:
            flags = SIGNAL_FULL
        elif self.request.flags & CANCEL_BATCH:
            flags = SIGNAL_BATCH_ONLY
            node_ids = (job.batch_node_id,)
        self._add_signal(job, self.request.signal or SIGKILL, flags, -1, node_ids)
        if flags != SIGNAL_STEPS_ONLY and self.request.signal in (SIGSTOP, SIGCONT):
            stopped = self.request.signal == SIGSTOP
            job_flags = job.flags & ~JobFlag.STOPPED | (JobFlag.STOPPED if stopped else 0)
            self.parts.events.append(
                ev.JobUpdated(
                    time_us=self.context.now_us,
                    job_id=job.job_id,
                    fields={"flags": int(job_flags)},
                )
            )

    def step(self, job: Job, name: JobName) -> None:
        """End or signal one step of a running job."""
        step = job.steps.get(name.step)
        if step is None or is_completing(job):
            # A signal to a step that has ended while its job goes on reaches nothing, quietly.
            if self.request.signal in (0, SIGKILL) or job.state != JobState.RUNNING:
                self.error(name.text, Errno.ESLURM_INVALID_JOB_ID)
            elif self.request.flags & CANCEL_VERBOSE:
                self.done.append(name.text)
            return
        flags = SIGNAL_CANCELLED if self.request.signal in (0, SIGKILL) else 0
        node_ids = tuple(alloc.node_id for alloc in step.nodes)
        signal = self.request.signal or SIGKILL
        by_uid = self.context.caller.uid if flags else NO_VAL
        self._add_signal(job, signal, flags, name.step, node_ids, by_uid)
        self.count += 1
        if self.request.flags & CANCEL_VERBOSE:
            self.done.append(name.text)

    def _add_signal(
        self, job: Job, signal: int, flags: int, step_id: int, node_ids: tuple[int, ...],
        by_uid: int = NO_VAL,
    ) -> None:  # fmt: skip
        self.parts.events.append(
            ev.JobSignalled(
                time_us=self.context.now_us,
                job_id=job.job_id,
                signal=signal,
                flags=flags,
                step_id=step_id,
                first_duty_id=self.duty_id,
                node_ids=node_ids,
                cancelled_by=by_uid,
            )
        )
        self.duty_id += len(node_ids) or len(job.nodes)
