"""Ids that name the same waiting tasks twice in one request, and who waits for those."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_HOLD, REQ_KILL_INVALID_DEP
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, requeue_jobs, suspend_jobs
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.query_messages import CancelJobs, HoldJobs, JobFilter, RequeueJobs, SuspendJobs
from tests.world.callers import ALICE, ROOT
from tests.world.examples import drawn
from tests.world.site import Site

ID = bytes(16)


def cancel(room: Site, *texts: str) -> None:
    """Cancel what the ids name; the cluster is checked."""
    request = CancelJobs(ID, JobFilter(jobs=list(texts)))
    outcome = cancel_jobs(room.cluster, request, room.context(ALICE))
    assert isinstance(outcome, Decision), outcome
    room.apply(list(outcome.events))


def states(room: Site, array: Job) -> dict[int, str]:
    """Return the states of the tasks that have records of their own."""
    job_ids = room.cluster.job_index.arrays.get(array.job_id, {})
    return {
        task: JobState(room.cluster.jobs[job_id].state).name for task, job_id in job_ids.items()
    }


@pytest.mark.parametrize(
    ("texts", "tasks_left"),
    [
        (("{0}_2", "{0}_2"), ((1, 1, 1), (3, 4, 1))),
        (("{0}_[1-2]", "{0}_[2-3]", "{0}_2"), ((4, 4, 1),)),
        (("{0}_4", "{0}", "{0}_1"), None),
        (("{0}", "{0}_1"), None),
        (("{0}_[1-4]", "{0}_[1-4]", "{0}"), None),
    ],
)
def test_a_task_ends_once(texts: tuple[str, ...], tasks_left: object) -> None:
    room = Site()
    array = room.job(array="1-4", flags=REQ_HOLD)
    cancel(room, *(text.format(array.job_id) for text in texts))
    assert JobState(array.state) == (JobState.CANCELLED if tasks_left is None else JobState.PENDING)
    assert tasks_left is None or array.array_pending == tasks_left


def test_holds_of_the_same_task_twice() -> None:
    room = Site()
    array = room.job(array="1-4")
    names = [f"{array.job_id}_2", f"{array.job_id}_2", f"{array.job_id}_[2-3]"]
    outcome = hold_jobs(room.cluster, HoldJobs(ID, names), room.context(ALICE))
    assert isinstance(outcome, Decision) and outcome.reply.errors == []
    room.apply(list(outcome.events))
    assert array.array_pending == ((1, 1, 1), (4, 4, 1))


def test_dependents_of_a_task_go_on_when_it_is_cancelled() -> None:
    """Also while it is still in its array's record."""
    room = Site()
    array = room.job(array="1-4", flags=REQ_HOLD)
    after = room.job(dependency=f"afterany:{array.job_id}_3")
    never = room.job(dependency=f"afterok:{array.job_id}_3")
    kills = REQ_KILL_INVALID_DEP
    tasks = room.job(array="1-4", dependency=f"aftercorr:{array.job_id}", flags=kills)
    cancel(room, f"{array.job_id}_3", f"{array.job_id}_1", f"{tasks.job_id}_1")
    assert after.eligible_us and never.reason == Reason.DependencyNeverSatisfied
    assert states(room, tasks) == {3: "CANCELLED", 1: "CANCELLED"}
    cancel(room, str(array.job_id))
    assert JobState(tasks.state) == JobState.CANCELLED


@pytest.mark.parametrize("kind", ["suspend", "requeue", "requeuehold"])
def test_a_running_job_gets_one_signal(kind: str) -> None:
    """However it is named: by its array, by its index, by its own id."""
    room = Site()
    array, plain = room.job(array="1-2"), room.job()
    for _ in range(3):
        room.run_pass()
    task = room.cluster.job_index.arrays[array.job_id][1]
    names = [str(plain.job_id)] * 2 + [f"{array.job_id}_1", str(array.job_id), str(task)]
    if kind == "suspend":
        outcome = suspend_jobs(room.cluster, SuspendJobs(ID, names), room.context(ROOT))
    else:
        request = RequeueJobs(ID, names, hold=kind == "requeuehold")
        outcome = requeue_jobs(room.cluster, request, room.context(ROOT))
    assert isinstance(outcome, Decision) and outcome.reply.errors == []
    room.apply(list(outcome.events))
    state = JobState.SUSPENDED if kind == "suspend" else JobState.CANCELLED
    assert {JobState(job.state) for job in room.cluster.jobs.values()} == {state}


WORDS = st.sampled_from(["{0}", "{0}_1", "{0}_2", "{0}_[1-3]", "{1}", "{1}_2", "{1}_[2-4]", "{2}"])


@settings(max_examples=drawn(150), deadline=None)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_no_order_of_ids_breaks_the_cluster(requests: list[list[str]], kills: bool) -> None:
    """Chains of arrays, cancelled piece by piece: every step leaves a cluster that checks."""
    room = Site()
    flags = REQ_KILL_INVALID_DEP if kills else 0
    first = room.job(array="1-4", flags=REQ_HOLD)
    second = room.job(array="1-4", dependency=f"aftercorr:{first.job_id}", flags=flags)
    third = room.job(array="2-5", dependency=f"aftercorr:{second.job_id}", flags=flags)
    ids = [job.job_id for job in (first, second, third)]
    for words in requests:
        cancel(room, *(word.format(*ids) for word in words))
    cancel(room, *map(str, ids))
    assert not room.cluster.job_index.pending
