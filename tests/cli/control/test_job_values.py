"""What `scontrol update job` says of values and words that it does not take: Slurm 22.05's words.

Slurm takes some of them in silence, or leaves a key out and changes the rest. Here nothing changes.
"""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import queue
from tests.cli.run_command import Printed, run_command

WAITS = "28"
ABORTED = "Request aborted\n"


def update(patch: pytest.MonkeyPatch, words: str, job: str = WAITS) -> Printed:
    """Change a waiting job as root."""
    return run_command(
        patch, queue(), "root", ["scontrol", "update", f"JobId={job}", *words.split()]
    )


@pytest.mark.parametrize("key", ["CPUsPerTask", "MinCPUsNode", "TasksPerNode", "ReqCores",
                                 "ReqSockets", "ReqThreads", "CoreSpec", "ThreadSpec"])  # fmt: skip
@pytest.mark.parametrize("value", ["x", "-1", "1x", "65534", "99999999999"])
def test_counts_of_16_bits(key: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"scontrol: error: Invalid {key} value: {value}\n"
    assert update(monkeypatch, f"{key}={value}") == Printed("", line, 1)


@pytest.mark.parametrize("key", ["MinTmpDiskNode", "NumTasks", "Priority", "wait-for-switch"])
@pytest.mark.parametrize("value", ["x", "-1", "1x", "4294967294"])
def test_counts_of_32_bits(key: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"scontrol: error: Invalid {key} value: {value}\n"
    assert update(monkeypatch, f"{key}={value}") == Printed("", line, 1)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("NumCPUs=x", 'scontrol: error: Invalid numeric value "x" for NumCPUs.\n'
         "scontrol: error: Invalid NumCPUs value: x\n"),
        ("NumCPUs=1-", 'scontrol: error: Invalid numeric value "1-" for NumCPUs.\n'
         "scontrol: error: Invalid NumCPUs value: 1-\n"),
        ("NumCPUs=99999999999",
         "scontrol: error: Numeric argument (99999999999) to big for NumCPUs.\n"
         "scontrol: error: Invalid NumCPUs value: 99999999999\n"),
        ("NumCPUs=2-1", "scontrol: error: Invalid NumCPUs value: 2-1\n"),
        ("NumNodes=x", 'scontrol: error: Invalid numeric value "x" for requested node count.\n'),
        ("ReqProcs=x", "scontrol: error: Invalid NumTasks value: x\n"),
        ("Priority=INFINITE", "scontrol: error: Invalid Priority value: INFINITE\n"),
        ("ArrayTaskThrottle=x", "scontrol: error: Invalid ArrayTaskThrottle value\n"),
        ("SiteFactor=", "scontrol: error: Invalid SiteFactor value: \n"),
        ("Switches=1@x", "scontrol: error: Invalid Switches value: 1@x\n"),
        ("Switches=99999999999", "scontrol: error: Invalid Switches value: 99999999999\n"),
        ("Reboot=x", "scontrol: error: Invalid reboot value: x\n"),
        ("StartTime=x", "Invalid time specification (pos=0): x\nNo changes specified\n"),
        ("Deadline=x", "Invalid time specification (pos=0): x\nNo changes specified\n"),
        ("Comment=a StartTime=x", "Invalid time specification (pos=0): x\nNo changes specified\n"),
        ("Account", f"Invalid input: Account\n{ABORTED}"),
        ("x", f"Invalid input: x\n{ABORTED}"),
        ("Node=n1", f"Update of this parameter is not supported: Node=n1\n{ABORTED}"),
        ("Cluster=x", f"Update of this parameter is not supported: Cluster=x\n{ABORTED}"),
        ("Req=1", f"Update of this parameter is not supported: Req=1\n{ABORTED}"),
        ("StepId=x", f"Update of this parameter is not supported: StepId=x\n{ABORTED}"),
        ("DelayBoot=x", "scontrol: error: Invalid DelayBoot value\n"),
        ("ResetAccrueTime=1",
         f"Update of this parameter is not supported: ResetAccrueTime=1\n{ABORTED}"),
    ],
)  # fmt: skip
def test_words_of_slurm(words: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert update(monkeypatch, words) == Printed("", lines, 1)


def test_the_rest_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm would set the comment and say nothing of it."""
    reference = queue()
    words = ["scontrol", "update", f"JobId={WAITS}", "Comment=a", "EndTime=x"]
    assert run_command(monkeypatch, reference, "root", words).code == 1
    assert reference.cluster.jobs[int(WAITS)].comment != "a"


@pytest.mark.parametrize(
    "job", ["x", "0", "-1", "99_x", "99_[1-x]", "99+x", "99x", "99999999999"]
)  # fmt: skip
@pytest.mark.parametrize("command", ["update", "hold", "requeue", "suspend", "resume", "top"])
def test_a_word_that_is_no_job(command: str, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by itself: the other words are done."""
    if command == "update":
        printed = update(monkeypatch, "Comment=x", job)
    elif job == "-1":
        return  # an option to the others
    else:
        printed = run_command(monkeypatch, queue(), "root", ["scontrol", command, job])
    second = "slurm_suspend error:Invalid job id specified\n" if command == "hold" else ""
    line = f"Invalid job id specified for job {job}\n{second}"
    assert printed == Printed("", line, 1)


def test_other_jobs_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = queue()
    printed = run_command(monkeypatch, reference, "root", ["scontrol", "hold", "x", WAITS])
    assert printed.code == 1
    assert reference.cluster.jobs[int(WAITS)].priority == 0


def test_a_name_that_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names no job, so nothing could be done."""
    words = ["scontrol", "update", "JobName=", "Comment=x"]
    line = "scontrol: error: No jobs with name ''\n"
    assert run_command(monkeypatch, queue(), "root", words) == Printed("", line, 1)


def test_a_priority_does_not_end_a_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = queue()
    run_command(monkeypatch, reference, "root", ["scontrol", "hold", WAITS])
    words = ["scontrol", "update", f"JobId={WAITS}", "Priority=5"]
    line = f"Job is in held state, pending scheduler release for job {WAITS}\n"
    assert run_command(monkeypatch, reference, "root", words) == Printed("", line, 1)


def test_a_job_that_accrues_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its age counts from now; the word has no value."""
    reference = queue()
    words = ["scontrol", "update", "JobId=24", "ResetAccrueTime"]
    assert 0 < reference.cluster.jobs[24].accrue_us < reference.now_us
    assert run_command(monkeypatch, reference, "root", words) == Printed("", "", 0)
    assert reference.cluster.jobs[24].accrue_us == reference.now_us


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("update StepId=x TimeLimit=1", f"Invalid StepID parameter: StepId=x\n{ABORTED}"),
        ("update StepId=9.0 x", f"Invalid input: x\n{ABORTED}"),
        ("u", "too few arguments for u keyword\n"),
        ("holdu", "too few arguments for keyword:holdu\n"),
        ("notify x y", "Invalid job_id x\n"),
        ("show daemons x", "too many arguments for keyword:show\n"),
        ("show job 1 2", "too many arguments for keyword:show\n"),
        ("write batch_script 1 2 3", "too many arguments for keyword:write\n"),
        ("delete partition x", "delete_partition partition: Invalid partition name specified\n"),
        ("hol 1", "invalid keyword: hol\n"),
        ("sh job", "invalid keyword: sh\n"),
        ("shutdow", "invalid keyword: shutdow\n"),
        ("show assoc_mgr users", "No value given for option users\n"),
    ],
)
def test_other_commands(words: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", *words.split()])
    assert printed == Printed("", line, 1)


def test_the_systems_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", "errnumstr", "1"])
    assert printed == Printed("Operation not permitted\n", "", 0)


@pytest.mark.parametrize("word", ["Reboot=no", "TasksPerNode=1", "Deadline=2099-01-01"])
def test_keys_of_operators(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Slurm 22.05; of Contiguous and OverSubscribe only YES is for operators."""
    words = ["scontrol", "update", "JobId=29", word]
    line = "Access/permission denied for job 29\n"
    assert run_command(monkeypatch, queue(), "alice", words) == Printed("", line, 1)
    assert run_command(monkeypatch, queue(), "root", words) == Printed("", "", 0)


@pytest.mark.parametrize("word", ["MinMemoryNode=1", "MinMemoryCPU=1", "CoreSpec=1",
                                  "CpusPerTres=x", "TasksPerNode=1"])  # fmt: skip
def test_a_job_that_runs(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "Job is no longer pending execution for job 21\n"
    assert update(monkeypatch, word, "21") == Printed("", line, 1)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("update JobId=27 NumTasks=0", "27_0-9: Task count specification invalid\n"),
        ("update JobId=27_5 NumTasks=0", "27_5: Task count specification invalid\n"),
        ("update JobId=27_99 Comment=x", "27_99: Invalid job id specified\n"),
        ("update JobId=99_[1-2] Comment=x", "99_1-2: Invalid job id specified\n"),
        ("hold 27_99", "27_99: Invalid job id specified\n"),
        ("requeue 27_99", "27_99: Invalid job id specified\n"),
        ("cancel_reboot", "missing argument for keyword:cancel_reboot\n"),
        ("cancel_reboot n1 n2", "too many arguments for keyword:cancel_reboot\n"),
        ("cancel_reboot n99", "slurm_update error: Invalid node name specified\n"),
        ("cancel_reboot n1", "slurm_update error: Invalid node state specified\n"),
    ],
)
def test_tasks_and_reboots(words: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors about arrays begin with the tasks."""
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", *words.split()])
    assert printed == Printed("", line, 1)
