"""What slurmdbd and nodes remember of a past that this state lacks, and how to go on beyond it.

After a restore of the state directory from a backup, or a loss of the newest records, a controller
would give out ids a second time. slurmdbd and the nodes have seen them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.queue import dependency
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState, Reason
from pyslurm_ng.wire.dbd_messages import ComparedJob
from pyslurm_ng.wire.node_messages import RunningJob

MARGIN = 1_000
"""Further ids left out: those that were given to users, but reached no node and no database."""


def is_beyond(cluster: Cluster, job_id: int) -> bool:
    """Whether an id that slurmdbd or a node has seen is one that this state has not given out yet.

    After the highest id, ids begin again, so the nearer way round decides.
    """
    if not cluster.first_job_id <= job_id <= cluster.max_job_id:
        return False
    span = cluster.max_job_id - cluster.first_job_id + 1
    return (job_id - cluster.next_job_id) % span < span // 2


def skip_ids(cluster: Cluster, newest_job_id: int, now_us: int) -> list[ev.AnyEvent]:
    """Return the event that lets job ids go on behind one that was seen; [] if they do anyway."""
    if not newest_job_id or not is_beyond(cluster, newest_job_id):
        return []
    span = cluster.max_job_id - cluster.first_job_id + 1
    after = (newest_job_id - cluster.first_job_id + 1 + MARGIN) % span
    return [ev.NumbersSkipped(now_us, cluster.first_job_id + after)]


def skip_epoch(cluster: Cluster, newest_epoch: int, host: str, now_us: int) -> list[ev.AnyEvent]:
    """Return the event by which this controller takes an epoch above that of another one."""
    if newest_epoch < cluster.epoch:
        return []
    return [ev.EpochStarted(now_us, newest_epoch + 1, host)]


def skip_attempts(
    cluster: Cluster, running: Iterable[RunningJob], now_us: int
) -> list[ev.AnyEvent]:
    """Return the events that give pending jobs an attempt above the one that a node has of them.

    The node is told to end what it has of them, since this state never started it.
    """
    attempts = []
    for running_job in running:
        job = cluster.jobs.get(running_job.job_id)
        if job is not None and job.state == JobState.PENDING and running_job.attempt >= job.attempt:
            attempts.append((running_job.job_id, running_job.attempt + 1))
    return [ev.NumbersSkipped(now_us, attempts=tuple(attempts))] if attempts else []


def living_jobs(cluster: Cluster) -> list[int]:
    """Return the jobs that have not ended, as this state has it."""
    return sorted({*cluster.job_index.pending, *cluster.job_index.active})


def settle(
    cluster: Cluster, known: Sequence[ComparedJob], now_us: int
) -> Iterator[list[ev.AnyEvent]]:
    """Yield events from what slurmdbd knows; the caller applies each before it asks for the next.

    A job that has ended since is not run again: it ends here as it ended then. One that has been
    started since goes on with an attempt that no node has seen.
    """
    attempts: list[tuple[int, int]] = []
    for run in known:
        job = cluster.jobs.get(run.job_id)
        if job is None or job.state in TERMINAL_STATES or is_completing(job):
            continue
        state = JobState.__members__.get(run.state)
        if run.end_us and state in TERMINAL_STATES and state is not None and not job.array_pending:
            yield from _end(cluster, job, state, run, now_us)
            continue
        if run.attempt > job.attempt and job.state != JobState.PENDING:
            yield from _give_back(cluster, job, now_us)
        has_started = run.start_us > 0 or run.attempt > job.attempt
        if job.state == JobState.PENDING and has_started and run.attempt >= job.attempt:
            attempts.append((job.job_id, run.attempt + 1))
    if attempts:
        yield [ev.NumbersSkipped(now_us, attempts=tuple(attempts))]


def _end(
    cluster: Cluster, job: Job, state: JobState, known: ComparedJob, now_us: int
) -> Iterator[list[ev.AnyEvent]]:
    if job.state == JobState.PENDING:
        ended = ev.JobEnded(now_us, job.job_id, state, known.exit_code)
        yield [ended, *dependency.after_end(cluster, job, state, known.exit_code, now_us)]
        return
    end = job_end.End(state, known.exit_code, end_us=known.end_us)
    yield from _leave(cluster, job, end, now_us)


def _give_back(cluster: Cluster, job: Job, now_us: int) -> Iterator[list[ev.AnyEvent]]:
    """Put a job back into the queue if its present run is not known to this state."""
    end = job_end.End(JobState.NODE_FAIL, reason=Reason.NodeDown, flags=JobFlag.REQUEUED)
    yield from _leave(cluster, job, end, now_us)


def _leave(
    cluster: Cluster, job: Job, end: job_end.End, now_us: int
) -> Iterator[list[ev.AnyEvent]]:
    """End a run without its nodes: they are told to end what they still have as strays."""
    nodes = frozenset(alloc.node_id for alloc in (*job.nodes, *job.nodes_leaving))
    yield job_end.complete(cluster, job, end, now_us, clean_nodes=nodes)
    if job.job_id in cluster.epilogs:
        yield [ev.EpilogEnded(now_us, job.job_id, job.attempt)]
        if job.job_id in cluster.job_index.active:
            yield job_end.finish(cluster, job, end.state, end.exit_code, job.flags, now_us)
