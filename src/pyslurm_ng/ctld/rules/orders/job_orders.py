"""hold, release, requeue, suspend and resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.base.numbers import NO_VAL, SIGNAL_REQUEUED
from pyslurm_ng.ctld.job_filter import JobFinder, Part, job_id_text
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules, requeued
from pyslurm_ng.ctld.rules.job_parts import JobParts
from pyslurm_ng.ctld.rules.orders.request_parts import RequestPart, Stopped
from pyslurm_ng.ctld.rules.permission import is_privileged, may_change
from pyslurm_ng.ctld.rules.queue import job_count
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.job import Job, JobRequest, NodeAlloc, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState, Reason
from pyslurm_ng.model.task_ranges import TaskRanges
from pyslurm_ng.wire.query_messages import (
    HoldJobs,
    JobsChanged,
    RequeueJobs,
    SuspendJobs,
)

Act = Callable[[Job, TaskRanges], int]
_LONGEST_ID = 64  # characters of an id in an error; many ranges of tasks would be longer
"""Do it to one job (or some of its waiting tasks); answer 0 or an error number."""

SPECIAL_EXIT_FLAGS = JobFlag.SPECIAL_EXIT | JobFlag.REQUEUE_HOLD


class Steering:
    """Applies one act to all jobs that a request names and collects the errors."""

    def __init__(self, cluster: Cluster, context: Context, part: RequestPart | None = None) -> None:
        """Begin; without `part` the request is done as a whole."""
        self.cluster = cluster
        self.context = context
        self.part = part
        self.parts = JobParts(cluster, context.now_us)
        self.room: dict[int, int] = {}  # what more the jobs of a user may hold: `queue_room`
        self._seen: set[tuple[int, TaskRanges]] = set()
        self.duty_id = cluster.next_duty_id
        self.errors: list[tuple[str, int, str]] = []
        self.count = 0
        self._detail = ""
        self._refused: Reject | None = None

    def error(self, text: str, code: int) -> None:
        """Note why one id was not done."""
        self.errors.append((text, code, self._detail or error_text(code)))
        self._detail = ""

    def refuse(self, code: int, detail: str) -> int:
        """Return the code of a refusal that has more words than its number's text."""
        self._detail = detail
        return code

    def by_id(self, texts: Iterable[str], act: Act, *, live_only: bool = False) -> None:
        """Act on ids as typed; of an array only on the tasks that are not over.

        With `live_only` the id of a job that is over is no error.
        """
        finder, part = JobFinder(self.cluster, splits=True), self.part
        for index, text in enumerate(texts):
            if index and part is not None and part.is_over(index - 1):
                return
            parts = finder.named(text)
            if finder.is_over:
                self._refused = finder.refusal
                return
            goes_on = part is not None and part.goes_on(index)
            absent = text if not parts else finder.absent(text, parts)
            if absent and not goes_on:
                self.error(absent[:_LONGEST_ID], Errno.ESLURM_INVALID_JOB_ID)
            # If there are several, those that are over do not matter, unless all are over.
            several = goes_on or any(job.state not in TERMINAL_STATES for job, _ in parts)
            for job, tasks in parts if part is None else part.records(index, parts):
                if (several or live_only) and job.state in TERMINAL_STATES:
                    continue
                if (job.job_id, tasks) in self._seen:
                    continue  # named twice: the decision about it is not applied yet
                self._seen.add((job.job_id, tasks))
                self._act(text, job, tasks, act)

    def by_name(self, name: str, uid: int, act: Act) -> None:
        """Act on all jobs of a name, of one user or all, that are not over.

        With PrivateData=jobs users cannot learn the names of others' jobs in this way.
        """
        is_private = "jobs" in map(str.lower, self.context.conf.private_data)
        parts: list[Part] = [
            (job, ())
            for job in self.cluster.jobs.values()
            if job.request.name == name
            and job.state not in TERMINAL_STATES
            and uid in (-1, job.uid)
            and not (is_private and not may_change(self.cluster, job, self.context.caller))
        ]
        part = self.part
        if not parts and not (part is not None and part.goes_on(0)):
            self.error(name, Errno.ESLURM_INVALID_JOB_ID)
        for job, _ in parts if part is None else part.records(0, parts):
            self._act(job_id_text(job), job, (), act)

    def _act(self, text: str, job: Job, tasks: TaskRanges, act: Act) -> None:
        code = act(job, tasks)
        if code:
            self.error(self._shown(text, job, tasks), code)
        else:
            self.count += 1

    def _shown(self, text: str, job: Job, tasks: TaskRanges) -> str:
        """Return an id as errors name it: of an array with the tasks that they are about."""
        if not job.array_job_id or self.part is None:
            return text
        shown = job_id_text(job, tasks).partition("%")[0].rstrip("]")
        return shown.replace("[", "") if len(shown) <= _LONGEST_ID else text

    def decision(self) -> Decision | Reject:
        """Return what came of it."""
        if self._refused is not None:
            return self._refused
        stopped = Stopped() if self.part is None else self.part.stopped
        return Decision(self.parts.events, JobsChanged(self.count, self.errors, *stopped))

    def update(
        self,
        job: Job,
        tasks: TaskRanges,
        fields: dict[str, object],
        request: JobRequest | None = None,
    ) -> None:
        """Record new values of a job's fields, and its request where that changes."""
        record_id = self.parts.record_id(job, tasks)
        if record_id:
            now_us = self.context.now_us
            self.parts.events.append(ev.JobUpdated(now_us, record_id, fields, request))

    def shrink(self, job: Job, kept: tuple[NodeAlloc, ...]) -> None:
        """Let a running job give up all nodes but those of `kept`."""
        self.parts.events.append(
            ev.JobResized(self.context.now_us, job.job_id, kept, first_duty_id=self.duty_id)
        )
        self.duty_id += len(job.nodes) - len(kept)


