"""squeue prints what Slurm printed on the reference cluster."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.numbers import (
    INFINITE,
    JOB_FLAG_REQUEUE_HOLD,
    REQ_CONTIGUOUS,
    REQ_REBOOT,
)
from pyslurm_ng.cli.command import Table
from pyslurm_ng.cli.listing.job_columns import ELAPSED, FIELDS, Context, eligible_us
from pyslurm_ng.cli.listing.job_order import UNSORTABLE, node_order, sort_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.kept_request import changed_request
from tests.cli.reference_cluster import NOW_US, at, cases, queue
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


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-o", "%.1l|%.1N|%.1j|%1l"], "2:00:00|n1|t|2"),
        (["-O", "TimeLimit:.1,Name:.1,NodeList:.1"], "2:00:00tn1"),
    ],
)
def test_times_and_nodes_are_not_cut_at_their_left_column(
    words: list[str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual `%.10M` shows 11 characters of a job that has run for ten days, as in Slurm."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-h", "-j", "22", *words])
    assert printed.stdout == f"{line}\n"


def test_a_reason_in_the_place_of_nodes_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be long; the width of others stays."""
    words = ["squeue", "-h", "-S", "i", "-t", "PD,R", "-j", "22,29", "-o", "%.1R|"]
    printed = run_command(monkeypatch, queue(), "alice", words)
    assert printed.stdout == "n1|\n(|\n"


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


def test_a_format_without_fields_may_be_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-h", "-j22", "-o", "\udcff"])
    assert (printed.stdout, printed.stderr, printed.code) == ("?\n", "", 0)


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


