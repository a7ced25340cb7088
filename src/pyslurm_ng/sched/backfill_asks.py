"""Demands as limits of associations and QOS measure them."""

from __future__ import annotations

from pyslurm_ng.model.ids import INFINITE
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.demand import MINUTE_US, Demand
from pyslurm_ng.sched.limits import Ask, given, least
from pyslurm_ng.sched.snapshot import NO_END_US, Waiting


def least_ask(job: Waiting, demand: Demand) -> Ask:
    """Return the least that a job would take."""
    amounts = least(demand.need, job.request.licenses, demand.partition)
    return Ask(amounts, demand.partition, _limit_min(demand))


def given_ask(job: Waiting, demand: Demand, nodes: tuple[NodeAlloc, ...]) -> Ask:
    """Return what a job gets."""
    return given(nodes, job.request.licenses, demand.partition, _limit_min(demand))


def _limit_min(demand: Demand) -> int:
    return INFINITE if demand.duration_us >= NO_END_US else demand.duration_us // MINUTE_US
