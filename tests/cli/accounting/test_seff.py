"""seff and seff-array print what the well-known scripts do, from the records that sacct shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.cli.accounting.seff_lines import lines
from pyslurm_ng.data_parser.efficiency import Efficiency, memory_text, time_text
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Step, Usage
from tests.cli.accounting_commands import Commands
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

BEGIN = at("12:00:00")
MINUTE = 60 * SECOND


def used(user_s: int, rss_mib: int, tasks: int = 1) -> Usage:
    """What a step used; each task had as much memory."""
    return Usage(
        user_us=user_s * SECOND, max_rss_kib=rss_mib << 10, ave_rss_kib=rss_mib << 10, ntasks=tasks
    )


def story() -> Iterator[list[ev.AnyEvent]]:
    """A job of four cores, one of one core that failed, one that waits, one that runs, an array."""
    yield [configured(BEGIN)]
    yield [submitted(BEGIN, 1, ntasks=4)]
    yield started(BEGIN, 1, on(1, 4, 4000))
    yield finished(BEGIN + 100 * SECOND, 1, 3, 0, used(200, 500))
    yield [submitted(BEGIN, 2)]
    yield started(BEGIN, 2, on(1))
    yield [
        ev.StepCreated(BEGIN, 2, Step(0, "two", 1001, 2, 1, (on(1),), BEGIN)),
        ev.StepEnded(BEGIN + MINUTE, 2, 0, 3, 0, used(6, 250, tasks=2)),
    ]
    yield finished(BEGIN + MINUTE, 2, 5, 3 << 8, used(0, 10))
    yield [submitted(BEGIN, 3, name="waits")]
    yield [submitted(BEGIN, 4)]
    yield started(BEGIN, 4, on(2))
    yield [submitted(BEGIN, 10, array_pending=((1, 3, 1),))]
    yield [submitted(BEGIN, 20, array_pending=((1, 2, 1),), time_limit_min=INFINITE)]
    for task, job_id in ((1, 21), (2, 20)):
        yield [ev.ArrayTaskSplit(BEGIN, 20, task, job_id), *started(BEGIN, job_id, on(4))]
        yield finished(BEGIN + MINUTE, job_id, 3, 0, used(1, 100))
    for task, job_id in ((1, 11), (2, 12)):
        yield [ev.ArrayTaskSplit(BEGIN, 10, task, job_id)]
        yield started(BEGIN, job_id, on(3))
        yield finished(BEGIN + MINUTE, job_id, 3, 0, used(15 * task, 100 * task))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A slurmdbd with the jobs of `story`."""
    with serving_story(tmp_path_factory.mktemp("d"), story()) as served:
        yield served


