"""The obvious twin of `_select.Profile`: holdings in a list, added up anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field

FAR = 1 << 62
NEVER = -1


@dataclass
class SlowProfile:
    """Free amounts over time; `changes` are (time, kind, signed amount), from that time on."""

    now_us: int
    amounts: tuple[int, ...]
    changes: list[tuple[int, int, int]] = field(default_factory=list)

    def free(self, time_us: int, kind: int) -> int:
        """Return what is free of a kind at a moment."""
        return self.amounts[kind] + sum(
            amount for at_us, which, amount in self.changes if at_us <= time_us and which == kind
        )

    def boundaries(self) -> list[int]:
        """Return the moments at which anything changes, now first."""
        return sorted({self.now_us, *(at_us for at_us, _, _ in self.changes)})

    def release(self, time_us: int, kind: int, amount: int) -> None:
        """Let more be free from a time on."""
        self.changes.append((max(time_us, self.now_us), kind, amount))

    def find(self, amounts: dict[int, int], duration_us: int, not_before_us: int) -> int:
        """Return the first boundary from which everything wanted stays free long enough."""
        for start_us in self.boundaries():
            if start_us < not_before_us:
                continue
            moments = [start_us] + [
                moment for moment in self.boundaries() if start_us < moment < start_us + duration_us
            ]
            if all(
                self.free(moment, kind) >= amount
                for moment in moments
                for kind, amount in amounts.items()
            ):
                return start_us
        return NEVER

    def take(self, start_us: int, duration_us: int, amounts: dict[int, int]) -> None:
        """Hold amounts for a duration."""
        for kind, amount in amounts.items():
            self.changes.append((start_us, kind, -amount))
            if start_us + duration_us < FAR:
                self.changes.append((start_us + duration_us, kind, amount))
