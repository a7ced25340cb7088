"""Gang scheduling: jobs that share cores take turns, all nodes of a job together.

Jobs of a partition that share cores, directly or by way of others, are sorted into rows in which no
two have a core in common. Each time slice belongs to one row; jobs that have no core in common with
it run along. Whose turn it is follows from the clock alone, so that a restarted controller goes on
where the last one was.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import SUSPENDED_BY_GANG, Job, is_completing
from pyslurm_ng.model.rows import may_mix, row_count
from pyslurm_ng.model.states import JobState

Row = dict[int, int]
"""Cores in use by node."""


def slice_s(conf: SlurmConf) -> int:
    """Return SchedulerTimeSlice, 0 without gang scheduling."""
    return conf.scheduler_time_slice if "GANG" in conf.preempt_mode else 0


def turns(cluster: Cluster, seconds: int, now_us: int) -> list[ev.AnyEvent]:
    """Return the jobs that stop and those that go on in the present time slice.

    Args:
        seconds: of a time slice; 0: jobs do not take turns.
    """
    if not seconds:
        return []
    turn = now_us // (seconds * SECOND_US)
    stops: list[Job] = []
    goes: list[Job] = []
    for jobs in _crowds(cluster):
        if len(jobs) == 1 and jobs[0].state == JobState.RUNNING:
            continue
        runs = {job.job_id for job in having_turn(jobs, turn)}
        stops += [job for job in jobs if job.state == JobState.RUNNING and job.job_id not in runs]
        goes += [job for job in jobs if job.state == JobState.SUSPENDED and job.job_id in runs]
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for job in stops:
        fields: dict[str, object] = {"suspended_by": SUSPENDED_BY_GANG}
        events.append(ev.JobUpdated(now_us, job.job_id, fields))
        events.append(ev.JobSuspended(now_us, job.job_id, duty_id))
        duty_id += len(job.nodes)
    for job in goes:
        events.append(ev.JobResumed(now_us, job.job_id, duty_id, moves_suspend_us=True))
        duty_id += len(job.nodes)
    return events


def _crowds(cluster: Cluster) -> list[list[Job]]:
    """Return the jobs that take turns with one another, in the order of their ids."""
    return [crowd for jobs in _groups(cluster).values() for crowd in apart(jobs)]


def apart(jobs: Iterable[Job]) -> list[list[Job]]:
    """Return the jobs of one partition such that those in different lists share no cores.

    Each list has its own turns: their number elsewhere does not matter.
    """
    crowds: dict[int, list[Job]] = {}  # by number
    crowd_of: dict[int, int] = {}  # the number, by job
    on_node: dict[int, list[tuple[int, int]]] = {}  # cores and job
    for job in jobs:
        number = job.job_id
        crowds[number], crowd_of[number] = [job], number
        for node_id, cores in _cores(job).items():
            jobs_here = on_node.setdefault(node_id, [])
            for other in {crowd_of[job_id] for mask, job_id in jobs_here if mask & cores} - {
                number
            }:
                crowd_of |= dict.fromkeys((job.job_id for job in crowds[other]), number)
                crowds[number] = crowds.pop(other) + crowds[number]
            jobs_here.append((cores, job.job_id))
    for crowd in crowds.values():
        crowd.sort(key=lambda job: job.job_id)
    return [*crowds.values()]


def _groups(cluster: Cluster) -> dict[str, list[Job]]:
    """Return the jobs that take turns by partition, in the order of their ids."""
    groups: dict[str, list[Job]] = {}
    if not any(row_count(partition) > 1 for partition in cluster.partitions.values()):
        sliced = [
            job_id for job_id in cluster.job_index.suspended if _is_sliced(cluster.jobs[job_id])
        ]
        if not sliced:
            return groups
    others: dict[str, Row] = {}
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        if _is_sliced(job):
            if job.partition not in others:
                others[job.partition] = _others(cluster, job.partition)
            if _collide(others[job.partition], _cores(job)):
                continue  # a job of another kind runs there, or is about to
        if job.rows > 1 and not is_completing(job) and _takes_turns(cluster, job):
            groups.setdefault(job.partition, []).append(job)
    for jobs in groups.values():
        jobs.sort(key=lambda job: job.job_id)
    return groups


def _others(cluster: Cluster, partition: str) -> Row:
    """Return the cores of jobs that share with none of a partition, and those kept for such.

    A job that has preempted others may share cores, too, but only with jobs of its tier.
    """
    used: Row = {}
    own = cluster.partitions.get(partition)
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        is_other = job.rows <= 1 or not may_mix(own, cluster.partitions.get(job.partition))
        if is_other and job_id not in cluster.job_index.suspended:
            _add(used, _cores(job))
    for job_id in cluster.job_index.claims:
        _add(used, {alloc.node_id: int.from_bytes(alloc.cores, "little")
                    for alloc in cluster.jobs[job_id].claim})  # fmt: skip
    return used


def _is_sliced(job: Job) -> bool:
    return job.state == JobState.SUSPENDED and job.suspended_by == SUSPENDED_BY_GANG


def _takes_turns(cluster: Cluster, job: Job) -> bool:
    """Return whether a job runs or waits for its turn; in a partition with OFF all just run."""
    if _is_sliced(job):
        return True
    partition = cluster.partitions.get(job.partition)
    return job.state == JobState.RUNNING and (
        partition is None or partition.preempt_mode.upper() != "OFF"
    )


def having_turn(jobs: Iterable[Job], turn: int) -> list[Job]:
    """Return the jobs that run in a time slice: the next row, and jobs that fit beside it.

    Args:
        jobs: that share cores; sorted into rows in this order.
    """
    rows: list[tuple[Row, list[Job]]] = []
    for job in jobs:
        cores = _cores(job)
        row = next((row for row in rows if not _collide(row[0], cores)), None)
        if row is None:
            row = ({}, [])
            rows.append(row)
        _add(row[0], cores)
        row[1].append(job)
    if not rows:
        return []
    first = turn % len(rows)
    used: Row = {}
    runs: list[Job] = []
    for _, members in (*rows[first:], *rows[:first]):
        for job in members:
            cores = _cores(job)
            if not _collide(used, cores):
                _add(used, cores)
                runs.append(job)
    return runs


def _cores(job: Job) -> Row:
    return {alloc.node_id: int.from_bytes(alloc.cores, "little") for alloc in job.nodes}


def _collide(row: Row, cores: Row) -> bool:
    return any(row.get(node_id, 0) & mask for node_id, mask in cores.items())


def _add(row: Row, cores: Row) -> None:
    for node_id, mask in cores.items():
        row[node_id] = row.get(node_id, 0) | mask
