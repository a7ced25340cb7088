"""The obvious twin of `_select.Grid`: every slot and node looked at for every question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NEVER = -1


@dataclass
class SlowGrid:
    """Free amounts per node, resource and slot; `amounts` are per node and resource."""

    times_us: Sequence[int]
    amounts: Sequence[Sequence[int]]
    free: list[list[list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [[[amount] * len(self.times_us) for amount in node] for node in self.amounts]

    def end(self, slot: int, duration_us: int) -> int:
        """Return the first slot after a job that begins in `slot`."""
        end_us = self.times_us[slot] + duration_us
        later = [index for index, time_us in enumerate(self.times_us) if time_us >= end_us]
        return max(slot + 1, later[0] if later else len(self.times_us))

    def hold(self, node: int, resource: int, amount: int, start: int, end: int) -> None:
        """Take an amount over slots."""
        for slot in range(start, end):
            self.free[node][resource][slot] -= amount

    def fits(self, node: int, amounts: dict[int, int], start: int, end: int) -> bool:
        """Return whether a node has everything wanted in all slots."""
        return all(
            amount <= 0 or self.free[node][resource][slot] >= amount
            for slot in range(start, end)
            for resource, amount in amounts.items()
        )

    def find(
        self,
        nodes: Sequence[int],
        count: int,
        amounts: dict[int, int],
        duration_us: int,
        first: int = 0,
    ) -> tuple[int, list[int]]:
        """Return the first slot from `first` on at which enough nodes fit, and all that do."""
        for slot in range(first, len(self.times_us)):
            end = self.end(slot, duration_us)
            fitting = [node for node in nodes if self.fits(node, amounts, slot, end)]
            if len(fitting) >= count:
                return slot, fitting
        return NEVER, []

    def tasks(
        self, node: int, first: dict[int, int], more: dict[int, int], start: int, end: int
    ) -> int:
        """Return how many tasks a node can hold in some slots: one, and one more at a time."""
        count, amounts = 0, dict(first)
        while self.fits(node, amounts, start, end):
            count += 1
            amounts = {key: amount + more[key] for key, amount in amounts.items()}
        return count
