"""What a node does about orders and ends of processes. Pure: orders in, actions and reports out.

Everything is idempotent by (job, attempt): an order heard again is answered again, and starts
nothing twice. The edge carries out the returned actions and calls back with what became of them;
reports wait in `reports` until the edge has had them acknowledged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import (
    END_CLEAN,
    SIGKILL,
    SIGNAL_BATCH_ONLY,
    SIGNAL_CANCELLED,
    SIGNAL_NODE_FAIL,
    SIGNAL_PREEMPTED,
    SIGNAL_REQUEUED,
    SIGNAL_RESERVATION,
    SIGNAL_STEPS_ONLY,
    SIGNAL_TIME_LIMIT,
)
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.model.job import Usage
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.step_contract import Order

_REMEMBERED = 20_000
_HALF_THE_IDS = 1 << 25  # of MaxJobId, 67108863
KILL_TASK_FAILED = "Kill task failed"


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step's supervisor says that its tasks ended; flags are END_* of node_messages."""

    status: int
    flags: int
    start_us: int
    end_us: int
    usage: Usage | None = None
    error: str = ""


# Actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunProlog:
    """Run Prolog for a job, then `prolog_ended`."""

    job_id: int
    attempt: int
    credential: nm.JobCredential


@dataclass(frozen=True, slots=True)
class RunEpilog:
    """Run Epilog for a job of which nothing is left, then `epilog_ended`."""

    job_id: int
    attempt: int
    credential: nm.JobCredential | None


@dataclass(frozen=True, slots=True)
class StartBatch:
    """Start the supervisor of a script, then `step_started`, later `step_ended`."""

    credential: nm.JobCredential
    order: nm.LaunchBatch


@dataclass(frozen=True, slots=True)
class StartStep:
    """Start the supervisor of a step that srun asked for; `ticket` names whom to answer."""

    credential: nm.JobCredential
    ticket: int


@dataclass(frozen=True, slots=True)
class RefuseStep:
    """Answer a step's request with an error."""

    ticket: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """Tell a step's supervisor something."""

    job_id: int
    attempt: int
    step_id: int
    words: Order


@dataclass(frozen=True, slots=True)
class TellUnkillable:
    """Run UnkillableStepProgram: something of a step has outlived SIGKILL for too long."""

    job_id: int
    step_id: int


@dataclass(frozen=True, slots=True)
class Reboot:
    """Run RebootProgram."""


Action = (
    RunProlog | RunEpilog | StartBatch | StartStep | RefuseStep | Command | TellUnkillable | Reboot
)


# State ----------------------------------------------------------------------------------------


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
    since_us: int = 0  # when it came here, by the boot clock; 0: not known
    epilog: str = "none"
    stuck: set[int] = field(default_factory=set)  # steps that outlive SIGKILL, as reported
    later: JobHere | None = None  # the attempt that begins when nothing of this one is left

    @property
    def is_ending(self) -> bool:
        """Whether the node refuses new jobs and steps."""
        return self.terminate_duty >= 0


