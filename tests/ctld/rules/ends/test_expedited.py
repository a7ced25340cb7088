"""--requeue=expedite: a job that a broken node ended is the first to run again."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import NO_VAL, REQ_EXCLUSIVE, REQ_EXPEDITE, REQ_REQUEUE
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.wire import node_messages as nm
from tests.world.site import Site

ALLOWED = "SlurmctldParameters=enable_expedited_requeue"
EXPEDITE = REQ_REQUEUE | REQ_EXPEDITE
BAD = 3 << 8
EPILOG_FAILED = 1 << 8


def running(scene: Site) -> Job:
    return scene.running(nodes_min=2, nodes_max=2, flags=EXPEDITE)


def script_ends(scene: Site, job: Job, status: int, flags: int = 0) -> None:
    """Let the script end; both nodes have yet to run the epilog."""
    duty = scene.duty(job, DutyKind.LAUNCH)
    report = nm.BatchEnded(
        job.job_id, job.attempt, duty.duty_id, status, scene.now_us, scene.now_us, flags
    )
    scene.apply(judge(scene.cluster, job.batch_node_id, report, scene.conf, scene.now_us))


def epilogs_end(scene: Site, job: Job, *statuses: int) -> None:
    """Let the epilogs of the job's nodes end, one after the other."""
    attempt = job.attempt
    for node_id, status in zip(job.nodes_pending, statuses, strict=True):
        (duty,) = scene.cluster.duties[node_id].values()
        report = nm.JobTerminated(job.job_id, attempt, duty.duty_id, status)
        scene.apply(judge(scene.cluster, node_id, report, scene.conf, scene.now_us))


def is_first_in_line(job: Job) -> bool:
    is_eligible = bool(job.eligible_us) and not job.begin_us
    return is_eligible and job.flags == JobFlag.EXPEDITING and job.priority == NO_VAL - 1


def test_the_site_has_to_allow_it() -> None:
    """Users could otherwise put themselves before all others."""
    assert Site().refused(flags=EXPEDITE) == Errno.ESLURM_DISABLED
    assert Site(ALLOWED).job(flags=EXPEDITE).requeue


def test_a_script_that_fails_on_healthy_nodes_is_held() -> None:
    """Somebody has to look at it first."""
    scene = Site(ALLOWED)
    job = running(scene)
    script_ends(scene, job, BAD)
    assert job.flags & JobFlag.COMPLETING
    epilogs_end(scene, job, 0, 0)
    scene.expect(job, JobState.PENDING, Reason.JobHeldUser)
    assert (job.flags, job.attempt) == (JobFlag.REQUEUE_HOLD, 1)


@pytest.mark.parametrize("statuses", [(EPILOG_FAILED, 0), (0, EPILOG_FAILED)])
def test_a_failed_epilog_lets_it_run_again_before_all_others(statuses: tuple[int, int]) -> None:
    """The broken node is drained; the job begins elsewhere at the next pass."""
    scene = Site(ALLOWED)
    job = running(scene)
    broken = job.nodes[statuses.index(EPILOG_FAILED)].node_id
    other = scene.waiting(nodes_min=3, nodes_max=3, flags=REQ_EXCLUSIVE)
    script_ends(scene, job, BAD)
    epilogs_end(scene, job, *statuses)
    assert job.state == JobState.PENDING
    assert is_first_in_line(job)
    assert scene.cluster.node(broken).reason == "Epilog error"
    scene.run_pass()
    scene.expect(job, JobState.RUNNING)
    scene.expect(other, JobState.PENDING)
    assert not job.flags & JobFlag.EXPEDITING
    assert broken not in [alloc.node_id for alloc in job.nodes]


def test_success_stays_success() -> None:
    """A failed epilog drains the node, and that is all."""
    scene = Site(ALLOWED)
    job = running(scene)
    script_ends(scene, job, 0)
    epilogs_end(scene, job, EPILOG_FAILED, 0)
    assert job.state == JobState.COMPLETED
    assert not job.flags


@pytest.mark.parametrize("is_cleaning", [False, True])
def test_a_lost_node_lets_it_run_again_at_once(is_cleaning: bool) -> None:
    """Also if the script had failed before, and the node was lost while it cleaned up."""
    scene = Site(ALLOWED)
    job = running(scene)
    lost, kept = (alloc.node_id for alloc in job.nodes)
    if is_cleaning:
        script_ends(scene, job, BAD)
    scene.apply(nodes_down(scene.cluster, (lost,), "Not responding", scene.now_us))
    assert job.nodes_pending == (kept,)
    epilogs_end(scene, job, 0)
    assert job.state == JobState.PENDING
    assert is_first_in_line(job)


def test_others_are_not_touched() -> None:
    """Without =expedite a failed script is a failed job, and a lost node brings a delay."""
    scene = Site(ALLOWED)
    job = scene.running(nodes_min=2, nodes_max=2, flags=REQ_REQUEUE)
    script_ends(scene, job, BAD)
    epilogs_end(scene, job, EPILOG_FAILED, 0)
    assert (job.state, job.flags) == (JobState.FAILED, 0)
