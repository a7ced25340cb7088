"""Jobs that the controller cannot deal with: one that makes its code raise is held.

It is held like a job that nothing suits, by `BadConstraints`, with a sentence that says why. Its
user or an administrator may change it and let it go again.
"""

from __future__ import annotations

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.states import JobState, Reason

_LONGEST = 200


def hold(cluster: Cluster, job_id: int, error: BaseException, now_us: int) -> list[ev.AnyEvent]:
    """Return the events that hold a job, and all components of its heterogeneous job.

    Nothing for a job that no longer waits.
    """
    job = cluster.jobs.get(job_id)
    if job is None:
        return []
    fields: dict[str, object] = {
        "priority": 0,
        "reason": int(Reason.BadConstraints),
        "reason_text": sentence(error),
    }
    return [
        ev.JobUpdated(now_us, part.job_id, fields)
        for part in het_components(cluster, job) or [job]
        if part.state == JobState.PENDING and not is_held(part.priority, part.reason)
    ]


def is_held(priority: int, reason: int) -> bool:
    """Return whether a fault has been the reason to hold a job."""
    return priority == 0 and reason == Reason.BadConstraints


def sentence(error: BaseException) -> str:
    """Return why a job is held, as it is shown to its user."""
    text = " ".join(str(error).split())[:_LONGEST]
    if isinstance(error, OverflowError) and text:
        return f"it cannot be scheduled: {text}"
    return "it cannot be scheduled: an internal error, which slurmctld's log tells"
