"""The run of a job on this node: prolog, script and steps, end, epilog; then the next attempt's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.core.actions import (
    Action,
    Command,
    RefuseStep,
    RunEpilog,
    RunProlog,
    StartBatch,
    StartExtern,
    StartStep,
)
from pyslurm_ng.d.core.node_core import JobHere, NodeCore
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import Order


# The beginning --------------------------------------------------------------------------------


def begin(
    core: NodeCore, credential: nm.JobCredential, signed: bytes = b""
) -> tuple[list[Action], JobHere]:
    """Return this attempt's record; an older attempt that still runs is ended first.

    Attempts of one job have one directory and one control group: the end of an older one would take
    those of the later one with it.

    Args:
        signed: the credential as it came.
    """
    actions, job = _attempt_of(core, credential)
    if credential.has_extern and not job.had_extern:
        job.signed = job.signed or signed
    return actions, job


def _attempt_of(core: NodeCore, credential: nm.JobCredential) -> tuple[list[Action], JobHere]:
    core.note_id(credential.job_id)
    job = core.jobs.get(credential.job_id)
    actions: list[Action] = []
    if job is not None and job.attempt != credential.attempt:
        if not job.is_ending:
            actions += end(core, job, 0, "", 0.0)
        if core.jobs.get(job.job_id) is job:
            if job.later is not None and job.later.attempt != credential.attempt:
                actions += drop_later(core, job)
            if job.later is None:
                job.later = JobHere(credential.job_id, credential.attempt, credential)
            return actions, job.later
        job = None
    if job is None:
        job = core.new_attempt(credential)
        core.jobs[credential.job_id] = job
    elif job.credential is None:
        job.credential = credential
    return actions, job


def go_on(core: NodeCore, job: JobHere) -> list[Action]:
    """Start what waits, after the prolog, once nothing of an older attempt is left."""
    if core.jobs.get(job.job_id) is not job:
        return []
    if job.prolog == "none" and core.has_prolog:
        job.prolog = "running"
        assert job.credential is not None
        return [RunProlog(job.job_id, job.attempt, job.credential)]
    if job.prolog == "running":
        return []
    job.prolog = "done"
    for duty_id in job.prepares:
        core.reports.append(nm.DutyDone(job.job_id, job.attempt, duty_id))
    job.prepares.clear()
    actions = _begin_extern(job)
    if job.batch_waits is not None:
        order, job.batch_waits = job.batch_waits, None
        job.steps[STEP_BATCH] = order.duty_id
        assert job.credential is not None
        actions.append(StartBatch(job.credential, order))
    if job.is_suspended:
        return actions  # a step whose share was given before would run beside those that may now
    waiting, job.steps_wait = job.steps_wait, []
    for ticket, credential in waiting:
        job.steps[credential.step_id] = 0
        actions.append(StartStep(credential, ticket))
    return actions


def _begin_extern(job: JobHere) -> list[Action]:
    """Start the job's extern step, before all other steps, if it has one."""
    if job.had_extern or not job.signed:
        return []
    assert job.credential is not None
    signed, job.signed, job.had_extern = job.signed, b"", True
    job.steps[STEP_EXTERN] = 0
    return [StartExtern(job.credential, signed)]


def prolog_ended(core: NodeCore, job_id: int, attempt: int, problem: str) -> list[Action]:
    """Go on after the prolog; `problem` is empty when it succeeded."""
    job = core.attempt(job_id, attempt)
    if job is None or job.prolog != "running":
        return []
    job.prolog = "done"
    if not problem:
        return finish(core, job) if job.is_ending else go_on(core, job)
    duty_id = job.batch_waits.duty_id if job.batch_waits else next(iter(job.prepares), 0)
    code = Errno.ESLURMD_PROLOG_FAILED
    core.reports.append(nm.LaunchFailed(job_id, attempt, duty_id, code, problem, "Prolog error"))
    job.batch_waits = None
    job.prepares.clear()
    return [*_refuse_waiting(job, code, "Prolog failed"), *finish(core, job)]


# The end --------------------------------------------------------------------------------------


def end(core: NodeCore, job: JobHere, duty_id: int, why: str, wait_s: float) -> list[Action]:
    """End everything that runs of a job here, and start nothing more of it.

    Args:
        duty_id: of the order to end it; 0 for none.
        why: what the job's stderr is to say; nothing for nothing.
        wait_s: between SIGTERM and SIGKILL.
    """
    job.terminate_duty = duty_id
    job.batch_waits = None
    # Its step manager may be gone before they arrive there, and the controller has to hear them
    # before this node is clean of the job.
    core.reports += job.untold.values()
    job.untold.clear()
    words: Order = {"do": "terminate", "why": why, "wait_s": wait_s}
    actions = _revoke_waiting(job)
    actions += [Command(job.job_id, job.attempt, step_id, words) for step_id in job.steps]
    core.remember(job.job_id, job.attempt)
    return actions + finish(core, job)


def finish(core: NodeCore, job: JobHere) -> list[Action]:
    """Run the epilog if a job is ending and nothing else is left of it here, then report that."""
    if not job.is_ending or job.steps or job.prolog == "running" or job.epilog == "running":
        return []
    if core.has_epilog and job.epilog == "none":
        job.epilog = "running"
        return [RunEpilog(job.job_id, job.attempt, job.credential, *job.statuses)]
    core.report_clean(job.job_id, job.attempt, job.terminate_duty)
    return _forget(core, job)


def epilog_ended(core: NodeCore, job_id: int, attempt: int, status: int) -> list[Action]:
    """Report that the node is clean of a job."""
    job = core.attempt(job_id, attempt)
    if job is None or job.epilog != "running":
        return []
    core.report_clean(job_id, attempt, job.terminate_duty, status)
    return _forget(core, job)


def drop_later(core: NodeCore, job: JobHere) -> list[Action]:
    """Give up the attempt that waits for the end of this one."""
    later, job.later = job.later, None
    assert later is not None
    core.remember(later.job_id, later.attempt)
    return _revoke_waiting(later)


def _forget(core: NodeCore, job: JobHere) -> list[Action]:
    """Forget an attempt of which nothing is left; a later one that waited for that begins."""
    if job.later is None:
        del core.jobs[job.job_id]
        return []
    core.jobs[job.job_id] = job.later
    job.later.is_suspended = (job.later.job_id, job.later.attempt) in core.suspended
    return go_on(core, job.later)


def _revoke_waiting(job: JobHere) -> list[Action]:
    """Return the answers to the steps that waited to begin in a job that is over."""
    return _refuse_waiting(job, Errno.ESLURMD_CREDENTIAL_REVOKED, "Job credential revoked")


def _refuse_waiting(job: JobHere, code: int, text: str) -> list[Action]:
    waiting, job.steps_wait = job.steps_wait, []
    return [RefuseStep(ticket, code, text) for ticket, _ in waiting]
