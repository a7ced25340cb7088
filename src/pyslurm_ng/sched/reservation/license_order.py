"""Which job gets free licences when jobs of several reservations want them: the first in line.

Reservations are planned one after another, but licences that none of them keeps are everybody's.
Where a job found none because a job behind it had them, each reservation is set aside what its jobs
would have got in the order of the queue, and all are planned again. Licences set aside for a job
are free again if the job does not start for want of nodes. A job that names several reservations
has it set aside in the first of them that has not turned out to lack nodes. Of alternatives
(`--licenses=a|b`) the first is set aside that those before it in line have left.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.job_records import NO_END_US, Running, Waiting
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.reservation.limit_order import Rank
from pyslurm_ng.sched.reservation.reservation_view import longest_us

_MOST_ROUNDS = 4

_Place = tuple[int, str]
"""A job and a reservation that it may start in."""

_Way = tuple[tuple[str, int], ...]
"""Licences that do for one start."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """How many starts a job had in a reservation, and how many it would have had with licences."""

    key: _Place
    rank: Rank
    ways: tuple[_Way, ...]  # of each start, one of them
    started: int
    wanted: int
    length_us: int


class LicenseOrder:
    """The free licences of one pass, for as many rounds as it takes to have them in order."""

    def __init__(self, snapshot: Snapshot, rank: Callable[[Waiting], Rank]) -> None:
        """Begin the first round.

        Args:
            rank: says where a job stands in the queue of all.
        """
        kept = {name for inside in snapshot.licenses_inside.values() for name in inside.left}
        self._free = {
            name: count for name, count in snapshot.licenses_free.items() if name not in kept
        }
        self._rank = rank
        self._given: dict[_Place, int] = {}  # starts that licences were set aside for
        self._most: dict[_Place, int] = {}  # of those, how many there were
        self._aside: dict[str, list[tuple[_Asked, _Way, int]]] = {}  # by reservation, with starts
        self._rounds = 0
        self._asked: list[_Asked] = []
        self._had_turn: set[str] = set()

    def seen_by(self, reservation: Reservation, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot without licences set aside for reservations whose turn is yet to come.

        Args:
            reservation: whose turn it is now.
        """
        self._had_turn.add(reservation.name)
        away = [
            given_away
            for name, amount in self._aside.items()
            if name not in self._had_turn
            for given_away in amount
        ]
        if not away:
            return snapshot
        free, running = dict(snapshot.licenses_free), snapshot.running[:]
        for name_away, way, count in away:
            counts = [(name, each * count) for name, each in way]
            for name, taken in counts:
                free[name] -= taken
            text = ",".join(f"{name}:{taken}" for name, taken in counts)
            # As if the job ran already: so it is known when they will be free again.
            end_us = min(NO_END_US, snapshot.now_us + name_away.length_us)
            running.append(Running(name_away.key[0], end_us, (), text))
        return dataclasses.replace(snapshot, licenses_free=free, running=running)

    def note(
        self, reservation: Reservation, jobs: Iterable[Waiting], plan: Plan, snapshot: Snapshot
    ) -> None:
        """Remember what the jobs of a reservation got, or were refused."""
        starts = Counter(
            (start.job_id, tuple(license_counts(start.licenses))) for start in plan.starts
        )
        for job in jobs:
            ways = tuple(way for way in _ways(job) if self._are_everybodys(way))
            if not ways:
                continue
            wait = plan.waits.get(job.job_id)
            # Of a job without alternatives a start does not say what it gets.
            started = sum(starts[job.job_id, way] for way in {*ways, ()})
            is_refused = wait is not None and wait.reason is Reason.Licenses
            start_count = (job.tasks_left if job.array_pending else 1) if is_refused else started
            if start_count:
                rank, length_us = self._rank(job), longest_us(snapshot, job)
                self._asked.append(
                    _Asked(
                        (job.job_id, reservation.name), rank, ways, started, start_count, length_us
                    )
                )

    def _are_everybodys(self, way: _Way) -> bool:
        """Return whether some licences are kept by no reservation."""
        return all(name in self._free for name, _ in way)

    def is_settled(self) -> bool:
        """Return whether this round may stand; else another one is to begin."""
        self._rounds += 1
        started = {asked.key: asked.started for asked in self._asked if asked.started}
        for key, count in self._given.items():
            if started.get(key, 0) < count:
                self._most[key] = started.get(key, 0)
        self._given = self._in_order()
        return self._given == started or self._rounds >= _MOST_ROUNDS

    def begin(self) -> None:
        """Begin another round."""
        self._asked, self._had_turn = [], set()

    def _in_order(self) -> dict[_Place, int]:
        """Return how many starts there are in the order of the queue; set them aside."""
        free_counts = dict(self._free)
        keys: dict[_Place, int] = {}
        most_of_job: Counter[int] = Counter()
        for asked in self._asked:
            most_of_job[asked.key[0]] = max(most_of_job[asked.key[0]], asked.wanted)
        self._aside = {}
        for asked in sorted(self._asked, key=lambda claim: claim.rank):
            job_id, reservation_name = asked.key
            most = min(self._most.get(asked.key, asked.wanted), asked.wanted, most_of_job[job_id])
            for way in asked.ways:
                count = min([most, *(free_counts[name] // each for name, each in way if each)])
                if count <= 0:
                    continue
                keys[asked.key] = keys.get(asked.key, 0) + count
                most_of_job[job_id] -= count
                most -= count
                self._aside.setdefault(reservation_name, []).append((asked, way, count))
                for name, each in way:
                    free_counts[name] -= each * count
        return keys


def _ways(job: Waiting) -> Iterator[_Way]:
    text = job.request.licenses
    for way in text.split("|") if text else ():
        yield tuple(license_counts(way))


def wants_several(jobs: Iterable[Sequence[Waiting]]) -> bool:
    """Return whether jobs of more than one reservation want licences."""
    return sum(any(job.request.licenses for job in queue) for queue in jobs) > 1
