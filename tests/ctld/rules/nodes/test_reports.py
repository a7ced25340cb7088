"""What a node's reports do to jobs, steps and the node; each heard twice does nothing more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyslurm_ng.base.numbers import END_CLEAN, END_OUT_OF_MEMORY, END_OVER_MEMORY, SIGTERM
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.nodes.reports import moved
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, Usage
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag, Reason
from pyslurm_ng.wire import node_messages as nm
from tests.ctld.rules.started_jobs import LATER_US, launch_duty, running, tell
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of


def ended(cluster: Cluster, job: Job, status: int, flags: int = END_CLEAN) -> nm.BatchEnded:
    return nm.BatchEnded(
        job.job_id, job.attempt, launch_duty(cluster, job), status, START_US, LATER_US, flags,
        Usage(user_us=5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "flags", "state", "step_state", "reason"),
    [
        # Recorded: reference/cli/jobend.
        (0, 0, JobState.COMPLETED, JobState.COMPLETED, Reason.NONE),
        (3 << 8, 0, JobState.FAILED, JobState.FAILED, Reason.NonZeroExitCode),
        (11, 0, JobState.FAILED, JobState.CANCELLED, Reason.RaisedSignal),
        (53, 0, JobState.FAILED, JobState.CANCELLED, Reason.RaisedSignal),
        (125, END_OUT_OF_MEMORY, JobState.OUT_OF_MEMORY, JobState.OUT_OF_MEMORY,
         Reason.OutOfMemory),
    ],
)  # fmt: skip
def test_end_of_a_script(
    status: int, flags: int, state: JobState, step_state: JobState, reason: Reason
) -> None:
    """One report of a clean node ends job and batch step, and frees the node."""
    cluster = cluster_of()
    job = running(cluster)
    events = tell(cluster, job.batch_node_id, ended(cluster, job, status, flags | END_CLEAN))
    assert (job.state, job.exit_code, job.reason) == (state, status, reason)
    (step,) = (event for event in events if isinstance(event, ev.StepEnded))
    assert (step.step_id, step.state, step.exit_code) == (STEP_BATCH, step_state, status)
    assert step.usage == Usage(user_us=5)
    assert not cluster.duties
    assert not cluster.node_index.use[0].allocs


def test_why_a_script_could_not_run_is_its_system_comment() -> None:
    """Its exit code alone tells nobody; what an administrator has written there stays."""
    error = "Could not open stdio file /root/out: Permission denied"
    for before, comment in (("", error), ("seen", f"seen; {error}"), (error, error)):
        cluster = cluster_of()
        job = running(cluster)
        job.system_comment = before
        tell(cluster, job.batch_node_id, replace(ended(cluster, job, 53), error=error))
        assert (job.state, job.exit_code, job.system_comment) == (JobState.FAILED, 53, comment)


def test_a_step_that_used_too_much_memory_is_ended_by_root() -> None:
    """OverMemoryKill: sacct shows `CANCELLED by 0`, as recorded from Slurm."""
    cluster = cluster_of()
    job = running(cluster)
    flags = END_OVER_MEMORY | END_CLEAN
    events = tell(cluster, job.batch_node_id, ended(cluster, job, 9, flags))
    (step,) = (event for event in events if isinstance(event, ev.StepEnded))
    assert (step.state, step.cancelled_by) == (JobState.CANCELLED, 0)


@pytest.mark.parametrize(
    ("reported_us", "end_us"),
    [
        (LATER_US - 3_000_000, LATER_US - 3_000_000),
        # Clocks that disagree give no end before the start and none in the future.
        (START_US - 9_000_000, START_US),
        (LATER_US + 9_000_000, LATER_US),
    ],
)
def test_an_end_has_the_time_when_it_happened(reported_us: int, end_us: int) -> None:
    """RELIABILITY 3 and 14: an outage of the controller does not prolong a run."""
    cluster = cluster_of()
    job = running(cluster)
    report = nm.BatchEnded(
        job.job_id, job.attempt, launch_duty(cluster, job), 0, START_US, reported_us, END_CLEAN
    )
    tell(cluster, job.batch_node_id, report)
    assert job.end_us == end_us


def test_unclean_node_is_terminated_first() -> None:
    cluster = cluster_of()
    job = running(cluster)
    tell(cluster, job.batch_node_id, ended(cluster, job, 0, 0))
    assert job.flags & JobFlag.COMPLETING
    (duty,) = cluster.duties[job.batch_node_id].values()
    assert duty.kind == DutyKind.TERMINATE
    tell(cluster, job.batch_node_id, nm.JobTerminated(job.job_id, 0, duty.duty_id))
    assert job.state == JobState.COMPLETED
    assert not job.flags & JobFlag.COMPLETING


@pytest.mark.parametrize(
    ("state", "status", "shown"),
    [
        # Seen of Slurm 22.05: a script that catches SIGTERM, and one that does not.
        (JobState.CANCELLED, 3 << 8, 3 << 8),
        (JobState.CANCELLED, 0, 0),
        (JobState.CANCELLED, SIGTERM, SIGTERM),
        (JobState.TIMEOUT, 3 << 8, SIGTERM),
    ],
)
def test_a_cancelled_job_has_the_exit_code_of_its_script(
    state: JobState, status: int, shown: int
) -> None:
    cluster = cluster_of()
    job = running(cluster)
    apply_all(
        cluster,
        job_end.complete(cluster, job, job_end.End(state, exit_code=SIGTERM), START_US),
    )
    (duty,) = cluster.duties[job.batch_node_id].values()
    tell(
        cluster, job.batch_node_id,
        nm.BatchEnded(job.job_id, job.attempt, 0, status, START_US, LATER_US, 0),
    )  # fmt: skip
    events = tell(
        cluster, job.batch_node_id, nm.JobTerminated(job.job_id, job.attempt, duty.duty_id)
    )
    (end,) = (event for event in events if isinstance(event, ev.JobEnded))
    assert (job.state, job.exit_code, end.exit_code) == (state, shown, shown)


def test_only_other_nodes_are_terminated() -> None:
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2)
    tell(cluster, job.batch_node_id, ended(cluster, job, 0))
    assert job.batch_node_id not in cluster.duties
    ((node_id, duties),) = cluster.duties.items()
    (duty,) = duties.values()
    tell(cluster, node_id, nm.JobTerminated(job.job_id, 0, duty.duty_id))
    assert job.state == JobState.COMPLETED and not job.nodes_pending


def test_old_attempt_cannot_end_the_new_one() -> None:
    """A node that was cut off reports the end of a run that was given up long ago."""
    cluster = cluster_of()
    job = running(cluster)
    job.attempt = 2
    stale = nm.BatchEnded(job.job_id, 1, 0, 0, START_US, LATER_US, END_CLEAN)
    assert tell(cluster, job.batch_node_id, stale) == []
    assert job.state == JobState.RUNNING


def test_requeue_exit_codes() -> None:
    conf = conf_of(FOUR_NODES + "RequeueExit=7\nRequeueExitHold=8\n")
    for code, is_held in ((7, False), (8, True)):
        cluster = cluster_of(conf)
        job = running(cluster)
        tell(cluster, job.batch_node_id, ended(cluster, job, code << 8), conf)
        assert (job.state, job.attempt) == (JobState.PENDING, 1)
        assert bool(job.flags & JobFlag.SPECIAL_EXIT) is is_held
        assert (job.priority == 0) is is_held


def test_job_starts_with_its_last_prolog() -> None:
    cluster = cluster_of()
    job = running(cluster, prolog=True, nodes_min=2, nodes_max=2)
    assert job.flags & JobFlag.CONFIGURING
    open_duties = [
        (node_id, duty.duty_id) for node_id, of in cluster.duties.items() for duty in of.values()
    ]
    assert len(open_duties) == 2
    for node_id, duty_id in open_duties:
        assert job.flags & JobFlag.CONFIGURING
        tell(cluster, node_id, nm.DutyDone(job.job_id, 0, duty_id))
    assert not job.flags & JobFlag.CONFIGURING


@pytest.mark.parametrize("words", ["", "nohold_on_prolog_fail"])
def test_failed_prolog_drains_and_holds(words: str) -> None:
    """The site may want the job to try again elsewhere at once."""
    conf = conf_of(FOUR_NODES + (f"\nSchedulerParameters={words}\n" if words else ""))
    cluster = cluster_of(conf)
    job = running(cluster)
    node = cluster.node(job.batch_node_id)
    report = nm.LaunchFailed(
        job.job_id, 0, launch_duty(cluster, job), 4022, "/p: exit code 1", "Prolog error"
    )
    tell(cluster, node.node_id, report, conf)
    assert node.flags & NodeFlag.DRAIN and node.reason == "Prolog error"
    (duty,) = cluster.duties[node.node_id].values()
    tell(cluster, node.node_id, nm.JobTerminated(job.job_id, 0, duty.duty_id), conf)
    assert (job.state, job.attempt) == (JobState.PENDING, 1)
    assert (job.priority == 0) == (not words)
    assert (job.reason_text == "launch failed requeued held") == (not words)


def test_a_job_that_its_node_had_no_room_for_may_start_elsewhere() -> None:
    """It is not held.

    The node is taken out of service, and no administrator has to look at the job.
    """
    cluster = cluster_of()
    job = running(cluster)
    node = cluster.node(job.batch_node_id)
    report = nm.LaunchFailed(
        job.job_id, 0, launch_duty(cluster, job), 4010, "no room", "SlurmdSpoolDir is full"
    )
    tell(cluster, node.node_id, report)
    assert node.flags & NodeFlag.DRAIN and node.reason == "SlurmdSpoolDir is full"
    (duty,) = cluster.duties[node.node_id].values()
    tell(cluster, node.node_id, nm.JobTerminated(job.job_id, 0, duty.duty_id))
    assert (job.state, job.attempt) == (JobState.PENDING, 1)
    assert job.priority != 0


@pytest.mark.parametrize("skew_us", [-7200_000_000, -2_000_000, 0, 2_000_000, 7200_000_000])
def test_no_step_ends_before_it_began_or_later_than_now(skew_us: int) -> None:
    """RELIABILITY 14: the clock of one node is wrong."""
    cluster = cluster_of()
    job = running(cluster)
    report = nm.BatchEnded(
        job.job_id, 0, launch_duty(cluster, job), 0, START_US + skew_us, LATER_US + skew_us
    )
    events = tell(cluster, job.batch_node_id, report)
    (step,) = [event for event in events if isinstance(event, ev.StepEnded)]
    assert START_US <= step.end_us <= LATER_US
    (whole,) = [event for event in events if isinstance(event, ev.JobCompleting)]
    assert START_US <= whole.end_us <= LATER_US


def test_times_of_a_node_are_corrected_to_the_controllers_clock() -> None:
    """A node two hours behind reported that a job had taken no time."""
    hours_us = 7200_000_000
    report = nm.BatchEnded(1, 0, 5, 0, START_US - hours_us, LATER_US - hours_us)
    assert moved(report, hours_us) == nm.BatchEnded(1, 0, 5, 0, START_US, LATER_US)
    unknown = nm.StepEnded(1, 0, 0, 9, 0, LATER_US)
    assert moved(unknown, -hours_us).start_us == 0
    assert moved(nm.DutyDone(1, 0, 5), hours_us) == nm.DutyDone(1, 0, 5)


def test_failed_epilog_drains() -> None:
    cluster = cluster_of()
    job = running(cluster)
    node = cluster.node(job.batch_node_id)
    tell(cluster, node.node_id, ended(cluster, job, 0, 0))
    (duty,) = cluster.duties[node.node_id].values()
    tell(cluster, node.node_id, nm.JobTerminated(job.job_id, 0, duty.duty_id, 256))
    assert job.state == JobState.COMPLETED
    assert node.reason == "Epilog error"


def test_operators_reason_is_kept() -> None:
    """A node that was drained by hand does not get another reason."""
    cluster = cluster_of()
    node = cluster.node(0)
    drained: dict[str, object] = {"flags": int(NodeFlag.DRAIN), "reason": "disk"}
    apply_all(cluster, [ev.NodeUpdated(START_US, (0,), drained)])
    assert tell(cluster, 0, nm.NodeTrouble(0, 0, "Kill task failed")) == []
    assert node.reason == "disk"
