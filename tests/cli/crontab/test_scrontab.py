"""What scrontab prints, and what it does with files and an editor."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed, run_command

TABLE = "@daily tell\n"


class Asked:
    """A cluster with crontabs, and a user."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reference: ReferenceCluster = queue()
        self.reference.conf = replace(
            self.reference.conf,
            scron_parameters=("enable",),
            accounting_storage_enforce=(),
        )
        self._patch = patch

    def __call__(self, *words: str, stdin: str = "", enabled: str = "enable") -> Printed:
        keys = {"ScronParameters": enabled}
        return run_command(self._patch, self.reference, "alice", ["scrontab", *words], stdin, keys)


@pytest.fixture
def scrontab(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def editor(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_disabled(scrontab: Asked) -> None:
    """As recorded from Slurm 26.11."""
    ended = scrontab("-l", enabled="")
    assert (ended.code, ended.stdout) == (1, "")
    assert ended.stderr == "scrontab: fatal: scrontab is disabled on this cluster\n"


def test_a_listing_commands_no_terminal(scrontab: Asked) -> None:
    """An administrator lists the crontabs of users."""
    text = "# \x1b[2J\x1b]0;root\x07\t\x9b31m\n" + TABLE
    assert scrontab("-", stdin=text).code == 0
    assert scrontab("-l", "-u", "alice").stdout == "# ?[2J?]0;root?\t?31m\n" + TABLE


def test_a_file_is_stored_listed_and_removed(scrontab: Asked, tmp_path: Path) -> None:
    """What is listed is what was stored."""
    (tmp_path / "table").write_text(TABLE)
    assert scrontab(str(tmp_path / "table")) == Printed("", "", 0)
    assert scrontab("-v", "-", stdin=TABLE).stderr.startswith("scrontab: line 1: job ")
    assert scrontab("-l") == Printed(TABLE, "", 0)
    assert scrontab("-l", "-u", "alice").stdout == TABLE
    assert scrontab("-r") == Printed("", "", 0)
    assert scrontab("-l") == Printed("", "scrontab: no crontab for alice\n", 1)


def test_who_may_have_which_crontab(scrontab: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others' crontabs are listed for operators, and edited by root only."""
    assert "Access/permission denied" in scrontab("-l", "-u", "bob").stderr

    def no_right(*words: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "initgroups", no_right)
    ended = scrontab("-r", "-u", "bob")
    assert "Only root can edit the crontabs of other users" in ended.stderr
    assert ended.code == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "a file is needed, - for the standard input, or -e, -l or -r"),
        (("-l", "-r"), "one of -e, -l, -r and a file is allowed"),
        (("-e", "table"), "one of -e, -l, -r and a file is allowed"),
        (("/nowhere",), "/nowhere: No such file or directory"),
    ],
)
def test_wrong_words(scrontab: Asked, words: tuple[str, ...], line: str) -> None:
    """Nothing is asked of the controller."""
    ended = scrontab(*words)
    assert (ended.code, line in ended.stderr) == (1, True), ended


def test_editing(scrontab: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor gets the crontab, or an example; what it leaves behind is stored."""
    seen = tmp_path / "seen"
    monkeypatch.setenv("VISUAL", editor(tmp_path / "ed", f'cp "$1" {seen}; echo "{TABLE}" >"$1"'))
    assert scrontab("-e").code == 0
    assert "@hourly" in seen.read_text()
    assert scrontab("-l").stdout.startswith(TABLE)
    monkeypatch.setenv("VISUAL", "true")
    assert scrontab("-e") == Printed("", "scrontab: no changes made to crontab\n", 0)
    monkeypatch.setenv("VISUAL", "false")
    assert scrontab("-e").code == 1
    assert scrontab("-l").stdout.startswith(TABLE)


def test_wrong_lines_may_be_edited_again(
    scrontab: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are comments then, and so nothing is lost."""
    monkeypatch.setenv("EDITOR", editor(tmp_path / "ed", 'echo "99 * * * * work" >>"$1"'))
    monkeypatch.delenv("VISUAL", raising=False)
    ended = scrontab("-e", stdin="x\ny\nn\n")
    assert ended.code == 1
    assert ended.stdout.count("Do you want to retry the edit? (y/n) ") == 3
    assert ended.stderr.count("minute: 99: 0 to 59 are allowed") == 2
    assert "#BAD:" in ended.stderr
