"""All that a controller has for burst buffers, made when BurstBufferType says so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from pyslurm_ng.conf.burst_buffer_conf import (
    SCRIPT,
    load_burst_buffer_conf,
    parse_burst_buffer_conf,
)
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.burst_buffers.calls import Calls, Outcome
from pyslurm_ng.ctld.burst_buffers.job_buffers import JobBuffers
from pyslurm_ng.ctld.burst_buffers.job_files import JobFiles
from pyslurm_ng.ctld.burst_buffers.listing import show_burst_buffers
from pyslurm_ng.ctld.burst_buffers.new_jobs import NewJobs
from pyslurm_ng.ctld.burst_buffers.questions import StatusQuestions
from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.rules.buffers.directives import LUA
from pyslurm_ng.ctld.rules.buffers.room import tasks_ahead_of
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.service import Service
from pyslurm_ng.ctld.start import Beginning
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.frame.job_views import waiting_record
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import outline
from pyslurm_ng.wire.buffer_messages import BuffersShown, BufferStatus
from pyslurm_ng.wire.stream import Call


class BurstBuffers:
    """Stages, submissions and questions.

    Attributes:
        is_on: whether BurstBufferType was burst_buffer/lua when slurmctld started; as in Slurm, a
            change needs a restart.
    """

    def __init__(
        self,
        writer: Writer,
        conf: SlurmConf,
        beginning: Beginning,
        service: Service,
        clock: Clock,
        log: DaemonLog,
        on_error: Callable[[], None],
    ) -> None:
        """Follow events and answer requests from now on; `begin` begins to call functions.

        `on_error` is called after each function of a job that has failed.
        """
        self.is_on = conf.burst_buffer_type == LUA
        self._writer = writer
        self._clock = clock
        self._log = log
        self._on_error = on_error
        directory = os.path.dirname(conf.path) or "."
        self._conf = parse_burst_buffer_conf("")
        self.adopt(conf)
        self._calls = Calls(os.path.join(directory, SCRIPT), log)
        files = JobFiles(beginning.layout.state / "burst_buffer")
        common = writer, self._calls, lambda: self._conf, files
        self.jobs = JobBuffers(
            *common,
            beginning.scripts,
            now_us=clock.now_us,
            log=log,
            tell=self._tell_error,
            in_order=self._in_order,
            tasks_ahead=lambda: self._tasks_ahead,
        )
        self._new_jobs = NewJobs(
            *common, lambda: self.jobs.pools.pools, resume=service.admit, fault=service.fault
        )
        self._questions = StatusQuestions(self._calls, lambda: self._conf, writer.refuse)
        if self.is_on:
            service.buffers = self._new_jobs
            writer.observe(self.jobs.applied, is_brittle=True)
        service.more["ShowBurstBuffers"] = self.show
        service.more["AskBufferStatus"] = self.ask_status

    def adopt(self, conf: SlurmConf) -> None:
        """Read burst_buffer.conf; what is wrong with it was found when the files were checked."""
        self._policy = policy(conf)
        self._tasks_ahead = tasks_ahead_of(conf)
        try:
            self._conf = load_burst_buffer_conf(os.path.dirname(conf.path) or ".")
        except ConfErrors as problems:
            for error in problems.errors:
                self._log.error(str(error))

    def _tell_error(self, job_id: int, function: str, outcome: Outcome) -> None:
        self._log.error(
            f"burst_buffer/lua: {function} for JobId={job_id}: "
            f"returned {outcome.code}: {outcome.text[:1024]}"
        )
        self._on_error()

    def _in_order(self, job_ids: Iterable[int]) -> list[int]:
        """Return jobs in the order in which they take room: those of highest priority first.

        Tasks of an array that have records of their own come before those without.
        """
        cluster = self._writer.cluster
        ranking = Ranking(outline(cluster, self._clock.now_us()), self._policy)

        def rank(job_id: int) -> tuple[int, int, bool, int]:
            job = cluster.jobs[job_id]
            order = job.array_job_id or job_id, bool(job.array_pending), job_id
            partition = cluster.partitions.get(job.partition.partition(",")[0])
            if partition is None or not job.priority or job.state != JobState.PENDING:
                return 0, *order
            return -ranking.priority(waiting_record(cluster, job), partition), *order

        return sorted(job_ids, key=rank)

    def begin(self) -> None:
        """Go on with the burst buffers of before; drop them if there are none any longer."""
        if self.is_on:
            self.jobs.begin()
            return
        buffers = self._writer.cluster.buffers
        if buffers:
            self._log.error(f"BurstBufferType: {len(buffers)} burst buffers of before are dropped")
            now_us = self._clock.now_us()
            self._writer.record([ev.BufferChanged(now_us, job_id, None) for job_id in buffers])

    def close(self) -> None:
        """Kill all functions."""
        self._new_jobs.stop()
        self._questions.stop()
        self.jobs.stop()

    def show(self, call: Call, caller: Caller) -> None:
        """`scontrol show burstbuffer`."""
        self._writer.look(
            lambda: (
                show_burst_buffers(self._writer.cluster, self._conf, self.jobs.pools.pools, caller)
                if self.is_on
                else BuffersShown(lines=[])
            ),
            call,
        )

    def ask_status(self, call: Call, caller: Caller) -> None:
        """`scontrol show bbstat`: what slurm_bb_get_status says."""
        if not self.is_on:
            self._writer.when_seen(lambda: call.reply(BufferStatus("")))
            return
        self._questions.ask(call, caller.uid)
