"""Counts of each submitter's jobs, of array tasks that wait, and of licences that jobs hold."""

from __future__ import annotations

from typing import NamedTuple

from . import task_ranges
from .job import Job, is_completing
from .license_server import license_counts
from .states import TERMINAL_STATES, JobState


class Submitter(NamedTuple):
    """The user, account, QOS and partition of a submission; limits on numbers of jobs use them."""

    uid: int
    assoc_id: int
    account: str
    qos: str
    partition: str  # several joined by commas while it waits


class JobCounts:
    """Counts that follow from jobs; `apply` keeps them current."""

    __slots__ = (
        "_submitter_of",
        "_submitters",
        "array_active",
        "array_waiting",
        "licenses_used",
        "submitted",
        "unsplit_by_user",
        "unsplit_tasks",
    )

    def __init__(self) -> None:
        self.array_active: dict[int, int] = {}
        self.array_waiting: dict[int, int] = {}  # tasks that wait in each record of an array
        self.unsplit_tasks = 0  # all of them but one for each record
        self.unsplit_by_user: dict[int, int] = {}
        self.submitted: dict[Submitter, int] = {}  # jobs that wait or run, tasks counted singly
        self.licenses_used: dict[str, int] = {}
        self._submitter_of: dict[int, Submitter] = {}
        self._submitters: dict[Submitter, Submitter] = {}  # each of them once

    def count_active(self, job: Job, sign: int) -> None:
        """Count a job that begins (sign 1) or ends (sign -1) to hold resources."""
        self.take_licenses(job, sign)
        array_job_id = job.array_job_id
        if array_job_id:
            count = self.array_active.get(array_job_id, 0) + sign
            self.array_active[array_job_id] = count
            if not count:
                del self.array_active[array_job_id]

    def count_tasks(self, job: Job) -> None:
        """Count the tasks that wait in the record of an array."""
        before = self.array_waiting.pop(job.job_id, 1)
        now = task_ranges.count(job.array_pending) if job.state == JobState.PENDING else 0
        if now:
            self.array_waiting[job.job_id] = now
        if max(now, 1) != before:
            self._count_unsplit(job.uid, max(now, 1) - before)
        self._count_submitted(job, before, max(now, 1))

    def _count_unsplit(self, uid: int, more: int) -> None:
        """Count tasks that have no record of their own, of all users and of theirs."""
        self.unsplit_tasks += more
        counted = self.unsplit_by_user
        count = counted.get(uid, 0) + more
        if count:
            counted[uid] = count
        else:
            del counted[uid]

    def _count_submitted(self, job: Job, before: int, now: int) -> None:
        """Count a record as `now` jobs of its submitter in place of `before`, if it counted."""
        job_id, counted = job.job_id, self.submitted
        known = self._submitter_of.get(job_id)
        submitter: Submitter | None = None
        if job.state not in TERMINAL_STATES or is_completing(job):
            submitter = Submitter(job.uid, job.assoc_id, job.account, job.qos, job.partition)
        if submitter == known and before == now:
            return
        if known is not None:
            count = counted[known] - before
            if count:
                counted[known] = count
            else:
                del counted[known]
        if submitter is None:
            self._submitter_of.pop(job_id, None)
        else:
            self._submitter_of[job_id] = self._submitters.setdefault(submitter, submitter)
            counted[submitter] = counted.get(submitter, 0) + now

    def take_licenses(self, job: Job, sign: int) -> None:
        """Count (sign 1) or give back (sign -1) the licences a job holds."""
        for name, count in license_counts(job.licenses_alloc):
            self.licenses_used[name] = self.licenses_used.get(name, 0) + sign * count
