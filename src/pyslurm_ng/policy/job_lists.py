"""What scripts see besides the request: partitions, and jobs and reservations on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pyslurm_ng.policy.messages import Row

Ask = Callable[[str, str, int], tuple[list[Row], int]]
"""Asks slurmctld for rows: a kind, a name or "", and the first id; returns where to go on."""


class Listing:
    """Jobs or reservations, by name; each is asked for once in a call."""

    def __init__(self, kind: str, key: str, ask: Ask) -> None:
        """`key` is the field of a row that is its name here."""
        self._kind = kind
        self._key = key
        self._ask = ask
        self._rows: dict[str, Row | None] = {}

    def get(self, name: str) -> Row | None:
        """Return one row, or None."""
        if name not in self._rows:
            rows, _ = self._ask(self._kind, name, 0)
            self._rows[name] = rows[0] if rows else None
        return self._rows[name]

    def names(self) -> Sequence[str]:
        """Return the names of all rows."""
        names = []
        first, is_over = 0, False
        while not is_over:
            rows, first = self._ask(self._kind, "", first)
            for row in rows:
                name = str(row[self._key])
                self._rows[name] = row
                names.append(name)
            is_over = not first
        return names


class Surroundings(Protocol):
    """What a plugin may look at while it decides."""

    partitions: dict[str, Row]
    hidden: frozenset[str]
    uid: int
    jobs: Listing
    reservations: Listing
    qos: Listing


def visible(surroundings: Surroundings) -> dict[str, Any]:
    """Return the partitions that the user may use, by name."""
    if not surroundings.hidden:
        return surroundings.partitions
    return {
        name: row
        for name, row in surroundings.partitions.items()
        if name not in surroundings.hidden
    }
