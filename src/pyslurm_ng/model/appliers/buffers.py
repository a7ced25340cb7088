"""How events of burst buffers change the Cluster."""

from __future__ import annotations

from .. import events as ev
from ..buffer import IS_STAGE_OUT
from ..cluster import Cluster
from ..states import JobFlag
from .registry import applies


@applies(ev.BufferChanged)
def _buffer_changed(cluster: Cluster, event: ev.BufferChanged) -> None:
    job = cluster.jobs[event.job_id]
    job.flags &= ~JobFlag.STAGE_OUT
    if event.buffer is None:
        cluster.buffers.pop(event.job_id, None)
        return
    cluster.buffers[event.job_id] = event.buffer
    if event.buffer.state in IS_STAGE_OUT:
        job.flags |= JobFlag.STAGE_OUT
