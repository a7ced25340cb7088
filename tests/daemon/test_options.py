"""What slurmctld and slurmd read off their command lines alike."""

from __future__ import annotations

import pytest

from pyslurm_ng.daemon.options import CommandLine, read_command_line


def options(*argv: str) -> CommandLine | int:
    return read_command_line("slurmd", list(argv), "hn:vV", ["help", "version"], "Usage: slurmd\n")


@pytest.mark.parametrize(
    ("words", "number"),
    [((), 0), (("-n", "-20"), -20), (("-n19",), 19), (("-n", "20"), None), (("-n", "--5"), None),
     (("-n", ""), None), (("-n", "low"), None)],
)  # fmt: skip
def test_a_niceness_is_one_that_the_kernel_knows(
    words: tuple[str, ...], number: int | None
) -> None:
    command_line = options(*words)
    assert isinstance(command_line, CommandLine)
    assert command_line.niceness() == number


def test_options_keep_their_order_and_operands_are_told_apart() -> None:
    assert options("-v", "-n", "1", "-v", "-n2", "word") == CommandLine(
        ["-v", "-n", "-v", "-n"], {"-v": "", "-n": "2"}, ["word"]
    )


def test_a_wrong_option_is_one_line_before_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert options("-x") == 1
    assert capsys.readouterr().err == "slurmd: invalid option -- 'x'\nUsage: slurmd\n"
    assert options("--help") == 0
    assert capsys.readouterr().out == "Usage: slurmd\n"
