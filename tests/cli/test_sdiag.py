"""sdiag prints Slurm's sections and labels with counters of our own."""

from __future__ import annotations

import re

import pytest

from tests.cli.reference_cluster import cases, queue
from tests.cli.run_command import run_command


def labels(text: str) -> list[str]:
    """Return the lines without numbers, dates and the calls that happened to be made."""
    lines = text.partition("Remote Procedure Call")[0].splitlines()
    return [re.sub(r"[ :]*(N/A|\w{3} \w{3} .*|\d+( microseconds)?)$", "", line) for line in lines]


def test_same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every label of Slurm's, except the latency of a system call that we do not measure."""
    case = next(case for case in cases("sdiag") if case[0] == "default")
    reference = queue()
    reference.soft.count_call("ShowJobs", 1001, 60)
    printed = run_command(monkeypatch, reference, "root", case[2])
    theirs = [line for line in labels(case[3]) if not line.startswith("Late")]
    ours = [line for line in labels(printed.stdout) if line]
    assert ours == [line for line in theirs if line]
    assert re.search(r"ShowJobs +\( +\d+\) count:1 +ave_time:60 +total_time:60", printed.stdout)
    assert "Jobs pending:   20" in printed.stdout


def test_reset_needs_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may look, operators may reset."""
    case = next(case for case in cases("sdiag") if case[0] == "reset_not_admin")
    printed = run_command(monkeypatch, queue(), "alice", case[2])
    assert (printed.stdout, printed.stderr, printed.code) == case[3:]
