"""Options of looking and steering commands that no recording has."""

from __future__ import annotations

import importlib

import pytest

from pyslurm_ng.cli.listing.job_columns import Context, _min_memory
from pyslurm_ng.cli.option_words import REQUIRED
from pyslurm_ng.cli.program import Program
from pyslurm_ng.cli.submit.options import Options
from tests.cli.reference_cluster import queue
from tests.cli.run_command import run_command

LOOKING = (
    "sacct sacctmgr sattach sbcast scancel scontrol scrontab sdiag sinfo sprio squeue sreport "
    "sshare sstat strigger"
).split()
EVERY_JOB = "22 32 24 25 27_[0-9%2] 30+1 30+0 29 26 17 33 28 23 21"


def shown(patch: pytest.MonkeyPatch, line: str) -> list[str]:
    """Return what a command without an error prints, a word for each line."""
    printed = run_command(patch, queue(), "alice", line.split())
    assert (printed.code, printed.stderr) == (0, "")
    return printed.stdout.split()


@pytest.mark.parametrize("name", LOOKING)
def test_a_command_tells_about_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help, --usage, --version and --autocomplete print on stdout and end with 0."""
    program = importlib.import_module(f"pyslurm_ng.cli.{name}").PROGRAM
    assert isinstance(program, Program)
    told = {}
    for word in ("help", "usage", "version", "autocomplete"):
        if word in program.by_name:
            with pytest.raises(SystemExit) as end:
                program.read([f"--{word}" if word != "autocomplete" else "--autocomplete=--ver"])
            printed = capsys.readouterr()
            assert end.value.code == 0 and not printed.err
            told[word] = printed.out
    assert "--version" in told["help"] and name in told["help"]
    assert told["version"].startswith("slurm ")
    assert name in told.get("usage", name)
    assert "--version" in told.get("autocomplete", "--version")


@pytest.mark.parametrize("name", ["sbatch", "salloc", "srun"])
def test_help_and_version_of_what_submits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help and --version, --usage."""
    module = importlib.import_module("pyslurm_ng.cli.submit.submission")
    for word, text in (("help", "--account"), ("usage", name), ("version", "slurm ")):
        options = Options(name)
        pairs, _ = options.split_words([f"--{word}"])
        assert module.announce(options, pairs)
        assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ("--accounts=physics", "22 32 25 27_[0-9%2] 29 26 17 28 21"),
        ("--name=big", "24"),
        ("--qos=low", "25"),
        ("--notme", "24 25 30+1 30+0 33 23"),
        ("--running-under=1", "22 23 21"),
        ("--running-over=1", ""),
        ("--licenses=matlab", ""),
        ("--reservation=maint", ""),
    ],
)
def test_squeue_shows_only(words: str, jobs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of these accounts, names, QOS, users, run times, licences, reservations."""
    assert shown(monkeypatch, f"squeue -h -o %i {words}") == jobs.split()


def test_squeue_shows_states_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """--only-job-state: a number and a state for each job."""
    words = shown(monkeypatch, "squeue -h --only-job-state")
    assert words[:4] == ["22", "R", "32", "PD"] and len(words) == 2 * len(EVERY_JOB.split())


def test_squeue_says_what_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """--verbose lists the options before the jobs."""
    printed = run_command(monkeypatch, queue(), "alice", "squeue --verbose -h -o %i".split())
    options, _, jobs = printed.stdout.partition(" records=14\n")
    assert "format      = %i\n" in options and jobs.split() == EVERY_JOB.split()


def test_noconvert_leaves_megabytes() -> None:
    """squeue --noconvert: 64000M, not 62.50G."""
    for is_raw, text in ((False, "62.50G"), (True, "64000M")):
        context = Context(0, "demo", is_raw=is_raw)
        assert _min_memory(context, [0], [64000]) == [text]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("squeue --helpformat", "%i:"),
        ("squeue --helpFormat", "accruetime"),
        ("squeue --helpstate", "pending"),
        ("sinfo --helpformat", "%a:"),
        ("sinfo --helpFormat", "allocmem"),
        ("sinfo --helpstate", "idle"),
        ("sprio --helpformat", "%i"),
        ("sacct --helpformat", "JobID"),
        ("sacct --help-fields", "JobID"),
        ("sacct --helpstate", "COMPLETED"),
        ("sacct --helpreason", "Priority"),
        ("sshare --helpformat", "EffectvUsage"),
        ("sstat --helpformat", "AveCPU"),
    ],
)
def test_lists_of_words(line: str, some: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word.lower() for word in shown(monkeypatch, line)]
    assert some.lower() in words


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("scontrol errnumstr 2000", "Invalid partition name specified"),
        ("scontrol version", "slurm 26.11"),
        ("scontrol help", "scontrol [<OPTION>]"),
        ("scontrol show bbstat", ""),
        ("scontrol show burstbuffer", ""),
        ("scontrol show dwstat", ""),
    ],
)
def test_scontrol_answers(line: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "root", line.split())
    assert printed.code == 0 and printed.stdout.startswith(text)


@pytest.mark.parametrize("name", ["sreport", "sstat"])
def test_options_without_effect_are_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts go on, and their users see a line."""
    module = importlib.import_module(f"pyslurm_ng.cli.{name}")
    for option in module.NO_EFFECT:
        takes_one = module.PROGRAM.by_name[option][2] == REQUIRED
        options, _ = module.PROGRAM.read([f"--{option}=1" if takes_one else f"--{option}"])
        assert module.PROGRAM.same.get(option, option) in options
        said = capsys.readouterr().err
        option = module.PROGRAM.same.get(option, option)
        assert said == f"{name}: --{option} has no effect in pyslurm-ng yet\n"


@pytest.mark.parametrize("words", ["abort", "getent", "listjobs"])
def test_what_scontrol_cannot_do_is_refused(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", *words.split()])
    assert printed.code == 1 and "is not supported yet" in printed.stderr


@pytest.mark.parametrize("name", ["squeue", "sinfo", "scontrol", "sdiag"])
def test_data_parsers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the version that there is: --json=list names it, another is refused."""
    program = importlib.import_module(f"pyslurm_ng.cli.{name}").PROGRAM
    for option in ("--json", "--yaml"):
        with pytest.raises(SystemExit) as end:
            program.read([f"{option}=list"])
        assert end.value.code == 0 and "data_parser/v0.0.46" in capsys.readouterr().out
        with pytest.raises(SystemExit) as end:
            program.read([f"{option}=v0.0.40"])
        assert end.value.code == 1
        allowed = "no such data_parser; v0.0.43 to v0.0.46 are allowed\n"
        assert capsys.readouterr().err.endswith(allowed)
