"""Limits of associations and QOS on what runs at once, as a pass asks about them.

A job that a limit blocks is skipped and keeps no room; those behind it go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyslurm_ng.model import assoc
from pyslurm_ng.model.ids import INFINITE
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.need import Need
from pyslurm_ng.sched.plan import Wait
from pyslurm_ng.sched.snapshot import Waiting

Amounts = Mapping[str, int]  # by TRES: cpu, mem (MiB), node


class Limits(Protocol):
    """What a pass asks before and tells after each start."""

    def may_start(self, job: Waiting, amounts: Amounts, now_us: int) -> Wait | None:
        """Return why a job may not start now, or None."""

    def took(self, job: Waiting, amounts: Amounts) -> None:
        """Count a start."""


def least(need: Need) -> dict[str, int]:
    """Return the least a job takes, wherever it starts."""
    cpus = max(need.tasks * need.cpus_per_task, need.nodes_min)
    mem_mib = need.mem_per_node_mib * need.nodes_min or need.mem_per_cpu_mib * cpus
    return {"cpu": cpus, "mem": mem_mib, "node": need.nodes_min}


def held(nodes: Sequence[NodeAlloc]) -> dict[str, int]:
    """Return what an allocation takes."""
    return {
        "cpu": sum(alloc.cpus for alloc in nodes),
        "mem": sum(alloc.mem_mib for alloc in nodes),
        "node": len(nodes),
    }


@dataclass(slots=True)
class Used:
    """What runs under one limit: jobs, and amounts by TRES."""

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)

    def add(self, amounts: Amounts) -> None:
        """Count one more job."""
        self.jobs += 1
        for name, count in amounts.items():
            self.tres[name] = self.tres.get(name, 0) + count


_GRP = {
    "Assoc": {
        "cpu": Reason.AssocGrpCpuLimit,
        "mem": Reason.AssocGrpMemLimit,
        "node": Reason.AssocGrpNodeLimit,
    },
    "QOS": {
        "cpu": Reason.QOSGrpCpuLimit,
        "mem": Reason.QOSGrpMemLimit,
        "node": Reason.QOSGrpNodeLimit,
    },
}
_PER_JOB = {
    "Assoc": {
        "cpu": Reason.AssocMaxCpuPerJobLimit,
        "mem": Reason.AssocMaxMemPerJob,
        "node": Reason.AssocMaxNodePerJobLimit,
    },
    "QOS": {
        "cpu": Reason.QOSMaxCpuPerJobLimit,
        "mem": Reason.QOSMaxMemoryPerJob,
        "node": Reason.QOSMaxNodePerJobLimit,
    },
}
_PER_USER = {
    "cpu": Reason.QOSMaxCpuPerUserLimit,
    "mem": Reason.QOSMaxMemoryPerUser,
    "node": Reason.QOSMaxNodePerUserLimit,
}


class Quotas:
    """Limits in memory: each job's QOS, its association and the accounts above."""

    def __init__(
        self, associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos]
    ) -> None:
        self._associations = associations
        self._qos = qos
        self._used: dict[tuple[str, int | str, int], Used] = {}

    def took(self, job: Waiting, amounts: Amounts) -> None:
        """Count a start, or a job that runs already."""
        keys: list[tuple[str, int | str, int]] = [("qos", job.qos, -1), ("qos", job.qos, job.uid)]
        keys += [("assoc", item.assoc_id, -1) for item in self._chain(job)]
        for key in keys:
            self._used.setdefault(key, Used()).add(amounts)

    def may_start(self, job: Waiting, amounts: Amounts, now_us: int) -> Wait | None:
        """Return the first limit in the way: of the QOS, then of associations upwards."""
        quality = self._qos.get(job.qos)
        if quality is not None:
            wait = self._by_qos(job, quality, amounts)
            if wait is not None:
                return wait
        for place, item in enumerate(self._chain(job)):
            wait = self._by_association(job, item, amounts, is_own=place == 0)
            if wait is not None:
                return wait
        return None

    def _chain(self, job: Waiting) -> list[assoc.Association]:
        chain: list[assoc.Association] = []
        item = self._associations.get(job.assoc_id)
        while item is not None and item not in chain:
            chain.append(item)
            item = self._associations.get(item.parent_id)
        return chain

    def _by_qos(self, job: Waiting, quality: assoc.Qos, amounts: Amounts) -> Wait | None:
        limits, name = quality.limits, f"QOS {quality.name}"
        everyone = self._used.get(("qos", job.qos, -1), Used())
        own = self._used.get(("qos", job.qos, job.uid), Used())
        owner = f"user {job.user_name or job.uid} in {name}"
        return (
            _tres(_PER_JOB["QOS"], limits.max_tres_per_job, {}, amounts, f"a job in {name}")
            or _jobs(Reason.QOSGrpJobsLimit, limits.grp_jobs, everyone, name)
            or _tres(_GRP["QOS"], limits.grp_tres, everyone.tres, amounts, name)
            or _jobs(Reason.QOSMaxJobsPerUserLimit, limits.max_jobs, own, owner)
            or _tres(_PER_USER, limits.max_tres_per_user, own.tres, amounts, owner)
        )

    def _by_association(
        self, job: Waiting, item: assoc.Association, amounts: Amounts, *, is_own: bool
    ) -> Wait | None:
        limits = item.limits
        name = f"user {item.user} in account {item.account}" if item.user else ""
        name = name or f"account {item.account}"
        used = self._used.get(("assoc", item.assoc_id, -1), Used())
        wait = None
        if is_own:
            wait = _jobs(Reason.AssocMaxJobsLimit, limits.max_jobs, used, name) or _tres(
                _PER_JOB["Assoc"], limits.max_tres_per_job, {}, amounts, f"a job of {name}"
            )
        return (
            wait
            or _jobs(Reason.AssocGrpJobsLimit, limits.grp_jobs, used, name)
            or _tres(_GRP["Assoc"], limits.grp_tres, used.tres, amounts, name)
        )


def _jobs(reason: Reason, limit: int, used: Used, who: str) -> Wait | None:
    if limit == INFINITE or used.jobs < limit:
        return None
    return Wait(reason, f"{who} may run {limit} jobs at once; {used.jobs} run")


def _tres(
    reasons: Mapping[str, Reason], most: Amounts, used: Amounts, wanted: Amounts, who: str
) -> Wait | None:
    for name, reason in reasons.items():
        limit = most.get(name, INFINITE)
        if limit != INFINITE and used.get(name, 0) + wanted.get(name, 0) > limit:
            text = f"{who} may hold {limit} of {name}; {used.get(name, 0)} held"
            return Wait(reason, f"{text}, {wanted.get(name, 0)} more needed")
    return None
