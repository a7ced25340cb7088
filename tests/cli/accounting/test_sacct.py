"""sacct prints what Slurm's printed for the same jobs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyslurm_ng.base.hostlist import expand
from pyslurm_ng.cli.accounting.sacct_columns import FIELDS as TEXTS, Context, layout_text
from pyslurm_ng.cli.accounting.sacct_fields import FIELDS
from pyslurm_ng.cli.accounting.sacct_selection import uids
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Step, Usage
from tests.cli.accounting_commands import Commands, Printed, recorded
from tests.dbd.accounting_room import (
    SECOND,
    Room,
    at,
    configured,
    finished,
    on,
    serving_story,
    started,
    submitted,
)

DAY = ("-S", "2026-11-20", "-E", "2026-11-21")
T = at("12:08:08")
RUN = at("12:08:09")

TIMEOUT_USAGE = Usage(
    user_us=3000, system_us=1000, max_rss_kib=4920, max_rss_node="n4", ave_rss_kib=4920,
    max_vmsize_kib=7280, max_vmsize_node="n4", ave_vmsize_kib=7280, max_pages_node="n4",
    min_cpu_node="n4", max_disk_read=21971, max_disk_read_node="n4", ave_disk_read=21971,
    max_disk_write=10, max_disk_write_node="n4", ave_disk_write=10, ntasks=1,
)  # fmt: skip
HOSTNAME_USAGE = Usage(
    user_us=6252, max_rss_kib=1244, max_rss_node="n4", max_rss_task=3, ave_rss_kib=311,
    max_vmsize_kib=2480, max_vmsize_node="n4", max_vmsize_task=3, ave_vmsize_kib=620,
    max_pages_node="n4", max_pages_task=3, min_cpu_node="n4", min_cpu_task=3, max_disk_read=3981,
    max_disk_read_node="n4", max_disk_read_task=3, ave_disk_read=995, max_disk_write=4,
    max_disk_write_node="n4", max_disk_write_task=3, ave_disk_write=1, ntasks=4,
)  # fmt: skip


def step(job_id: int, number: int, name: str, end_us: int, status: int, state: int,
         *nodes: object, **more: object) -> list[ev.AnyEvent]:  # fmt: skip
    """A step that srun made, from its job's start to `end_us`."""
    usage = more.pop("usage", None)
    cpus = sum(node.cpus for node in nodes)  # type: ignore[attr-defined]
    tasks = more.pop("tasks", 1)
    made = Step(number, name, 1001, tasks, cpus, nodes, RUN, **more)  # type: ignore[arg-type]
    return [
        ev.StepCreated(RUN, job_id, made),
        ev.StepEnded(end_us, job_id, number, state, status, usage),  # type: ignore[arg-type]
    ]


