"""What a report shows, added up while answers come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

HOUR_S = 3600
MOST_PIECES = 62
"""Bars of the plot over time; more cannot be told apart."""
WAITS = (
    (60, "1 min"), (600, "10 min"), (HOUR_S, "1 h"), (6 * HOUR_S, "6 h"), (24 * HOUR_S, "1 day"),
    (None, "longer"),
)  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A time from one second up to another."""

    start_s: int
    end_s: int

    def pieces(self) -> list[Span]:
        """Return its local days, or as many whole days together as are needed for few pieces."""
        days = (self.end_s - self.start_s) // 86_400 + 1
        step = timedelta(days=-(-days // MOST_PIECES))
        begin = datetime.fromtimestamp(self.start_s)
        midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        bounds = [self.start_s]
        while bounds[-1] < self.end_s:
            if datetime.max - midnight < 2 * step:  # the calendar ends before the piece
                bounds.append(self.end_s)
                break
            midnight += step
            bounds.append(min(int(midnight.timestamp()), self.end_s))
        return [Span(*pair) for pair in pairwise(bounds) if pair[0] < pair[1]]


@dataclass
class Used:
    """What an account or user has used, in seconds times amount, and its jobs."""

    cpu_s: int = 0
    gpu_s: int = 0
    jobs: int = 0
    core_s: int = 0  # of jobs with a measured end
    busy_s: int = 0  # of these, what their processes used

    @property
    def efficiency(self) -> float | None:
        """The part of their processor time that jobs used."""
        return self.busy_s / self.core_s if self.core_s else None


@dataclass
class Day:
    """A piece of the report's time; parts of the cluster's processors, and GPU hours."""

    span: Span
    allocated: float
    down: float
    gpu_hours: float


@dataclass
class Report:
    """Everything on the page."""

    cluster: str
    span: Span
    days: list[Day] = field(default_factory=list)
    users: dict[str, Used] = field(default_factory=dict)
    accounts: dict[str, Used] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    waits_s: list[int] = field(default_factory=list)
    job_count: int = 0

    def user(self, name: str) -> Used:
        return self.users.setdefault(name, Used())

    def account(self, name: str) -> Used:
        return self.accounts.setdefault(name, Used())

    @property
    def allocated(self) -> float:
        """The part of the cluster that was in use, over all of the time."""
        whole_s = sum(day.span.end_s - day.span.start_s for day in self.days)
        used_s = sum(day.allocated * (day.span.end_s - day.span.start_s) for day in self.days)
        return used_s / whole_s if whole_s else 0.0

    @property
    def gpu_hours(self) -> float:
        return sum(day.gpu_hours for day in self.days)

    def wait_classes(self) -> list[tuple[str, int]]:
        """Return how many jobs waited at most so long, and longer than what is before."""
        counts = [0] * len(WAITS)
        for wait_s in self.waits_s:
            counts[
                next(at for at, (most, _) in enumerate(WAITS) if most is None or wait_s <= most)
            ] += 1
        return [(name, count) for (_, name), count in zip(WAITS, counts, strict=True)]

    def wait_s(self, part: float) -> int:
        """Return the wait that a part of the jobs did not exceed."""
        ordered = sorted(self.waits_s)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0
