"""How much more may run under the limits of one user, asked of every job of a long queue.

The answer is on the safe side: what has headroom breaks no limit; what has none is looked at
closely, as some limits take the place of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import assoc
from pyslurm_ng.sched.frame.measures import Amounts, Ask

_MILLION = 1_000_000


@dataclass(slots=True)
class Used:
    """What runs under one limit: jobs, amounts by TRES, TRES-minutes still to come, nodes.

    `node_ids` has how many of the jobs are on each node; {} if no limit needs it.
    """

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)
    run_min: dict[str, int] = field(default_factory=dict)
    node_ids: dict[int, int] = field(default_factory=dict)

    def add(self, ask: Ask, run_min: int, jobs: int = 1, *, with_nodes: bool = True) -> None:
        """Count one more job, which is to run `run_min` minutes; or with -1 for `jobs` one less."""
        self.jobs += jobs
        for name, count in ask.amounts.items():
            self.tres[name] = self.tres.get(name, 0) + count * jobs
            self.run_min[name] = self.run_min.get(name, 0) + count * run_min * jobs
        for node_id in ask.node_ids() if with_nodes else ():
            job_count = self.node_ids.get(node_id, 0) + jobs
            if job_count:
                self.node_ids[node_id] = job_count
            else:
                del self.node_ids[node_id]

    def copied(self) -> Used:
        """Return the same, which counts on its own from here."""
        return Used(self.jobs, dict(self.tres), dict(self.run_min), dict(self.node_ids))


NOTHING = Used()
Counter = tuple[str | int, ...]
"""Who counts: `assoc` and id, or `qos`, name and maybe whose part of it."""


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

    def limit_job(self, limits: assoc.Limits, factor: int = _MILLION) -> None:
        """Heed the limits on any one job; limits on TRES are multiplied by `factor` millionths."""
        self._wall_min = min(self._wall_min, limits.max_wall_min)
        self._most += [
            (name, most * factor // _MILLION) for name, most in limits.max_tres_per_job.items()
        ]
        self.lets_reserve &= limits.min_priority == INFINITE
        self._is_plain &= not (
            limits.max_tres_per_node
            or limits.min_tres_per_job
            or limits.max_tres_mins_per_job
            or limits.max_tres_run_mins
            or limits.max_tres_run_mins_per_account
        )

    def limit_group(self, limits: assoc.Limits, counter: Counter, factor: int = _MILLION) -> None:
        """Heed the limits on all jobs of a QOS or below an association together."""
        most = {name: limit * factor // _MILLION for name, limit in limits.grp_tres.items()}
        self.limit(counter, limits.grp_jobs, most)
        self._is_plain &= not (limits.grp_tres_mins or limits.grp_tres_run_mins)
        self._is_plain &= limits.grp_wall_min == INFINITE

    def limit(self, counter: Counter, most_jobs: int, most: Amounts) -> None:
        """Heed limits on jobs, and on what they hold, that count together."""
        if most_jobs != INFINITE:
            self._jobs.append((counter, most_jobs))
        self._tres += [
            (counter, name, amount) for name, amount in most.items() if amount != INFINITE
        ]