def story() -> Iterator[list[ev.AnyEvent]]:
    """The first jobs of the recorded scenario, as far as accounting is concerned."""
    yield [configured(T)]
    line = "sbatch --parsable -J timeout -t 1 -o timeout.out -x n3"
    yield [submitted(T, 1, name="timeout", std_out="timeout.out", submit_line=line,
                     time_limit_min=1, priority=232)]  # fmt: skip
    yield started(RUN, 1, on(4))
    yield [ev.JobCompleting(at("12:09:30"), 1, 6, 0, 0, 1, (3,))]
    yield [ev.StepEnded(at("12:09:34"), 1, 4294967291, 4, 9, TIMEOUT_USAGE)]
    yield [ev.JobEnded(at("12:09:34"), 1, 6)]
    line = "sbatch --parsable -J steps -n4 -N2 -o steps.out --comment=a comment -x n3"
    yield [submitted(T, 2, name="steps", ntasks=4, nodes_min=2, std_out="steps.out",
                     comment="a comment", submit_line=line)]  # fmt: skip
    yield started(RUN, 2, on(1), on(4, 3, 3000))
    yield step(2, 0, "hostname", RUN, 0, 3, on(1), on(4, 3, 3000), tasks=4, distribution="Block",
               submit_line="srun hostname", usage=HOSTNAME_USAGE)  # fmt: skip
    yield step(2, 1, "two", at("12:08:11"), 0, 3, on(4, 3, 3000), distribution="Cyclic",
               submit_line="srun -n1 -J two sleep 2", usage=Usage(user_us=1971))  # fmt: skip
    yield finished(at("12:08:12"), 2, 3, 0, Usage(user_us=6051, system_us=17699))
    yield [submitted(T, 3, name="fail3")]
    yield started(RUN, 3, on(4))
    yield finished(RUN, 3, 5, 3 << 8)
    yield [submitted(T, 4, name="segv")]
    yield started(RUN, 4, on(4))
    yield [ev.JobCompleting(RUN, 4, 5, 11, 0, 1, ()), ev.StepEnded(RUN, 4, 4294967291, 4, 11),
           ev.JobEnded(RUN, 4, 5)]  # fmt: skip
    yield [submitted(T, 5, name="stepfail", ntasks=2)]
    yield started(RUN, 5, on(4, 2, 2000))
    yield step(5, 0, "bash", RUN, 5 << 8, 5, on(4, 2, 2000), tasks=2)
    yield step(5, 1, "bash", RUN, 9, 4, on(4, 2, 2000))
    yield finished(RUN, 5, 3, 0)
    yield [submitted(T, 6, name="cancelrun")]
    yield started(RUN, 6, on(4))
    yield step(6, 0, "sleep", at("12:08:16"), 15, 4, on(4))
    yield [ev.JobCompleting(at("12:08:16"), 6, 4, 0, 0, 1, (), cancelled_by=1001),
           ev.StepEnded(at("12:08:16"), 6, 4294967291, 4, 15),
           ev.JobEnded(at("12:08:16"), 6, 4)]  # fmt: skip
    yield [submitted(T, 7, name="cancelpend"), ev.JobEnded(RUN, 7, 4, cancelled_by=1001)]
    yield [submitted(T, 12, name="arr", array_pending=((1, 3, 1),), eligible_us=RUN)]
    for task, job_id, status in ((1, 15, 0), (2, 16, 1 << 8), (3, 12, 2 << 8)):
        yield [ev.ArrayTaskSplit(RUN, 12, task, job_id)]
        yield started(RUN, job_id, on(4))
        yield finished(RUN, job_id, 5 if status else 3, status)
    yield [submitted(at("12:08:09"), 19, name="nodefail")]
    yield started(at("12:08:12"), 19, on(3))
    yield [ev.JobCompleting(at("12:08:18"), 19, 7, 1 << 8, 0, 1, ()),
           ev.StepEnded(at("12:08:18"), 19, 4294967291, 4, -1),
           ev.JobEnded(at("12:08:18"), 19, 7)]  # fmt: skip


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A slurmdbd with the jobs of `story`."""
    with serving_story(tmp_path_factory.mktemp("d"), story()) as served:
        yield served


@pytest.fixture
def sacct(
    room: Room, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Commands:
    return Commands(room.conf_path, monkeypatch, capfd)


@pytest.mark.parametrize(
    "name",
    ["array", "cancel_pend", "cancel_run", "completed", "failed3", "nodefail", "segv", "step_fail",
     "timeout"],
)  # fmt: skip
def test_ends_are_as_recorded(sacct: Commands, name: str) -> None:
    """States, exit codes, derived ones, reasons, nodes and times of jobs that ended each way."""
    expected = recorded(f"jobend/{name}")
    assert sacct.run(*expected.words) == expected.printed


NOT_COMPARED = {
    "DBIndex", "SLUID", "OriginalSLUID",  # made from milliseconds that the recording lost
    "Priority", "AveCPUFreq",  # soft: not in the journal
    "TRESUsageInTot",  # the mean of the recording is rounded
    "TotalCPU", "UserCPU", "SystemCPU",  # the recording rounds its parts by themselves
}  # fmt: skip


def test_all_fields_are_as_recorded(sacct: Commands) -> None:
    """Every field of the job that timed out and of one with steps; exceptions are named above."""
    lines = recorded("sacct/ALL_P").printed.stdout.splitlines()
    names = lines[0].split("|")
    printed = sacct.run("sacct", "-j", "1,2", "--format=ALL", "-P").stdout.splitlines()
    assert printed[0] == lines[0]
    for ours, theirs in zip(printed[1:], lines[1:7], strict=True):
        printed_by_name = dict(zip(names, ours.split("|"), strict=True))
        expected = dict(zip(names, theirs.split("|"), strict=True))
        # Slurm took the limit's SIGKILL of the batch step for the job's own exit code there.
        if expected["JobID"] == "1":
            expected["ExitCode"] = "0:0"
        for name in names:
            if name in NOT_COMPARED or (name.startswith("ConsumedEnergy") and not expected[name]):
                continue
            assert printed_by_name[name] == expected[name], (expected["JobID"], name)


def test_json_is_as_recorded(sacct: Commands) -> None:
    """The same keys in the same order, and the values that the journal has."""
    expected = recorded("sacct/json")
    printed = sacct.run(*expected.words)
    ours, theirs = json.loads(printed.stdout), json.loads(expected.printed.stdout)
    assert _shape(ours) == _shape(theirs)
    job, recorded_job = ours["jobs"][0], theirs["jobs"][0]
    for key in ("sluid", "original_sluid", "priority", "steps", "time", "flags"):
        recorded_job.pop(key)
        job.pop(key)
    assert job == recorded_job


def _shape(value: object, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [
            path_inside
            for key, inner in value.items()
            for path_inside in _shape(inner, f"{path}/{key}")
        ]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [path_inside for inner in value for path_inside in _shape(inner, path + "[]")]
    return [path]


@pytest.mark.parametrize(
    "name", ["bad_field", "bad_state", "bad_time", "helpformat", "unknown_job"]
)
def test_errors_are_as_recorded(sacct: Commands, name: str) -> None:
    """Texts, streams, exit codes."""
    expected = recorded(f"sacct/sacct_{name}")
    assert sacct.run(*expected.words) == expected.printed


def ids(printed: str) -> list[str]:
    return [line.split("|")[0] for line in printed.splitlines()]


@pytest.mark.parametrize(
    ("words", "job_ids"),
    [
        ("-j 2", ["2", "2.batch", "2.0", "2.1"]),
        ("-j 2.0", ["2.0"]),
        ("-j 2.batch,5.1", ["2.batch", "5.1"]),
        ("-j 2,5.0", ["2", "2.batch", "2.0", "2.1", "5.0"]),
        ("-X -j 12", ["12_1", "12_2", "12_3"]),
        ("-X -j 12_2", ["12_2"]),
        ("-X -j 12_[1-2]", ["12_1", "12_2"]),
        ("-X -s F", ["3", "4", "12_2", "12_3"]),
        ("-X -s TO,NF", ["1", "19"]),
        ("-X -N n3", ["19"]),
        ("-X -N n[1,3]", ["2", "19"]),
        ("-X --name=segv,oom", ["4"]),
        ("-X -A chem", []),
        ("-X -r gpu", []),
        ("-X -k 1", ["1"]),
        ("-X -i 2", ["2"]),
        ("-X -I 2-3", ["5"]),
        ("-X -q normal --name=fail3", ["3"]),
        ("-X -u alice --name=fail3", ["3"]),
        ("-X -u bob", []),
        ("-X -g 1001 --name=fail3", ["3"]),
        ("-X -F SchedBackfill", []),
        ("-X -F None", []),
        ("-X --name=", []),
        ("-X -A ''", []),
        ("-X -r ''", []),
        ("-X -N ''", []),
        ("-X -k 1 -K 1", ["1"]),
        ("-X -K 1 --name=fail3", ["3"]),
        ("-X -i 0 --name=fail3", ["3"]),
        ("-X -s '' --name=fail3", ["3"]),
        ("-X -M mars", []),
        ("-X -M '' --name=fail3", []),
        ("-X -M mars,CLUSTERNAME --name=fail3", ["3"]),
        ("-X -M all --name=fail3", ["3"]),
        ("-X -L --name=fail3", ["3"]),
    ],
)
def test_selection(sacct: Commands, words: str, job_ids: list[str]) -> None:
    """Each option of the table."""
    window = () if "-j" in words else DAY
    words = words.replace("CLUSTERNAME", "demo")
    printed = sacct.run("sacct", "-a", "-n", "-P", "-o", "jobid", *window, *shlex.split(words))
    assert (printed.code, printed.stderr) == (0, "")
    assert ids(printed.stdout) == job_ids


def test_without_window_only_today(sacct: Commands) -> None:
    """The jobs are of another day."""
    assert sacct.run("sacct", "-a", "-n").stdout == ""


def test_states_with_a_start_alone_ask_about_that_moment(sacct: Commands) -> None:
    """--endtime is then --starttime, not now: the day of the jobs began without any."""
    words = ("sacct", "-a", "-X", "-n", "-P", "-o", "jobid", "-s", "F,CD", "-S", "2026-11-20")
    assert sacct.run(*words).stdout == ""
    assert sacct.run(*words, "-E", "2026-11-21").stdout != ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "-S 2026-11-20 -E 2026-11-21",
            "Jobs Eligible in the time window from "
            "Fri Nov 20 00:00:00 2026 to Sat Nov 21 00:00:00 2026",
        ),
        (
            "-s R,F -S 2026-11-20",
            "Jobs RUNNING,FAILED in the time window from "
            "Fri Nov 20 00:00:00 2026 to Fri Nov 20 00:00:01 2026",
        ),
        ("-j 1 -E 2026-11-21",
         "Jobs Eligible in the time window from Epoch 0 to Sat Nov 21 00:00:00 2026"),
    ],
)  # fmt: skip
def test_verbose_names_the_window(sacct: Commands, words: str, line: str) -> None:
    """-v: as Slurm 22.05 prints it, on stderr. No controller is connected here."""
    printed = sacct.run("sacct", "-v", "-n", *words.split())
    behind = (
        "sacct: slurmdbd may lack the newest records of cluster demo: its slurmctld is away, far "
        "behind or silent\n"
    )
    assert (printed.stderr, printed.code) == (f"sacct: {line}\n{behind}", 0)


def test_truncated_times(sacct: Commands) -> None:
    """-T cuts to the window, and the elapsed time with it."""
    printed = sacct.run(
        "sacct", "-a", "-X", "-n", "-P", "-T", "--name=timeout", "-S", "2026-11-20T12:08:30", "-E",
        "2026-11-20T12:09:00", "-o", "start,elapsed",
    )  # fmt: skip
    assert printed.stdout == "2026-11-20T12:08:30|00:00:30\n"


@pytest.mark.parametrize(("end", "expected"), [("12:08:08", "12:08:08"), ("12:09:00", "12:08:09")])
def test_truncated_times_of_a_job_that_never_started(
    sacct: Commands, end: str, expected: str
) -> None:
    """Its end is cut as well, and -T shows that for its start, as Slurm 22.05 does."""
    printed = sacct.run(
        "sacct", "-a", "-X", "-n", "-P", "-T", "--name=cancelpend", "-S", "2026-11-20T12:08:00",
        "-E", f"2026-11-20T{end}", "-o", "start,end,elapsed",
    )  # fmt: skip
    time = f"2026-11-20T{expected}"
    assert printed.stdout == f"{time}|{time}|00:00:00\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("-o jobid%5,jobname%4", "    2 ste+ "),
        ("-o jobname%-8,state%4", "steps    COM+ "),
        ("-p -o jobid,jobname", "2|steps|"),
        ("-P --delimiter=; -o jobid,jobname", "2;steps"),
        ("-P -p -o jobid,jobname", "2|steps|"),
        ("-p -P -o jobid,jobname", "2|steps"),
        ("-P -o jobid -j 2.0", "2"),
        ("-P -o jobid -S 1969-01-01", "2"),
        ("-b", "2             COMPLETED      0:0 "),
        ("-b -P -o jobname", "steps|2|COMPLETED|0:0"),
        ("-S '' -E '' -o jobid%3", "  2 "),
        ("-P -o job,alloct", "2|billing=4,cpu=4,mem=4000M,node=2"),
        ("-P --units=G -o reqmem", "3.91G"),
        ("-P --noconvert -o reqmem", "4000M"),
    ],
)
def test_formats(sacct: Commands, words: str, line: str) -> None:
    """Widths, marks of truncation, separators, units."""
    assert sacct.run("sacct", "-X", "-n", "-j", "2", *shlex.split(words)).stdout == line + "\n"


@pytest.mark.parametrize("allocated", [0, 8])
def test_cpus_of_a_job_without_any_are_those_that_it_asked_for(allocated: int) -> None:
    """Also of one that was cancelled before it started; AllocTRES says that it has none."""
    job = {"cpus_allocated": allocated, "cpus_requested": 5}
    for name in ("AllocCPUS", "NCPUS"):
        columns, text, _, _ = TEXTS[name]
        assert set(columns) <= set(job)
        assert text(job, None) == (allocated or 5)


def test_patterns_of_files_are_replaced() -> None:
    """--expand-patterns; without it they are shown as they were asked for."""
    job = {"std_out": "o/%x.%j.%u", "work_dir": "/home/a", "start_us": 1, "requeue_count": 0,
           "job_id": 7, "array_job_id": 0, "array_task_id": -1, "user": "a", "name": "n",
           }  # fmt: skip
    context = Context(0, "c")
    assert TEXTS["StdOut"][1](job, context) == "/home/a/o/%x.%j.%u"
    context.expands = True
    assert TEXTS["StdOut"][1](job, context) == "/home/a/o/n.7.a"


def test_users_may_have_the_numbers_of_this_host(
    sacct: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--use-local-uid: for clusters on which a user's number is another."""
    words = ("sacct", "-X", "-n", "-P", "-j", "2", "-o", "uid")
    stored = sacct.run(*words).stdout
    names = {"alice": 4711}
    monkeypatch.setattr("pwd.getpwnam", lambda name: SimpleNamespace(pw_uid=names[name]))
    assert sacct.run(*words, "--use-local-uid").stdout == "4711\n" != stored
    names.clear()
    assert sacct.run(*words, "--use-local-uid").stdout == stored


