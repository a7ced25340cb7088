"""What associations and QOS have used: TRES-seconds and wall seconds that fade with time.

Decay is arithmetic at reading time; nothing runs to bring it about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

_SECOND_US = 1_000_000
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

    def faded(self, factor: float) -> Spent:
        """Return what is left of it."""
        return Spent(
            self.wall_s * factor, {key: used * factor for key, used in self.tres_s.items()}
        )


class Ledger:
    """Usage of many owners; what a half-life ago was used counts half."""

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
    ) -> None:
        """Add a run that ended at `at_us`."""
        spent = self.of(owner, at_us, fades=fades)
        spent.add(run_s, amounts, run_s)
        self._spent[owner] = at_us, spent

    def of(self, owner: OwnerKey, now_us: int, *, fades: bool = True) -> Spent:
        """Return what an owner has used, as it counts now; a copy."""
        at_us, spent = self._spent.get(owner, (now_us, Spent()))
        elapsed_s = max(0, now_us - at_us) / _SECOND_US
        return spent.faded(self._factor(elapsed_s) if fades else 1.0)

    def _factor(self, elapsed_s: float) -> float:
        if not self.half_life_s:
            return 1.0
        return float((1.0 - _LN2 / max(1, self.half_life_s)) ** elapsed_s)
