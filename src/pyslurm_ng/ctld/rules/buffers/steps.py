"""What a burst buffer goes through: which function is called next, and what its answer changes.

Source: "Burst Buffer States and Job States" of Slurm's burst_buffer.html; which function fails how
was seen with a running Slurm 22.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pyslurm_ng.base.plain_text import printable
from pyslurm_ng.ctld.rules.buffers.pools import Pool
from pyslurm_ng.ctld.rules.buffers.room import USUAL_TASKS_AHEAD, Room
from pyslurm_ng.ctld.rules.queue.dependency import after_stage_out
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, Reason

S = BufferState
MOST_TEARDOWNS = 3
"""As in Slurm: then the burst buffer counts as gone."""
_MOST_TEXT = 1024


def changed(buffer: Buffer, now_us: int, **fields: object) -> ev.BufferChanged:
    """Return the event that changes some fields of a burst buffer."""
    return ev.BufferChanged(now_us, buffer.job_id, replace(buffer, **fields))


def is_over(job: Job) -> bool:
    """Return whether a job's run is over, or will never be."""
    return job.state in TERMINAL_STATES or is_completing(job)


def all_due(
    cluster: Cluster,
    job_ids: Iterable[int],
    pools: Mapping[str, Pool],
    now_us: int,
    tasks_ahead: int = USUAL_TASKS_AHEAD,
) -> list[ev.AnyEvent]:
    """Return what follows for burst buffers from where their jobs are, without any function.

    Args:
        tasks_ahead: how many tasks of one array may have burst buffers before they run.
    """
    room = Room(cluster, pools, now_us, tasks_ahead)
    events: list[ev.AnyEvent] = []
    for job_id in job_ids:
        buffer = cluster.buffers.get(job_id)
        if buffer is not None:
            events += _due(cluster, buffer, room, now_us)
    return events


def _due(cluster: Cluster, buffer: Buffer, room: Room, now_us: int) -> list[ev.AnyEvent]:
    job, state = cluster.jobs[buffer.job_id], buffer.state
    if state == S.PENDING:
        if is_over(job):
            return [changed(buffer, now_us, state=S.COMPLETE)]
        return room.take(job, buffer)
    is_released = buffer.is_stuck and job.priority != 0  # it begins anew
    if state in (S.STAGING_IN, S.STAGED_IN) and (is_over(job) or is_released):
        return [_torn(buffer, now_us)]
    if state in (S.PRE_RUN, S.RUNNING) and (is_over(job) or job.state == JobState.PENDING):
        if state == S.PRE_RUN or buffer.is_hurried:
            return [_torn(buffer, now_us)]
        return [changed(buffer, now_us, state=S.POST_RUN)]
    if state == S.STAGED_IN and job.job_id in cluster.job_index.active and not is_over(job):
        return [changed(buffer, now_us, state=S.PRE_RUN)]
    if state == S.COMPLETE and job.state == JobState.PENDING:
        return [changed(buffer, now_us, **_ANEW)]
    if buffer.is_hurried and state in (S.POST_RUN, S.STAGING_OUT):
        return [_torn(buffer, now_us)]
    if state >= S.TEARDOWN and is_over(job):
        return after_stage_out(cluster, job, now_us)
    return []


_ANEW: dict[str, object] = {
    "state": S.PENDING, "created_us": 0, "is_stuck": False, "is_hurried": False, "failures": 0,
    "variables": (),
}  # fmt: skip


def _torn(buffer: Buffer, now_us: int) -> ev.BufferChanged:
    return changed(buffer, now_us, state=S.TEARDOWN, is_stuck=False, is_hurried=True)


def staged_in(buffer: Buffer, size: int, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows when a job's files are there; its buffer may be larger than asked for."""
    size = max(size, buffer.size) if buffer.pool else buffer.size
    return [changed(buffer, now_us, state=S.STAGED_IN, size=size)]


def failed(job: Job, buffer: Buffer, function: str, why: str, now_us: int, *, tears_down: bool) -> (
    list[ev.AnyEvent]
):  # fmt: skip
    """Return what follows when a function of staging has failed: the job is held, or not over.

    Args:
        tears_down: Flags=TeardownFailure; else the burst buffer stays, for somebody to look at.
    """
    text = f"burst_buffer/lua: {function}: {printable(why)}"[:_MOST_TEXT]
    fields: dict[str, object] = {"reason_text": text}
    if job.state == JobState.PENDING:
        fields |= {"priority": 0, "reason": int(Reason.JobHeldAdmin)}
    after = _torn(buffer, now_us) if tears_down else changed(buffer, now_us, is_stuck=True)
    return [ev.JobUpdated(now_us, job.job_id, fields), after]


def torn_down(cluster: Cluster, buffer: Buffer, *, succeeded: bool, now_us: int) -> (
    list[ev.AnyEvent]
):  # fmt: skip
    """Return what follows from a call of slurm_bb_job_teardown."""
    if not succeeded and buffer.failures + 1 < MOST_TEARDOWNS:
        again = changed(buffer, now_us, state=S.TEARDOWN_FAIL, failures=buffer.failures + 1)
        return [again]
    if cluster.jobs[buffer.job_id].state == JobState.PENDING:
        return [changed(buffer, now_us, **_ANEW)]
    return [changed(buffer, now_us, state=S.COMPLETE, is_stuck=False)]


def at_start(buffer: Buffer, now_us: int) -> list[ev.AnyEvent]:
    """Return what follows for a burst buffer when slurmctld starts: its functions were killed."""
    if buffer.state == S.STAGING_IN and not buffer.is_stuck:
        return [_torn(buffer, now_us)]
    return []
