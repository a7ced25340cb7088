"""Answers TestJob: where `--test-only` would start behind all that waits already.

The loop checks the request and finds where it would start were it next; a thread plans the jobs
that would go before it, as for `scontrol explain`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_HOLD, REQ_SIGNAL_RESV
from pyslurm_ng.ctld.queries.will_run import test_job
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.submission import submit
from pyslurm_ng.ctld.scheduling.questions import MOST_AT_ONCE, Questions, time_limit
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.obstacle import empty_nodes
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.explain.probe import OutOfTimeError, Probe, probe
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.job_views import may_be_considered, waiting_record
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.wire.job_messages import TestJob, WillRun
from pyslurm_ng.wire.stream import Call

Work = Callable[[], "Probe | None"]


class StartEstimates:
    """Answers about jobs that are not submitted; one that takes too long is as if next in line."""

    def __init__(self, questions: Questions) -> None:
        self._parts = questions
        self._writer = questions.writer
        self._open = 0

    def handle(self, call: Call, caller: Caller) -> None:
        """Check the request, and look for its place in the queue."""
        request = call.request
        assert isinstance(request, TestJob)
        cluster, notes = self._writer.cluster, caller.notes
        asked = _of_a_waiting_job(cluster, request, caller) if request.job_id else (request, caller)
        if isinstance(asked, Reject):
            self._writer.refuse(call, asked)
            return
        request, caller = asked
        context = self._parts.context(caller)
        first = test_job(cluster, self._parts.soft, context.conf, request, caller, context.now_us)
        if isinstance(first, Reject):
            detail = "\n".join(filter(None, (*notes, first.detail)))
            self._writer.refuse(call, Reject(first.code, detail))
            return
        first = msgspec.structs.replace(
            first, job_id=request.job_id or first.job_id, notes=list(notes)
        )
        # Reservations count as separate clusters, and no job waits for jobs that are held.
        is_apart = request.request.reservation or request.request.flags & REQ_HOLD
        is_lent_room = request.request.flags & REQ_SIGNAL_RESV and cluster.reservations
        is_alone = not cluster.job_index.pending and not is_lent_room
        is_next = is_apart or is_alone or self._open >= MOST_AT_ONCE
        job = None if is_next else _in_the_queue(cluster, request, context)
        if job is None:
            self._writer.when_seen(lambda: call.reply(first))
            return
        self._open += 1
        view = self._parts.scheduler.look()
        others = [other for other in view.waiting if other.job_id != job.job_id]
        view = replace(view, waiting=[*others, job])

        def done(probed: Probe | None) -> None:
            self._open -= 1
            answer = first if probed is None else _answer(view, probed, first)
            self._writer.when_seen(lambda: call.reply(answer))

        def failed(error: BaseException) -> None:
            self._parts.faults.note("estimate", "a start could not be estimated", error)
            done(None)

        self._parts.run(self._work(view, job), done, failed)

    def _work(self, view: Snapshot, job: Waiting) -> Work:
        scheduler, planner, is_over = self._parts.scheduler, self._parts.planner, time_limit()
        policy, past_promises = scheduler.policy, scheduler.past_promises

        def work() -> Probe | None:
            try:
                probed = probe(
                    view,
                    policy,
                    job,
                    (),
                    view.fairshare,
                    is_over,
                    planner,
                    past_promises,
                )
            except OutOfTimeError:
                return None
            if probed is None or probed.start_us <= view.now_us:
                return probed
            may_borrow = policy.preempt_by and job.request.flags & REQ_SIGNAL_RESV
            return _with_lent_room(view, policy, job, probed) if may_borrow else probed

        return work


def _with_lent_room(view: Snapshot, policy: Policy, job: Waiting, probed: Probe) -> Probe:
    """Return the start of a job that the next pass would lend nodes of a reservation."""
    limits = None if view.limits is None else view.limits.fork()
    plan = Planner()(replace(view, limits=limits), policy, fairshare=view.fairshare)
    start = next((start for start in plan.starts if start.job_id == job.job_id), None)
    if start is None:
        return probed
    nodes = tuple(alloc.node_id for alloc in start.nodes)
    return replace(probed, start_us=view.now_us, nodes=nodes)


def _of_a_waiting_job(
    cluster: Cluster, question: TestJob, caller: Caller
) -> tuple[TestJob, Caller] | Reject:
    """Return what the job that is asked about wants, and its user."""
    job = cluster.jobs.get(question.job_id)
    if job is None:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    if caller.uid != job.uid and not caller.is_operator:
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if job.state != JobState.PENDING:
        return Reject(Errno.ESLURM_JOB_NOT_PENDING)
    owner = Caller(job.uid, job.gid, job.user_name, job.group_name, caller.groups, is_passed=True)
    return TestJob(job.request, question.job_id), owner


def _in_the_queue(cluster: Cluster, request: TestJob, context: Context) -> Waiting | None:
    """Return the job as passes would see it; None where none would consider it yet."""
    if request.job_id:
        waits = cluster.jobs[request.job_id]
        return waiting_record(cluster, waits) if may_be_considered(waits) else None
    checked = submit.check(cluster, request.request, context)
    if isinstance(checked, Reject):
        return None
    job = submit.as_pending(cluster, checked, context)
    return waiting_record(cluster, job) if may_be_considered(job) else None


def _answer(view: Snapshot, probed: Probe, first: WillRun) -> WillRun:
    """Return the planned start; `first` where a limit or the window keeps it from having one."""
    if probed.limit is not None or probed.start_us >= NO_END_US or not probed.nodes:
        return first
    need = probed.demand.need
    chosen = choose(need, empty_nodes(view, probed.nodes))
    allocs = allot(need, chosen) if chosen is not None else ()
    names = [spec.name for node in probed.nodes if (spec := view.specs[node]) is not None]
    return msgspec.structs.replace(
        first,
        start_us=max(probed.start_us, view.now_us),
        cpus=sum(alloc.charged_cpus for alloc in allocs) or first.cpus,
        nodes=hostlist.fold_sorted(names),
        partition=probed.demand.partition.name,
    )
