"""What every looking and steering command does with its command line."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyslurm_ng.cli import (
    option_words,
    sacct,
    sacctmgr,
    sattach,
    sbcast,
    scancel,
    scontrol,
    sdiag,
    sinfo,
    sprio,
    squeue,
    sstat,
)
from pyslurm_ng.cli.control import show
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED, UsageError, split_words
from pyslurm_ng.cli.program import OptionValues, Program, repeat

PROGRAMS = [
    module.PROGRAM
    for module in (
        sacct,
        sacctmgr,
        sattach,
        sbcast,
        scancel,
        scontrol,
        sdiag,
        sinfo,
        sprio,
        squeue,
        sstat,
    )
]
ROWS = (
    ("all", "a", NONE),
    ("format", "o", REQUIRED),
    ("json", "", OPTIONAL),
    ("jobs", "j", OPTIONAL),
)
BY_NAME = {row[0]: row for row in ROWS}
BY_LETTER = {row[1]: row for row in ROWS if row[1]}


@pytest.mark.parametrize(
    ("words", "options", "operands"),
    [
        ("-ao x y", [("all", None), ("format", "x")], ["y"]),
        ("y --format=x -a", [("format", "x"), ("all", None)], ["y"]),
        ("--form x --json --json=z", [("format", "x"), ("json", None), ("json", "z")], []),
        ("-j5 -j 5", [("jobs", "5"), ("jobs", None)], ["5"]),
        ("-a -- -a", [("all", None)], ["-a"]),
        ("- -a", [("all", None)], ["-"]),
    ],
)
def test_words_are_split_by_the_rules_of_getopt(
    words: str, options: list[tuple[str, str | None]], operands: list[str]
) -> None:
    """Options and operands may alternate where a command says so."""
    assert split_words(words.split(), BY_NAME, BY_LETTER, mixed=True) == (options, operands)


def test_the_first_operand_ends_the_options_of_a_launcher() -> None:
    """`srun -a prog -a` gives the second -a to the program."""
    assert split_words(["-a", "prog", "-a"], BY_NAME, BY_LETTER) == (
        [("all", None)],
        ["prog", "-a"],
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--all=1", "option '--all' doesn't allow an argument"),
        ("--format", "option '--format' requires an argument"),
        ("-o", "option requires an argument -- 'o'"),
        ("-x", "invalid option -- 'x'"),
        ("--x=1", "unrecognized option '--x=1'"),
        ("--=1", "unrecognized option '--=1'"),
        ("--j", "option '--j' is ambiguous; possibilities: '--json' '--jobs'"),
    ],
)
def test_errors_have_the_words_of_getopt(words: str, text: str) -> None:
    """Users and scripts know these texts."""
    with pytest.raises(UsageError) as problem:
        split_words(words.split(), BY_NAME, BY_LETTER, mixed=True)
    assert str(problem.value) == text


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_texts_are_answered_without_a_daemon(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """--help, --usage, --version and --autocomplete print on stdout and end with 0."""
    for word in ("--help", "--usage", "--version", "--autocomplete=--ver"):
        with pytest.raises(SystemExit) as end:
            program.read([word])
        printed = capsys.readouterr()
        assert end.value.code == 0
        assert printed.out.strip() and not printed.err
    assert printed.out.splitlines() == ["--verbose", "--version"] or program.name == "sdiag"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_help_says_what_each_option_is_for(program: Program) -> None:
    """Once, under the name that users know, with its letter; what is refused is not offered."""
    listed = program.option_list()
    for name, letter, _ in program.by_name.values():
        other = program.same.get(name, name)
        is_shown = other not in program.refused and name != "autocomplete"
        assert (f"--{other} " in listed or f"--{other}=" in listed or f"--{other}[=" in listed) is (
            is_shown
        )
        assert not letter or not is_shown or f"-{letter}, --{other}" in listed


def test_scontrols_help_names_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Its commands and what it shows, except second names and burst buffers."""
    with pytest.raises(SystemExit):
        scontrol.PROGRAM.read(["--help"])
    heads = re.findall(r"^ {2}([\w!]+)", capsys.readouterr().out, re.MULTILINE)
    named = {word.rstrip("s") for word in heads}
    modes = set("all cluster details hide oneliner quiet verbose holdu !!".split())
    commands = set(scontrol.COMMANDS) - set(scontrol.REFUSED_COMMANDS) - modes
    shown = set(show.ENTITIES) - set(show.REFUSED_ENTITIES) - {"bbstat", "burstbuffer", "dwstat"}
    assert not {word for word in commands | shown if word.rstrip("s") not in named}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_an_unknown_option_points_to_help(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two lines and 1, as the recorded commands do it; two, as in Slurm 22.05, have no hint."""
    with pytest.raises(SystemExit) as end:
        program.read(["--frob"])
    printed = capsys.readouterr()
    assert end.value.code == 1
    hint = f'Try "{program.name} --help" for more information\n'
    shown_hint = "" if program.name in ("sacct", "sstat") else hint
    assert printed.err == f"{program.name}: unrecognized option '--frob'\n{shown_hint}"


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if "json" in p.by_name], ids=lambda p: p.name
)
def test_a_layout_of_documents_that_is_not_there_is_named(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """--json=list tells the one there is; any other is refused."""
    with pytest.raises(SystemExit):
        program.read(["--json=list"])
    layout = capsys.readouterr().out.splitlines()[1].removeprefix("data_parser/")
    assert program.read([f"--json={layout}"])[0]["json"] == layout
    with pytest.raises(SystemExit) as end:
        program.read(["--json=v0.0.1"])
    assert end.value.code == 1
    assert layout in capsys.readouterr().err


def test_suggestions_end_with_an_equals_sign_where_a_value_must_follow() -> None:
    """So a shell knows whether to put a blank behind."""
    assert option_words.suggestions("--", BY_NAME) == "--all\n--format=\n--jobs\n--json\n"
    assert option_words.suggestions("--fo", BY_NAME) == "--format=\n"


@pytest.mark.parametrize("module", [squeue, sprio, sinfo, scontrol])
def test_federation_switches_change_nothing_without_a_federation(module: ModuleType) -> None:
    """As in Slurm."""
    words = ["--federation", "--local"]
    options, operands = module.PROGRAM.read(words)
    assert set(options) == {"federation", "local"} and not operands


def test_a_cluster_that_nobody_knows_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line each; this cluster beside it in the list is shown all the same."""
    (tmp_path / "slurm.conf").write_text("ClusterName=demo\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    demo = {"ClusterName": "demo"}
    with pytest.raises(SystemExit) as end:
        squeue.PROGRAM.clusters(OptionValues(clusters="mars"), demo)
    assert end.value.code == 1
    unknown = "squeue: error: No cluster 'mars' known by database.\n"
    said = capsys.readouterr().err
    assert said.startswith(unknown + "squeue: error: 'mars' can't be reached now, or it is an ")
    assert squeue.PROGRAM.clusters(OptionValues(clusters="demo,mars"), demo) == [demo]
    assert capsys.readouterr().err == unknown
    assert squeue.PROGRAM.clusters(OptionValues(clusters="Demo,all"), demo) == [demo]
    assert capsys.readouterr().err == ""


# Slurm lists the options of these commands under another heading.
ACCOUNTING_HEADS = {
    "sacct": "[<OPTION>]",
    "sacctmgr": "[<OPTION>] [<COMMAND>]",
    "scontrol": "[<OPTION>] [<COMMAND>]",
    "sreport": "[<OPTION>] [<COMMAND>]",
    "sstat": "[<OPTION>] -j <job(.stepid)>",
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_help_begins_as_slurms(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    """--help names the command and its operands, and the options follow under that line."""
    with pytest.raises(SystemExit):
        program.read(["--help"])
    text = capsys.readouterr().out
    if program.name in ACCOUNTING_HEADS:
        assert text.startswith(
            f"{program.name} {ACCOUNTING_HEADS[program.name]}\n\nValid <OPTION> "
        )
    else:
        assert text.startswith(f"Usage: {program.name} [OPTIONS]")
        assert text.splitlines()[1].lstrip().startswith("-")


BRACKETED = ("sattach", "sbcast", "scancel", "sdiag", "sinfo", "sprio", "squeue")
OPERANDS = {
    "sattach": "<jobid.stepid>",
    "sbcast": "SOURCE DEST",
    "scancel": "[job_id[_array_id][.step_id]]",
}


@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program.name in BRACKETED],
    ids=lambda program: program.name,
)
def test_usage_has_each_option_in_brackets(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tools split --usage at brackets: between them are blanks only, and the operands end it."""
    with pytest.raises(SystemExit):
        program.read(["--usage"])
    usage = " ".join(capsys.readouterr().out.split())
    head, operands = f"Usage: {program.name} [", OPERANDS.get(program.name, "")
    assert usage.startswith(head) and usage.endswith(operands)
    depth, outside = 0, ""
    for letter in usage.removeprefix(head[:-1]).removesuffix(operands):
        depth += (letter == "[") - (letter == "]")
        outside += letter if depth == 0 and letter != "]" else ""
    assert outside.strip() == ""


def test_help_lists_the_commands_that_work() -> None:
    """`scontrol help` and `sacctmgr help` list each command with its syntax, and no refused one."""
    from pyslurm_ng.cli import sacctmgr, scontrol
    from pyslurm_ng.cli.command_texts import COMMANDS

    for name, known, refused in (
        ("scontrol", scontrol.COMMANDS, scontrol.REFUSED_COMMANDS),
        ("sacctmgr", [word for word, _ in sacctmgr.VERBS], sacctmgr.NOT_YET),
    ):
        listed = {syntax.split()[0] for syntax, _ in COMMANDS[name]}
        assert not listed & set(refused)
        assert {"help", "version"} <= listed
        switches = {"associations", "exit", "help", "oneliner", "parsable", "readonly", "verbose"}
        assert listed - switches - {"!!"} <= set(known)
    assert ("requeuehold [Incomplete] [State=SpecialExit] <job_list>") in dict(COMMANDS["scontrol"])


@pytest.mark.parametrize(("words", "is_dated"), [((), True), (("noheader",), False)])
def test_iterate_shows_the_time_with_the_heading(
    words: tuple[str, ...], is_dated: bool, capsys: Any, monkeypatch: Any
) -> None:
    """Who reads rows without a heading must not meet a line with the time, either."""
    monkeypatch.setattr("time.sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    options = OptionValues({"iterate": "1", **dict.fromkeys(words, "")})
    with pytest.raises(KeyboardInterrupt):
        repeat("squeue", options, lambda: print("row") or 0)
    lines = capsys.readouterr().out.split("\n")
    assert lines[-3:] == ["row", "", ""]
    assert len(lines) == 3 + is_dated