def hold_jobs(cluster: Cluster, request: HoldJobs, context: Context) -> Decision | Reject:
    """hold, uhold and release."""
    steering = Steering(cluster, context, RequestPart(cluster, request))
    fields = release_fields if request.release else hold_fields
    seen: set[int] = set()

    def act(job: Job, tasks: TaskRanges) -> int:
        if job.request.cron:
            return Errno.ESLURM_CANNOT_MODIFY_CRON_JOB
        # A heterogeneous job is held and released as a whole, whichever component was named.
        for part in het_components(cluster, job) or [job]:
            if part.het_job_id and part.job_id in seen:
                continue
            seen.add(part.job_id)
            changed = fields(cluster, part, context, request.as_user)
            if isinstance(changed, int):
                if part is job:
                    return changed
            elif changed:
                steering.update(part, tasks, changed)
        return 0

    if request.name:
        steering.by_name(request.name, request.uid, act)
    else:
        steering.by_id(request.jobs, act)
    return steering.decision()


def hold_fields(
    cluster: Cluster, job: Job, context: Context, as_user: bool
) -> dict[str, object] | int:
    """Return what changes when a job is held, or an error number.

    A job that runs goes on; it is held when it is requeued.
    """
    if not may_change(cluster, job, context.caller):
        return Errno.ESLURM_USER_ID_MISSING
    if comes_back(job):
        return {"flags": int(job.flags | JobFlag.REQUEUE_HOLD)}
    if job.state in TERMINAL_STATES:
        return Errno.ESLURM_JOB_FINISHED
    if job.priority == 0 and job.reason == Reason.JobHeldAdmin and not context.caller.is_operator:
        return {}
    by_admin = context.caller.is_operator and not as_user
    reason = Reason.JobHeldAdmin if by_admin else Reason.JobHeldUser
    return {"priority": 0, "reason": int(reason), "reason_text": ""}


def release_fields(
    cluster: Cluster, job: Job, context: Context, as_user: bool
) -> dict[str, object] | int:
    """Return what changes when a job's hold ends, or an error number."""
    if not may_change(cluster, job, context.caller):
        return Errno.ESLURM_USER_ID_MISSING
    if comes_back(job):
        return {"flags": job.flags & ~int(SPECIAL_EXIT_FLAGS)}
    if job.state in TERMINAL_STATES:
        return Errno.ESLURM_JOB_FINISHED
    if job.reason == Reason.JobHeldAdmin and not is_privileged(cluster, job, context.caller):
        return Errno.ESLURM_ACCESS_DENIED
    if job.priority != 0:
        return {}
    if job.state != JobState.PENDING:
        return {"priority": NO_VAL, "reason": 0, "reason_text": ""}
    fields: dict[str, object] = {
        "priority": NO_VAL,
        "reason": int(waiting_reason(job, context.now_us)),
        "reason_text": "",
        "launch_failures": 0,
        "flags": job.flags & ~int(SPECIAL_EXIT_FLAGS | JobFlag.RESV_DEL_HOLD),
    }
    is_due = job.begin_us <= context.now_us and not job.waits_for_proof
    if not job.eligible_us and not job.dependencies and is_due:
        fields |= {"eligible_us": context.now_us, "accrue_us": context.now_us}
    return fields


def comes_back(job: Job) -> bool:
    """Whether a run is being cleaned up after which the job waits again: to its user it does."""
    return is_completing(job) and bool(job.flags & JobFlag.REQUEUED)


def waiting_reason(job: Job, now_us: int) -> Reason:
    """Return why a job that is not held waits, as far as that is a fact."""
    if job.dependencies:
        if job.reason == Reason.DependencyNeverSatisfied:
            return Reason.DependencyNeverSatisfied
        return Reason.Dependency
    if job.begin_us > now_us:
        return Reason.BeginTime
    return Reason.Cleaning if job.waits_for_proof else Reason.NONE


