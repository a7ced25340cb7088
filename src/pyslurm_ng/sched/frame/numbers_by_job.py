"""Numbers of jobs, by id: what a pass finds out of each of a long queue."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from pyslurm_ng._select import NumbersKept


class NumbersByJob(NumbersKept, MutableMapping[int, int]):
    """A dict without an order, at a quarter of the size."""

    __slots__ = ()

    def __init__(self, entries: Mapping[int, int] | None = None) -> None:
        """Begin with some entries, or none."""
        self.update(entries or {})

    def __repr__(self) -> str:
        return f"NumbersByJob({dict(self)})"
