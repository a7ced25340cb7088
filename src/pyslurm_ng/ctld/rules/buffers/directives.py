"""What jobs ask of burst buffers: `#BB_LUA` lines of a script, and --bb.

Source: Slurm's burst_buffer.html, and what a running Slurm 22.05 makes of such lines.
"""

from __future__ import annotations

import re

from msgspec import Struct

LUA = "burst_buffer/lua"
"""The BurstBufferType that calls functions of burst_buffer.lua."""
_NUMBER = re.compile(r"([0-9]{1,18})([A-Za-z]*)", re.ASCII)
_UNITS = {
    "": 1, "n": 1,
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtp", 1)
       for end in ("", "ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", 1)},
}  # fmt: skip
_LARGEST = 2**63 - 1


class DirectiveError(Exception):
    """A directive with a value that is none; the text names it."""


class Wanted(Struct, frozen=True):
    """The pool that a job wants room of, "" for none, and how much."""

    pool: str = ""
    size: int = 0


def lines_of(option: str, script: bytes, directive: str) -> str:
    """Return a job's directives: those of --bb, then those above the script's first command.

    As in Slurm 22.05, other lines of --bb are left out, and a line may go on behind the directive's
    name without a blank.
    """
    first_letters = f"#{directive}"
    lines = [line for line in option.splitlines() if line.startswith(first_letters)]
    for raw_line in script.split(b"\n"):
        if raw_line.strip() and not raw_line.lstrip().startswith(b"#"):
            break
        if raw_line.startswith(first_letters.encode()):
            lines.append(raw_line.decode("utf-8", "replace").rstrip())
    return "\n".join(lines)


def wanted(lines: str) -> Wanted:
    """Return what directives say of a pool; what else they say is the site's functions' business.

    Raises:
        DirectiveError: a capacity is none.
    """
    pool, size = "", 0
    for word in lines.split():
        key, _, value = word.partition("=")
        if key == "pool":
            pool = value
        elif key == "capacity":
            size = _capacity(value)
    if pool and not size:
        return Wanted()  # as in Slurm: without a capacity nothing is taken
    if size and not pool:
        raise DirectiveError("capacity needs pool, the name of the pool")
    return Wanted(pool, size)


def _capacity(text: str) -> int:
    match = _NUMBER.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match is not None else None
    if match is None or unit is None or int(match[1]) * unit > _LARGEST:
        raise DirectiveError(
            f"capacity={text[:64]}: a number is allowed, with N, K, KiB, KB and so on up to P"
        )
    return int(match[1]) * int(unit)


def rounded(size: int, granularity: int) -> int:
    """Return the least multiple of a pool's granularity that holds a size."""
    return -(-size // granularity) * granularity
