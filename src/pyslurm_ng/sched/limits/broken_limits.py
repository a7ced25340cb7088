"""Which limits a start would break, each with the allowed and the held amount."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.measures import Amounts, Ask
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.limits.precedence import Kind, Rule
from pyslurm_ng.sched.limits.reasons import tres_reason
from pyslurm_ng.sched.limits.running_amounts import NOTHING, Counter, Used
from pyslurm_ng.sched.limits.standing import Standing
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent

_NAMES = {"cpu": "CPU", "node": "node", "gres/gpu": "GPU"}
_NOTHING_SPENT = Spent()


class BrokenLimits:
    """The limits in the way of starts, given what runs under each: `used`, by counter."""

    def __init__(
        self,
        used: Mapping[Counter, Used],
        spent: Callable[[OwnerKey], Spent] | None,
        *,
        is_safe: bool,
    ) -> None:
        """Look at what runs now.

        Args:
            spent: what associations and QOS have used so far; None: nothing.
            is_safe: AccountingStorageEnforce=safe.
        """
        self._used = used
        self._spent = spent
        self._is_safe = is_safe

    def in_the_way(self, standing: Standing, ask: Ask) -> Iterator[Wait]:
        """Yield the limits that a start would break."""
        for rule in standing.rules:
            used = self._used.get(rule.counter, NOTHING)
            match rule.spec.kind:
                case Kind.JOBS:
                    yield from _jobs(rule, used)
                case Kind.GROUP_WALL:
                    yield from self._wall_spent(rule)
                case Kind.JOB_WALL:
                    yield from _wall(rule, ask)
                case Kind.GROUP_MINUTES:
                    yield from self._minutes_spent(rule, ask)
                    if self._is_safe:
                        yield from self._would_overspend(rule, standing, ask, used)
                case Kind.HELD:
                    yield from _held(rule, used, ask)
                case Kind.RUN_MINUTES:
                    run_min = standing.run_min(ask.limit_min)
                    yield from _minutes(rule, used.run_min, ask, run_min)
                case _:
                    yield from _of_a_job(rule, ask)

    def spent_up(self, standing: Standing, ask: Ask) -> Iterator[Wait]:
        """Yield the budgets of minutes that are used up, of what a job holds."""
        for rule in standing.rules:
            if rule.spec.kind == Kind.GROUP_WALL:
                yield from self._wall_spent(rule)
            elif rule.spec.kind == Kind.GROUP_MINUTES:
                yield from self._minutes_spent(rule, ask)

    def _spent_by(self, rule: Rule) -> Spent:
        kind, owner = rule.counter[:2]
        return self._spent((str(kind), owner)) if self._spent is not None else _NOTHING_SPENT

    def _wall_spent(self, rule: Rule) -> Iterator[Wait]:
        used_min = self._spent_by(rule).wall_s / 60
        if used_min >= rule.limit:
            text = f"{rule.owner} may run {rule.limit} min in all; {used_min:.0f} used"
            yield _wait(rule, text)

    def _minutes_spent(self, rule: Rule, ask: Ask) -> Iterator[Wait]:
        """Yield the TRES of which there are no minutes left, if the job holds any of it."""
        spent = self._spent_by(rule)
        for tres, most in _amounts(rule):
            used_min = spent.tres_s.get(tres, 0.0) / 60
            if used_min >= most and ask.amounts.get(tres, 0):
                text = f"{rule.owner} may use {most} {tres}-minutes; {used_min:.0f} used"
                yield _wait(rule, text, tres)

    def _would_overspend(
        self, rule: Rule, standing: Standing, ask: Ask, used: Used
    ) -> Iterator[Wait]:
        """Yield the TRES of which a job's whole time limit, beside those running, is too much."""
        run_min = standing.run_min(ask.limit_min) if standing.is_factor_safe else ask.limit_min
        spent = self._spent_by(rule)
        for tres, most in _amounts(rule):
            used_minutes = int(spent.tres_s.get(tres, 0.0) / 60) + used.run_min.get(tres, 0)
            job_minutes = ask.amounts.get(tres, 0) * run_min
            if job_minutes and used_minutes + job_minutes > most:
                text = (
                    f"{rule.owner} may use {most} {tres}-minutes; {used_minutes} are used or "
                    f"promised, {job_minutes} more needed"
                )
                yield _wait(rule, text, tres)


