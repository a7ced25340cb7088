"""scrontab: a user's crontab is replaced, and with it the jobs of its entries.

Source: the manual's page of scrontab. Jobs of the former crontab that wait are cancelled; those
that run go on and are the last ones.
"""

from __future__ import annotations

import msgspec

from pyslurm_ng.base.cron import CronError, parse
from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.crontabs.times import next_us
from pyslurm_ng.ctld.rules.queue import dependency, queue_room
from pyslurm_ng.ctld.rules.submission.submit import (
    Accepted,
    check,
    counted,
    decide,
    digest_of,
    free_run,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.crontab import CronEntry, Crontab
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.states import TERMINAL_STATES, JobState
from pyslurm_ng.wire.crontab_messages import CronJob, CrontabStored, StoreCrontab


def is_enabled(conf: SlurmConf) -> bool:
    """Return whether users may have crontabs."""
    return has_option(conf.scron_parameters, "enable")


def store_crontab(cluster: Cluster, message: StoreCrontab, context: Context) -> Decision | Reject:
    """Replace the caller's crontab; what is wrong with one entry refuses all."""
    if not is_enabled(context.conf):
        return Reject(Errno.ESLURM_DISABLED)
    accepted: list[Accepted] = []
    line_count, line = message.text.count("\n") + 1, 0
    for entry in message.jobs:
        if not line < entry.first_line <= entry.last_line <= line_count:
            return Reject(Errno.ESLURM_NOT_SUPPORTED, "jobs: lines of the text, in their order")
        line = entry.last_line
        checked = _check(cluster, entry, context, len(message.jobs))
        if isinstance(checked, Reject):
            problem = checked.detail or error_text(checked.code)
            refused = CrontabStored([], entry.first_line, line, int(checked.code), problem)
            return Decision(reply=refused)
        accepted.append(checked)
    refusal = queue_room.refusal(cluster, context, map(counted, accepted))
    if refusal is not None:
        return refusal
    uid, leader = context.caller.uid, free_run(cluster, max(1, len(accepted)))
    events = [*_without(cluster, cluster.crontabs.get(uid), context.now_us)]
    entries = []
    for offset, (entry, checked) in enumerate(zip(message.jobs, accepted, strict=True)):
        digests = digest_of(entry.script), digest_of(entry.environment)
        events += decide(cluster, checked, context, *digests, job_id=leader + offset).events
        entries.append(CronEntry(entry.first_line, entry.last_line, leader + offset))
    crontab = Crontab(uid, message.text, tuple(entries))
    if message.text or uid in cluster.crontabs:
        events.append(ev.CrontabChanged(context.now_us, crontab))
    return Decision(events, CrontabStored([entry.job_id for entry in entries]))


def _check(cluster: Cluster, entry: CronJob, context: Context, count: int) -> Accepted | Reject:
    request = entry.request
    for name in ("array", "begin_us", "cron"):
        if getattr(request, name):
            return Reject(Errno.ESLURM_NOT_SUPPORTED, f"{name}: a crontab's job has none")
    try:
        begin_us = next_us(parse(entry.times), context.now_us, context.calendar)
    except CronError as problem:
        return Reject(Errno.ESLURM_NOT_SUPPORTED, str(problem))
    if not begin_us:
        return Reject(Errno.ESLURM_NOT_SUPPORTED, f"{entry.times}: this time never comes")
    checked = check(cluster, request, context, components=count)
    if isinstance(checked, Reject):
        return checked
    recurring = msgspec.structs.replace(checked.request, cron=entry.times, begin_us=begin_us)
    return msgspec.structs.replace(checked, request=recurring)


def _without(cluster: Cluster, crontab: Crontab | None, now_us: int) -> list[ev.AnyEvent]:
    """Return the events that end the jobs of a former crontab."""
    events: list[ev.AnyEvent] = []
    over: list[tuple[Job, JobState]] = []
    for entry in crontab.entries if crontab is not None else ():
        job = cluster.jobs.get(entry.job_id)
        if job is None or job.state in TERMINAL_STATES:
            continue
        if job.state != JobState.PENDING:
            last = changed_request(job.request, cron="")
            events.append(ev.JobUpdated(now_us, job.job_id, {}, request=last))
            continue
        over.append((job, JobState.CANCELLED))
        events.append(ev.JobEnded(now_us, job.job_id, JobState.CANCELLED, cancelled_by=job.uid))
    ended = {job.job_id for job, _ in over}
    events += [
        event
        for event in dependency.after_ends(cluster, over, now_us)
        if getattr(event, "job_id", 0) not in ended  # one of them may wait for another
    ]
    return events
