"""slurmctld.log: who changed what, which jobs were refused, and who tried what they may not do."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US, SIGUSR1
from pyslurm_ng.base.plain_text import printable
from pyslurm_ng.ctld.followers import request_log as request_log_module
from pyslurm_ng.ctld.followers.request_log import RequestLog
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire import query_messages as q
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.logs import LineLog
from tests.world.site import Site

ID = bytes(16)
REQUEST = q.DeletePartition(ID, "main")
DENIED = Reject(Errno.ESLURM_USER_ID_MISSING)


def request_log(lines: LineLog) -> RequestLog:
    return RequestLog(lines, lines.info)


def lines_of(site: Site, request: Struct, who: Caller = ROOT) -> list[str]:
    """Let the rule decide a request, and return the lines about it."""
    lines = LineLog(mark="error: ")
    context = site.context(who)
    outcome = RULES[type(request).__name__](site.cluster, request, context)
    request_log(lines).decided(request, context, outcome)
    if not isinstance(outcome, Reject):
        site.apply(outcome.events)
    return lines.lines


def test_an_update_of_a_job_names_the_user_and_the_values() -> None:
    """An administrator who is asked who changed a job finds it, as in Slurm's log."""
    site = Site()
    job_id = str(site.job(priority=0).job_id)
    request = q.UpdateJob(ID, {"comment": "a\nb", "jobname": "x"}, [job_id, "99"])
    assert lines_of(site, request) == [
        f"_update_job: setting comment to a?b for JobId={job_id}",
        f"_update_job: setting jobname to x for JobId={job_id}",
        f"_slurm_rpc_update_job: complete JobId={job_id} uid=0",
        "_slurm_rpc_update_job: JobId=99 uid=0: Invalid job id specified",
    ]


