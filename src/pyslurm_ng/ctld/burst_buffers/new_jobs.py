"""Submissions that ask for a burst buffer wait here for the site's slurm_bb_job_process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import Any, cast

from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.conf.burst_buffer_conf import BurstBufferConf
from pyslurm_ng.ctld.burst_buffers.calls import Calls
from pyslurm_ng.ctld.burst_buffers.job_files import JobFiles
from pyslurm_ng.ctld.burst_buffers.listing import size_text
from pyslurm_ng.ctld.rules.buffers.directives import (
    DirectiveError,
    lines_of,
    rounded,
    wanted,
)
from pyslurm_ng.ctld.rules.buffers.pools import Pool
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.wire.crontab_messages import CrontabStored, StoreCrontab
from pyslurm_ng.wire.job_messages import AllocateJob, SubmitJob
from pyslurm_ng.wire.stream import Call

WAITING = 100
"""Submissions of one user that wait for the function."""
_KINDS = frozenset(("SubmitJob", "AllocateJob", "StoreCrontab"))
_MOST_CHARACTERS = 65536  # of model.bounds.LongText
_MOST_NAMES = 20  # of pools in a refusal
_OF_OTHERS = "--bb, --bbf: a heterogeneous job has the burst buffer of its first component only"


class NewJobs:
    """Asks the site about each job with a burst buffer, before the rules see it."""

    def __init__(
        self,
        writer: Writer,
        calls: Calls,
        conf: Callable[[], BurstBufferConf],
        files: JobFiles,
        pools: Callable[[], Mapping[str, Pool]],
        *,
        resume: Callable[[Call, Caller], None],
        fault: Callable[[Call, Caller, Exception], None],
    ) -> None:
        self._writer = writer
        self._calls = calls
        self._conf = conf
        self._files = files
        self._pools = pools
        self._resume = resume
        self._fault = fault
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Ask no longer; commands that wait get no answer, and submit again."""
        for task in self._tasks:
            task.cancel()

    def takes(self, call: Call) -> bool:
        """Return whether a request may bring a burst buffer."""
        if call.kind not in _KINDS:
            return False
        request = call.request
        if isinstance(request, StoreCrontab):
            return any(
                job.request.burst_buffer or self._lines("", job.script) for job in request.jobs
            )
        parts = [cast(SubmitJob, request).request, *getattr(request, "components", ())]
        script: bytes = getattr(request, "script", b"")
        return any(part.burst_buffer for part in parts) or bool(self._lines("", script))

    def ask(self, call: Call, caller: Caller) -> None:
        """Let the site decide about a request; it goes on, or is refused, later."""
        if isinstance(call.request, StoreCrontab):
            self._start(self._decide_crontab(call, caller, call.request))
            return
        message = cast("SubmitJob | AllocateJob", call.request)
        script: bytes = getattr(message, "script", b"")
        lines = self._lines(message.request.burst_buffer, script)
        if not lines:
            self._go_on(call, replace(caller, notes=(*caller.notes, self._no_directive())), "")
            return
        if any(part.burst_buffer for part in message.components):
            caller = replace(caller, notes=(*caller.notes, _OF_OTHERS))
        refusal = self._refusal(lines, caller)
        if refusal is not None:
            self._refuse(call, caller, refusal)
            return
        self._start(self._decide(call, caller, lines, script or lines.encode()))

    def _start(self, decision: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(decision)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _lines(self, option: str, script: bytes) -> str:
        return lines_of(option, script, self._conf().directive)

    def _no_directive(self) -> str:
        name = self._conf().directive
        return f"--bb, --bbf: no line begins with #{name}, so there is no burst buffer"

    def _refusal(self, lines: str, caller: Caller) -> Reject | None:
        """Refuse what needs no function."""
        if caller.uid == 0:
            text = "User root can not allocate burst buffers"
            return Reject(Errno.ESLURM_BURST_BUFFER_PERMISSION, text)
        if not self._conf().may_use(caller.user_name, caller.uid):
            return Reject(Errno.ESLURM_BURST_BUFFER_PERMISSION)
        invalid = Errno.ESLURM_INVALID_BURST_BUFFER_REQUEST
        if len(lines) > _MOST_CHARACTERS:
            return Reject(invalid, f"directives have at most {_MOST_CHARACTERS} characters")
        try:
            room = wanted(lines)
        except DirectiveError as error:
            return Reject(invalid, str(error))
        refusal = self._too_much(room.pool, room.size) if room.pool else None
        if refusal is None and self._calls.waiting("validate", caller.uid) >= WAITING:
            text = f"{WAITING} requests of uid {caller.uid} wait for burst_buffer.lua"
            return Reject(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
        return refusal

    def _too_much(self, name: str, size: int) -> Reject | None:
        """Refuse what no pool can hold."""
        pools = self._pools()
        pool = pools.get(name)
        if pool is None:
            names = ", ".join(list(pools)[:_MOST_NAMES]) or "none"
            text = f"pool={name[:64]}: there is no such pool; pools: {names}"
        elif rounded(size, pool.granularity) > pool.total:
            text = f"capacity={size_text(size)}: pool {name} has {size_text(pool.total)}"
        else:
            return None
        return Reject(Errno.ESLURM_INVALID_BURST_BUFFER_REQUEST, text)

    async def _decide(self, call: Call, caller: Caller, lines: str, script: bytes) -> None:
        refusal = await self._judged(caller, script)
        if refusal is not None:
            self._refuse(call, caller, refusal)
            return
        self._go_on(call, caller, lines)

    async def _decide_crontab(self, call: Call, caller: Caller, message: StoreCrontab) -> None:
        """Ask about each entry; the first that is refused refuses all, as in the rules."""
        jobs = []
        for job in message.jobs:
            lines = self._lines(job.request.burst_buffer, job.script)
            if lines or job.request.burst_buffer:
                refusal = await self._judged_entry(caller, lines, job.script)
                if refusal is not None:
                    problem = refusal.detail or error_text(refusal.code)
                    refused = CrontabStored(
                        [], job.first_line, job.last_line, int(refusal.code), problem
                    )
                    self._writer.when_durable(partial(call.reply, refused))
                    return
            jobs.append(replace(job, request=replace(job.request, burst_buffer=lines)))
        call.request = replace(message, jobs=jobs)
        self._resume(call, caller)

    async def _judged_entry(self, caller: Caller, lines: str, script: bytes) -> Reject | None:
        if not lines:
            return Reject(Errno.ESLURM_INVALID_BURST_BUFFER_REQUEST, self._no_directive())
        return self._refusal(lines, caller) or await self._judged(caller, script)

    async def _judged(self, caller: Caller, script: bytes) -> Reject | None:
        """Ask the site's function; return why a job may not be."""
        name = f"check.{next(self._numbers)}"

        def arguments() -> tuple[object, ...]:
            """Only now: the scripts of all that wait would fill the disk."""
            return self._files.script(name, script), caller.uid, caller.gid

        try:
            outcome = await self._calls.call(
                "validate", caller.uid, "slurm_bb_job_process", arguments,
                self._conf().validate_timeout,
            )  # fmt: skip
        except OSError as error:
            return Reject(Errno.ESLURM_WRITING_TO_FILE, str(error))
        finally:
            self._files.remove(name)
        if outcome.code:
            text = f"burst_buffer/lua: {outcome.text[:4096]}"
            return Reject(Errno.ESLURM_INVALID_BURST_BUFFER_REQUEST, text)
        return None

    def _go_on(self, call: Call, caller: Caller, lines: str) -> None:
        try:
            message = cast("SubmitJob | AllocateJob", call.request)
            call.request = replace(
                message,
                request=replace(message.request, burst_buffer=lines),
                components=[replace(part, burst_buffer="") for part in message.components],
            )
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the others
            self._fault(call, caller, error)
            return
        self._resume(call, caller)

    def _refuse(self, call: Call, caller: Caller, reject: Reject) -> None:
        notes = [*caller.notes, *([reject.detail] if reject.detail else [])]
        self._writer.refuse(call, Reject(reject.code, "\n".join(notes)))
