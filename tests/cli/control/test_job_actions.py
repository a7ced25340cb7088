"""scontrol and scancel change what Slurm's changed, and say what it said."""

from __future__ import annotations

import dataclasses
import os
import signal
from typing import Any

import pytest

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.cli import request_parts
from pyslurm_ng.cli.control.update import by_key
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag, NodeState, Reason
from tests.cli.reference_cluster import ReferenceCluster, cases, queue
from tests.cli.run_command import Printed, run_command

STEERED = {
    "bad_node_state", "drain", "drain_no_reason", "hold", "not_admin", "partition_update_down",
    "partition_update_up", "release", "release_admin_held", "requeue_pending", "suspend", "top",
    "undrain", "update_bad_key", "update_name", "update_node_down", "update_node_resume",
    "update_not_mine", "update_running_nodes", "update_timelimit_down", "update_timelimit_up",
}  # fmt: skip
CASES = [case for case in cases("scontrol") if case[0] in STEERED]


def run(patch: pytest.MonkeyPatch, reference: ReferenceCluster, user: str, line: str) -> Printed:
    """Run a command line."""
    return run_command(patch, reference, user, line.split())


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_answers_as_recorded(
    case: tuple[str, str, list[str], str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same lines, same messages, same exit code."""
    name, user, words, stdout, stderr, code = case
    reference = queue()
    if name in ("undrain", "update_node_resume"):  # drained by the recording before it
        run(monkeypatch, reference, "root", f"scontrol update {words[2]} State=DRAIN Reason=x")
    printed = run_command(monkeypatch, reference, user, words)
    assert (printed.stdout, printed.stderr, printed.code) == (stdout, stderr, code)


def test_cancel_ends_pending_jobs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be cleaned up for a job that never ran."""
    reference = queue()
    printed = run(monkeypatch, reference, "alice", "scancel -v 29")
    assert printed == Printed("", "scancel: Terminating job 29\n", 0)
    job = reference.cluster.jobs[29]
    assert (job.state, job.cancelled_by) == (JobState.CANCELLED, 1001)


def test_verbose_names_jobs_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Slurm 22.05, which says what it does before it asks."""
    printed = run(monkeypatch, queue(), "alice", "scancel -v 999999")
    assert printed.stderr.splitlines() == [
        "scancel: Terminating job 999999",
        "scancel: error: Kill job error on job id 999999: Invalid job id specified",
    ]


def test_a_long_list_is_cancelled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """slurmctld serves other requests between the parts. The user sees one command."""
    reference = queue()
    monkeypatch.setattr(request_parts, "MOST_IDS", 2)
    printed = run(monkeypatch, reference, "alice", "scancel -v 29 999999 27_2 27_3 21")
    assert printed.stderr.splitlines().count("scancel: Terminating job 29") == 1
    assert "999999: Invalid job id specified" in printed.stderr
    assert reference.cluster.jobs[29].state == JobState.CANCELLED
    assert reference.cluster.jobs[21].state == JobState.CANCELLED


def test_cancel_terminates_running_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running job is completing until its nodes are clean."""
    reference = queue()
    assert run(monkeypatch, reference, "bob", "scancel 23").code == 0
    job = reference.cluster.jobs[23]
    assert job.state == JobState.CANCELLED and job.flags & JobFlag.COMPLETING
    assert len(job.nodes_pending) == 2


def test_cancel_of_array_tasks_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """`27_[2-5]` become a cancelled record of their own."""
    reference = queue()
    assert run(monkeypatch, reference, "alice", "scancel 27_[2-5] 27_9").code == 0
    assert reference.cluster.jobs[27].array_pending == ((0, 1, 1), (6, 8, 1))
    ended = [job for job in reference.cluster.jobs.values() if job.state == JobState.CANCELLED]
    assert [job.array_pending or job.array_task_id for job in ended] == [((2, 5, 1),), 9]


def test_cancel_by_filter_reaches_only_own_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others' jobs that pass it stay, and are named; the exit code says so, as in 22.05."""
    reference = queue()
    printed = run(monkeypatch, reference, "bob", "scancel --state=PENDING")
    denied = "scancel: error: Kill job error on job id 24: Access/permission denied"
    assert printed.code == 210 and denied in printed.stderr.splitlines()
    ended = [job.job_id for job in reference.cluster.jobs.values() if job.state > 2]
    assert ended == [25]


def test_a_filter_tells_nothing_of_private_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With PrivateData=jobs a user does not learn which jobs of others there are."""
    reference = queue()
    reference.conf = dataclasses.replace(reference.conf, private_data=("jobs",))
    printed = run(monkeypatch, reference, "bob", "scancel --state=PENDING")
    assert printed == Printed("", "", 0)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("scancel -v -f -s CONT 23", "Signal 18 to full job 23"),
        ("scancel -v -b -s CONT 23", "Signal 18 to batch job 23"),
        ("scancel -v -b -f -s CONT 23", "Signal 18 to full job 23"),
        ("scancel -v -s CONT 23.0", "Signal 18 to step 23.0"),
        ("scancel -v -s CONT 23.7", "Signal 18 to step 23.7"),
        ("scancel -v -f 23", "Terminating full job 23"),
        ("scancel -v -b 25", "Terminating batch job 25"),
    ],
)
def test_verbose_says_what_of_a_job_is_meant(
    line: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of Slurm 22.05."""
    printed = run(monkeypatch, queue(), "bob", line)
    assert printed == Printed("", f"scancel: {text}\n", 0)


def test_batch_ends_a_job_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its script has no process yet, so --batch has nothing to spare."""
    reference = queue()
    assert run(monkeypatch, reference, "bob", "scancel -b 25").code == 0
    assert reference.cluster.jobs[25].state == JobState.CANCELLED


def test_one_question_for_a_heterogeneous_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its components end together, so one answer is about all."""
    reference = queue()
    words = ["scancel", "-i", "30"]
    printed = run_command(monkeypatch, reference, "carol", words, stdin="y\nn\n")
    assert printed.stdout == "Cancel job_id=30 name=het partition=main [y/n]? "
    states = [reference.cluster.jobs[job_id].state for job_id in (30, 31)]
    assert states == [JobState.CANCELLED, JobState.CANCELLED]


def test_cancel_of_others_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is Slurm's error number modulo 256."""
    printed = run(monkeypatch, queue(), "bob", "scancel 21")
    text = "scancel: error: Kill job error on job id 21: Access/permission denied\n"
    assert printed == Printed("", text, 210)


def test_signal_reaches_the_script_or_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without flags only steps get it; -b means the batch script on its node."""
    reference = queue()
    run(monkeypatch, reference, "bob", "scancel -s USR1 23")
    run(monkeypatch, reference, "bob", "scancel -b -s USR1 23")
    signals = [
        (duty.node_id, duty.signal, duty.flags)
        for duties in reference.cluster.duties.values()
        for duty in duties.values()
        if duty.signal
    ]
    assert sorted(signals) == [(2, 10, 1), (2, 10, 4), (3, 10, 4)]


@pytest.mark.parametrize(
    ("line", "text", "code"),
    [
        ("scancel", "scancel: error: No job identification provided\n", 1),
        ("scancel abc", "scancel: error: Invalid job id abc\n", 1),
        ("scancel 0", "scancel: error: Invalid job id 0\n", 1),
        ("scancel 999999", "", 0),
        ("scancel -Q 999999", "", 0),
        ("scancel -v -n nosuch -u alice",
         "scancel: error: No active jobs match ALL job filters, including: "
         "job_name=nosuch user_name=alice \n", 0),
            ("scancel -v -t pd -n nosuch --me",
             "scancel: error: No active jobs match ALL job filters, including: "
             "job_name=nosuch state=PENDING user_name=1001 \n", 0),
            ("scancel -v -n nosuch 22",
             "scancel: error: No active jobs match ALL job filters, including: "
             "job_name=nosuch \n", 0),
            ("scancel -u 4123456789", "scancel: error: Invalid user name: 4123456789\n", 1),
            ("scancel -t=", "Invalid job state specified: =\n"
             "Valid job states are PENDING, RUNNING, and SUSPENDED\n", 1),
        ("scancel --frob 1", "scancel: unrecognized option '--frob'\n"
         'Try "scancel --help" for more information\n', 1),
    ],
)  # fmt: skip
def test_scancel_says(line: str, text: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad and empty requests get Slurm's line."""
    assert run(monkeypatch, queue(), "alice", line) == Printed("", text, code)


@pytest.mark.parametrize(
    ("line", "about", "code"),
    [
        ("scancel -s USR1 999999", "job id 999999", 1),
        ("scancel -s KILL 999999", "job id 999999", 1),
        ("scancel -b 999999", "job id 999999", 1),
        ("scancel -f -s USR1 999999", "job id 999999", 1),
        ("scancel -f 999999", "", 0),
        ("scancel -s USR1 27_99", "job id 27_99", 1),
        ("scancel 27_99", "", 0),
        ("scancel 999999.0", "job step id 999999.0", 1),
        ("scancel 23.7", "job step id 23.7", 1),
        ("scancel -s USR1 23.7", "", 0),
        ("scancel -i 999999", "job id 999999", 1),
        ("scancel -i 999999 999998", "job id 999999", 1),
        ("scancel -Q -s USR1 999999", "", 1),
    ],
)
def test_scancel_of_absent_jobs(
    line: str, about: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It succeeds for an unknown job, which is what its user wants.

    A signal, or the end of a step, fails: scripts that send a signal before the time limit look at
    the exit code. Compared with Slurm 22.05.
    """
    printed = run(monkeypatch, queue(), "bob", line)
    assert printed.code == code
    text = f"scancel: error: Kill job error on {about}: Invalid job id specified"
    assert printed.stderr.splitlines()[:1] == ([text] if about else [])


def test_hold_and_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's hold can be released by the user, an operator's cannot."""
    reference = queue()
    job = reference.cluster.jobs[29]
    run(monkeypatch, reference, "alice", "scontrol hold 29")
    assert (job.priority, job.reason) == (0, Reason.JobHeldUser)
    run(monkeypatch, reference, "alice", "scontrol release 29")
    assert job.priority != 0 and job.reason == Reason.BeginTime
    run(monkeypatch, reference, "root", "scontrol hold 29")
    assert job.reason == Reason.JobHeldAdmin
    assert run(monkeypatch, reference, "alice", "scontrol release 29").code == 1
    assert run(monkeypatch, reference, "root", "scontrol release jobname=later").code == 0
    assert job.reason == Reason.BeginTime


def test_a_command_in_a_requeued_job_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The requeue sends SIGTERM to the job's processes. A scontrol among them ends with 0."""
    reference = queue()
    client = reference.client("alice")
    monkeypatch.setattr(reference, "client", lambda user: client)
    send = client.call

    def call(*words: Any, **more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return send(*words, **more)

    monkeypatch.setattr(client, "call", call)
    monkeypatch.setenv("SLURM_JOB_ID", "21")
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run(monkeypatch, reference, "alice", "scontrol requeue 21").code == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def test_requeue_of_a_running_job_starts_a_new_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is pending again once its nodes are clean, so first it is completing."""
    reference = queue()
    assert run(monkeypatch, reference, "alice", "scontrol requeuehold 21").code == 0
    job = reference.cluster.jobs[21]
    assert job.flags & JobFlag.REQUEUED and job.flags & JobFlag.REQUEUE_HOLD
    assert job.flags & JobFlag.COMPLETING


def test_suspend_frees_cores_and_resume_wants_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended job's memory stays its own."""
    reference = queue()
    use = reference.cluster.node_index.use[reference.cluster.node_index.by_name["n4"]]
    assert run(monkeypatch, reference, "root", "scontrol suspend 23").code == 0
    assert (use.cpus, use.mem_mib) == (0, 4000)
    assert run(monkeypatch, reference, "alice", "scontrol resume 23").code == 1
    assert run(monkeypatch, reference, "root", "scontrol resume 23").code == 0
    assert use.cpus == 4


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("TimeLimit=10", "time_limit_min", 10),
        ("TimeLimit=-5", "time_limit_min", 55),
        ("TimeLimit=1-12", "time_limit_min", 60),
        ("Partition=debug", "partition", "debug"),
        ("Comment=x", "comment", "x"),
        ("Nice=7", "nice", 7),
        ("StartTime=2026-11-20T12:00:00", "begin_us", 1795176000_000_000),
        ("Requeue=0", "requeue", False),
    ],
)
def test_update_of_a_waiting_job(
    setting: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owners change their waiting jobs; beyond the partition's limit they may not."""
    reference = queue()
    printed = run(monkeypatch, reference, "alice", f"scontrol update jobid=29 {setting}")
    assert getattr(reference.cluster.jobs[29], name) == value
    if setting == "TimeLimit=1-12":
        assert printed.stderr == "Access/permission denied for job 29\n"
    else:
        assert printed == Printed("", "", 0)


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("NumNodes=2-3", ("nodes_min", "nodes_max"), (2, 3)),
        ("NumTasks=4", ("ntasks",), (4,)),
        ("MinMemoryNode=2G", ("mem_per_node_mib", "mem_per_cpu_mib"), (2048, 0)),
        ("Features=ib", ("constraint",), ("ib",)),
        ("ReqNodeList=n1,n2", ("node_list",), ("n[1-2]",)),
        ("TresPerNode=gres/gpu:1", ("gres",), ("gpu:1",)),
        ("MailType=END,FAIL", ("mail_type",), (6,)),
    ],
)
def test_update_of_what_was_asked_for(
    setting: str, field: tuple[str, ...], value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is replaced by one with the new values."""
    reference = queue()
    assert run(monkeypatch, reference, "alice", f"scontrol update JobId=29 {setting}").code == 0
    request = reference.cluster.jobs[29].request
    assert tuple(getattr(request, name) for name in field) == value


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("Features=nosuch", "Invalid feature specification"),
        ("ReqNodeList=n9", "Invalid node name specified"),
        ("Partition=nosuch", "Invalid partition name specified"),
        ("TresPerNode=gres/gpu:9", "Requested node configuration is not available"),
        ("Licenses=matlab", "Invalid license specification"),
        ("Partition=debug,gpu", ""),
    ],
)
def test_update_is_checked_as_submission_is(
    setting: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that could not be submitted cannot be made by an update."""
    printed = run(monkeypatch, queue(), "alice", f"scontrol update JobId=29 {setting}")
    assert printed.stderr == (f"{text} for job 29\n" if text else "")
    assert printed.code == bool(text)


@pytest.mark.parametrize(
    "setting",
    [
        "Priority=-5",
        "Priority=99999999999",
        "Nice=x",
        "SiteFactor=x",
        "Requeue=maybe",
        "Contiguous=2",
        "Switches=x",
    ],
)
def test_a_bad_value_is_named(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line has the key and the value, and nothing is sent."""
    printed = run(monkeypatch, queue(), "root", f"scontrol update JobId=29 {setting}")
    key, _, value = setting.partition("=")
    assert printed.stderr == f"scontrol: error: Invalid {key} value: {value}\n"
    assert printed.code == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("MailType=BLA", "Invalid MailType: BLA"),
        ("timelimit=x", "scontrol: error: Invalid TimeLimit value"),
        ("TimeMin=x", "scontrol: error: Invalid TimeMin value"),
        ("cpuspertask=x", "scontrol: error: Invalid CPUsPerTask value: x"),
        ("NumCPUs=0", "scontrol: error: Invalid NumCPUs value: 0"),
        ("minmemorynode=lots", "scontrol: error: Invalid MinMemoryNode value: lots"),
        ("shared=maybe", "scontrol: error: Invalid OverSubscribe value: maybe"),
        ("nice=99999999999",
         "scontrol: error: Nice value out of range (+/- 2147483645). Value ignored"),
    ],
)  # fmt: skip
def test_each_key_has_its_own_error_text(
    setting: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm's scontrol 22.05 prints it, however the key was typed."""
    printed = run(monkeypatch, queue(), "root", f"scontrol update JobId=29 {setting}")
    assert (printed.stderr, printed.code) == (words + "\n", 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("StepId=29.0", "No changes specified"),
        ("StepId=29.0 TimeLimit=x", "scontrol: error: Invalid TimeLimit value"),
        ("StepId=29.0 TimeLimit=", "scontrol: error: Invalid TimeLimit value"),
        ("StepId=29.0 name=x",
         "Update of this parameter is not supported: name=x\nRequest aborted"),
        ("StepId=29.7 TimeLimit=5", "slurm_update error: Invalid job id specified"),
    ],
)  # fmt: skip
def test_what_an_update_of_a_step_may_not_say(
    words: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm's scontrol 22.05 prints it."""
    printed = run(monkeypatch, queue(), "root", f"scontrol update {words}")
    assert (printed.stderr, printed.code) == (text + "\n", 1)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("NumTasks=0", "Task count specification invalid"),
        ("Deadline=2001-01-01", "Invalid time specified"),
    ],
)
def test_no_tasks_and_a_deadline_that_is_over(
    setting: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = run(monkeypatch, queue(), "alice", f"scontrol update JobId=29 {setting}")
    assert (printed.stderr, printed.code) == (f"{text} for job 29\n", 1)


def test_blank_values_mean_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches= and TimeMin=0 ask for nothing."""
    reference = queue()
    assert run(monkeypatch, reference, "alice", "scontrol update JobId=29 Switches=1").code == 0
    words = "scontrol update JobId=29 Switches= TimeMin=0"
    assert run(monkeypatch, reference, "alice", words) == Printed("", "", 0)
    request = reference.cluster.jobs[29].request
    assert (request.switches, request.time_min_min) == (0, NO_VAL)


@pytest.mark.parametrize("way", ["SpreadSegments", "ConsolidateSegments"])
def test_how_segments_lie_is_updated_and_shown(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside their size; a job without segments shows neither."""
    reference = queue()
    for value, shown in (("yes", f"SegmentSize=1 {way}=Yes"), ("no", "SegmentSize=1")):
        words = f"scontrol update JobId=29 SegmentSize=1 {way}={value}"
        assert run(monkeypatch, reference, "alice", words) == Printed("", "", 0)
        printed = run(monkeypatch, reference, "alice", "scontrol show job 29")
        assert f"   {shown}\n" in printed.stdout


def test_a_text_that_is_too_long_is_reported_with_its_key() -> None:
    """The controller's message alone does not say which setting it was."""
    bound = "at most 9 characters are allowed"
    settings = {"nice": "7", "comment": "x" * 10}
    assert by_key(f"settings: {bound}", {"settings": settings}) == f"comment: {bound}"
    for text in ("settings: at most 256 items are allowed", "Invalid job id specified"):
        assert by_key(text, {"settings": settings}) == text
    assert by_key(f"settings: {bound}", {}) == f"settings: {bound}"


def test_update_cannot_enter_a_closed_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """AllowGroups holds for jobs that come later, too."""
    reference = queue()
    run(monkeypatch, reference, "root", "scontrol update PartitionName=gpu AllowGroups=carol")
    printed = run(monkeypatch, reference, "alice", "scontrol update JobId=29 Partition=gpu")
    assert printed.code == 1 and reference.cluster.jobs[29].partition == "main"
    assert run(monkeypatch, reference, "root", "scontrol update JobId=29 Partition=gpu").code == 0


def test_update_is_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad key's neighbour is not changed."""
    reference = queue()
    printed = run(monkeypatch, reference, "alice", "scontrol update JobId=29 Comment=x QOS=no")
    assert printed.stderr == "Invalid qos specification for job 29\n"
    assert reference.cluster.jobs[29].comment == ""


def test_update_of_one_array_task_splits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others keep their settings."""
    reference = queue()
    assert run(monkeypatch, reference, "alice", "scontrol update JobId=27_3 TimeLimit=2").code == 0
    cluster = reference.cluster
    task = cluster.jobs[cluster.job_index.arrays[27][3]]
    assert (task.time_limit_min, cluster.jobs[27].time_limit_min) == (2, 5)


@pytest.mark.parametrize("verb", ["hold 27_{}", "update JobId=27_{} Comment=x", "release 27_{}"])
def test_tasks_that_are_not_there_are_named(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done to the others is done; a script learns that some were missing."""
    reference = queue()
    for tasks, missing in (("[3-12]", "10-12"), ("[2,4-20:4]", "12-20:4"), ("[3-5]", "")):
        printed = run(monkeypatch, reference, "root", f"scontrol {verb.format(tasks)}")
        said = f"27_{missing}: Invalid job id specified\n" if missing else ""
        assert (printed.stderr, printed.code) == (said, 1 if missing else 0)


def test_node_down_ends_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that may be requeued wait again. The reason has the user and the time."""
    reference = queue()
    line = "scontrol update NodeName=n4 State=DOWN Reason=fan"
    assert run(monkeypatch, reference, "root", line).code == 0
    node = reference.cluster.node(3)
    assert (node.state, node.reason, node.reason_uid) == (NodeState.DOWN, "fan", 0)
    assert reference.cluster.jobs[23].flags & JobFlag.REQUEUED
    assert run(monkeypatch, reference, "root", "scontrol update node=n4 state=resume").code == 0
    assert (node.state, node.reason) == (NodeState.IDLE, "")


def test_drain_and_undrain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draining node keeps its job."""
    reference = queue()
    node = reference.cluster.node(3)
    run(monkeypatch, reference, "root", "scontrol update node=n[2,4] state=drain reason=fan")
    assert node.flags & NodeFlag.DRAIN and node.reason == "fan" and node.reason_us
    assert reference.cluster.jobs[23].state == JobState.RUNNING
    run(monkeypatch, reference, "root", "scontrol update node=ALL state=undrain")
    assert not node.flags & NodeFlag.DRAIN and not node.reason


def test_partition_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create, change, refuse to delete while in use, delete."""
    reference = queue()
    partitions = reference.cluster.partitions
    create = "scontrol create PartitionName=new Nodes=n[1-2] MaxTime=2:00:00 AllowAccounts=chem"
    assert run(monkeypatch, reference, "root", create).code == 0
    new = partitions["new"]
    assert (new.node_ids, new.max_time_min, new.allow_accounts) == ((0, 1), 120, ("chem",))
    again = run(monkeypatch, reference, "root", create)
    assert again.stderr == "Error creating the partition: Invalid partition name specified\n"
    run(monkeypatch, reference, "root", "scontrol update PartitionName=new Nodes+=n4 State=DOWN")
    assert (partitions["new"].node_ids, partitions["new"].state) == ((0, 1, 3), "DOWN")
    bad = run(monkeypatch, reference, "root", "scontrol update PartitionName=new OverSubscribe=X")
    assert bad.code == 1 and "Traceback" not in bad.stderr
    used = run(monkeypatch, reference, "root", "scontrol delete PartitionName=main")
    assert used.stderr == "delete_partition PartitionName=main: Partition is in use\n"
    assert run(monkeypatch, reference, "root", "scontrol delete PartitionName=new").code == 0
    assert "new" not in partitions
    denied = run(monkeypatch, reference, "alice", "scontrol delete PartitionName=main")
    assert denied.code == 1


@pytest.mark.parametrize(
    ("variable", "value", "text", "code"),
    [
        ("SCANCEL_INTERACTIVE", "x",
         "scancel: error: Unrecognized SCANCEL_INTERACTIVE value: x\n", 0),
        ("SCANCEL_INTERACTIVE", "0",
         "scancel: error: Unrecognized SCANCEL_INTERACTIVE value: 0\n", 0),
        ("SCANCEL_BATCH", "false", "", 0),
        ("SCANCEL_BATCH", "T",
         "scancel: error: Kill job error on job id 999999: Invalid job id specified\n", 1),
        ("SCANCEL_VERBOSE", "1", "scancel: error: Unrecognized SCANCEL_VERBOSE value: 1\n", 0),
        ("SCANCEL_STATE", "", "Unrecognized SCANCEL_STATE value: \n"
         "Valid job states are PENDING, RUNNING, and SUSPENDED\n", 1),
    ],
)  # fmt: skip
def test_switches_of_scancels_variables(
    variable: str, value: str, text: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """t and true switch on, f and false off; anything else is named and does nothing."""
    monkeypatch.setenv(variable, value)
    assert run(monkeypatch, queue(), "alice", "scancel 999999") == Printed("", text, code)


def test_scancel_of_an_empty_id_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script whose variable is empty is told what is wrong."""
    printed = run_command(monkeypatch, queue(), "alice", ["scancel", ""])
    assert (printed.stderr, printed.code) == ("scancel: error: Invalid job id \n", 1)


def test_how_long_a_job_ran_before_it_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is also shown when the job runs again; SuspendTime is then when that began."""
    reference = queue()
    cluster = reference.cluster
    job = cluster.jobs[21]
    stop_us, second_us = cluster.time_us, 1_000_000
    ran_s = (stop_us - job.start_us) // second_us
    reference.apply([ev.JobSuspended(stop_us, 21, cluster.next_duty_id)])
    again_us = stop_us + 90 * second_us
    reference.apply([ev.JobResumed(again_us, 21, cluster.next_duty_id, moves_suspend_us=True)])
    shown = run(monkeypatch, reference, "root", "scontrol show job 21").stdout
    assert ran_s > 0 and job.suspend_us == again_us
    assert f"SecsPreSuspend={ran_s} " in shown
