"""What one node knows of its jobs, and what it has to report."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslurm_ng.base.numbers import END_CLEAN, REQ_STEPMGR
from pyslurm_ng.d.core.attempt_ends import EndedAttempts
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Usage
from pyslurm_ng.wire import node_messages as nm

_HALF_THE_IDS = 1 << 25  # of MaxJobId, 67108863


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step's supervisor says that its tasks ended; flags are END_* of node_messages."""

    status: int
    flags: int
    start_us: int
    end_us: int
    usage: Usage | None = None
    error: str = ""
    drain: str = ""  # what is wrong with this node, so that nothing can be started


@dataclass(slots=True)
class JobHere:
    """One attempt of a job on this node."""

    job_id: int
    attempt: int
    credential: nm.JobCredential | None
    prolog: str = "none"  # none, running, done
    steps: dict[int, int] = field(default_factory=dict)  # step id: its launch's duty, or 0
    batch_waits: nm.LaunchBatch | None = None
    steps_wait: list[tuple[int, nm.JobCredential]] = field(default_factory=list)
    prepares: list[int] = field(default_factory=list)  # duties to settle after the prolog
    terminate_duty: int = -1  # 0: without a duty; -1: not ordered
    statuses: tuple[int, int] = (0, 0)  # wait statuses of the job and its worst step, as ordered
    since_us: int = 0  # when it came here, by the boot clock; 0: not known
    epilog: str = "none"
    stuck: set[int] = field(default_factory=set)  # steps that outlive SIGKILL, as reported
    is_suspended: bool = False
    signed: bytes = b""  # the credential as it came, until the extern step begins
    had_extern: bool = False  # its extern step was begun
    # Ends of steps, by step id, that their step manager does not have yet.
    untold: dict[int, nm.StepEnded] = field(default_factory=dict)
    later: JobHere | None = None  # the attempt that begins when nothing of this one is left

    @property
    def is_ending(self) -> bool:
        """Whether the job is to end here, so that nothing more of it is started."""
        return self.terminate_duty >= 0

    @property
    def is_managed(self) -> bool:
        """Whether a step manager gives the job's steps their shares, here or on its first node."""
        known = self.credential
        return known is not None and bool(known.request.flags & REQ_STEPMGR)


