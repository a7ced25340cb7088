"""Limits of associations and QOS on what runs at once, as a pass asks about them.

A job that a limit blocks is skipped and keeps no room; those behind it go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyslurm_ng.model import assoc
from pyslurm_ng.model.ids import INFINITE, NO_VAL
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.need import Need
from pyslurm_ng.sched.plan import Wait
from pyslurm_ng.sched.snapshot import Waiting

Amounts = Mapping[str, int]  # by TRES: cpu, mem (MiB), node, gres/NAME


class Owner(Protocol):
    """Whose limits count: a `Waiting` or a `Job`."""

    @property
    def qos(self) -> str:
        """Its quality of service."""

    @property
    def uid(self) -> int:
        """Its user."""

    @property
    def assoc_id(self) -> int:
        """Its association."""


class Limits(Protocol):
    """What a pass asks before and tells after each start."""

    def may_start(self, job: Waiting, amounts: Amounts, now_us: int) -> Wait | None:
        """Return why a job may not start now, or None."""

    def took(self, job: Owner, amounts: Amounts) -> None:
        """Count a start."""


def least(need: Need) -> dict[str, int]:
    """Return the least a job takes, wherever it starts."""
    gpus = sum(count for name, _, count in need.gres_total if name == "gpu")
    gpus += sum(count for name, _, count in need.gres_per_node if name == "gpu") * need.nodes_min
    cpus = max(need.tasks * need.cpus_per_task, need.nodes_min, gpus * need.cpus_per_gpu)
    mem_mib = need.mem_per_node_mib * need.nodes_min or need.mem_per_cpu_mib * cpus
    amounts = {"cpu": cpus, "mem": mem_mib, "node": need.nodes_min}
    for wants, times in (
        (need.gres_total, 1),
        (need.gres_per_node, need.nodes_min),
        (need.gres_per_task, need.tasks),
    ):
        for name, _, count in wants:
            key = f"gres/{name}"
            amounts[key] = amounts.get(key, 0) + count * times
    return amounts


def held(nodes: Sequence[NodeAlloc]) -> dict[str, int]:
    """Return what an allocation takes."""
    amounts = {
        "cpu": sum(alloc.cpus for alloc in nodes),
        "mem": sum(alloc.mem_mib for alloc in nodes),
        "node": len(nodes),
    }
    for alloc in nodes:
        for item in alloc.gres:
            key = f"gres/{item.name}"
            amounts[key] = amounts.get(key, 0) + item.count
    return amounts


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
        "gres/gpu": Reason.AssocGrpGRES,
    },
    "QOS": {
        "cpu": Reason.QOSGrpCpuLimit,
        "mem": Reason.QOSGrpMemLimit,
        "node": Reason.QOSGrpNodeLimit,
        "gres/gpu": Reason.QOSGrpGRES,
    },
}
_PER_JOB = {
    "Assoc": {
        "cpu": Reason.AssocMaxCpuPerJobLimit,
        "mem": Reason.AssocMaxMemPerJob,
        "node": Reason.AssocMaxNodePerJobLimit,
        "gres/gpu": Reason.AssocMaxGRESPerJob,
    },
    "QOS": {
        "cpu": Reason.QOSMaxCpuPerJobLimit,
        "mem": Reason.QOSMaxMemoryPerJob,
        "node": Reason.QOSMaxNodePerJobLimit,
        "gres/gpu": Reason.QOSMaxGRESPerJob,
    },
}
_PER_USER = {
    "cpu": Reason.QOSMaxCpuPerUserLimit,
    "mem": Reason.QOSMaxMemoryPerUser,
    "node": Reason.QOSMaxNodePerUserLimit,
    "gres/gpu": Reason.QOSMaxGRESPerUser,
}


class Quotas:
    """Limits in memory: each job's QOS, its association and the accounts above.

    Limits of one job or user come from the QOS if that sets them, else from the association or
    the first account above that does. Limits of groups all count.
    """

    def __init__(
        self, associations: Mapping[int, assoc.Association], qos: Mapping[str, assoc.Qos]
    ) -> None:
        self._associations = associations
        self._qos = qos
        self._used: dict[tuple[str, int | str, int], Used] = {}

    def took(self, job: Owner, amounts: Amounts) -> None:
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
        chain = self._chain(job)
        wait = self._by_own(job, chain, amounts, quality.limits if quality is not None else _NONE)
        for item in chain:
            wait = wait or self._by_group(item, amounts)
        return wait

    def _chain(self, job: Owner) -> list[assoc.Association]:
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
            or _wall(
                Reason.QOSMaxWallDurationPerJobLimit, limits.max_wall_min, job, f"anybody in {name}"
            )
            or _jobs(Reason.QOSGrpJobsLimit, limits.grp_jobs, everyone, name)
            or _tres(_GRP["QOS"], limits.grp_tres, everyone.tres, amounts, name)
            or _jobs(Reason.QOSMaxJobsPerUserLimit, limits.max_jobs, own, owner)
            or _tres(_PER_USER, limits.max_tres_per_user, own.tres, amounts, owner)
        )

    def _by_own(
        self,
        job: Waiting,
        chain: Sequence[assoc.Association],
        amounts: Amounts,
        quality: assoc.Limits,
    ) -> Wait | None:
        """Return the first limit of the association in the way; accounts hand theirs down."""
        if not chain:
            return None
        own = chain[0]
        name = _name(own)
        used = self._used.get(("assoc", own.assoc_id, -1), Used())
        if quality.max_jobs == INFINITE:
            most = _first(item.limits.max_jobs for item in chain)
            wait = _jobs(Reason.AssocMaxJobsLimit, most, used, name)
            if wait is not None:
                return wait
        if quality.max_wall_min == INFINITE:
            most = _first(item.limits.max_wall_min for item in chain)
            wait = _wall(Reason.AssocMaxWallDurationPerJobLimit, most, job, name)
            if wait is not None:
                return wait
        per_job: dict[str, int] = {}
        for item in reversed(chain):
            per_job |= item.limits.max_tres_per_job
        per_job = {
            key: most for key, most in per_job.items() if key not in quality.max_tres_per_job
        }
        return _tres(_PER_JOB["Assoc"], per_job, {}, amounts, f"a job of {name}")

    def _by_group(self, item: assoc.Association, amounts: Amounts) -> Wait | None:
        limits, name = item.limits, _name(item)
        used = self._used.get(("assoc", item.assoc_id, -1), Used())
        return _jobs(Reason.AssocGrpJobsLimit, limits.grp_jobs, used, name) or _tres(
            _GRP["Assoc"], limits.grp_tres, used.tres, amounts, name
        )


_NONE = assoc.Limits()


def quotas(
    associations: Mapping[int, assoc.Association],
    qos: Mapping[str, assoc.Qos],
    running: Iterable[tuple[Owner, Sequence[NodeAlloc]]],
) -> Quotas | None:
    """Return the limits with what runs counted; None where nobody has any."""
    holders = [item.limits for item in associations.values()]
    holders += [item.limits for item in qos.values()]
    if all(limits == _NONE for limits in holders):
        return None
    found = Quotas(associations, qos)
    for job, nodes in running:
        found.took(job, held(nodes))
    return found


def _name(item: assoc.Association) -> str:
    where = f"account {item.account}"
    return f"user {item.user} in {where}" if item.user else where


def _first(limits: Iterable[int]) -> int:
    return next((limit for limit in limits if limit != INFINITE), INFINITE)


def _wall(reason: Reason, most_min: int, job: Waiting, who: str) -> Wait | None:
    if most_min == INFINITE or job.time_limit_min == NO_VAL or job.time_limit_min <= most_min:
        return None
    return Wait(reason, f"a job of {who} may run {most_min} min; it asks {job.time_limit_min}")


def _jobs(reason: Reason, limit: int, used: Used, who: str) -> Wait | None:
    if limit == INFINITE or used.jobs < limit:
        return None
    return Wait(reason, f"{who} may run {limit} job{'s' * (limit != 1)} at once; {used.jobs} run")


def _tres(
    reasons: Mapping[str, Reason], most: Amounts, used: Amounts, wanted: Amounts, who: str
) -> Wait | None:
    for name, reason in reasons.items():
        limit = most.get(name, INFINITE)
        if limit != INFINITE and used.get(name, 0) + wanted.get(name, 0) > limit:
            text = f"{who} may hold {limit} of {name}; {used.get(name, 0)} held"
            return Wait(reason, f"{text}, {wanted.get(name, 0)} more needed")
    return None
