"""ReadOutput: a part of what a batch job has written, read on its node with its user's rights."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Protocol, cast

from msgspec import Struct

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import STEP_BATCH
from pyslurm_ng.ctld.job_filter import find_jobs
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.open_calls.step_calls import OpenCall
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.writer import Answer, Writer
from pyslurm_ng.model import output_names
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.model.states import TERMINAL_STATES, JobState
from pyslurm_ng.wire.open_requests import Done, RequestFailed
from pyslurm_ng.wire.output_messages import JobFilePart, OutputPart, ReadJobFile, ReadOutput

MOST_OPEN = 128
MOST_OF_ONE = 8
_DEADLINE_S = 10.0


class Nodes(Protocol):
    """The way to node daemons; `wire.endpoint.Endpoint`."""

    def request(self, peer: str, message: Struct, deadline_s: float, done: Done) -> None:
        """Ask, and call `done` once."""


class OutputCalls:
    """Answers ReadOutput."""

    def __init__(self, writer: Writer, credentials: Credentials, nodes: Nodes) -> None:
        self._writer = writer
        self._credentials = credentials
        self._nodes = nodes
        self._open: Counter[int] = Counter()  # by uid

    def handle(self, call: OpenCall, caller: Caller) -> None:
        """Ask the node of the job's script, or say why not."""
        request = cast(ReadOutput, call.request)
        cluster, answer = self._writer.cluster, cast(Answer, call)
        job = find_written(cluster, request, caller)
        if isinstance(job, Reject):
            self._writer.refuse(answer, job)
            return
        if self._open[caller.uid] >= MOST_OF_ONE or self._open.total() >= MOST_OPEN:
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, "too many files are being read")
            return
        node = cluster.nodes[job.batch_node_id]
        assert node is not None
        path = path_of(job, request.stream, node.spec.name)
        question = ReadJobFile(
            cluster.epoch,
            self._credentials.of_job(cluster, job),
            path,
            request.offset,
            request.length,
        )
        is_over = job.state in TERMINAL_STATES
        self._open[caller.uid] += 1
        told = partial(self._told, call, caller.uid, path, node.spec.name, is_over)
        self._writer.when_durable(
            lambda: self._nodes.request(node.spec.name, question, _DEADLINE_S, told)
        )

    def _told(
        self,
        call: OpenCall,
        uid: int,
        path: str,
        node: str,
        is_over: bool,
        outcome: Struct | RequestFailed,
    ) -> None:
        self._open[uid] -= 1
        if not self._open[uid]:
            del self._open[uid]
        if isinstance(outcome, RequestFailed):
            call.error(outcome.code, f"{path} on {node}: {outcome.text}")
            return
        assert isinstance(outcome, JobFilePart)
        part = outcome
        call.reply(OutputPart(path, node, part.size, part.offset, part.data, is_over))


def find_written(cluster: Cluster, request: ReadOutput, caller: Caller) -> Job | Reject:
    """Return the job whose output is meant; only its owner, and root, may read it."""
    jobs = [job for job, _ in find_jobs(cluster, request.job)]
    if len(jobs) != 1:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    job = jobs[0]
    if caller.uid not in (0, job.uid):
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if job.state == JobState.PENDING or not job.start_us:
        return Reject(Errno.ESLURM_JOB_PENDING)
    if not job.script_hash:
        return Reject(Errno.ESLURM_NOT_SUPPORTED, "only batch scripts write a file")
    if job.batch_node_id < 0 or cluster.nodes[job.batch_node_id] is None or not job.nodes:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return job


def path_of(job: Job, stream: str, host: str) -> str:
    """Return the file that a batch script's output or errors go to."""
    request = whole_request(job.request)
    fields = output_names.NameFields(
        job_id=job.job_id,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        step_id=STEP_BATCH,
        user=job.user_name,
        job_name=request.name,
        node_name=host,
    )
    _, output, errors = output_names.batch_names(
        request.std_in, request.std_out, request.std_err, request.work_dir or "/", fields
    )
    return errors if stream == "err" else output
