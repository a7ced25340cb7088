"""When a job starts for which others are leaving: when the last of them has left."""

from __future__ import annotations

from pyslurm_ng.sched.frame.job_records import Claim, Running
from pyslurm_ng.sched.frame.snapshot import Snapshot


def leaving(snapshot: Snapshot, claim: Claim) -> list[Running]:
    """Return those still in the way of a claim."""
    return [job for job in snapshot.running if job.job_id in claim.leaving]


def start_us(snapshot: Snapshot, claim: Claim) -> int:
    """Return when they are to be gone: their grace is over then."""
    return max((job.end_us for job in leaving(snapshot, claim)), default=0) or snapshot.now_us
