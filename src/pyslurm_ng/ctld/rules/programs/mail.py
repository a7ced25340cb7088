"""Which mail an event brings: recipient, subject and environment of MailProg.

Source: the manual's pages of slurm.conf (MailProg, MailDomain) and sbatch (--mail-type).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyslurm_ng.base.numbers import (
    INFINITE,
    MAIL_ARRAY_TASKS,
    MAIL_BEGIN,
    MAIL_END,
    MAIL_FAIL,
    MAIL_INVALID_DEPEND,
    MAIL_REQUEUE,
    MAIL_STAGE_OUT,
    MAIL_TIME_50,
    MAIL_TIME_80,
    MAIL_TIME_90,
    MAIL_TIME_LIMIT,
    NO_VAL,
    SECOND_US,
)
from pyslurm_ng.base.plain_text import are_recipients, printable, program_variables
from pyslurm_ng.base.units import format_seconds
from pyslurm_ng.ctld.rules.programs.program_environment import exit_variables, of_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState

TIME_MARKS = (
    (MAIL_TIME_50, 50, "Reached 50% of time limit"),
    (MAIL_TIME_80, 80, "Reached 80% of time limit"),
    (MAIL_TIME_90, 90, "Reached 90% of time limit"),
)
TIME_BITS = MAIL_TIME_50 | MAIL_TIME_80 | MAIL_TIME_90
_NOT_FAILED = (JobState.COMPLETED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Mail:
    """One run of MailProg: `-s subject recipient`, with these variables; `uid` asked for it."""

    recipient: str
    subject: str
    environment: dict[str, str]
    uid: int


@dataclass(slots=True)
class ArrayEnd:
    """How the tasks of an array ended so far."""

    states: set[int]
    least: int = 0
    most: int = 0
    signal: int = 0  # the highest that ended a task

    def add(self, state: int, status: int) -> None:
        """Take in one task by its state and wait status."""
        code = exit_code(status)
        self.signal = max(self.signal, status & 0x7F)
        first = not self.states
        self.states.add(state)
        self.least = code if first else min(self.least, code)
        self.most = code if first else max(self.most, code)


def exit_code(status: int) -> int:
    """Return the exit code in a wait status, 128 and more for a signal, as a shell has it."""
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8 & 0xFF


def begun(cluster: Cluster, job: Job, domain: str, now_us: int) -> Mail | None:
    """Return the mail about a start, if the job wants it."""
    if not job.request.mail_type & MAIL_BEGIN:
        return None
    waited = _duration(now_us - (job.eligible_us or job.submit_us))
    text = "" if is_summed_up(job) else f"Queued time {waited}"
    return _mail(cluster, job, "Began", text, domain, SLURM_JOB_QUEUED_TIME=waited)


def ended(
    cluster: Cluster, job: Job, state: int, status: int, domain: str, now_us: int
) -> Mail | None:
    """Return the mail about an end, if the job wants one of its kind."""
    kind = _end_kind(job, (state,))
    if not kind:
        return None
    run = run_time(job, now_us)
    signal = status & 0x7F
    how = f"Signal {signal}" if signal else f"ExitCode {exit_code(status)}"
    name = JobState(state).name
    text = f"Run time {run}, {name}, {how}"
    return _mail(
        cluster,
        job,
        kind,
        text,
        domain,
        **exit_variables(job, status),
        SLURM_JOB_RUN_TIME=run,
        SLURM_JOB_STATE=name,
        SLURM_JOB_EXIT_CODE_MAX=str(exit_code(status)),
        SLURM_JOB_TERM_SIGNAL_MAX=str(signal),
    )


def array_ended(cluster: Cluster, job: Job, end: ArrayEnd, domain: str) -> Mail | None:
    """Return the one mail about the end of all tasks of an array."""
    kind = _end_kind(job, end.states)
    if not kind:
        return None
    state = JobState(next(iter(end.states))).name if len(end.states) == 1 else "Mixed"
    return _mail(
        cluster,
        job,
        kind,
        f"{state}, ExitCode [{end.least}-{end.most}]",
        domain,
        **exit_variables(job, job.exit_code),
        SLURM_JOB_STATE=state,
        SLURM_JOB_EXIT_CODE_MIN=str(end.least),
        SLURM_JOB_EXIT_CODE_MAX=str(end.most),
        SLURM_JOB_TERM_SIGNAL_MAX=str(end.signal),
    )


def _end_kind(job: Job, states: Iterable[int]) -> str:
    """Return `Failed` or `Ended`, whichever of the two the job wants told, or ""."""
    is_failed = any(state not in _NOT_FAILED for state in states)
    if is_failed and job.request.mail_type & MAIL_FAIL:
        return "Failed"
    return "Ended" if job.request.mail_type & MAIL_END else ""


def requeued(cluster: Cluster, job: Job, run: str, domain: str) -> Mail | None:
    """Return the mail about a job that goes back to the queue after a run of that length."""
    if not job.request.mail_type & MAIL_REQUEUE:
        return None
    return _mail(cluster, job, "Requeued", f"Run time {run}", domain, SLURM_JOB_RUN_TIME=run)


def timed_out(cluster: Cluster, job: Job, domain: str, now_us: int) -> Mail | None:
    """Return the mail about a job that its time limit ends."""
    if not job.request.mail_type & MAIL_TIME_LIMIT:
        return None
    run = run_time(job, now_us)
    return _mail(
        cluster, job, "Reached time limit", f"Run time {run}", domain, SLURM_JOB_RUN_TIME=run
    )


def never_satisfied(cluster: Cluster, job: Job, domain: str) -> Mail | None:
    """Return the mail about a dependency that can no longer be met."""
    if not job.request.mail_type & MAIL_INVALID_DEPEND:
        return None
    return _mail(cluster, job, "Invalid dependency", "", domain)


def staged_out(cluster: Cluster, job: Job, domain: str) -> Mail | None:
    """Return the mail about files that were copied away, and a burst buffer that is torn down."""
    if not job.request.mail_type & MAIL_STAGE_OUT:
        return None
    return _mail(cluster, job, "Staged Out", "", domain)


def time_marks(cluster: Cluster, job: Job, domain: str, last_us: int, now_us: int) -> list[Mail]:
    """Return mails about shares of the time limit that passed since `last_us`."""
    limit_min = job.time_limit_min
    if limit_min in (0, INFINITE, NO_VAL) or job.state != JobState.RUNNING:
        return []
    mails = []
    for bit, percent, words in TIME_MARKS:
        mark_us = job.start_us + job.suspended_us + limit_min * 60 * SECOND_US * percent // 100
        if job.request.mail_type & bit and last_us < mark_us <= now_us:
            run = run_time(job, now_us)
            mails.append(
                _mail(cluster, job, words, f"Run time {run}", domain, SLURM_JOB_RUN_TIME=run)
            )
    return mails


def is_array_over(cluster: Cluster, array_job_id: int, uid: int) -> bool:
    """Return whether all tasks of an array are over."""
    leader = cluster.jobs.get(array_job_id)
    if leader is not None and (leader.array_pending or not _is_over(leader)):
        return False
    tasks = cluster.job_index.arrays.get(array_job_id, {})
    if not all(_is_over(cluster.jobs[job_id]) for job_id in tasks.values()):
        return False
    # A change of some tasks alone makes a record of several that is none of the above.
    return not any(
        other.array_job_id == array_job_id and not _is_over(other)
        for other_id in cluster.job_index.by_user.get(uid, ())
        if (other := cluster.jobs[other_id])
    )


def _is_over(job: Job) -> bool:
    return job.state in TERMINAL_STATES


def is_summed_up(job: Job) -> bool:
    """Return whether one mail tells of a task's whole array."""
    return bool(job.array_job_id) and not job.request.mail_type & MAIL_ARRAY_TASKS


