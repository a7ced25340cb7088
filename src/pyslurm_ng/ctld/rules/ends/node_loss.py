"""What becomes of the jobs of nodes that leave service."""

from __future__ import annotations

from pyslurm_ng.base.numbers import REQ_NO_KILL, SIGNAL_NODE_FAIL
from pyslurm_ng.conf.node_loss import AS_SLURM
from pyslurm_ng.ctld.rules.ends import job_end, lost_runs
from pyslurm_ng.ctld.rules.ends.requeue import (
    DEFAULT_RULES,
    RequeueRules,
    flags_beside_a_broken_node,
    lost_run_flags,
)
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobFlag, JobState, Reason


def nodes_down(
    cluster: Cluster,
    node_ids: tuple[int, ...],
    reason: str,
    now_us: int,
    *,
    uid: int = 0,
    for_silence: bool = False,
    rules: RequeueRules = DEFAULT_RULES,
    policy: str = AS_SLURM,
    proof: str = "",
) -> list[ev.AnyEvent]:
    """Return the events that take nodes out of service and decide the fate of their jobs.

    A job cleaning up loses the node and goes on; a running one ends NODE_FAIL, or is requeued
    where it may be, or keeps its other nodes with --no-kill.

    Args:
        policy: `node_loss`: whether further runs of these jobs wait for the ends of these.
        proof: how that is known already.
    """
    lost = frozenset(node_ids)
    events: list[ev.AnyEvent] = [
        ev.NodesDown(
            time_us=now_us, node_ids=node_ids, reason=reason, uid=uid, for_silence=for_silence
        )
    ]
    duty_id = cluster.next_duty_id
    ended: list[tuple[Job, JobState]] = []
    hit: dict[int, None] = {}
    for node_id in node_ids:
        hit.update(dict.fromkeys(cluster.node_index.use[node_id].allocs))
    for job_id in hit:
        job = cluster.jobs[job_id]
        # First, so that a requeue knows that it has to wait.
        known = proof or ("its nodes were not up yet" if _waits_for_boot(job) else "")
        events.append(lost_runs.lost(cluster, job, lost, now_us, node_loss=policy, proof=known))
        if is_completing(job):
            flags = flags_beside_a_broken_node(job)
            if flags != job.flags:
                events.append(ev.JobUpdated(now_us, job_id, {"flags": int(flags)}))
            if set(job.nodes_pending) <= lost and job_id not in cluster.epilogs:
                state, code = JobState(job.state), job.exit_code
                events += job_end.finish(
                    cluster, job, state, code, flags, now_us, ended_jobs=ended, rules=rules
                )
        elif lost.isdisjoint(alloc.node_id for alloc in job.nodes):
            continue  # it was leaving them
        elif _keeps_running(job, lost):
            kept = tuple(alloc for alloc in job.nodes if alloc.node_id not in lost)
            events.append(ev.JobResized(time_us=now_us, job_id=job_id, nodes=kept))
        else:
            events += job_end.complete(
                cluster,
                job,
                _failure(cluster, job, lost),
                now_us,
                clean_nodes=lost,
                first_duty_id=duty_id,
                ended_jobs=ended,
                rules=rules,
            )
            duty_id += len(job.nodes)
    return events + dependency.after_ends(cluster, ended, now_us)


def _failure(cluster: Cluster, job: Job, lost: frozenset[int]) -> job_end.End:
    """Return how a job ends that loses nodes it cannot be without."""
    first_lost = next(alloc.node_id for alloc in job.nodes if alloc.node_id in lost)
    never_began = _waits_for_boot(job) and not may_requeue(job)
    return job_end.End(
        JobState.BOOT_FAIL if never_began else JobState.NODE_FAIL,
        exit_code=1,
        reason=Reason.NodeDown,
        flags=lost_run_flags(job) if may_requeue(job) else JobFlag.NONE,
        failed_node=cluster.node(first_lost).spec.name,
        duty_flags=SIGNAL_NODE_FAIL,
    )


def _waits_for_boot(job: Job) -> bool:
    return bool(job.flags & JobFlag.POWER_UP_NODE)


def may_requeue(job: Job) -> bool:
    """Return whether a lost run of a job may be repeated: a batch job that allows it."""
    return job.requeue and bool(job.script_hash)


def _keeps_running(job: Job, lost: frozenset[int]) -> bool:
    if not job.request.flags & REQ_NO_KILL or job.batch_node_id in lost:
        return False
    return any(alloc.node_id not in lost for alloc in job.nodes)
