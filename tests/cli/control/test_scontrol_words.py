"""What scontrol says of words that it cannot use, compared with Slurm 22.05."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyslurm_ng.cli.control import user_change
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed, run_command


def run(patch: pytest.MonkeyPatch, reference: ReferenceCluster, line: str) -> Printed:
    """Run a command line of scontrol as root."""
    return run_command(patch, reference, "root", ["scontrol", *line.split()])


@pytest.mark.parametrize(
    "line",
    [
        "completing x", "ping x", "exit foo", "quit foo", "details x", "oneliner x", "quiet x",
        "verbose x", "pidinfo 1 2", "wait_job 1 2",
    ],
)  # fmt: skip
def test_words_too_many(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done; a word that was meant for another command does not go unnoticed."""
    text = f"too many arguments for keyword:{line.split()[0]}\n"
    assert run(monkeypatch, queue(), line) == Printed("", text, 1)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("pidinfo", "missing argument for keyword:pidinfo\n"),
        ("setdebug foo", "invalid debug level: foo\n"),
        ("setdebug 12", "invalid debug level: 12\n"),
        ("setdebug 3 n1 n2", "too many arguments for keyword:setdebug\n"),
        ("setdebug -1", "invalid debug level: -1\n"),
        ("setdebugflags", "too few arguments for keyword:setdebugflags\n"),
        ("setdebugflags x", "invalid debug flag: x\nUsage: setdebugflags [+|-]NAME\n"),
        ("setdebugflags +x",
         "scontrol: error: Invalid DebugFlag: x\ninvalid debug flag: +x\n"),
        ("setdebugflags -x",
         "scontrol: error: Invalid DebugFlag: x\ninvalid debug flag: -x\n"),
        ("schedloglevel", "too few arguments for keyword:schedloglevel\n"),
        ("schedloglevel 2", "invalid schedlog level: 2\n"),
        ("schedloglevel 1 2", "too many arguments for keyword:schedloglevel\n"),
        ("wait_job 99", "scontrol: Problem running job 99\n"),
        ("wait_job abc", "Invalid job_id abc\n"),
        ("listpids x", '"x" does not look like a jobid\n'),
        ("update JobName=nosuch TimeLimit=1", "scontrol: error: No jobs with name 'nosuch'\n"),
        ("update JobName=nosuch UserId=root TimeLimit=1",
         "scontrol: error: No jobs with user ID 0 and name 'nosuch'\n"),
        ("update JobName=wide UserId=alice TimeLimit=1",
         "scontrol: error: No jobs with user ID 1001 and name 'wide'\n"),
        ("update JobName=wide UserId=nouser TimeLimit=1",
         "Invalid UserID: nouser\nRequest aborted\n"),
    ],
)  # fmt: skip
def test_what_is_not_there_has_slurms_words(
    line: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, queue(), line) == Printed("", text, 1)


