"""How a job goes back into the queue after a run: whether it may run again, and when.

RequeueExit and RequeueExitHold send jobs back by the exit code of their script.
--requeue=expedite holds a job whose script failed, unless a node of it turns out to be broken: then
it is the first of the queue, at once. An epilog that fails says so, or a node that is lost.
A run that could not be launched says more about its nodes than about the job. Such a job waits
twice as long each time. After MaxBatchRequeue of these runs it is held for an administrator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyslurm_ng.base.numbers import NO_VAL, REQ_EXPEDITE, SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState, Reason

_HELD = "job requeued in held state"
_MOST_DOUBLINGS = 5
_FAILED = (JobState.FAILED, JobState.OUT_OF_MEMORY)


@dataclass(frozen=True, slots=True)
class RequeueRules:
    """What the administrator has decided: how long jobs wait, and how often a launch may fail."""

    delay_s: int = 120  # so that nodes can clean up
    launches: int = 5


DEFAULT_RULES = RequeueRules()


def requeue_rules(conf: SlurmConf) -> RequeueRules:
    """Return the rules of `requeue_delay` in SchedulerParameters and of MaxBatchRequeue."""
    delay_s = option_int(conf.scheduler_parameters, "requeue_delay", DEFAULT_RULES.delay_s)
    return RequeueRules(delay_s, conf.max_batch_requeue)


def exit_flags(status: int, conf: SlurmConf) -> int:
    """Return `JobFlag` bits as RequeueExitHold and RequeueExit say for a script's wait status."""
    if status & 0x7F:
        return JobFlag.NONE  # a signal ended it
    code = status >> 8
    if code in conf.requeue_exit_hold:
        return JobFlag.REQUEUED | JobFlag.SPECIAL_EXIT
    return JobFlag.REQUEUED if code in conf.requeue_exit else JobFlag.NONE


def script_flags(job: Job, status: int, conf: SlurmConf) -> int:
    """Return the `JobFlag` bits for the end of a job's script with this wait status."""
    flags = exit_flags(status, conf)
    if not flags and status and job.request.flags & REQ_EXPEDITE:
        return JobFlag.REQUEUED | JobFlag.REQUEUE_HOLD  # until its nodes are known to be broken
    return flags


def lost_run_flags(job: Job) -> int:
    """Return the `JobFlag` bits for a run that ended with its node and may be repeated."""
    return JobFlag.REQUEUED | (JobFlag.EXPEDITING if _is_expedited(job) else JobFlag.NONE)


def flags_beside_a_broken_node(job: Job) -> int:
    """Return a completing job's `JobFlag` bits once a node of it is known to be broken."""
    waits_for_epilogs = job.state in _FAILED and job.flags & JobFlag.REQUEUED
    if not _is_expedited(job) or not waits_for_epilogs or job.flags & JobFlag.SPECIAL_EXIT:
        return job.flags
    return job.flags & ~JobFlag.REQUEUE_HOLD | JobFlag.EXPEDITING


def hold_reason(job: Job) -> Reason:
    """Return how a job was held while it ran; NONE if it was not."""
    is_held = job.priority == 0 and job.reason in (Reason.JobHeldAdmin, Reason.JobHeldUser)
    return Reason(job.reason) if is_held else Reason.NONE


def _is_expedited(job: Job) -> bool:
    return bool(job.request.flags & REQ_EXPEDITE)


def requeued(
    job: Job, flags: int, now_us: int, rules: RequeueRules = DEFAULT_RULES
) -> ev.JobRequeued:
    """Return the event that puts a job whose run is over back into the queue.

    Args:
        flags: the job's as they will be, since JobCompleting may not be applied yet.
    """
    attempt = job.attempt + 1
    # A special exit is a special kind of hold, and shown as such.
    kept = flags & JobFlag.SPECIAL_EXIT or flags & JobFlag.REQUEUE_HOLD
    failures = job.launch_failures + 1 if flags & JobFlag.LAUNCH_FAILED else 0
    event_of = partial(
        ev.JobRequeued, time_us=now_us, job_id=job.job_id, attempt=attempt, begin_us=0, priority=0
    )
    if kept and failures:
        return event_of(reason=Reason.JobHeldAdmin, reason_text="launch failed requeued held")
    if kept:
        return event_of(reason=Reason.JobHeldUser, flags=kept, reason_text=_HELD)
    if job.priority == 0 and job.nodes:
        return event_of(reason=hold_reason(job) or Reason.JobHeldUser)
    if flags & JobFlag.EXPEDITING:
        return event_of(flags=JobFlag.EXPEDITING, priority=NO_VAL - 1)
    if failures > rules.launches:
        return event_of(reason=Reason.JobHoldMaxRequeue, launch_failures=failures)
    # The second more is Slurm's: a run never begins in the second in which the last one ended.
    delay_s = (rules.delay_s << min(max(0, failures - 1), _MOST_DOUBLINGS)) + 1
    begin_us = now_us + delay_s * SECOND_US
    if job.end_us and job.begin_us >= job.end_us:
        begin_us = job.begin_us  # `scontrol update StartTime` since the run was over
    waits = begin_us > now_us
    return ev.JobRequeued(
        time_us=now_us,
        job_id=job.job_id,
        attempt=attempt,
        begin_us=begin_us if waits else 0,
        reason=Reason.BeginTime if waits else Reason.NONE,
        launch_failures=failures,
    )