@pytest.fixture
def commands(
    room: Room, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Commands:
    return Commands(room.conf_path, monkeypatch, capfd)


def values(printed: str) -> dict[str, str]:
    """Return the values by what is before the first colon, as programs read them."""
    return dict(line.split(": ", 1) for line in printed.splitlines() if ": " in line)


def test_a_job_that_has_ended(commands: Commands) -> None:
    printed = commands.run("seff", "1")
    assert (printed.code, printed.stderr) == (0, "")
    name = printed.stdout.splitlines()[2].removeprefix("User/Group: ")
    assert name.count("/") == 1
    assert printed.stdout.splitlines() == [
        "Job ID: 1",
        "Cluster: demo",
        f"User/Group: {name}",
        "State: COMPLETED (exit code 0)",
        "Nodes: 1",
        "Cores per node: 4",
        "CPU Utilized: 00:03:20",
        "CPU Efficiency: 50.00% of 00:06:40 core-walltime",
        "Job Wall-clock time: 00:01:40",
        "Memory Utilized: 500.00 MB",
        "Memory Efficiency: 12.50% of 3.91 GB (1000.00 MB/core)",
    ]


def test_one_core_and_an_exit_code(commands: Commands) -> None:
    """A job of one core has the line "Cores"; two tasks make the memory an estimate."""
    shown = values(commands.run("seff", "2").stdout)
    assert shown["State"] == "FAILED (exit code 3)"
    assert shown["Cores"] == "1"
    assert "Nodes" not in shown
    assert shown["CPU Efficiency"] == "10.00% of 00:01:00 core-walltime"
    assert shown["Memory Utilized"] == "500.00 MB (estimated maximum)"


def test_a_job_that_waits_has_no_figures(commands: Commands) -> None:
    printed = commands.run("seff", "3")
    assert printed.code == 0
    assert printed.stdout.endswith(
        "State: PENDING\nCores: 1\nEfficiency not available for jobs in the PENDING state.\n"
    )


def test_a_job_that_runs_is_warned_about(commands: Commands) -> None:
    printed = commands.run("seff", "4").stdout.splitlines()
    assert "State: RUNNING" in printed
    assert printed[-1] == "WARNING: Efficiency statistics may be misleading for RUNNING jobs."


def test_tasks_of_an_array(commands: Commands) -> None:
    """By the name users know, and by the id of the task."""
    printed = commands.run("seff", "10_2")
    assert printed.stdout.splitlines()[:2] == ["Job ID: 12", "Array Job ID: 10_2"]
    assert commands.run("seff", "12") == printed
    assert commands.run("seff", "10").stdout.splitlines()[1] == "Array Job ID: 10_[3]"


def test_the_raw_figures(commands: Commands) -> None:
    printed = commands.run("seff", "-d", "1").stdout.splitlines()
    names, figures = (line.removeprefix("Slurm data: ").split(" ") for line in printed[:2])
    row = dict(zip(names, figures, strict=True))
    assert row["Ncpus"] == "4" and row["Cput"] == "200" and row["Walltime"] == "100"
    assert row["Mem"] == str(500 << 10) and row["Reqmem"] == str(1000 << 10)
    assert printed[3] == "Job ID: 1"


@pytest.mark.parametrize("job", ["99", "10_7", "1.0"])
@pytest.mark.parametrize("command", ["seff", "seff-array"])
def test_what_is_not_there(commands: Commands, command: str, job: str) -> None:
    printed = commands.run(command, job)
    assert (printed.code, printed.stdout) == (1, "")
    assert printed.stderr == "Job not found.\n"


@pytest.mark.parametrize("words", ["", "1 2", "1,2", "--no-such 1", "abc"])
@pytest.mark.parametrize("command", ["seff", "seff-array"])
def test_bad_words_are_refused(commands: Commands, command: str, words: str) -> None:
    printed = commands.run(command, *words.split())
    assert (printed.code, printed.stdout) == (1, "")
    assert "Usage: " in printed.stderr or "Bad job/step specified: abc" in printed.stderr


@pytest.mark.parametrize("command", ["seff", "seff-array"])
def test_a_command_tells_about_itself(commands: Commands, command: str) -> None:
    """-h and -v print on stdout and end with 0."""
    for word in ("-h", "--help"):
        told = commands.run(command, word)
        assert told.code == 0 and told.stdout.startswith(f"Usage: {command} ")
    for word in ("-v", "--version"):
        assert commands.run(command, word).stdout.startswith("slurm ")


def test_histograms_of_an_array(commands: Commands) -> None:
    """Tasks that have ended are in the tenth of their efficiency; others are only counted."""
    printed = commands.run("seff-array", "-c", "demo", "10")
    assert printed.code == 0
    assert "COMPLETED: 2\nPENDING: 1\n" in printed.stdout
    assert "Average CPU Efficiency: 37.50%" in printed.stdout
    cpu = printed.stdout.split("CPU Efficiency (%)")[1].split("Memory Efficiency")[0]
    full = [line.split()[0] for line in cpu.splitlines() if "[     1]" in line]
    assert full == ["20", "50"]
    assert commands.run("seff-array", "1").stdout == commands.run("seff", "1").stdout
    assert commands.run("seff-array", "-c", "mars", "10").code == 1


def test_gpus_have_lines_where_they_were_measured() -> None:
    """One busy GPU of two is half. Without gres/gpuutil in the usage nothing is said of GPUs."""
    job = {
        "job_id": 1, "array_job_id": 0, "het_job_id": 30, "het_job_offset": 1, "user": "", "uid": 5,
        "group": "", "gid": 6, "state": "COMPLETED", "exit_code": 0, "cpus_allocated": 1,
        "nodes_allocated": 1, "mem_mib": 0, "mem_is_per_cpu": 0, "start_us": SECOND,
        "end_us": 3 * SECOND, "suspended_us": SECOND, "suspend_start_us": 0,
        "tres_allocated": "cpu=1,gres/gpu=2,gres/gpu:h100=2",
    }  # fmt: skip
    step = {
        "tasks": 1, "user_cpu_us": 0, "system_cpu_us": 0,
        "tres_usage_in_ave": "cpu=1,gres/gpumem=5,gres/gpuutil=85",
        "tres_usage_in_tot": f"gres/gpumem={3 << 30},gres/gpuutil=85,mem={1 << 40}",
    }  # fmt: skip
    shown = lines(Efficiency(job, [step], 0), "demo")
    assert shown[:3] == ["Job ID: 1", "Het Job ID: 30+1", "Cluster: demo"]
    assert "User/Group: 5/6" in shown
    assert "Job Wall-clock time: 00:00:01" in shown
    assert "Memory Utilized: 1.00 TB" in shown
    assert "Memory Efficiency: 0.00% of 0.00 KB (0.00 KB/node)" in shown
    assert shown[-2:] == ["GPU Efficiency: 42.50%", "GPU Memory Utilized: 3.00 GB"]
    step |= {"tres_usage_in_ave": "", "tres_usage_in_tot": ""}
    assert not any("GPU" in line for line in lines(Efficiency(job, [step], 0), "d"))


def test_texts_of_times_and_memory() -> None:
    assert time_text(0) == "00:00:00" and time_text(342_734) == "3-23:12:14"
    assert memory_text(105_460) == "102.99 MB" and memory_text(2**53) == "8192.00 PB"


def test_an_array_without_time_limit(commands: Commands) -> None:
    assert "Requested Time: UNLIMITED" in commands.run("seff-array", "20").stdout
