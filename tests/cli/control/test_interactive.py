"""scontrol without a command reads commands from stdin; compared with Slurm 22.05."""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import queue
from tests.cli.run_command import Printed, run_command

WRONG = "invalid keyword: bogus\n"


def session(patch: pytest.MonkeyPatch, lines: str, *options: str) -> Printed:
    """Give lines to scontrol as root."""
    return run_command(patch, queue(), "root", ["scontrol", *options], lines)


def test_lines_of_a_file_are_shown_behind_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """So in the output of a script one sees which command printed what."""
    printed = session(monkeypatch, "show node nope\n")
    assert printed == Printed("scontrol: show node nope\nNode nope not found\nscontrol: \n", "", 1)


def test_a_command_that_fails_counts_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever follows works, the exit code is 1."""
    printed = session(monkeypatch, "bogus\nversion\nexit\n")
    assert (printed.stderr, printed.code) == (WRONG, 1)
    assert session(monkeypatch, "version\nquit\n").code == 0


def test_the_last_line_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a wrong line; without a line before, it fails without a message."""
    assert session(monkeypatch, "bogus\n!!\n").stderr == WRONG * 2
    assert session(monkeypatch, "!!\nexit\n") == Printed("scontrol: !!\nscontrol: exit\n", "", 1)


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_a_word_behind_the_end(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ends nevertheless."""
    printed = session(monkeypatch, f"{word} now\nbogus\n")
    text = f"too many arguments for keyword:{word}\n"
    assert printed == Printed(f"scontrol: {word} now\n", text, 1)


def test_a_repetition_is_no_command_of_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", "!!"])
    assert printed == Printed("", "invalid keyword: !!\n", 1)


def test_options_hold_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With -Q only the exit code tells that a word is no command."""
    printed = session(monkeypatch, "bogus\n", "-Q")
    assert (printed.stderr, printed.code) == ("", 1)
