"""Leads burst buffers through their stages: the site's functions are called, their answers kept.

A function is called when the state that wants it is durable. A controller that was stopped has
killed its functions, and calls those of the state that it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from pyslurm_ng.conf.burst_buffer_conf import BurstBufferConf
from pyslurm_ng.ctld.burst_buffers.calls import Calls, Outcome
from pyslurm_ng.ctld.burst_buffers.job_files import JobFiles
from pyslurm_ng.ctld.burst_buffers.pool_list import PoolList
from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.buffers.room import USUAL_TASKS_AHEAD, concerned
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.touched import touched_jobs

S = BufferState
_BUSY = "BUSY"
"""What slurm_bb_test_data_in and _out return beside SUCCESS until the data are there."""
_AGAIN_S = 1.0  # before a teardown that failed is tried again
PRE_RUN_FAILED = "Burst buffer pre_run error"


class Log(Protocol):
    """Where failures are told."""

    def error(self, text: str) -> None:
        """Something is wrong."""

    def info(self, text: str) -> None:
        """Every day's news."""


class JobBuffers:
    """Follows jobs with burst buffers."""

    def __init__(
        self,
        writer: Writer,
        calls: Calls,
        conf: Callable[[], BurstBufferConf],
        files: JobFiles,
        scripts: ScriptStore,
        *,
        now_us: Callable[[], int],
        log: Log,
        tell: Callable[[int, str, Outcome], None],
        in_order: Callable[[Iterable[int]], list[int]] = sorted,
        tasks_ahead: Callable[[], int] = lambda: USUAL_TASKS_AHEAD,
    ) -> None:
        """Begin with nothing.

        `tell` is called with job, function and outcome where one has failed, `in_order` says who
        takes room first, `tasks_ahead` see `Room`.
        """
        self.pools = PoolList(calls, conf, log.error, self._look_at_all)
        self._writer, self._calls = writer, calls
        self._conf = conf
        self._files, self._scripts = files, scripts
        self._now_us = now_us
        self._in_order, self._tasks_ahead = in_order, tasks_ahead
        self._log = log
        self._tell = tell
        self._unseen: dict[int, None] = {}
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by job: for which state
        self._kept: set[asyncio.Task[None]] = set()
        self._work: dict[int, Callable[[Job, Buffer], Coroutine[Any, Any, None]]] = {
            S.STAGING_IN: self._stage_in,
            S.POST_RUN: self._post_run,
            S.STAGING_OUT: self._stage_out,
            S.TEARDOWN: self._tear_down,
            S.TEARDOWN_FAIL: self._tear_down,
        }
        self._unready: set[int] = set()  # jobs whose slurm_bb_pre_run has failed

    def begin(self) -> None:
        """Go on with the burst buffers of the time before; ask which pools there are."""
        buffers = self._writer.cluster.buffers
        self._files.begin({str(job_id) for job_id in buffers})
        now_us = self._now_us()
        for buffer in [*buffers.values()]:
            events = steps.at_start(buffer, now_us)
            if events:
                self._writer.record(events)
        self._keep(self.pools.keep())
        self._look_at_all()

    def stop(self) -> None:
        """Kill all functions; the next controller calls those that are due then."""
        for task in self._kept:
            task.cancel()

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note whose burst buffers may have something to do."""
        buffers = self._writer.cluster.buffers
        if not buffers:
            return
        for event in events:
            for job_id in touched_jobs(event):
                if job_id in buffers:
                    self._note(job_id)
            if isinstance(event, ev.BufferChanged) and event.buffer is not None:
                self._enter(event.buffer)
            elif isinstance(event, ev.JobRequeued) and event.job_id in self._unready:
                self._unready.remove(event.job_id)
                text: dict[str, object] = {"reason_text": PRE_RUN_FAILED}
                update = ev.JobUpdated(self._now_us(), event.job_id, text)
                asyncio.get_running_loop().call_soon(self._writer.record, [update])
            elif isinstance(event, ev.JobPurged):
                self._unready.difference_update(event.job_ids)
                for job_id in event.job_ids:
                    self._end_task(job_id)

    def _look_at_all(self) -> None:
        for job_id in self._writer.cluster.buffers:
            self._note(job_id)

    def _note(self, job_id: int) -> None:
        if not self._unseen:
            asyncio.get_running_loop().call_soon(self._turn)
        self._unseen[job_id] = None

    def _turn(self) -> None:
        unseen, self._unseen = self._unseen, {}
        cluster = self._writer.cluster
        job_ids = self._in_order(concerned(cluster, unseen))
        pools, ahead = self.pools.pools, self._tasks_ahead()
        events = steps.all_due(cluster, job_ids, pools, self._now_us(), ahead)
        if events:
            self._writer.record(events)
        for job_id in unseen:
            buffer = cluster.buffers.get(job_id)
            if buffer is not None:
                self._enter(buffer)

    # Stages ---------------------------------------------------------------------------------------

    def _enter(self, buffer: Buffer) -> None:
        """Begin what a state wants, once it is durable; end what another one wanted."""
        job_id, state = buffer.job_id, buffer.state
        running = self._tasks.get(job_id)
        if running is not None and running[0] != state:
            self._end_task(job_id)
        if state == S.COMPLETE:
            self._files.remove(str(job_id))
            for other in self._writer.cluster.buffers.values():
                if other.state == S.PENDING:  # there may be room now
                    self._note(other.job_id)
        if state in self._work and job_id not in self._tasks and not buffer.is_stuck:
            self._writer.when_durable(partial(self._start, job_id, state))

    def _start(self, job_id: int, state: int) -> None:
        buffer = self._writer.cluster.buffers.get(job_id)
        if buffer is None or buffer.state != state or buffer.is_stuck or job_id in self._tasks:
            return
        work = self._work[state](self._writer.cluster.jobs[job_id], buffer)
        task = self._keep(work)
        self._tasks[job_id] = state, task
        task.add_done_callback(partial(self._ended, job_id))

    def _ended(self, job_id: int, task: asyncio.Task[None]) -> None:
        running = self._tasks.get(job_id)
        if running is not None and running[1] is task:
            del self._tasks[job_id]
            if job_id in self._writer.cluster.buffers:
                self._note(job_id)

    def _end_task(self, job_id: int) -> None:
        running = self._tasks.pop(job_id, None)
        if running is not None:
            running[1].cancel()

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    async def _stage_in(self, job: Job, buffer: Buffer) -> None:
        conf, job_id = self._conf(), job.job_id
        script = self._script_of(job)
        of_user = (job.uid, job.gid)
        arguments = (job_id, *of_user, buffer.pool, buffer.size, script)
        call = partial(self._calls.call, "stage-in", job.uid)
        name = "slurm_bb_setup"
        outcome = await call(name, arguments, conf.other_timeout)
        if not outcome.code:
            name = "slurm_bb_data_in"
            outcome = await call(name, (job_id, script, *of_user), conf.stage_in_timeout)
        if not outcome.code:
            name = "slurm_bb_test_data_in"
            outcome = await self._test("stage-in", name, job, script, conf.stage_in_timeout)
        if not outcome.code:
            name = "slurm_bb_real_size"
            outcome = await call(name, (job_id, *of_user), conf.other_timeout)
        if outcome.code:
            self._fail(job_id, S.STAGING_IN, name, outcome)
            return
        text = outcome.text.strip()
        size = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
        self._change(job_id, S.STAGING_IN, lambda now: steps.staged_in(buffer, size, now))

    async def _test(self, stage: str, name: str, job: Job, script: str, limit_s: int) -> Outcome:
        """Ask a function that a script may have until the data are there."""
        conf, clock = self._conf(), asyncio.get_running_loop().time
        end_s = clock() + limit_s
        arguments = (job.job_id, script, job.uid, job.gid)
        while True:
            outcome = await self._calls.call(
                stage, job.uid, name, arguments, conf.other_timeout, is_optional=True
            )
            if outcome.code or outcome.is_missing or outcome.text.strip() != _BUSY:
                return outcome
            if clock() > end_s:
                return Outcome(-1, f"timeout after {limit_s} s", is_late=True)
            await asyncio.sleep(conf.poll_interval)

    async def _post_run(self, job: Job, buffer: Buffer) -> None:
        arguments = (job.job_id, self._script_of(job), job.uid, job.gid)
        name = "slurm_bb_post_run"
        outcome = await self._calls.call(
            "stage-out", job.uid, name, arguments, self._conf().other_timeout
        )
        if outcome.code:
            self._fail(job.job_id, S.POST_RUN, name, outcome)
            return
        self._move(buffer, S.STAGING_OUT)

    async def _stage_out(self, job: Job, buffer: Buffer) -> None:
        limit_s, script = self._conf().stage_out_timeout, self._script_of(job)
        name = "slurm_bb_data_out"
        arguments = (job.job_id, script, job.uid, job.gid)
        outcome = await self._calls.call("stage-out", job.uid, name, arguments, limit_s)
        if not outcome.code:
            name = "slurm_bb_test_data_out"
            outcome = await self._test("stage-out", name, job, script, limit_s)
        if outcome.code:
            self._fail(job.job_id, S.STAGING_OUT, name, outcome)
            return
        self._move(buffer, S.TEARDOWN)

    async def _tear_down(self, job: Job, buffer: Buffer) -> None:
        if buffer.state == S.TEARDOWN_FAIL:
            await asyncio.sleep(_AGAIN_S)
        hurry = "true" if buffer.is_hurried else "false"
        arguments = (job.job_id, self._script_of(job), hurry, job.uid, job.gid)
        outcome = await self._calls.call(
            "teardown", job.uid, "slurm_bb_job_teardown", arguments, self._conf().other_timeout
        )
        if outcome.code:
            self._tell(job.job_id, "slurm_bb_job_teardown", outcome)
        succeeded = not outcome.code
        cluster = self._writer.cluster
        self._change(
            job.job_id,
            buffer.state,
            lambda now: steps.torn_down(cluster, buffer, succeeded=succeeded, now_us=now),
        )

    # Before the run -------------------------------------------------------------------------------

    def has(self, job_id: int) -> bool:
        """Return whether a job has a burst buffer."""
        return job_id in self._writer.cluster.buffers

    def pre_run(self, job_id: int, done: Callable[[HookResult], None]) -> Callable[[], object]:
        """Call slurm_bb_paths and slurm_bb_pre_run for a job that has its nodes; then `done`.

        The function returned kills what runs, and `done` is not called.
        """
        return self._keep(self._pre_run(job_id, done)).cancel

    async def _pre_run(self, job_id: int, done: Callable[[HookResult], None]) -> None:
        job, conf, name = self._writer.cluster.jobs[job_id], self._conf(), str(job_id)
        script = self._script_of(job)
        call = partial(self._calls.call, "pre-run", job.uid)
        function, variables = "slurm_bb_paths", tuple[str, ...]()
        of_user = (job.uid, job.gid)
        try:
            arguments = (job_id, script, self._files.fresh_path_file(name), *of_user)
            outcome = await call(function, arguments, conf.other_timeout)
            variables = self._files.variables(name)
        except OSError as error:
            outcome = Outcome(-1, error.strerror or "")
        if not outcome.code:
            function = "slurm_bb_pre_run"
            outcome = await call(function, (job_id, script, *of_user), conf.other_timeout)
        buffer = self._writer.cluster.buffers.get(job_id)
        if outcome.code:
            self._tell(job_id, function, outcome)
            done(HookResult(1 << 8, f"{function}: {outcome.text}"))
            self._unready.add(job_id)
            return
        if buffer is not None and buffer.state == S.PRE_RUN:
            self._move(buffer, S.RUNNING, variables)
        done(HookResult(0, ""))

    # What follows ---------------------------------------------------------------------------------

    def _script_of(self, job: Job) -> str:
        content = job.request.burst_buffer.encode()
        try:
            if job.script_hash:
                content = self._scripts.get(job.script_hash)
            return self._files.script(str(job.job_id), content)
        except OSError as error:
            self._log.error(f"burst_buffer/lua: script of JobId={job.job_id}: {error}")
            return ""

    def _move(self, buffer: Buffer, state: int, variables: tuple[str, ...] = ()) -> None:
        variables = variables or buffer.variables
        after = partial(steps.changed, buffer, state=state, variables=variables)
        self._change(buffer.job_id, buffer.state, lambda now_us: [after(now_us=now_us)])

    def _change(self, job_id: int, state: int, events: Callable[[int], list[ev.AnyEvent]]) -> None:
        """Record what follows, unless the world has moved on."""
        buffer = self._writer.cluster.buffers.get(job_id)
        if buffer is not None and buffer.state == state:
            self._writer.record(events(self._now_us()))

    def _fail(self, job_id: int, state: int, function: str, outcome: Outcome) -> None:
        self._tell(job_id, function, outcome)
        cluster = self._writer.cluster
        buffer = cluster.buffers.get(job_id)
        if buffer is None or buffer.state != state:
            return
        tears_down = outcome.is_late or self._conf().tears_down_failed
        self._writer.record(
            steps.failed(
                cluster.jobs[job_id], buffer, function, outcome.text, self._now_us(),
                tears_down=tears_down,
            )
        )  # fmt: skip
