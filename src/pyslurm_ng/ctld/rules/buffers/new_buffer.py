"""The burst buffer that a new job begins with."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.buffers.directives import LUA, wanted
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer
from pyslurm_ng.model.job import JobRequest


def new_buffer(request: JobRequest, job_id: int, context: Context) -> list[ev.AnyEvent]:
    """Return the burst buffer that a job asks for; directives that are none were refused before."""
    if not request.burst_buffer or context.conf.burst_buffer_type != LUA:
        return []
    room = wanted(request.burst_buffer)
    buffer = Buffer(job_id, pool=room.pool, size=room.size)
    return [ev.BufferChanged(context.now_us, job_id, buffer)]