@pytest.mark.parametrize(
    "words",
    [["-u", ""], ["-u", ","], ["-A", ""], ["-n", ""], ["-p", ","], ["-q", ""], ["-t", ""],
     ["-j", ""], ["-L", ""], ["-R", ""], ["-w", ""]],
    ids="".join,
)  # fmt: skip
def test_an_empty_list_names_no_job(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`squeue -u "$NOBODY" -h -o %A | xargs scancel` must not reach the jobs of all users."""
    printed = run_command(monkeypatch, queue(), "root", ["squeue", "-h", *words])
    assert (printed.code, printed.stdout, printed.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("field", "plain", "asked"),
    [
        ("BoardsPerNode", "0", "0"),
        ("BurstBuffer", "(null)", "#BB x"),
        ("BurstBufferState", "(null)", "(null)"),
        ("Container", "(null)", "(null)"),
        ("DelayBoot", "0:00", "1:10:00"),
        ("MCSLabel", "(null)", "(null)"),
        ("MinTime", "0:00", "2:00"),
        ("Network", "(null)", "mpi"),
        ("OriginRaw", "NA", "NA"),
        ("Profile", "NotSet", "Energy,Task"),
        ("Reboot", "0", "1"),
        ("SiblingsActive", "NA", "NA"),
        ("tres-freq", "N/A", "gpu:low"),
    ],
)
def test_what_a_job_may_ask_for(
    field: str, plain: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm 22.05 shows it, of jobs that asked for it and of those that did not."""
    reference = queue()
    reference.submit(40, "alice", "12:10:18", "plain")
    reference.submit(
        41, "alice", "12:10:18", "asks", burst_buffer="#BB x", delay_boot_min=70,
        time_min_min=2, network="mpi", profile="Energy,Task", tres_freq="gpu:low",
        flags=REQ_REBOOT,
    )  # fmt: skip
    words = ["squeue", "-h", "-j", "40,41", "-S", "i", "-O", f"{field}:20"]
    printed = run_command(monkeypatch, reference, "root", words)
    assert [line.strip() for line in printed.stdout.splitlines()] == [plain, asked]


def test_a_command_has_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `scontrol show job`; jobs of salloc and srun have none, as in Slurm."""
    reference = queue()
    reference.submit(40, "alice", "12:10:18", "script", command="/o/a.sh", argv=("-x", "b c"))
    reference.submit(41, "alice", "12:10:18", "interactive")
    for words in (["-o", "%o"], ["-O", "command:20"]):
        words = ["squeue", "-h", "-j", "40,41", "-S", "i", *words]
        printed = run_command(monkeypatch, reference, "root", words)
        assert [line.strip() for line in printed.stdout.splitlines()] == [
            "/o/a.sh -x b c",
            "(null)",
        ]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [((0, 0), ("0", "0:00")), ((2, 330), ("2", "5:30")), ((1, 86400), ("1", "1-00:00:00"))],
)
def test_how_long_a_job_waits_for_few_switches(
    asked: tuple[int, int], shown: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cluster is the origin of a job without a federation."""
    reference = queue()
    switches, wait_s = asked
    reference.submit(40, "alice", "12:10:18", "spread", switches=switches, switches_wait_s=wait_s)
    words = ["squeue", "-h", "-j", "40", "-O", "reqswitch:5,wait4switch:12,origin:8"]
    assert run_command(monkeypatch, reference, "root", words).stdout.split() == [*shown, "NA"]


def test_patterns_of_files_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """--expand-patterns; without it they are shown as they were asked for."""
    reference = queue()
    reference.submit(41, "alice", "12:10:18", "named", std_out="/o/%j.%x", std_err="/o/%u")
    reference.submit(42, "alice", "12:10:18", "below", std_in="in", std_err="e.%j")
    words = ["squeue", "-h", "-j", "41", "-O", "stdout:20,stderr:20,stdin:20"]
    assert run_command(monkeypatch, reference, "root", words).stdout.split() == [
        "/o/%j.%x", "/o/%u", "/dev/null",
    ]  # fmt: skip
    below = ["squeue", "-h", "-j", "42", "-O", "stderr:20,stdin:20"]
    assert run_command(monkeypatch, reference, "root", below).stdout.split() == [
        "/home/alice/e.%j", "/home/alice/in",
    ]  # fmt: skip
    printed = run_command(monkeypatch, reference, "root", [*below, "--expand-patterns"])
    assert printed.stdout.split() == ["/home/alice/e.42", "/home/alice/in"]
    replaced = run_command(monkeypatch, reference, "root", [*words, "--expand-patterns"])
    assert replaced.stdout.split() == ["/o/41.named", "/o/alice", "/dev/null"]


def test_ends_are_shown_as_the_system_gives_them() -> None:
    """exit_code and DerivedEC: 1280 for an exit with 5, as Slurm 22.05."""
    for name in ("exit_code", "derivedec"):
        assert FIELDS[name][3](None, [1280, 9]) == [1280, 9]


def test_an_empty_variable_names_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is set counts, with what it holds."""
    monkeypatch.setenv("SQUEUE_USERS", "")
    assert run_command(monkeypatch, queue(), "root", ["squeue", "-h"]).stdout == ""


def column(monkeypatch: pytest.MonkeyPatch, sort: str, field: str) -> list[str]:
    """Return a column in the order that -S asks for, each cell once where it repeats."""
    words = ["squeue", "-h", "-S", sort, "-o", field]
    lines = run_command(monkeypatch, queue(), "root", words).stdout.splitlines()
    return [line for at, line in enumerate(lines) if not at or lines[at - 1] != line]


def test_a_sign_is_about_the_next_letter_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-S -tj` is `-t,j`, and commas may be left out before a sign, too."""
    for joined, parted in (("-tj", "-t,j"), ("t-j", "t,-j"), ("-t-j", "-t,-j")):
        whole = column(monkeypatch, joined, "%t %j")
        assert whole == column(monkeypatch, parted, "%t %j")
        assert whole[0].startswith("R" if joined.startswith("-") else "PD")


def test_nodes_sort_by_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs without nodes come last; `n[3-4]` lies between n2 and n4."""
    assert [node_order(names)[:3] for names in ("", "n10", "n[3-4,9]", "a,b[1-2]", "c")] == [
        (True, "", 0), (False, "n", 10), (False, "n", 3), (False, "a", 0), (False, "c", 0)
    ]  # fmt: skip
    ascending = column(monkeypatch, "N", "x%N")
    assert ascending == ["xn1", "xn3", "xn[3-4]", "x"]
    assert column(monkeypatch, "-N", "x%N") == ascending[::-1]


def test_times_sort_by_their_length() -> None:
    """The job that has run longest comes last, and jobs without a limit after those with one."""
    rows = [
        (1, 60, 1, 1_000_000, 0, 0, 0),
        (2, INFINITE, 1, 90_000_000, 0, 0, 0),
        (3, 2, 0, 0, 0, 0, 0),
    ]
    fields = ["job_id", "time_limit_min", *ELAPSED]
    table = Table(fields, b"".join(map(msgspec.msgpack.encode, rows)), fields)
    for name, ids in (("timeused", [3, 2, 1]), ("timeleft", [3, 1, 2])):
        sort_jobs(table, [(name, False)], 100_000_000)
        assert [row[0] for row in table.rows] == ids


@pytest.mark.parametrize("letter", sorted(UNSORTABLE))
def test_letters_that_slurm_does_not_sort_by(letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused by name, also inside a word: `-S foo`."""
    for sort in (letter, f"f{letter}", f"i,-{letter}"):
        printed = run_command(monkeypatch, queue(), "root", ["squeue", "-S", sort])
        expected = f"squeue: error: Invalid sort specification: {letter}\n"
        assert (printed.code, printed.stdout, printed.stderr) == (1, "", expected)


def test_the_reason_of_a_failure_stands_for_its_nodes() -> None:
    """As for waiting jobs; jobs that completed or were cancelled show where they ran."""
    _, _, _, cells = FIELDS["reasonlist"]
    states = [0, 1, 3, 4, 4, 5, 6, 11]
    nodes = ["", "n1", "n1", "n1", "", "n1", "n1", "n1"]
    reasons = ["Priority", "None", "None", "None", "JobHeldUser", "NonZeroExitCode", "TimeLimit",
               "OutOfMemory"]  # fmt: skip
    assert list(cells(Context(0, ""), states, nodes, reasons, [""] * 8)) == [
        "(Priority)", "n1", "n1", "n1", "", "(NonZeroExitCode)", "(TimeLimit)", "(OutOfMemory)",
    ]  # fmt: skip


def test_a_task_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is there has none such: an empty table. Of an unknown job it is an error."""
    for task in ("22_5", "22+3"):
        printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-h", "-j", task])
        assert (printed.code, printed.stdout, printed.stderr) == (0, "", "")
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-j", "999_5"])
    assert (printed.code, printed.stderr) == (
        1, "slurm_load_jobs error: Invalid job id specified\n",
    )  # fmt: skip


def test_steps_of_named_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """-j chooses jobs beside -s, too; a letter of no column sorts nothing."""
    printed = run_command(
        monkeypatch, queue(), "root", ["squeue", "-s", "-j", "22", "-h", "-o", "%i", "-S", "z,i"]
    )
    assert printed.stdout == "22.0\n22.batch\n"


@pytest.mark.parametrize(("step", "said"), [("x", "x.??"), ("22.x", "22.x")])
def test_ids_of_no_step(step: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself refuses them."""
    printed = run_command(monkeypatch, queue(), "root", ["squeue", "-s", step])
    assert (printed.code, printed.stderr) == (1, f"squeue: error: Invalid job_step id: {said}\n")


def test_a_held_job_starts_at_its_begin_time_at_the_soonest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """START_TIME is the moment that --begin asked for, whatever else keeps the job."""
    reference = queue()
    reference.cluster.jobs[33].begin_us = reference.cluster.jobs[29].begin_us
    printed = run_command(
        monkeypatch, reference, "carol", ["squeue", "-h", "-j", "33", "-o", "%r %S"]
    )
    assert printed.stdout == "JobHeldAdmin 2030-01-01T00:00:00\n"


def test_when_a_job_will_be_eligible() -> None:
    """The begin time is shown while it is to come; a dependency or a past one makes it unknown."""
    assert eligible_us(10, 0, 20, None) == 20
    assert eligible_us(10, 0, 20, "afterok:1") == 0
    assert eligible_us(10, 0, 5, None) == 0
    assert eligible_us(10, 7, 20, None) == 7


def test_disk_and_what_each_task_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both as `scontrol show job` writes them."""
    reference = queue()
    sizes = {"tmp_mib": 1 << 20, "gpus_per_task": "2", "cpus_per_task": 3}
    changed = changed_request(reference.cluster.jobs[29].request, **sizes)
    reference.apply([ev.JobUpdated(at("12:08:00"), 29, {}, changed)])
    words = ["squeue", "-h", "-j", "29", "-O", "mintmpdisk:.9,tres-per-task:.20"]
    lines = run_command(monkeypatch, reference, "alice", words).stdout
    assert lines == "       1T    cpu=3,gres/gpu=2\n"
    lines = run_command(monkeypatch, reference, "alice", [*words, "--noconvert"]).stdout
    assert lines.split()[0] == "1048576M"


@pytest.mark.parametrize("words", [["-n", "WIDE"], ["--qos=HIGH"], ["--name=Wide,nosuch"]])
def test_names_and_qos_are_chosen_in_any_case(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm 22.05 does it, and as accounts are."""
    plain = [word.lower() for word in words]
    command = ["squeue", "-h", "-o", "%i"]
    printed = run_command(monkeypatch, queue(), "root", [*command, *words])
    assert printed.stdout
    assert printed == run_command(monkeypatch, queue(), "root", [*command, *plain])


def test_steps_are_chosen_by_their_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch step of a job of n3 and n4 is on n3 only."""
    words = ["squeue", "-s", "-h", "-o", "%i", "-w", "n4"]
    assert run_command(monkeypatch, queue(), "root", words).stdout == "23.0\n"


def test_the_end_of_a_job_without_a_limit() -> None:
    """It is NONE where the start is known, and N/A before."""
    context = Context(NOW_US, "cluster")
    columns = [1, 0, 0, 1], [NOW_US, 0, 0, NOW_US], [0, NOW_US, 0, 0], [0, 0, 0, NOW_US]
    limits = [INFINITE] * 4
    end = FIELDS["endtime"][3]
    cells = end(context, *columns, limits, [0] * 4)
    assert cells[:3] == ["NONE", "NONE", "N/A"] and cells[3] not in ("NONE", "N/A")


def test_moments_and_marks_sort_by_what_is_shown() -> None:
    """The record fields behind a column sort as the column does; unknown ends come first."""
    ends = (
        "job_id state start_us expected_start_us end_us time_limit_min suspended_us request_flags "
        "mem_per_cpu_mib mem_per_node_mib flags"
    ).split()
    rows = [
        (1, 1, 9_000_000, 0, 0, 9, 0, REQ_REBOOT, 0, 500, 0),
        (2, 1, 8_000_000, 0, 99_000_000, 9, 0, REQ_CONTIGUOUS, 700, 0, 0),
        (3, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0),
        (4, 0, 0, 5_000_000, 0, 1, 0, REQ_REBOOT, 600, 0, JOB_FLAG_REQUEUE_HOLD),
    ]
    table = Table(ends, b"".join(map(msgspec.msgpack.encode, rows)), ends)
    for name, ids in (
        ("endtime", [3, 4, 2, 1]),
        ("contiguous", [1, 3, 4, 2]),
        ("minmemory", [3, 1, 4, 2]),
        ("statecompact", [3, 4, 1, 2]),
    ):
        sort_jobs(table, [(name, False)], 100_000_000)
        assert (name, [row[0] for row in table.rows]) == (name, ids)


def test_lists_of_tasks_are_whole_where_their_length_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SLURM_BITSTR_LEN says how long they may be, not the column where it is right-aligned."""
    words = ["squeue", "-h", "-j", "27", "-o", "%.6i|%6i|%.2K"]
    printed = run_command(monkeypatch, queue(), "alice", words)
    assert printed.stdout == "27_[0-|27_[0-|0-\n"
    monkeypatch.setenv("SLURM_BITSTR_LEN", "0")
    printed = run_command(monkeypatch, queue(), "alice", words)
    assert printed.stdout == "27_[0-9%2]|27_[0-|0-\n"


@pytest.mark.parametrize(
    ("name", "steps"),
    [("STEPB", ["21.1"]), ("sim", ["21.0", "21.1", "21.batch"]), ("nosuch", [])],
)
def test_steps_are_chosen_by_their_names_or_their_jobs(
    name: str, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`squeue -s -n NAME`: "jobs or job steps having one of the specified names"."""
    words = ["squeue", "-s", "-h", "-o", "%i", "-S", "i", "-n", name]
    assert run_command(monkeypatch, queue(), "root", words).stdout.split() == steps


def test_steps_of_a_suspended_job_do_not_grow_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """TIME is that of the job: the suspension that lasts does not count."""
    reference = queue()
    duty = reference.cluster.next_duty_id
    reference.apply([ev.JobSuspended(NOW_US - 9_000_000, 21, duty)])
    words = ["squeue", "-h", "-j", "21", "-o", "%M"]
    job = run_command(monkeypatch, reference, "root", words).stdout.split()
    steps = run_command(monkeypatch, reference, "root", [*words, "-s"]).stdout.split()
    assert job == ["0:30"] and set(steps) <= {"0:30", "0:29"}