def test_the_log_works_on_no_more_of_a_long_text_than_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One message may set long texts of twenty jobs, and it all happens on the event loop."""
    site = Site()
    lengths: list[int] = []

    def note(text: str) -> str:
        lengths.append(len(text))
        return printable(text)

    monkeypatch.setattr(request_log_module, "printable", note)
    job_id = str(site.job(priority=0).job_id)
    line, _ = lines_of(site, q.UpdateJob(ID, {"comment": "é" * 60_000}, [job_id]))
    assert line == f"_update_job: setting comment to {'é' * 60_000}"[:1024]
    assert max(lengths) == 1024


def test_verbs_about_jobs_name_the_user() -> None:
    """Each verb of scontrol, and signals; ends of jobs have a line for their event."""
    site = Site()
    waiting = str(site.job(priority=0).job_id)
    running = str(site.running().job_id)
    assert lines_of(site, q.HoldJobs(ID, [waiting])) == [
        f"sched: _hold_job_rec: hold on JobId={waiting} by uid 0",
        f"_slurm_rpc_update_job: complete JobId={waiting} uid=0",
    ]
    assert lines_of(site, q.HoldJobs(ID, [waiting], release=True)) == [
        f"sched: _release_job_rec: release hold on JobId={waiting} by uid 0",
        f"_slurm_rpc_update_job: complete JobId={waiting} uid=0",
    ]
    assert lines_of(site, q.TopJobs(ID, [waiting])) == [f"_slurm_rpc_top_job for {waiting} uid=0"]
    assert lines_of(site, q.CancelJobs(ID, q.JobFilter([running, "99"]), SIGUSR1)) == [
        f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={running} uid 0 sig=10",
        "_slurm_rpc_kill_job: job_str_signal() uid=0 JobId=99 sig=10 returned: "
        "Invalid job id specified",
    ]
    assert lines_of(site, q.SuspendJobs(ID, [running, "99"])) == [
        f"_slurm_rpc_suspend(suspend) for {running} uid=0",
        "_slurm_rpc_suspend(suspend) for 99 uid=0 Invalid job id specified",
    ]
    assert lines_of(site, q.RequeueJobs(ID, [running, "99"])) == [
        f"_slurm_rpc_requeue: complete JobId={running} uid=0",
        "_slurm_rpc_requeue: Requeue of JobId=99 uid=0 returned an error: Invalid job id specified",
    ]
    assert lines_of(site, q.CancelJobs(ID, q.JobFilter([waiting]))) == []


def test_thousands_of_ids_have_a_few_lines() -> None:
    """One request must not fill the log."""
    site = Site()
    ids = [str(site.job(priority=0).job_id) for _ in range(30)]
    lines = lines_of(site, q.HoldJobs(ID, [*ids, *map(str, range(1000, 1900))]))
    assert lines[40] == "HoldJobs: 10 more ids alike"
    assert len(lines) == 20 * 2 + 1 + 20


def test_changes_of_nodes_partitions_and_reservations_name_the_user() -> None:
    """State and reason of a node have lines of their own, since slurmctld changes them, too."""
    site = Site()
    assert lines_of(site, q.UpdateNodes(ID, "n1", {"weight": "4", "state": "drain",
                                                   "reason": "x"})) == [
        "update_node: node n1 weight set to: 4",
        "_slurm_rpc_update_node for n1 uid=0 complete",
    ]  # fmt: skip
    assert lines_of(site, q.UpdateNodes(ID, "n99", {"weight": "4"})) == [
        "_slurm_rpc_update_node for n99 uid=0: Invalid node name specified",
    ]
    assert lines_of(site, q.UpdatePartition(ID, "new", {"nodes": "n1"}, create=True)) == [
        "update_part: partition new being created",
        "update_part: setting nodes to n1 for partition new",
        "_slurm_rpc_update_partition complete for new uid=0",
    ]
    assert lines_of(site, q.DeletePartition(ID, "new")) == [
        "_slurm_rpc_delete_partition complete for new uid=0",
    ]
    assert lines_of(site, q.DeletePartition(ID, "new")) == [
        "_slurm_rpc_delete_partition partition=new uid=0: Invalid partition name specified",
    ]
    settings = {"nodes": "n1", "users": "root", "starttime": str(site.now_us), "duration": "60"}
    assert lines_of(site, q.UpdateReservation(ID, "", settings, create=True))[-1] == (
        "_slurm_rpc_resv_create complete for root_1 uid=0"
    )
    assert lines_of(site, q.UpdateReservation(ID, "nope", {"duration": "60"})) == [
        "_slurm_rpc_resv_update reservation=nope uid=0: Requested reservation is invalid",
    ]
    assert lines_of(site, q.DeleteReservation(ID, "root_1")) == [
        "_slurm_rpc_delete_reservation complete for root_1 uid=0",
    ]


def test_denials_are_errors_of_the_log() -> None:
    """As Slurm logs them, with its name for the request."""
    site = Site()
    assert lines_of(site, REQUEST, ALICE) == [
        f"error: Security violation, DELETE_PARTITION RPC from uid={ALICE.uid}",
        f"_slurm_rpc_delete_partition partition=main uid={ALICE.uid}: Invalid user id",
    ]


def test_a_refused_job_has_a_line() -> None:
    """An administrator who is asked why finds it."""
    site, lines = Site(), LineLog(mark="error: ")
    job = SubmitJob(ID, JobRequest(), b"#!/bin/sh\n")
    refusal = Reject(Errno.ESLURM_INVALID_PARTITION_NAME, "nosuch\nline")
    request_log(lines).decided(job, site.context(ALICE), refusal)
    assert lines.lines == [
        f"_slurm_rpc_submit_batch_job: User=alice({ALICE.uid}) refused: nosuch?line: "
        "Invalid partition name specified",
    ]


def test_a_quiet_log_has_denials_only() -> None:
    """Lines of what was done are made at level info and above."""
    site, lines = Site(), LineLog(2, "error: ")
    log = request_log(lines)
    log.decided(REQUEST, site.context(ROOT), Reject(Errno.ESLURM_INVALID_PARTITION_NAME))
    assert lines.lines == []
    log.decided(REQUEST, site.context(ALICE), DENIED)
    assert lines.lines == [f"error: Security violation, DELETE_PARTITION RPC from uid={ALICE.uid}"]


def test_a_user_is_refused_in_the_log_once_a_second() -> None:
    """A user who asks without pause must not fill the file system of the log."""
    site, lines = Site(), LineLog(2)
    log, now = request_log(lines), site.context(ALICE)
    for _ in range(100):
        log.decided(REQUEST, now, DENIED)
    log.decided(REQUEST, site.context(BOB), DENIED)
    log.decided(REQUEST, replace(now, now_us=now.now_us + SECOND_US), DENIED)
    assert [line.rpartition("=")[2] for line in lines.lines] == [
        str(uid) for uid in (ALICE.uid, BOB.uid, ALICE.uid)
    ]