def test_words_of_all_fields(sacct: Commands) -> None:
    """Any beginning of `all` means all fields; a width behind it is that of each."""
    everything = sacct.run("sacct", "-X", "-n", "-P", "-j", "2", "-o", "ALL").stdout
    assert sacct.run("sacct", "-X", "-n", "-P", "-j", "2", "-o", "a").stdout == everything
    narrow = sacct.run("sacct", "-X", "-j", "2", "-o", "all%3").stdout.splitlines()
    assert {len(cell) for cell in narrow[1].split()} == {3}


def test_brief_and_long_together(sacct: Commands) -> None:
    """-b and -l each add their fields, in this order."""
    brief = sacct.run("sacct", "-X", "-P", "-j", "2", "-b").stdout.splitlines()
    full = sacct.run("sacct", "-X", "-P", "-j", "2", "-l").stdout.splitlines()
    both = sacct.run("sacct", "-X", "-P", "-j", "2", "-bl").stdout.splitlines()
    assert both == [f"{brief_line}|{right}" for brief_line, right in zip(brief, full, strict=True)]


def test_unknown_cluster_is_an_empty_table(sacct: Commands) -> None:
    """As Slurm's: the heading, and no error."""
    printed = sacct.run("sacct", "-M", "mars", "-P", "-o", "jobid")
    assert printed == Printed("JobID\n", "", 0)


