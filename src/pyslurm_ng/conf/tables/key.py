"""The types of the generated tables."""

from __future__ import annotations

from typing import NamedTuple

from pyslurm_ng.base.numbers import NO_VAL


class Key(NamedTuple):
    """One key of a configuration file.

    `default` is in the file's own notation, empty where a missing key leaves the value empty.
    `low` and `high` bound numbers; `infinite` allows UNLIMITED and INFINITE beside them. `choices`
    are the words of enums, lists and plugins; empty means any.
    """

    name: str
    attribute: str
    kind: str
    default: str
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = NO_VAL - 1
    infinite: bool = False
    needs_restart: bool = False
    tier: int = 1
    help: str = ""


class ControllerHost(NamedTuple):
    """One SlurmctldHost: the name, and the address that replaces it on the wire (or "")."""

    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.name}({self.address})" if self.address else self.name
