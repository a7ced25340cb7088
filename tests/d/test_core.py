"""Decisions of a node: orders and ends in, actions and reports out."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import (
    END_CLEAN,
    SIGNAL_BATCH_ONLY,
    SIGNAL_CANCELLED,
    SIGNAL_RESERVATION,
    SIGNAL_STEPS_ONLY,
    SIGNAL_TIME_LIMIT,
)
from pyslurm_ng.d.core.actions import (
    Command,
    RefuseStep,
    RunEpilog,
    RunProlog,
    StartBatch,
    StartExtern,
    StartStep,
    TellUnkillable,
)
from pyslurm_ng.d.core.attempt_ends import KEPT_LONGER, KEPT_MINUTES, MOST
from pyslurm_ng.d.core.node_core import NodeCore, StepEnd
from pyslurm_ng.d.core.orders import obey
from pyslurm_ng.d.core.runs import epilog_ended, prolog_ended
from pyslurm_ng.d.core.steps import (
    launch_step,
    step_ended,
    step_failed,
    step_started,
    step_unkillable,
)
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm
from tests.d.credentials import credential, managed_credential

OK = StepEnd(0, END_CLEAN, 1, 2)


def core(**more: bool) -> NodeCore:
    return NodeCore(
        has_prolog=more.get("prolog", False), has_epilog=more.get("epilog", False), kill_wait_s=30
    )


def launch(duty_id: int = 5) -> nm.LaunchBatch:
    return nm.LaunchBatch(duty_id, b"c", b"#!/bin/sh\n")


def started(node: NodeCore, job_id: int = 1, duty_id: int = 5) -> None:
    """Bring a script to run and forget the report of it."""
    obey(node, launch(duty_id), credential(job_id))
    step_started(node, job_id, 0, STEP_BATCH)
    node.reports.clear()


def test_a_short_script_is_one_report() -> None:
    """The report of the end includes the launch, and no terminate order is needed."""
    node = core()
    assert isinstance(obey(node, launch(), credential())[0], StartBatch)
    step_started(node, 1, 0, STEP_BATCH)
    assert node.reports == [nm.DutyDone(1, 0, 5)]
    assert step_ended(node, 1, 0, STEP_BATCH, OK) == []
    assert node.reports == [nm.BatchEnded(1, 0, 5, 0, 1, 2, END_CLEAN)]
    assert node.jobs == {}


def test_a_repeated_order_starts_nothing_twice() -> None:
    node = core()
    started(node)
    assert obey(node, launch(), credential()) == []
    assert node.reports == [nm.DutyDone(1, 0, 5)]


def test_a_late_order_of_an_ended_script_is_answered_again() -> None:
    """The controller did not get the report, or a copy of the order was late."""
    node = core()
    started(node)
    step_ended(node, 1, 0, STEP_BATCH, OK)
    first = list(node.reports)
    assert obey(node, launch(), credential()) == []
    assert node.reports == first * 2


def test_a_step_of_a_suspended_job_waits_until_it_goes_on() -> None:
    """With the credential of a step from before, a user ran on CPUs that others had by then."""
    node = core()
    started(node)
    obey(node, nm.SuspendJob(6, 1, 0), None)
    assert launch_step(node, credential(step_id=0), 1) == []
    tell, start = obey(node, nm.ResumeJob(7, 1, 0), None)
    assert tell == Command(1, 0, STEP_BATCH, {"do": "resume"})
    assert start == StartStep(credential(step_id=0), 1)
    obey(node, nm.SuspendJob(8, 1, 0), None)
    launch_step(node, credential(step_id=1), 2)
    assert RefuseStep in map(type, obey(node, nm.TerminateJob(9, 1, 0, force=True), None))
    assert not node.suspended


def test_a_node_remembers_a_suspended_job_of_which_it_has_nothing() -> None:
    """Another node of the job begins its first step by a credential from before."""
    node = core()
    obey(node, nm.SuspendJob(6, 1, 0), None)
    assert launch_step(node, credential(step_id=0), 1) == []
    (start,) = obey(node, nm.ResumeJob(7, 1, 0), None)
    assert start == StartStep(credential(step_id=0), 1)
    obey(node, nm.SuspendJob(8, 2, 0), None)
    obey(node, nm.TerminateJob(9, 2, 0), None)
    assert not node.suspended


def test_an_older_epoch_is_not_obeyed() -> None:
    node = core()
    assert node.accept_epoch(3)
    assert not node.accept_epoch(2)
    assert node.accept_epoch(3)


def test_the_newest_job_id_is_remembered_around_the_highest() -> None:
    """RELIABILITY 8: a controller that has lost its newest jobs gets this id."""
    node = core()
    for job_id in (5, 3, 30_000_000, 60_000_000, 2):
        obey(node, launch(), credential(job_id))
    assert node.newest_job_id == 2
    obey(node, launch(), credential(60_000_001))
    assert node.newest_job_id == 2


def test_a_new_attempt_waits_for_the_end_of_the_old_one() -> None:
    """They share a directory and a control group: one that ends would take the other's.

    So a node that was silent for too long comes back: its first registration brings the order to
    start the job anew while the run that was given up still goes on there.
    """
    node = core()
    started(node)
    actions = obey(node, launch(9), credential(attempt=1))
    assert actions == [Command(1, 0, STEP_BATCH, {"do": "terminate", "why": "", "wait_s": 0.0})]
    assert obey(node, launch(9), credential(attempt=1)) == []
    assert node.running() == [nm.RunningJob(1, 0, [STEP_BATCH], -1), nm.RunningJob(1, 1, [], -1)]
    obey(node, nm.TerminateJob(8, 1, 0, force=True), None)
    (begun,) = step_ended(node, 1, 0, STEP_BATCH, OK)
    assert isinstance(begun, StartBatch)
    assert begun.credential.attempt == 1
    assert node.reports[-1] == nm.JobTerminated(1, 0, 8, 0)
    step_started(node, 1, 1, STEP_BATCH)
    assert node.reports[-1] == nm.DutyDone(1, 1, 9)


def test_a_new_attempt_waits_for_the_epilog_of_the_old_one() -> None:
    node = core(prolog=True, epilog=True)
    obey(node, launch(), credential())
    assert obey(node, launch(9), credential(attempt=1)) == []
    assert [type(action) for action in prolog_ended(node, 1, 0, "")] == [RunEpilog]
    assert [type(action) for action in epilog_ended(node, 1, 0, 0)] == [RunProlog]
    assert [type(action) for action in prolog_ended(node, 1, 1, "")] == [StartBatch]


def test_steps_of_a_new_attempt_wait_as_well() -> None:
    """Its script may run on another node already."""
    node = core()
    started(node)
    actions = launch_step(node, credential(attempt=1, step_id=0), 4)
    assert [type(action) for action in actions] == [Command]
    (begun,) = step_ended(node, 1, 0, STEP_BATCH, OK)
    assert begun == StartStep(credential(attempt=1, step_id=0), 4)


def test_a_new_attempt_that_is_given_up_meanwhile_never_begins() -> None:
    node = core()
    started(node)
    obey(node, launch(9), credential(attempt=1))
    launch_step(node, credential(attempt=1, step_id=0), 4)
    refused = obey(node, nm.TerminateJob(8, 1, 1), None)
    assert [type(action) for action in refused] == [RefuseStep]
    assert node.reports == [nm.JobTerminated(1, 1, 8, 0)]
    assert obey(node, launch(9), credential(attempt=1)) == []
    assert step_ended(node, 1, 0, STEP_BATCH, OK) == []
    assert node.jobs == {}


def test_only_the_latest_attempt_waits() -> None:
    node = core()
    started(node)
    obey(node, launch(9), credential(attempt=1))
    assert obey(node, launch(10), credential(attempt=2)) == []
    assert obey(node, launch(9), credential(attempt=1)) == []
    (begun,) = step_ended(node, 1, 0, STEP_BATCH, OK)
    assert isinstance(begun, StartBatch)
    assert begun.credential.attempt == 2


def test_an_order_for_an_older_attempt_is_old_mail() -> None:
    node = core()
    obey(node, launch(), credential(attempt=1))
    assert obey(node, launch(4), credential(attempt=0)) == []
    assert node.jobs[1].attempt == 1


def test_terminate_ends_everything_then_reports() -> None:
    node = core()
    started(node)
    launch_step(node, credential(step_id=0), 1)
    actions = obey(node, nm.TerminateJob(8, 1, 0, SIGNAL_TIME_LIMIT), None)
    words = {"do": "terminate", "why": "DUE TO TIME LIMIT", "wait_s": 30.0}
    assert actions == [Command(1, 0, STEP_BATCH, words), Command(1, 0, 0, words)]
    step_ended(node, 1, 0, STEP_BATCH, StepEnd(15, 0, 1, 2))
    assert not any(isinstance(report, nm.JobTerminated) for report in node.reports)
    step_ended(node, 1, 0, 0, StepEnd(15, 0, 1, 2))
    assert node.reports[-1] == nm.JobTerminated(1, 0, 8, 0)
    assert node.jobs == {}


def test_the_end_of_a_job_does_not_overtake_those_of_its_steps() -> None:
    """A step was CANCELLED: its end was on the way to a step manager that was gone with the job."""
    node = core()
    for step_id in (0, 1):
        launch_step(node, managed_credential(step_id), step_id)
        step_ended(node, 1, 0, step_id, OK)
    (_, first), (_, second) = node.managed_ends
    assert node.reports == []
    node.told(first)  # the step manager has it
    obey(node, nm.TerminateJob(9, 1, 0), None)
    assert node.reports == [second, nm.JobTerminated(1, 0, 9, 0)]


def test_a_step_beyond_its_limit_may_still_save_its_work() -> None:
    """Its tasks get TERM, KillWait later KILL, and its stderr says why."""
    node = core()
    started(node)
    launch_step(node, credential(step_id=0), 1)
    order = nm.SignalJob(8, 1, 0, 0, 9, SIGNAL_TIME_LIMIT)
    words = {"do": "terminate", "why": "DUE TO TIME LIMIT", "wait_s": 30.0}
    assert obey(node, order, None) == [Command(1, 0, 0, words)]


def test_the_end_of_its_reservation_is_in_a_second_line() -> None:
    """In a second line."""
    node = core()
    obey(node, launch(), msgspec.structs.replace(credential(), reservation="r"))
    step_started(node, 1, 0, STEP_BATCH)
    flags = SIGNAL_TIME_LIMIT | SIGNAL_RESERVATION
    (action,) = obey(node, nm.TerminateJob(8, 1, 0, flags), None)
    assert isinstance(action, Command)
    more = "REASON: Reservation r, which this job was running under, has ended"
    assert action.words["why"] == f"DUE TO TIME LIMIT\n{more}"


def test_an_end_that_is_ordered_again_is_sent_again() -> None:
    """A supervisor may have missed it. A forced end no longer waits."""
    node = core()
    started(node)
    obey(node, nm.TerminateJob(8, 1, 0, SIGNAL_TIME_LIMIT), None)
    for force, wait_s in ((False, 30.0), (True, 0.0)):
        words = {"do": "terminate", "why": "", "wait_s": wait_s}
        order = nm.TerminateJob(8, 1, 0, SIGNAL_TIME_LIMIT, force=force)
        assert obey(node, order, None) == [Command(1, 0, STEP_BATCH, words)]
    assert not any(isinstance(report, nm.JobTerminated) for report in node.reports)


def test_an_end_is_remembered_for_as_long_as_its_credential_lasts() -> None:
    """However many others end in that time. RELIABILITY 59."""
    node = core()
    node.remember(1, 0)
    for number in range(2, 3 * KEPT_LONGER):
        node.remember(number, 0)
    for _ in range(KEPT_MINUTES):
        node.ended.pass_minute()
    assert node.is_over(credential(1))
    assert obey(node, launch(), credential(1)) == []
    node.ended.pass_minute()
    assert len(node.ended) == KEPT_LONGER
    assert not node.is_over(credential(1))
    assert node.is_over(credential(3 * KEPT_LONGER - 1))


def test_nothing_new_begins_while_no_further_end_can_be_remembered() -> None:
    """Memory has a bound; what waits begins when the oldest are forgotten."""
    node = core()
    started(node, MOST + 1)
    for number in range(1, MOST + 1):
        node.remember(number, 0)
    assert obey(node, launch(), credential(MOST + 2)) == []
    [refused] = launch_step(node, credential(MOST + 2, step_id=0), 1)
    assert isinstance(refused, RefuseStep)
    assert isinstance(launch_step(node, credential(MOST + 1, step_id=0), 2)[0], StartStep)
    for _ in range(KEPT_MINUTES + 1):
        node.ended.pass_minute()
    assert isinstance(obey(node, launch(), credential(MOST + 2))[0], StartBatch)


def test_nothing_starts_in_a_job_that_is_over() -> None:
    """A slow srun's credential must not bring a terminated job back to life."""
    node = core()
    started(node)
    obey(node, nm.TerminateJob(8, 1, 0), None)
    step_ended(node, 1, 0, STEP_BATCH, OK)
    assert isinstance(launch_step(node, credential(step_id=0), 4)[0], RefuseStep)
    assert obey(node, launch(), credential()) == []


