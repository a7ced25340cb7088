"""Requests of salloc and srun that stay open: jobs that wait for resources, jobs in use.

The connection stands for the command. While it lasts, the command learns of grant, notices and end.
If it has been gone for a while (InactiveLimit), the command counts as gone, and its job ends.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from pyslurm_ng.base.errors import Errno, error_text
from pyslurm_ng.base.hostlist import expand_unique, fold
from pyslurm_ng.ctld.clock import Timers
from pyslurm_ng.ctld.open_calls.job_watch import JobWatch
from pyslurm_ng.ctld.open_calls.step_calls import OpenCall
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.steps import steps
from pyslurm_ng.ctld.rules.steps.managed import is_manager
from pyslurm_ng.ctld.rules.submission.feasible import size_of
from pyslurm_ng.ctld.writer import Answer, Writer
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.job import Job, is_completing, limit_end_us
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState
from pyslurm_ng.model.task_counts import usable_cpus
from pyslurm_ng.sched.cons_tres.layout import counts_text, tasks_on_nodes
from pyslurm_ng.sched.demand.demand import limit_in
from pyslurm_ng.steps.creation import node_address
from pyslurm_ng.wire.job_messages import AllocateJob, JobAccepted
from pyslurm_ng.wire.step_messages import AllocationGranted, AllocationOver, JobNotice

_GONE_GRACE_S = 10.0
# After a restart commands come back within this time, or not at all.
_RETURN_S = 60.0

_accepted_decoder = msgspec.msgpack.Decoder(JobAccepted)
_OVER = TERMINAL_STATES


class Decide(Protocol):
    """Lets the submit rule decide; `Service.allocate`."""

    def __call__(self, call: OpenCall, caller: Caller, answer: Answer, /) -> None:
        """Answer through `answer` when it is durable."""


class Allocations:
    """Answers AllocateJob.

    Attributes:
        inactive_limit_s: InactiveLimit, for commands of running jobs that have gone; 0: none.
    """

    def __init__(self, writer: Writer, watch: JobWatch, clock: Timers, decide: Decide) -> None:
        """Watch jobs with `watch`; `decide` takes a request to the submit rule."""
        self.inactive_limit_s = 0
        self._writer = writer
        self._watch = watch
        self._clock = clock
        self._decide = decide
        self._attached: dict[int, OpenCall] = {}
        clock.call_later(_RETURN_S, self._sweep)

    def handle(self, call: OpenCall, caller: Caller) -> None:
        """Accept or refuse; then stay."""
        self._decide(call, caller, _Answer(self, call))

    def notify(self, job_id: int, text: str) -> bool:
        """Show a line to commands that wait for the job; return whether there are any."""
        call = self._attached.get(job_id)
        if call is not None:
            call.part(JobNotice(job_id, text))
        return call is not None

    def accepted(self, call: OpenCall, accepted: JobAccepted) -> None:
        """The job exists durably: tell its number, then what becomes of it."""
        job_id = accepted.job_id
        notes = [*accepted.notes, *_notes(self._writer.cluster, job_id)]
        call.part(JobAccepted(job_id, notes))
        self._attached[job_id] = call
        session = _Session(self, call, job_id)
        request = cast(AllocateJob, call.request)
        call.request = accepted  # the job has the options; here they would be kept a second time
        call.on_gone(partial(self._gone, job_id, call, session, is_kept=request.is_kept))
        self._watch.watch(job_id, session.changed)
        leader = self._writer.cluster.jobs.get(job_id)
        for part in het_components(self._writer.cluster, leader) if leader is not None else ():
            if part.job_id != job_id:
                self._watch.watch(part.job_id, session.part_changed)

    def end(self, job_id: int, call: OpenCall, over: AllocationOver) -> None:
        """Tell the command that its job is over, when that is durable."""
        if self._attached.get(job_id) is call:
            del self._attached[job_id]
        self._writer.when_durable(lambda: call.reply(over))

    def grant(self, call: OpenCall, job: Job) -> None:
        """Tell where the job runs, when that is durable."""
        cluster = self._writer.cluster
        granted = describe(cluster, job)
        parts = het_components(cluster, job)
        if parts:
            granted = msgspec.structs.replace(
                granted, components=[describe(cluster, part) for part in parts]
            )
        self._writer.when_durable(lambda: call.part(granted))

    def is_ready(self, job: Job) -> bool:
        """Return whether a job, with all its components, has its nodes prepared."""
        parts = het_components(self._writer.cluster, job) or [job]
        return all(
            part.state == JobState.RUNNING and not part.flags & JobFlag.CONFIGURING
            for part in parts
        )

    def leader(self, job_id: int) -> Job | None:
        """Return the record of a session's job."""
        return self._writer.cluster.jobs.get(job_id)

    def _gone(self, job_id: int, call: OpenCall, session: _Session, *, is_kept: bool) -> None:
        session.is_closed = True
        self._watch.forget(job_id, session.changed)
        if self._attached.get(job_id) is not call:
            return
        del self._attached[job_id]
        if not is_kept:
            is_limited = self._is_limited(job_id)
            grace_s = self.inactive_limit_s if is_limited else _GONE_GRACE_S
            self._clock.call_later(grace_s, partial(self._revoke, job_id, is_limited=is_limited))

    def _is_limited(self, job_id: int) -> bool:
        """Return whether InactiveLimit says when a job without its command is over."""
        cluster = self._writer.cluster
        job = cluster.jobs.get(job_id)
        if not self.inactive_limit_s or job is None or job.state == JobState.PENDING:
            return False
        partition = cluster.partitions.get(job.partition)
        return partition is None or not partition.root_only

    def _revoke(self, job_id: int, *, is_limited: bool = False) -> None:
        """End the job of a command that has gone and not come back."""
        job = self._writer.cluster.jobs.get(job_id)
        if job is None or job_id in self._attached or _is_over(job):
            return
        if job.het_job_id in self._attached:
            return  # a component: its command is its leader's
        cluster, now_us = self._writer.cluster, self._clock.now_us()
        if is_limited:
            events = steps.end_inactive(cluster, job, now_us)
        else:
            events = steps.end_allocation(cluster, job, 0, now_us, cancelled_by=job.uid)
        self._writer.record(events)

    def _sweep(self) -> None:
        """Cancel what waited for a command when the controller stopped and is not missed since."""
        jobs = self._writer.cluster.jobs
        for job_id in list(self._writer.cluster.job_index.pending):
            if not jobs[job_id].script_hash:
                self._revoke(job_id)


