"""Which limits hold for a job: of those set at several levels the first, in Slurm's order.

The QOS of the partition comes before that of the job (`OverPartQOS` turns this round), both before
the association. What a QOS sets takes the place of the same limit of all that come after it, for
each TRES, also of limits on groups. Of associations the limits on groups hold at each level; others
are handed down by the nearest account that has them. Source: Slurm's manual, "Resource Limits", and
what Slurm 22.05 does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.limits.running_amounts import Counter

MILLION = 1_000_000


class Kind(IntEnum):
    """What a limit is on."""

    JOBS = 1  # jobs that run at once
    GROUP_WALL = 2  # minutes that all jobs have run
    JOB_WALL = 3  # the time limit of a job
    GROUP_MINUTES = 4  # TRES-minutes that all jobs have used
    HELD = 5  # amounts that are held at once
    RUN_MINUTES = 6  # TRES-minutes that running jobs have left
    JOB_MINUTES = 7  # TRES-minutes of a job
    JOB = 8  # amounts of a job
    NODE = 9  # amounts of a job on each node
    LEAST = 10  # amounts that a job must ask for


class Spec(NamedTuple):
    """A limit: its field, what it is on, and all jobs of whom count together.

    `reasons` are those of associations and QOS, for limits without TRES; `pattern` names the kind
    of reason of others.
    """

    field: str
    kind: Kind
    whose: str  # group, account, user, own (the association's) or job
    reasons: Mapping[str, Reason] = {}
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit that holds for a job; `most` by TRES, or `limit`."""

    spec: Spec
    owner_kind: str  # QOS or Assoc
    owner: str  # in words
    counter: Counter
    limit: int = INFINITE
    most: Mapping[str, int] | None = None


_GRP_JOBS = Spec(
    "grp_jobs",
    Kind.JOBS,
    "group",
    {"QOS": Reason.QOSGrpJobsLimit, "Assoc": Reason.AssocGrpJobsLimit},
)
_GRP_WALL = Spec(
    "grp_wall_min",
    Kind.GROUP_WALL,
    "group",
    {"QOS": Reason.QOSGrpWallLimit, "Assoc": Reason.AssocGrpWallLimit},
)
_MAX_WALL = Spec(
    "max_wall_min",
    Kind.JOB_WALL,
    "job",
    {
        "QOS": Reason.QOSMaxWallDurationPerJobLimit,
        "Assoc": Reason.AssocMaxWallDurationPerJobLimit,
    },
)
_GROUP_AMOUNTS = (
    Spec("grp_tres_mins", Kind.GROUP_MINUTES, "group", pattern="group minutes"),
    Spec("grp_tres", Kind.HELD, "group", pattern="group"),
    Spec("grp_tres_run_mins", Kind.RUN_MINUTES, "group", pattern="group run minutes"),
)
_JOB_AMOUNTS = (
    Spec("max_tres_mins_per_job", Kind.JOB_MINUTES, "job", pattern="job minutes"),
    Spec("max_tres_per_job", Kind.JOB, "job", pattern="job"),
    Spec("max_tres_per_node", Kind.NODE, "job", pattern="node"),
)
_QOS_NUMBERS = (
    _GRP_JOBS,
    _GRP_WALL,
    Spec("max_jobs_per_account", Kind.JOBS, "account", {"QOS": Reason.MaxJobsPerAccount}),
    Spec("max_jobs", Kind.JOBS, "user", {"QOS": Reason.QOSMaxJobsPerUserLimit}),
    _MAX_WALL,
)
_QOS_AMOUNTS = (
    *_GROUP_AMOUNTS,
    *_JOB_AMOUNTS,
    Spec("min_tres_per_job", Kind.LEAST, "job", pattern="least"),
    Spec("max_tres_per_account", Kind.HELD, "account", pattern="account"),
    Spec("max_tres_per_user", Kind.HELD, "user", pattern="user"),
    Spec(
        "max_tres_run_mins_per_account", Kind.RUN_MINUTES, "account", pattern="account run minutes"
    ),
    Spec("max_tres_run_mins", Kind.RUN_MINUTES, "user", pattern="user run minutes"),
)
_OWN_NUMBERS = (
    Spec("max_jobs", Kind.JOBS, "own", {"Assoc": Reason.AssocMaxJobsLimit}),
    _MAX_WALL,
)
_OWN_AMOUNTS = (
    *_JOB_AMOUNTS,
    Spec("max_tres_run_mins", Kind.RUN_MINUTES, "own", pattern="job minutes"),
)
_WITH_FACTOR = ("grp_tres", "max_tres_per_job")  # which limits LimitFactor multiplies: Slurm 22.05
_NO_LIMITS = Limits()


