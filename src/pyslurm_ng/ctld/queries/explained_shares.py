"""What `scontrol explain job` says about fair-share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.sched.demand.reason import minutes
from pyslurm_ng.sched.explain.fair_shares import Lead
from pyslurm_ng.sched.fair_share.forecast import LONGEST_S


def share_sentences(
    cluster: Cluster, job: Job, leads: Sequence[Lead], sees: Callable[[Job], bool]
) -> list[str]:
    """Return one sentence for each account whose jobs go first by fair-share.

    Args:
        sees: whether the caller may see a job; those that it may not see are not counted.
    """
    sentences = []
    for lead in leads:
        seen = sum(
            (other := cluster.jobs.get(job_id)) is not None and sees(other)
            for job_id in lead.job_ids
        )
        if seen:
            sentences.append(_sentence(job, lead, seen))
    return sentences


def _sentence(job: Job, lead: Lead, count: int) -> str:
    theirs, own = _factor(lead.most, lead.own), _factor(lead.own, lead.most)
    least = _factor(lead.least, lead.own)
    if least != theirs:
        theirs = f"{least} to {theirs}"
    go = "goes" if count == 1 else "go"
    text = f"{plural(count, 'job')} of account {lead.account} {go} first by fair-share: "
    text += f"the factor there is {theirs}, its own is {own}"
    if lead.passed_in_s < 0:
        return text
    rests = f"if {job.user_name} uses nothing more in account {job.account}"
    if lead.passed_in_s:
        return f"{text}; {rests}, its own is higher in {minutes(lead.passed_in_s * SECOND_US)}"
    return f"{text}; that may last longer than {minutes(LONGEST_S * SECOND_US)} even {rests}"


def _factor(factor: float, other: float) -> str:
    """Return a factor with two digits, or as many as show that it is another than `other`."""
    for digits in (2, 3, 4, 5):
        if f"{factor:.{digits}f}" != f"{other:.{digits}f}":
            return f"{factor:.{digits}f}"
    return f"{factor:.6f}"
