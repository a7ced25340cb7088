"""The command lines of daemons."""

from __future__ import annotations

import getopt
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from pyslurm_ng import SLURM_VERSION


class CommandLine(NamedTuple):
    """The options of a command line in their order, and the words that are not options."""

    names: list[str]  # as typed; -v -v is there twice
    values: dict[str, str]  # if an option is there twice, the last value
    operands: list[str]

    def niceness(self) -> int | None:
        """Return the number of -n, 0 without -n; None if it is no niceness."""
        text = self.values.get("-n", "0")
        if not re.fullmatch(r"-?\d{1,2}", text) or not -20 <= int(text) <= 19:
            return None
        return int(text)


def read_command_line(
    program: str, argv: list[str], short: str, long: Sequence[str], usage: str
) -> CommandLine | int:
    """Return a command line, or the exit code if it asks for help or is wrong."""
    try:
        pairs, operands = getopt.gnu_getopt(argv, short, list(long))
    except getopt.GetoptError as error:
        sys.stderr.write(f"{program}: {complaint(error)}\n{usage}")
        return 1
    line = CommandLine([name for name, _ in pairs], dict(pairs), operands)
    if "-h" in line.names or "--help" in line.names:
        sys.stdout.write(usage)
        return 0
    if "-V" in line.names or "--version" in line.names:
        sys.stdout.write(f"slurm {SLURM_VERSION}\n")
        return 0
    return line


def complaint(error: getopt.GetoptError) -> str:
    """Return the C library's text about a wrong option."""
    is_missing = "requires argument" in error.msg
    if len(error.opt) == 1:
        text = "option requires an argument" if is_missing else "invalid option"
        return f"{text} -- '{error.opt}'"
    return f"unrecognized option '--{error.opt}'" if not is_missing else error.msg
