"""JobSubmitPlugins that are built in, against what Slurm 22.05 answered with them."""

from __future__ import annotations

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US
from pyslurm_ng.ctld.followers.recent_submissions import RecentSubmissions
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.world.callers import ALICE, BOB
from tests.world.site import Site


def test_a_time_limit_may_be_required() -> None:
    """The partition's default does not count: the user has to say it."""
    room = Site("JobSubmitPlugins=require_timelimit")
    assert room.refused() == Errno.ESLURM_MISSING_TIME_LIMIT
    assert room.job(time_limit_min=5).time_limit_min == 5


def test_a_job_may_go_to_all_partitions() -> None:
    """Unless it names one; the partition of the highest tier comes first."""
    room = Site("JobSubmitPlugins=all_partitions")
    assert room.job(time_limit_min=5).partition == "debug,main,gpu"
    assert room.job(time_limit_min=5, partition="gpu").partition == "gpu"


def test_a_job_may_go_to_the_partition_of_the_highest_tier() -> None:
    """Unless it names one; whether it fits there does not matter."""
    room = Site("JobSubmitPlugins=partition")
    assert room.job(time_limit_min=5).partition == "debug"
    assert room.job(time_limit_min=5, nodes_min=4).partition == "debug"
    assert room.job(time_limit_min=5, partition="gpu").partition == "gpu"


def test_without_plugins_nothing_is_asked_or_changed() -> None:
    """JobSubmitPlugins=none is the default."""
    assert Site("JobSubmitPlugins=none").job().partition == "main"


THROTTLE = "JobSubmitPlugins=throttle\nSchedulerParameters=jobs_per_user_per_hour=3"


def test_a_user_has_so_many_submissions_within_an_hour() -> None:
    """In the words of Slurm 22.05. Others may go on, and an hour later it is over."""
    room = Site(THROTTLE)
    recent = RecentSubmissions(room.cluster, lambda: room.conf)
    room.follow(recent.applied)

    def answer(who: Caller, **request: object) -> object:
        message = SubmitJob(bytes(16), JobRequest(**request), b"#!/bin/sh\n")  # type: ignore[arg-type]
        count = recent.count(who.uid, room.now_us)
        context = msgspec.structs.replace(room.context(who), recent_submissions=count)
        outcome = submit_job(room.cluster, message, context)
        if not isinstance(outcome, Reject):
            room.apply(outcome.events)
        return outcome

    for _ in range(2):
        assert not isinstance(answer(ALICE), Reject)
        room.now_us += MINUTE_US
    assert not isinstance(answer(ALICE, array="1-50"), Reject)  # an array is one
    refused = answer(ALICE)
    assert refused == Reject(Errno.ESLURM_ACCOUNTING_POLICY, "Reached jobs per hour limit")
    assert not isinstance(answer(BOB), Reject)
    room.now_us += HOUR_US - 2 * MINUTE_US
    assert not isinstance(answer(ALICE), Reject)
    assert isinstance(answer(ALICE), Reject)
    fresh = RecentSubmissions(room.cluster, lambda: room.conf)  # after a restart
    assert fresh.count(ALICE.uid, room.now_us) == recent.count(ALICE.uid, room.now_us) == 3


def test_without_the_plugin_nothing_is_counted() -> None:
    room = Site()
    recent = RecentSubmissions(room.cluster, lambda: room.conf)
    room.follow(recent.applied)
    room.job()
    assert recent.count(ALICE.uid, room.now_us) == 0