class NodeCore:
    """The jobs of one node.

    Args:
        has_prolog, has_epilog: whether the configuration names such programs.
        kill_wait_s: between SIGTERM and SIGKILL.
    """

    def __init__(self, *, has_prolog: bool, has_epilog: bool, kill_wait_s: int) -> None:
        self.has_prolog = has_prolog
        self.has_epilog = has_epilog
        self.kill_wait_s = kill_wait_s
        self.epoch = 0
        self.newest_job_id = 0
        self.jobs: dict[int, JobHere] = {}
        self.reports: list[nm.Report] = []
        self._ended: OrderedDict[tuple[int, int], nm.BatchEnded | None] = OrderedDict()

    # Orders -----------------------------------------------------------------------------------

    def accept_epoch(self, epoch: int) -> bool:
        """Return whether orders of this epoch are to be obeyed; a newer one becomes ours."""
        if epoch < self.epoch:
            return False
        self.epoch = epoch
        return True

    def obey(self, order: nm.Order, credential: nm.JobCredential | None) -> list[Action]:
        """Return what an order asks for; `credential` is its own, verified by the edge."""
        if isinstance(order, nm.LaunchBatch):
            assert credential is not None
            return self._launch(order, credential)
        if isinstance(order, nm.PrepareJob):
            assert credential is not None
            return self._prepare(order, credential)
        if isinstance(order, nm.TerminateJob):
            return self._terminate(order, credential)
        if isinstance(order, nm.SignalJob):
            return self._signal(order)
        if isinstance(order, (nm.SuspendJob, nm.ResumeJob)):
            is_suspended = isinstance(order, nm.SuspendJob)
            return self._tell_all(order, {"do": "suspend" if is_suspended else "resume"})
        if isinstance(order, nm.TerminateStep):
            return self._terminate_step(order)
        if isinstance(order, nm.TellJob):
            words: Order = {"do": "say", "text": order.text}
            return self._tell(order.job_id, order.attempt, [STEP_BATCH], words)
        self.reports.append(nm.DutyDone(0, 0, order.duty_id))
        return [Reboot()]

    def refuse(
        self, order: nm.PrepareJob | nm.LaunchBatch, job: tuple[int, int], text: str
    ) -> None:
        """Report that an order's credential does not allow it."""
        self.reports.append(
            nm.LaunchFailed(job[0], job[1], order.duty_id, Errno.ESLURMD_CREDENTIAL_REVOKED, text)
        )

    def _launch(self, order: nm.LaunchBatch, credential: nm.JobCredential) -> list[Action]:
        key = (credential.job_id, credential.attempt)
        if key in self._ended:
            known = self._ended[key]
            if known is not None:
                self.reports.append(known)
            return []
        if self.is_over(credential):
            return []
        actions, job = self._know(credential)
        if STEP_BATCH in job.steps or job.batch_waits is not None or job.is_ending:
            if STEP_BATCH in job.steps:
                self.reports.append(nm.DutyDone(*key, order.duty_id))
            return actions
        job.batch_waits = order
        return actions + self._go_on(job)

    def _prepare(self, order: nm.PrepareJob, credential: nm.JobCredential) -> list[Action]:
        if self.is_over(credential):
            return []
        actions, job = self._know(credential)
        job.prepares.append(order.duty_id)
        return actions + self._go_on(job)

    def is_over(self, credential: nm.JobCredential) -> bool:
        """Return whether an attempt has ended here, or is to end: its credential opens nothing.

        So does that of one whose successor is here; an order for it is old mail.
        """
        if (credential.job_id, credential.attempt) in self._ended:
            return True
        job = self.jobs.get(credential.job_id)
        if job is None or job.attempt < credential.attempt:
            return False
        return job.is_ending or job.later is not None or job.attempt > credential.attempt

    def _know(self, credential: nm.JobCredential) -> tuple[list[Action], JobHere]:
        """Return this attempt's record; whatever runs of an older attempt is ended first.

        Attempts of one job have one directory and one control group: the end of an older one would
        take those of the later one with it.
        """
        self._note_id(credential.job_id)
        job = self.jobs.get(credential.job_id)
        actions: list[Action] = []
        if job is not None and job.attempt != credential.attempt:
            if not job.is_ending:
                actions += self._end(job, 0, "", 0.0)
            if self.jobs.get(job.job_id) is job:
                if job.later is not None and job.later.attempt != credential.attempt:
                    actions += self._drop_later(job)
                if job.later is None:
                    job.later = JobHere(credential.job_id, credential.attempt, credential)
                return actions, job.later
            job = None
        if job is None:
            job = JobHere(credential.job_id, credential.attempt, credential)
            self.jobs[credential.job_id] = job
        elif job.credential is None:
            job.credential = credential
        return actions, job

    def _note_id(self, job_id: int) -> None:
        """Remember the newest id; behind the highest that there is, ids begin anew."""
        newest = self.newest_job_id
        is_newer = job_id > newest if abs(job_id - newest) < _HALF_THE_IDS else job_id < newest
        if is_newer or not newest:
            self.newest_job_id = job_id

    def _go_on(self, job: JobHere) -> list[Action]:
        """Start what waits, after the prolog, once nothing of an older attempt is left."""
        if self.jobs.get(job.job_id) is not job:
            return []
        if job.prolog == "none" and self.has_prolog:
            job.prolog = "running"
            assert job.credential is not None
            return [RunProlog(job.job_id, job.attempt, job.credential)]
        if job.prolog == "running":
            return []
        job.prolog = "done"
        for duty_id in job.prepares:
            self.reports.append(nm.DutyDone(job.job_id, job.attempt, duty_id))
        job.prepares.clear()
        actions: list[Action] = []
        if job.batch_waits is not None:
            order, job.batch_waits = job.batch_waits, None
            job.steps[STEP_BATCH] = order.duty_id
            assert job.credential is not None
            actions.append(StartBatch(job.credential, order))
        waiting, job.steps_wait = job.steps_wait, []
        for ticket, credential in waiting:
            job.steps[credential.step_id] = 0
            actions.append(StartStep(credential, ticket))
        return actions

    def prolog_ended(self, job_id: int, attempt: int, problem: str) -> list[Action]:
        """Go on after the prolog; `problem` is empty when it succeeded."""
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt or job.prolog != "running":
            return []
        job.prolog = "done"
        if not problem:
            if job.is_ending:
                return self._maybe_clean(job)
            return self._go_on(job)
        duty_id = job.batch_waits.duty_id if job.batch_waits else next(iter(job.prepares), 0)
        self.reports.append(
            nm.LaunchFailed(
                job_id, attempt, duty_id, Errno.ESLURMD_PROLOG_FAILED, problem, "Prolog error"
            )
        )
        actions: list[Action] = [
            RefuseStep(ticket, Errno.ESLURMD_PROLOG_FAILED, "Prolog failed")
            for ticket, _ in job.steps_wait
        ]
        job.batch_waits = None
        job.steps_wait.clear()
        job.prepares.clear()
        return actions + (self._maybe_clean(job) if job.is_ending else [])

    # Steps ------------------------------------------------------------------------------------

    def launch_step(self, credential: nm.JobCredential, ticket: int) -> list[Action]:
        """Return what a verified request of srun asks for."""
        job = self.jobs.get(credential.job_id)
        is_later = job is not None and job.attempt < credential.attempt
        if self.is_over(credential):
            return [RefuseStep(ticket, Errno.ESLURMD_CREDENTIAL_REVOKED, "Job credential revoked")]
        if job is not None and not is_later and credential.step_id in job.steps:
            text = f"step {credential.step_id} of job {job.job_id} is running already"
            return [RefuseStep(ticket, Errno.ESLURMD_CREDENTIAL_REVOKED, text)]
        actions, job = self._know(credential)
        job.steps_wait.append((ticket, credential))
        return actions + self._go_on(job)

    def step_started(self, job_id: int, attempt: int, step_id: int) -> None:
        """A supervisor says that its tasks run."""
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt:
            return
        duty_id = job.steps.get(step_id, 0)
        if duty_id:
            self.reports.append(nm.DutyDone(job_id, attempt, duty_id))

    def step_failed(
        self, job_id: int, attempt: int, step_id: int, text: str, *, drain: str = ""
    ) -> list[Action]:
        """A supervisor could not even be begun: a fault of this node.

        Args:
            drain: why the node should take no more jobs, where it should not.
        """
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt or step_id not in job.steps:
            return []
        duty_id = job.steps.pop(step_id)
        if step_id == STEP_BATCH:
            code = Errno.ESLURMD_CREATE_BATCH_DIR_ERROR if drain else Errno.ESLURMD_JOB_NOTRUNNING
            self.reports.append(nm.LaunchFailed(job_id, attempt, duty_id, code, text, drain))
        elif drain:
            self.drain(drain)
        return self._maybe_clean(job)

    def drain(self, reason: str) -> None:
        """Ask for no more jobs, unless that is about to be asked already."""
        trouble = nm.NodeTrouble(0, 0, reason)
        if trouble not in self.reports:
            self.reports.append(trouble)

    def step_ended(self, job_id: int, attempt: int, step_id: int, end: StepEnd) -> list[Action]:
        """Report the end of a step; a job that is ending may be clean now."""
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt or step_id not in job.steps:
            return []
        duty_id = job.steps.pop(step_id)
        actions: list[Action] = []
        if step_id != STEP_BATCH:
            if step_id != STEP_EXTERN:
                self.reports.append(
                    nm.StepEnded(
                        job_id, attempt, step_id, end.status, end.start_us, end.end_us,
                        end.flags & ~END_CLEAN, end.usage, end.error,
                    )
                )  # fmt: skip
            return actions + self._maybe_clean(job)
        is_clean = (
            bool(end.flags & END_CLEAN)
            and not self.has_epilog
            and not job.steps
            and not job.is_ending
        )
        flags = end.flags | END_CLEAN if is_clean else end.flags & ~END_CLEAN
        report = nm.BatchEnded(
            job_id, attempt, duty_id, end.status, end.start_us, end.end_us, flags, end.usage,
            end.error,
        )  # fmt: skip
        self.reports = [
            item
            for item in self.reports
            if not (isinstance(item, nm.DutyDone) and duty_id and item.duty_id == duty_id)
        ]
        self.reports.append(report)
        self._remember((job_id, attempt), report)
        if is_clean:
            del self.jobs[job_id]
            return actions
        return actions + self._maybe_clean(job)

    def step_unkillable(self, job_id: int, attempt: int, step_id: int) -> list[Action]:
        """Something of a step outlives SIGKILL: the node is drained until an administrator has
        looked at it.

        The step, and with it the job, ends when that is gone.
        """
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt or step_id not in job.steps:
            return []
        if step_id in job.stuck:
            return []
        job.stuck.add(step_id)
        self.drain(KILL_TASK_FAILED)
        return [TellUnkillable(job_id, step_id)]

    def _remember(self, key: tuple[int, int], report: nm.BatchEnded | None) -> None:
        self._ended[key] = report if report is not None else self._ended.get(key)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    # Ending -----------------------------------------------------------------------------------

    def _terminate(
        self, order: nm.TerminateJob, credential: nm.JobCredential | None
    ) -> list[Action]:
        job = self.jobs.get(order.job_id)
        if job is None or job.attempt != order.attempt:
            if job is not None and job.later is not None and job.later.attempt == order.attempt:
                actions = self._drop_later(job)
                self._report_clean(order.job_id, order.attempt, order.duty_id, 0)
                return actions
            if job is None and self.has_epilog and credential is not None:
                job = JobHere(order.job_id, order.attempt, credential, prolog="done")
                self.jobs[order.job_id] = job
            else:
                self._remember((order.job_id, order.attempt), None)
                self._report_clean(order.job_id, order.attempt, order.duty_id, 0)
                return []
        if job.credential is None:
            job.credential = credential
        wait_s = 0.0 if order.force else float(self.kill_wait_s)
        if job.is_ending:
            job.terminate_duty = order.duty_id or job.terminate_duty
            # A supervisor may not have heard it; to one that has, only a shorter wait is news.
            words: Order = {"do": "terminate", "why": "", "wait_s": wait_s}
            again = [Command(job.job_id, job.attempt, step_id, words) for step_id in job.steps]
            return [*again, *self._maybe_clean(job)]
        text = why(order.flags)
        if order.flags & SIGNAL_RESERVATION and job.credential is not None:
            text += f"\n{_ended(job.credential.reservation)}"
        return self._end(job, order.duty_id, text, wait_s)

    def _end(self, job: JobHere, duty_id: int, text: str, wait_s: float) -> list[Action]:
        job.terminate_duty = duty_id
        job.batch_waits = None
        actions = _revoked(job)
        words: Order = {"do": "terminate", "why": text, "wait_s": wait_s}
        for step_id in job.steps:
            actions.append(Command(job.job_id, job.attempt, step_id, words))
        self._remember((job.job_id, job.attempt), None)
        return actions + self._maybe_clean(job)

    def _maybe_clean(self, job: JobHere) -> list[Action]:
        """Run the epilog when a job that is ending has nothing left here, then report."""
        if not job.is_ending or job.steps or job.prolog == "running" or job.epilog == "running":
            return []
        if self.has_epilog and job.epilog == "none":
            job.epilog = "running"
            return [RunEpilog(job.job_id, job.attempt, job.credential)]
        self._report_clean(job.job_id, job.attempt, job.terminate_duty, 0)
        return self._gone(job)

    def _gone(self, job: JobHere) -> list[Action]:
        """Forget an attempt of which nothing is left; a later one that waited for that begins."""
        if job.later is None:
            del self.jobs[job.job_id]
            return []
        self.jobs[job.job_id] = job.later
        return self._go_on(job.later)

    def _drop_later(self, job: JobHere) -> list[Action]:
        """Give up the attempt that waits for the end of this one."""
        later, job.later = job.later, None
        assert later is not None
        self._remember((later.job_id, later.attempt), None)
        return _revoked(later)

    def epilog_ended(self, job_id: int, attempt: int, status: int) -> list[Action]:
        """Report that a node is clean of a job."""
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt or job.epilog != "running":
            return []
        self._report_clean(job_id, attempt, job.terminate_duty, status)
        return self._gone(job)

    def _report_clean(self, job_id: int, attempt: int, duty_id: int, status: int) -> None:
        report = nm.JobTerminated(job_id, attempt, duty_id, status)
        if report not in self.reports:
            self.reports.append(report)
        if status and not duty_id:
            self.drain("Epilog error")

    def _terminate_step(self, order: nm.TerminateStep) -> list[Action]:
        self.reports.append(nm.DutyDone(order.job_id, order.attempt, order.duty_id))
        words: Order = {
            "do": "terminate",
            "why": why(order.flags),
            "wait_s": float(self.kill_wait_s),
        }
        return self._tell(order.job_id, order.attempt, [order.step_id], words)

    # Signals ----------------------------------------------------------------------------------

    def _signal(self, order: nm.SignalJob) -> list[Action]:
        self.reports.append(nm.DutyDone(order.job_id, order.attempt, order.duty_id))
        job = self.jobs.get(order.job_id)
        if job is None or job.attempt != order.attempt:
            return []
        words: Order = {"do": "signal", "number": order.signal, "scope": "all"}
        if order.step_id >= 0:
            if order.signal == SIGKILL:
                text = "DUE to SIGNAL Killed" if order.flags & SIGNAL_CANCELLED else ""
                words = {"do": "terminate", "why": text, "wait_s": 0.0}
            return self._tell(order.job_id, order.attempt, [order.step_id], words)
        if order.flags & SIGNAL_BATCH_ONLY:
            words = {"do": "signal", "number": order.signal, "scope": "script"}
            return self._tell(order.job_id, order.attempt, [STEP_BATCH], words)
        steps = [step for step in job.steps if step not in (STEP_BATCH, STEP_EXTERN)]
        if not order.flags & SIGNAL_STEPS_ONLY:
            steps = list(job.steps)
        return self._tell(order.job_id, order.attempt, steps, words)

    def _tell_all(self, order: nm.SuspendJob | nm.ResumeJob, words: Order) -> list[Action]:
        self.reports.append(nm.DutyDone(order.job_id, order.attempt, order.duty_id))
        job = self.jobs.get(order.job_id)
        if job is None:
            return []
        return self._tell(order.job_id, order.attempt, list(job.steps), words)

    def _tell(
        self, job_id: int, attempt: int, step_ids: Sequence[int], words: Order
    ) -> list[Action]:
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt:
            return []
        return [
            Command(job_id, attempt, step_id, words) for step_id in step_ids if step_id in job.steps
        ]

    # Restart ----------------------------------------------------------------------------------

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

    def adopt(
        self, credential: nm.JobCredential, step_id: int, duty_id: int, since_us: int = 0
    ) -> None:
        """Take up a step that a predecessor of this daemon had started, and since when it knew."""
        job = self.jobs.get(credential.job_id)
        if job is None:
            job = JobHere(credential.job_id, credential.attempt, credential, prolog="done")
            self.jobs[credential.job_id] = job
        self.arrived(job.job_id, since_us)
        job.steps[step_id] = duty_id

    def remember_ended(self, credential: nm.JobCredential, duty_id: int, end: StepEnd) -> None:
        """Know again of a script that ended and was reported before a restart."""
        report = nm.BatchEnded(
            credential.job_id, credential.attempt, duty_id, end.status, end.start_us, end.end_us,
            end.flags & ~END_CLEAN, end.usage, end.error,
        )  # fmt: skip
        self._remember((credential.job_id, credential.attempt), report)

    def has_preparing(self) -> bool:
        """Return whether a report that a job is prepared is waited for."""
        return self.has_prolog and any(isinstance(report, nm.DutyDone) for report in self.reports)

    def running(self, boot_us: int = 0, wall_us: int = 0) -> list[nm.RunningJob]:
        """Return what a registration says of this node's jobs, those with unsent reports too.

        Args:
            boot_us: now by the boot clock, for how long each job has been here.
            wall_us: now by the clock that reports are of, for jobs of which only that is left.
        """
        found = {
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
            if key not in found:
                has_begun = 0 < report.start_us <= wall_us
                found[key] = nm.RunningJob(*key, [], wall_us - report.start_us if has_begun else -1)
            found[key].step_ids.append(STEP_BATCH)
        return list(found.values())


def _revoked(job: JobHere) -> list[Action]:
    """Return the answers to the steps that waited to begin in a job that is over."""
    waiting, job.steps_wait = job.steps_wait, []
    return [
        RefuseStep(ticket, Errno.ESLURMD_CREDENTIAL_REVOKED, "Job credential revoked")
        for ticket, _ in waiting
    ]


def _ended(reservation: str) -> str:
    return f"REASON: Reservation {reservation}, which this job was running under, has ended"


def why(flags: int) -> str:
    """Return how a job's stderr says why it was ended; nothing for a job that ended by itself."""
    if flags & SIGNAL_TIME_LIMIT:
        return "DUE TO TIME LIMIT"
    if flags & SIGNAL_PREEMPTED:
        return "DUE TO PREEMPTION"
    if flags & SIGNAL_REQUEUED:
        return "DUE TO JOB REQUEUE"
    if flags & SIGNAL_CANCELLED:
        return "DUE to SIGNAL Terminated"
    if flags & SIGNAL_NODE_FAIL:
        return "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    return ""