def requeue_jobs(cluster: Cluster, request: RequeueJobs, context: Context) -> Decision | Reject:
    """requeue and requeuehold of running, suspended and finished batch jobs."""
    steering = Steering(cluster, context, RequestPart(cluster, request))
    flags = 0
    if request.special_exit:
        flags = SPECIAL_EXIT_FLAGS
    elif request.hold:
        flags = JobFlag.REQUEUE_HOLD

    revived = _Revived(cluster, context)

    def act(job: Job, tasks: TaskRanges) -> int:
        if not may_change(cluster, job, context.caller):
            return Errno.ESLURM_ACCESS_DENIED
        if job.state == JobState.PENDING:
            # `incomplete` means jobs that have begun; as in Slurm others are passed over.
            return 0 if request.incomplete else Errno.ESLURM_JOB_PENDING
        if not job.script_hash:
            return Errno.ESLURM_BATCH_ONLY
        if not job.requeue:
            return Errno.ESLURM_DISABLED
        refusal = revived.refusal(job)
        if refusal is not None:
            return steering.refuse(refusal.code, refusal.detail)
        _requeue(steering, job, int(flags))
        return 0

    steering.by_id(request.jobs, act, live_only=request.incomplete)
    return steering.decision()


class _Revived:
    """Counts the tasks that one request brings back into the job table.

    A cancelled array is one record whatever its tasks, which all count again once it waits.
    """

    def __init__(self, cluster: Cluster, context: Context) -> None:
        self._cluster = cluster
        self._context = context
        self._tasks = 0

    def refusal(self, job: Job) -> Reject | None:
        """Return why the table has no room for a job's tasks; if it has, count them."""
        if job.state not in TERMINAL_STATES or not job.array_pending:
            return None
        more = self._tasks + task_ranges.count(job.array_pending) - 1
        refusal = job_count.refusal(self._cluster, more, self._context)
        if refusal is None:
            self._tasks = more
        return refusal


def _requeue(steering: Steering, job: Job, flags: int) -> None:
    now_us, events = steering.context.now_us, steering.parts.events
    if is_completing(job):
        new_flags = job.flags | flags | JobFlag.REQUEUED
        events.append(
            ev.JobUpdated(time_us=now_us, job_id=job.job_id, fields={"flags": int(new_flags)})
        )
    elif job.state in TERMINAL_STATES:
        events.append(requeued(job, flags, now_us, requeue_rules(steering.context.conf)))
    else:
        events += job_end.complete(
            steering.cluster,
            job,
            job_end.End(
                JobState.CANCELLED, flags=flags | JobFlag.REQUEUED, duty_flags=SIGNAL_REQUEUED
            ),
            now_us,
            first_duty_id=steering.duty_id,
            rules=requeue_rules(steering.context.conf),
        )
        steering.duty_id += len(job.nodes)


def suspend_jobs(cluster: Cluster, request: SuspendJobs, context: Context) -> Decision | Reject:
    """suspend and resume; for operators, since a suspended job's CPUs go to others."""
    steering = Steering(cluster, context, RequestPart(cluster, request))
    if not context.caller.is_operator:
        for text in request.jobs:
            steering.error(text, Errno.ESLURM_ACCESS_DENIED)
        return steering.decision()

    def act(job: Job, tasks: TaskRanges) -> int:
        code = _resume_error(cluster, job) if request.resume else _suspend_error(job)
        if code or (not request.resume and job.state == JobState.SUSPENDED):
            return code  # as in Slurm it is no error to suspend a suspended job
        kind = ev.JobResumed if request.resume else ev.JobSuspended
        steering.parts.events.append(
            kind(time_us=context.now_us, job_id=job.job_id, first_duty_id=steering.duty_id)
        )
        steering.duty_id += len(job.nodes)
        return 0

    steering.by_id(request.jobs, act)
    return steering.decision()


def _suspend_error(job: Job) -> int:
    if job.state == JobState.PENDING:
        return Errno.ESLURM_JOB_PENDING
    if job.state in TERMINAL_STATES:
        return Errno.ESLURM_ALREADY_DONE
    return 0


def _resume_error(cluster: Cluster, job: Job) -> int:
    if job.state in TERMINAL_STATES:
        return Errno.ESLURM_ALREADY_DONE
    if job.state == JobState.PENDING:
        return Errno.ESLURM_JOB_PENDING
    if job.state != JobState.SUSPENDED:
        return Errno.ESLURM_JOB_NOT_SUSPENDED
    for alloc in job.nodes:
        # Others may have got the cores meanwhile; two jobs never share one.
        if cluster.node_index.use[alloc.node_id].cores & int.from_bytes(alloc.cores, "little"):
            return Errno.ESLURM_NODES_BUSY
    return 0
