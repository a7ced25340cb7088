"""Jobs by state, user, array, dependency and lost run. It follows from the Cluster's jobs."""

from __future__ import annotations

from typing import TypeVar

from pyslurm_ng.base.numbers import NO_VAL

from .job import Job, LostRun, is_completing
from .states import TERMINAL_STATES, JobState

K = TypeVar("K")


class JobIndex:
    """Indexes of job ids, each dict in order of entry; `apply` keeps them current."""

    __slots__ = (
        "active",
        "arrays",
        "by_user",
        "claims",
        "dependents",
        "ended",
        "ineligible",
        "leaving",
        "lost_on",
        "pending",
        "singletons",
        "suspended",
        "with_deadline",
    )

    def __init__(self) -> None:
        self.pending: dict[int, None] = {}
        # Pending, but begin time or dependency not reached. Jobs that are only held are not here:
        # there may be a hundred thousand, and only a user can release them.
        self.ineligible: dict[int, None] = {}
        self.with_deadline: dict[int, None] = {}  # pending
        self.active: dict[int, None] = {}
        self.suspended: dict[int, None] = {}  # they hold no cores, nor when they then clean up
        self.leaving: dict[int, None] = {}  # active, preempted with a grace time
        self.claims: dict[int, None] = {}  # pending, and has preempted others for its claim
        self.ended: dict[int, None] = {}
        self.by_user: dict[int, dict[int, None]] = {}
        # By node name: the jobs with a run that was lost there and may still go on.
        self.lost_on: dict[str, dict[int, None]] = {}
        self.arrays: dict[int, dict[int, int]] = {}
        self.dependents: dict[int, dict[int, None]] = {}
        self.singletons: dict[tuple[int, str], dict[int, None]] = {}

    def enter(self, job: Job) -> None:
        """Enter a new job."""
        self.by_user.setdefault(job.uid, {})[job.job_id] = None
        self.move(job)
        if job.array_job_id and job.array_task_id < NO_VAL:
            self.arrays.setdefault(job.array_job_id, {})[job.array_task_id] = job.job_id
        self.enter_dependencies(job)
        self.enter_lost_runs(job, job.lost_runs)

    def forget(self, job: Job) -> None:
        """Remove an ended job that is no longer known."""
        job_id = job.job_id
        assert job_id in self.ended, job
        del self.ended[job_id]
        self.forget_dependencies(job)
        self.enter_lost_runs(job, ())
        _drop(self.by_user, job.uid, job_id)
        tasks = self.arrays.get(job.array_job_id)
        if tasks is not None and tasks.get(job.array_task_id) == job_id:
            del tasks[job.array_task_id]
            if not tasks:
                del self.arrays[job.array_job_id]

    def move(self, job: Job) -> None:
        """Put a job into the one state index it belongs to."""
        job_id = job.job_id
        for index in (self.pending, self.ineligible, self.active, self.ended, self.suspended):
            index.pop(job_id, None)
        self.with_deadline.pop(job_id, None)
        self.claims.pop(job_id, None)
        self.leaving.pop(job_id, None)
        if job.state == JobState.PENDING:
            if job.request.deadline_us:
                self.with_deadline[job_id] = None
            self.pending[job_id] = None
            if job.claim:
                self.claims[job_id] = None
            if not job.eligible_us and (job.priority or job.dependencies):
                self.ineligible[job_id] = None
        elif job.state in TERMINAL_STATES and not is_completing(job):
            self.ended[job_id] = None
        else:
            self.active[job_id] = None
            if job.preempt_end_us:
                self.leaving[job_id] = None
            if job.state == JobState.SUSPENDED or (is_completing(job) and job.suspended_by):
                self.suspended[job_id] = None

    def enter_dependencies(self, job: Job) -> None:
        """Enter a job under the jobs that it waits for."""
        if job.state in TERMINAL_STATES:
            return  # a term that can no longer be met is only shown
        for term in job.dependencies:
            if term.job_id:
                self.dependents.setdefault(term.job_id, {})[job.job_id] = None
            else:
                key = (job.uid, job.request.name)
                self.singletons.setdefault(key, {})[job.job_id] = None

    def forget_dependencies(self, job: Job) -> None:
        """Remove a job from under the jobs that it waits for."""
        for term in job.dependencies:
            if term.job_id:
                _drop(self.dependents, term.job_id, job.job_id)
            else:
                _drop(self.singletons, (job.uid, job.request.name), job.job_id)

    def enter_lost_runs(self, job: Job, runs: tuple[LostRun, ...]) -> None:
        """Enter a job under the nodes that have not yet reported what became of its runs there."""
        for run in job.lost_runs:
            of_node = self.lost_on.get(run.node)
            if of_node is not None:
                of_node.pop(job.job_id, None)
                if not of_node:
                    del self.lost_on[run.node]
        for run in runs:
            if not run.proof:
                self.lost_on.setdefault(run.node, {})[job.job_id] = None


def _drop(index: dict[K, dict[int, None]], key: K, job_id: int) -> None:
    """Remove a job below a key, and the key with its last job."""
    job_ids = index.get(key)
    if job_ids is not None:
        job_ids.pop(job_id, None)
        if not job_ids:
            del index[key]
