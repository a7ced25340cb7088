"""A step that a user ends while its job goes on: sacct says who did it."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter
from tests.ctld.rules.started_jobs import LATER_US, tell
from tests.ctld.rules.steps.step_requests import USER, ask, context, running
from tests.model.clusters import START_US, cluster_of


@pytest.mark.parametrize(
    ("signal", "status", "state", "by_uid"),
    [
        (0, 9, JobState.CANCELLED, USER),
        (9, 9, JobState.CANCELLED, USER),
        (15, 15, JobState.CANCELLED, NO_VAL),  # as in Slurm: it was told, and might have gone on
        (0, 0, JobState.COMPLETED, NO_VAL),  # it ended before the signal came
    ],
)
def test_who_ended_a_step_is_recorded(
    signal: int, status: int, state: JobState, by_uid: int
) -> None:
    cluster = cluster_of()
    job = running(cluster, ntasks=1)
    ask(cluster, job, ntasks=1)
    (node,) = job.nodes
    request = CancelJobs(bytes(16), JobFilter(jobs=[f"{job.job_id}.0"]), signal)
    outcome = cancel_jobs(cluster, request, context())
    assert isinstance(outcome, Decision), outcome
    apply_all(cluster, outcome.events)
    report = nm.StepEnded(job.job_id, job.attempt, 0, status, START_US, LATER_US)
    (end,) = (
        event for event in tell(cluster, node.node_id, report) if isinstance(event, ev.StepEnded)
    )
    assert (end.state, end.cancelled_by) == (state, by_uid)