def test_a_job_that_ends_or_has_ended_is_over() -> None:
    """Its credentials are still good by their time and their signature."""
    node = core()
    assert not node.is_over(credential())
    started(node)
    assert not node.is_over(credential())
    obey(node, nm.TerminateJob(9, 1, 0, 0), None)
    assert node.is_over(credential())
    step_ended(node, 1, 0, STEP_BATCH, StepEnd(0, END_CLEAN, 1, 2))
    assert node.is_over(credential())
    assert not node.is_over(credential(attempt=1))
    started(node, 2, 6)
    step_ended(node, 2, 0, STEP_BATCH, StepEnd(0, END_CLEAN, 1, 2))
    assert node.is_over(credential(2))


def test_unknown_job_is_terminated_at_once() -> None:
    node = core()
    assert obey(node, nm.TerminateJob(8, 7, 0), None) == []
    assert node.reports == [nm.JobTerminated(7, 0, 8, 0)]


def test_prolog_comes_before_the_script() -> None:
    node = core(prolog=True)
    assert [type(action) for action in obey(node, launch(), credential())] == [RunProlog]
    assert isinstance(launch_step(node, credential(step_id=0), 1), list)
    actions = prolog_ended(node, 1, 0, "")
    assert [type(action) for action in actions] == [StartBatch, StartStep]
    assert prolog_ended(node, 1, 0, "") == []


