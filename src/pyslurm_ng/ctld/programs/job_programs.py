"""Runs PrologSlurmctld and EpilogSlurmctld, beside the loop.

Which runs are due is part of the Cluster, so a controller that was stopped runs them again. What a
run is about is fixed when the event that caused it is applied; it begins when that is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.programs import programs
from pyslurm_ng.ctld.rules.programs.program_environment import (
    epilog_environment,
    prolog_environment,
)
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState

Done: TypeAlias = Callable[[HookResult], None]


class Runner(Protocol):
    """Where programs run; `runner.HookRunner` in a controller."""

    def run(
        self, patterns: Sequence[str], environment: Mapping[str, str], limit_s: int, done: Done, /
    ) -> Callable[[], object]:
        """Begin a run that ends with `done`; return what ends it early, without `done`."""


class Buffers(Protocol):
    """What runs before the prolog of jobs with burst buffers; `JobBuffers` in a controller."""

    def has(self, job_id: int, /) -> bool:
        """Return whether a job has a burst buffer."""

    def pre_run(self, job_id: int, done: Done, /) -> Callable[[], object]:
        """Begin what ends with `done`; return what ends it early, without `done`."""


class Log(Protocol):
    """Where the outcome of programs is told."""

    def info(self, text: str) -> None:
        """Every day's news."""

    def error(self, text: str) -> None:
        """Something is wrong."""


class JobPrograms:
    """Follows jobs that begin and end.

    Attributes:
        conf: in force now; names the programs and their time limits.
    """

    def __init__(
        self,
        writer: Writer,
        conf: SlurmConf,
        runner: Runner,
        *,
        now_us: Callable[[], int],
        log: Log,
        notify: Callable[[int, str], object],
        buffers: Buffers | None = None,
    ) -> None:
        """`notify(job_id, text)` shows a line to the command that waits for a job."""
        self.conf = conf
        self._writer = writer
        self._runner = runner
        self._now_us = now_us
        self._log = log
        self._notify = notify
        self._buffers = buffers
        self._prologs: dict[int, Callable[[], object]] = {}  # by job: what ends its prolog
        self._succeeded: set[int] = set()  # jobs that wait for their other components, or suspended

    def begin(self) -> None:
        """Run again what a stop has cut short."""
        cluster = self._writer.cluster
        for job_id in cluster.prologs:
            self._begin_prolog(cluster.jobs[job_id])
        for job_id in cluster.epilogs:
            self._begin_epilog(cluster.jobs[job_id])

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Begin and end what events just applied ask for."""
        cluster = self._writer.cluster
        for event in events:
            if isinstance(event, ev.JobAllocated):
                if event.prolog:
                    self._begin_prolog(cluster.jobs[event.job_id])
            elif isinstance(event, ev.JobResumed):
                if event.job_id in self._succeeded:
                    self._writer.when_durable(partial(self._start_if_ready, event.job_id))
            elif isinstance(event, ev.JobCompleting):
                self._succeeded.discard(event.job_id)
                end = self._prologs.pop(event.job_id, None)
                if end is not None:
                    end()
                if event.job_id in cluster.epilogs:
                    self._begin_epilog(cluster.jobs[event.job_id])

    # Prolog -------------------------------------------------------------------------------------

    def _begin_prolog(self, job: Job) -> None:
        environment = prolog_environment(self._writer.cluster, job)
        run = partial(self._run_prolog, job.job_id, job.attempt, environment)
        self._writer.when_durable(run)

    def _run_prolog(self, job_id: int, attempt: int, environment: dict[str, str]) -> None:
        if not self._is_due(self._writer.cluster.prologs, job_id, attempt):
            return  # the job was ended while the disk worked
        then = partial(self._run_program, job_id, attempt, environment)
        if self._buffers is not None and self._buffers.has(job_id):
            self._prologs[job_id] = self._buffers.pre_run(job_id, then)
        else:
            then(HookResult(0, ""))

    def _run_program(
        self, job_id: int, attempt: int, environment: dict[str, str], before: HookResult
    ) -> None:
        """Run PrologSlurmctld, if there is one, after what comes before it."""
        if not self._is_due(self._writer.cluster.prologs, job_id, attempt):
            return
        if before.status or not self.conf.prolog_slurmctld:
            self._prolog_ended(job_id, attempt, before)
            return
        self._prologs[job_id] = self._runner.run(
            (self.conf.prolog_slurmctld,),
            environment,
            self.conf.prolog_timeout,
            partial(self._prolog_ended, job_id, attempt),
        )

    def _prolog_ended(self, job_id: int, attempt: int, result: HookResult) -> None:
        cluster = self._writer.cluster
        if not self._is_due(cluster.prologs, job_id, attempt):
            return
        self._prologs.pop(job_id, None)
        if result.status:
            self._log.error(f"prolog_slurmctld JobId={job_id}: {result.text}")
            self._fail(cluster.jobs[job_id])
            return
        self._succeeded.add(job_id)
        self._start_if_ready(job_id)

    def _start_if_ready(self, job_id: int) -> None:
        """Let a job's nodes begin, if nothing keeps it or another of its components from it."""
        cluster = self._writer.cluster
        if job_id not in self._succeeded:
            return
        together = programs.waits_with(cluster, cluster.jobs[job_id])
        ids = [part.job_id for part in together]
        if not self._succeeded.issuperset(ids):
            return
        if any(part.state == JobState.SUSPENDED for part in together):
            return  # it begins when it is resumed
        self._succeeded.difference_update(ids)
        self._log.info(f"Configuration for JobId={job_id} is complete")
        self._writer.record(
            programs.prologs_succeeded(cluster, together, self._now_us(), preparation(self.conf))
        )

    def _fail(self, job: Job) -> None:
        why = programs.why_not_requeued(job, self.conf)
        if why:
            self._log.info(f"unable to requeue JobId={job.job_id}: {why}")
            # Its command hears of the end as soon as that is recorded, and listens no longer.
            command = job.request.origin or "salloc"
            self._notify(job.job_id, f"{command}: PrologSlurmctld failed, job killed")
        self._writer.record(
            programs.prolog_failed(self._writer.cluster, job, self.conf, self._now_us())
        )

    # Epilog -------------------------------------------------------------------------------------

    def _begin_epilog(self, job: Job) -> None:
        environment = epilog_environment(self._writer.cluster, job)
        self._writer.when_durable(partial(self._run_epilog, job.job_id, job.attempt, environment))

    def _run_epilog(self, job_id: int, attempt: int, environment: dict[str, str]) -> None:
        self._runner.run(
            (self.conf.epilog_slurmctld,),
            environment,
            self.conf.epilog_timeout,
            partial(self._epilog_ended, job_id, attempt),
        )

    def _epilog_ended(self, job_id: int, attempt: int, result: HookResult) -> None:
        cluster = self._writer.cluster
        if not self._is_due(cluster.epilogs, job_id, attempt):
            return
        if result.status:
            self._log.error(f"epilog_slurmctld JobId={job_id}: {result.text}")
        job = cluster.jobs[job_id]
        self._writer.record(
            programs.epilog_ended(cluster, job, self._now_us(), requeue_rules(self.conf))
        )

    def _is_due(self, due: Mapping[int, None], job_id: int, attempt: int) -> bool:
        """Return whether a run of this attempt is still owed."""
        return job_id in due and self._writer.cluster.jobs[job_id].attempt == attempt
