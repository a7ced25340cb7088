"""What a pass asks about limits of associations and QOS, and how jobs are measured for them.

A job that a limit blocks is skipped and keeps no room; those behind it go on. The limits
themselves are in `quotas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.model.amounts import billing
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.request.need import Need

Amounts = Mapping[
    str, int
]  # by TRES: cpu, mem (MiB), node, billing, gres/NAME[:TYPE], license/NAME


class Owner(Protocol):
    """Whose limits count: a `Waiting` or a `Job`."""

    @property
    def qos(self) -> str:
        """Its quality of service."""

    @property
    def uid(self) -> int:
        """Its user."""

    @property
    def account(self) -> str:
        """Its account."""

    @property
    def assoc_id(self) -> int:
        """Its association."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job takes or would take: amounts, where, and for how long.

    `nodes` is empty as long as none are chosen: `amounts` is the least then.
    `limit_min` INFINITE: it may run for ever.
    """

    amounts: Amounts
    partition: Partition | None = None
    limit_min: int = INFINITE
    nodes: tuple[NodeAlloc, ...] = ()

    def node_ids(self) -> Iterator[int]:
        """Yield the nodes that were chosen."""
        return (alloc.node_id for alloc in self.nodes)


class Limits(Protocol):
    """What a pass asks before and tells after each start."""

    def may_start(self, job: Waiting, ask: Ask) -> Wait | None:
        """Return why a job may not start now, or None."""

    def is_clear(self, job: Waiting, ask: Ask) -> bool:
        """Return whether it is plain that a job may start and be promised room."""

    def may_start_all(self, asked: Sequence[tuple[Waiting, Ask]]) -> Wait | None:
        """Return why some jobs may not all start at once now, or None."""

    def took(self, job: Owner, ask: Ask) -> object:
        """Count a start."""

    def may_reserve(self, job: Waiting, partition: Partition, priority: int) -> bool:
        """Return whether a job that cannot start now may be promised room."""

    def fork(self) -> Limits:
        """Return the same limits, which count on their own from here."""

    def unused(self) -> Limits:
        """Return the same limits with no jobs below them, and nothing used so far."""


def least(need: Need, licenses: str = "", partition: Partition | None = None) -> dict[str, int]:
    """Return the least that a job takes, at any start."""
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
        for name, kind, count in wants:
            _add_gres(amounts, name, kind, count * times)
    if not mem_mib and need.mem_per_gpu_mib:
        amounts["mem"] = need.mem_per_gpu_mib * amounts.get("gres/gpu", 0)
    return _completed(amounts, licenses, partition)


_MOST_SHARED = 10_000
_shared: dict[tuple[tuple[str, int], ...], Amounts] = {}


def amounts_held(
    nodes: Sequence[NodeAlloc], licenses: str = "", partition: Partition | None = None
) -> Amounts:
    """Return what an allocation takes; jobs that take the same share it."""
    amounts = _amounts(nodes, licenses, partition)
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    return _shared.setdefault(tuple(amounts.items()), amounts)


def _amounts(
    nodes: Sequence[NodeAlloc], licenses: str, partition: Partition | None
) -> dict[str, int]:
    amounts = {
        "cpu": sum(alloc.charged_cpus for alloc in nodes),
        "mem": sum(alloc.mem_mib for alloc in nodes),
        "node": len(nodes),
    }
    for alloc in nodes:
        for gres in alloc.gres:
            _add_gres(amounts, gres.name, gres.type, gres.count)
    return _completed(amounts, licenses, partition)


def ask_of_allocation(
    nodes: tuple[NodeAlloc, ...], licenses: str, partition: Partition | None, limit_min: int
) -> Ask:
    """Return an allocation as limits measure it."""
    limit_min = INFINITE if limit_min >= NO_VAL else limit_min
    return Ask(amounts_held(nodes, licenses, partition), partition, limit_min, nodes)


def _add_gres(amounts: dict[str, int], name: str, kind: str, count: int) -> None:
    """Count a resource; without its type, a limit counts all types."""
    for key in (f"gres/{name}", f"gres/{name}:{kind}") if kind else (f"gres/{name}",):
        amounts[key] = amounts.get(key, 0) + count


def _completed(
    amounts: dict[str, int], licenses: str, partition: Partition | None
) -> dict[str, int]:
    for name, count in license_counts(licenses):
        amounts[f"license/{name}"] = count
    terms = partition.billing_terms if partition is not None else ""
    amounts["billing"] = billing(amounts, terms)
    return amounts