class NodeCore:
    """The jobs of one node.

    Args:
        has_prolog, has_epilog: whether the configuration names such programs.
        kill_wait_s: between SIGTERM and SIGKILL.

    Attributes:
        epoch: of the newest controller that was heard.
        newest_job_id: the newest that the node has had.
        jobs: by id, those of which something is left here.
        reports: what the controller has not acknowledged yet.
        managed_ends: ends of steps for the step manager of their job, and the node where it is.
        ended: the attempts that are over here.
        suspended: the attempts that are suspended, also those of which nothing is here yet.
        reboot_duty_id: the last order to boot, so that it counts once.
    """

    def __init__(self, *, has_prolog: bool, has_epilog: bool, kill_wait_s: int) -> None:
        self.has_prolog = has_prolog
        self.has_epilog = has_epilog
        self.kill_wait_s = kill_wait_s
        self.epoch = 0
        self.newest_job_id = 0
        self.jobs: dict[int, JobHere] = {}
        self.reports: list[nm.Report] = []
        self.managed_ends: list[tuple[str, nm.StepEnded]] = []
        self.ended = EndedAttempts()
        self.suspended: set[tuple[int, int]] = set()
        self.reboot_duty_id = 0

    # Jobs -------------------------------------------------------------------------------------

    def attempt(self, job_id: int, attempt: int) -> JobHere | None:
        """Return an attempt of a job if it is the present one here."""
        job = self.jobs.get(job_id)
        return job if job is not None and job.attempt == attempt else None

    def arrived(self, job_id: int, boot_us: int) -> None:
        """Note when a job came here, by the boot clock, unless that is known."""
        job = self.jobs.get(job_id)
        for attempt in (job, job.later) if job is not None else ():
            if attempt is not None and not attempt.since_us:
                attempt.since_us = boot_us

    def since_us(self, job_id: int) -> int:
        """Return when a job came here, by the boot clock; 0 where that is not known."""
        job = self.jobs.get(job_id)
        return job.since_us if job is not None else 0

    def new_attempt(self, credential: nm.JobCredential, prolog: str = "none") -> JobHere:
        """Return the record of an attempt of which nothing was here before."""
        job_id, attempt = key = credential.job_id, credential.attempt
        is_suspended = key in self.suspended
        return JobHere(job_id, attempt, credential, prolog, is_suspended=is_suspended)

    def adopt(
        self, credential: nm.JobCredential, step_id: int, duty_id: int, since_us: int = 0
    ) -> None:
        """Take over a step that an earlier slurmd had started, which knew the job since then."""
        job = self.jobs.get(credential.job_id)
        if job is None:
            job = self.new_attempt(credential, prolog="done")
            job.had_extern = True  # it is begun before all other steps
            self.jobs[credential.job_id] = job
        self.arrived(job.job_id, since_us)
        job.steps[step_id] = duty_id

    def is_over(self, credential: nm.JobCredential) -> bool:
        """Return whether an attempt has ended here, or is to end: its credential opens nothing.

        So does that of an attempt whose successor is here: orders for it come too late.
        """
        if (credential.job_id, credential.attempt) in self.ended:
            return True
        job = self.jobs.get(credential.job_id)
        if job is None or job.attempt < credential.attempt:
            return False
        return job.is_ending or job.later is not None or job.attempt > credential.attempt

    def may_begin(self, credential: nm.JobCredential) -> bool:
        """Return whether a credential may start something here.

        It may not if its attempt is over. While too many ends are remembered, nothing new begins:
        the controller repeats its order, and the job waits.
        """
        if self.is_over(credential):
            return False
        return credential.job_id in self.jobs or not self.ended.is_full

    # What has ended -----------------------------------------------------------------------------

    def remember(self, job_id: int, attempt: int, report: nm.BatchEnded | None = None) -> None:
        """Remember that an attempt is over, and how its script ended if that is known."""
        self.ended.add((job_id, attempt), report)

    def has_ended(self, credential: nm.JobCredential) -> bool:
        """Return whether a credential is of an attempt that is remembered to be over."""
        return (credential.job_id, credential.attempt) in self.ended

    def ended_report(self, credential: nm.JobCredential) -> nm.BatchEnded | None:
        """Return how an attempt's script ended, if that is remembered."""
        return self.ended.report((credential.job_id, credential.attempt))

    def remember_ended(self, credential: nm.JobCredential, duty_id: int, end: StepEnd) -> None:
        """Know again of a script that ended and was reported before a restart."""
        report = nm.BatchEnded(
            credential.job_id, credential.attempt, duty_id, end.status, end.start_us, end.end_us,
            end.flags & ~END_CLEAN, end.usage, end.error,
        )  # fmt: skip
        self.remember(credential.job_id, credential.attempt, report)

    # Epochs and ids ---------------------------------------------------------------------------

    def accept_epoch(self, epoch: int) -> bool:
        """Return whether orders of this epoch are to be obeyed; a newer one becomes ours."""
        if epoch < self.epoch:
            return False
        self.epoch = epoch
        return True

    def note_id(self, job_id: int) -> None:
        """Remember the newest id; after the highest possible one, ids begin again."""
        newest = self.newest_job_id
        is_newer = job_id > newest if abs(job_id - newest) < _HALF_THE_IDS else job_id < newest
        if is_newer or not newest:
            self.newest_job_id = job_id

    # Reports ----------------------------------------------------------------------------------

    def told(self, report: nm.StepEnded) -> None:
        """Take it that a step manager has the end of a step, and tells the controller."""
        job = self.attempt(report.job_id, report.attempt)
        if job is not None:
            job.untold.pop(report.step_id, None)

    def drain(self, reason: str) -> None:
        """Ask for no further jobs, unless that is about to be asked already."""
        trouble = nm.NodeTrouble(0, 0, reason)
        if trouble not in self.reports:
            self.reports.append(trouble)

    def report_clean(self, job_id: int, attempt: int, duty_id: int, status: int = 0) -> None:
        """Report that nothing of an attempt is left; `status` is the epilog's."""
        report = nm.JobTerminated(job_id, attempt, duty_id, status)
        if report not in self.reports:
            self.reports.append(report)
        if status and not duty_id:
            self.drain("Epilog error")

    def has_preparing(self) -> bool:
        """Return whether a report that a job is prepared is waited for."""
        return self.has_prolog and any(isinstance(report, nm.DutyDone) for report in self.reports)

    def running(self, boot_us: int = 0, wall_us: int = 0) -> list[nm.RunningJob]:
        """Return what a registration says of this node's jobs, those with unsent reports too.

        Args:
            boot_us: now by the boot clock, for how long each job has been here.
            wall_us: now by the clock that reports are of, for jobs of which only that is left.
        """
        jobs = {
            (job.job_id, job.attempt): nm.RunningJob(
                job.job_id,
                job.attempt,
                sorted(job.steps),
                boot_us - job.since_us if 0 < job.since_us <= boot_us else -1,
            )
            for known in self.jobs.values()
            for job in (known, known.later)
            if job is not None
        }
        for report in self.reports:
            if not isinstance(report, nm.BatchEnded):
                continue
            key = (report.job_id, report.attempt)
            if key not in jobs:
                has_begun = 0 < report.start_us <= wall_us
                jobs[key] = nm.RunningJob(*key, [], wall_us - report.start_us if has_begun else -1)
            jobs[key].step_ids.append(STEP_BATCH)
        return list(jobs.values())
