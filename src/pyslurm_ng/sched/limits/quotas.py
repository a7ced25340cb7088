"""Limits of associations and QOS, with what runs under each of them counted.

`precedence` says which of them hold for a job. Counters: Slurm's manual, "Resource Limits".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import assoc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Ask, Owner
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.limits.broken_limits import BrokenLimits
from pyslurm_ng.sched.limits.headroom import Headroom, Room
from pyslurm_ng.sched.limits.precedence import Kind
from pyslurm_ng.sched.limits.reasons import tres_reason
from pyslurm_ng.sched.limits.running_amounts import NOTHING, Counter, Used
from pyslurm_ng.sched.limits.standing import (
    Key,
    Standing,
    first_set,
    key_of,
    limits_on,
    standing_of,
)
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent

_NO_LIMITS = assoc.Limits()
_UNLIMITED_RUN_MIN = 365 * 24 * 60


class Counted(NamedTuple):
    """A job that was counted, and under whose limits."""

    standing: Standing
    ask: Ask


class Quotas:
    """All limits, and what runs under them; a pass tells what it starts."""

    def __init__(
        self,
        associations: Mapping[int, assoc.Association],
        qos: Mapping[str, assoc.Qos],
        spent: Callable[[OwnerKey], Spent] | None = None,
        *,
        is_safe: bool = False,
        counts_nodes: bool = False,
    ) -> None:
        """Begin with nothing running.

        Args:
            spent: what associations and QOS have used so far; None: nothing.
            is_safe: AccountingStorageEnforce=safe: only jobs start that can run to the end.
            counts_nodes: which nodes jobs have is counted also where there is no limit on it.
        """
        self._counts_nodes = counts_nodes
        self._associations = associations
        self._qos = qos
        self._spent = spent
        self._is_safe = is_safe
        self._used: dict[Counter, Used] = {}
        self._own: set[Counter] = set()  # those that no other job has
        self._standings: dict[Key, Standing] = {}
        self._answers: dict[int, dict[int, Wait | None]] = {}  # by identity: standing, ask
        self._asked: dict[int, Ask] = {}  # so that an identity stays its own
        self._headrooms: dict[int, Headroom] = {}  # by identity of the standing
        self._rooms: dict[Key, Room] = {}  # until somebody starts

    def took(self, job: Owner, ask: Ask) -> Counted:
        """Count a start, or a job that runs already; return the record that `left` takes."""
        counted = Counted(self._standing(job, ask.partition), ask)
        self._count(counted, 1)
        return counted

    def left(self, counted: Counted) -> None:
        """Stop counting a job."""
        self._count(counted, -1)

    def _count(self, counted: Counted, jobs: int) -> None:
        standing, ask = counted
        # As in Slurm, a run without a limit is shown, and keeps others waiting, as one of a year.
        limit_min = _UNLIMITED_RUN_MIN if ask.limit_min == INFINITE else ask.limit_min
        run_min = standing.run_min(limit_min)
        for key, minds_nodes in standing.counters():
            if key not in self._own:
                self._own.add(key)
                self._used[key] = self._used.get(key, NOTHING).copied()
            with_nodes = minds_nodes or self._counts_nodes
            self._used[key].add(ask, run_min, jobs, with_nodes=with_nodes)
        self._forget_answers()
        self._rooms.clear()

    def _forget_answers(self) -> None:
        self._answers.clear()
        self._asked.clear()

    def fork(
        self, spent: Callable[[OwnerKey], Spent] | None = None, *, is_safe: bool | None = None
    ) -> Quotas:
        """Return the same limits, which count on their own from here.

        Neither changes a counter that both have, so another thread may have one of them.

        Args:
            spent, is_safe: what the other one goes by instead.
        """
        other = Quotas(
            self._associations,
            self._qos,
            spent or self._spent,
            is_safe=self._is_safe if is_safe is None else is_safe,
            counts_nodes=self._counts_nodes,
        )
        other._used = dict(self._used)
        # These depend on nothing that runs, and are never changed.
        other._standings, other._headrooms = self._standings, self._headrooms
        self._own = set()
        return other

    def unused(self) -> Quotas:
        """Return the same limits with no job counted and nothing used up so far."""
        return Quotas(self._associations, self._qos, counts_nodes=self._counts_nodes)

    def used(self) -> Mapping[Counter, Used]:
        """Return what runs, by counter: `assoc` and id, or `qos`, name and maybe whose part."""
        return self._used

    def may_start(self, job: Waiting, ask: Ask) -> Wait | None:
        """Return the first limit in the way: of the QOS, then of associations upwards."""
        if self._room(job, ask).holds(ask):
            return None
        return self._first_in_the_way(self._standing(job, ask.partition), ask)

    def is_clear(self, job: Waiting, ask: Ask) -> bool:
        """Return whether it is plain that no limit keeps a job from a start or from a promise.

        A quick answer for most jobs; False says nothing.
        """
        room = self._rooms.get(key_of(job, ask.partition)) or self._room(job, ask)
        return room.lets_reserve and room.holds(ask)

    def _room(self, job: Waiting, ask: Ask) -> Room:
        key = key_of(job, ask.partition)
        room = self._rooms.get(key)
        if room is None:
            headroom = self._headroom(self._standing(job, ask.partition))
            room = self._rooms[key] = headroom.room(self._used)
        return room

    def _headroom(self, standing: Standing) -> Headroom:
        headroom = self._headrooms.get(id(standing))
        if headroom is None:
            headroom = self._headrooms[id(standing)] = self._make_headroom(standing)
        return headroom

    def _make_headroom(self, standing: Standing) -> Headroom:
        headroom = Headroom()
        for rule in standing.rules:
            headroom.heed(rule)
        least = first_set(limits.min_priority for limits in limits_on(standing))
        is_reserved = any("NoReserve" in qos.flags for qos in standing.qos)
        headroom.lets_reserve = least == INFINITE and not is_reserved
        return headroom

    def _first_in_the_way(self, standing: Standing, ask: Ask) -> Wait | None:
        answers = self._answers.setdefault(id(standing), {})
        key = id(ask)
        if key not in answers:
            self._asked[key] = ask
            answers[key] = next(self._broken().in_the_way(standing, ask), None)
        return answers[key]

    def may_start_all(self, asked: Sequence[tuple[Waiting, Ask]]) -> Wait | None:
        """Return the first limit in the way of several starts at once; nothing is counted."""
        used, own = self._used, self._own
        self._used, self._own = dict(used), set()
        self._forget_answers()
        wait: Wait | None = None
        for job, ask in asked:
            wait = wait or self._first_in_the_way(self._standing(job, ask.partition), ask)
            self.took(job, ask)
        self._used, self._own = used, own
        self._forget_answers()
        self._rooms.clear()
        return wait

    def may_reserve(self, job: Waiting, partition: Partition, priority: int) -> bool:
        """Return whether neither NoReserve nor MinPrioThreshold keeps a job from a promise."""
        standing = self._standing(job, partition)
        if any("NoReserve" in qos.flags for qos in standing.qos):
            return False
        least = first_set(limits.min_priority for limits in limits_on(standing))
        return least == INFINITE or priority >= least

    def run_out(self, job: Owner, ask: Ask, run_min: float) -> Wait | None:
        """Return which minutes are used up, of a job that has run for `run_min` minutes."""
        standing = self._standing(job, ask.partition)
        for rule in standing.rules:
            if rule.spec.kind != Kind.JOB_MINUTES or rule.most is None:
                continue
            for tres, most in rule.most.items():
                used = ask.amounts.get(tres, 0) * run_min
                if used and used >= most:
                    return Wait(tres_reason("job minutes", rule.owner_kind, tres),
                                f"{rule.owner} may use {most} {tres}-minutes")  # fmt: skip
        return next(self._broken().spent_up(standing, ask), None)

    def _broken(self) -> BrokenLimits:
        return BrokenLimits(self._used, self._spent, is_safe=self._is_safe)

    def _standing(self, job: Owner, partition: Partition | None) -> Standing:
        key = key_of(job, partition)
        standing = self._standings.get(key)
        if standing is None:
            made = standing_of(self._associations, self._qos, job, partition)
            # Another thread may have made it meanwhile: then all use that one.
            standing = self._standings.setdefault(key, made)
        return standing


def any_limits(associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos]) -> bool:
    """Return whether there is any limit, or a QOS says something else about starts."""
    if any(
        quality.limits != _NO_LIMITS or "NoReserve" in quality.flags for quality in qos.values()
    ):
        return True
    return any(association.limits != _NO_LIMITS for association in associations.values())


def budgets_minutes(
    associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos]
) -> bool:
    """Return whether any limit is on minutes used, so that running jobs can run out of them."""
    limits = [association.limits for association in associations.values()]
    limits += [quality.limits for quality in qos.values()]
    return any(
        level.grp_tres_mins or level.grp_wall_min != INFINITE or level.max_tres_mins_per_job
        for level in limits
    )


def counts_minutes(
    associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos], *, is_safe: bool
) -> bool:
    """Return whether any limit asks for how long jobs that run have left."""
    limits = [association.limits for association in associations.values()]
    limits += [quality.limits for quality in qos.values()]
    return any(
        level.grp_tres_run_mins
        or level.max_tres_run_mins
        or level.max_tres_run_mins_per_account
        or (is_safe and level.grp_tres_mins)
        for level in limits
    )


def quotas(
    associations: Mapping[int, assoc.Association],
    qos: Mapping[str, assoc.Qos],
    running: Iterable[tuple[Owner, Ask]],
    spent: Callable[[OwnerKey], Spent] | None = None,
    *,
    is_safe: bool = False,
) -> Quotas | None:
    """Return the limits with running jobs counted; None if there are no limits.

    Args:
        running: each job with what it holds, and for how long still.
    """
    if not any_limits(associations, qos):
        return None
    made = Quotas(associations, qos, spent, is_safe=is_safe)
    for job, ask in running:
        made.took(job, ask)
    return made
