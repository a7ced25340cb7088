"""Burst buffers of a simulated controller: functions take as long, and end as well, as told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.programs.job_programs import Done
from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.buffers.directives import LUA
from pyslurm_ng.ctld.rules.buffers.pools import Pool, used_room
from pyslurm_ng.ctld.rules.buffers.room import concerned
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.job import is_completing
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.sim.checks import Violation
from pyslurm_ng.sim.programs import Fate
from pyslurm_ng.sim.world import World

S = BufferState
POOLS = {"fast": Pool("fast", 10)}
_WORKS = frozenset((S.STAGING_IN, S.POST_RUN, S.STAGING_OUT, S.TEARDOWN, S.TEARDOWN_FAIL))
_RELEASED_US = 30 * SECOND_US  # until somebody releases what is held for a failure


class SimBuffers:
    """Calls nothing; in the place of `ctld.burst_buffers.job_buffers.JobBuffers`.

    `fate()` is asked once for each stage: microseconds until its end, and whether it fails.
    """

    def __init__(self, world: World, writer: Writer, fate: Fate) -> None:
        self._world = world
        self._writer = writer
        self._fate = fate
        self._working: dict[int, Buffer] = {}  # for which state something runs
        self._is_due = self._is_stopped = False

    def begin(self, conf: SlurmConf) -> None:
        """Go on with the burst buffers of the time before, if BurstBufferType says so."""
        if conf.burst_buffer_type != LUA:
            return
        self._writer.observe(self.applied, is_brittle=True)
        cluster = self._writer.cluster
        for buffer in [*cluster.buffers.values()]:
            events = steps.at_start(buffer, self._world.now_us)
            if events:
                self._writer.record(events)
            self._release_later(buffer.job_id)
        self._look()

    def stop(self) -> None:
        """Forget all that runs: its controller has crashed."""
        self._is_stopped = True

    def check(self) -> None:
        """Raise Violation if a job runs without its burst buffer, or a pool has given too much."""
        cluster = self._writer.cluster
        for buffer in cluster.buffers.values():
            job = cluster.jobs[buffer.job_id]
            has_begun = job.state == JobState.RUNNING and not is_completing(job)
            if has_begun and not job.flags & JobFlag.CONFIGURING and buffer.state != S.RUNNING:
                raise Violation(f"job {job.job_id} runs, its burst buffer is {buffer}")
        for name, used in used_room(cluster.buffers.values()).items():
            if used > POOLS[name].total:
                raise Violation(f"{used} of pool {name} are taken")

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Look at burst buffers after each batch."""
        if self._writer.cluster.buffers:
            self._look()

    def _look(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._world.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if self._is_stopped:
            return
        cluster = self._writer.cluster
        job_ids = concerned(cluster, [*cluster.buffers])
        job_ids.sort(key=lambda job_id: (bool(cluster.jobs[job_id].array_pending), job_id))
        events = steps.all_due(cluster, job_ids, POOLS, self._world.now_us)
        if events:
            self._writer.record(events)
        for buffer in cluster.buffers.values():
            is_new = self._working.get(buffer.job_id) is not buffer
            if buffer.state in _WORKS and not buffer.is_stuck and is_new:
                self._working[buffer.job_id] = buffer
                self._writer.when_durable(partial(self._begin, buffer))

    def _begin(self, buffer: Buffer) -> None:
        took_us, status = self._fate()
        self._world.after(took_us, partial(self._end, buffer, is_failure=bool(status)))

    def _end(self, buffer: Buffer, *, is_failure: bool) -> None:
        cluster, now_us = self._writer.cluster, self._world.now_us
        if self._is_stopped or cluster.buffers.get(buffer.job_id) is not buffer:
            return
        job, state = cluster.jobs[buffer.job_id], buffer.state
        if state in (S.TEARDOWN, S.TEARDOWN_FAIL):
            succeeded = not is_failure
            events = steps.torn_down(cluster, buffer, succeeded=succeeded, now_us=now_us)
        elif state != S.STAGING_IN:
            after = S.STAGING_OUT if state == S.POST_RUN else S.TEARDOWN
            events = [steps.changed(buffer, now_us, state=after)]
        elif is_failure:
            events = steps.failed(job, buffer, "slurm_bb_setup", "", now_us, tears_down=True)
        else:
            events = steps.staged_in(buffer, 0, now_us)
        self._writer.record(events)
        self._release_later(job.job_id)

    def _release_later(self, job_id: int) -> None:
        if self._writer.cluster.jobs[job_id].priority == 0:
            self._world.after(_RELEASED_US, partial(self._release, job_id))

    def _release(self, job_id: int) -> None:
        job = self._writer.cluster.jobs.get(job_id)
        if self._is_stopped or job is None or job.state != JobState.PENDING or job.priority:
            return
        fields: dict[str, object] = {"priority": NO_VAL, "reason": 0, "reason_text": ""}
        self._writer.record([ev.JobUpdated(self._world.now_us, job_id, fields)])

    # Before the run -------------------------------------------------------------------------------

    def has(self, job_id: int, /) -> bool:
        """Return whether a job has a burst buffer."""
        return job_id in self._writer.cluster.buffers

    def pre_run(self, job_id: int, done: Done, /) -> Callable[[], object]:
        """Succeed some time later, unless ended early or the controller is gone."""
        ended_early: list[bool] = []

        def end() -> None:
            if ended_early or self._is_stopped:
                return
            buffer = self._writer.cluster.buffers.get(job_id)
            if buffer is not None and buffer.state == S.PRE_RUN:
                now_us = self._world.now_us
                self._writer.record([steps.changed(buffer, now_us, state=S.RUNNING)])
            done(HookResult(0, ""))

        self._world.after(self._fate()[0], end)
        return lambda: ended_early.append(True)
