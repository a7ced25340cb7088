"""A crontab and the jobs of its entries, from storing to the next run."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import CANCEL_CRON, MINUTE_US
from pyslurm_ng.ctld.queries.crontabs import show_crontab
from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.crontabs import repeat
from pyslurm_ng.ctld.rules.crontabs.store import store_crontab
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.crontab_messages import CronJob, ShowCrontab, StoreCrontab
from pyslurm_ng.wire.query_messages import CancelJobs, HoldJobs, JobFilter, UpdateJob
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

ENABLED = "ScronParameters=enable\n"
TEXT = "#SCRON -n2\n* * * * * work\n\n@hourly tell\n"


class CronSite(Site):
    """A site where users have crontabs."""

    def store(self, text: str, *jobs: CronJob, who: Caller = ALICE) -> Any:
        message = StoreCrontab(bytes(16), text, list(jobs))
        outcome = store_crontab(self.cluster, message, self.context(who))
        if isinstance(outcome, Reject):
            return outcome.code
        self.apply(outcome.events)
        return outcome.reply

    def take(self, rule: Any, message: Any, who: Caller = ALICE) -> Decision:
        outcome = rule(self.cluster, message, self.context(who))
        assert isinstance(outcome, Decision)
        self.apply(outcome.events)
        return outcome

    def later(self) -> None:
        self.now_us += MINUTE_US
        self.apply(repeat.due(self.cluster, self.conf, self.now_us, self.calendar))

    def is_over(self, job_id: int, state: JobState) -> None:
        self.apply([ev.JobEnded(self.now_us, job_id, state)])

    def text(self) -> str:
        return self.cluster.crontabs[ALICE.uid].text


def entry(first: int, last: int, times: str, **request: Any) -> CronJob:
    return CronJob(first, last, times, JobRequest(**request), b"#!/bin/sh\n")


def two() -> tuple[CronJob, CronJob]:
    return entry(1, 2, "* * * * *", name="work", ntasks=2), entry(4, 4, "0 * * * *", name="tell")


def stored() -> CronSite:
    site = CronSite(ENABLED)
    assert site.store(TEXT, *two()).job_ids == [1, 2]
    return site


def test_each_entry_is_a_job_that_waits_for_its_time() -> None:
    """They are ordinary jobs of the user; the text is kept as it was typed."""
    site = stored()
    work, tell = site.cluster.jobs[1], site.cluster.jobs[2]
    assert (work.request.cron, work.request.ntasks) == ("* * * * *", 2)
    assert site.now_us < work.begin_us <= site.now_us + MINUTE_US
    assert tell.begin_us % (60 * MINUTE_US) == 0
    assert (work.reason, work.eligible_us) == (Reason.BeginTime, 0)
    assert site.text() == TEXT


def test_a_job_that_is_over_waits_for_the_next_time() -> None:
    """It keeps its id and is the next attempt, whatever its end but for a cancellation."""
    site = stored()
    for attempt, state in enumerate((JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT), 1):
        site.is_over(1, state)
        site.later()
        job = site.cluster.jobs[1]
        assert (job.state, job.attempt, job.reason) == (JobState.PENDING, attempt, Reason.BeginTime)
        assert site.now_us < job.begin_us <= site.now_us + MINUTE_US
    assert site.text() == TEXT


def test_a_cancelled_entry_becomes_a_comment() -> None:
    """So the user sees that it is due no more; the others go on."""
    site = stored()
    site.take(cancel_jobs, CancelJobs(bytes(16), JobFilter(jobs=["1"])))
    site.later()
    assert site.cluster.jobs[1].state == JobState.CANCELLED
    assert site.text() == "#DISABLED: #SCRON -n2\n#DISABLED: * * * * * work\n\n@hourly tell\n"
    assert [entry.job_id for entry in site.cluster.crontabs[ALICE.uid].entries] == [2]


def test_explicit_scancel() -> None:
    """With ScronParameters=explicit_scancel only scancel --cron ends a recurring job."""
    site = CronSite("ScronParameters=enable,explicit_scancel\n")
    site.store(TEXT, *two())
    everything = JobFilter(uids=[ALICE.uid])
    refused: Any = site.take(cancel_jobs, CancelJobs(bytes(16), everything)).reply
    assert {code for _, code, _ in refused.errors} == {Errno.ESLURM_CANNOT_CANCEL_CRON_JOB}
    assert site.cluster.jobs[1].state == JobState.PENDING
    site.take(cancel_jobs, CancelJobs(bytes(16), everything, flags=CANCEL_CRON))
    assert site.cluster.jobs[1].state == JobState.CANCELLED


def test_a_new_crontab_replaces_the_jobs() -> None:
    """Those that wait are cancelled, one that runs goes on and is the last."""
    site = stored()
    site.now_us += 2 * MINUTE_US
    site.apply([ev.JobEligible(site.now_us, 1)])
    site.run_pass()
    assert site.cluster.jobs[1].state == JobState.RUNNING
    assert site.store("@daily tell\n", entry(1, 1, "0 0 * * *", name="tell")).job_ids == [3]
    assert site.cluster.jobs[2].state == JobState.CANCELLED
    running = site.cluster.jobs[1]
    assert (running.state, running.request.cron) == (JobState.RUNNING, "")
    assert site.store("").job_ids == []
    assert site.cluster.jobs[3].state == JobState.CANCELLED
    assert ALICE.uid not in site.cluster.crontabs


def test_one_wrong_entry_refuses_all() -> None:
    """The answer names its lines; the crontab before stays."""
    site = stored()
    for wrong in (
        entry(4, 4, "0 0 31 feb *"),
        entry(4, 4, "0 0 30 4"),
        entry(4, 4, "0 * * * *", partition="nope"),
        entry(4, 4, "0 * * * *", array="1-3"),
        entry(4, 4, "0 * * * *", cron="0 0 * * *"),
    ):
        reply = site.store(TEXT, two()[0], wrong)
        assert (reply.first_line, reply.last_line, bool(reply.problem)) == (4, 4, True)
    assert site.store(TEXT, *reversed(two())) == Errno.ESLURM_NOT_SUPPORTED
    assert site.store("", entry(9, 9, "0 * * * *")) == Errno.ESLURM_NOT_SUPPORTED
    assert sorted(site.cluster.jobs) == [1, 2]


def test_where_it_is_not_enabled() -> None:
    """Without ScronParameters=enable there are no crontabs, and those from before rest."""
    site = CronSite()
    assert site.store(TEXT, *two()) == Errno.ESLURM_DISABLED
    site = stored()
    site.conf = CronSite().conf
    site.is_over(1, JobState.COMPLETED)
    site.later()
    assert site.cluster.jobs[1].state == JobState.COMPLETED


def test_who_may_look() -> None:
    """Users see their own crontab, operators those of others."""
    site = stored()

    def shown(who: Caller, uid: int) -> Any:
        return show_crontab(site.cluster, site.soft, site.conf, ShowCrontab(uid), who, site.now_us)

    assert shown(ALICE, -1).text == TEXT
    assert shown(ROOT, ALICE.uid).text == TEXT
    assert shown(BOB, -1).text == ""
    assert shown(BOB, ALICE.uid).code == Errno.ESLURM_ACCESS_DENIED


def test_scontrol_leaves_them_alone() -> None:
    """What an entry says is in the crontab, and nowhere else."""
    site = stored()
    changed: Any = site.take(update_job, UpdateJob(bytes(16), {"timelimit": "5"}, ["1"])).reply
    refused: Any = site.take(hold_jobs, HoldJobs(bytes(16), ["1"])).reply
    for reply in (changed, refused):
        assert reply.errors[0][1] == Errno.ESLURM_CANNOT_MODIFY_CRON_JOB


def test_a_submission_cannot_recur() -> None:
    """Only scrontab makes such jobs: it counts them, and bounds how many there are."""
    assert CronSite(ENABLED).refused(cron="* * * * *") == Errno.ESLURM_NOT_SUPPORTED


def test_each_run_has_a_burst_buffer_of_its_own() -> None:
    """The next one is made when that of the run before is torn down."""
    site = CronSite(f"{ENABLED}BurstBufferType=burst_buffer/lua\n")
    job_id = site.store("* * * * * work", entry(1, 1, "* * * * *", burst_buffer="#BB_LUA")).job_ids[
        0
    ]

    def moves(state: BufferState) -> None:
        site.apply([steps.changed(site.cluster.buffers[job_id], site.now_us, state=state)])

    def due() -> int:
        while events := steps.all_due(site.cluster, [job_id], {}, site.now_us):
            site.apply(events)
        return site.cluster.buffers[job_id].state

    assert site.cluster.buffers[job_id].state == BufferState.PENDING
    moves(BufferState.RUNNING)
    site.is_over(job_id, JobState.COMPLETED)
    assert due() == BufferState.POST_RUN
    site.later()
    assert site.cluster.jobs[job_id].state == JobState.PENDING
    assert due() == BufferState.POST_RUN  # the next run waits for it
    site.apply(steps.torn_down(
        site.cluster, site.cluster.buffers[job_id], succeeded=True, now_us=site.now_us
    ))  # fmt: skip
    assert site.cluster.buffers[job_id].state == BufferState.PENDING