def is_requeue(event: ev.JobCompleting) -> bool:
    """Return whether a job that completes will run again, which is no end."""
    return bool(event.flags & JobFlag.REQUEUED)


def run_time(job: Job, now_us: int) -> str:
    """Return how long a job has run, as Slurm writes it."""
    if not job.start_us or job.start_us > now_us:
        return _duration(0)
    return _duration((job.end_us or now_us) - job.start_us - job.suspended_us)


def _duration(span_us: int) -> str:
    return format_seconds(max(0, span_us) // SECOND_US)


def _mail(cluster: Cluster, job: Job, kind: str, more: str, domain: str, **variables: str) -> Mail:
    recipient = job.request.mail_user
    if not are_recipients(recipient):  # submissions were not always asked for them
        recipient = job.user_name
    if domain and "@" not in recipient:
        recipient = f"{recipient}@{domain}"
    if is_summed_up(job):
        head = f"Slurm Array Summary Job_id={job.array_job_id}_* ({job.array_job_id})"
    elif job.array_job_id:
        head = f"Slurm Array Task Job_id={job.array_job_id}_{job.array_task_id} ({job.job_id})"
    else:
        head = f"Slurm Job_id={job.job_id}"
    subject = f"{head} Name={job.request.name} {kind}{', ' if more else ''}{more}"
    environment = {
        **of_job(cluster, job),
        "SLURM_JOB_MAIL_TYPE": kind,
        "SLURM_JOB_STATE": JobState(job.state).name,
        **variables,
    }
    if job.array_job_id:
        environment["SLURM_ARRAY_JOB_ID"] = str(job.array_job_id)
        if is_summed_up(job):
            environment.pop("SLURM_ARRAY_TASK_ID", None)
    return Mail(printable(recipient), printable(subject), program_variables(environment), job.uid)
