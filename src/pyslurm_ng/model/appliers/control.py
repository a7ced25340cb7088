"""How events of the controller itself change the Cluster: starts, replies, its programs."""

from __future__ import annotations

from pyslurm_ng.base.numbers import DAY_US

from .. import events as ev
from ..cluster import Cluster
from ..states import JobFlag, JobState, Reason
from .duties import begin_duties
from .registry import applies

MOST_IDS_SEEN = 1000  # the most job ids that are left out after a crash
_REPLIES_KEPT_US = DAY_US


@applies(ev.EpochStarted)
def _epoch_started(cluster: Cluster, event: ev.EpochStarted) -> None:
    assert event.epoch > cluster.epoch, event
    cluster.epoch = event.epoch
    # A user that saw one of these ids may still name it. Ids that begin at the first one again are
    # too far away to be confused.
    if 0 < cluster.ids_seen_below - cluster.next_job_id <= MOST_IDS_SEEN:
        cluster.next_job_id = cluster.ids_seen_below
    cluster.ids_seen_below = 0


@applies(ev.JobIdsSeen)
def _job_ids_seen(cluster: Cluster, event: ev.JobIdsSeen) -> None:
    assert event.below <= cluster.next_job_id + MOST_IDS_SEEN, event
    cluster.ids_seen_below = event.below


@applies(ev.RequestAnswered)
def _request_answered(cluster: Cluster, event: ev.RequestAnswered) -> None:
    cluster.replies.add(event.uid, event.request_id, event.time_us, event.reply)
    cluster.replies.forget(event.time_us - _REPLIES_KEPT_US)


@applies(ev.ScriptStored)
def _script_stored(cluster: Cluster, event: ev.ScriptStored) -> None:
    """The edge keeps the contents in files; the Cluster knows only their digests."""


@applies(ev.NumbersSkipped)
def _numbers_skipped(cluster: Cluster, event: ev.NumbersSkipped) -> None:
    if event.next_job_id:
        assert cluster.first_job_id <= event.next_job_id <= cluster.max_job_id, event
        cluster.next_job_id = event.next_job_id
    for job_id, attempt in event.attempts:
        job = cluster.jobs[job_id]
        assert job.state == JobState.PENDING and attempt > job.attempt, job
        job.attempt = attempt


@applies(ev.PrologEnded)
def _prolog_ended(cluster: Cluster, event: ev.PrologEnded) -> None:
    job = cluster.jobs[event.job_id]
    assert job.attempt == event.attempt, job
    cluster.prologs.pop(job.job_id, None)
    if job.reason == Reason.Prolog:
        job.reason = Reason.NONE
    if not event.configuring:
        job.flags &= ~JobFlag.CONFIGURING
    if event.booted:
        job.flags &= ~JobFlag.POWER_UP_NODE
        job.start_us, job.boot_by_us = event.time_us, 0
    begin_duties(cluster, job, event)


@applies(ev.EpilogEnded)
def _epilog_ended(cluster: Cluster, event: ev.EpilogEnded) -> None:
    del cluster.epilogs[event.job_id]
