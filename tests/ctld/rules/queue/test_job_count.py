"""No user's jobs fill the job table so that others can submit nothing.

RELIABILITY 46: ten held arrays of 1,000 tasks took all places of MaxJobCount=10000.
"""

from __future__ import annotations

from itertools import count

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import REQ_HOLD
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import requeue_jobs
from pyslurm_ng.ctld.rules.queue.job_count import jobs_of, jobs_of_all
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter, JobsChanged, RequeueJobs
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site


def submits(scene: Site, who: Caller, tasks: int, components: int = 1) -> bool:
    """Submit an array or a job; whether it is taken."""
    array = f"0-{tasks - 1}" if tasks > 1 else ""
    request = JobRequest(array=array, flags=REQ_HOLD)
    more = [JobRequest()] * (components - 1)
    message = SubmitJob(bytes(16), request, b"#!/bin/sh\n", components=more)
    outcome = submit_job(scene.cluster, message, scene.context(who))
    if isinstance(outcome, Reject):
        assert outcome.code == Errno.EAGAIN and "MaxJobCount=" in outcome.detail
        return False
    scene.apply(outcome.events)
    return True


def filled(scene: Site, who: Caller) -> int:
    """Submit the largest arrays that fit until nothing does; return the user's jobs."""
    for size in (1000, 100, 10, 1):
        while submits(scene, who, size):
            pass
    return jobs_of(scene.cluster, who.uid)


def user(uid: int) -> Caller:
    return Caller(uid=uid, gid=uid, user_name=f"user{uid}", group_name="users")


def test_one_users_arrays_leave_room_for_others() -> None:
    """One user alone has nearly the whole table, and a newcomer nine tenths of the rest."""
    scene = Site("MaxJobCount=10000")
    assert filled(scene, ALICE) == 8991
    assert filled(scene, BOB) == 900
    assert submits(scene, user(2001), 50)


def test_many_users_use_the_whole_table() -> None:
    """Once many users have jobs, few places are kept free.

    No user has many more than the others.
    """
    scene = Site("MaxJobCount=400")
    taken = [0] * 40
    for turn in count():
        before = jobs_of_all(scene.cluster)
        for index in range(40):
            if submits(scene, user(2001 + index), 1):
                taken[index] += 1
        if jobs_of_all(scene.cluster) == before:
            break
        assert turn < 400
    assert jobs_of_all(scene.cluster) > 390
    assert max(taken) - min(taken) <= 9


def test_operators_have_the_last_places() -> None:
    """When users have taken all they may, an administrator can still submit."""
    scene = Site("MaxJobCount=5000")
    for uid in range(2001, 2030):
        filled(scene, user(uid))
    assert not submits(scene, user(3000), 1)
    assert all(submits(scene, ROOT, 1) for _ in range(5))
    assert jobs_of_all(scene.cluster) == 5000
    assert not submits(scene, ROOT, 1)


def test_room_comes_back_with_what_is_forgotten() -> None:
    """Jobs count until they are forgotten, tasks without a record until the array has ended."""
    scene = Site("MaxJobCount=1000")
    assert submits(scene, ALICE, 890)
    assert not submits(scene, ALICE, 890)
    array = next(iter(scene.cluster.jobs))
    scene.apply([ev.JobEnded(time_us=scene.now_us, job_id=array, state=JobState.CANCELLED)])
    assert jobs_of(scene.cluster, ALICE.uid) == 1
    scene.apply([ev.JobPurged(time_us=scene.now_us, job_ids=[array])])
    assert jobs_of(scene.cluster, ALICE.uid) == 0
    assert submits(scene, ALICE, 890)


def test_requeued_arrays_need_room_for_all_their_tasks() -> None:
    """A cancelled array is one record; several that were requeued overfilled the table."""
    scene = Site("MaxJobCount=1000")
    arrays = []
    for _ in range(4):
        assert submits(scene, ALICE, 400)
        arrays.append(str(max(scene.cluster.jobs)))
        cancel = CancelJobs(bytes(16), JobFilter(jobs=arrays[-1:]))
        outcome = cancel_jobs(scene.cluster, cancel, scene.context(ALICE))
        assert isinstance(outcome, Decision)
        scene.apply(list(outcome.events))
    assert jobs_of(scene.cluster, ALICE.uid) == 4
    outcome = requeue_jobs(
        scene.cluster, RequeueJobs(bytes(16), arrays, hold=True), scene.context(ALICE)
    )
    assert isinstance(outcome, Decision) and isinstance(outcome.reply, JobsChanged)
    assert outcome.reply.count == 2
    assert [(text, code) for text, code, _ in outcome.reply.errors] == [
        (f"{array}_0-399", Errno.EAGAIN) for array in arrays[2:]
    ]
    scene.apply(list(outcome.events))
    assert jobs_of(scene.cluster, ALICE.uid) == 802
    assert submits(scene, BOB, 100)


@pytest.mark.parametrize("most", [1, 2, 5, 9])
def test_one_user_can_fill_a_small_table(most: int) -> None:
    """A tenth of nine places is less than one place."""
    scene = Site(f"MaxJobCount={most}")
    assert all(submits(scene, ALICE, 1) for _ in range(most))
    assert not submits(scene, ALICE, 1)


def test_components_count_as_jobs() -> None:
    """A heterogeneous job is taken as a whole or not."""
    scene = Site("MaxJobCount=20")
    assert submits(scene, ALICE, 1, components=17)
    assert not submits(scene, ALICE, 1, components=2)
    assert submits(scene, ALICE, 1)
