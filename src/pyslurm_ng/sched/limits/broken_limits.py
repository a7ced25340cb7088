"""Which limits a start would break, each with the allowed and the held amount."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import assoc
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.measures import Amounts, Ask
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.limits.headroom import NOTHING, Counter, Used
from pyslurm_ng.sched.limits.reasons import tres_reason
from pyslurm_ng.sched.limits.standing import MILLION, Key, Standing, first_set, name_of
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent

_NAMES = {"cpu": "CPU", "node": "node", "gres/gpu": "GPU"}


class BrokenLimits:
    """The limits in the way of starts, given what runs under each: `used`, by counter."""

    def __init__(
        self,
        used: Mapping[Counter, Used],
        spent: Callable[[OwnerKey], Spent] | None,
        handed: dict[int, assoc.Limits],
        *,
        is_safe: bool,
    ) -> None:
        """Look at what runs now.

        Args:
            spent: what associations and QOS have used so far; None: nothing.
            handed: the limits that associations hand down, by identity of the standing: kept.
            is_safe: AccountingStorageEnforce=safe.
        """
        self._used = used
        self._spent = spent
        self._handed = handed
        self._is_safe = is_safe

    def in_the_way(self, standing: Standing, ask: Ask) -> Iterator[Wait]:
        """Yield the limits that a start would break."""
        before: list[assoc.Limits] = []
        for qos in standing.qos:
            name = f"QOS {qos.name}"
            used = self._used.get(("qos", qos.name), NOTHING)
            yield from _of_a_job(qos.limits, before, ask, "QOS", name)
            yield from _of_a_group(qos.limits, used, ask, standing, "QOS", name)
            yield from self._of_a_user(qos, before, ask, standing)
            before.append(qos.limits)
        yield from self._of_an_association(standing, before, ask)
        yield from self.spent_up(standing)
        if self._is_safe:
            yield from self._would_overspend(standing, ask)

    def _of_a_user(
        self, qos: assoc.Qos, before: list[assoc.Limits], ask: Ask, standing: Standing
    ) -> Iterator[Wait]:
        """Yield limits of a QOS on each user, then on each account."""
        limits, run_min = qos.limits, standing.run_min(ask.limit_min)
        owner = f"user {standing.user_name or standing.uid} in QOS {qos.name}"
        used = self._used.get(("qos", qos.name, "user", standing.uid), NOTHING)
        if all(earlier.max_jobs == INFINITE for earlier in before):
            yield from _jobs(Reason.QOSMaxJobsPerUserLimit, limits.max_jobs, used, owner)
        most = _not_yet(limits.max_tres_per_user, [earlier.max_tres_per_user for earlier in before])
        yield from _tres("user", "QOS", most, used, ask, owner)
        most = _not_yet(limits.max_tres_run_mins, [earlier.max_tres_run_mins for earlier in before])
        yield from _minutes("user run minutes", "QOS", most, used.run_min, ask, run_min, owner)
        owner = f"account {standing.account} in QOS {qos.name}"
        used = self._used.get(("qos", qos.name, "account", standing.account), NOTHING)
        if all(earlier.max_jobs_per_account == INFINITE for earlier in before):
            yield from _jobs(Reason.MaxJobsPerAccount, limits.max_jobs_per_account, used, owner)
        most = _not_yet(
            limits.max_tres_per_account, [earlier.max_tres_per_account for earlier in before]
        )
        yield from _tres("account", "QOS", most, used, ask, owner)
        earlier_min = [earlier.max_tres_run_mins_per_account for earlier in before]
        most = _not_yet(limits.max_tres_run_mins_per_account, earlier_min)
        yield from _minutes("account run minutes", "QOS", most, used.run_min, ask, run_min, owner)

    def _of_an_association(
        self, standing: Standing, before: list[assoc.Limits], ask: Ask
    ) -> Iterator[Wait]:
        """Yield limits of the association, which accounts hand down, and of the groups above."""
        chain, factor = standing.chain, standing.limit_factor
        if not chain:
            return
        used = self._used.get(("assoc", chain[0].assoc_id), NOTHING)
        name = name_of(chain[0])
        own = self._handed.get(id(standing))
        if own is None:
            own = _handed_down([association.limits for association in chain], factor)
            self._handed[id(standing)] = own
        if all(limits.max_jobs == INFINITE for limits in before):
            yield from _jobs(Reason.AssocMaxJobsLimit, own.max_jobs, used, name)
        yield from _of_a_job(own, before, ask, "Assoc", name)
        run_min = standing.run_min(ask.limit_min)
        most = _not_yet(own.max_tres_run_mins, [earlier.max_tres_run_mins for earlier in before])
        yield from _minutes("job minutes", "Assoc", most, used.run_min, ask, run_min, name)
        for level in chain:
            used = self._used.get(("assoc", level.assoc_id), NOTHING)
            yield from _of_a_group(
                level.limits, used, ask, standing, "Assoc", name_of(level), factor
            )

    def _groups(self, standing: Standing) -> Iterator[tuple[assoc.Limits, Key, Spent, str, str]]:
        """Yield limits, counter, usage, and names of each group with a budget of minutes."""
        groups: list[tuple[assoc.Limits, OwnerKey, str, str]] = []
        for qos in standing.qos:
            groups.append((qos.limits, ("qos", qos.name), "QOS", f"QOS {qos.name}"))
        for association in standing.chain:
            groups.append(
                (association.limits, ("assoc", association.assoc_id), "Assoc", name_of(association))
            )
        for limits, key, owner_kind, name in groups:
            if limits.grp_tres_mins or limits.grp_wall_min != INFINITE:
                spent = self._spent(key) if self._spent is not None else Spent()
                yield limits, key, spent, owner_kind, name

    def spent_up(self, standing: Standing) -> Iterator[Wait]:
        """Yield the budgets of minutes that are used up."""
        for limits, _, spent, owner_kind, name in self._groups(standing):
            used_min = spent.wall_s / 60
            if limits.grp_wall_min != INFINITE and used_min >= limits.grp_wall_min:
                text = f"{name} may run {limits.grp_wall_min} min in all; {used_min:.0f} used"
                yield Wait(
                    Reason.QOSGrpWallLimit if owner_kind == "QOS" else Reason.AssocGrpWallLimit,
                    text,
                )
            for tres, most in limits.grp_tres_mins.items():
                used_min = spent.tres_s.get(tres, 0.0) / 60
                if most != INFINITE and used_min >= most:
                    text = f"{name} may use {most} {tres}-minutes; {used_min:.0f} used"
                    yield Wait(tres_reason("group minutes", owner_kind, tres), text)

    def _would_overspend(self, standing: Standing, ask: Ask) -> Iterator[Wait]:
        """Yield the budgets that would not do for a job's whole time limit beside those running."""
        run_min = ask.limit_min
        if standing.is_factor_safe:
            run_min = standing.run_min(run_min)
        for limits, key, spent, owner_kind, name in self._groups(standing):
            promised = self._used.get(key, NOTHING).run_min
            for tres, most in limits.grp_tres_mins.items():
                used = int(spent.tres_s.get(tres, 0.0) / 60) + promised.get(tres, 0)
                job_amount = ask.amounts.get(tres, 0) * run_min
                if most != INFINITE and job_amount and used + job_amount > most:
                    text = (
                        f"{name} may use {most} {tres}-minutes; {used} are used or promised, "
                        f"{job_amount} more needed"
                    )
                    yield Wait(tres_reason("group minutes", owner_kind, tres), text)


