"""sprio prints the scheduler's own factors in Slurm's columns."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pyslurm_ng.cli.sprio import cell
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Qos
from tests.cli.reference_cluster import at, cases, queue
from tests.cli.run_command import run_command

CASES = list(cases("sprio"))


def numbers(text: str, column: str) -> dict[str, str]:
    """Return one column by job id."""
    lines = [line.split() for line in text.splitlines()]
    # Two headings are PARTITION; the name is the first of them.
    index = len(lines[0]) - 1 - lines[0][::-1].index(column)
    return {line[0]: line[index] for line in lines[1:] if len(line) == len(lines[0])}


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_same_headings(case: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Column for column, blanks included."""
    words, stdout = case[2], case[3]
    assert isinstance(words, list) and isinstance(stdout, str)
    printed = run_command(monkeypatch, queue(), "alice", words)
    assert (printed.stderr, printed.code) == ("", 0)
    assert printed.stdout.splitlines()[0] == stdout.splitlines()[0]


def test_weights_are_listed_as_by_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CASES if case[0] == "w")
    printed = run_command(monkeypatch, queue(), "alice", case[2])
    assert printed.stdout == case[3]


@pytest.mark.parametrize(
    ("column", "jobs"),
    # Whole-node jobs ask for more than they name; how much of the cluster that is, is the
    # scheduler's business and tested there.
    [("JOBSIZE", {"30", "31"}), ("PARTITION", {"24", "25", "30"}), ("QOS", {"25", "30", "32"})],
)
def test_factors_are_slurms(column: str, jobs: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not depend on time or use is the same number for the same job."""
    case = next(case for case in CASES if case[0] == "default")
    reference = queue()
    qos = (Qos(1, "normal"), Qos(2, "high", priority=100), Qos(3, "low"))
    reference.apply([ev.QosChanged(at("12:08:00"), changed=qos)])
    printed = run_command(monkeypatch, reference, "alice", case[2])
    ours, theirs = numbers(printed.stdout, column), numbers(case[3], column)
    assert {job: ours[job] for job in jobs} == {job: theirs[job] for job in jobs}


def test_priority_is_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users can check the first number. Columns are rounded, and the sum is cut."""
    words = ["sprio", "-h", "-o", "%Y %S %A %B %F %J %P %Q %N"]
    printed = run_command(monkeypatch, queue(), "alice", words)
    lines = [[int(word) for word in line.split()] for line in printed.stdout.splitlines()]
    assert len(lines) > 3
    for total, *parts, nice in lines:
        assert 0 <= sum(parts) - nice - total <= len(parts)


def test_only_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters of jobs, users and partitions; held jobs are in none."""

    def ids(*words: str) -> list[str]:
        printed = run_command(monkeypatch, queue(), "root", ["sprio", "-h", "-o", "%i", *words])
        assert printed.code == 0
        return printed.stdout.split()

    everything = ids()
    assert ids("-j", "25,27") == ["25", "27"]
    mine = ids("-u", "carol")
    assert mine and set(mine) < set(everything)
    assert ids("-p", "debug") == [] or set(ids("-p", "debug")) < set(everything)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-S", "z"], r"sprio: error: Invalid sort specification: z\n"),
        (["-j", "x"], r"sprio: error: Invalid job id: x\n"),
        (["-j", " "], r"sprio: error: Invalid job id:  \n"),
        (["-j", "1, "], r"sprio: error: Invalid job id:  \n"),
        (["--wrong"], r"sprio: unrecognized option '--wrong'\nTry .*\n"),
    ],
)
def test_bad_input(words: list[str], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "alice", ["sprio", *words])
    assert re.fullmatch(line, printed.stderr) and printed.code == 1 and not printed.stdout


def test_letters_that_mean_nothing_cost_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the format is printed, as in Slurm."""
    printed = run_command(
        monkeypatch, queue(), "alice", ["sprio", "-h", "-o", "%i %z", "-S", "u-i"]
    )
    assert printed.stderr == "sprio: error: Invalid job format specification: z\n"
    assert printed.code == 0
    assert printed.stdout.splitlines()[0].startswith("32 ")


def test_an_empty_list_of_partitions_has_no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with squeue: `sprio -p "$EMPTY"` must not mean all partitions."""
    for words in (["-p", ""], ["-p", ","]):
        printed = run_command(monkeypatch, queue(), "root", ["sprio", "-h", *words])
        assert (printed.stdout, printed.stderr, printed.code) == ("", "", 0)


def test_the_long_format_counts_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPRIO_FORMAT replaces the default only."""
    long = run_command(monkeypatch, queue(), "root", ["sprio", "-l"]).stdout
    monkeypatch.setenv("SPRIO_FORMAT", "%i")
    assert run_command(monkeypatch, queue(), "root", ["sprio", "-l"]).stdout == long
    assert run_command(monkeypatch, queue(), "root", ["sprio"]).stdout.split()[0] == "JOBID"
    assert run_command(monkeypatch, queue(), "root", ["sprio", "-h"]).stdout.split()[0].isdigit()


def test_unknown_jobs_have_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says so, and it is no error; an empty list names no job, -j alone all."""
    printed = run_command(monkeypatch, queue(), "alice", ["sprio", "-j", "99999"])
    assert run_command(monkeypatch, queue(), "alice", ["sprio", "-j", ""]) == printed
    assert "PRIORITY" in run_command(monkeypatch, queue(), "alice", ["sprio", "-j"]).stdout
    assert (printed.stdout, printed.stderr, printed.code) == (
        "Unable to find jobs matching user/id(s) specified\n", "", 0,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["nobody99", "99999", "x y"])
def test_unknown_users_are_named_and_have_no_jobs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Slurm 22.05: a line and an empty one, the list of the others, and 0."""
    line = f"sprio: error: Invalid user: {name}\n\n"
    alone = run_command(monkeypatch, queue(), "root", ["sprio", "-h", "-u", name])
    assert (alone.stdout, alone.stderr, alone.code) == ("", line, 0)
    others = run_command(monkeypatch, queue(), "root", ["sprio", "-h", "-u", f"{name},carol"])
    carols = run_command(monkeypatch, queue(), "root", ["sprio", "-h", "-u", "carol"])
    assert others.stdout == carols.stdout != ""
    assert (others.stderr, others.code) == (line, 0)


def test_weights_of_tres_are_shown_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Slurm 22.05: the key's own text, and nothing beside the shares of -n."""
    reference = queue()
    reference.conf = replace(reference.conf, priority_weight_tres="CPU=1000,Mem=500")
    printed = run_command(monkeypatch, reference, "alice", ["sprio", "-w"])
    assert printed.stdout.splitlines()[1].endswith("     CPU=1000,Mem=500")
    printed = run_command(monkeypatch, reference, "alice", ["sprio", "-wn"])
    assert "CPU" not in printed.stdout and "TRES" in printed.stdout


def test_a_format_of_unknown_letters_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each job and, without -h, one more; as in Slurm 22.05."""
    rows = run_command(monkeypatch, queue(), "alice", ["sprio", "-h"]).stdout.splitlines()
    bare = run_command(monkeypatch, queue(), "alice", ["sprio", "-h", "-o", "foo"])
    assert bare.stdout == "foo\n" * len(rows)
    headed = run_command(monkeypatch, queue(), "alice", ["sprio", "-o", "foo"])
    assert headed.stdout == "foo\n" * (len(rows) + 1)


def test_weighted_factors_are_rounded_as_by_slurm() -> None:
    """A half goes to the even number, as printf does it: 562 of 562.5, 38 of 37.5."""
    for factor, shown in ((562_500_000, "562"), (37_500_000, "38"), (140_625_000, "141")):
        row, weights = {"size": factor}, {"size": 1000.0}
        assert cell("J", row, weights, "") == shown