def test_environment(sacct: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """SACCT_FORMAT and SLURM_TIME_FORMAT are respected."""
    monkeypatch.setenv("SACCT_FORMAT", "jobid,start")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%s")
    printed = sacct.run("sacct", "-X", "-n", "-P", "-j", "2")
    assert printed.stdout == f"2|{RUN // SECOND}\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--frob", "sacct: unrecognized option '--frob'"),
        ("-E 2020-01-01", "sacct: error: Start time ("),
        ("-j x", "sacct: fatal: Bad job/step specified: x"),
        (
            "-j 1_[0-99999999]",
            "sacct: fatal: Bad job/step specified: 1_[0-99999999]: at most 10000",
        ),
        ("-S now-9999999999hours", "Invalid time specification (pos="),
        ("-u nobody-of-that-name", "sacct: error: Invalid user id: nobody-of-that-name"),
        ("-g nogroup-of-that-name", "sacct: error: Invalid group id: nogroup-of-that-name"),
        ("-N n[1-", "sacct: error: Invalid node list"),
        ("-u 99999999", "sacct: error: Invalid user id: 99999999"),
        ("-u ''", "sacct: error: Invalid user id: \n"),
        ("-g 99999999", "sacct: error: Invalid group id: 99999999"),
        ("-j 1.x", "sacct: fatal: Bad step specified: 1\n"),
        ("-j 1_", "sacct: fatal: Bad job array element specified: 1\n"),
        ("-j 1+x", "sacct: fatal: Bad hetjob offset specified: 1\n"),
        (
            "--units=X -j 1",
            "sacct: error: Invalid unit type 'X'. Possible options are 'KMGTP'\n"
            "sacct: fatal: Invalid unit type\n",
        ),
        ("--reason=none,foo", "sacct: fatal: unrecognized job reason value 'foo'\n"),
        ("-s CG", "sacct: fatal: job state CG is not supported / accounted\n"),
        ("-F x", "sacct: error: str_2_job_flags: Invalid job flag x\n"),
        ("-q ghost", "sacct: error: You gave a bad qos 'ghost'. Valid QOS's are normal"),
        ("--whole-hetjob=x", 'sacct: error: Invalid --whole-hetjob value "x". Valid values: ['),
        ("-l -o jobid", "sacct: fatal: Options -o(--format) and -l(--long) are mutually excl"),
        ("-B --env-vars", "sacct: fatal: Options --batch-script and --env-vars are mutually ex"),
        ("-c", "Slurm job completion is disabled\n"),
        ("-f /nope", "/nope is not a valid file\n"),
        ("two words", "sacct: error: Unknown arguments:\nsacct: error:  two\nsacct: error:  words"),
        ("-o jobid%x", 'sacct: error: Invalid field requested: "jobid%x"'),
        ("-o %5", 'sacct: error: Invalid field requested: "%5"'),
        ("-o jobid%99999", "sacct: error: --format=jobid%99999: a width is at most 10000\n"),
        ("-i x", 'sacct: error: Invalid numeric value "x" for requested node range.'),
        ("-K soon", "sacct: fatal: Invalid time limit specification\n"),
        ("-B", "sacct: fatal: When requesting job scripts you must also request specific jobs "),
        ("--env-vars", "sacct: fatal: When requesting job environment you must also request "),
    ],
)
def test_bad_input_is_one_clear_line(sacct: Commands, words: str, text: str) -> None:
    """On stderr, exit 1, never a traceback."""
    printed = sacct.run("sacct", *shlex.split(words))
    assert printed.code == 1
    assert printed.stderr.startswith(text)


