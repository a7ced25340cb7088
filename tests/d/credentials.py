"""Credentials that a node accepts."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.base.numbers import REQ_STEPMGR
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire import node_messages as nm


def credential(job_id: int = 1, attempt: int = 0, step_id: int = STEP_BATCH) -> nm.JobCredential:
    return nm.JobCredential(
        cluster="c", epoch=1, job_id=job_id, attempt=attempt, uid=1, gid=1, user_name="u",
        group_name="g", request=JobRequest(), nodes=("n1",), allocs=(), step_id=step_id,
    )  # fmt: skip


def managed_credential(step_id: int) -> nm.JobCredential:
    """Return that of a step whose share a step manager has given, on n1."""
    request = JobRequest(flags=REQ_STEPMGR)
    return replace(credential(step_id=step_id), request=request, batch_host="n1")
