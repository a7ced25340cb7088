"""How a job ends: one place for every way there.

`complete` moves a running job to COMPLETING; nodes then kill what is left, run the epilog and
report, and the controller runs its own epilog; `finish` follows when the last of them is done and
ends or requeues the job.
"""

from __future__ import annotations

from operator import attrgetter

from pyslurm_ng.ctld.rules import dependency
from pyslurm_ng.ctld.rules.requeue import USUAL, Again, requeued
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import RUNS_EPILOG, Cluster
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState, NodeState, Reason

_node_id = attrgetter("node_id")


def complete(
    cluster: Cluster,
    job: Job,
    state: JobState,
    now_us: int,
    *,
    exit_code: int = 0,
    reason: Reason = Reason.NONE,
    reason_text: str = "",
    flags: int = 0,
    cancelled_by: int = NO_VAL,
    failed_node: str = "",
    clean_nodes: frozenset[int] = frozenset(),
    duty_flags: int = 0,
    first_duty_id: int = 0,
    ended_steps: frozenset[int] = frozenset(),
    ended_jobs: list[tuple[Job, JobState]] | None = None,
    end_us: int = 0,
    rules: Again = USUAL,
) -> list[ev.AnyEvent]:
    """Return the events that end a running or suspended job's run.

    Args:
        clean_nodes: nodes that need no terminate duty: lost, or already cleaned up.
        duty_flags: SIGNAL_* bits that tell nodes why.
        first_duty_id: where to number duties from; 0 for the cluster's next.
        ended_steps: steps whose end is in the same batch of events already.
        ended_jobs: takes the job if it is over now, and the caller sees to its dependents.
        rules: how a job goes back into the queue if no node has to clean up.
        end_us: when the run ended, if a node knows better than the moment it is heard of.
    """
    dirty: tuple[int, ...] = ()
    if not clean_nodes.issuperset(map(_node_id, job.nodes)):
        dirty = tuple(
            alloc.node_id
            for alloc in job.nodes
            if alloc.node_id not in clean_nodes and _is_reachable(cluster, alloc.node_id)
        )
    events: list[ev.AnyEvent] = [
        ev.JobCompleting(
            time_us=now_us,
            job_id=job.job_id,
            state=state,
            exit_code=exit_code,
            reason=reason,
            first_duty_id=first_duty_id or cluster.next_duty_id,
            node_ids=dirty,
            flags=flags,
            cancelled_by=cancelled_by,
            reason_text=reason_text,
            failed_node=failed_node,
            duty_flags=duty_flags,
            end_us=end_us,
        )
    ]
    if not dirty and not cluster.programs & RUNS_EPILOG:
        events += finish(
            cluster,
            job,
            state,
            exit_code,
            job.flags | flags,
            now_us,
            ended_steps=ended_steps,
            ended_jobs=ended_jobs,
            rules=rules,
        )
    return events


def _is_reachable(cluster: Cluster, node_id: int) -> bool:
    node = cluster.nodes[node_id]
    return node is not None and node.state != NodeState.DOWN


def finish(
    cluster: Cluster,
    job: Job,
    state: JobState,
    exit_code: int,
    flags: int,
    now_us: int,
    *,
    ended_steps: frozenset[int] = frozenset(),
    ended_jobs: list[tuple[Job, JobState]] | None = None,
    rules: Again = USUAL,
) -> list[ev.AnyEvent]:
    """Return the events that follow when nobody has anything to do for a completing job any more.

    Args:
        state, exit_code, flags: as they will be, since JobCompleting may not be applied yet.
    """
    events: list[ev.AnyEvent] = [
        ev.StepEnded(
            time_us=now_us,
            job_id=job.job_id,
            step_id=step_id,
            state=JobState.CANCELLED,
            exit_code=-1 if state == JobState.NODE_FAIL else 15,  # unknown, or SIGTERM
        )
        for step_id in job.steps
        if step_id not in ended_steps
    ]
    if flags & JobFlag.REQUEUED:
        return events + [requeued(job, flags, now_us, rules)]
    events.append(ev.JobEnded(time_us=now_us, job_id=job.job_id, state=state, exit_code=exit_code))
    if ended_jobs is not None:
        ended_jobs.append((job, state))
    else:
        events += dependency.after_end(cluster, job, state, exit_code, now_us)
    return events
