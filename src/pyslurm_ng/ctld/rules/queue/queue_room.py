"""How much of the controller's memory the jobs of one user may take.

Most jobs have a few hundred characters of text. One may have 4 MiB, and each task of an array that
starts or is changed by itself shows it again: in listings, in checkpoints, in each recorded change.
So what a record takes beyond the usual is counted for its user, and bounded. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest, Step
from pyslurm_ng.model.kept_request import own_length, shared_length, shared_part, text_bytes

USUAL = 4096
"""Bytes of text that every record may have without being counted."""
USUAL_OF_STEP = 1024
"""A job may have 40,000 steps."""
TERM = 512
"""A dependency counts as so many bytes: it takes time as well, whenever something ends."""
MOST = 64 << 20
"""Bytes beyond the usual of all records of one user, tasks of arrays counted singly."""
MOST_OF_EACH = 8192
"""Where MaxJobCount is high, one user may have so many for each job it allows."""

_step_texts = attrgetter(
    "name", "submit_line", "cwd", "std_in", "std_out", "std_err", "network", "container",
    "container_id", "tres_per_node", "distribution", "srun_host",
)  # fmt: skip


def beyond_usual(request: JobRequest, terms: int, tasks: int) -> int:
    """Return what a job with so many dependencies and tasks counts for; 0 for nearly all."""
    return max(0, own_length(request) + shared_length(request) + TERM * terms - USUAL) * tasks


def step_beyond_usual(step: Step) -> int:
    """Return what a step counts for; 0 for nearly all."""
    return max(0, text_bytes("".join(_step_texts(step))) - USUAL_OF_STEP)


def of_user(cluster: Cluster, uid: int) -> int:
    """Return what all records of a user count for, those that are over and still shown too."""
    shared: dict[int, int] = {}  # jobs that follow one another mostly have one object
    total = 0
    for job_id in cluster.job_index.by_user.get(uid, ()):
        job = cluster.jobs[job_id]
        part = shared_part(job.request)
        length = shared.get(id(part))
        if length is None:
            length = shared[id(part)] = shared_length(part)
        length += own_length(job.request) + TERM * len(job.dependencies) - USUAL
        if length > 0:
            total += length * waiting_tasks(job)
        if job.steps:
            total += sum(map(step_beyond_usual, job.steps.values()))
    return total


def waiting_tasks(job: Job) -> int:
    """Return how many records a job is or will be."""
    return max(1, task_ranges.count(job.array_pending))


def refusal(cluster: Cluster, context: Context, counts: Iterable[int]) -> Reject | None:
    """Return why a user may not have more jobs that count for so much."""
    more = sum(counts)
    if not more or context.caller.is_operator:
        return None
    free_count = room(cluster, context, context.caller.uid)
    if more <= free_count:
        return None
    return Reject(Errno.ESLURM_ACCOUNTING_POLICY, text(more, free_count))


def room(cluster: Cluster, context: Context, uid: int) -> int:
    """Return what more jobs of a user may count for."""
    return max(MOST, MOST_OF_EACH * context.conf.max_job_count) - of_user(cluster, uid)


def text(more: int, free_count: int) -> str:
    """Return what a refusal says."""
    return (
        f"options, arguments and dependencies beyond {USUAL} bytes a job and task, or "
        f"{USUAL_OF_STEP} a step: {more} bytes, and the user's jobs have room for "
        f"{max(0, free_count)} more"
    )