def test_a_failed_prolog_drains_and_starts_nothing() -> None:
    node = core(prolog=True)
    obey(node, launch(), credential())
    launch_step(node, credential(step_id=0), 1)
    actions = prolog_ended(node, 1, 0, "/p: exit code 1")
    assert [type(action) for action in actions] == [RefuseStep]
    (report,) = node.reports
    assert isinstance(report, nm.LaunchFailed)
    assert (report.duty_id, report.drain) == (5, "Prolog error")


def test_refusals_carry_slurms_numbers() -> None:
    """The number is what srun and accounting find a text by; 4001 would say `Kill task failed`."""
    node = core(prolog=True)
    obey(node, launch(), credential())
    launch_step(node, credential(step_id=0), 1)
    (refused,) = prolog_ended(node, 1, 0, "/p: exit code 1")
    assert isinstance(refused, RefuseStep)
    assert refused.code == Errno.ESLURMD_PROLOG_FAILED == 4022
    (report,) = node.reports
    assert isinstance(report, nm.LaunchFailed)
    assert report.code == Errno.ESLURMD_PROLOG_FAILED

    node = core()
    started(node)
    obey(node, nm.TerminateJob(8, 1, 0), None)
    (refused,) = launch_step(node, credential(step_id=0), 4)
    assert isinstance(refused, RefuseStep)
    assert refused.code == Errno.ESLURMD_CREDENTIAL_REVOKED == 4008

    node = core()
    obey(node, launch(), credential())
    step_failed(node, 1, 0, STEP_BATCH, "no such program")  # what a user asked for
    (report,) = node.reports
    assert isinstance(report, nm.LaunchFailed)
    assert report.code == Errno.ESLURMD_JOB_NOTRUNNING == 4027


