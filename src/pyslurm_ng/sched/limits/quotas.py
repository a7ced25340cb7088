"""Limits of associations and QOS, with what runs under each of them counted.

A limit of one job, user or account is the first one set on the way from the partition's QOS over
the job's QOS to its association and the accounts above; `OverPartQOS` puts the job's QOS first.
Limits of groups all count. Order and counters: Slurm's manual, "Resource Limits".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import assoc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Amounts, Ask, Owner
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.limits.headroom import NOTHING, Counter, Headroom, Room, Used
from pyslurm_ng.sched.limits.reasons import tres_reason
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent
from pyslurm_ng.sched.limits.words import amount_of

_MILLION = 1_000_000
_NO_LIMITS = assoc.Limits()
_Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Standing:
    """Whose limits a job is under: QOS, the one that comes first before, then associations."""

    qos: tuple[assoc.Qos, ...]
    chain: tuple[assoc.Association, ...]
    usage_factor: int  # both in millionths, of the job's QOS
    limit_factor: int
    is_factor_safe: bool  # with safe limits the usage factor counts before a start, too
    uid: int
    user_name: str
    account: str

    def counters(self) -> Iterator[tuple[Counter, bool]]:
        """Yield the counters of its jobs, and whether a limit is on how many nodes these have."""
        for one in self.qos:
            limits = one.limits
            yield ("qos", one.name), "node" in limits.grp_tres
            yield ("qos", one.name, "user", self.uid), "node" in limits.max_tres_per_user
            yield ("qos", one.name, "account", self.account), "node" in limits.max_tres_per_account
        for item in self.chain:
            yield ("assoc", item.assoc_id), "node" in item.limits.grp_tres

    def run_min(self, limit_min: int) -> int:
        """Return for how long a run is charged."""
        return limit_min * self.usage_factor // _MILLION


class Counted(NamedTuple):
    """A job that was counted, and under whose limits."""

    standing: _Standing
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
            is_safe: AccountingStorageEnforce=safe: nobody starts who could not run to the end.
            counts_nodes: which nodes jobs have is counted also where there is no limit on it.
        """
        self._counts_nodes = counts_nodes
        self._associations = associations
        self._qos = qos
        self._spent = spent
        self._is_safe = is_safe
        self._used: dict[Counter, Used] = {}
        self._own: set[Counter] = set()  # those that nobody else has
        self._standings: dict[_Key, _Standing] = {}
        self._answers: dict[int, dict[int, Wait | None]] = {}  # by identity: standing, ask
        self._asked: dict[int, Ask] = {}  # so that an identity stays its own
        self._headrooms: dict[int, Headroom] = {}  # by identity of the standing
        self._handed: dict[int, assoc.Limits] = {}  # likewise: those handed down to it
        self._rooms: dict[_Key, Room] = {}  # until somebody starts

    def took(self, job: Owner, ask: Ask) -> Counted:
        """Count a start, or a job that runs already; return what takes it back."""
        counted = Counted(self._standing(job, ask.partition), ask)
        self._count(counted, 1)
        return counted

    def left(self, counted: Counted) -> None:
        """Stop counting a job."""
        self._count(counted, -1)

    def _count(self, counted: Counted, jobs: int) -> None:
        standing, ask = counted
        run_min = standing.run_min(ask.limit_min)
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
        room = self._rooms.get(_key(job, ask.partition)) or self._room(job, ask)
        return room.lets_reserve and room.holds(ask)

    def _room(self, job: Waiting, ask: Ask) -> Room:
        key = _key(job, ask.partition)
        found = self._rooms.get(key)
        if found is None:
            headroom = self._headroom(self._standing(job, ask.partition))
            found = self._rooms[key] = headroom.room(self._used)
        return found

    def _headroom(self, standing: _Standing) -> Headroom:
        found = self._headrooms.get(id(standing))
        if found is None:
            found = self._headrooms[id(standing)] = self._make_headroom(standing)
        return found

    def _make_headroom(self, standing: _Standing) -> Headroom:
        found = Headroom()
        for one in standing.qos:
            user = "qos", one.name, "user", standing.uid
            account = "qos", one.name, "account", standing.account
            found.limit_job(one.limits)
            found.limit_group(one.limits, ("qos", one.name))
            found.limit(user, one.limits.max_jobs, one.limits.max_tres_per_user)
            most = one.limits.max_tres_per_account
            found.limit(account, one.limits.max_jobs_per_account, most)
            found.lets_reserve &= "NoReserve" not in one.flags
        for item in standing.chain:
            found.limit_job(item.limits, standing.limit_factor)
            found.limit_group(item.limits, ("assoc", item.assoc_id), standing.limit_factor)
            found.limit(("assoc", standing.chain[0].assoc_id), item.limits.max_jobs, {})
        return found

    def _first_in_the_way(self, standing: _Standing, ask: Ask) -> Wait | None:
        answers = self._answers.setdefault(id(standing), {})
        key = id(ask)
        if key not in answers:
            self._asked[key] = ask
            answers[key] = next(self._in_the_way(standing, ask), None)
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
        if any("NoReserve" in one.flags for one in standing.qos):
            return False
        least = _first(limits.min_priority for limits in _places(standing))
        return least == INFINITE or priority >= least

    def run_out(self, job: Owner, ask: Ask, run_min: float) -> Wait | None:
        """Return which minutes are used up, of a job that has run for `run_min` minutes."""
        standing = self._standing(job, ask.partition)
        seen: set[str] = set()
        for limits, who, name in _named(standing):
            for tres, most in limits.max_tres_mins_per_job.items():
                used = ask.amounts.get(tres, 0) * run_min
                if tres not in seen and used and used >= most:
                    return Wait(tres_reason("job minutes", who, tres),
                                f"a job in {name} may use {most} {tres}-minutes")  # fmt: skip
            seen.update(limits.max_tres_mins_per_job)
        return next(self._spent_up(standing), None)

    def _standing(self, job: Owner, partition: Partition | None) -> _Standing:
        key = _key(job, partition)
        found = self._standings.get(key)
        if found is None:
            name = partition.qos if partition is not None else ""
            own, other = self._qos.get(job.qos), self._qos.get(name)
            both = [other, own] if own is None or "OverPartQOS" not in own.flags else [own, other]
            if own is other:
                both = [own]
            found = self._standings[key] = _Standing(
                tuple(one for one in both if one is not None),
                tuple(self._chain(job.assoc_id)),
                own.usage_factor_millionths if own is not None else _MILLION,
                (own.limit_factor_millionths if own is not None else 0) or _MILLION,
                own is not None and "UsageFactorSafe" in own.flags,
                job.uid,
                getattr(job, "user_name", ""),
                job.account,
            )
        return found

    def _chain(self, assoc_id: int) -> list[assoc.Association]:
        chain: list[assoc.Association] = []
        item = self._associations.get(assoc_id)
        while item is not None and item not in chain:
            chain.append(item)
            item = self._associations.get(item.parent_id)
        return chain

    def _in_the_way(self, standing: _Standing, ask: Ask) -> Iterator[Wait]:
        """Yield the limits that a start would break."""
        before: list[assoc.Limits] = []
        for one in standing.qos:
            name = f"QOS {one.name}"
            used = self._used.get(("qos", one.name), NOTHING)
            yield from _of_a_job(one.limits, before, ask, "QOS", name)
            yield from _of_a_group(one.limits, used, ask, standing, "QOS", name)
            yield from self._of_a_user(one, before, ask, standing)
            before.append(one.limits)
        yield from self._of_an_association(standing, before, ask)
        yield from self._spent_up(standing)
        if self._is_safe:
            yield from self._would_overspend(standing, ask)

    def _of_a_user(
        self, one: assoc.Qos, before: list[assoc.Limits], ask: Ask, standing: _Standing
    ) -> Iterator[Wait]:
        """Yield limits of a QOS on each user, then on each account."""
        limits, run_min = one.limits, standing.run_min(ask.limit_min)
        who = f"user {standing.user_name or standing.uid} in QOS {one.name}"
        used = self._used.get(("qos", one.name, "user", standing.uid), NOTHING)
        if all(earlier.max_jobs == INFINITE for earlier in before):
            yield from _jobs(Reason.QOSMaxJobsPerUserLimit, limits.max_jobs, used, who)
        most = _not_yet(limits.max_tres_per_user, [item.max_tres_per_user for item in before])
        yield from _tres("user", "QOS", most, used, ask, who)
        most = _not_yet(limits.max_tres_run_mins, [item.max_tres_run_mins for item in before])
        yield from _minutes("user run minutes", "QOS", most, used.run_min, ask, run_min, who)
        who = f"account {standing.account} in QOS {one.name}"
        used = self._used.get(("qos", one.name, "account", standing.account), NOTHING)
        if all(earlier.max_jobs_per_account == INFINITE for earlier in before):
            yield from _jobs(Reason.MaxJobsPerAccount, limits.max_jobs_per_account, used, who)
        most = _not_yet(limits.max_tres_per_account, [item.max_tres_per_account for item in before])
        yield from _tres("account", "QOS", most, used, ask, who)
        earlier_min = [item.max_tres_run_mins_per_account for item in before]
        most = _not_yet(limits.max_tres_run_mins_per_account, earlier_min)
        yield from _minutes("account run minutes", "QOS", most, used.run_min, ask, run_min, who)

    def _of_an_association(
        self, standing: _Standing, before: list[assoc.Limits], ask: Ask
    ) -> Iterator[Wait]:
        """Yield limits of the association, which accounts hand down, and of the groups above."""
        chain, factor = standing.chain, standing.limit_factor
        if not chain:
            return
        used = self._used.get(("assoc", chain[0].assoc_id), NOTHING)
        name = _name(chain[0])
        own = self._handed.get(id(standing))
        if own is None:
            own = _handed_down([item.limits for item in chain], factor)
            self._handed[id(standing)] = own
        if all(limits.max_jobs == INFINITE for limits in before):
            yield from _jobs(Reason.AssocMaxJobsLimit, own.max_jobs, used, name)
        yield from _of_a_job(own, before, ask, "Assoc", name)
        run_min = standing.run_min(ask.limit_min)
        most = _not_yet(own.max_tres_run_mins, [item.max_tres_run_mins for item in before])
        yield from _minutes("job minutes", "Assoc", most, used.run_min, ask, run_min, name)
        for item in chain:
            used = self._used.get(("assoc", item.assoc_id), NOTHING)
            yield from _of_a_group(item.limits, used, ask, standing, "Assoc", _name(item), factor)

    def _groups(self, standing: _Standing) -> Iterator[tuple[assoc.Limits, _Key, Spent, str, str]]:
        """Yield limits, counter, usage, and names of each group with a budget of minutes."""
        groups: list[tuple[assoc.Limits, OwnerKey, str, str]] = []
        for one in standing.qos:
            groups.append((one.limits, ("qos", one.name), "QOS", f"QOS {one.name}"))
        for item in standing.chain:
            groups.append((item.limits, ("assoc", item.assoc_id), "Assoc", _name(item)))
        for limits, key, who, name in groups:
            if limits.grp_tres_mins or limits.grp_wall_min != INFINITE:
                spent = self._spent(key) if self._spent is not None else Spent()
                yield limits, key, spent, who, name

    def _spent_up(self, standing: _Standing) -> Iterator[Wait]:
        """Yield the budgets of minutes that are used up."""
        for limits, _, spent, who, name in self._groups(standing):
            used_min = spent.wall_s / 60
            if limits.grp_wall_min != INFINITE and used_min >= limits.grp_wall_min:
                text = f"{name} may run {limits.grp_wall_min} min in all; {used_min:.0f} used"
                yield Wait(
                    Reason.QOSGrpWallLimit if who == "QOS" else Reason.AssocGrpWallLimit, text
                )
            for tres, most in limits.grp_tres_mins.items():
                used_min = spent.tres_s.get(tres, 0.0) / 60
                if most != INFINITE and used_min >= most:
                    text = f"{name} may use {most} {tres}-minutes; {used_min:.0f} used"
                    yield Wait(tres_reason("group minutes", who, tres), text)

    def _would_overspend(self, standing: _Standing, ask: Ask) -> Iterator[Wait]:
        """Yield the budgets that would not do for a job's whole time limit beside those running."""
        run_min = ask.limit_min
        if standing.is_factor_safe:
            run_min = standing.run_min(run_min)
        for limits, key, spent, who, name in self._groups(standing):
            promised = self._used.get(key, NOTHING).run_min
            for tres, most in limits.grp_tres_mins.items():
                used = int(spent.tres_s.get(tres, 0.0) / 60) + promised.get(tres, 0)
                wanted = ask.amounts.get(tres, 0) * run_min
                if most != INFINITE and wanted and used + wanted > most:
                    text = (
                        f"{name} may use {most} {tres}-minutes; {used} are used or promised, "
                        f"{wanted} more needed"
                    )
                    yield Wait(tres_reason("group minutes", who, tres), text)


