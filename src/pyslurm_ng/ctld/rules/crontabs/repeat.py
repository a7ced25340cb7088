"""What becomes of a crontab's entry when its job is over: the same job waits for the next time.

An entry whose job was cancelled is no longer due: its lines become comments, as in Slurm.
"""

from __future__ import annotations

from collections.abc import Collection

from pyslurm_ng.base.cron import parse
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.calendar import Calendar
from pyslurm_ng.ctld.rules.crontabs.store import is_enabled
from pyslurm_ng.ctld.rules.crontabs.times import next_us
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.crontab import Crontab
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, Reason

DISABLED = "#DISABLED: "


def due(cluster: Cluster, conf: SlurmConf, now_us: int, calendar: Calendar) -> list[ev.AnyEvent]:
    """Return the events of crontabs' jobs that are over."""
    events: list[ev.AnyEvent] = []
    if not is_enabled(conf):
        return events
    for crontab in cluster.crontabs.values():
        cancelled = []
        for entry in crontab.entries:
            job = cluster.jobs.get(entry.job_id)
            if job is not None and (job.state not in TERMINAL_STATES or is_completing(job)):
                continue
            next_start_us = 0
            if job is not None and job.state != JobState.CANCELLED and job.request.cron:
                next_start_us = next_us(parse(job.request.cron), now_us, calendar)
            if job is not None and next_start_us:
                events.append(_again(job, next_start_us, now_us))
            else:
                cancelled.append(entry.job_id)
        if cancelled:
            events.append(ev.CrontabChanged(now_us, without_jobs(crontab, cancelled)))
    return events


def _again(job: Job, begin_us: int, now_us: int) -> ev.JobRequeued:
    return ev.JobRequeued(
        time_us=now_us,
        job_id=job.job_id,
        attempt=job.attempt + 1,
        begin_us=begin_us,
        reason=Reason.BeginTime,
    )


def without_jobs(crontab: Crontab, job_ids: Collection[int]) -> Crontab:
    """Return a crontab in which the entries of some jobs are comments."""
    lines = crontab.text.split("\n")
    for entry in crontab.entries:
        if entry.job_id in job_ids:
            for number in range(entry.first_line - 1, entry.last_line):
                lines[number] = DISABLED + lines[number]
    kept = tuple(entry for entry in crontab.entries if entry.job_id not in job_ids)
    return Crontab(crontab.uid, "\n".join(lines), kept)
