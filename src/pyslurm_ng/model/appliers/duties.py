"""How duties begin and end: what the controller owes a node."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from .. import events as ev
from ..cluster import Cluster
from ..duty import Duty, DutyKind
from ..job import Job, is_completing
from .registry import applies

node_id_of = attrgetter("node_id")


def _add_duty(cluster: Cluster, duty: Duty) -> None:
    assert duty.duty_id >= cluster.next_duty_id, duty
    cluster.next_duty_id = duty.duty_id + 1
    cluster.duties.setdefault(duty.node_id, {})[duty.duty_id] = duty


def _drop_duty(cluster: Cluster, node_id: int, duty_id: int) -> Duty | None:
    of_node = cluster.duties.get(node_id)
    duty = of_node.pop(duty_id, None) if of_node else None
    if of_node is not None and not of_node:
        del cluster.duties[node_id]
    return duty


def drop_job_duties(cluster: Cluster, job_id: int, node_ids: Iterable[int]) -> None:
    """End all duties of a job on some nodes, because others replace them."""
    if not cluster.duties:
        return
    for node_id in node_ids:
        of_node = cluster.duties.get(node_id)
        if not of_node:
            continue
        for duty in [duty for duty in of_node.values() if duty.job_id == job_id]:
            _drop_duty(cluster, node_id, duty.duty_id)


def job_duties(
    cluster: Cluster,
    job: Job,
    kind: DutyKind,
    node_ids: Iterable[int],
    first_duty_id: int,
    time_us: int,
    *,
    step_id: int = -1,
    signal: int = 0,
    flags: int = 0,
) -> None:
    """Owe each node one thing for a job; the duties have ids from `first_duty_id` on."""
    for duty_id, node_id in enumerate(node_ids, first_duty_id):
        _add_duty(
            cluster,
            Duty(duty_id, kind, node_id, job.job_id, job.attempt, time_us, step_id, signal, flags),
        )


def reboot_duty(cluster: Cluster, node_id: int, duty_id: int, time_us: int) -> None:
    """Owe one node a reboot, which is for no job."""
    _add_duty(cluster, Duty(duty_id, DutyKind.REBOOT, node_id, 0, 0, time_us))


def begin_duties(cluster: Cluster, job: Job, event: ev.JobAllocated | ev.PrologEnded) -> None:
    """Have the batch node launch or prepare a job, and with `prepare_all` the others prepare."""
    duty_id = event.first_duty_id
    if event.duty:
        kind = DutyKind(event.duty)
        job_duties(cluster, job, kind, (job.batch_node_id,), duty_id, event.time_us)
        duty_id += 1
    if event.prepare_all:
        others = [alloc.node_id for alloc in job.nodes if alloc.node_id != job.batch_node_id]
        job_duties(cluster, job, DutyKind.PREPARE, others, duty_id, event.time_us)


def node_is_clean(cluster: Cluster, job_id: int, node_id: int, time_us: int) -> None:
    """Give back what a job holds on a node that has cleaned up after it, or that is lost."""
    job = cluster.jobs[job_id]
    assert node_id in job.nodes_pending or not is_completing(job), (job, node_id)
    job.nodes_pending = tuple(other for other in job.nodes_pending if other != node_id)
    if job.nodes_leaving:
        job.nodes_leaving = tuple(alloc for alloc in job.nodes_leaving if alloc.node_id != node_id)
    cluster.node_index.give_back(job_id, (node_id,), time_us)


@applies(ev.DutiesDone)
def _duties_done(cluster: Cluster, event: ev.DutiesDone) -> None:
    for node_id, duty_id in event.done:
        duty = _drop_duty(cluster, node_id, duty_id)
        if duty is None:
            continue  # superseded: the job has ended or the node was lost in the meantime
        if duty.kind == DutyKind.TERMINATE:
            node_is_clean(cluster, duty.job_id, node_id, event.time_us)


@applies(ev.DutiesDropped)
def _duties_dropped(cluster: Cluster, event: ev.DutiesDropped) -> None:
    for node_id, duty_id in event.dropped:
        duty = _drop_duty(cluster, node_id, duty_id)
        assert duty is None or duty.kind != DutyKind.TERMINATE, duty
