"""What a run is charged for, which associations and QOS it is charged to, and at which rate."""

from __future__ import annotations

from typing import NamedTuple

from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.frame.measures import Amounts, Ask, amounts_held, ask_of_allocation
from pyslurm_ng.sched.limits.usage import Ledger, OwnerKey


class Charge(NamedTuple):
    """What a running job is charged for, and the owners whose usage grows by it."""

    start_us: int
    suspended_us: int  # before that
    qos: str
    owners: tuple[OwnerKey, ...]
    amounts: Amounts


class Charging:
    """What the Cluster says about the charges of its jobs; keeps nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def owners(self, job: Job) -> tuple[OwnerKey, ...]:
        """Return what is charged: associations upwards, the job's QOS and the partition's QOS."""
        cluster = self.cluster
        owners: dict[OwnerKey, None] = {}
        assoc = cluster.assocs.get(job.assoc_id)
        while assoc is not None and ("assoc", assoc.assoc_id) not in owners:
            owners["assoc", assoc.assoc_id] = None
            assoc = cluster.assocs.get(assoc.parent_id)
        partition = cluster.partitions.get(job.partition)
        for name in (job.qos, partition.qos if partition is not None else ""):
            if name:
                owners["qos", name] = None
        return tuple(owners)

    def amounts(self, job: Job) -> Amounts:
        """Return what a job holds of each TRES."""
        partition = self.cluster.partitions.get(job.partition)
        return amounts_held(job.nodes, job.licenses_alloc, partition)

    def ask(self, job: Job, now_us: int) -> Ask:
        """Return what a job holds, and for how long still."""
        partition = self.cluster.partitions.get(job.partition)
        left_min = INFINITE
        if job.time_limit_min < NO_VAL:
            left_min = max(0, job.time_limit_min - int(time_run_s(job, now_us) // 60))
        return ask_of_allocation(job.nodes, job.licenses_alloc, partition, left_min)

    def fades(self, owner: OwnerKey) -> bool:
        """Return whether usage fades: all does but that of a QOS with flag NoDecay."""
        record = self._qos(owner[1]) if owner[0] == "qos" else None
        return record is None or "NoDecay" not in record.flags

    def factor(self, qos: str) -> float:
        """Return UsageFactor of a QOS."""
        record = self._qos(qos)
        return record.usage_factor_millionths / 1e6 if record is not None else 1.0

    def counted_s(self, owner: OwnerKey, start_us: int, run_s: float, end_us: int) -> float:
        """Return how much of a run an owner's usage counts: nothing of before it was reset."""
        since_us = self.since_us(owner)
        return run_s if since_us <= start_us else min(run_s, max(0, end_us - since_us) / SECOND_US)

    def since_us(self, owner: OwnerKey) -> int:
        """Return when usage was last set to zero."""
        known = self.cluster.usage.get(owner)
        since_us = self.cluster.usage_since_us
        return max(since_us, known.since_us) if known is not None else since_us

    def is_known(self, owner: OwnerKey) -> bool:
        """Return whether the association or QOS still exists."""
        kind, name = owner
        return name in (self.cluster.assocs if kind == "assoc" else self.cluster.qos)

    def _qos(self, name: int | str) -> Qos | None:
        return self.cluster.qos.get(str(name))


def charge_run(charging: Charging, ledger: Ledger, job: Job, charge: Charge, end_us: int) -> None:
    """Count a run, or the part of it until `end_us`, in a ledger."""
    run_s, factor = charged_s(job, charge, end_us), charging.factor(charge.qos)
    for owner in charge.owners:
        counted_s = charging.counted_s(owner, charge.start_us, run_s, end_us)
        fades = charging.fades(owner)
        ledger.add(owner, end_us, counted_s, charge.amounts, fades=fades, factor=factor)


def time_run_s(job: Job, now_us: int) -> float:
    """Return for how long a job has run, without the time it was suspended."""
    return max(0, now_us - job.start_us - _suspended_us(job, now_us)) / SECOND_US


def charged_s(job: Job, charge: Charge, now_us: int) -> float:
    """Return for how long a job has run as it is charged for now."""
    suspended_us = _suspended_us(job, now_us) - charge.suspended_us
    return max(0, now_us - charge.start_us - suspended_us) / SECOND_US


def _suspended_us(job: Job, now_us: int) -> int:
    if job.state == JobState.SUSPENDED and job.suspend_us:
        return job.suspended_us + now_us - job.suspend_us
    return job.suspended_us
