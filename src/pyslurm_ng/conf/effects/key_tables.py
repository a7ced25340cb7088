"""The types in which the tables of effects are written."""

from __future__ import annotations

from typing import NamedTuple


class Keys(NamedTuple):
    """The keys of a file or kind of line. A key that is in none of the four has no effect yet.

    Attributes:
        same: work as Slurm's manual says.
        differs: work, but not quite as in Slurm, with the difference.
        accepted: have no effect, with the reason.
        refused: promise separation, safety or a limit that is not kept, with what to do instead.
    """

    same: frozenset[str]
    differs: dict[str, str] = {}
    accepted: dict[str, str] = {}
    refused: dict[str, str] = {}


class Words(NamedTuple):
    """The words of one key, in lower case, with the same attributes as `Keys`."""

    same: frozenset[str]
    differs: dict[str, str] = {}
    accepted: dict[str, str] = {}
    refused: dict[str, str] = {}


def named(text: str) -> frozenset[str]:
    """Return the words of a text, for tables that are easy to read."""
    return frozenset(text.split())
