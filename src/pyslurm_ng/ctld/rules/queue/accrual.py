"""Which jobs gather age priority while they wait: MaxJobsAccrue and GrpJobsAccrue.

Jobs that gather already go on. Others join in the order of submission while the limits let them.
What the job's QOS sets takes the place of what associations do; the QOS of a partition has no say.
Source: Slurm's manual of sacctmgr, "Resource Limits".
"""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.assoc import Association, Limits
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.sched.limits.standing import first_set

_Counter = tuple[object, ...]


def due(cluster: Cluster, now_us: int) -> list[ev.AnyEvent]:
    """Return which waiting jobs begin, and which cease, to gather age; nothing without limits."""
    if not _any_limit(cluster):
        return []
    waiting = [
        job for job_id in cluster.job_index.pending if (job := cluster.jobs[job_id]).eligible_us
        and job.eligible_us <= now_us
    ]  # fmt: skip
    waiting.sort(key=lambda job: (not job.accrue_us, job.accrue_us, job.submit_us, job.job_id))
    gathering: dict[_Counter, int] = {}
    events: list[ev.AnyEvent] = []
    for job in waiting:
        tasks = task_ranges.count(job.array_pending) if job.array_pending else 1
        limits = list(_accrual_limits(cluster, job))
        # An array is one record: it gathers age if any of its tasks may.
        may = all(gathering.get(key, 0) < most for key, most in limits)
        if may:
            for key, _ in limits:
                gathering[key] = gathering.get(key, 0) + tasks
        if may != bool(job.accrue_us):
            events.append(ev.JobUpdated(now_us, job.job_id, {"accrue_us": now_us if may else 0}))
    return events


def _any_limit(cluster: Cluster) -> bool:
    limits = [qos.limits for qos in cluster.qos.values()]
    limits += [assoc.limits for assoc in cluster.assocs.values()]
    return any(
        level.grp_jobs_accrue != INFINITE
        or level.max_jobs_accrue != INFINITE
        or level.max_jobs_accrue_per_account != INFINITE
        for level in limits
    )


def _accrual_limits(cluster: Cluster, job: Job) -> Iterator[tuple[_Counter, int]]:
    """Yield what a job counts under, and how many may gather age there."""
    qos = cluster.qos.get(job.qos)
    limits = qos.limits if qos is not None else Limits()
    chain = [level.limits for level in _chain(cluster, job.assoc_id)]
    candidates: list[tuple[_Counter, int]] = [
        (("qos", job.qos), limits.grp_jobs_accrue),
        (("qos", job.qos, "user", job.uid), limits.max_jobs_accrue),
        (("qos", job.qos, "account", job.account), limits.max_jobs_accrue_per_account),
    ]
    if limits.max_jobs_accrue == INFINITE:
        own = first_set(level.max_jobs_accrue for level in chain)
        candidates.append((("assoc", job.assoc_id), own))
    if limits.grp_jobs_accrue == INFINITE:
        candidates += [
            (("group", level.assoc_id), level.limits.grp_jobs_accrue)
            for level in _chain(cluster, job.assoc_id)
        ]
    yield from ((key, most) for key, most in candidates if most != INFINITE)


def _chain(cluster: Cluster, assoc_id: int) -> Iterator[Association]:
    """Yield an association and the accounts above it."""
    seen: set[int] = set()
    while assoc_id in cluster.assocs and assoc_id not in seen:
        seen.add(assoc_id)
        assoc = cluster.assocs[assoc_id]
        yield assoc
        assoc_id = assoc.parent_id
