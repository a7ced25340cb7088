"""Which job gets what is left under a limit if several reservations' jobs want it: the first in
line.

Reservations are planned one after another, but a limit of an association or QOS counts across them.
What jobs asked of the limits is noted. If a job was refused only because of starts of jobs behind
it, it gets a claim and all reservations are planned again. A claim counts for all jobs behind. One
whose job does not start after all, for want of nodes, is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Ask, Limits, Owner
from pyslurm_ng.sched.frame.plan import Wait

Rank = tuple[int, ...]  # smaller ones stand before larger ones
_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class _Claim:
    """Room for some starts of a job; more than one for tasks of an array."""

    rank: Rank
    job: Waiting
    ask: Ask
    count: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a job got, or was refused."""

    rank: Rank
    job: Waiting
    ask: Ask
    is_refused: bool


class LimitOrder:
    """The limits of one pass, for as many rounds as it takes to have them in order."""

    def __init__(self, limits: Limits, rank: Callable[[Waiting], Rank]) -> None:
        """Begin the first round.

        Args:
            rank: says where a job stands in the queue of all.
        """
        self._before = limits
        self._rank = rank
        self._claims: dict[int, _Claim] = {}  # by job id
        self._most: dict[int, int] = {}  # starts that a claim has been of use for
        self._rounds = 0
        self.begin()

    def begin(self) -> None:
        """Begin another round."""
        self._rounds += 1
        self.limits = self._before.fork()  # with what this round has started
        self._asked: list[_Asked] = []
        self._had_turn: set[int] = set()

    def inside(self, jobs: Iterable[Waiting]) -> Limits:
        """Return the limits as the jobs of one reservation meet them, whose turn it is."""
        self._had_turn |= {job.job_id for job in jobs}
        claims = [
            claim for claim in self._claims.values() if claim.job.job_id not in self._had_turn
        ]
        return _Behind(self, sorted(claims, key=lambda claim: claim.rank))

    def note(self, job: Waiting, ask: Ask, *, is_refused: bool) -> None:
        """Remember what a job got, or was refused."""
        self._asked.append(_Asked(self.rank(job), job, ask, is_refused))

    def rank(self, job: Waiting) -> Rank:
        """Return where a job stands."""
        return self._rank(job)

    def is_settled(self) -> bool:
        """Return whether this round may stand; else another one is to begin."""
        claims = dict(self._claims)
        self._drop_idle(claims)
        if self._rounds < _MOST_ROUNDS:
            self._find(claims)  # the last round has no claims that may be in vain
        if claims == self._claims or self._rounds > _MOST_ROUNDS:
            return True
        self._claims = claims
        return False

    def _drop_idle(self, claims: dict[int, _Claim]) -> None:
        """Let claims shrink to what their jobs have started."""
        started: dict[int, int] = {}
        for asked in self._asked:
            if not asked.is_refused:
                started[asked.job.job_id] = started.get(asked.job.job_id, 0) + 1
        for job_id, claim in self._claims.items():
            count = started.get(job_id, 0)
            if count >= claim.count:
                continue
            self._most[job_id] = count
            del claims[job_id]
            if count:
                claims[job_id] = _Claim(claim.rank, claim.job, claim.ask, count)

    def _find(self, claims: dict[int, _Claim]) -> None:
        """Enter what each job would have got if all had asked in the order of the queue."""
        limits = self._before.fork()
        by_job: dict[int, _Claim] = {}
        is_any_new = False
        asked = sorted(self._asked, key=lambda claim: claim.rank)
        for rank, group in groupby(asked, key=lambda claim: claim.rank):
            of_job = list(group)
            job, ask, count = of_job[0].job, of_job[-1].ask, 0
            for claim in of_job:
                if not claim.is_refused and limits.may_start(job, claim.ask) is None:
                    limits.took(job, claim.ask)
                    count += 1
            most = self._most.get(job.job_id, job.tasks_left if job.array_pending else 1)
            if of_job[-1].is_refused:
                while count < most and limits.may_start(job, ask) is None:
                    limits.took(job, ask)
                    count += 1
                    is_any_new = True
            if count:
                by_job[job.job_id] = _Claim(rank, job, ask, count)
        if is_any_new:
            claims |= by_job


class _Behind:
    """Limits in which claims count for jobs that stand behind them."""

    def __init__(self, order: LimitOrder, claims: Sequence[_Claim]) -> None:
        self._order = order
        self._counted = order.limits.fork() if claims else order.limits
        self._claims = deque(claims)  # that no job has come behind yet

    def _seen_by(self, job: Waiting) -> Limits:
        """Return the limits with the claims before a job; jobs ask one after another."""
        while self._claims and self._claims[0].rank < self._order.rank(job):
            claim = self._claims.popleft()
            for _ in range(claim.count):
                if self._counted.may_start(claim.job, claim.ask) is None:
                    self._counted.took(claim.job, claim.ask)
        return self._counted

    def may_start(self, job: Waiting, ask: Ask) -> Wait | None:
        """Return why a job may not start now, or None."""
        wait = self._seen_by(job).may_start(job, ask)
        if wait is not None:
            self._order.note(job, ask, is_refused=True)
        return wait

    def is_clear(self, job: Waiting, ask: Ask) -> bool:
        """Return whether it is plain that a job may start and be promised room."""
        if self._claims and self._claims[0].rank < self._order.rank(job):
            return False  # it may be asked of jobs whose turn is not yet
        return self._counted.is_clear(job, ask)

    def may_start_all(self, asked: Sequence[tuple[Waiting, Ask]]) -> Wait | None:
        """Return why some jobs may not all start at once now, or None."""
        wait = self._seen_by(asked[0][0]).may_start_all(asked)
        if wait is not None:
            self._order.note(*asked[0], is_refused=True)
        return wait

    def took(self, job: Owner, ask: Ask) -> None:
        """Count a start."""
        self._order.limits.took(job, ask)
        if self._counted is not self._order.limits:
            self._counted.took(job, ask)
        if isinstance(job, Waiting):
            self._order.note(job, ask, is_refused=False)

    def may_reserve(self, job: Waiting, partition: Partition, priority: int) -> bool:
        """Return whether a job that cannot start now may be promised room."""
        return self._counted.may_reserve(job, partition, priority)

    def unused(self) -> Limits:
        """Return the limits with no job counted: claims do not count either."""
        return self._counted.unused()

    def fork(self) -> Limits:
        """Return the same limits, which count on their own from here."""
        return self._counted.fork()
