"""The counters of sdiag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.query_messages import Diagnostics, ShowDiagnostics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller

_PRIVATE = frozenset(("users", "usage"))
"""Words of PrivateData that hide who else asks, and how much."""


def show_diagnostics(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowDiagnostics,
    caller: Caller,
    now_us: int,
    *,
    user_names: Mapping[int, str] | None = None,
) -> Diagnostics:
    """Return the counters of sdiag; of users only the caller's where PrivateData says so."""
    names = user_names or {}
    hides_others = not caller.is_operator and not _PRIVATE.isdisjoint(
        word.lower() for word in conf.private_data
    )
    return Diagnostics(
        now_us=now_us,
        since_us=soft.reset_us or soft.started_us,
        counters=counters_of(cluster, soft),
        messages=[(kind, call.count, call.total_us) for kind, call in soft.calls.items()],
        users=[
            (uid, names.get(uid, ""), call.count, call.total_us)
            for uid, call in soft.callers.items()
            if not hides_others or uid == caller.uid
        ],
        faults=sorted(soft.faults.items(), key=lambda row: (-row[1], row[0])),
        connections=[
            *soft.connections.items(),
            *((f"refused_{cause}", count) for cause, count in sorted(soft.refused.items())),
        ],
        limited=sorted(
            (
                (uid, names.get(uid, ""), count)
                for uid, count in soft.limited.items()
                if not hides_others or uid == caller.uid
            ),
            key=lambda row: -row[2],
        ),
    )


def counters_of(cluster: Cluster, soft: Soft) -> dict[str, int]:
    """Return the counters by the names that they have in messages."""
    passes, jobs = soft.passes, soft.jobs
    active = map(cluster.jobs.__getitem__, cluster.job_index.active)
    running = sum(1 for job in active if job.state == JobState.RUNNING)
    return {
        "agent_queue": soft.agent_queue,
        "agents": soft.agents,
        "dbd_queue": soft.dbd_queue,
        "jobs_submitted": jobs.submitted,
        "jobs_started": jobs.started,
        "jobs_completed": jobs.completed,
        "jobs_canceled": jobs.cancelled,
        "jobs_failed": jobs.failed,
        "jobs_pending": len(cluster.job_index.pending) + cluster.job_counts.unsplit_tasks,
        "jobs_running": running,
        "schedule_last_us": passes.last_us,
        "schedule_max_us": passes.longest_us,
        "schedule_total_us": passes.total_us,
        "schedule_cycles": passes.cycles,
        "schedule_depth": passes.tested,
        "schedule_queue": passes.queue_length,
        "schedule_when_us": passes.last_at_us,
        "backfilled": passes.started,
        "backfilled_ever": passes.started_ever,
        "backfilled_het": passes.het_components,
        "cut_by_test": passes.cut_by.get("bf_max_job_test", 0),
        "cut_by_start": passes.cut_by.get("bf_max_job_start", 0),
        "started_last_pass": passes.last_started,
        "tested_last_pass": passes.last_tested,
        "tried_last_pass": passes.last_tried,
        "schedule_tried": passes.tried,
        "schedule_queue_total": passes.queue_total,
        "schedule_slots": passes.slots,
        "schedule_slots_total": passes.slots_total,
        "clock_latency_us": soft.clock_latency_us,
        "epoch": cluster.epoch,
        "sequence": cluster.sequence,
        "journal_bytes": soft.journal_bytes,
        "journal_groups": soft.journal_groups,
    }
