"""Demands as limits of associations and QOS measure them."""

from __future__ import annotations

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.measures import Ask, ask_of_allocation, least


def least_ask(demand: Demand) -> Ask:
    """Return the least that a job would take."""
    amounts = least(demand.need, _text(demand), demand.partition)
    return Ask(amounts, demand.partition, _limit_min(demand))


def given_ask(demand: Demand, nodes: tuple[NodeAlloc, ...]) -> Ask:
    """Return what a job gets."""
    return ask_of_allocation(nodes, _text(demand), demand.partition, _limit_min(demand))


def _limit_min(demand: Demand) -> int:
    return INFINITE if demand.duration_us >= NO_END_US else demand.duration_us // MINUTE_US


def chosen_licenses(job: Waiting, demand: Demand) -> str:
    """Return which alternative of `--licenses=a|b` a start is for, "" where there is no choice."""
    return _text(demand) if "|" in job.request.licenses else ""


def _text(demand: Demand) -> str:
    return ",".join(f"{name}:{count}" for name, count in demand.licenses)
