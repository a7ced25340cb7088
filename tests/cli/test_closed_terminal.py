"""A command whose terminal has been closed."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from pyslurm_ng.cli.command import say


class ClosedTerminal(io.StringIO):
    """What a process has as its stderr when its terminal has gone."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_line_that_no_terminal_takes_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """salloc says that it gives its allocation back, and then has to do it."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    say("salloc: Relinquishing job allocation 5")
    monkeypatch.setattr(sys, "stderr", shown)
    say("salloc: more")
    assert shown.getvalue() == "salloc: more\n"
