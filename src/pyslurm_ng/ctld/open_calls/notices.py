"""`scontrol notify`: a line for commands that wait for a job; it is not kept."""

from __future__ import annotations

from typing import Protocol, cast

from msgspec import Struct

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.job_filter import find_jobs
from pyslurm_ng.ctld.open_calls.step_calls import OpenCall
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.writer import Answer, Writer
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobState
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.node_messages import NodeOrders, TellJob
from pyslurm_ng.wire.query_messages import NotifyJob

_NOBODY = "no command waits for this job"


class Waiters(Protocol):
    """Commands that wait for their allocation; `Allocations`."""

    def notify(self, job_id: int, text: str) -> bool:
        """Show a line to commands that wait for the job; return whether there are any."""


class Nodes(Protocol):
    """The way to node daemons; `Sender`."""

    def tell(self, name: str, message: Struct) -> None:
        """Send one node a message that is no duty; lost if the node is away."""


class Notices:
    """Answers NotifyJob."""

    def __init__(self, writer: Writer, waiters: Waiters, nodes: Nodes) -> None:
        self._writer = writer
        self._waiters = waiters
        self._nodes = nodes

    def handle(self, call: OpenCall, caller: Caller) -> None:
        """Pass the line on, or say why it cannot be."""
        request = cast(NotifyJob, call.request)
        cluster, answer = self._writer.cluster, cast(Answer, call)
        job = find_recipient(cluster, request, caller)
        if isinstance(job, Reject):
            self._writer.refuse(answer, job)
            return
        if not self._waiters.notify(job.job_id, request.text):
            if not job.script_hash:
                self._writer.refuse(answer, Reject(Errno.ESLURM_NOT_SUPPORTED, _NOBODY))
                return
            name = cluster.node(job.batch_node_id).spec.name
            order = TellJob(0, job.job_id, job.attempt, request.text)
            self._nodes.tell(name, NodeOrders(cluster.epoch, [order]))
        self._writer.when_durable(lambda: answer.reply(Done()))


def find_recipient(cluster: Cluster, request: NotifyJob, caller: Caller) -> Job | Reject:
    """Return the job that a line is for; a script can only read while it runs."""
    parts = find_jobs(cluster, request.job)
    if not parts:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    job = parts[0][0]
    if not may_change(cluster, job, caller):
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if job.state in TERMINAL_STATES or is_completing(job):
        return Reject(Errno.ESLURM_ALREADY_DONE)
    if job.state == JobState.PENDING and job.script_hash:
        return Reject(Errno.ESLURM_DISABLED)
    return job
