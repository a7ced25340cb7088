"""sinfo prints what Slurm printed on the reference cluster."""

from __future__ import annotations

import re
import shlex

import msgspec
import pytest

from pyslurm_ng.base.numbers import (
    NODE_FLAG_DRAIN,
    NODE_FLAG_MAINTENANCE,
    NODE_FLAG_RESERVED,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import NodeState
from tests.cli.reference_cluster import ReferenceCluster, at, cases, queue
from tests.cli.run_command import run_command

# Structured output is in test_json; `all` has Slurm's own odd blanks; nodes down and reservations
# are other times of the recording.
ELSEWHERE = {
    "json", "O_all", "o_all", "default_down", "default_part_down", "R_down", "Rl_down",
    "T_reservations", "default_draining", "N_l_draining", "o_main",
}  # fmt: skip
CASES = [case for case in cases("sinfo") if case[0] not in ELSEWHERE]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_prints_as_recorded(
    case: tuple[str, str, list[str], str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same lines, same messages, same exit code."""
    _, user, words, stdout, stderr, code = case
    printed = run_command(monkeypatch, queue(), user, words)
    assert printed.stderr == stderr
    assert printed.code == code
    ours, theirs = printed.stdout.splitlines(), stdout.splitlines()
    if "-N" in words:
        # One node's partitions come in no certain order there.
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs


def steer(patch: pytest.MonkeyPatch, reference: ReferenceCluster, line: str) -> None:
    """Let root change something."""
    assert run_command(patch, reference, "root", line.split()).code == 0


@pytest.mark.parametrize("name", ["default_draining", "N_l_draining"])
def test_draining_node(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drained node with a job is draining."""
    reference = queue()
    steer(monkeypatch, reference, "scontrol update NodeName=n4 State=DRAIN Reason=bad_fan")
    case = next(case for case in cases("sinfo") if case[0] == name)
    printed = run_command(monkeypatch, reference, "root", case[2])
    theirs = case[3].replace("bad fan", "bad_fan").replace("12:10:54", "12:10:53")
    assert sorted(printed.stdout.splitlines()) == sorted(theirs.splitlines())


@pytest.mark.parametrize("name", ["R_down", "Rl_down", "default_down", "default_part_down"])
def test_node_down(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is listed with its user and time."""
    reference = ReferenceCluster()
    reference.now_us = at("12:08:20" if name == "Rl_down" else "12:08:18")
    reference.submit(18, "alice", "12:08:09", "other", nodes_min=1)
    reference.start(18, 1, ("n4", 1, 1000, 0))
    if name == "default_part_down":
        for job_id, node in ((19, "n1"), (20, "n3")):
            reference.submit(job_id, "alice", "12:08:09", "other", nodes_min=1)
            reference.start(job_id, 1, (node, 1, 1000, 0))
        unknown: dict[str, object] = {"state": int(NodeState.UNKNOWN)}
        reference.apply([ev.NodeUpdated(time_us=at("12:08:10"), node_ids=(1,), fields=unknown)])
        steer(monkeypatch, reference, "scontrol update PartitionName=debug State=DOWN")
    else:
        at_us, reference.now_us = reference.now_us, at("12:08:18")
        steer(monkeypatch, reference, "scontrol update node=n3 state=down reason=power_supply")
        reference.now_us = at_us
    case = next(case for case in cases("sinfo") if case[0] == name)
    printed = run_command(monkeypatch, reference, "root", case[2])
    assert printed.stdout == case[3].replace("power supply", "power_supply")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("-h -o %n,%c", ["n1,16", "n2,16", "n3,16", "n4,16"]),
        ("-h -o %D,%w", ["4,1+"]),
        ("-h -e -o %D,%w", ["2,1", "2,10"]),
        ("-h -t mix&planned -o %N", ["n[1,3-4]"]),
        ("-h -t mix+planned -o %N", ["n[1,3-4]"]),
        ("-h -t planned&!mix -o %N", ["n2"]),
        ("-h -t ~mix -o %N", ["n2"]),
        ("-h -t mi,BOOT -o %N", ["n[1,3-4]"]),
        ("-h -t boot -o %N", []),
        ("-h -p gpu -o %C", ["4/28/0/32"]),
        ("-h -n n[3-4] -o %O", ["34.95-36.21"]),
    ],
)
def test_merges_what_agrees(words: str, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that differ are shown as the least with a plus sign, or as a range."""
    printed = run_command(monkeypatch, queue(), "alice", ["sinfo", *words.split()])
    assert sorted(printed.stdout.splitlines()) == lines


@pytest.mark.parametrize("letter", "abcdefghilmnoprstuvwABCDEFGHILMNOPRSTUVXYZz")
def test_sorts_by_what_is_not_printed(letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each letter of -o is one of -S, in either direction."""
    for sign in ("", "-"):
        words = ["sinfo", "-N", "-h", "-o", "%N", "-S", f"{sign}{letter}"]
        printed = run_command(monkeypatch, queue(), "alice", words)
        assert (printed.code, printed.stderr) == (0, "")
        assert set(printed.stdout.split()) == {"n1", "n2", "n3", "n4"}


def test_verbose_tells_the_options_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of Slurm 22.05, then the table."""
    words = ["sinfo", "-vv", "-h", "-p", "gpu", "-t", "mix"]
    lines = run_command(monkeypatch, queue(), "alice", words).stdout.splitlines()
    for line in (
        "filtering   = true",
        "format      = partition:9 ,available:.5 ,time:.10 ,nodes:.6 ,statecompact:.6 ,nodelist:0",
        "no_header   = true",
        "partition   = gpu",
        "states      = mix",
        "verbose     = 2",
        "state_flag      = true",
        "weight_flag     = false",
    ):
        assert line in lines
    assert lines[-2] == "" and lines[-1].startswith("gpu")  # -h takes the time away


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("-h -p '' -o %P", []),
        ("-h -n '' -o '%P %D'", ["main* 0", "gpu 0", "debug 0"]),
        ("-h -t '' -o '%P %D'", ["main* 0", "gpu 0", "debug 0"]),
        ("-h -S -P -s -o %P", ["main*", "gpu", "debug"]),
        ("-h -S @P -o %P", ["debug", "gpu", "main*"]),
        ("-h -S '-#P' -o %P", ["main*", "gpu", "debug"]),
        ("-h -n '' -o %a", ["up"]),
        ("-h -o '%3P|%.4P|' -p main", ["ma*|mai*|"]),
    ],
)
def test_empty_lists_and_odd_orders(
    monkeypatch: pytest.MonkeyPatch, words: str, lines: list[str]
) -> None:
    """No node has a name or state of an empty list; letters of an order that mean nothing do
    nothing; a name that is cut keeps the star of the default partition."""
    printed = run_command(monkeypatch, queue(), "alice", ["sinfo", *shlex.split(words)])
    assert (printed.stderr, printed.code) == ("", 0)
    assert printed.stdout.splitlines() == lines


def test_the_format_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for lists that no option shapes; a node view wins over the list of reasons."""
    plain = run_command(monkeypatch, queue(), "alice", ["sinfo", "-N"]).stdout
    monkeypatch.setenv("SINFO_FORMAT", "%D")
    assert run_command(monkeypatch, queue(), "alice", ["sinfo", "-N"]).stdout == plain
    heading = run_command(monkeypatch, queue(), "alice", ["sinfo", "-RN"]).stdout
    assert heading.startswith("NODELIST")
    assert run_command(monkeypatch, queue(), "alice", ["sinfo"]).stdout.startswith("NODES\n")


def test_the_time_is_a_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    """-h takes it away, too."""
    printed = run_command(monkeypatch, queue(), "alice", ["sinfo", "-lh"]).stdout
    assert printed.startswith("main*")


@pytest.mark.parametrize(
    ("environment", "words", "pair"),
    [
        ({}, "sinfo -a -p main", "-a and -p"),
        ({"SINFO_PARTITION": "main"}, "sinfo -a -p gpu", "-a and -p"),
        (
            {"SINFO_ALL": "1", "SINFO_PARTITION": "main"},
            "sinfo -a -p gpu",
            "SINFO_ALL and SINFO_PARTITION",
        ),
        ({"SINFO_ALL": "1"}, "sinfo -p gpu", ""),
        ({"SINFO_PARTITION": "gpu"}, "sinfo -a", ""),
    ],
)
def test_all_partitions_and_some_exclude_each_other(
    environment: dict[str, str], words: str, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two options conflict, and so do two variables; an option is stronger than a variable."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    printed = run_command(monkeypatch, queue(), "alice", words.split())
    said = (
        f"sinfo: error: Conflicting options, {pair}, specified. Please choose one or the other.\n"
    )
    assert (printed.code, printed.stderr) == ((1, said) if pair else (0, ""))
    assert ("main" in printed.stdout) == ("SINFO_PARTITION" in environment and not pair)


def test_numbers_are_never_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """So --noconvert changes nothing: seen of 22.05 with 1024 nodes of 4096 CPUs and 2048 MiB."""
    printed = [
        run_command(monkeypatch, queue(), "root", ["sinfo", *more, "-h", "-o", "%D %C %F %m %d"])
        for more in ([], ["--noconvert"])
    ]
    assert printed[0] == printed[1]
    assert (printed[0].stderr, printed[0].code) == ("", 0)
    assert re.fullmatch(r"([\d/+ ]+\n)+", printed[0].stdout)


def test_nodes_with_one_address_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host that pretends to be several."""
    reference = queue()
    for node in filter(None, reference.cluster.nodes):
        node.facts = msgspec.structs.replace(node.facts, addr="127.0.0.1")
    printed = run_command(monkeypatch, reference, "root", ["sinfo", "-h", "-o", "%o"])
    assert printed.stdout == "127.0.0.1\n"


def test_reasons_of_one_second_share_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies below a second is not shown, so it makes no line of its own."""
    reference = queue()
    steer(monkeypatch, reference, "scontrol update NodeName=n3 State=DRAIN Reason=x")
    reference.now_us += 1
    steer(monkeypatch, reference, "scontrol update NodeName=n4 State=DRAIN Reason=y")
    printed = run_command(
        monkeypatch, reference, "root", ["sinfo", "-h", "-n", "n[3-4]", "-o", "%H"]
    )
    assert len(printed.stdout.splitlines()) == 1


def test_reasons_are_sorted_as_all_lists_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the manual's default, `#P,-t`: draining, drained, down, whenever each was set."""
    reference = queue()
    for node, state in (("n2", "DRAIN"), ("n4", "DRAIN"), ("n1", "DOWN")):
        steer(
            monkeypatch, reference, f"scontrol update NodeName={node} State={state} Reason={node}"
        )
        reference.now_us += 1_000_000
    printed = run_command(monkeypatch, reference, "root", ["sinfo", "-R", "-h", "-o", "%E"])
    assert printed.stdout.split() == ["n4", "n2", "n1"]


def test_a_partition_is_inactive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word is cut only where its column is narrow, as Slurm 22.05 does it."""
    reference = queue()
    closed = msgspec.structs.replace(reference.cluster.partitions["gpu"], state="INACTIVE")
    reference.apply([ev.PartitionUpdated(at("12:08:00"), closed)])
    words = ["sinfo", "-h", "-p", "gpu", "-o", "%a|%.5a|"]
    assert run_command(monkeypatch, reference, "alice", words).stdout == "inactive|inact|\n"


@pytest.mark.parametrize("words", ["-l -o %n", "-N -l -O nodes", "-R --long --format=%n"])
def test_a_long_list_has_its_own_format(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format of the environment does not count."""
    printed = run_command(monkeypatch, queue(), "alice", ["sinfo", *words.split()])
    text = (
        "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. "
        "Please remove one and retry.\n"
    )
    assert (printed.stdout, printed.stderr, printed.code) == ("", text, 1)


def test_states_beside_the_base_state_sort_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Slurm 22.05: maintenance above drained nodes, and those above mixed ones."""
    reference = queue()
    flags = (NODE_FLAG_RESERVED | NODE_FLAG_MAINTENANCE, NODE_FLAG_DRAIN)
    for node_id, bits in zip((1, 2), flags, strict=True):
        fields: dict[str, object] = {"flags": bits}
        reference.apply([ev.NodeUpdated(at("12:08:10"), (node_id,), fields)])
    words = ["sinfo", "-h", "-p", "main", "-o", "%t %N"]
    printed = run_command(monkeypatch, reference, "alice", words)
    nodes = [line.split()[1] for line in printed.stdout.splitlines()]
    assert nodes == ["n2", "n3", "n[1,4]"]
