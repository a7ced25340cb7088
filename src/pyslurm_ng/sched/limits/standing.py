"""Under whose limits a job is: those of QOS and associations, in the order in which they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import assoc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.measures import Owner
from pyslurm_ng.sched.limits.headroom import Counter

MILLION = 1_000_000
Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Whose limits a job is under: first its QOS, in the order in which they count, then its
    association and the accounts above."""

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


def key_of(job: Owner, partition: Partition | None) -> Key:
    """Return what decides which limits a job is under."""
    name = partition.qos if partition is not None else ""
    return job.qos, name, job.assoc_id, job.uid, job.account


def limits_on(standing: Standing) -> Iterator[assoc.Limits]:
    """Yield the limits of each QOS and association that a job is under."""
    for _, _, limits in named_limits(standing):
        yield limits


def named_limits(standing: Standing) -> Iterator[tuple[str, str, assoc.Limits]]:
    """Yield (QOS or Assoc, whose they are in words, limits) of all that a job is under."""
    for qos in standing.qos:
        yield "QOS", f"QOS {qos.name}", qos.limits
    for association in standing.chain:
        yield "Assoc", name_of(association), association.limits


def name_of(association: assoc.Association) -> str:
    """Return whose an association is, in words."""
    where = f"account {association.account}"
    return f"user {association.user} in {where}" if association.user else where


def first_set(limits: Iterable[int]) -> int:
    """Return the first limit that is set, INFINITE without one."""
    return next((limit for limit in limits if limit != INFINITE), INFINITE)
