"""What sattach says of words that it cannot use."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli import sattach

USAGE = "Usage: sattach [options] <jobid.stepid>"
NO_STEP = "sattach: error: Failed to parse stepid from command line options"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "sattach: error: too many parameters"),
        ("1.0 2.0", "sattach: error: too many parameters"),
        ("1", NO_STEP),
        ("abc", NO_STEP),
        ("1.x", "sattach: fatal: Bad step specified: 1"),
        ("--output-filter=x 1.0", 'sattach: error: Invalid numeric value "x" for output-filter.'),
        ("--input-filter=-1 1.0", 'sattach: error: Invalid numeric value "-1" for input-filter.'),
        ("--error-filter=1,2 1.0", 'sattach: error: Invalid numeric value "1,2" for error-filter.'),
        (
            "--error-filter 99999999999 1.0",
            "sattach: error: Numeric argument 99999999999 to big for error-filter.",
        ),
        (
            "--pty --output-filter=0 1.0",
            "sattach: error: don't specify both --pty and I/O filtering",
        ),
        ("--debugger-test 1.0", "sattach: error: --debugger-test is not supported yet"),
    ],
)
def test_wrong_words(words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Slurm 22.05's lines and exit code."""
    with pytest.raises(SystemExit) as end:
        sattach.main(words.split())
    assert end.value.code == 1
    printed = capsys.readouterr()
    assert printed.err == line + "\n"
    is_misused = "parameters" in line or line == NO_STEP
    assert printed.out == (f"{USAGE}\n" if is_misused else "")


def test_its_exit_code_for_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SLURM_EXIT_ERROR tells a script an error of Slurm from an exit code of its tasks."""
    monkeypatch.setenv("SLURM_EXIT_ERROR", "9")
    with pytest.raises(SystemExit) as end:
        sattach.main(["1"])
    assert end.value.code == 9
    assert capsys.readouterr().err == NO_STEP + "\n"