def test_faults_of_the_node_and_of_the_request_differ() -> None:
    """The controller drains a node for several of the first kind, whichever users submit there."""
    node = core()
    obey(node, launch(), credential())
    step_failed(node, 1, 0, STEP_BATCH, "spool: Input/output error", is_nodes=True)
    (report,) = node.reports
    assert isinstance(report, nm.LaunchFailed)
    assert (report.code, report.drain) == (4010, "")


def test_a_full_spool_refuses_and_drains_once() -> None:
    """RELIABILITY 32: jobs would fail there one after the other."""
    node = core()
    obey(node, launch(), credential())
    step_failed(node, 1, 0, STEP_BATCH, "no room", drain="SlurmdSpoolDir is full")
    (report,) = node.reports
    assert isinstance(report, nm.LaunchFailed)
    assert (report.duty_id, report.code, report.drain) == (5, 4010, "SlurmdSpoolDir is full")
    for ticket in (1, 2):
        launch_step(node, credential(2, step_id=ticket), ticket)
        step_failed(node, 2, 0, ticket, "no room", drain="SlurmdSpoolDir is full")
    assert node.reports[1:] == [nm.NodeTrouble(0, 0, "SlurmdSpoolDir is full")]


def test_a_node_that_can_start_nothing_takes_no_job_with_it() -> None:
    """Private directories could not be made: the script runs elsewhere, the node is drained."""
    node = core()
    obey(node, launch(), credential())
    end = StepEnd(53, END_CLEAN, 1, 2, error="No space left", drain="no directories")
    step_ended(node, 1, 0, STEP_BATCH, end)
    (report,) = node.reports
    assert isinstance(report, nm.LaunchFailed)
    assert (report.duty_id, report.code, report.drain) == (5, 4010, "no directories")
    launch_step(node, credential(2, step_id=0), 1)
    step_ended(node, 2, 0, 0, end)
    trouble, ended = node.reports[1:]
    assert trouble == nm.NodeTrouble(0, 0, "no directories")
    assert isinstance(ended, nm.StepEnded) and ended.error == "No space left"


