"""What the controller does so that a pass finds records of jobs, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pyslurm_ng.base.numbers import REQ_HOLD
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.scheduling.pass_input import PassInput
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.frame.policy import policy
from tests.world.site import Site

MANY = 250
"""More records that are stale than one slice makes."""


@pytest.mark.parametrize(("flags", "records"), [(REQ_HOLD, 0), (0, MANY)])
def test_only_the_end_of_a_job_with_a_record_is_work(flags: int, records: int) -> None:
    """scancel of 100,000 held jobs looked for records of each; passes never see such jobs."""
    site, soon = Site(), list[Callable[[], None]]()
    usage = UsageIndex(site.cluster)
    work = PassInput(site.cluster, site.soft, usage, Slices(soon.append), _no_fault)
    jobs = [site.job(flags=flags) for _ in range(MANY)]
    now, rules = site.now_us, policy(site.conf)
    assert len(work.look(rules, now).waiting) == records
    site.follow(work.applied)
    ends = [ev.JobEnded(now, job.job_id, JobState.CANCELLED, Reason.NONE) for job in jobs]
    site.apply(ends)
    assert bool(soon) is bool(records)
    while soon:
        soon.pop()()
    assert not work.look(rules, now).waiting


def test_a_job_that_was_released_and_cancelled_is_not_planned() -> None:
    """Its record was never made, since no pass ran between."""
    site = Site()
    work = PassInput(site.cluster, site.soft, UsageIndex(site.cluster), Slices(_at_once), _no_fault)
    held_job, other = site.job(flags=REQ_HOLD), site.job()
    rules = policy(site.conf)
    assert [job.job_id for job in work.look(rules, site.now_us).waiting] == [other.job_id]
    site.follow(work.applied)
    fields = {"priority": 100, "reason": int(Reason.NONE)}
    events: Sequence[ev.AnyEvent] = (
        ev.JobUpdated(site.now_us, held_job.job_id, fields),
        ev.JobEnded(site.now_us, held_job.job_id, JobState.CANCELLED, Reason.NONE),
    )
    for event in events:
        site.apply([event])
    assert [job.job_id for job in work.look(rules, site.now_us).waiting] == [other.job_id]


def test_records_of_a_long_queue_are_made_in_slices_after_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All in one piece, for 200,000 jobs nobody was heard for three seconds of processor time."""
    monkeypatch.setattr("pyslurm_ng.ctld.scheduling.pass_input._MANY", MANY)
    site, soon, begun = Site(), list[Callable[[], None]](), list[bool]()
    usage = UsageIndex(site.cluster)
    work = PassInput(site.cluster, site.soft, usage, Slices(soon.append), _no_fault)
    jobs = [site.job() for _ in range(2 * MANY)]
    rules = policy(site.conf)
    assert work.catch_up(rules, lambda: begun.append(True))
    site.follow(work.applied)
    turns = 0
    while not begun:
        soon.pop()()
        turns += 1
        if turns == 1:
            site.apply([ev.JobEnded(site.now_us, jobs[0].job_id, JobState.CANCELLED, Reason.NONE)])
            jobs.append(site.job())
    assert turns > 2
    assert not work.catch_up(rules, lambda: begun.append(True)), "they are all known"
    waiting = work.look(rules, site.now_us).waiting
    assert [job.job_id for job in waiting] == [job.job_id for job in jobs[1:]]
    fresh = PassInput(site.cluster, site.soft, usage, Slices(soon.append), _no_fault)
    assert fresh.look(rules, site.now_us).waiting == waiting


def test_records_of_a_short_queue_are_made_by_its_pass() -> None:
    site, soon = Site(), list[Callable[[], None]]()
    work = PassInput(
        site.cluster, site.soft, UsageIndex(site.cluster), Slices(soon.append), _no_fault
    )
    job = site.job()
    assert not work.catch_up(policy(site.conf), lambda: None)
    assert not soon
    assert [each.job_id for each in work.look(policy(site.conf), site.now_us).waiting] == [
        job.job_id
    ]


def _no_fault(job_id: int, error: Exception) -> None:
    raise AssertionError(job_id) from error


def _at_once(work: Callable[[], None]) -> None:
    work()
