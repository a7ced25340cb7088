"""`scontrol update job` of jobs that run: fewer nodes, other licences, another QOS."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.nodes import reports
from pyslurm_ng.ctld.rules.orders.job_orders import requeue_jobs
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job, limit_end_us
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import RequeueJobs, UpdateJob
from tests.world.callers import ALICE, ROOT
from tests.world.site import Site


def update(scene: Site, *jobs: Job, who: Caller = ALICE, **settings: str) -> list[int]:
    """Change jobs; return the numbers of what is refused."""
    message = UpdateJob(bytes(16), settings, [str(job.job_id) for job in jobs])
    decision = update_job(scene.cluster, message, scene.context(who))
    assert not isinstance(decision, Reject)
    scene.apply(decision.events)
    return [code for _, code, _ in decision.reply.errors]


def four_nodes(scene: Site, **more: object) -> Job:
    """Return a job that has all nodes."""
    return scene.running(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, **more)


def clean(scene: Site, job: Job, *names: str) -> None:
    """Let nodes report that nothing of a job is left there."""
    for name in names:
        node_id = scene.cluster.node_index.by_name[name]
        (duty,) = (
            duty.duty_id
            for duty in scene.cluster.duties[node_id].values()
            if duty.kind == DutyKind.TERMINATE
        )
        report = nm.JobTerminated(job.job_id, job.attempt, duty)
        scene.apply(reports.judge(scene.cluster, node_id, report, scene.conf, scene.now_us))


def test_nodes_given_up_are_used_when_they_are_clean() -> None:
    """Not before: what the job runs there has still to be killed."""
    scene = Site()
    job = four_nodes(scene)
    next_job = scene.waiting(nodes_min=2, nodes_max=2)
    assert update(scene, job, numnodes="2") == []
    assert scene.places(job) == ["n1", "n2"]
    assert job.resize_us == scene.now_us
    scene.run_pass()
    assert next_job.state == JobState.PENDING
    clean(scene, job, "n3", "n4")
    assert job.nodes_leaving == ()
    scene.run_pass()
    assert scene.places(next_job) == ["n3", "n4"]


@pytest.mark.parametrize("key", ["nodelist", "reqnodelist"])
def test_nodes_are_kept_by_name(key: str) -> None:
    """Only some of its own nodes, with the batch host among them."""
    scene = Site()
    job = four_nodes(scene)
    for wrong in ("n[3-4]", "n9", "n[1-", ""):
        assert update(scene, job, **{key: wrong}) == [Errno.ESLURM_INVALID_NODE_NAME]
    assert update(scene, job, **{key: "n[1,3]"}) == []
    assert scene.places(job) == ["n1", "n3"]
    assert update(scene, job, **{key: "n[1-2]"}) == [Errno.ESLURM_INVALID_NODE_NAME]


def test_a_job_does_not_grow() -> None:
    """A request for the nodes that it has changes nothing. It cannot get more."""
    scene = Site()
    job = scene.running(nodes_min=2, nodes_max=2)
    assert update(scene, job, numnodes="3") == [Errno.ESLURM_NOT_SUPPORTED]
    assert update(scene, job, numnodes="0") == [Errno.ESLURM_INVALID_NODE_COUNT]
    assert update(scene, job, numnodes="2") == []
    assert job.resize_us == 0


def test_a_site_may_forbid_that_jobs_shrink() -> None:
    """SchedulerParameters=disable_job_shrink."""
    scene = Site("SchedulerParameters=disable_job_shrink")
    job = four_nodes(scene)
    assert update(scene, job, numnodes="2") == [Errno.ESLURM_NOT_SUPPORTED]
    assert len(job.nodes) == 4


def test_a_job_that_is_prepared_keeps_its_nodes() -> None:
    """What a node has been ordered to prepare cannot be taken back."""
    scene = Site()
    job = scene.running(nodes_min=4, nodes_max=4)
    flags = {"flags": int(JobFlag.CONFIGURING)}
    scene.apply([ev.JobUpdated(scene.now_us, job.job_id, flags)])
    assert update(scene, job, numnodes="2") == [Errno.ESLURM_TRANSITION_STATE_NO_UPDATE]


def test_the_job_is_over_when_the_nodes_it_left_are_clean_too() -> None:
    """It could start again on one of them otherwise, beside what is left there of itself."""
    scene = Site()
    job = four_nodes(scene)
    assert update(scene, job, numnodes="3") == []
    message = RequeueJobs(bytes(16), [str(job.job_id)])
    decision = requeue_jobs(scene.cluster, message, scene.context(ROOT))
    assert not isinstance(decision, Reject)
    scene.apply(decision.events)
    clean(scene, job, "n1", "n2", "n3")
    assert job.state != JobState.PENDING
    clean(scene, job, "n4")
    assert (job.state, job.nodes, job.nodes_leaving) == (JobState.PENDING, (), ())


def test_a_node_may_be_lost_while_a_job_leaves_it() -> None:
    """That is nothing to the job."""
    scene = Site()
    job = four_nodes(scene)
    assert update(scene, job, numnodes="3") == []
    lost = scene.cluster.node_index.by_name["n4"]
    scene.apply(nodes_down(scene.cluster, (lost,), "gone", scene.now_us))
    assert job.state == JobState.RUNNING
    assert job.nodes_leaving == ()


def test_an_update_cannot_ask_for_more_licences_than_there_are() -> None:
    """allow_zero_lic lets submissions wait for them; Slurm refuses the update all the same."""
    scene = Site("Licenses=soft:4\nSchedulerParameters=allow_zero_lic")
    job = scene.job(priority=0, licenses="soft:9")
    refused = [Errno.ESLURM_INVALID_LICENSES]
    for text in ("soft:5", "soft:3,soft:2", "soft:x", "soft:" + "9" * 5000, "none"):
        assert update(scene, job, who=ROOT, licenses=text) == refused, text[:9]
    assert update(scene, job, who=ROOT, licenses="soft:4") == []


def test_licences_are_given_back_and_taken() -> None:
    """As many as are free; two jobs of one request cannot both get the last one."""
    scene = Site("Licenses=soft:4,hard:1")
    first = scene.running(licenses="soft:2")
    two = scene.running(licenses="soft:1")
    assert update(scene, first, two, who=ROOT, licenses="soft:2") == []
    assert update(scene, first, who=ROOT, licenses="soft:3") == [Errno.ESLURM_INVALID_LICENSES]
    assert update(scene, first, who=ROOT, licenses="none:1") == [Errno.ESLURM_INVALID_LICENSES]
    both = "soft:2,hard:1"
    assert update(scene, first, two, who=ROOT, licenses=both) == [Errno.ESLURM_INVALID_LICENSES]
    assert first.licenses_alloc == both
    assert update(scene, first, licenses="") == [Errno.ESLURM_ACCESS_DENIED], "operators only"
    assert update(scene, first, who=ROOT, licenses="") == []
    assert (first.licenses_alloc, first.request.licenses) == ("", "")
    assert scene.cluster.licenses_left("soft") == 2
    assert scene.cluster.licenses_left("hard") == 1


def test_an_operator_moves_a_job_that_runs_to_another_qos() -> None:
    """Its user may not: it would leave the limits that let it start."""
    scene = Site("AccountingStorageEnforce=associations,qos")
    scene.account()
    job = scene.running()
    assert update(scene, job, qos="late") == [Errno.ESLURM_JOB_NOT_PENDING]
    assert update(scene, job, who=ROOT, qos="none") == [Errno.ESLURM_INVALID_QOS]
    scene.now_us += 1_000_000
    assert update(scene, job, who=ROOT, qos="late") == []
    assert (job.qos, job.charged_us) == ("late", scene.now_us)


def test_nice_may_change_while_a_job_runs() -> None:
    """It counts where jobs are preempted by priority, and when it is requeued."""
    scene = Site()
    job = scene.running()
    started = ev.JobUpdated(scene.now_us, job.job_id, {"start_priority": 1000})
    scene.apply([started])
    assert update(scene, job, nice="20") == []
    assert (job.nice, job.start_priority) == (20, 980)
    assert update(scene, job, nice="-20") == [Errno.ESLURM_ACCESS_DENIED]


def test_an_end_time_is_no_later_than_asked_for() -> None:
    """Limits are whole minutes; as in Slurm what is left over is not given."""
    scene = Site()
    job = scene.running()
    end_us = job.start_us + 119 * 60 * 1_000_000 + 59_000_000
    assert update(scene, job, who=ROOT, endtime=str(end_us)) == []
    assert job.time_limit_min == 119


def test_an_hour_from_a_job_s_first_second_is_an_hour() -> None:
    """`EndTime=now+1hour` is a whole second, and the job began at a part of it."""
    scene = Site()
    job = scene.running()
    job.start_us += 700_000
    end_us = job.start_us - 700_000 + 3600 * 1_000_000
    assert update(scene, job, who=ROOT, endtime=str(end_us)) == []
    assert job.time_limit_min == 60


def test_an_end_time_counts_suspensions() -> None:
    """The limit counts time in which the job runs. The job still ends at the moment asked for."""
    scene = Site()
    job = four_nodes(scene, time_limit_min=60)
    job.suspended_us = 20 * 60_000_000  # it was suspended for so long
    end_us = job.start_us + 50 * 60_000_000
    assert update(scene, job, who=ROOT, endtime=str(end_us)) == []
    assert (job.time_limit_min, limit_end_us(job)) == (30, end_us)
    early = job.start_us + 19 * 60_000_000  # before any run of a minute
    assert update(scene, job, who=ROOT, endtime=str(early)) == [Errno.ESLURM_INVALID_TIME_VALUE]


def test_a_running_job_may_be_given_the_partition_it_has() -> None:
    """As in Slurm: tools write all fields back. Another one needs a job that waits."""
    scene = Site()
    job = four_nodes(scene)
    assert update(scene, job, partition=job.partition) == []
    assert update(scene, job, partition="nosuch") == [Errno.ESLURM_JOB_NOT_PENDING]
