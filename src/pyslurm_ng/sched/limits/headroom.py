"""How much more may run under the limits of one user, asked of every job of a long queue.

The answer is on the safe side: a job that has headroom breaks no limit; a job that has none is
looked at closely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.sched.frame.measures import Ask
from pyslurm_ng.sched.limits.precedence import Kind, Rule
from pyslurm_ng.sched.limits.running_amounts import NOTHING, Counter, Used


@dataclass(frozen=True, slots=True)
class Room:
    """The most that one more job may ask for, as long as no job starts; see `Headroom`.

    `limit_min` is below 0 where no job has room; amounts that no limit is on are not in `most`.
    """

    lets_reserve: bool
    limit_min: int
    most: tuple[tuple[str, int], ...]

    def holds(self, ask: Ask) -> bool:
        """Return whether such a job certainly breaks no limit."""
        if ask.limit_min > self.limit_min:
            return False
        amounts = ask.amounts
        for name, most in self.most:  # noqa: SIM110 - asked of every job; a generator costs more
            if amounts.get(name, 0) > most:
                return False
        return True


class Headroom:
    """The limits on what a user runs, with what counts against each of them.

    `lets_reserve`: nothing keeps a job that cannot start yet from being promised room.
    """

    __slots__ = ("_is_plain", "_jobs", "_most", "_tres", "_wall_min", "lets_reserve")

    def __init__(self) -> None:
        self.lets_reserve = True
        self._is_plain = True  # there are no limits of other kinds than those below
        self._jobs: list[tuple[Counter, int]] = []
        self._tres: list[tuple[Counter, str, int]] = []
        self._most: list[tuple[str, int]] = []  # of one job
        self._wall_min = INFINITE

    def room(self, used: Mapping[Counter, Used]) -> Room:
        """Return what is left of all limits together, given the running jobs."""
        if not self._is_plain:
            return Room(self.lets_reserve, -1, ())
        if any(used.get(counter, NOTHING).jobs >= most for counter, most in self._jobs):
            return Room(self.lets_reserve, -1, ())
        room: dict[str, int] = {}
        for name, most in self._most:
            room[name] = min(most, room.get(name, most))
        for counter, name, most in self._tres:
            free = most - used.get(counter, NOTHING).tres.get(name, 0)
            room[name] = min(free, room.get(name, free))
        return Room(self.lets_reserve, self._wall_min, tuple(room.items()))

    def heed(self, rule: Rule) -> None:
        """Count a limit in; what this cannot answer is looked at closely."""
        most = rule.most or {}
        match rule.spec.kind:
            case Kind.JOBS:
                self._jobs.append((rule.counter, rule.limit))
            case Kind.JOB_WALL:
                self._wall_min = min(self._wall_min, rule.limit)
            case Kind.JOB:
                self._most += most.items()
            case Kind.HELD:
                self._tres += [(rule.counter, name, amount) for name, amount in most.items()]
            case _:
                self._is_plain = False
