"""`slurmctld -c`: forget jobs, reservations and node states, but never a job id."""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import is_completing
from pyslurm_ng.model.states import JobState, NodeState

_REASON = "State cleared"


def clear_state(cluster: Cluster, now_us: int) -> Iterator[list[ev.AnyEvent]]:
    """Yield lists of events; the caller applies each before it asks for the next.

    Jobs end as CANCELLED, so that accounting knows them as over, and are dropped at once.
    """
    yield [
        ev.JobEnded(time_us=now_us, job_id=job_id, state=JobState.CANCELLED, reason_text=_REASON)
        for job_id in cluster.job_index.pending
    ]
    cleaning = tuple(
        (node_id, duty.duty_id)
        for node_id, duties in cluster.duties.items()
        for duty in duties.values()
        if duty.kind == DutyKind.TERMINATE
    )
    yield [ev.DutiesDone(now_us, cleaning)]
    for job_id in list(cluster.job_index.active):
        job = cluster.jobs[job_id]
        if not is_completing(job):
            yield job_end.complete(
                cluster,
                job,
                job_end.End(JobState.CANCELLED, reason_text=_REASON),
                now_us,
                clean_nodes=frozenset(alloc.node_id for alloc in job.nodes),
            )
        if job_id in cluster.epilogs:
            yield [ev.EpilogEnded(now_us, job_id, job.attempt)]
        if job_id in cluster.job_index.active:
            yield job_end.finish(cluster, job, JobState(job.state), job.exit_code, 0, now_us)
    if cluster.job_index.ended:
        yield [ev.JobPurged(time_us=now_us, job_ids=tuple(cluster.job_index.ended))]
    yield [ev.ReservationDeleted(time_us=now_us, name=name) for name in cluster.reservations]
    node_ids = tuple(
        node.node_id for node in cluster.living_nodes() if node.state != NodeState.FUTURE
    )
    if node_ids:
        fields: dict[str, object] = {
            "state": int(NodeState.UNKNOWN),
            "flags": 0,
            "reason": "",
            "reason_us": 0,
            "reason_uid": 0,
        }
        yield [ev.NodeUpdated(time_us=now_us, node_ids=node_ids, fields=fields)]