def broken_alone(
    standing: Standing,
    ask: Ask,
    together: Mapping[Counter, Used],
    kinds: Container[Kind] = tuple(Kind),
) -> Iterator[Wait]:
    """Yield the limits that a job breaks whatever else runs: DenyOnLimit refuses it then.

    As in Slurm 22.05, those on minutes left of users and accounts and those on jobs are not among
    them.

    Args:
        together: what other components of the job have, by counter.
        kinds: which limits to look at.
    """
    has_end = ask.limit_min != INFINITE
    for rule in standing.rules:
        if rule.spec.kind not in kinds:
            continue
        match rule.spec.kind:
            case Kind.JOBS:
                continue
            case Kind.GROUP_WALL:
                if has_end and ask.limit_min > rule.limit:
                    yield _wait(rule, f"{rule.owner} may run {rule.limit} min in all")
            case Kind.JOB_WALL:
                yield from _wall(rule, ask)
            case Kind.HELD:
                yield from _held(rule, together.get(rule.counter, NOTHING), ask)
            case Kind.GROUP_MINUTES | Kind.RUN_MINUTES:
                if has_end and rule.spec.whose == "group":
                    yield from _minutes(rule, {}, ask, ask.limit_min)
            case Kind.JOB_MINUTES:
                if has_end:
                    yield from _of_a_job(rule, ask)
            case _:
                yield from _of_a_job(rule, ask)


def _amounts(rule: Rule) -> Iterator[tuple[str, int]]:
    """Yield the TRES of a limit, each with what is allowed."""
    assert rule.most is not None
    yield from rule.most.items()


def _wait(rule: Rule, text: str, tres: str = "") -> Wait:
    reason: Reason
    if tres:
        reason = tres_reason(rule.spec.pattern, rule.owner_kind, tres)
    else:
        reason = rule.spec.reasons[rule.owner_kind]
    return Wait(reason, text)


def _jobs(rule: Rule, used: Used) -> Iterator[Wait]:
    if used.jobs >= rule.limit:
        jobs = f"{rule.limit} job{'s' * (rule.limit != 1)}"
        yield _wait(rule, f"{rule.owner} may run {jobs} at once; {used.jobs} run")


def _wall(rule: Rule, ask: Ask) -> Iterator[Wait]:
    if ask.limit_min > rule.limit:
        asked = "no limit" if ask.limit_min == INFINITE else f"{ask.limit_min} min"
        yield _wait(rule, f"{rule.owner} may run {rule.limit} min; it asks for {asked}")


def _of_a_job(rule: Rule, ask: Ask) -> Iterator[Wait]:
    """Yield limits on any one job."""
    nodes = max(1, ask.amounts.get("node", 1))
    for tres, limit in _amounts(rule):
        job_amount, amount = ask.amounts.get(tres, 0), _amount_of(tres, limit)
        if rule.spec.kind == Kind.JOB and job_amount > limit:
            yield _wait(rule, f"{rule.owner} may hold {amount}; it needs {job_amount}", tres)
        elif rule.spec.kind == Kind.NODE and -(-job_amount // nodes) > limit:
            per_node = -(-job_amount // nodes)
            text = f"{rule.owner} may hold {amount} on each node; it needs {per_node}"
            yield _wait(rule, text, tres)
        elif rule.spec.kind == Kind.LEAST and job_amount < limit:
            text = f"{rule.owner} must ask for {amount} or more; it asks for {job_amount}"
            yield _wait(rule, text, tres)
    if rule.spec.kind == Kind.JOB_MINUTES:
        yield from _minutes(rule, {}, ask, ask.limit_min)


def _held(rule: Rule, used: Used, ask: Ask) -> Iterator[Wait]:
    """Yield limits on amounts held at once; a node that several jobs share counts once."""
    for tres, limit in _amounts(rule):
        used_amount, job_amount = used.tres.get(tres, 0), ask.amounts.get(tres, 0)
        if tres == "node" and used.node_ids:
            used_amount = len(used.node_ids)
            shared = (
                sum(node_id in used.node_ids for node_id in ask.node_ids())
                if ask.nodes
                else used_amount
            )
            job_amount = max(0, job_amount - shared)
        if job_amount and used_amount + job_amount > limit:
            text = f"{rule.owner} may hold {_amount_of(tres, limit)}; {used_amount} held, "
            yield _wait(rule, f"{text}{job_amount} more needed", tres)


def _minutes(rule: Rule, used: Amounts, ask: Ask, run_min: int) -> Iterator[Wait]:
    """Yield limits on TRES-minutes still to come."""
    for tres, limit in _amounts(rule):
        used_minutes, job_minutes = used.get(tres, 0), ask.amounts.get(tres, 0) * run_min
        if job_minutes and used_minutes + job_minutes > limit:
            sums = f"{used_minutes} held, {job_minutes} more"
            text = f"{rule.owner} may have {limit} {tres}-minutes to run; {sums}"
            yield _wait(rule, text, tres)


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
