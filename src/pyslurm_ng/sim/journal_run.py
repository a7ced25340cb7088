"""Run a recorded month again under another configuration."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import DAY_US, MINUTE_US, NO_VAL, REQ_HOLD, REQ_REBOOT
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.orders.job_orders import suspend_jobs
from pyslurm_ng.ctld.rules.submission.submit import allocate_job, submit_job
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.scheduling.scheduler import PlanFunction
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, JobRequest, is_completing
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sim import actions as act
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.job_ids import JobIds
from pyslurm_ng.sim.journal_start import begin_with, is_moved
from pyslurm_ng.sim.nodes import PretendNodes
from pyslurm_ng.sim.recorded import Key, Recording, Run
from pyslurm_ng.sim.replayed import change_jobs, repeated
from pyslurm_ng.sim.world import World
from pyslurm_ng.wire.job_messages import AllocateJob, JobAccepted, SubmitJob
from pyslurm_ng.wire.messages import decode_reply
from pyslurm_ng.wire.query_messages import (
    CancelJobs,
    Cancelled,
    JobFilter,
    JobsChanged,
    SuspendJobs,
    UpdateJob,
)

_TICK_US = 30_000_000
_PATIENCE_US = DAY_US  # what does not start in an idle day never will
_NO_ID = bytes(16)
_RULES: dict[type[Struct], Callable[..., Decision | Reject]] = {
    SubmitJob: submit_job,
    AllocateJob: allocate_job,
    CancelJobs: cancel_jobs,
    UpdateJob: update_job,
    SuspendJobs: suspend_jobs,
}
_ROOT = Caller(0, 0, "root", "root", is_admin=True, is_operator=True)


class _Answer:
    """What a rule answered to one request."""

    def __init__(self) -> None:
        self.reply_to: Struct | bytes | None = None
        self.refusal = ""

    def reply(self, answer: Struct | bytes) -> None:
        self.reply_to = answer

    def error(self, code: int, text: str) -> None:
        self.refusal = text.splitlines()[0] if text else str(code)


class JournalRun:
    """A recording on a simulated cluster.

    Attributes:
        runs: what became of the jobs, by the recording's ids.
        refused: how many submissions and changes the configuration does not take, by text.
        moved: reservations that have other nodes than recorded, by name.
    """

    def __init__(
        self,
        recording: Recording,
        conf: SlurmConf,
        plan: PlanFunction,
        topologies: Sequence[TopologyConf] = (),
    ) -> None:
        self.recording = recording
        self.conf = conf
        self.world = World(start_us=recording.begin_us)
        cluster, moved = begin_with(recording, conf, topologies)
        self.moved = dict.fromkeys(moved)
        self.controller = SimController(self.world, conf, plan, cluster=cluster, keep_journal=False)
        self.runs: dict[Key, Run] = {}
        self.refused: Counter[str] = Counter()
        self.seconds = 0.0
        self._ids = JobIds()
        self._next = 0
        self._calm_us = recording.begin_us
        self.total_cpus = sum(node.spec.cpus for node in cluster.living_nodes())
        self._requeue_rules = requeue_rules(conf)
        self._nodes = PretendNodes(
            self.world, self.controller.writer, self._run_time_us, rules=self._requeue_rules
        )
        self.controller.writer.observe(self._applied)

    def run(self) -> None:
        """Let the recorded time pass, and what is needed beyond it."""
        begun = time.perf_counter()
        self._take_over()
        self._step()
        self._tick()
        self.world.run()
        self.seconds = time.perf_counter() - begun

    # What was there at the beginning ------------------------------------------------------------

    def _take_over(self) -> None:
        """Let jobs that run at the beginning end as they did."""
        cluster = self.controller.cluster
        for job_id in [*cluster.job_index.pending, *cluster.job_index.active]:
            job = cluster.jobs[job_id]
            head = job.array_job_id or job_id
            self._ids.put(head, head)
            if job_id in cluster.job_index.pending:
                continue
            if is_completing(job):
                self._clean(job, job.nodes_pending)
                continue
            if job.nodes_leaving:
                self._clean(job, tuple(alloc.node_id for alloc in job.nodes_leaving))
            self._started(job)
            left_us = job.start_us + job.suspended_us + self._run_time_us(job_id)
            self._nodes.adopt(job_id, left_us - self.world.now_us)
        self.controller.scheduler.due()

    def _clean(self, job: Job, node_ids: tuple[int, ...]) -> None:
        """Let nodes be done with a job that is over, or has left them."""
        cluster, now_us = self.controller.cluster, self.world.now_us
        pairs = tuple(
            (node_id, duty.duty_id)
            for node_id in node_ids
            for duty in cluster.duties.get(node_id, {}).values()
            if duty.job_id == job.job_id
        )
        record = self.controller.writer.record
        record([ev.DutiesDone(now_us, pairs)])
        if is_completing(job) and not job.nodes_pending and job.job_id not in cluster.epilogs:
            state = JobState(job.state)
            record(
                job_end.finish(
                    cluster, job, state, job.exit_code, job.flags, now_us, rules=self._requeue_rules
                )
            )

    # Time passes --------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.controller.tick()
        cluster, now_us = self.controller.cluster, self.world.now_us
        # Jobs that are suspended when no event is left stay suspended.
        runs = len(cluster.job_index.active) > len(cluster.job_index.suspended)
        is_going = self._next < len(self.recording.actions) or runs
        if is_going or not cluster.job_index.pending:
            self._calm_us = now_us
        if is_going or (cluster.job_index.pending and now_us - self._calm_us < _PATIENCE_US):
            self.world.at(max(now_us + _TICK_US, self._idle_until_us()), self._tick)

    def _idle_until_us(self) -> int:
        """Return until when nothing will happen, 0 while jobs run or wait."""
        actions, controller = self.recording.actions, self.controller
        if not controller.is_still or self._next >= len(actions):
            return 0
        return min(controller.next_change_us(), actions[self._next].time_us)

    def _step(self) -> None:
        """Do all that is due now and wake up for the next."""
        actions = self.recording.actions
        if self.controller.is_still:
            self.controller.tick()  # what has become due in the meantime comes first
        while self._next < len(actions):
            action = actions[self._next]
            if action.time_us > self.world.now_us:
                self.world.at(action.time_us, self._step)
                return
            self._next += 1
            self._do(action)

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.Submitted):
            self._submit(action.parts)
        elif isinstance(action, act.Cancelled | act.JobChanged | act.Suspended):
            self._steer(action)
        else:
            events = repeated(
                self.controller.cluster, action, self.world.now_us, self._requeue_rules
            )
            if isinstance(events, str):
                self.refused[events] += 1
            else:
                self.controller.writer.record(events)
            if isinstance(action, act.ReservationMade):
                name = action.reservation.name
                if is_moved(self.controller.cluster, name, action.members):
                    self.moved[name] = None

    def _submit(self, submitted: tuple[ev.JobSubmitted, ...]) -> None:
        first = submitted[0]
        requests = [self._request(event) for event in submitted]
        message: SubmitJob | AllocateJob
        if first.script_hash:
            message = SubmitJob(
                request_id=_NO_ID,
                request=requests[0],
                script=b"#!/bin/sh\n",
                components=requests[1:],
            )
        else:
            message = AllocateJob(request_id=_NO_ID, request=requests[0], components=requests[1:])
        asks_much = any(
            request.nice < 0 or request.priority != NO_VAL or request.flags & REQ_REBOOT
            for request in requests
        )
        caller = Caller(
            first.uid,
            first.gid,
            first.user_name,
            first.group_name,
            groups=(first.group_name,),
            is_admin=asks_much,
            is_operator=asks_much,
        )
        answer = self._ask(message, caller)
        if answer.refusal:
            self.refused[answer.refusal] += 1
            return
        reply = answer.reply_to
        accepted = decode_reply("JobAccepted", reply) if isinstance(reply, bytes) else reply
        assert isinstance(accepted, JobAccepted), accepted
        for offset, event in enumerate(submitted):
            self._ids.put(event.job_id, accepted.job_id + offset)
        begin_us = max(request.begin_us for request in requests)
        if begin_us > self.world.now_us:
            self.world.at(begin_us, self.controller.tick)

    def _ask(self, message: Struct, caller: Caller) -> _Answer:
        answer = _Answer()
        context = Context(self.conf, self.world.now_us, caller)
        writer = self.controller.writer
        writer.change(_RULES[type(message)], message, context, answer)
        writer.flush()
        writer.on_durable(writer.newest)
        return answer

    def _request(self, event: ev.JobSubmitted) -> JobRequest:
        """Return a request as its user wrote it, with the ids of this simulation."""
        request = event.request
        return msgspec.structs.replace(
            request,
            account=event.account,
            qos=request.qos or event.qos,
            flags=request.flags & ~REQ_HOLD,
            priority=NO_VAL if request.priority == 0 else request.priority,
            dependency=self._ids.dependency(request.dependency, self.controller.cluster.jobs),
            uid=NO_VAL,
            gid=NO_VAL,
        )

    def _steer(self, action: act.Cancelled | act.JobChanged | act.Suspended) -> None:
        ours = self._ids.ours.get(action.job_id)
        cluster = self.controller.cluster
        if ours is None:
            return
        name = f"{ours}_{action.tasks}" if action.tasks else str(ours)
        if isinstance(action, act.Cancelled):
            self._ask_all(CancelJobs(request_id=_NO_ID, filter=JobFilter(jobs=[name])))
            return
        if isinstance(action, act.Suspended):
            self._suspend(name, action)
            return
        request = dict(action.request)
        dependency = request.pop("dependency", None)
        if isinstance(dependency, str):
            settings = {"dependency": self._ids.dependency(dependency, cluster.jobs)}
            self._ask_all(UpdateJob(request_id=_NO_ID, jobs=[name], settings=settings))
        context = Context(self.conf, self.world.now_us, _ROOT)
        events = change_jobs(cluster, name, action.fields, request, context)
        if isinstance(events, str):
            self.refused[events] += 1
        else:
            self.controller.writer.record(events)

    def _suspend(self, name: str, action: act.Suspended) -> None:
        """Suspend or resume a job as in the past, if it is in a state for that."""
        message = SuspendJobs(request_id=_NO_ID, jobs=[name], resume=action.resume)
        verb = "resumed" if action.resume else "suspended"
        for text in self._ask_all(message):
            self.refused[f"a job to be {verb}: {text}"] += 1

    def _ask_all(self, message: CancelJobs | SuspendJobs | UpdateJob) -> list[str]:
        """Change all that one id names, some records at a time; return what went wrong."""
        kind = "Cancelled" if isinstance(message, CancelJobs) else "JobsChanged"
        errors: list[str] = []
        while True:
            reply = self._ask(message, _ROOT).reply_to
            answer = decode_reply(kind, reply) if isinstance(reply, bytes) else reply
            if not isinstance(answer, Cancelled | JobsChanged):
                return errors
            errors += [text for _, _, text in answer.errors]
            if not answer.is_partial or answer.next_id:
                return errors
            message = msgspec.structs.replace(
                message, from_job=answer.next_job, below_job=answer.below_job
            )

    # What comes of it ---------------------------------------------------------------------------

    def _run_time_us(self, job_id: int) -> int:
        job = self.controller.cluster.jobs[job_id]
        key = self._ids.key(job)
        known = self.recording.runs.get(key) if key is not None else None
        if known is not None:
            return known.run_us
        # It was cancelled before it ran, so its run time is unknown; its limit ends it, or the
        # user.
        return (job.time_limit_min if job.time_limit_min < NO_VAL else 60) * MINUTE_US

    def _applied(self, events: Sequence[ev.AnyEvent]) -> None:
        cluster = self.controller.cluster
        for event in events:
            if isinstance(event, ev.JobAllocated):
                self._started(cluster.jobs[event.job_id])
            elif isinstance(event, ev.JobCompleting):
                job = cluster.jobs[event.job_id]
                key = self._ids.key(job)
                run = self.runs.get(key) if key is not None else None
                if run is not None:
                    run.end_us = job.end_us
                    run.run_us = max(job.end_us - job.start_us - job.suspended_us, 0)

    def _started(self, job: Job) -> None:
        key = self._ids.key(job)
        if key is None or key in self.runs:
            return
        self.runs[key] = Run(
            user=job.user_name,
            account=job.account,
            partition=job.partition,
            cpus=sum(alloc.charged_cpus for alloc in job.nodes),
            eligible_us=job.eligible_us or job.submit_us,
            start_us=job.start_us,
        )
