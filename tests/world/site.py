"""A site in this process: a slurm.conf, its cluster, the controller's rules, passes and time.

Nothing runs by itself: a test submits, runs passes and lets time pass. What happens goes through
the events of the journal, and the cluster is checked after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.explained import explained
from pyslurm_ng.ctld.queries.job_fields import soft_values
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.calendar import UTC, Calendar
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.nodes import reports
from pyslurm_ng.ctld.rules.reservation import reservation_due
from pyslurm_ng.ctld.rules.starts import preempt
from pyslurm_ng.ctld.rules.submission import qos_choice
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame import measures as frame
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.limits.account_checks import AccountWatch
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.callers import ALICE
from tests.world.passes import PlanFunction, preempt_all, start_all


class Site:
    """A site whose nodes have all registered; by default four nodes of sixteen cores."""

    def __init__(
        self,
        more: str = "",
        plan: PlanFunction | None = None,
        *,
        text: str = FOUR_NODES,
        calendar: Calendar = UTC,
        cluster: Cluster | None = None,
        now_us: int = START_US,
    ) -> None:
        """Begin.

        Args:
            more: lines added to slurm.conf, whose other lines are `text`.
            plan: what plans a pass, if not the planner of the configuration.
            cluster: one that is there already.
        """
        self.conf: SlurmConf = conf_of(f"{text}\n{more}\n")
        self.cluster: Cluster = cluster or cluster_of(self.conf, now_us)
        self.plan = plan or Planner()
        self.calendar = calendar
        self.now_us = now_us
        self.soft = Soft(now_us)
        self.fairshare: dict[int, float] = {}  # by association
        self._followers: list[Callable[[Sequence[ev.AnyEvent]], None]] = []

    def follow(self, applied: Callable[[Sequence[ev.AnyEvent]], None]) -> None:
        """Tell a function of each batch of events once it is applied, as the writer does."""
        self._followers.append(applied)

    def apply(self, events: Sequence[ev.AnyEvent]) -> None:
        """Apply events as they come back from the journal, and check the cluster."""
        if not events:
            return
        batch = decode_batch(encode_batch(list(events)))
        apply_all(self.cluster, batch)
        self.check()
        for applied in self._followers:
            applied(batch)

    def check(self) -> None:
        """See that the cluster is sound."""
        assert check(self.cluster) == []

    def context(self, who: Caller = ALICE) -> Context:
        """Return a rule's surroundings now."""
        return Context(self.conf, self.now_us, who, self.calendar)

    # Submission -------------------------------------------------------------------------------

    def answer(
        self, who: Caller = ALICE, script: bytes = b"#!/bin/sh\n", **request: object
    ) -> Decision | Reject:
        """Return what the rule answers to a submission; what it accepts is applied."""
        message = SubmitJob(bytes(16), JobRequest(**request), script)  # type: ignore[arg-type]
        outcome = submit_job(self.cluster, message, self.context(who))
        if isinstance(outcome, Decision):
            self.apply(outcome.events)
        return outcome

    def submit(self, who: Caller = ALICE, **request: object) -> Job | int:
        """Submit a job; return it, or the number it is refused with."""
        outcome = self.answer(who, **request)
        if isinstance(outcome, Reject):
            return outcome.code
        return self.cluster.jobs[outcome.reply.job_id]  # type: ignore[union-attr]

    def submit_parts(self, *requests: JobRequest) -> Decision | Reject:
        """Submit components of one job of alice; apply what comes of it."""
        message = SubmitJob(bytes(16), requests[0], b"#!/bin/sh\n", b"", list(requests[1:]))
        outcome = submit_job(self.cluster, message, self.context())
        if isinstance(outcome, Decision):
            self.apply(outcome.events)
        return outcome

    def job(self, who: Caller = ALICE, **request: object) -> Job:
        """Submit a job that is accepted; return it."""
        job = self.submit(who, **request)
        assert isinstance(job, Job), job
        return job

    def refused(self, who: Caller = ALICE, **request: object) -> int:
        """Submit a job that is refused; return the number it is refused with."""
        code = self.submit(who, **request)
        assert isinstance(code, int), code
        return code

    def accept(self, minutes: int = 60, **request: object) -> Job:
        """Return a job that is recorded as accepted; no rule judges it."""
        asked = JobRequest(**request)  # type: ignore[arg-type]
        job_id = submit(self.cluster, asked, self.now_us, time_limit_min=minutes)
        return self.cluster.jobs[job_id]

    def running(self, who: Caller = ALICE, **request: object) -> Job:
        """Return a job that has just started."""
        job = self.job(who, **request)
        self.run_pass()
        self.expect(job, JobState.RUNNING)
        return job

    def waiting(self, who: Caller = ALICE, **request: object) -> Job:
        """Return a job that a pass has left waiting."""
        job = self.job(who, **request)
        self.run_pass()
        self.expect(job, JobState.PENDING)
        return job

    # Passes and time --------------------------------------------------------------------------

    def run_pass(self, *, preempts: bool = True) -> Plan:
        """Run one pass as the scheduler does; every start it wants must still be allowed.

        Args:
            preempts: False: what the plan preempts stays where it is.
        """
        rules, cluster = policy(self.conf), self.cluster
        view = replace(snapshot(cluster, self.now_us), limits=self._limits())
        plan = self.plan(view, rules)
        self.soft.planned(plan, plan.waits, queue_length=0, took_us=0, now_us=self.now_us)
        if preempts:
            preempt_all(cluster, plan, self.now_us, self.apply, rules)
        start_all(cluster, plan, self.now_us, self.apply)
        self.apply(preempt.resumed(cluster, self.now_us))
        limits = self._limits()
        if limits is not None:
            waiting = [job for job in view.waiting if "," in job.request.qos]
            self.apply(qos_choice.changes(cluster, waiting, limits, self.context()))
        return plan

    def _limits(self) -> frame.Limits | None:
        """Return the limits in force, with what runs now counted."""
        rules, limits = policy(self.conf), None
        if rules.enforces_limits:
            limits = UsageIndex(self.cluster).quotas(self.now_us, is_safe=rules.is_safe)
        return AccountWatch().limits(
            self.cluster,
            limits,
            enforces_associations=rules.enforces_associations,
            fairshare=self.fairshare if rules.enforces_limits else None,
        )

    def advance(self, by_us: int = 0) -> None:
        """Let time pass, and what it brings about happen."""
        self.now_us += by_us
        self.apply(timers.due(self.cluster, self.conf, {}, self.now_us))
        self.apply(reservation_due.due(self.cluster, self.conf, self.now_us, self.calendar))

    def end(
        self, job: Job, state: JobState = JobState.COMPLETED, status: int = 0, flags: int = 0
    ) -> None:
        """Let a job end now with a wait status; its nodes are clean at once."""
        nodes = frozenset(alloc.node_id for alloc in job.nodes)
        end = job_end.End(state, exit_code=status, flags=flags)
        self.apply(job_end.complete(self.cluster, job, end, self.now_us, clean_nodes=nodes))

    # What nodes report ------------------------------------------------------------------------

    def duty(self, job: Job, kind: DutyKind) -> Duty:
        """Return what the batch node owes for a job."""
        owed = self.cluster.duties[job.batch_node_id].values()
        (duty,) = (duty for duty in owed if duty.kind == kind and duty.job_id == job.job_id)
        return duty

    def ended(self, job: Job, status: int, flags: int = 0) -> Job:
        """Let a job's script end with a wait status, its batch node clean at once."""
        duty = self.duty(job, DutyKind.LAUNCH)
        report = nm.BatchEnded(job.job_id, job.attempt, duty.duty_id, status, self.now_us,
                               self.now_us, flags | END_CLEAN)  # fmt: skip
        self.apply(reports.judge(self.cluster, job.batch_node_id, report, self.conf, self.now_us))
        return job

    # Accounting -------------------------------------------------------------------------------

    def account(self, own: Limits | None = None, quality: Limits | None = None) -> None:
        """Let alice have an account physics and a QOS normal, each with limits."""
        alice = Association(3, "physics", "alice", parent_id=2, limits=own or Limits(),
                            qos=("normal", "late"))  # fmt: skip
        physics = Association(2, "physics", parent_id=1)
        normal = Qos(1, "normal", limits=quality or Limits())
        users = (UserRecord("alice", "physics"),)
        self.apply(
            [
                ev.QosChanged(self.now_us, (normal, Qos(2, "late"))),
                ev.AssocChanged(
                    self.now_us,
                    changed=(Association(1, "root"), physics, alice),
                    users=users,
                    version=1,
                ),
            ]
        )

    # What can be seen -------------------------------------------------------------------------

    def expect(self, job: Job | int, state: JobState, reason: Reason | None = None) -> None:
        """See that a job is in a state, and that commands show this reason for it."""
        if isinstance(job, int):
            job = self.cluster.jobs[job]
        assert job.state == state, (JobState(job.state).name, self.shown(job))
        if reason is not None:
            assert self.shown(job)[0] == reason.name, self.shown(job)

    def shown(self, job: Job) -> tuple[str, str]:
        """Return the reason's name and Slurm's words in its place, as commands get them."""
        values = soft_values(self.cluster, self.soft, job)
        return values.reason, values.reason_text

    def sentences(self, job: Job) -> list[str]:
        """Return what `scontrol explain` says that a job waits for."""
        return explained(self.cluster, self.soft, job, None, [], 0, self.now_us).waits_for

    def places(self, job: Job) -> list[str]:
        """Return the names of the nodes that a job runs on."""
        return self.cluster.node_names([alloc.node_id for alloc in job.nodes])
