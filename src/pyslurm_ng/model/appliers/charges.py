"""What a run has used so far is charged as the job was until now."""

from __future__ import annotations

from ..job import Job
from ..states import JobState


def charge_so_far(job: Job, time_us: int) -> None:
    """Record what a job has used so far, charged as the job was until now."""
    job.charged_us = time_us
    job.charged_suspended_us = job.suspended_us
    if job.state == JobState.SUSPENDED:
        job.charged_suspended_us += time_us - job.suspend_us
