"""squeue prints what Slurm printed on the reference cluster."""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import cases, queue
from tests.cli.run_command import run_command

# Not repeated: a suspended job, structured output (test_json), SLUIDs.
ELSEWHERE = {"after_suspend", "json", "json_one", "yaml", "o_all", "o_wide"}
RECORDED = [case for case in cases("squeue") if case[0] not in ELSEWHERE]


@pytest.mark.parametrize("case", RECORDED, ids=[case[0] for case in RECORDED])
def test_prints_as_recorded(
    case: tuple[str, str, list[str], str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same lines, same messages, same exit code."""
    _, user, words, stdout, stderr, code = case
    printed = run_command(monkeypatch, queue(), user, words)
    assert printed.stderr == stderr
    assert printed.code == code
    ours, theirs = without_estimates(printed.stdout), without_estimates(stdout)
    assert sorted(ours) == sorted(theirs)
    assert [line for line in ours if is_ordered(line)] == [
        line for line in theirs if is_ordered(line)
    ]


@pytest.mark.parametrize("ids", ["99999998,99999999", "99999999,99999999"])
def test_several_unknown_jobs_are_no_error(ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one id alone is; AiiDA doubles an id for that."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-h", "-j", ids])
    assert (printed.code, printed.stdout, printed.stderr) == (0, "", "")


def without_estimates(text: str) -> list[str]:
    """Leave out job 32, whose node count Slurm estimates as 2 here and as 1 in its TRES."""
    return [line for line in text.splitlines() if "32" not in line.split()[:1]]


def is_ordered(line: str) -> bool:
    """Leave out jobs of equal sort keys, which Slurm prints in the order of a hash table."""
    return not any(
        word in line for word in ("later", "het", "post", "depfail", "uhold", "held", "%@")
    )


@pytest.mark.parametrize(
    ("words", "stdout"),
    [
        (["-o", "%%i|%"], "JOBID|\n22|\n"),
        (["-o", "%"], "\n\n"),
        (["-O", ""], "\n\n"),
        (["-O", "JobID,"], f"{'JOBID':20}\n{22:<20}\n"),
        (["-O", "JobID:,Name:."], "JOBIDNAME\n22train\n"),
    ],
)
def test_formats_with_parts_left_out(
    words: list[str], stdout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Slurm 22.05: nothing is missed, and a colon without a number is no width."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-j", "22", *words])
    assert (printed.stderr, printed.code) == ("", 0)
    assert printed.stdout == stdout


def test_a_width_has_no_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that is no field stays as it is, and is named."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-j", "22", "-o", "%-5i|%i"])
    assert printed.stdout == "%-5i|JOBID\n%-5i|22\n"
    assert printed.stderr == "squeue: error: Invalid job format specification: -\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-o", "%i", "-O", "JobID"], "error: -O (--Format) is incompatible with -o (--format)"),
        (["-O", "JobID", "-o", "%i"], "error: -o (--format) is incompatible with -O (--Format)"),
        (["-l", "-o", "%i"], "fatal: Options -o(--format) and -l(--long) are mutually exclusive. "
         "Please remove one and retry."),
        (["-M", ""], "error: No cluster '' known by database.\nsqueue: error: '' can't be reached "
         "now, or it is an invalid entry for --cluster.  Use 'sacctmgr list clusters' to see "
         "available clusters."),
        (["-t", "R,all"], "error: Invalid job state specified: all"),
    ],
)  # fmt: skip
def test_options_that_exclude_one_another(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last format does not silently replace the first."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", *words])
    assert printed.code == 1
    assert printed.stderr.startswith(f"squeue: {text}\n")


@pytest.mark.parametrize(
    ("words", "header"),
    [
        ([], "JOBID"), (["-O", "Name:4"], "NAME"), (["-o", "%j"], "NAME"),
        (["-l", "-h"], "22"), (["--start"], "JOBID PARTITION"), (["-s"], "STEPID"),
    ],
)  # fmt: skip
def test_formats_of_variables_give_way(
    words: list[str], header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQUEUE_FORMAT counts before SQUEUE_FORMAT2; -l, --start and -s have a format of their own."""
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SQUEUE_FORMAT2", "State")
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", *words, "-j22"])
    assert (printed.stderr, printed.code) == ("", 0)
    assert printed.stdout.split("\n")[0].strip().startswith(header)


def test_a_cluster_of_a_variable_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says what is to be mended."""
    monkeypatch.setenv("SLURM_CLUSTERS", "mars")
    printed = run_command(monkeypatch, queue(), "alice", ["squeue"])
    assert "invalid entry for SLURM_CLUSTERS." in printed.stderr


def test_users_by_number_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that no user has is as wrong as a name."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-h", "-u", "4123456789"])
    assert (printed.stdout, printed.stderr) == ("", "squeue: error: Invalid user: 4123456789\n\n")


def test_verbose_lists_what_was_asked_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stdout, each option in Slurm's form, then the date and how many jobs there are."""
    words = "squeue -v -r -j 22 -t PD,R -w n2,n1 -M demo -o %i".split()
    printed = run_command(monkeypatch, queue(), "alice", words)
    lines = printed.stdout.split("\n")
    ruler = "-----------------------------"
    assert lines[:27] == [
        ruler, "all         = false", "array       = true", "federation  = false",
        "format      = %i", "iterate     = 0", "job_flag    = 1", "jobs        = 22",
        "licenses    = (null)", "local       = true", "names       = (null)",
        "nodes       = n[1-2]", "partitions  = (null)", "priority    = false",
        "reservation = (null)", "sibling      = false", "sort        = (null)",
        "start_flag  = 0", "states      = PD,R", "step_flag   = 0", "steps       = (null)",
        "users       = (null)", "verbose     = 1", ruler, "", "", "Fri Nov 20 12:10:53 2026",
    ]  # fmt: skip
    assert lines[27] == "CLUSTER: demo"
    assert lines[28].startswith("last_update_time=") and lines[28].endswith(" records=1")
    assert lines[29:] == ["JOBID", "22", ""]
