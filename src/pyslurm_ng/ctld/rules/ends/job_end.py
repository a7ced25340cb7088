"""How a job ends: one place for every way there.

`complete` moves a running job to COMPLETING. Then nodes kill the rest, run the epilog and report,
and the controller runs its epilog. `finish` follows when the last of them is done, and ends or
requeues the job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter

from pyslurm_ng.base.numbers import NO_VAL, OOM_STATUS
from pyslurm_ng.ctld.rules.ends.requeue import DEFAULT_RULES, RequeueRules, hold_reason, requeued
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import RUNS_EPILOG, Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag, NodeState, Reason

_node_id = attrgetter("node_id")
_BY_ITSELF = (JobState.COMPLETED, JobState.FAILED)
"""Ends that a preempted job can come to before its grace is over; it was preempted all the same."""


@dataclass(frozen=True, slots=True)
class End:
    """How a run ends, and why: what the job shows from then on, and what its nodes tell it."""

    state: JobState
    exit_code: int = 0
    reason: Reason = Reason.NONE
    reason_text: str = ""
    flags: int = 0  # JobFlag bits to add, as REQUEUED
    cancelled_by: int = NO_VAL
    failed_node: str = ""
    duty_flags: int = 0  # SIGNAL_* bits that tell nodes why
    end_us: int = 0  # when that was, if a node knows better than the moment it is heard of


def of_command(status: int) -> End:
    """Return the end of an allocation whose salloc or srun has ended with this wait status."""
    if not status:
        return End(JobState.COMPLETED)
    if status & 0x7F == OOM_STATUS:
        return End(JobState.OUT_OF_MEMORY, exit_code=status, reason=Reason.OutOfMemory)
    reason = Reason.RaisedSignal if status & 0x7F else Reason.NonZeroExitCode
    return End(JobState.FAILED, exit_code=status, reason=reason)


def complete(
    cluster: Cluster,
    job: Job,
    end: End,
    now_us: int,
    *,
    clean_nodes: frozenset[int] = frozenset(),
    first_duty_id: int = 0,
    ended_steps: frozenset[int] = frozenset(),
    ended_jobs: list[tuple[Job, JobState]] | None = None,
    rules: RequeueRules = DEFAULT_RULES,
) -> list[ev.AnyEvent]:
    """Return the events that end a running or suspended job's run.

    Args:
        clean_nodes: nodes that need no terminate duty: lost, or already cleaned up.
        first_duty_id: where to number duties from; 0 for the cluster's next.
        ended_steps: steps whose end is in the same batch of events already.
        ended_jobs: takes the job if it is over now, and the caller sees to its dependents.
        rules: how a job goes back into the queue if no node has to clean up.
    """
    if job.preempt_end_us and end.state in _BY_ITSELF:
        end = replace(end, state=JobState.PREEMPTED, reason=Reason.NONE)
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
            state=end.state,
            exit_code=end.exit_code,
            reason=end.reason or hold_reason(job),
            first_duty_id=first_duty_id or cluster.next_duty_id,
            node_ids=dirty,
            flags=end.flags,
            cancelled_by=end.cancelled_by,
            reason_text=end.reason_text,
            failed_node=end.failed_node,
            duty_flags=end.duty_flags,
            end_us=end.end_us,
        )
    ]
    leaving = any(alloc.node_id not in clean_nodes for alloc in job.nodes_leaving)
    if not dirty and not leaving and not cluster.programs & RUNS_EPILOG:
        events += finish(
            cluster,
            job,
            end.state,
            end.exit_code,
            job.flags | end.flags,
            now_us,
            ended_steps=ended_steps,
            ended_jobs=ended_jobs,
            rules=rules,
        )
    return events


def _is_reachable(cluster: Cluster, node_id: int) -> bool:
    """Return whether a node may have anything of a job: not while it is down, or booting for it."""
    node = cluster.nodes[node_id]
    if node is None or node.state == NodeState.DOWN:
        return False
    return not node.flags & (NodeFlag.POWERED_DOWN | NodeFlag.POWERING_UP)


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
    rules: RequeueRules = DEFAULT_RULES,
) -> list[ev.AnyEvent]:
    """Return the events that follow when a completing job has nothing left to be done.

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