class _Session:
    """One command's view of its job."""

    def __init__(self, allocations: Allocations, call: OpenCall, job_id: int) -> None:
        self._allocations = allocations
        self._call = call
        self._job_id = job_id
        self._was_granted = False
        self.is_closed = False

    def part_changed(self, _: Job | None) -> bool:
        """Look at the job when one of its components has changed."""
        leader = self._allocations.leader(self._job_id)
        if self.is_closed or leader is None or _is_over(leader):
            return True  # the leader's own change tells the rest
        return self.changed(leader)

    def changed(self, job: Job | None) -> bool:
        """Tell the command what matters to it; return whether that was the last."""
        if job is None or _is_over(job):
            state = JobState.COMPLETED if job is None else JobState(job.state)
            over = AllocationOver(
                self._job_id,
                int(state),
                job.exit_code if job is not None else 0,
                int(job.reason) if job is not None else 0,
            )
            self._allocations.end(self._job_id, self._call, over)
            return True
        if not self._was_granted and self._allocations.is_ready(job):
            self._was_granted = True
            self._allocations.grant(self._call, job)
        return False


class _Answer:
    """Turns the writer's answer into the first of several."""

    def __init__(self, allocations: Allocations, call: OpenCall) -> None:
        self._allocations = allocations
        self._call = call

    def reply(self, answer: Struct | bytes) -> None:
        """The job is in the queue; a retried request brings the remembered bytes."""
        accepted = _accepted_decoder.decode(answer) if isinstance(answer, bytes) else answer
        assert isinstance(accepted, JobAccepted)
        self._allocations.accepted(self._call, accepted)

    def error(self, code: int, text: str) -> None:
        """No job."""
        self._call.error(code, text)


def _notes(cluster: Cluster, job_id: int) -> list[str]:
    """Return what a user should know of a job that waits for more than its turn."""
    job = cluster.jobs.get(job_id)
    if job is None or job.state != JobState.PENDING:
        return []
    number = _obstacle(cluster, job)
    return [error_text(number)] if number is not None else []


def _obstacle(cluster: Cluster, job: Job) -> int | None:
    """Return Slurm's number for what stands in the way of every start of a job, if anything."""
    if job.priority == 0:
        return Errno.ESLURM_JOB_HELD
    waiting = [
        partition
        for name in job.partition.split(",")
        if (partition := cluster.partitions.get(name)) is not None
    ]
    if waiting and all(partition.state == "DOWN" for partition in waiting):
        return Errno.ESLURM_PARTITION_DOWN
    for name in expand_unique(job.request.node_list):
        node_id = cluster.node_index.by_name.get(name)
        if node_id is not None and not cluster.node_index.columns.usable[node_id]:
            return Errno.ESLURM_NODE_NOT_AVAIL
    for partition in waiting:
        sizes = job_sizes(job.request, partition)
        nodes, cpus = size_of(cluster, partition)
        limit_min = limit_in(job.request, job.time_limit_min, partition)
        fits = sizes.nodes_min <= min(nodes, partition.max_nodes) and sizes.cpus <= cpus
        if fits and limit_min <= partition.max_time_min:
            return None
    return Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE


def _is_over(job: Job) -> bool:
    return job.state in _OVER or is_completing(job)


def describe(cluster: Cluster, job: Job) -> AllocationGranted:
    """Return what a command must know of a running job."""
    names = [
        node.spec.name for alloc in job.nodes if (node := cluster.nodes[alloc.node_id]) is not None
    ]
    return AllocationGranted(
        job_id=job.job_id,
        name=job.request.name,
        cluster=cluster.cluster_name,
        partition=job.partition,
        account=job.account,
        qos=job.qos,
        nodes=fold(names),
        node_count=len(job.nodes),
        cpus_per_node=counts_text(usable_cpus(job.request, alloc) for alloc in job.nodes),
        tasks_per_node=counts_text(tasks_on_nodes(job.request, job.nodes)),
        ntasks=job.total_tasks,
        start_us=job.start_us,
        end_us=limit_end_us(job),
        time_limit_min=job.time_limit_min,
        reservation=job.reservation,
        licenses=job.licenses_alloc,
        step_manager=_step_manager(cluster, job),
        variables=_of_buffer(cluster, job),
    )


def _of_buffer(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Return what slurm_bb_paths has written, as text."""
    buffer = cluster.buffers.get(job.job_id)
    entries = buffer.variables if buffer is not None else ()
    return tuple(entry.encode("utf-8", "replace").decode() for entry in entries)


def _step_manager(cluster: Cluster, job: Job) -> tuple[str, str, int]:
    """Return name, address and port of the node that manages a job's steps; "" for slurmctld."""
    if not is_manager(job, job.batch_node_id):
        return "", "", 0
    node = cluster.node(job.batch_node_id)
    return node.spec.name, *node_address(node)
