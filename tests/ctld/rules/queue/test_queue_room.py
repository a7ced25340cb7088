"""What one user's jobs may take of the controller's memory, listings and journal.

RELIABILITY 46 and 54: an array of 1,000 tasks with 4 MiB of arguments made listings of 4 GiB.
"""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.queue import queue_room
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.query_messages import UpdateJob
from tests.world.callers import ALICE, ROOT
from tests.world.site import Site

LONG = ("y" * 2_400,) * 10  # 20,000 characters more than usual, less what every job has


@pytest.fixture(autouse=True)
def small_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A room that tests can fill."""
    monkeypatch.setattr(queue_room, "MOST", 1 << 20)
    monkeypatch.setattr(queue_room, "MOST_OF_EACH", 0)


def submitted(scene: Site, request: JobRequest, *more: JobRequest, who: Caller = ALICE) -> object:
    """Submit a job as a user; apply what comes of it."""
    message = SubmitJob(bytes(16), request, b"#!/bin/sh\n", components=list(more))
    outcome = submit_job(scene.cluster, message, scene.context(who))
    if isinstance(outcome, Decision):
        scene.apply(outcome.events)
    return outcome


def refused(outcome: object) -> bool:
    """Whether there was no room."""
    if not isinstance(outcome, Reject):
        return False
    assert outcome.code == Errno.ESLURM_ACCOUNTING_POLICY
    assert "the user's jobs have room for" in outcome.detail
    return True


def test_each_task_of_an_array_counts() -> None:
    """It gets a record of its own as soon as something happens to it."""
    scene = Site("MaxJobCount=5000")
    assert refused(submitted(scene, JobRequest(array="0-99", argv=LONG)))
    assert not refused(submitted(scene, JobRequest(array="0-49", argv=LONG)))
    assert refused(submitted(scene, JobRequest(array="0-19", argv=LONG)))
    assert not refused(submitted(scene, JobRequest(array="0-1000")))
    assert not refused(submitted(scene, JobRequest(array="0-99", argv=LONG), who=ROOT))


def test_all_components_count() -> None:
    """A heterogeneous job is taken or refused as a whole."""
    scene = Site("MaxJobCount=5000")
    part = JobRequest(argv=LONG)
    outcomes = [submitted(scene, part, part, part, part) for _ in range(15)]
    assert [refused(outcome) for outcome in outcomes] == [False] * 13 + [True] * 2


def test_dependencies_count() -> None:
    """What ends asks each of its dependents; and so does each second, of those with a delay."""
    scene = Site("MaxJobCount=5000")
    ids = ":".join(str(scene.job(begin_us=scene.now_us + 10**9).job_id) for _ in range(100))
    outcomes = [submitted(scene, JobRequest(dependency=f"afterany:{ids}")) for _ in range(25)]
    assert [refused(outcome) for outcome in outcomes] == [False] * 22 + [True] * 3
    assert not refused(submitted(scene, JobRequest(dependency="afterany:1:2:3:4:5")))


def test_updates_have_the_same_room_as_submissions() -> None:
    """What a job has counts already; what it gains has to fit."""
    scene = Site("MaxJobCount=5000")
    ids = [str(scene.job(begin_us=scene.now_us + 10**9).job_id) for _ in range(3)]
    while not refused(submitted(scene, JobRequest(argv=LONG))):
        pass
    uid = ALICE.uid
    free = queue_room.MOST - queue_room.of_user(scene.cluster, uid)
    assert 0 < free < 20_000
    while not refused(submitted(scene, JobRequest(argv=("y" * 5_000,)))):
        pass
    answers = []
    for job_id in ids:
        message = UpdateJob(bytes(16), {"comment": "x" * 6_000}, [job_id])
        decision = update_job(scene.cluster, message, scene.context(ALICE))
        assert isinstance(decision, Decision)
        scene.apply(decision.events)
        answers.append([code for _, code, _ in decision.reply.errors])
    assert answers[-1] == [Errno.ESLURM_ACCOUNTING_POLICY]
    assert queue_room.of_user(scene.cluster, uid) <= queue_room.MOST
    # As it was, or shorter, is no gain.
    longest = max(scene.cluster.jobs.values(), key=lambda job: len(job.request.argv))
    message = UpdateJob(bytes(16), {"nice": "5"}, [str(longest.job_id)])
    decision = update_job(scene.cluster, message, scene.context(ALICE))
    assert isinstance(decision, Decision)
    assert decision.reply.errors == []


def test_tasks_changed_one_by_one_take_what_the_array_had() -> None:
    """An array was counted by its tasks when it came."""
    scene = Site("MaxJobCount=5000")
    outcome = submitted(scene, JobRequest(array="0-49", argv=LONG))
    assert isinstance(outcome, Decision)
    (array,) = scene.cluster.jobs
    before = queue_room.of_user(scene.cluster, ALICE.uid)
    message = UpdateJob(bytes(16), {"nice": "5"}, [f"{array}_{task}" for task in range(0, 50, 2)])
    decision = update_job(scene.cluster, message, scene.context(ALICE))
    assert isinstance(decision, Decision)
    scene.apply(decision.events)
    assert decision.reply.errors == []
    assert len(scene.cluster.jobs) == 26
    assert queue_room.of_user(scene.cluster, ALICE.uid) == before


def test_bytes_count_not_characters() -> None:
    """1,100 comments of four bytes a character were 290 MB in each `scontrol show job`."""
    scene = Site()
    assert not refused(submitted(scene, JobRequest(comment="c" * 60_000, argv=LONG * 20)))
    assert refused(
        submitted(scene, JobRequest(comment="\N{GRINNING FACE}" * 60_000, argv=LONG * 20))
    )
