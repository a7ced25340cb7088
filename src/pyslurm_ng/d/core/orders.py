"""Orders of the controller, and what follows from each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import (
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
from pyslurm_ng.d.core import runs
from pyslurm_ng.d.core.actions import Action, Command, Reboot
from pyslurm_ng.d.core.node_core import JobHere, NodeCore
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from typing import TypeAlias

    from pyslurm_ng.d.spool.step_contract import Order

    _OfJob: TypeAlias = (
        nm.SignalJob | nm.SuspendJob | nm.ResumeJob | nm.TellJob | nm.TerminateJob
        | nm.TerminateStep
    )  # fmt: skip


def obey(core: NodeCore, order: nm.Order, credential: nm.JobCredential | None) -> list[Action]:
    """Return what an order asks for; `credential` is its own, verified by the edge."""
    if isinstance(order, nm.LaunchBatch):
        assert credential is not None
        return _launch(core, order, credential)
    if isinstance(order, nm.PrepareJob):
        assert credential is not None
        return _prepare(core, order, credential)
    if isinstance(order, nm.TerminateJob):
        return _terminate(core, order, credential)
    if isinstance(order, nm.TellJob):
        return _tell(core, order, [STEP_BATCH], {"do": "say", "text": order.text})
    if isinstance(order, nm.RebootNode):
        core.reports.append(nm.DutyDone(0, 0, order.duty_id))
        if order.duty_id == core.reboot_duty_id:
            return []  # said again before our answer arrived
        core.reboot_duty_id = order.duty_id
        return [Reboot()]
    core.reports.append(nm.DutyDone(order.job_id, order.attempt, order.duty_id))
    if isinstance(order, nm.SignalJob):
        return _signal(core, order)
    if isinstance(order, nm.TerminateStep):
        wait_s = float(core.kill_wait_s)
        words: Order = {"do": "terminate", "why": why(order.flags), "wait_s": wait_s}
        if order.step_id == STEP_EXTERN:
            words = {"do": "signal", "number": SIGKILL, "scope": "all"}
        return _tell(core, order, [order.step_id], words)
    return _suspend(core, order)


def _suspend(core: NodeCore, order: nm.SuspendJob | nm.ResumeJob) -> list[Action]:
    """Stop what runs of a job and let its launches wait, or let all go on."""
    is_suspended = isinstance(order, nm.SuspendJob)
    key, job = (order.job_id, order.attempt), core.attempt(order.job_id, order.attempt)
    actions = _tell(core, order, None, {"do": "suspend" if is_suspended else "resume"})
    if is_suspended:
        core.suspended.add(key)
    else:
        core.suspended.discard(key)
    if job is not None:
        job.is_suspended = is_suspended
        if not is_suspended and not job.is_ending:
            actions += runs.go_on(core, job)
    return actions


def refuse(
    core: NodeCore, order: nm.PrepareJob | nm.LaunchBatch, job: tuple[int, int], text: str
) -> None:
    """Report that an order's credential does not allow it."""
    core.reports.append(
        nm.LaunchFailed(job[0], job[1], order.duty_id, Errno.ESLURMD_CREDENTIAL_REVOKED, text)
    )


# Launches -------------------------------------------------------------------------------------


def _launch(core: NodeCore, order: nm.LaunchBatch, credential: nm.JobCredential) -> list[Action]:
    if core.has_ended(credential):
        report = core.ended_report(credential)
        if report is not None:
            core.reports.append(report)
        return []
    if not core.may_begin(credential):
        return []
    actions, job = runs.begin(core, credential, order.credential)
    if STEP_BATCH in job.steps:
        core.reports.append(nm.DutyDone(job.job_id, job.attempt, order.duty_id))
        return actions
    if job.batch_waits is not None or job.is_ending:
        return actions
    job.batch_waits = order
    return actions + runs.go_on(core, job)


