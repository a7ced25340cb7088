"""slurmctld.log: one line for each thing an administrator looks for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyslurm_ng.ctld.followers.event_log import EventLog
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag
from tests.model.clusters import START_US, cluster_of, submit
from tests.world.logs import LineLog
from tests.world.site import Site


def lines_of(*events: ev.AnyEvent, level: int = 3) -> list[str]:
    cluster = cluster_of()
    submit(cluster, JobRequest())
    lines = LineLog(level, "error: ")
    EventLog(cluster, lines, LineLog(0)).applied(events)
    return lines.lines


def test_ends_of_jobs_name_status_and_state() -> None:
    """As Slurm writes them, so that existing searches find them."""
    completing = ev.JobCompleting(START_US, 1, JobState.FAILED, 256, 0, 1, ())
    ended = ev.JobEnded(START_US, 1, JobState.FAILED, 256)
    assert lines_of(completing, ended) == [
        "_job_complete: JobId=1 WEXITSTATUS 1",
        "_job_complete: JobId=1 done (FAILED)",
    ]


def test_a_killed_script_names_its_signal_and_a_time_limit_its_state() -> None:
    """Exit codes show neither."""
    killed = ev.JobCompleting(START_US, 1, JobState.FAILED, 9, 0, 1, ())
    late = ev.JobCompleting(START_US, 1, JobState.TIMEOUT, 0, 0, 1, ())
    assert lines_of(killed, late) == [
        "_job_complete: JobId=1 WTERMSIG 9",
        "_job_complete: JobId=1 TIMEOUT",
    ]


def test_jobs_that_are_preempted_name_the_job_that_they_make_room_for() -> None:
    """Slurm's words; a job that leaves anyway is not preempted."""
    cluster = cluster_of()
    ids = [submit(cluster, JobRequest()) for _ in range(5)]
    killed, requeued, warned, leaving, preemptor = ids
    for job_id, fields in (
        (killed, {"preempt_us": START_US}),
        (requeued, {"preempt_us": START_US, "flags": JobFlag.REQUEUED}),
        (warned, {"preempt_us": START_US, "preempt_mode": "REQUEUE"}),
    ):
        cluster.jobs[job_id] = replace(cluster.jobs[job_id], **fields)
    claim = ev.JobUpdated(START_US, preemptor, {"claim_victims": tuple(ids[:4]), "claim": ()})
    suspended = ev.JobUpdated(START_US, leaving, {"suspended_by": preemptor})
    lines = LineLog(3, "error: ")
    EventLog(cluster, lines, LineLog(0)).applied([claim, suspended])
    assert lines.lines == [
        f"preempted JobId={victim} has been {how} to reclaim resources for JobId={preemptor}"
        for victim, how in (
            (killed, "killed"),
            (requeued, "requeued"),
            (warned, "requeued"),
            (leaving, "suspended"),
        )
    ]


def test_lost_nodes_are_errors() -> None:
    """Folded names, reason, and the return in a line of its own."""
    down = ev.NodesDown(START_US, (0, 1, 2), "Not responding")
    back = ev.NodesSilent(START_US, (3,), silent=False)
    assert lines_of(down, back) == [
        "error: Nodes n[1-3] set DOWN: Not responding",
        "Node n4 now responding",
    ]


def test_a_quiet_log_makes_no_lines() -> None:
    """Lines are made at level info and above only."""
    assert lines_of(ev.NodesSilent(START_US, (3,), silent=True), level=2) == []


def test_the_lines_of_a_turn_are_written_together() -> None:
    """A write for each was a twentieth of a submission's cost. An error does not wait."""
    lines, later = LineLog(mark="error: "), []
    log = EventLog(cluster_of(), lines, LineLog(0), later.append)
    for node_id in (0, 1):
        log.applied([ev.NodesSilent(START_US, (node_id,), silent=False)])
    assert not lines.lines and len(later) == 1
    log.applied([ev.NodesSilent(START_US, (2,), silent=True)])
    told = ["Node n1 now responding", "Node n2 now responding", "error: Nodes n3 not responding"]
    assert lines.lines == told
    later[0]()
    assert lines.lines == told


@pytest.mark.parametrize(
    ("script_hash", "begins"),
    [
        ("ab", "_slurm_rpc_submit_batch_job: JobId=1 User="),
        ("", "_slurm_rpc_allocate_resources JobId=1 User="),
    ],
)
def test_a_job_that_is_taken_has_a_line_in_slurms_form(script_hash: str, begins: str) -> None:
    """Sites look for a job's number behind Slurm's verb."""
    cluster = cluster_of()
    names = "alice", "alice", "chem", "normal"
    event = ev.JobSubmitted(
        START_US, 1, JobRequest(), 1001, 1001, *names, 1, "main", 60, script_hash
    )
    lines = LineLog()
    EventLog(cluster, lines, LineLog(0)).applied([event])
    assert lines.lines == [f"{begins}alice(1001) Account=chem Partition=main"]


def test_the_schedulers_log_has_only_its_lines() -> None:
    """SlurmSchedLogFile; they are in slurmctld.log, too."""
    cluster = cluster_of()
    submit(cluster, JobRequest())
    every, scheduling = LineLog(), LineLog()
    started = ev.JobAllocated(START_US, 1, "main", (NodeAlloc(0, 1, b"\x01", 0),), 0, 1, 1)
    ended = ev.JobEnded(START_US, 1, JobState.CANCELLED)
    EventLog(cluster, every, scheduling).applied([started, ended])
    assert len(every.lines) == 2
    assert scheduling.lines == ["sched: Allocate JobId=1 NodeList=n1 #CPUs=1 Partition=main"]


def test_nodes_that_are_no_longer_configured_are_counted() -> None:
    """Their jobs are lost to the very reconfiguration that took their names."""
    cluster = cluster_of()
    gone = cluster.node_index.by_name.pop("n2")
    cluster.nodes[gone] = None
    lines = LineLog(mark="error: ")
    down = [ev.NodesDown(START_US, ids, "Node removed") for ids in ((gone,), (0, gone))]
    EventLog(cluster, lines, LineLog(0)).applied(down)
    assert lines.lines == [
        "error: Nodes (1 removed) set DOWN: Node removed",
        "error: Nodes n1,(1 removed) set DOWN: Node removed",
    ]


def test_changes_by_administrators_are_lines() -> None:
    """Searches for `state set to` and for who cancelled a job go on finding them."""
    site = Site()
    lines = LineLog(mark="error: ")
    log = EventLog(site.cluster, lines, LineLog(0))
    reservation = Reservation("maint", START_US, START_US + 1, (0,), users=("root",))
    drained = {"flags": int(NodeFlag.DRAIN), "reason": "disk"}
    changes: list[ev.AnyEvent] = [
        ev.NodeUpdated(START_US, (1,), drained),
        ev.NodeUpdated(START_US, (1,), {"weight": 5}),
        ev.ReservationCreated(START_US, reservation),
        ev.ReservationUpdated(START_US, reservation),
    ]
    site.apply(changes)
    log.applied(changes)
    job = site.job()
    log.applied([ev.JobEnded(START_US, job.job_id, JobState.CANCELLED, cancelled_by=1000)])
    assert lines.lines == [
        "update_node: node n2 reason set to: disk",
        "update_node: node n2 state set to DRAINED",
        "sched: Created reservation=maint users=root nodes=n1",
        "sched: Updated reservation=maint users=root nodes=n1",
        f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={job.job_id} uid 1000",
        f"_job_complete: JobId={job.job_id} done (CANCELLED)",
    ]