def _not_yet(limits: Amounts, before: Iterable[Amounts]) -> Amounts:
    """Return the limits on TRES that none before has set."""
    seen = {name for limits in before for name in limits}
    return limits if not seen else {name: most for name, most in limits.items() if name not in seen}


def _handed_down(chain: list[assoc.Limits], factor: int) -> assoc.Limits:
    """Return the limits of one job that an association has itself or from the accounts above."""

    def merged(limits: Iterable[Amounts]) -> dict[str, int]:
        least: dict[str, int] = {}
        for level in limits:
            for name, most in level.items():
                least.setdefault(name, most * factor // MILLION)
        return least

    return assoc.Limits(
        max_jobs=first_set(association.max_jobs for association in chain),
        max_wall_min=first_set(association.max_wall_min for association in chain),
        max_tres_per_job=merged(association.max_tres_per_job for association in chain),
        max_tres_per_node=merged(association.max_tres_per_node for association in chain),
        max_tres_mins_per_job=merged(association.max_tres_mins_per_job for association in chain),
        max_tres_run_mins=merged(association.max_tres_run_mins for association in chain),
    )


def _of_a_job(
    limits: assoc.Limits, before: list[assoc.Limits], ask: Ask, owner_kind: str, name: str
) -> Iterator[Wait]:
    """Yield limits on any one job."""
    most = _not_yet(limits.max_tres_per_job, [earlier.max_tres_per_job for earlier in before])
    yield from _tres("job", owner_kind, most, NOTHING, ask, f"a job of {name}")
    most = _not_yet(limits.max_tres_per_node, [earlier.max_tres_per_node for earlier in before])
    nodes = max(1, ask.amounts.get("node", 1))
    for tres, limit in most.items():
        per_node = -(-ask.amounts.get(tres, 0) // nodes)
        if per_node > limit:
            amount = _amount_of(tres, limit)
            text = f"a job of {name} may hold {amount} on each node; it needs {per_node}"
            yield Wait(tres_reason("node", owner_kind, tres), text)
    for tres, least in limits.min_tres_per_job.items():
        job_amount = ask.amounts.get(tres, 0)
        if job_amount < least and not any(tres in earlier.min_tres_per_job for earlier in before):
            text = f"a job of {name} must ask for {_amount_of(tres, least)} or more; "
            text += f"it asks for {job_amount}"
            yield Wait(tres_reason("least", owner_kind, tres), text)
    if all(earlier.max_wall_min == INFINITE for earlier in before):
        limit = limits.max_wall_min
        if limit != INFINITE and ask.limit_min > limit:
            reason = Reason.QOSMaxWallDurationPerJobLimit
            if owner_kind == "Assoc":
                reason = Reason.AssocMaxWallDurationPerJobLimit
            asked = "no limit" if ask.limit_min == INFINITE else f"{ask.limit_min} min"
            yield Wait(reason, f"a job of {name} may run {limit} min; it asks for {asked}")
    most = _not_yet(
        limits.max_tres_mins_per_job, [earlier.max_tres_mins_per_job for earlier in before]
    )
    yield from _minutes("job minutes", owner_kind, most, {}, ask, ask.limit_min, f"a job of {name}")


def _of_a_group(
    limits: assoc.Limits,
    used: Used,
    ask: Ask,
    standing: Standing,
    owner_kind: str,
    name: str,
    factor: int = MILLION,
) -> Iterator[Wait]:
    """Yield limits on all jobs of a QOS or below an association together."""
    reason = Reason.QOSGrpJobsLimit if owner_kind == "QOS" else Reason.AssocGrpJobsLimit
    yield from _jobs(reason, limits.grp_jobs, used, name)
    most = limits.grp_tres
    if factor != MILLION:
        most = {tres: limit * factor // MILLION for tres, limit in most.items()}
    yield from _tres("group", owner_kind, most, used, ask, name)
    run_min = standing.run_min(ask.limit_min)
    most = limits.grp_tres_run_mins
    yield from _minutes("group run minutes", owner_kind, most, used.run_min, ask, run_min, name)


def _jobs(reason: Reason, limit: int, used: Used, owner: str) -> Iterator[Wait]:
    if limit != INFINITE and used.jobs >= limit:
        text = f"{owner} may run {limit} job{'s' * (limit != 1)} at once; {used.jobs} run"
        yield Wait(reason, text)


def _tres(
    kind: str, owner_kind: str, most: Amounts, used: Used, ask: Ask, name: str
) -> Iterator[Wait]:
    """Yield limits on amounts held at once; a node that several jobs share counts once."""
    for tres, limit in most.items():
        used_amount, job_amount = used.tres.get(tres, 0), ask.amounts.get(tres, 0)
        if tres == "node" and used.node_ids:
            used_amount = len(used.node_ids)
            shared = (
                sum(node_id in used.node_ids for node_id in ask.node_ids())
                if ask.nodes
                else used_amount
            )
            job_amount = max(0, job_amount - shared)
        if limit != INFINITE and job_amount and used_amount + job_amount > limit:
            need = (
                f"it needs {job_amount}"
                if kind == "job"
                else f"{used_amount} held, {job_amount} more needed"
            )
            text = f"{name} may hold {_amount_of(tres, limit)}; {need}"
            yield Wait(tres_reason(kind, owner_kind, tres), text)


def _minutes(
    kind: str, owner_kind: str, most: Amounts, used: Amounts, ask: Ask, run_min: int, name: str
) -> Iterator[Wait]:
    """Yield limits on TRES-minutes still to come."""
    for tres, limit in most.items():
        used_minutes, job_minutes = used.get(tres, 0), ask.amounts.get(tres, 0) * run_min
        if limit != INFINITE and job_minutes and used_minutes + job_minutes > limit:
            sums = f"{used_minutes} held, {job_minutes} more"
            text = f"{name} may have {limit} {tres}-minutes to run; {sums}"
            yield Wait(tres_reason(kind, owner_kind, tres), text)


def _amount_of(tres: str, count: int) -> str:
    """Return `4 CPUs`, `2048 MiB of memory`, `1 licence matlab`, `2 of gres/gpu:a100`."""
    many = "s" * (count != 1)
    if tres in _NAMES:
        return f"{count} {_NAMES[tres]}{many}"
    if tres == "mem":
        return f"{count} MiB of memory"
    if tres.startswith("license/"):
        return f"{count} licence{many} {tres.removeprefix('license/')}"
    return f"{count} of {tres}"