def _prepare(core: NodeCore, order: nm.PrepareJob, credential: nm.JobCredential) -> list[Action]:
    if not core.may_begin(credential):
        return []
    actions, job = runs.begin(core, credential, order.credential)
    job.prepares.append(order.duty_id)
    return actions + runs.go_on(core, job)


# Ends -----------------------------------------------------------------------------------------


def _terminate(
    core: NodeCore, order: nm.TerminateJob, credential: nm.JobCredential | None
) -> list[Action]:
    job = core.attempt(order.job_id, order.attempt)
    core.suspended.discard((order.job_id, order.attempt))
    is_unknown = order.job_id not in core.jobs
    if is_unknown and core.has_epilog and credential is not None:
        job = JobHere(order.job_id, order.attempt, credential, prolog="done")
        core.jobs[order.job_id] = job
    if job is None:
        return _terminate_absent(core, order)
    if job.credential is None:
        job.credential = credential
    job.statuses = order.exit_code, order.derived_exit_code
    wait_s = 0.0 if order.force else float(core.kill_wait_s)
    if job.is_ending:
        job.terminate_duty = order.duty_id or job.terminate_duty
        # A supervisor may not have heard it; to one that has, only a shorter wait is news.
        words: Order = {"do": "terminate", "why": "", "wait_s": wait_s}
        return [*_tell(core, order, None, words), *runs.finish(core, job)]
    text = why(order.flags)
    if order.flags & SIGNAL_RESERVATION and job.credential is not None:
        name = job.credential.reservation
        text += f"\nREASON: Reservation {name}, which this job was running under, has ended"
    return runs.end(core, job, order.duty_id, text, wait_s)


def _terminate_absent(core: NodeCore, order: nm.TerminateJob) -> list[Action]:
    """End an attempt that has not begun here: it may wait for the end of an older one."""
    actions: list[Action] = []
    job = core.jobs.get(order.job_id)
    if job is not None and job.later is not None and job.later.attempt == order.attempt:
        actions = runs.drop_later(core, job)
    else:
        core.remember(order.job_id, order.attempt)
    core.report_clean(order.job_id, order.attempt, order.duty_id)
    return actions


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


# Words for supervisors ------------------------------------------------------------------------


def _signal(core: NodeCore, order: nm.SignalJob) -> list[Action]:
    words: Order = {"do": "signal", "number": order.signal, "scope": "all"}
    if order.step_id == STEP_EXTERN:
        return _tell(core, order, [STEP_EXTERN], words)
    if order.step_id >= 0:
        if order.flags & SIGNAL_TIME_LIMIT:
            wait_s = float(core.kill_wait_s)
            words = {"do": "terminate", "why": why(order.flags), "wait_s": wait_s}
        elif order.signal == SIGKILL:
            text = "DUE to SIGNAL Killed" if order.flags & SIGNAL_CANCELLED else ""
            words = {"do": "terminate", "why": text, "wait_s": 0.0}
        return _tell(core, order, [order.step_id], words)
    if order.flags & SIGNAL_BATCH_ONLY:
        words = {"do": "signal", "number": order.signal, "scope": "script"}
        return _tell(core, order, [STEP_BATCH], words)
    job = core.attempt(order.job_id, order.attempt)
    others = {STEP_EXTERN, STEP_BATCH} if order.flags & SIGNAL_STEPS_ONLY else {STEP_EXTERN}
    steps = [step_id for step_id in (job.steps if job is not None else ()) if step_id not in others]
    return _tell(core, order, steps, words)


def _tell(
    core: NodeCore, order: _OfJob, step_ids: Iterable[int] | None, words: Order
) -> list[Action]:
    """Return what tells these steps of an order's job something, or all of them; those that run."""
    job = core.attempt(order.job_id, order.attempt)
    if job is None:
        return []
    return [
        Command(job.job_id, job.attempt, step_id, words)
        for step_id in (job.steps if step_ids is None else step_ids)
        if step_id in job.steps
    ]
