"""swait's own texts; what it waits for is in tests/daemons/test_step_manager.py."""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.cli import swait
from pyslurm_ng.wire.client import SlurmError


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (
            "--usage",
            "Usage: swait [-hQvV] [--timeout=SECS] [--usage] [<jobid>[_<task>] | s",
        ),
        ("--autocomplete=--t", "--timeout"),
        ("--version", "slurm "),
        ("--help", "Usage: swait [OPTIONS] [<jobid>[_<task>] | s<sluid>]\n"),
    ],
)
def test_texts(word: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--usage is the recorded one of Slurm 26.11, --help says what each option is for."""
    with pytest.raises(SystemExit) as end:
        swait.main([word])
    shown = capsys.readouterr().out
    assert not end.value.code and shown.startswith(text)
    assert word != "--help" or "--timeout=SECS" in shown


class _Late:
    """A step manager whose steps do not end."""

    def begin(self, kind: str, fields: dict[str, Any]) -> int:
        assert (kind, fields["job_id"]) == ("WaitSteps", 7)
        return 1

    def receive(self, timeout_s: float) -> None:
        raise SlurmError(Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT, "Socket timed out")


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("--verbose", ["swait: waiting for the steps of JobId=7",
                       "swait: error: steps of JobId=7 still run or wait after 0 s"]),
        ("--quiet", []),
    ],
)  # fmt: skip
def test_how_much_it_says(
    word: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--quiet leaves the exit code alone to tell that the time is over."""
    from pyslurm_ng.cli.step import step_manager

    monkeypatch.setattr(swait, "read_conf", lambda name: {})
    monkeypatch.setattr(swait, "connect", lambda conf: None)
    monkeypatch.setattr(swait, "_job_of", lambda client, text: 7)
    monkeypatch.setattr(step_manager, "manager_of", lambda *words: _Late())
    assert swait.main([word, "--timeout=0", "7"]) == 1
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize("words", [["1", "2"], ["--timeout=x", "1"], []])
def test_misuse(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, with a line that says what is wrong."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(SystemExit) as end:
        swait.main(words)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("swait: error: ")