@pytest.mark.parametrize(("step", "shown"), [("29", "29."), ("21.7", "21.7"), ("27_3", "27_3.")])
def test_a_step_that_is_not_there(step: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job and the step, which is empty where none is named."""
    printed = run(monkeypatch, queue(), f"show step {step}")
    assert printed == Printed(f"Job step {shown} not found\n", "", 1)


@pytest.mark.parametrize("step", ["99", "99.0", "99_3"])
def test_a_step_of_no_job(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is what is missing, as Slurm 22.05 says."""
    printed = run(monkeypatch, queue(), f"show step {step}")
    text = "slurm_get_job_steps error: Invalid job id specified\n"
    assert printed == Printed("", text, 1)


def test_a_version_with_an_extra_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is printed nevertheless."""
    printed = run(monkeypatch, queue(), "version x")
    assert printed.stdout.startswith("slurm ")
    assert (printed.stderr, printed.code) == ("too many arguments for version keyword\n", 1)


def test_the_throttle_of_an_array_may_be_a_separate_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """`update JobId 27 ArrayTaskThrottle 3`."""
    reference = queue()
    assert run(monkeypatch, reference, "update JobId 27 ArrayTaskThrottle 3").code == 0
    assert reference.cluster.jobs[27].array_limit == 3
    assert run(monkeypatch, reference, "update JobId=27 arraytaskthrottle 5").code == 0
    assert reference.cluster.jobs[27].array_limit == 5


def test_the_nodes_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """show aliases: the NodeNames of a NodeHostname; of a host without nodes nothing."""
    reference = queue()
    shown = run(monkeypatch, reference, "show node n3").stdout
    name = shown.partition("NodeHostName=")[2].split()[0]
    assert "n3" in run(monkeypatch, reference, f"show aliases {name}").stdout.split()
    assert run(monkeypatch, reference, "show aliases nosuch") == Printed("", "", 0)
    assert run(monkeypatch, reference, "show aliases n1,n2") == Printed("", "", 0)


def test_ping_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded: reference/cli/more/ping-json. Nothing answers here; a live controller does."""
    printed = run(monkeypatch, queue(), "--json ping")
    answer = json.loads(printed.stdout)
    (ping,) = answer["pings"]
    assert list(ping) == ["hostname", "responding", "latency", "primary", "status"]
    assert isinstance(ping.pop("latency"), int)
    status = "Communication connection failure"
    assert ping == {"hostname": "ctl", "responding": False, "primary": True, "status": status}
    assert printed.code == 1
    assert list(answer)[1:] == ["meta", "errors", "warnings"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "create nodename=d5 CPUs=2",
            "scontrol: error: Only State=FUTURE and State=CLOUD allowed for nodes created by "
            "scontrol\nError creating node(s): Invalid node state specified\n",
        ),
        (
            "create node x1 State=CLOUD",
            "scontrol: error: nodeline: node: expected Key=Value\n"
            "scontrol: error: Failed to parse nodeline 'node x1 State=CLOUD'\n"
            "Error creating node(s): Unspecified error\n",
        ),
        (
            "delete nodename=nope",
            "scontrol: error: failed to delete nodes nope\n"
            "delete_node nodename=nope: Invalid node name specified\n",
        ),
        ("delete NodeName=", "delete_node NodeName=: Invalid node name specified\n"),
    ],
)
def test_nodes_that_cannot_be_made_or_deleted(
    line: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line of each is Slurm's."""
    assert run(monkeypatch, queue(), line) == Printed("", text, 1)


def test_a_node_that_is_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said, as in Slurm 22.05, so that a script may run twice."""
    assert run(monkeypatch, queue(), "create nodename=n1 state=CLOUD") == Printed("", "", 0)


def test_each_missing_node_of_a_list_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are there are shown, in the order of the list, as by Slurm 22.05."""
    printed = run(monkeypatch, queue(), "-o show node nope,n1,none")
    lines = printed.stdout.splitlines()
    assert [line.partition(" Arch")[0] for line in lines] == [
        "Node nope not found", "NodeName=n1", "Node none not found",
    ]  # fmt: skip
    assert printed.code == 1


def test_a_list_of_partitions_is_the_name_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run(monkeypatch, queue(), "show partition main,nosuch")
    assert printed == Printed("Partition main,nosuch not found\n", "", 1)


def test_a_partition_shows_its_alternate_and_that_it_has_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The line is as before where there is no alternate."""
    reference = queue()
    assert " Alternate=" not in run(monkeypatch, reference, "show partition gpu").stdout
    assert run(monkeypatch, reference, "create partition=new alternate=main").code == 0
    shown = run(monkeypatch, reference, "show partition new").stdout
    assert "AllocNodes=ALL Alternate=main Default=NO " in shown
    assert "\n   TRES=(null)\n" in shown


def test_old_words_of_scontrol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts of years ago write them, and Slurm 22.05 takes them."""
    reference = queue()
    state = run(monkeypatch, reference, "show assoc_mgr")
    assert state.stdout and run(monkeypatch, reference, "show cache") == state
    wrong = run(monkeypatch, reference, "update SlurmctldDebug=loud")
    assert wrong == Printed("", "invalid debug level: loud\n", 1)


def test_only_root_changes_jobs_as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manual of --uid: as that user; the controller sees no other name."""
    reference, called = queue(), []

    def become(uid: int, act: Callable[[], int]) -> int:
        called.append(uid)
        return act()

    monkeypatch.setattr(user_change, "as_user", become)
    monkeypatch.setattr(user_change, "may_be", lambda uid: uid == 1002)
    line = "--uid=1002 update jobid=29 comment=new"
    assert run(monkeypatch, reference, line) == Printed("", "", 0)
    assert called == [1002] and reference.cluster.jobs[29].request.comment == "new"
    denied = run(monkeypatch, reference, "-u 1003 update jobid=29 comment=other")
    assert denied == Printed("", "Invalid user id for job 29\n", 1)
    unknown = run(monkeypatch, reference, "-u nobody-here show partition")
    assert unknown == Printed("", 'scontrol: error: --uid="nobody-here" invalid\n', 1)
    assert reference.cluster.jobs[29].request.comment == "new"