class Precedence:
    """The limits of one user in one account and QOS; keeps what those before have set."""

    def __init__(
        self,
        qos: Sequence[Qos],
        chain: Sequence[Association],
        limit_factor: int,
        uid: int,
        user_name: str,
        account: str,
    ) -> None:
        """Take QOS and associations in the order in which they count."""
        self._qos = [record for record in qos if record.limits != _NO_LIMITS]
        self._chain = chain
        self._factor = limit_factor
        self._uid = uid
        self._user = user_name or str(uid)
        self._account = account
        self._seen: set[tuple[str, str]] = set()  # field and TRES, "" for none

    def rules(self) -> tuple[Rule, ...]:
        """Return the limits in the order in which Slurm looks at them: numbers, then amounts."""
        return (
            *self._of_qos(_QOS_NUMBERS),
            *self._of_associations((_GRP_JOBS, _GRP_WALL), _OWN_NUMBERS),
            *self._of_qos(_QOS_AMOUNTS),
            *self._of_associations(_GROUP_AMOUNTS, _OWN_AMOUNTS),
        )

    def _of_qos(self, specs: Sequence[Spec]) -> Iterator[Rule]:
        for record in self._qos:
            for spec in specs:
                rule = self._rule(spec, (record.limits,), "QOS", *self._owner_in(record, spec))
                if rule is not None:
                    yield rule
                    self._note(rule)

    def _owner_in(self, record: Qos, spec: Spec) -> tuple[str, Counter]:
        """Return whose limit of a QOS it is, in words, and by which counter."""
        name = f"QOS {record.name}"
        if spec.whose == "user":
            return f"user {self._user} in {name}", ("qos", record.name, "user", self._uid)
        if spec.whose == "account":
            counter = "qos", record.name, "account", self._account
            return f"account {self._account} in {name}", counter
        return f"a job of {name}" if spec.whose == "job" else name, ("qos", record.name)

    def _of_associations(self, group: Sequence[Spec], own: Sequence[Spec]) -> Iterator[Rule]:
        above = [association.limits for association in self._chain]
        if all(limits == _NO_LIMITS for limits in above):
            return
        for level, association in enumerate(self._chain):
            name, counter = name_of(association), ("assoc", association.assoc_id)
            for spec in group:
                rule = self._rule(spec, (association.limits,), "Assoc", name, counter)
                if rule is not None:
                    yield rule
            for spec in own if level == 0 else ():
                whose = f"a job of {name}" if spec.whose == "job" else name
                rule = self._rule(spec, above, "Assoc", whose, counter)
                if rule is not None:
                    yield rule

    def _rule(
        self,
        spec: Spec,
        levels: Sequence[Limits],
        owner_kind: str,
        owner: str,
        counter: Counter,
    ) -> Rule | None:
        """Return the limit that the first of some levels sets, unless a QOS before has set it."""
        if not spec.pattern:
            if (spec.field, "") in self._seen:
                return None
            numbers = (getattr(limits, spec.field) for limits in levels)
            limit = next((number for number in numbers if number != INFINITE), INFINITE)
            if limit == INFINITE:
                return None
            return Rule(spec, owner_kind, owner, counter, limit)
        most: dict[str, int] = {}
        for limits in levels:
            for tres, amount in getattr(limits, spec.field).items():
                if (spec.field, tres) not in self._seen:
                    most.setdefault(tres, amount)
        if owner_kind == "Assoc" and self._factor != MILLION and spec.field in _WITH_FACTOR:
            most = {tres: amount * self._factor // MILLION for tres, amount in most.items()}
        most = {tres: amount for tres, amount in most.items() if amount != INFINITE}
        return Rule(spec, owner_kind, owner, counter, most=most) if most else None

    def _note(self, rule: Rule) -> None:
        names = rule.most if rule.most is not None else ("",)
        self._seen.update((rule.spec.field, tres) for tres in names)


def name_of(association: Association) -> str:
    """Return whose an association is, in words."""
    where = f"account {association.account}"
    return f"user {association.user} in {where}" if association.user else where