def test_epilog_runs_when_nothing_is_left() -> None:
    """With an epilog the end of the script alone does not free the node."""
    node = core(epilog=True)
    started(node)
    assert step_ended(node, 1, 0, STEP_BATCH, OK) == []
    (report,) = node.reports
    assert isinstance(report, nm.BatchEnded) and not report.flags & END_CLEAN
    order = nm.TerminateJob(8, 1, 0, exit_code=256, derived_exit_code=512)
    (action,) = obey(node, order, None)
    assert isinstance(action, RunEpilog)
    assert (action.exit_code, action.derived_exit_code) == (256, 512)
    assert epilog_ended(node, 1, 0, 256) == []
    assert node.reports[-1] == nm.JobTerminated(1, 0, 8, 256)


def test_signals_reach_their_target() -> None:
    node = core()
    started(node)
    launch_step(node, credential(step_id=3), 1)

    def reached(order: nm.SignalJob) -> list[int]:
        return [a.step_id for a in obey(node, order, None) if isinstance(a, Command)]

    assert reached(nm.SignalJob(1, 1, 0, -1, 10, SIGNAL_BATCH_ONLY)) == [STEP_BATCH]
    assert reached(nm.SignalJob(1, 1, 0, -1, 10, SIGNAL_STEPS_ONLY)) == [3]
    assert reached(nm.SignalJob(1, 1, 0, -1, 10)) == [STEP_BATCH, 3]
    assert reached(nm.SignalJob(1, 1, 0, 3, 9)) == [3]
    assert reached(nm.SignalJob(1, 1, 1, 3, 9)) == []


def with_extern(job_id: int = 1) -> nm.JobCredential:
    return msgspec.structs.replace(credential(job_id), has_extern=True)


def test_the_extern_step_begins_first_and_once() -> None:
    """After the prolog, also where a step of srun is there before the order to prepare."""
    node = core(prolog=True)
    obey(node, nm.PrepareJob(4, b"c"), with_extern())
    actions = prolog_ended(node, 1, 0, "")
    assert [type(action) for action in actions] == [StartExtern]
    later = obey(node, launch(), with_extern())
    assert [type(action) for action in later] == [StartBatch]
    early = msgspec.structs.replace(with_extern(2), step_id=0)
    prolog = launch_step(node, early, 7, b"signed")
    assert [type(action) for action in prolog] == [RunProlog]
    assert [type(action) for action in prolog_ended(node, 2, 0, "")] == [StartExtern, StartStep]
    obey(node, nm.PrepareJob(8, b"c"), credential(3))
    assert prolog_ended(node, 3, 0, "") == []