def test_a_delimiter_in_another_encoding_is_named(sacct: Commands) -> None:
    refused = sacct.run("sacct", "-p", "--delimiter", "\udcff")
    assert refused.code == 1
    assert refused.stderr == "error: --delimiter='\\udcff': it is no UTF-8 text\n"


def test_widths_of_columns(sacct: Commands) -> None:
    """With either sign; a column of no width shows nothing, but where lines are to be parsed."""
    show = ("sacct", "-X", "-n", "-j", "1")
    assert sacct.run(*show, "-o", "jobid%+4,state%-5").stdout.startswith("   1 ")
    printed = sacct.run("sacct", "-X", "-j", "1", "-o", "jobid%4,state%0,jobid%-2")
    assert printed.stdout == "JobI  Jo \n----  -- \n   1  1  \n"
    assert sacct.run(*show, "-P", "-o", "jobid%4,state%0").stdout == "1|TIMEOUT\n"


def test_steps_are_suspended_with_their_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the job's own line, and in documents, too; a step that is over keeps how it ended."""
    over = step(2, 0, "over", RUN + SECOND, 0, 3, on(4))
    runs = ev.StepCreated(RUN, 2, Step(1, "runs", 1001, 1, 1, (on(4),), RUN))
    events = [[configured(T)], [submitted(T, 2)], started(RUN, 2, on(4)), over, [runs],
              [ev.JobSuspended(RUN + 9 * SECOND, 2, 1)]]  # fmt: skip
    with serving_story(tmp_path, iter(events)) as served:
        suspended = Commands(served.conf_path, monkeypatch, capfd)
        lines = suspended.run("sacct", "-n", "-P", "-j", "2", "-o", "jobid,state").stdout
        times = suspended.run("sacct", "-n", "-P", "-j", "2", "-o", "jobid,elapsedraw").stdout
        document = json.loads(suspended.run("sacct", "-j", "2", "--json").stdout)
    assert {"2|SUSPENDED", "2.0|COMPLETED", "2.1|SUSPENDED"} < set(lines.split())
    assert {"2|9", "2.0|1", "2.1|9", "2.batch|9"} == set(times.split())
    made_steps = document["jobs"][0]["steps"]
    assert sorted(made["time"]["elapsed"] for made in made_steps) == [1, 9, 9]
    states = [made["state"] for made in made_steps]
    assert sorted(states) == [["COMPLETED"], ["SUSPENDED"], ["SUSPENDED"]]


