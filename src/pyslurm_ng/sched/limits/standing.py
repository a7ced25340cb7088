"""Under whose limits a job is: those of QOS and associations, in the order in which they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import assoc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.measures import Owner
from pyslurm_ng.sched.limits.precedence import MILLION, Precedence, Rule
from pyslurm_ng.sched.limits.running_amounts import Counter

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Whose limits a job is under: first its QOS, in the order in which they count, then its
    association and the accounts above. `rules` has the limits that hold."""

    qos: tuple[assoc.Qos, ...]
    chain: tuple[assoc.Association, ...]
    rules: tuple[Rule, ...]
    usage_factor: int  # in millionths, of the job's QOS
    is_factor_safe: bool  # with safe limits the usage factor counts before a start, too
    uid: int
    account: str

    def counters(self) -> Iterator[tuple[Counter, bool]]:
        """Yield the counters of its jobs, and whether a limit is on how many nodes these have."""
        for qos in self.qos:
            limits = qos.limits
            yield ("qos", qos.name), "node" in limits.grp_tres
            yield ("qos", qos.name, "user", self.uid), "node" in limits.max_tres_per_user
            yield ("qos", qos.name, "account", self.account), "node" in limits.max_tres_per_account
        for association in self.chain:
            yield ("assoc", association.assoc_id), "node" in association.limits.grp_tres

    def run_min(self, limit_min: int) -> int:
        """Return for how long a run is charged."""
        return limit_min * self.usage_factor // MILLION


def standing_of(
    associations: Mapping[int, assoc.Association],
    qos: Mapping[str, assoc.Qos],
    job: Owner,
    partition: Partition | None,
) -> Standing:
    """Return whose limits a job is under in a partition."""
    own = qos.get(job.qos)
    other = qos.get(partition.qos) if partition is not None else None
    records = [other, own] if own is None or "OverPartQOS" not in own.flags else [own, other]
    if own is other:
        records = [own]
    in_order = tuple(record for record in records if record is not None)
    chain = tuple(chain_of(associations, job.assoc_id))
    factor = (own.limit_factor_millionths if own is not None else 0) or MILLION
    user_name = getattr(job, "user_name", "")
    return Standing(
        in_order,
        chain,
        Precedence(in_order, chain, factor, job.uid, user_name, job.account).rules(),
        own.usage_factor_millionths if own is not None else MILLION,
        own is not None and "UsageFactorSafe" in own.flags,
        job.uid,
        job.account,
    )


def chain_of(
    associations: Mapping[int, assoc.Association], assoc_id: int
) -> list[assoc.Association]:
    """Return an association and those above it, lowest first."""
    chain: list[assoc.Association] = []
    association = associations.get(assoc_id)
    while association is not None and association not in chain:
        chain.append(association)
        association = associations.get(association.parent_id)
    return chain


def key_of(job: Owner, partition: Partition | None) -> Key:
    """Return what decides which limits a job is under."""
    name = partition.qos if partition is not None else ""
    return job.qos, name, job.assoc_id, job.uid, job.account


def limits_on(standing: Standing) -> Iterator[assoc.Limits]:
    """Yield the limits of each QOS and association that a job is under."""
    for qos in standing.qos:
        yield qos.limits
    for association in standing.chain:
        yield association.limits


def first_set(limits: Iterable[int]) -> int:
    """Return the first limit that is set, INFINITE without one."""
    return next((limit for limit in limits if limit != INFINITE), INFINITE)