def test_only_the_end_of_its_job_ends_the_extern_step() -> None:
    """Signals to the job do not reach it; its own reach its processes; a job is suspended whole."""
    node = core()
    obey(node, launch(), with_extern())
    node.reports.clear()

    def told(order: nm.Order) -> list[tuple[int, str]]:
        actions = obey(node, order, None)
        return [(a.step_id, a.words["do"]) for a in actions if isinstance(a, Command)]

    assert told(nm.SignalJob(1, 1, 0, -1, 9)) == [(STEP_BATCH, "signal")]
    assert told(nm.SignalJob(1, 1, 0, STEP_EXTERN, 9, SIGNAL_CANCELLED)) == [
        (STEP_EXTERN, "signal")
    ]
    assert told(nm.TerminateStep(1, 1, 0, STEP_EXTERN)) == [(STEP_EXTERN, "signal")]
    assert sorted(told(nm.SuspendJob(1, 1, 0))) == [
        (STEP_BATCH, "suspend"),
        (STEP_EXTERN, "suspend"),
    ]
    step_ended(node, 1, 0, STEP_BATCH, OK)
    assert told(nm.TerminateJob(9, 1, 0)) == [(STEP_EXTERN, "terminate")]
    node.reports.clear()
    step_ended(node, 1, 0, STEP_EXTERN, OK)
    assert node.reports == [
        nm.StepEnded(1, 0, STEP_EXTERN, 0, 1, 2),
        nm.JobTerminated(1, 0, 9, 0),
    ]


def test_what_cannot_be_killed_drains_the_node() -> None:
    node = core()
    started(node)
    assert step_unkillable(node, 1, 0, STEP_BATCH) == [TellUnkillable(1, STEP_BATCH)]
    assert node.reports == [nm.NodeTrouble(0, 0, "Kill task failed")]
    # The job is not over, and what it holds is not free; and nobody is told twice.
    assert step_unkillable(node, 1, 0, STEP_BATCH) == []
    assert node.running() == [nm.RunningJob(1, 0, [STEP_BATCH])]


def test_registration_names_scripts_whose_end_is_not_acknowledged() -> None:
    node = core()
    started(node)
    assert node.running() == [nm.RunningJob(1, 0, [STEP_BATCH])]
    step_ended(node, 1, 0, STEP_BATCH, OK)
    assert node.running() == [nm.RunningJob(1, 0, [STEP_BATCH])]
    node.reports.clear()
    assert node.running() == []


def test_registration_says_how_long_jobs_have_been_here() -> None:
    """RELIABILITY 14: by the boot clock; of a job of which only a report is left, by that."""
    node, wall_us = core(), 1_700_000_000_000_000
    started(node, 1)
    node.arrived(1, 40)
    node.arrived(1, 99)  # an order that is heard again changes nothing
    started(node, 2, duty_id=6)
    ended = StepEnd(0, END_CLEAN, wall_us - 70, wall_us - 30)
    assert node.running(100, wall_us) == [
        nm.RunningJob(1, 0, [STEP_BATCH], 60),
        nm.RunningJob(2, 0, [STEP_BATCH], -1),
    ]
    step_ended(node, 2, 0, STEP_BATCH, ended)
    assert node.running(100, wall_us)[1] == nm.RunningJob(2, 0, [STEP_BATCH], 70)
    assert node.running(10, 0)[0].run_us == -1


ORDERS = st.one_of(
    st.builds(lambda job, attempt: ("launch", job, attempt), st.integers(1, 2), st.integers(0, 2)),
    st.builds(lambda job, attempt: ("end", job, attempt), st.integers(1, 2), st.integers(0, 2)),
    st.builds(lambda job, attempt: ("kill", job, attempt), st.integers(1, 2), st.integers(0, 2)),
)


@settings(deadline=None)
@given(st.lists(ORDERS, max_size=30))
def test_no_attempt_is_ever_started_twice(orders: list[tuple[str, int, int]]) -> None:
    """Orders may be repeated, reordered or late. Two attempts of a job are never here at once."""
    node = core()
    starts: list[tuple[int, int]] = []
    running: set[tuple[int, int]] = set()
    for what, job, attempt in orders:
        key = (job, attempt)
        if what == "launch":
            actions = obey(node, launch(10 * job + attempt + 1), credential(job, attempt))
        elif what == "kill":
            actions = obey(node, nm.TerminateJob(100 + job, job, attempt), None)
        else:
            actions = step_ended(node, job, attempt, STEP_BATCH, OK) if key in running else []
            running.discard(key)
        for action in actions:
            if isinstance(action, StartBatch):
                started_key = (action.credential.job_id, action.credential.attempt)
                starts.append(started_key)
                assert all(other[0] != started_key[0] for other in running)
                running.add(started_key)
    assert len(starts) == len(set(starts))
