"""Jobs without steps have one empty dict among them, which no job's first step changes."""

from __future__ import annotations

import pytest

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import NO_STEPS, JobRequest, Step
from tests.model.clusters import START_US, cluster_of, submit


def _step(number: int) -> Step:
    return Step(number, "echo", 1001, 1, 1, (), START_US)


def test_the_first_step_of_a_job_is_not_shown_in_another() -> None:
    cluster = cluster_of()
    first, second = (submit(cluster, JobRequest(name=name)) for name in "ab")
    apply(cluster, ev.StepCreated(START_US, first, _step(0)))
    assert [*cluster.jobs[first].steps] == [0]
    assert cluster.jobs[second].steps is NO_STEPS
    assert not NO_STEPS


def test_a_step_can_follow_the_end_of_the_only_one() -> None:
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest())
    for number in (0, 1):
        apply(cluster, ev.StepCreated(START_US, job_id, _step(number)))
        apply(cluster, ev.StepEnded(START_US, job_id, number, 3, 0))
    assert not cluster.jobs[job_id].steps


def test_jobs_read_from_an_image_share_it_too() -> None:
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest())
    again = Cluster.from_bytes(cluster.to_bytes())
    assert again.jobs[job_id].steps is NO_STEPS
    assert again.digest() == cluster.digest()


def test_nothing_can_be_entered_in_it() -> None:
    with pytest.raises(TypeError):
        NO_STEPS[0] = _step(0)