def test_accounting_switched_off(
    sacct: Commands, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """accounting_storage/none."""
    other = room.conf_path.with_name("none.conf")
    other.write_text("ClusterName=demo\n")
    monkeypatch.setenv("SLURM_CONF", str(other))
    printed = sacct.run("sacct")
    assert (printed.stderr, printed.code) == ("Slurm accounting storage is disabled\n", 1)


def test_every_field_has_a_text() -> None:
    """The table of fields and the table of texts name the same fields."""
    assert {name for name, _, _ in FIELDS} == set(TEXTS)
    assert expand("n[1-2]") == ["n1", "n2"]


@pytest.mark.parametrize(
    ("kept", "shown"),
    [("block", "Block"), ("cyclic", "Cyclic"), ("cyclic:block", "Cyclic:Block"), ("", "")],
)
def test_layouts_are_spelled_with_capitals(kept: str, shown: str) -> None:
    """As accounting has always shown them."""
    assert layout_text(kept) == shown


@pytest.mark.parametrize(
    ("options", "users"),
    [({}, [60]), ({"allusers": ""}, []), ({"jobs": "1"}, []), ({"nodelist": "n1"}, []),
     ({"nodelist": "n1", "user": "0"}, [0]), ({"partition": "debug"}, [60])],
)  # fmt: skip
def test_jobs_and_nodes_are_named_whoever_they_belong_to(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], users: list[int]
) -> None:
    """A user who asks what ran on a node sees the jobs of all users, unless one is named."""
    monkeypatch.setattr("os.getuid", lambda: 60)
    assert uids(options) == users
