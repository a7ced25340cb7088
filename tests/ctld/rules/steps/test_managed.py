"""What a step manager tells the controller, and what the controller makes of it."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_NO_KILL, REQ_STEPMGR, STEP_BESIDE_ALL
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.ctld.rules.starts.preparation import Preparation
from pyslurm_ng.ctld.rules.submission.step_manager import with_step_manager
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import JobRequest, Usage
from pyslurm_ng.model.states import JobState
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.step_messages import CreateStep
from tests.ctld.rules.started_jobs import tell
from tests.ctld.rules.steps.step_requests import USER
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of
from tests.steps.managed import managed

JOB = {"nodes_min": 2, "nodes_max": 2, "ntasks": 2}


def made(credential: nm.JobCredential, flags: int = 0) -> tuple[ManagedJob, list[nm.StepNews]]:
    """Have a manager give a share of both nodes."""
    manager = ManagedJob(credential)
    message = CreateStep(request_id=bytes(16), job_id=credential.job_id, nodes_min=2, flags=flags)
    created = manager.create(message, USER, conf_of(), START_US)
    assert not isinstance(created, Reject)
    return manager, manager.created(created[0], START_US)


def report(credential: nm.JobCredential, news: list[nm.StepNews]) -> nm.ManagedSteps:
    return nm.ManagedSteps(credential.job_id, credential.attempt, nm.encode_news(news))


def test_news_are_the_events_of_any_other_step() -> None:
    """Listings and accounting see the step run and end; a step of two nodes is two news in all."""
    cluster = cluster_of()
    job, credential = managed(cluster, **JOB)
    manager, news = made(credential)
    (created,) = tell(cluster, job.batch_node_id, report(credential, news))
    assert isinstance(created, ev.StepCreated)
    assert 0 in job.steps and job.next_step_id == 1
    over = nm.StepEnded(job.job_id, 0, 0, 256, START_US, START_US + 9, 0, Usage(user_us=7))
    first, second = credential.nodes
    assert manager.ended(first, over, START_US + 9) == []
    ended = manager.ended(second, over, START_US + 9)
    (event,) = tell(cluster, job.batch_node_id, report(credential, ended))
    assert isinstance(event, ev.StepEnded) and event.usage is not None
    assert (event.state, event.exit_code, event.usage.user_us) == (JobState.FAILED, 256, 14)
    assert 0 not in job.steps


def test_the_shell_of_salloc_is_a_step_like_others() -> None:
    """Listings, accounting and scancel knew nothing of the interactive step of a managed job."""
    cluster = cluster_of()
    job, credential = managed(cluster, **JOB)
    _, news = made(credential, STEP_BESIDE_ALL)
    (created,) = tell(cluster, job.batch_node_id, report(credential, news))
    assert isinstance(created, ev.StepCreated)
    assert STEP_INTERACTIVE in job.steps


def test_a_step_that_came_and_went_is_one_message() -> None:
    """Ten thousand of them cost the controller their accounting and no more."""
    cluster = cluster_of()
    job, credential = managed(cluster, **JOB)
    manager, news = made(credential)
    for name in credential.nodes:
        news += manager.ended(name, nm.StepEnded(job.job_id, 0, 0, 0, 1, 2), START_US)
    events = judge(cluster, job.batch_node_id, report(credential, news), conf_of(), START_US)
    assert [type(event) for event in events] == [ev.StepCreated, ev.StepEnded]


def test_no_other_node_may_tell_of_steps() -> None:
    """Neither may one tell of a job without a manager, or of more than the job has."""
    cluster = cluster_of()
    job, credential = managed(cluster, **JOB)
    _, news = made(credential)
    other = next(alloc.node_id for alloc in job.nodes if alloc.node_id != job.batch_node_id)
    assert tell(cluster, other, report(credential, news)) == []
    step = news[0].step
    assert step is not None
    foreign = msgspec.structs.replace(step.nodes[0], node_id=99)
    too_much = msgspec.structs.replace(step.nodes[0], cpus=999)
    for alloc in (foreign, too_much):
        bad = msgspec.structs.replace(step, nodes=(alloc,))
        assert tell(cluster, job.batch_node_id, report(credential, [nm.StepNews(0, bad)])) == []
    garbage = nm.ManagedSteps(job.job_id, 0, b"\xc1")
    assert tell(cluster, job.batch_node_id, garbage) == []
    wrong = msgspec.structs.replace(step, uid=0)
    (event,) = tell(cluster, job.batch_node_id, report(credential, [nm.StepNews(0, wrong)]))
    assert isinstance(event, ev.StepCreated) and event.step.uid == USER


def test_parts_that_end_with_the_job_are_put_together() -> None:
    """One node's end came by the manager, the other's by itself: nothing counts twice."""
    cluster = cluster_of()
    job, credential = managed(cluster, **JOB)
    manager, news = made(credential)
    tell(cluster, job.batch_node_id, report(credential, news))
    first, second = credential.nodes
    over = nm.StepEnded(job.job_id, 0, 0, 0, START_US, START_US, 0, Usage(user_us=7))
    manager.ended(first, over, START_US)
    tell(cluster, job.batch_node_id, report(credential, manager.partial_news()))
    node_id = cluster.node_index.by_name[second]
    (event,) = tell(cluster, node_id, over)
    assert isinstance(event, ev.StepEnded) and event.usage is not None
    assert event.usage.user_us == 14


def test_all_nodes_know_a_job_with_a_step_manager_before_its_steps() -> None:
    """They compare what a manager signed with what the controller did."""
    assert Preparation().for_job(REQ_STEPMGR).every_node
    assert not Preparation().for_job(0).every_node


@pytest.mark.parametrize(
    ("line", "flags"), [("", 0), ("SlurmctldParameters=enable_stepmgr\n", REQ_STEPMGR)]
)
def test_a_site_may_give_every_job_a_step_manager(line: str, flags: int) -> None:
    """Jobs of several components and those that outlive their first node have none."""
    conf = conf_of(FOUR_NODES + line)
    plain = with_step_manager(JobRequest(), conf, 1)
    assert isinstance(plain, JobRequest) and plain.flags == flags
    for request, components in ((JobRequest(flags=REQ_NO_KILL), 1), (JobRequest(), 2)):
        assert with_step_manager(request, conf, components) == request
        asked = msgspec.structs.replace(request, flags=request.flags | REQ_STEPMGR)
        refused = with_step_manager(asked, conf, components)
        assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_NOT_SUPPORTED
        assert refused.detail.startswith("--stepmgr: ")
