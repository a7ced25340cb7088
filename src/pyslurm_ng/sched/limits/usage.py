"""What associations and QOS have used: TRES-seconds and wall seconds that fade with time.

Decay is arithmetic at reading time; nothing runs to bring it about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pyslurm_ng.base.numbers import SECOND_US

_LN2 = 0.693  # as Slurm rounds it
OwnerKey: TypeAlias = tuple[str, int | str]  # ("assoc", id) or ("qos", name)


@dataclass(slots=True)
class Spent:
    """Usage of one owner: wall seconds, and TRES-seconds by name."""

    wall_s: float = 0.0
    tres_s: dict[str, float] = field(default_factory=dict)

    def add(self, wall_s: float, amounts: Mapping[str, float], run_s: float) -> None:
        """Add a run of `run_s` seconds on these amounts."""
        self.wall_s += wall_s
        for name, count in amounts.items():
            self.tres_s[name] = self.tres_s.get(name, 0.0) + count * run_s

    def less(self, other: Spent) -> Spent:
        """Return what is left without the usage of another owner, nothing below zero."""
        tres_s = {
            name: max(0.0, used - other.tres_s.get(name, 0.0)) for name, used in self.tres_s.items()
        }
        return Spent(max(0.0, self.wall_s - other.wall_s), tres_s)

    def faded(self, factor: float) -> Spent:
        """Return the rest of it."""
        return Spent(
            self.wall_s * factor, {key: used * factor for key, used in self.tres_s.items()}
        )


class Ledger:
    """Usage of many owners; what was used a half-life ago counts half."""

    def __init__(self, half_life_s: int = 0) -> None:
        """Begin empty; a half-life of 0 keeps all for ever."""
        self.half_life_s = half_life_s
        self._spent: dict[OwnerKey, tuple[int, Spent]] = {}

    def add(
        self,
        owner: OwnerKey,
        at_us: int,
        run_s: float,
        amounts: Mapping[str, float],
        *,
        fades: bool = True,
        factor: float = 1.0,
    ) -> None:
        """Add a run of `run_s` seconds that ended at `at_us`; `factor` is its UsageFactor."""
        spent = self.of(owner, at_us, fades=fades)
        counted_s = factor * self.lasting_s(run_s, fades=fades)
        spent.add(counted_s, amounts, counted_s)
        self._spent[owner] = at_us, spent

    def copy(self) -> Ledger:
        """Return a ledger with the same usage."""
        ledger = Ledger(self.half_life_s)
        ledger._spent = dict(self._spent)
        return ledger

    def put(self, owner: OwnerKey, at_us: int, spent: Spent) -> None:
        """Know what an owner had used, as it counted at `at_us`."""
        self._spent[owner] = at_us, spent

    def clear(self) -> None:
        """Forget all usage."""
        self._spent.clear()

    def move(self, shift_us: int) -> None:
        """Move the times of all usage by `shift_us`, since the clock they were taken from moved."""
        for owner, (at_us, spent) in self._spent.items():
            self._spent[owner] = at_us + shift_us, spent

    def owners(self) -> tuple[OwnerKey, ...]:
        """Return the associations and QOS that have used anything."""
        return tuple(self._spent)

    def of(self, owner: OwnerKey, now_us: int, *, fades: bool = True) -> Spent:
        """Return what an owner has used, as it counts now; a copy."""
        at_us, spent = self._spent.get(owner, (now_us, Spent()))
        elapsed_s = max(0, now_us - at_us) / SECOND_US
        return spent.faded(self._factor(elapsed_s) if fades else 1.0)

    def assoc_seconds(self, tres: str, now_us: int) -> dict[int, float]:
        """Return the seconds of one TRES that associations have used, as they count now, by id."""
        seconds = {}
        for (kind, owner), (at_us, spent) in self._spent.items():
            used_s = spent.tres_s.get(tres, 0.0)
            if kind == "assoc" and used_s:
                elapsed_s = max(0, now_us - at_us) / SECOND_US
                seconds[int(owner)] = used_s * self._factor(elapsed_s)
        return seconds

    def lasting_s(self, run_s: float, *, fades: bool = True) -> float:
        """Return how many seconds of a run still count at its end: the first have faded most."""
        if not self.half_life_s or not fades:
            return run_s
        lost = self.lost_each_second()
        return -math.expm1(run_s * math.log1p(-lost)) / lost

    def _factor(self, elapsed_s: float) -> float:
        if not self.half_life_s:
            return 1.0
        return math.exp(elapsed_s * math.log1p(-self.lost_each_second()))

    def lost_each_second(self) -> float:
        """Return the part of usage that fades in a second; 0 where usage lasts."""
        return _LN2 / self.half_life_s if self.half_life_s else 0.0
