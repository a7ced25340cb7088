"""Sends users the mail that they asked for with --mail-type, by running MailProg.

A view of the events: a mail is decided when an event is applied, and sent when the event is
durable. Mail that was due when the controller crashed is lost, none is sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.programs import mail
from pyslurm_ng.ctld.rules.programs.mail import ArrayEnd, Mail
from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobState


class Runner(Protocol):
    """`Programs`."""

    def run(self, argv: Sequence[str], environment: dict[str, str], uid: int) -> None:
        """Run a program some time soon, in the turn of a user."""


class Mailer:
    """Follows jobs that want mail.

    Attributes:
        conf: in force now; names MailProg and MailDomain.
    """

    def __init__(
        self,
        cluster: Cluster,
        conf: SlurmConf,
        runner: Runner,
        when_durable: Callable[[Callable[[], None]], None],
        now_us: int,
        spared: Spared = raise_it,
    ) -> None:
        self.conf = conf
        self._spared = spared
        self._cluster = cluster
        self._runner = runner
        self._when_durable = when_durable
        self._last_us = now_us
        self._ending: set[int] = set()  # an end that was told when it began
        self._runs: dict[int, str] = {}  # how long a job ran that goes back to the queue
        self._timed: dict[int, None] = {}
        self._begun_arrays: set[int] = set()
        self._arrays: dict[int, ArrayEnd] = {}
        for job_id in cluster.job_index.active:
            job = cluster.jobs[job_id]
            if is_completing(job):
                self._ending.add(job_id)
            elif job.request.mail_type & mail.TIME_BITS and not job.het_offset:
                self._timed[job_id] = None

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Send what events just applied bring."""
        for event in events:
            kind = type(event)
            if isinstance(event, ev.TimesMoved) and event.is_all:
                self._last_us += event.shift_us
            if kind in _STEPS:
                job = self._cluster.jobs.get(event.job_id)  # type: ignore[union-attr]
                # One mail for all components of a heterogeneous job.
                if job is not None and job.request.mail_type and not job.het_offset:
                    _STEPS[kind](self, event, job)

    def tick(self, now_us: int) -> None:
        """Send what time alone brings."""
        last_us, self._last_us = self._last_us, now_us
        for job_id in list(self._timed):
            job = self._cluster.jobs.get(job_id)
            if job is None or job.state not in (JobState.RUNNING, JobState.SUSPENDED):
                del self._timed[job_id]
                continue
            try:
                for mark in mail.time_marks(self._cluster, job, self._domain, last_us, now_us):
                    self._send(mark)
            except Exception as error:  # noqa: BLE001 - this job gets no such mail
                del self._timed[job_id]
                self._spared(f"mail of job {job_id}", error)

    @property
    def _domain(self) -> str:
        return self.conf.mail_domain or ""

    def _send(self, message: Mail | None) -> None:
        if message is None or not self.conf.mail_prog:
            return
        argv = (self.conf.mail_prog, "-s", message.subject, message.recipient)
        self._when_durable(partial(self._runner.run, argv, message.environment, message.uid))

    # One event each -----------------------------------------------------------------------------

    def _allocated(self, event: ev.JobAllocated, job: Job) -> None:
        self._ending.discard(job.job_id)
        if job.request.mail_type & mail.TIME_BITS:
            self._timed[job.job_id] = None
        if mail.is_summed_up(job) and not self._is_first(job):
            return
        self._send(mail.begun(self._cluster, job, self._domain, event.time_us))

    def _is_first(self, job: Job) -> bool:
        """Return whether this task is the first of its array to be reported as begun."""
        array = job.array_job_id
        if array in self._begun_arrays:
            return False
        self._begun_arrays.add(array)
        others = self._cluster.job_index.arrays.get(array, {}).values()
        jobs = self._cluster.jobs
        return not any(other != job.job_id and jobs[other].start_us for other in others)

    def _completing(self, event: ev.JobCompleting, job: Job) -> None:
        self._ending.add(job.job_id)
        if event.state == JobState.TIMEOUT:
            self._send(mail.timed_out(self._cluster, job, self._domain, event.time_us))
        if mail.is_requeue(event):
            self._runs[job.job_id] = mail.run_time(job, event.time_us)
        else:
            self._end(job, event.state, event.exit_code, event.time_us)

    def _ended(self, event: ev.JobEnded, job: Job) -> None:
        was_told = job.job_id in self._ending
        self._ending.discard(job.job_id)
        if not was_told:
            self._end(job, event.state, event.exit_code, event.time_us)
        if mail.is_summed_up(job):
            self._end_array(job)

    def _end(self, job: Job, state: int, status: int, now_us: int) -> None:
        if mail.is_summed_up(job):
            end = self._arrays.setdefault(job.array_job_id, ArrayEnd(set()))
            end.add(state, status)
            return
        self._send(mail.ended(self._cluster, job, state, status, self._domain, now_us))

    def _end_array(self, job: Job) -> None:
        array = job.array_job_id
        if array in self._arrays and mail.is_array_over(self._cluster, array, job.uid):
            end = self._arrays.pop(array)
            self._begun_arrays.discard(array)
            self._send(mail.array_ended(self._cluster, job, end, self._domain))

    def _requeued(self, event: ev.JobRequeued, job: Job) -> None:
        self._ending.discard(job.job_id)
        self._timed.pop(job.job_id, None)
        run = self._runs.pop(job.job_id, "00:00:00")
        self._send(mail.requeued(self._cluster, job, run, self._domain))

    def _dependency(self, event: ev.DependencyChanged, job: Job) -> None:
        if event.never_satisfied:
            self._send(mail.never_satisfied(self._cluster, job, self._domain))

    def _buffer(self, event: ev.BufferChanged, job: Job) -> None:
        buffer = event.buffer
        # Without a run, and with scancel --hurry, nothing was copied away.
        if buffer is not None and buffer.state == BufferState.COMPLETE and not buffer.is_hurried:
            self._send(mail.staged_out(self._cluster, job, self._domain))


_STEPS: dict[type, Callable[..., None]] = {
    ev.JobAllocated: Mailer._allocated,
    ev.JobCompleting: Mailer._completing,
    ev.JobEnded: Mailer._ended,
    ev.JobRequeued: Mailer._requeued,
    ev.DependencyChanged: Mailer._dependency,
    ev.BufferChanged: Mailer._buffer,
}
