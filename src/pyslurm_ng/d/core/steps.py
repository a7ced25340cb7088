"""Steps on this node: asked for by srun, started, failed, ended, or impossible to end."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.d.core import runs
from pyslurm_ng.d.core.actions import Action, RefuseStep, TellUnkillable
from pyslurm_ng.d.core.node_core import JobHere, NodeCore, StepEnd
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN, STEP_INTERACTIVE
from pyslurm_ng.wire import node_messages as nm

_KILL_TASK_FAILED = "Kill task failed"
_NOT_STARTED = 1 << 8  # exit code 1
_TOO_MANY_ENDS = "too many jobs have ended here in the last minutes; try again later"


def launch_step(
    core: NodeCore, credential: nm.JobCredential, ticket: int, signed: bytes = b""
) -> list[Action]:
    """Return what a verified request of srun asks for; `signed` is the credential as it came."""
    revoked = Errno.ESLURMD_CREDENTIAL_REVOKED
    if core.is_over(credential):
        return [RefuseStep(ticket, revoked, "Job credential revoked")]
    if not core.may_begin(credential):
        return [RefuseStep(ticket, revoked, _TOO_MANY_ENDS)]
    job = core.jobs.get(credential.job_id)
    is_later = job is not None and job.attempt < credential.attempt
    if job is not None and not is_later and credential.step_id in job.steps:
        text = f"step {credential.step_id} of job {job.job_id} is running already"
        return [RefuseStep(ticket, revoked, text)]
    actions, job = runs.begin(core, credential, signed)
    job.steps_wait.append((ticket, credential))
    return actions + runs.go_on(core, job)


def step_started(core: NodeCore, job_id: int, attempt: int, step_id: int) -> None:
    """A supervisor says that its tasks run."""
    job = core.attempt(job_id, attempt)
    duty_id = job.steps.get(step_id, 0) if job is not None else 0
    if duty_id:
        core.reports.append(nm.DutyDone(job_id, attempt, duty_id))


def step_failed(
    core: NodeCore,
    job_id: int,
    attempt: int,
    step_id: int,
    text: str,
    *,
    drain: str = "",
    is_nodes: bool = False,
) -> list[Action]:
    """A supervisor could not even be begun.

    Args:
        drain: why the node should take no further jobs; "" if it may.
        is_nodes: nothing that a user asked for can be the cause, only this node.
    """
    job = core.attempt(job_id, attempt)
    if job is None or step_id not in job.steps:
        return []
    duty_id = job.steps.pop(step_id)
    if step_id == STEP_BATCH:
        code = Errno.ESLURMD_JOB_NOTRUNNING
        if drain or is_nodes:
            code = Errno.ESLURMD_CREATE_BATCH_DIR_ERROR
        core.reports.append(nm.LaunchFailed(job_id, attempt, duty_id, code, text, drain))
    elif drain:
        core.drain(drain)
    if step_id == STEP_EXTERN:
        core.reports.append(nm.StepEnded(job_id, attempt, step_id, _NOT_STARTED, 0, 0, error=text))
    return runs.finish(core, job)


def step_ended(
    core: NodeCore, job_id: int, attempt: int, step_id: int, end: StepEnd
) -> list[Action]:
    """Report the end of a step; a job that is ending may be clean now.

    A script that did not begin because of this node may begin on another.
    """
    job = core.attempt(job_id, attempt)
    if job is None or step_id not in job.steps:
        return []
    duty_id = job.steps.pop(step_id)
    if step_id == STEP_BATCH and end.drain and duty_id:
        code = Errno.ESLURMD_CREATE_BATCH_DIR_ERROR
        failed = nm.LaunchFailed(job_id, attempt, duty_id, code, end.error, end.drain)
        core.reports.append(failed)
        return runs.finish(core, job)
    if end.drain:
        core.drain(end.drain)
    if step_id == STEP_BATCH:
        return _batch_ended(core, job, duty_id, end)
    _tell_end(core, job, step_id, end)
    return runs.finish(core, job)


def _tell_end(core: NodeCore, job: JobHere, step_id: int, end: StepEnd) -> None:
    """Report a step's end to those who gave it its share.

    When the job ends, too, its step manager may be gone first: then the controller hears it.
    """
    report = nm.StepEnded(
        job.job_id, job.attempt, step_id, end.status, end.start_us, end.end_us,
        end.flags & ~END_CLEAN, end.usage, end.error,
    )  # fmt: skip
    is_managed = job.is_managed and step_id < STEP_INTERACTIVE
    if is_managed and job.credential is not None:
        core.managed_ends.append((job.credential.batch_host, report))
    if not is_managed or job.is_ending:
        core.reports.append(report)
    else:
        job.untold[step_id] = report


def _batch_ended(core: NodeCore, job: JobHere, duty_id: int, end: StepEnd) -> list[Action]:
    """Report a script's end, which stands for its start if that is not reported yet."""
    is_clean = (
        bool(end.flags & END_CLEAN) and not core.has_epilog and not job.steps and not job.is_ending
    )
    flags = end.flags | END_CLEAN if is_clean else end.flags & ~END_CLEAN
    ended = nm.BatchEnded(
        job.job_id, job.attempt, duty_id, end.status, end.start_us, end.end_us, flags, end.usage,
        end.error,
    )  # fmt: skip
    core.reports = [
        report
        for report in core.reports
        if not (isinstance(report, nm.DutyDone) and duty_id and report.duty_id == duty_id)
    ]
    core.reports.append(ended)
    core.remember(job.job_id, job.attempt, ended)
    if is_clean:
        del core.jobs[job.job_id]
        return []
    return runs.finish(core, job)


def step_unkillable(core: NodeCore, job_id: int, attempt: int, step_id: int) -> list[Action]:
    """Something of a step outlives SIGKILL: the node is drained until an administrator has
    looked at it.

    The step, and with it the job, ends when that is gone.
    """
    job = core.attempt(job_id, attempt)
    if job is None or step_id not in job.steps or step_id in job.stuck:
        return []
    job.stuck.add(step_id)
    core.drain(_KILL_TASK_FAILED)
    return [TellUnkillable(job_id, step_id)]
