"""Users' texts for programs that a daemon runs: one line without control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LINE_BREAKS = str.maketrans(
    {"\0": "", **dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " ")}
)

_MOST_BYTES = 128 << 10  # of one variable: the kernel's MAX_ARG_STRLEN
_MOST_BYTES_OF_A_CHARACTER = 4

# Mail programs take a recipient that begins with one of -|/+. and the like for an option, a command
# to run, or a file to append to.
# Scripts hold `$USER@site` and `<your address>`, which name nobody and do no harm.
_RECIPIENT = re.compile(r"[\w$<][\w.@%+='~${}<>-]*")


def printable(text: str) -> str:
    """Return one line without control characters: a job's name must not add headers to a mail."""
    return "".join(char if char.isprintable() else "?" for char in text)


def program_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a prolog, epilog or mail program: each value is one line.

    NUL is removed. Line breaks become spaces: otherwise a comment could look like another variable
    to a careless script that reads the output of `env`. What the kernel takes of no variable is cut
    off: a comment of 200 KiB would be a prolog that cannot be run, and that drains its node.
    """
    return {
        name: _cut(value.translate(_LINE_BREAKS), _MOST_BYTES - len(name) - len("=\0"))
        for name, value in variables.items()
    }


def _cut(value: str, most_bytes: int) -> str:
    if len(value) <= most_bytes // _MOST_BYTES_OF_A_CHARACTER:
        return value
    encoded = value.encode("utf-8", "surrogateescape")
    return encoded[:most_bytes].decode("utf-8", "ignore") if len(encoded) > most_bytes else value


def are_recipients(text: str) -> bool:
    """Return whether a text is a list of user names and addresses, and nothing else to MailProg."""
    return all(_RECIPIENT.fullmatch(word) for word in re.split("[, ]+", text))
