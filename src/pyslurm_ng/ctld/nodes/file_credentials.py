"""Credentials by which sbcast may write files on the nodes of a job."""

from __future__ import annotations

from typing import cast

from pyslurm_ng.base.errors import Errno, error_text
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model.job import is_completing
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.step_messages import AskFileCredential, FileCredential
from pyslurm_ng.wire.stream import Call


class FileCredentials:
    """Answers AskFileCredential."""

    def __init__(self, writer: Writer, credentials: Credentials) -> None:
        self._writer = writer
        self._credentials = credentials

    def handle(self, call: Call, caller: Caller) -> None:
        """Sign for the owner of a job that has its nodes, or say why not."""
        request = cast(AskFileCredential, call.request)
        cluster = self._writer.cluster
        job = cluster.jobs.get(request.job_id)
        if job is None:
            call.error(Errno.ESLURM_INVALID_JOB_ID, error_text(Errno.ESLURM_INVALID_JOB_ID))
        elif caller.uid not in (0, job.uid):
            call.error(Errno.ESLURM_USER_ID_MISSING, error_text(Errno.ESLURM_USER_ID_MISSING))
        elif job.state == JobState.PENDING:
            call.error(Errno.ESLURM_JOB_PENDING, error_text(Errno.ESLURM_JOB_PENDING))
        elif job.state not in (JobState.RUNNING, JobState.SUSPENDED) or is_completing(job):
            call.error(Errno.ESLURM_ALREADY_DONE, error_text(Errno.ESLURM_ALREADY_DONE))
        elif request.step_id != NO_VAL and request.step_id not in job.steps:
            call.error(Errno.ESLURM_INVALID_JOB_ID, error_text(Errno.ESLURM_INVALID_JOB_ID))
        else:
            step = job.steps.get(request.step_id)
            allocs = job.nodes if step is None else step.nodes
            nodes = [cluster.node(alloc.node_id) for alloc in allocs]
            answer = FileCredential(
                job_id=job.job_id,
                nodes=[node.spec.name for node in nodes],
                addresses=[(node.facts.addr or node.spec.addr, node.spec.port) for node in nodes],
                credential=self._credentials.of_job(cluster, job),
            )
            self._writer.when_durable(lambda: call.reply(answer))
