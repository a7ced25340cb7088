"""How a job goes back into the queue after a run: whether it may run again, and when.

RequeueExit and RequeueExitHold send jobs back by the exit code of their script.
A run that could not be launched says more about its nodes than about the job. Such a job waits
twice as long each time. After MaxBatchRequeue of these runs it is held for an administrator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, Reason

_MOST_DOUBLINGS = 5


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
        return event_of(reason=Reason.JobHeldUser, flags=kept)
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