def any_limits(associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos]) -> bool:
    """Return whether there is any limit, or a QOS says something else about starts."""
    if any(one.limits != _NO_LIMITS or "NoReserve" in one.flags for one in qos.values()):
        return True
    return any(item.limits != _NO_LIMITS for item in associations.values())


def budgets_minutes(
    associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos]
) -> bool:
    """Return whether any limit is on minutes used, so that running jobs can run out of them."""
    limits = [item.limits for item in associations.values()]
    limits += [one.limits for one in qos.values()]
    return any(
        one.grp_tres_mins or one.grp_wall_min != INFINITE or one.max_tres_mins_per_job
        for one in limits
    )


def counts_minutes(
    associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos], *, is_safe: bool
) -> bool:
    """Return whether any limit asks for how long jobs that run have left."""
    limits = [item.limits for item in associations.values()]
    limits += [one.limits for one in qos.values()]
    return any(
        one.grp_tres_run_mins
        or one.max_tres_run_mins
        or one.max_tres_run_mins_per_account
        or (is_safe and one.grp_tres_mins)
        for one in limits
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
    found = Quotas(associations, qos, spent, is_safe=is_safe)
    for job, ask in running:
        found.took(job, ask)
    return found


def _key(job: Owner, partition: Partition | None) -> _Key:
    """Return what decides which limits a job is under."""
    name = partition.qos if partition is not None else ""
    return job.qos, name, job.assoc_id, job.uid, job.account


def _places(standing: _Standing) -> Iterator[assoc.Limits]:
    yield from (one.limits for one in standing.qos)
    yield from (item.limits for item in standing.chain)


def _named(standing: _Standing) -> Iterator[tuple[assoc.Limits, str, str]]:
    yield from ((one.limits, "QOS", f"QOS {one.name}") for one in standing.qos)
    yield from ((item.limits, "Assoc", _name(item)) for item in standing.chain)


def _name(item: assoc.Association) -> str:
    where = f"account {item.account}"
    return f"user {item.user} in {where}" if item.user else where


def _first(limits: Iterable[int]) -> int:
    return next((limit for limit in limits if limit != INFINITE), INFINITE)


def _not_yet(limits: Amounts, before: Iterable[Amounts]) -> Amounts:
    """Return the limits on TRES that none before has set."""
    seen = {name for one in before for name in one}
    return limits if not seen else {name: most for name, most in limits.items() if name not in seen}


def _handed_down(chain: list[assoc.Limits], factor: int) -> assoc.Limits:
    """Return the limits of one job that an association has itself or from the accounts above."""

    def merged(limits: Iterable[Amounts]) -> dict[str, int]:
        found: dict[str, int] = {}
        for one in limits:
            for name, most in one.items():
                found.setdefault(name, most * factor // _MILLION)
        return found

    return assoc.Limits(
        max_jobs=_first(one.max_jobs for one in chain),
        max_wall_min=_first(one.max_wall_min for one in chain),
        max_tres_per_job=merged(one.max_tres_per_job for one in chain),
        max_tres_per_node=merged(one.max_tres_per_node for one in chain),
        max_tres_mins_per_job=merged(one.max_tres_mins_per_job for one in chain),
        max_tres_run_mins=merged(one.max_tres_run_mins for one in chain),
    )


def _of_a_job(
    limits: assoc.Limits, before: list[assoc.Limits], ask: Ask, who: str, name: str
) -> Iterator[Wait]:
    """Yield limits on any one job."""
    most = _not_yet(limits.max_tres_per_job, [one.max_tres_per_job for one in before])
    yield from _tres("job", who, most, NOTHING, ask, f"a job of {name}")
    most = _not_yet(limits.max_tres_per_node, [one.max_tres_per_node for one in before])
    nodes = max(1, ask.amounts.get("node", 1))
    for tres, limit in most.items():
        per_node = -(-ask.amounts.get(tres, 0) // nodes)
        if per_node > limit:
            most_of_it = amount_of(tres, limit)
            text = f"a job of {name} may hold {most_of_it} on each node; it needs {per_node}"
            yield Wait(tres_reason("node", who, tres), text)
    for tres, least in limits.min_tres_per_job.items():
        wanted = ask.amounts.get(tres, 0)
        if wanted < least and not any(tres in one.min_tres_per_job for one in before):
            text = f"a job of {name} must ask for {amount_of(tres, least)} or more; "
            text += f"it asks for {wanted}"
            yield Wait(tres_reason("least", who, tres), text)
    if all(one.max_wall_min == INFINITE for one in before):
        limit = limits.max_wall_min
        if limit != INFINITE and ask.limit_min > limit:
            reason = Reason.QOSMaxWallDurationPerJobLimit
            if who == "Assoc":
                reason = Reason.AssocMaxWallDurationPerJobLimit
            asked = "no limit" if ask.limit_min == INFINITE else f"{ask.limit_min} min"
            yield Wait(reason, f"a job of {name} may run {limit} min; it asks for {asked}")
    most = _not_yet(limits.max_tres_mins_per_job, [one.max_tres_mins_per_job for one in before])
    yield from _minutes("job minutes", who, most, {}, ask, ask.limit_min, f"a job of {name}")


def _of_a_group(
    limits: assoc.Limits,
    used: Used,
    ask: Ask,
    standing: _Standing,
    who: str,
    name: str,
    factor: int = _MILLION,
) -> Iterator[Wait]:
    """Yield limits on all jobs of a QOS or below an association together."""
    reason = Reason.QOSGrpJobsLimit if who == "QOS" else Reason.AssocGrpJobsLimit
    yield from _jobs(reason, limits.grp_jobs, used, name)
    most = limits.grp_tres
    if factor != _MILLION:
        most = {tres: limit * factor // _MILLION for tres, limit in most.items()}
    yield from _tres("group", who, most, used, ask, name)
    run_min = standing.run_min(ask.limit_min)
    most = limits.grp_tres_run_mins
    yield from _minutes("group run minutes", who, most, used.run_min, ask, run_min, name)


def _jobs(reason: Reason, limit: int, used: Used, who: str) -> Iterator[Wait]:
    if limit != INFINITE and used.jobs >= limit:
        text = f"{who} may run {limit} job{'s' * (limit != 1)} at once; {used.jobs} run"
        yield Wait(reason, text)


def _tres(kind: str, who: str, most: Amounts, used: Used, ask: Ask, name: str) -> Iterator[Wait]:
    """Yield limits on amounts held at once; a node that several jobs share counts once."""
    for tres, limit in most.items():
        held, wanted = used.tres.get(tres, 0), ask.amounts.get(tres, 0)
        if tres == "node" and used.node_ids:
            held = len(used.node_ids)
            shared = sum(one in used.node_ids for one in ask.node_ids()) if ask.nodes else held
            wanted = max(0, wanted - shared)
        if limit != INFINITE and wanted and held + wanted > limit:
            need = f"it needs {wanted}" if kind == "job" else f"{held} held, {wanted} more needed"
            text = f"{name} may hold {amount_of(tres, limit)}; {need}"
            yield Wait(tres_reason(kind, who, tres), text)


def _minutes(
    kind: str, who: str, most: Amounts, used: Amounts, ask: Ask, run_min: int, name: str
) -> Iterator[Wait]:
    """Yield limits on TRES-minutes still to come."""
    for tres, limit in most.items():
        held, wanted = used.get(tres, 0), ask.amounts.get(tres, 0) * run_min
        if limit != INFINITE and wanted and held + wanted > limit:
            text = f"{name} may have {limit} {tres}-minutes to run; {held} held, {wanted} more"
            yield Wait(tres_reason(kind, who, tres), text)
